//! Processes events of devices that appear, change and disappear.

use super::Shared;
use port::PortError;
use port_linux::{LinkEvent, LinkInfo, LinkMonitor};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// The wait after a failed reading.
const RETRY: Duration = Duration::from_secs(1);

/// Returns a watcher of a monitor's descriptor.
pub(super) fn watch(monitor: BorrowedFd<'_>, what: &str) -> Result<AsyncFd<OwnedFd>, PortError> {
    let failed =
        |source| PortError::System { device: what.to_owned(), what: "watch the monitor", source };
    let own = monitor.try_clone_to_owned().map_err(failed)?;
    // SAFETY: the descriptor must stay open and unchanged while it is watched; the watcher owns it, a
    // duplicate of the monitor's, and no other code has access to it.
    unsafe { AsyncFd::register(own) }.map_err(|error| failed(error.into()))
}

/// Passes device events to the switch, forever.
///
/// # Errors
/// The kernel does not deliver events.
pub async fn run(shared: Shared, mut monitor: LinkMonitor) -> Result<(), PortError> {
    let watched = watch(monitor.as_fd(), "links")?;
    loop {
        match monitor.events() {
            Ok(events) => {
                let mut switch = shared.borrow_mut();
                for event in events {
                    let (LinkEvent::Appeared(LinkInfo { name, .. })
                    | LinkEvent::Changed(LinkInfo { name, .. })
                    | LinkEvent::Renamed { was: name, .. }
                    | LinkEvent::Vanished { name, .. }) = &event;
                    // A DPDK port may have the name of its underlying device.
                    if switch.is_dpdk(name) {
                        continue;
                    }
                    match event {
                        LinkEvent::Appeared(link) | LinkEvent::Changed(link) => {
                            switch.device_changed(&link);
                        }
                        LinkEvent::Renamed { ifindex, was } => switch.device_renamed(&was, ifindex),
                        LinkEvent::Vanished { ifindex, name } => {
                            switch.device_vanished(&name, ifindex);
                        }
                    }
                }
                switch.follow_mtus();
                switch.mark_stale();
                switch.report();
            }
            Err(error) => {
                vlog::limited!(
                    (5, 5), clock::now(), target: "netdev_linux", log::Level::Warn, "{error}"
                );
                tokio::time::sleep(RETRY).await;
            }
        }
        if let Ok(mut guard) = watched.readable().await {
            guard.clear_ready();
        }
    }
}
