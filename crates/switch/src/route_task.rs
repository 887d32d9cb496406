//! Hears of routes and addresses that change.

use super::Shared;
use super::link_task::watch;
use port::PortError;
use port_linux::RouteMonitor;
use std::os::fd::AsFd;
use std::time::Duration;

/// Changes come together: an address brings routes. How long the rest of them is waited for.
const TOGETHER: Duration = Duration::from_millis(20);
/// How long after a failed reading the next is tried.
const RETRY: Duration = Duration::from_secs(1);

/// Tells the switch of routes and addresses for ever.
///
/// # Errors
/// The system refuses to tell.
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
