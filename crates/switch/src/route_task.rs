//! Processes changes of routes and addresses.

use super::Shared;
use super::link_task::watch;
use port::PortError;
use port_linux::RouteMonitor;
use std::os::fd::AsFd;
use std::time::Duration;

/// Time to wait for related changes: a new address also brings routes.
const TOGETHER: Duration = Duration::from_millis(20);
/// The wait after a failed reading.
const RETRY: Duration = Duration::from_secs(1);

/// Passes routes and addresses to the switch, forever.
///
/// # Errors
/// The kernel does not deliver changes.
pub async fn run(shared: Shared, mut monitor: RouteMonitor) -> Result<(), PortError> {
    let watched = watch(monitor.as_fd(), "routes")?;
    loop {
        match monitor.is_stale().and_then(|_| monitor.read()) {
            Ok(routing) => {
                let mut switch = shared.borrow_mut();
                switch.set_routing(routing);
                switch.settle();
                switch.mark_stale();
                switch.report();
            }
            Err(error) => {
                log::warn!(target: "route_table", "{error}");
                tokio::time::sleep(RETRY).await;
            }
        }
        if let Ok(mut guard) = watched.readable().await {
            guard.clear_ready();
        }
        tokio::time::sleep(TOGETHER).await;
    }
}
