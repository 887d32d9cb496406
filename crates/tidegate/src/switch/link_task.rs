//! Hears of devices that appear, change and vanish.

use super::Shared;
use port::PortError;
use port_linux::{LinkEvent, LinkMonitor};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// How long after a failed reading the next is tried.
const RETRY: Duration = Duration::from_secs(1);

/// The monitor's socket, as the runtime watches it.
struct Watched(RawFd);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// Tells the switch of devices for ever.
///
/// # Errors
/// The system refuses to tell.
pub async fn run(shared: Shared, mut monitor: LinkMonitor) -> Result<(), PortError> {
    // The monitor outlives the watcher: both are dropped at the end of this function.
    let watched = AsyncFd::new(Watched(monitor.wake_fd())).map_err(|source| PortError::System {
        device: "links".to_owned(),
        what: "watch the monitor",
        source,
    })?;
    loop {
        match monitor.events() {
            Ok(events) => {
                let mut switch = shared.borrow_mut();
                for event in events {
                    match event {
                        LinkEvent::Appeared(link) | LinkEvent::Changed(link) => {
                            switch.device_changed(&link);
                        }
                        LinkEvent::Vanished { name, .. } => switch.device_vanished(&name),
                    }
                }
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
