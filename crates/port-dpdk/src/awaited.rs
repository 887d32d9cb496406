//! Devices that exist only after the other side has connected.
//!
//! DPDK's `net_virtio_user` with `server=1` creates a socket and is attached when another program has
//! connected to it, however long that takes. Each such device is attached on its own thread, so that the
//! thread that opens ports does not wait.

use crate::config::remove_left_socket;
use crate::plug::{Found, close, find};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a device may take to create its socket, and to stop when it is not wanted any more.
const PATIENCE: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(1);

/// The awaited devices, by their arguments.
static AWAITED: Mutex<BTreeMap<String, Awaited>> = Mutex::new(BTreeMap::new());

/// A device being attached. Dropping it gives up.
#[derive(Debug)]
struct Awaited {
    socket: PathBuf,
    /// `None` once the outcome was taken.
    thread: Option<JoinHandle<Found>>,
}

/// The device with these arguments, as [`find`] returns it; while the other side has not connected, an error
/// that says so.
pub fn find_or_wait(devargs: &str) -> Found {
    let Some(socket) = socket_of(devargs) else { return find(devargs) };
    let mut all = lock();
    let mut awaited = match all.remove(devargs) {
        Some(awaited) => awaited,
        None => Awaited::begin(devargs, socket)?,
    };
    if let Some(found) = awaited.outcome() {
        return found;
    }
    all.insert(devargs.to_owned(), awaited);
    let socket = socket.display();
    Err(format!("it waits until another program connects to {socket}, its end of vhost-user"))
}

/// Gives up awaited devices that are not among those `wanted`, by their arguments. Returns whether one of the
/// others has become available or has failed, so that its port must be opened again.
pub fn look_at_awaited(wanted: &[&str]) -> bool {
    let mut all = lock();
    all.retain(|devargs, _| wanted.contains(&devargs.as_str()));
    all.values().any(Awaited::has_ended)
}

fn lock() -> MutexGuard<'static, BTreeMap<String, Awaited>> {
    AWAITED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The socket of a device that waits for its other side.
fn socket_of(devargs: &str) -> Option<&Path> {
    let (name, arguments) = devargs.split_once(',')?;
    let value = |key: &str| {
        let mut pairs = arguments.split(',').filter_map(|argument| argument.split_once('='));
        pairs.find_map(|(found, value)| (found == key).then_some(value))
    };
    let is_virtio = name.starts_with("net_virtio_user") || name.starts_with("virtio_user");
    let is_server = is_virtio && value("server").is_some_and(|value| value != "0");
    is_server.then(|| value("path").map(Path::new))?
}

impl Awaited {
    /// Begins to attach the device. Returns once it waits or has failed: another thread that asks DPDK for a
    /// device must not run while this one changes DPDK's unlocked lists.
    fn begin(devargs: &str, socket: &Path) -> Result<Awaited, String> {
        remove_left_socket(socket);
        let text = devargs.to_owned();
        let thread = std::thread::Builder::new().name("dpdk-plug".to_owned());
        let thread = thread.spawn(move || find(&text)).map_err(|error| error.to_string())?;
        let awaited = Awaited { socket: socket.to_owned(), thread: Some(thread) };
        wait_for(|| awaited.has_ended() || socket.exists());
        Ok(awaited)
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The outcome, once, if it is known.
    fn outcome(&mut self) -> Option<Found> {
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        Some(thread.join().unwrap_or_else(|_| Err("plugging it in failed".to_owned())))
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if self.thread.is_none() {
            return;
        }
        // DPDK waits for one connection, and fails after one that sends nothing.
        if !self.has_ended() {
            drop(UnixStream::connect(&self.socket));
            wait_for(|| self.has_ended());
        }
        match self.outcome() {
            Some(Ok((port, attached))) => close(port, attached),
            // DPDK leaves the socket behind, which would keep the next device from creating its own.
            Some(Err(_)) => drop(std::fs::remove_file(&self.socket)),
            None => log::warn!(
                target: "netdev_dpdk",
                "{}: the peer that connected there neither goes nor speaks, so its device stays",
                self.socket.display()
            ),
        }
    }
}

fn wait_for(is_so: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / AGAIN.as_millis() {
        if is_so() {
            return;
        }
        std::thread::sleep(AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_waits() {
        for (devargs, expect) in [
            ("net_virtio_user0,path=/a,server=1", Some("/a")),
            ("net_virtio_user7,server=1,queues=2,path=/run/b", Some("/run/b")),
            ("virtio_user0,path=/a,server=1", Some("/a")),
            ("net_virtio_user0,path=/a", None),
            ("net_virtio_user0,path=/a,server=0", None),
            ("net_virtio_user0,server=1", None),
            ("net_memif0,role=server,server=1,path=/a", None),
            ("0000:01:00.0", None),
        ] {
            assert_eq!(socket_of(devargs), expect.map(Path::new), "{devargs}");
        }
    }
}
