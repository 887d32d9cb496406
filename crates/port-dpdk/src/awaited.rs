//! Devices that are there only when the other side has connected.
//!
//! DPDK's `net_virtio_user` with `server=1` makes a socket and is plugged in when another program has
//! connected to it, however long that takes. Each such device is plugged in on a thread of its own, so
//! that the thread that opens ports need not wait with it.

use crate::config::remove_left_socket;
use crate::device::{close, find};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// DPDK's number of a device, and whether it was plugged in for this; or why there is none.
pub type Found = Result<(u16, bool), String>;

/// How long a device may take to make its socket, and to go when it is not wanted any more.
const PATIENCE: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(1);

/// The devices that are waited for, by their arguments.
static AWAITED: Mutex<BTreeMap<String, Awaited>> = Mutex::new(BTreeMap::new());

/// A device that is being plugged in. It is not waited for any more when this is dropped.
#[derive(Debug)]
struct Awaited {
    socket: PathBuf,
    /// None when its outcome was taken.
    thread: Option<JoinHandle<Found>>,
}

/// The device that the arguments name, as [`find`] gives it; where the other side has to come first, an
/// error that says so, until that happened.
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

/// Gives up the devices that are waited for and are not among those `wanted`, by their arguments; says
/// whether one of the others is there now, or will not come, so that its port is to be opened again.
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
    /// Begins to plug it in. A thread that asks DPDK for another device meanwhile must not meet this one in
    /// lists that are not locked, so this returns when it waits or has failed.
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

    /// What came of it, once, if it is known.
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
        // DPDK waits for one connection and fails with one that says nothing.
        if !self.has_ended() {
            drop(UnixStream::connect(&self.socket));
            wait_for(|| self.has_ended());
        }
        match self.outcome() {
            Some(Ok((port, attached))) => close(port, attached),
            // It leaves its socket behind, where the next one could not make its own.
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
