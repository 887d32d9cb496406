//! Sleeping until a port has packets, another thread wakes this one, or a timeout expires.

use port::PortError;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The token of the waker, which callers cannot use.
const WAKER_TOKEN: u64 = u64::MAX;
/// Most descriptors reported by one wait; further ones are reported by the next.
const EVENTS: usize = 64;

/// The descriptors for which a sleeping worker waits, each with a token of the caller, and a [`Waker`].
/// Waiting allocates nothing.
#[derive(Debug)]
pub struct Waiter {
    epoll: OwnedFd,
    waker: Waker,
    ready: Vec<u64>,
}

/// Ends the sleep of one [`Waiter`], from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Wake>);

#[derive(Debug)]
struct Wake {
    eventfd: OwnedFd,
    /// A wake is pending that the waiter has not processed; further wakes then need no system call.
    pending: AtomicBool,
}

/// Why [`Waiter::wait`] returned; both fields are empty after a timeout.
#[derive(Debug, PartialEq, Eq)]
pub struct Woken<'a> {
    /// Tokens of descriptors that are readable or have an error, which a read reports.
    pub ready: &'a [u64],
    /// Whether a [`Waker`] was used since the last wait.
    pub by_waker: bool,
}

impl Waker {
    /// Makes the current wait, or else the next one, return.
    pub fn wake(&self) {
        // If a wake is pending, the waiter will clear the flag before it looks for work, so it sees
        // everything that was ready before this call.
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // Fails only if the counter would overflow, and then the waiter is awake anyway.
            let _ = rustix::io::write(&self.0.eventfd, &1u64.to_ne_bytes());
        }
    }
}

impl Waiter {
    /// A waiter without descriptors, except for its waker.
    pub fn new() -> Result<Waiter, PortError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|e| failed("create the waiter", e.into()))?;
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| failed("create the waker", e.into()))?;
        let waker = Waker(Arc::new(Wake { eventfd, pending: AtomicBool::new(false) }));
        let waiter = Waiter { epoll, waker, ready: Vec::with_capacity(EVENTS) };
        waiter
            .control(libc::EPOLL_CTL_ADD, waiter.waker.0.eventfd.as_raw_fd(), WAKER_TOKEN)
            .map_err(|e| failed("watch the waker", e))?;
        Ok(waiter)
    }

    /// Returns a handle that wakes this waiter.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Watches a descriptor (such as [`port::RxQueue::wake_fd`]) for reading, until it is closed or removed
    /// by [`Waiter::forget`]. `token` is returned in [`Woken::ready`]; it must not be `u64::MAX`.
    pub fn watch(&mut self, fd: RawFd, token: u64) -> Result<(), PortError> {
        if token == WAKER_TOKEN {
            return Err(PortError::Invalid {
                device: format!("descriptor {fd}"),
                reason: "this token is the waker's own; use another".to_owned(),
            });
        }
        self.control(libc::EPOLL_CTL_ADD, fd, token).map_err(|e| failed("watch a descriptor", e))
    }

    /// Stops watching a descriptor. The kernel removes closed ones by itself.
    pub fn forget(&mut self, fd: RawFd) {
        // The only error is that it is not watched.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0);
    }

    /// Sleeps until a descriptor is readable, the waker is used or `timeout` expires; without a timeout
    /// forever. A signal ends the sleep early, with both fields empty.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Woken<'_>, PortError> {
        self.ready.clear();
        // The call rounds up to milliseconds; the limit is that of the oldest kernels.
        let timeout = timeout.map(|t| {
            let t = t.min(Duration::from_secs(1_000_000));
            Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) }
        });
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let events = match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => &mut [],
            Err(e) => return Err(failed("wait", e.into())),
        };
        let mut by_waker = false;
        for event in events {
            let token = event.data.u64();
            if token == WAKER_TOKEN {
                by_waker = true;
            } else {
                self.ready.push(token);
            }
        }
        if by_waker {
            let mut count = [0; 8];
            // Resets the counter, which is not zero, because only this thread reads it.
            let _ = rustix::io::read(&self.waker.0.eventfd, &mut count);
            self.waker.0.pending.swap(false, Ordering::AcqRel);
        }
        Ok(Woken { ready: &self.ready, by_waker })
    }

    fn control(&self, operation: i32, fd: RawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: epoll_ctl() reads one event from a local that lives until it returns. A number that is not
        // an open descriptor yields an error, so any number may be passed.
        let rc = unsafe {
            libc::epoll_ctl(self.epoll.as_fd().as_raw_fd(), operation, fd, &raw mut event)
        };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn failed(what: &'static str, source: io::Error) -> PortError {
    PortError::System { device: "worker".to_owned(), what, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const SOON: Option<Duration> = Some(Duration::from_millis(20));

    #[test]
    fn time_descriptors_and_wakers_end_the_wait() {
        let mut waiter = Waiter::new().unwrap();
        let start = Instant::now();
        assert_eq!(waiter.wait(SOON).unwrap(), Woken { ready: &[], by_waker: false });
        assert!(start.elapsed() >= Duration::from_millis(19));

        let (reader, writer) = rustix::pipe::pipe().unwrap();
        waiter.watch(reader.as_raw_fd(), 7).unwrap();
        assert!(waiter.watch(reader.as_raw_fd(), 7).is_err(), "it is watched already");
        assert!(waiter.watch(-1, 8).is_err());
        assert!(waiter.watch(writer.as_raw_fd(), u64::MAX).is_err());
        rustix::io::write(&writer, b"x").unwrap();
        for _ in 0..2 {
            // Level triggered: a descriptor that was not read is reported again.
            assert_eq!(waiter.wait(None).unwrap().ready, [7]);
        }
        waiter.forget(reader.as_raw_fd());
        waiter.waker().wake();
        waiter.waker().wake();
        assert_eq!(waiter.wait(None).unwrap(), Woken { ready: &[], by_waker: true });
        assert_eq!(waiter.wait(SOON).unwrap(), Woken { ready: &[], by_waker: false });
    }

    #[test]
    fn no_wake_is_lost() {
        let mut waiter = Waiter::new().unwrap();
        let waker = waiter.waker();
        let (work, done) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            for i in 0..20_000 {
                work.send(i).unwrap();
                waker.wake();
            }
        });
        let mut seen = 0;
        while seen < 20_000 {
            let woken = waiter.wait(Some(Duration::from_secs(10))).unwrap();
            assert!(woken.by_waker, "a wake was lost after {seen}");
            seen += done.try_iter().count();
        }
        thread.join().unwrap();
    }
}
