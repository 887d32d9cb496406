//! Pools of DPDK's packet buffers.

use crate::ffi;
use packet::{Head, Lender};
use std::ffi::{CString, c_void};
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Preferred number of buffers per pool (ovs: `lib/netdev-dpdk.c`, `MAX_NB_MBUF`).
const BUFFERS: u32 = 1 << 18;
/// Minimum number of buffers per pool.
const BUFFERS_MIN: u32 = 1 << 12;
/// Buffer sizes are multiples of this, so that few pools serve all ports.
const SIZE_STEP: u32 = 1024;
/// Headroom that DPDK reserves in front of a frame (RTE_PKTMBUF_HEADROOM).
const HEADROOM: u32 = 128;
/// The longest frame that fits into one buffer; longer ones use several (ovs: `lib/netdev-dpdk.c`,
/// `NETDEV_DPDK_MAX_PKT_LEN`).
const FRAME_MAX: u32 = 9728;
/// The largest valid MTU.
pub(crate) const MTU_MAX: u16 = (FRAME_MAX - FRAME_OVERHEAD) as u16;
/// Bytes of a frame besides its IP packet: Ethernet header, two VLAN tags, FCS.
const FRAME_OVERHEAD: u32 = 14 + 8 + 4;

/// A pool of buffers. It is never freed: its packets may be in some device's ring long after the port that
/// received them is closed. All ports that need this buffer size share it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    pool: NonNull<c_void>,
}

// SAFETY: pools are made for use by many threads at once (rte_mempool.h), and live for ever.
unsafe impl Send for Buffers {}
// SAFETY: as above.
unsafe impl Sync for Buffers {}

/// The owner of DPDK's buffers that packets borrow.
// SAFETY: needed because a driver in C owns the buffers. Only buffers that the shim allows to keep are lent in its name,
// and each is taken back once: by this function, or when DPDK sends it.
pub(crate) static LENDER: Lender = unsafe { Lender::new(take_back) };

/// Frees a buffer that no packet uses any more.
///
/// # Safety
/// `head` is the head of a buffer that was lent in the name of [`LENDER`]. The buffer was not taken back since, and no
/// reference to it remains.
unsafe fn take_back(head: NonNull<Head>) {
    // SAFETY: needed since only DPDK can free its buffers. The caller passes one of them, which no other thread uses;
    // its pool is never freed and may be used by any thread.
    unsafe { ffi::tidegate_dpdk_take_back(head.as_ptr().cast()) }
}

struct Known {
    data_bytes: u16,
    numa: i32,
    buffers: Buffers,
}

static POOLS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

impl Buffers {
    /// The pool of a NUMA node for this MTU, with buffers of at least `min_bytes`.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn for_mtu(mtu: u16, min_bytes: u32, numa: i32) -> io::Result<Buffers> {
        let numa = numa.max(0);
        let frame = (u32::from(mtu) + FRAME_OVERHEAD).min(FRAME_MAX).max(min_bytes);
        let bytes = frame.next_multiple_of(SIZE_STEP) + HEADROOM;
        let data_bytes = u16::try_from(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "frames are too large"))?;
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pools.iter().find(|p| (p.data_bytes, p.numa) == (data_bytes, numa));
        if let Some(known) = known {
            return Ok(known.buffers);
        }
        let name = CString::new(format!("tidegate{data_bytes}n{numa}"))?;
        let (mut count, head) = (BUFFERS, Head::lent(data_bytes.into(), &LENDER));
        while count >= BUFFERS_MIN {
            // SAFETY: name and head are read during the call only. One less than a power of two
            // fills the pool's ring exactly.
            let pool = unsafe {
                let head = (&raw const head).cast();
                ffi::tidegate_dpdk_pool(name.as_ptr(), count - 1, data_bytes, numa, head)
            };
            if let Some(pool) = NonNull::new(pool) {
                log::info!(target: "netdev_dpdk", "{count} buffers of {data_bytes} bytes on node {numa}");
                pools.push(Known { data_bytes, numa, buffers: Buffers { pool } });
                return Ok(Buffers { pool });
            }
            count /= 2;
        }
        Err(io::Error::from(io::ErrorKind::OutOfMemory))
    }

    /// The pointer for the shim.
    pub fn as_ptr(self) -> *mut c_void {
        self.pool.as_ptr()
    }
}
