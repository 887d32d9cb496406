//! The eventfd by which a guest is notified.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, readlink};
use std::os::fd::{AsRawFd, OwnedFd};

/// An eventfd of the other side.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// Takes a descriptor that must be an eventfd: writing to another one could block the worker. Writing to an
    /// eventfd does not, as it is made non-blocking. The other side shares this flag: it can clear it and fill the
    /// counter, and the kernel has no write to an eventfd that ignores it.
    ///
    /// # Errors
    /// It is another kind of file.
    pub fn new(file: OwnedFd) -> Result<Doorbell, String> {
        let link = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new());
        if !link.is_ok_and(|link| link.as_bytes() == b"anon_inode:[eventfd]") {
            return Err("a descriptor for notifications is not an eventfd".to_owned());
        }
        let flags = fcntl_getfl(&file).map_err(|error| error.to_string())?;
        fcntl_setfl(&file, flags | OFlags::NONBLOCK).map_err(|error| error.to_string())?;
        Ok(Doorbell(file))
    }

    /// Notifies.
    pub fn ring(&self) {
        // It fails only if the counter is at its limit, and then the other side has not looked yet.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}
