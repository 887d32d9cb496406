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
/// The wait between changes and their reading, in multiples of the time that the last reading took to read and to
/// apply. Where there are many routes and they change all the time, reading them takes a tenth of a processor.
const WAIT_SHARE: u32 = 9;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Passes routes and addresses to the switch until the runtime ends. All are read anew after a change, on a thread
/// beside the control thread.
///
/// # Errors
/// The kernel does not deliver changes.
pub async fn run(shared: Shared, mut monitor: RouteMonitor) -> Result<(), PortError> {
    let watched = watch(monitor.as_fd(), "routes")?;
    let mut begun = clock::now();
    let mut read = monitor.is_stale().and_then(|_| monitor.read());
    loop {
        match read {
            Ok(routing) => {
                let mut switch = shared.borrow_mut();
                switch.set_routing(routing);
                switch.settle();
                switch.mark_stale();
                switch.report();
            }
            Err(error) => {
                vlog::limited!(
                    (5, 5), clock::now(), target: "route_table", log::Level::Warn, "{error}"
                );
                tokio::time::sleep(RETRY).await;
            }
        }
        let wait = wait_after(clock::now() - begun);
        if let Ok(mut guard) = watched.readable().await {
            guard.clear_ready();
        }
        tokio::time::sleep(wait).await;
        begun = clock::now();
        let reading = tokio::task::spawn_blocking(move || {
            let read = monitor.is_stale().and_then(|_| monitor.read());
            (monitor, read)
        });
        let Ok(done) = reading.await else { return Ok(()) };
        (monitor, read) = done;
    }
}

/// The wait from the next change to its reading, if the last reading took this long.
fn wait_after(took: Duration) -> Duration {
    (took * WAIT_SHARE).clamp(TOGETHER, WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_take_a_tenth_of_the_time_and_are_at_most_a_second_apart() {
        let ms = Duration::from_millis;
        assert_eq!(wait_after(ms(1)), ms(20));
        assert_eq!(wait_after(ms(50)), ms(450));
        assert_eq!(wait_after(ms(1500)), ms(1000));
    }
}
