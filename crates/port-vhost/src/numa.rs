//! The NUMA node of a guest's memory.

use libc::{c_int, c_long, c_ulong};
use vm_memory::VolatileSlice;

/// From `linux/mempolicy.h`: the node of an address, instead of a policy.
const MPOL_F_NODE: c_ulong = 1;
const MPOL_F_ADDR: c_ulong = 2;

/// Returns the node of the memory's first page; `None` if the kernel does not tell.
pub fn node_of(memory: &VolatileSlice<'_>) -> Option<u16> {
    let mut node: c_int = -1;
    let (no_mask, no_bits) = (std::ptr::null_mut::<c_ulong>(), 0 as c_ulong);
    let (address, flags) = (memory.ptr_guard().as_ptr(), MPOL_F_NODE | MPOL_F_ADDR);
    // SAFETY: needed because there is no safe interface of get_mempolicy(2). It writes to a local, and only looks up the
    // page of the address: an invalid one is an error.
    let result: c_long = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut node, no_mask, no_bits, address, flags)
    };
    if result == 0 { u16::try_from(node).ok() } else { None }
}
