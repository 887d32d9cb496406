//! `dpif-netdev/pmd-rxq-*` commands: the assignment of receive queues and their load (ovs:
//! `lib/dpif-netdev-unixctl.man`).

use super::workers::{chosen, heading, number};
use super::{Answer, Arguments, add};
use crate::Switch;
use crate::devices::Devices;
use crate::usage::{INTERVAL, INTERVALS, percent};
use crate::worker_messages::WorkerMode;
use crate::worker_report::WorkerReport;
use crate::worker_thread::WorkerThread;
use daemon::unixctl::Commands;
use std::fmt::Write;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "[-pmd core] [-secs secs] [dp]";
    add(commands, "dpif-netdev/pmd-rxq-show", usage, 0..=5, show);
    add(commands, "dpif-netdev/pmd-rxq-rebalance", "[dp]", 0..=1, |switch, words| {
        Arguments::read(words)?.end()?;
        switch.rebalance();
        Ok("pmd rxq rebalance requested.\n".to_owned())
    });
}

fn show(switch: &mut Switch, words: &[String]) -> Answer {
    let (mut core, mut seconds, mut rest) = (None, 0, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-pmd" => core = Some(number(words.next())?),
            // An invalid number of seconds means all of them, as in Open vSwitch.
            "-secs" => seconds = words.next().and_then(|word| word.parse().ok()).unwrap_or(0),
            _ => rest.push(word.clone()),
        }
    }
    // Datapath names have no type here.
    let named = rest.first().and_then(|name| switch.other_named(name)).map(str::to_owned);
    if named.is_none() {
        Arguments::read(&rest)?.end()?;
    }
    let view = switch.view(named.as_deref());
    let intervals = intervals_of(seconds);
    let seconds = intervals * INTERVAL.as_secs() as usize;
    let mut text = format!("Displaying last {seconds} seconds pmd usage %\n");
    // Open vSwitch lists only polling threads, and scripts expect that.
    let polling = |worker: &&WorkerThread| worker.mode != WorkerMode::Sleeping;
    for worker in chosen(view.workers(), core).filter(polling) {
        text.push_str(&heading(worker));
        text.push_str(&describe(view.devices(), worker, &worker.report(), intervals));
    }
    Ok(text)
}

/// Returns the number of intervals in this many seconds; all of them for 0, or for too many.
fn intervals_of(seconds: usize) -> usize {
    match seconds.div_ceil(INTERVAL.as_secs() as usize) {
        0 => INTERVALS,
        intervals => intervals.min(INTERVALS),
    }
}

fn describe(
    devices: &Devices,
    worker: &WorkerThread,
    report: &WorkerReport,
    intervals: usize,
) -> String {
    let mut text = format!("  isolated : {}\n", devices.is_isolated(worker.id));
    let total_ns = report.intervals_ns(intervals);
    let mut queues = Vec::new();
    for (port, device) in devices.iter() {
        for (queue, place) in (0..).zip(&device.queues) {
            if place.worker == Some(worker.id) {
                // A queue that has just been added is not in the report yet.
                let mut reported = report.queues.iter();
                let known = reported.find(|known| known.port == port && known.queue == queue);
                let ns = known.map_or(0, |known| known.usage.sum_ns(intervals));
                queues.push((device.name.as_str(), queue, ns));
            }
        }
    }
    queues.sort_unstable();
    for (name, queue, ns) in &queues {
        let usage = share(*ns, total_ns);
        let _ = writeln!(
            text,
            "  port: {name:<16}  queue-id: {queue:2} (enabled)   pmd usage: {usage}"
        );
    }
    if !queues.is_empty() {
        let of_queues: u64 = queues.iter().map(|(_, _, ns)| ns).sum();
        let busy = report.busy.sum_ns(intervals).min(total_ns);
        let _ = writeln!(text, "  overhead: {}", share(busy.saturating_sub(of_queues), total_ns));
    }
    text
}

fn share(part: u64, total: u64) -> String {
    match percent(part, total) {
        Some(percent) => format!("{percent:2} %"),
        None => "NOT AVAIL".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_to_whole_intervals() {
        for (seconds, expect) in [(0, 12), (1, 1), (5, 1), (6, 2), (60, 12), (999, 12)] {
            assert_eq!(intervals_of(seconds), expect, "{seconds} s");
        }
    }

    #[test]
    fn shares_are_shown_as_open_vswitch_shows_them() {
        for (part, total, expect) in [(0, 0, "NOT AVAIL"), (5, 100, " 5 %"), (100, 100, "100 %")] {
            assert_eq!(share(part, total), expect);
        }
    }
}
