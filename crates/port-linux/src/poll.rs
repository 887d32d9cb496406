//! Sleeping until a port has packets, another thread calls, or time is up.

use port::PortError;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The waker's own token; no caller can use it.
const WAKER_TOKEN: u64 = u64::MAX;
/// Descriptors reported by one wait; more are reported by the next.
const EVENTS: usize = 64;

/// What a sleeping worker sleeps on: descriptors, each with a number of the caller's, and a
/// [`Waker`]. Waiting allocates nothing.
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
    /// A wake is under way that the waiter has not seen; saves the call for those that follow.
    pending: AtomicBool,
}

/// Why [`Waiter::wait`] returned; nothing of both when time was up.
#[derive(Debug, PartialEq, Eq)]
pub struct Woken<'a> {
    /// The tokens of descriptors that are readable, or broken: reading them tells.
    pub ready: &'a [u64],
    /// Whether a [`Waker`] was used since the last wait.
    pub by_waker: bool,
}

impl Waker {
    /// Makes the waiter's wait, the present one or else the next, return.
    pub fn wake(&self) {
        // A thread that finds a wake pending already may leave: the waiter clears the mark before it
        // looks for work, so it will see what was made ready before this call.
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // Fails only where the counter would overflow, and then the waiter is awake anyway.
            let _ = rustix::io::write(&self.0.eventfd, &1u64.to_ne_bytes());
        }
    }
}

impl Waiter {
    /// A waiter that waits for nothing but its waker.
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

    /// A handle that ends this waiter's sleep.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Watches a descriptor (such as [`port::RxQueue::wake_fd`]) for reading, until it is closed
    /// or forgotten. `token` comes back in [`Woken::ready`]; it may not be `u64::MAX`.
    pub fn watch(&mut self, fd: RawFd, token: u64) -> Result<(), PortError> {
        if token == WAKER_TOKEN {
            return Err(PortError::Invalid {
                device: format!("descriptor {fd}"),
                reason: "this token is the waker's own; use another".to_owned(),
            });
        }
        self.control(libc::EPOLL_CTL_ADD, fd, token).map_err(|e| failed("watch a descriptor", e))
    }

    /// Watches a descriptor no longer. One that is closed was forgotten already.
    pub fn forget(&mut self, fd: RawFd) {
        // The only errors say that it is not watched.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0);
    }

    /// Sleeps until a descriptor is readable, the waker is used or `timeout` is over; for ever
    /// without one. A signal ends the sleep early, with nothing ready.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Woken<'_>, PortError> {
        self.ready.clear();
        // Rounded up to milliseconds by the call, and limited to what the oldest kernels take.
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
            // Empties the counter; it cannot be empty, since this thread alone reads it.
            let _ = rustix::io::read(&self.waker.0.eventfd, &mut count);
            self.waker.0.pending.swap(false, Ordering::AcqRel);
        }
        Ok(Woken { ready: &self.ready, by_waker })
    }

    fn control(&self, operation: i32, fd: RawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: epoll_ctl() reads one event at a local that lives until it returns. A number
        // that is no open descriptor is answered with an error, so any may be passed.
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
            // Level triggered: what is not read is reported again.
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
