//! Memory per connection.

use super::packets::Lot;
use ::conntrack::{Config, Conntrack};
use base::Instant;
use flow::CtAction;
use std::sync::Arc;

/// The number of connections for the measurement. It is a power of two: structures that grow by doubling are
/// full then, and the result is that of a full table.
pub const SAMPLE: u32 = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// Returns the growth of the process in bytes per connection, including index and timers, for [`SAMPLE`]
/// connections; `None` if the system does not report it.
pub fn bytes_per_connection() -> Option<f64> {
    let config = Config { connections_max: 2 * SAMPLE, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), config));
    let mut tracker = conntrack.tracker().ok()?;
    let action = CtAction { commit: true, ..CtAction::default() };
    let mut lot = Lot::new(1);
    let before = resident_bytes()?;
    for number in 0..SAMPLE {
        lot.set_connection(0, number);
        tracker.execute(Instant::from_nanos(1), &action, lot.untracked());
    }
    let grown = resident_bytes()?.checked_sub(before)?;
    (conntrack.connections() == SAMPLE).then(|| grown as f64 / f64::from(SAMPLE))
}

/// Returns the resident memory of this process.
pub fn resident_bytes() -> Option<u64> {
    resident_bytes_of("self")
}

/// Returns the resident memory of a process.
pub fn resident_bytes_of(process: &str) -> Option<u64> {
    // proc(5), /proc/PID/status: "VmRSS:     1234 kB".
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns the available memory of the system.
pub fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_some_memory() {
        let held = vec![1u8; 64 << 20];
        let resident = resident_bytes().unwrap();
        assert!(resident > held.len() as u64, "{resident}");
    }
}
