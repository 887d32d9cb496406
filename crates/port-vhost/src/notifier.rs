//! Signals eventfds of the other side, without a call that it could make wait.
//!
//! The other side shares an eventfd's flags: it can clear `O_NONBLOCK` and fill the counter, so that write(2) waits
//! for ever. The kernel itself signals an eventfd without waiting, for instance when a request of asynchronous I/O
//! is done (io_submit(2), `IOCB_FLAG_RESFD`). Here the request asks whether a readable descriptor is readable, which is
//! done at once.

use crate::pace::{Clocks, Pace};
use libc::{c_long, c_ulong, iocb};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Requests for which the kernel reserves room. It rounds up to a page of results.
const REQUESTS: u32 = 16;
/// Results that are removed at once; more than the kernel has room for.
const RESULTS: usize = 256;
/// Attempts to submit a request. Only the first may find no room, unless other threads submit at the same time.
const ATTEMPTS: usize = 4;
/// From `linux/aio_abi.h`.
const IOCB_CMD_POLL: u16 = 5;
const IOCB_FLAG_RESFD: u32 = 1;

/// The kernel's side of notifications. Several threads may use it.
#[derive(Debug)]
pub struct Notifier {
    context: c_ulong,
    /// An eventfd that is always readable.
    readable: OwnedFd,
    pace: Pace,
    /// Wakes the thread of the port, which notifies if a worker must not.
    wake: OwnedFd,
}

/// `struct io_event`: four words, none of which is of interest.
type IoEvent = [u64; 4];

impl Notifier {
    /// Prepares the kernel's side. `wake` is an eventfd that wakes the thread of the port.
    ///
    /// # Errors
    /// The kernel has no asynchronous I/O, or other programs have taken all of it (`fs.aio-max-nr`).
    pub fn new(wake: OwnedFd, clocks: Clocks) -> io::Result<Notifier> {
        let readable = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut context: c_ulong = 0;
        // SAFETY: needed because there is no safe interface of io_setup(2). It writes to a local.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, REQUESTS, &raw mut context) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Notifier { context, readable, pace: Pace::new(clocks), wake })
    }

    /// Signals, as [`Self::signal`]. Returns false if the thread of the port must do it.
    #[inline]
    pub fn signal_in_time(&self, file: BorrowedFd<'_>) -> bool {
        self.pace.run(|| self.signal(file))
    }

    /// Wakes the thread of the port.
    #[cold]
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Whether the thread of the port notifies.
    pub fn is_deferred(&self) -> bool {
        self.pace.is_deferred()
    }

    /// Adds one to the counter of an eventfd. A counter at its limit remains there.
    pub fn signal(&self, file: BorrowedFd<'_>) {
        // SAFETY: zeros are a valid request, the first of all commands.
        let mut request: iocb = unsafe { MaybeUninit::zeroed().assume_init() };
        request.aio_lio_opcode = IOCB_CMD_POLL;
        request.aio_fildes = self.readable.as_raw_fd() as u32;
        request.aio_buf = u64::from(PollFlags::IN.bits());
        request.aio_flags = IOCB_FLAG_RESFD;
        request.aio_resfd = file.as_raw_fd() as u32;
        for _ in 0..ATTEMPTS {
            if self.submit(&mut request) == 1 {
                return;
            }
            // The results fill all room, which is once in about a hundred times.
            self.remove_results();
        }
    }

    fn submit(&self, request: &mut iocb) -> c_long {
        let mut requests = [std::ptr::from_mut(request)];
        // SAFETY: needed because there is no safe interface of io_submit(2). The kernel copies the request, which has
        // no buffer, and does not keep the pointers.
        unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, 1 as c_long, requests.as_mut_ptr())
        }
    }

    #[cold]
    fn remove_results(&self) {
        let (mut results, at_once) = ([IoEvent::default(); RESULTS], [0 as c_long; 2]);
        let (results, at_once) = (results.as_mut_ptr(), at_once.as_ptr());
        let (least, most) = (0 as c_long, RESULTS as c_long);
        // SAFETY: needed because there is no safe interface of io_getevents(2). It writes at most `RESULTS` results to
        // the array, and does not wait since none is demanded.
        unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context, least, most, results, at_once)
        };
    }
}

impl Drop for Notifier {
    /// Takes a few tens of milliseconds in the kernel.
    fn drop(&mut self) {
        // SAFETY: needed because there is no safe interface of io_destroy(2). No request has memory of this process.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
