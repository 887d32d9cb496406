//! Hears of devices that appear, change and vanish.

use super::Shared;
use port::PortError;
use port_linux::{LinkEvent, LinkInfo, LinkMonitor};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// How long after a failed reading the next is tried.
const RETRY: Duration = Duration::from_secs(1);

/// Watches a monitor's descriptor.
pub(super) fn watch(monitor: BorrowedFd<'_>, what: &str) -> Result<AsyncFd<OwnedFd>, PortError> {
    let failed =
        |source| PortError::System { device: what.to_owned(), what: "watch the monitor", source };
    let own = monitor.try_clone_to_owned().map_err(failed)?;
    // SAFETY: registering asks that the descriptor stays open and the same for as long as it is
    // watched; the watcher owns it, a duplicate of the monitor's, and no other code knows it.
    unsafe { AsyncFd::register(own) }.map_err(|error| failed(error.into()))
}

/// Tells the switch of devices for ever.
///
/// # Errors
/// The system refuses to tell.
pub async fn run(shared: Shared, mut monitor: LinkMonitor) -> Result<(), PortError> {
    let watched = watch(monitor.as_fd(), "links")?;
    loop {
        match monitor.events() {
            Ok(events) => {
                let mut switch = shared.borrow_mut();
                for event in events {
                    let (LinkEvent::Appeared(LinkInfo { name, .. })
                    | LinkEvent::Changed(LinkInfo { name, .. })
                    | LinkEvent::Vanished { name, .. }) = &event;
                    // A DPDK port may have the name of the device that it is made of.
                    if switch.is_dpdk(name) {
                        continue;
                    }
                    match event {
                        LinkEvent::Appeared(link) | LinkEvent::Changed(link) => {
                            switch.device_changed(&link);
                        }
                        LinkEvent::Vanished { name, .. } => switch.device_vanished(&name),
                    }
                }
                switch.follow_mtus();
                switch.mark_stale();
                switch.report();
            }
            Err(error) => {
                log::warn!(target: "netdev_linux", "{error}");
                tokio::time::sleep(RETRY).await;
            }
        }
        if let Ok(mut guard) = watched.readable().await {
            guard.clear_ready();
        }
    }
}
