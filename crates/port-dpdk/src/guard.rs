//! Guest memory that is shorter than announced.
//!
//! A guest behind vhost-user shares its memory as files, and announces their sizes. The kernel answers an
//! access beyond a file's end with SIGBUS, which would end the switch and all its traffic; DPDK does not
//! compare the sizes. This handler maps a page of zeros in place of a missing one, so that the guest harms
//! only itself, and reports the guest to `guest.rs`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;
/// Maximum number of mapped pages, so that guests cannot exhaust memory with false sizes.
const PAGES_MAX: u64 = 1 << 16;

static GIVEN: AtomicU64 = AtomicU64::new(0);

/// Handles SIGBUS from now on, in the whole process.
pub fn install() -> io::Result<()> {
    // SAFETY: needed because there is no safe way to handle a signal. A zeroed `sigaction` is a valid
    // one, and `on_bus_error` does only what may be done in a handler (signal-safety(7)).
    let answer = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_bus_error(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands over a valid `siginfo_t`, and of SIGBUS it has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Faulty hardware memory (`BUS_MCEERR_AR`) must not be hidden.
    if code == libc::BUS_ADRERR && GIVEN.fetch_add(1, Relaxed) < PAGES_MAX && give(address) {
        crate::guest::blame();
        return;
    }
    // The instruction is repeated, and ends the process as without this handler.
    // SAFETY: this only takes the handler away.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

/// Maps zeros in place of the missing page of this address. The kernel refuses a small page within huge ones
/// (`EINVAL`); only then is a huge one mapped: it cannot overlap an adjacent mapping.
fn give(address: usize) -> bool {
    let before = errno();
    let is_given =
        map_zeros(address, PAGE) || (errno() == libc::EINVAL && map_zeros(address, HUGE_PAGE));
    // SAFETY: the place is the thread's own; the code that was interrupted finds it as it was.
    unsafe { *libc::__errno_location() = before };
    is_given
}

fn errno() -> libc::c_int {
    // SAFETY: the place is the thread's own.
    unsafe { *libc::__errno_location() }
}

fn map_zeros(address: usize, size: usize) -> bool {
    let start = (address & !(size - 1)) as *mut libc::c_void;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: something is mapped here already that has no memory behind it, as the signal says;
    // a reader of it trusts nothing that it finds there.
    unsafe { libc::mmap(start, size, protection, flags, -1, 0) == start }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_is_behind_a_file_s_end_is_zero() {
        install().unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(PAGE as u64).unwrap();
        let before = GIVEN.load(Relaxed);
        // SAFETY: a new mapping of four pages, the last three of which the file does not have, is
        // looked at and written within its bounds, and taken away again.
        unsafe {
            let (write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            let start =
                libc::mmap(std::ptr::null_mut(), 4 * PAGE, write, shared, file.as_raw_fd(), 0);
            assert_ne!(start, libc::MAP_FAILED);
            let bytes = start.cast::<u8>();
            bytes.write_volatile(1);
            assert_eq!(bytes.add(2 * PAGE + 5).read_volatile(), 0);
            bytes.add(3 * PAGE).write_volatile(7);
            assert_eq!((bytes.read_volatile(), bytes.add(3 * PAGE).read_volatile()), (1, 7));
            libc::munmap(start, 4 * PAGE);
        }
        assert_eq!(GIVEN.load(Relaxed) - before, 2);
    }
}
