//! Finds devices, plugs them in, and closes them.

use crate::start::{check, take_words, with_words};
use crate::{ffi, rte_flow};
use std::ffi::{CString, c_int};

/// DPDK's port number and whether the device was attached for this call; or why there is none.
pub type Found = Result<(u16, bool), String>;

/// DPDK's port number of the device with these arguments, which is attached if it does not exist, and whether
/// it was.
pub(crate) fn find(devargs: &str) -> Found {
    let attaching = |why: String| format!("Error attaching device '{devargs}' to DPDK: {why}");
    let text = CString::new(devargs).map_err(|_| attaching("it has a zero byte".to_owned()))?;
    let (mut port, mut attached) = (0, 0);
    take_words();
    // SAFETY: the shim reads a string that ends in a zero and writes two numbers, all of which
    // outlive the call.
    let answer =
        unsafe { ffi::tidegate_dpdk_find(text.as_ptr(), &raw mut port, &raw mut attached) };
    check(answer).map_err(|error| attaching(with_words(&error)))?;
    Ok((port, attached != 0))
}

pub(crate) fn close(port: u16, attached: bool) {
    rte_flow::remove_rules(port);
    // SAFETY: an order by number. The caller holds the device alone: no other thread received its
    // number, or all that had it are gone.
    unsafe { ffi::tidegate_dpdk_close(port, c_int::from(attached)) }
}
