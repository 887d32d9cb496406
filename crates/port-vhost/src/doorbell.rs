//! The eventfd by which a guest is notified.

use crate::notifier::Notifier;
use rustix::fs::readlink;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// An eventfd of the other side.
#[derive(Debug)]
pub struct Doorbell {
    file: OwnedFd,
    notifier: Arc<Notifier>,
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
        Ok(Doorbell { file, notifier })
    }

    /// Notifies, without waiting for anything.
    pub fn ring(&self) {
        self.notifier.signal(self.file.as_fd());
    }
}
