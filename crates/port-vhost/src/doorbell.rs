//! The eventfd by which a guest is notified.

use crate::notifier::Notifier;
use rustix::fs::readlink;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An eventfd of the other side.
#[derive(Debug)]
pub struct Doorbell {
    file: OwnedFd,
    notifier: Arc<Notifier>,
    /// Whether the thread of the port must notify.
    is_due: AtomicBool,
}

impl Doorbell {
    /// Takes a descriptor, which must be an eventfd: the kernel signals no other kind.
    ///
    /// # Errors
    /// It is another kind of file.
    pub fn new(file: OwnedFd, notifier: Arc<Notifier>) -> Result<Doorbell, String> {
        let link = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new());
        if !link.is_ok_and(|link| link.as_bytes() == b"anon_inode:[eventfd]") {
            return Err("a descriptor for notifications is not an eventfd".to_owned());
        }
        Ok(Doorbell { file, notifier, is_due: AtomicBool::new(false) })
    }

    /// Notifies, without waiting for anything, or leaves it to the thread of the port.
    #[inline]
    pub fn ring(&self) {
        if !self.notifier.signal_in_time(self.file.as_fd()) {
            self.is_due.store(true, Ordering::Release);
            self.notifier.wake();
        }
    }

    /// Notifies on the thread of the port, if that was left to it.
    pub fn ring_if_due(&self) {
        if self.is_due.swap(false, Ordering::AcqRel) {
            self.notifier.signal(self.file.as_fd());
        }
    }
}
