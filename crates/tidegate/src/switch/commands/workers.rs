//! `dpif-netdev/*` commands: what workers do (ovs: `lib/dpif-netdev-unixctl.man`).

use super::{Answer, Arguments, add};
use crate::switch::Switch;
use crate::switch::worker_thread::{WorkerCommand, WorkerMode, WorkerThread};
use crate::unixctl::Commands;
use datapath::WorkerStats;
use std::fmt::Write;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "[-pmd core] [dp]";
    add(commands, "dpif-netdev/pmd-stats-show", usage, 0..=3, show_stats);
    add(commands, "dpif-netdev/pmd-stats-clear", usage, 0..=3, clear_stats);
    let usage = "[-pmd core] [-secs secs] [dp]";
    add(commands, "dpif-netdev/pmd-rxq-show", usage, 0..=5, show_queues);
}

/// Takes `-pmd CORE` and `-secs N` out of the words; gives the core asked for.
fn options(words: &[String]) -> Result<Option<usize>, String> {
    let (mut core, mut rest, mut words) = (None, Vec::new(), words.iter());
    while let Some(word) = words.next() {
        match word.as_str() {
            "-pmd" => core = Some(number(words.next())?),
            "-secs" => drop(number(words.next())?),
            _ => rest.push(word.clone()),
        }
    }
    Arguments::read(&rest)?.end()?;
    Ok(core)
}

fn number(word: Option<&String>) -> Result<usize, String> {
    let text = word.map_or("", String::as_str);
    text.parse().map_err(|_| format!("'{text}' is not a number\n"))
}

/// The workers asked for: all, or the one on a core.
fn chosen(switch: &Switch, core: Option<usize>) -> impl Iterator<Item = &WorkerThread> {
    switch.workers().iter().filter(move |worker| match (core, worker.mode) {
        (None, _) => true,
        (Some(core), WorkerMode::Polling { cpu }) => core == cpu,
        (Some(_), WorkerMode::Sleeping) => false,
    })
}

fn show_stats(switch: &mut Switch, words: &[String]) -> Answer {
    let core = options(words)?;
    let mut text = String::new();
    for worker in chosen(switch, core) {
        text.push_str(&heading(worker));
        text.push_str(&describe(&worker.stats(), worker.mode != WorkerMode::Sleeping));
    }
    Ok(text)
}

fn clear_stats(switch: &mut Switch, words: &[String]) -> Answer {
    let core = options(words)?;
    chosen(switch, core).for_each(|worker| worker.send(WorkerCommand::ClearStats));
    Ok(String::new())
}

fn heading(worker: &WorkerThread) -> String {
    match worker.mode {
        WorkerMode::Sleeping => "main thread:\n".to_owned(),
        WorkerMode::Polling { cpu } => format!("pmd thread numa_id 0 core_id {cpu}:\n"),
    }
}

/// Only a worker that polls has times worth reading: one that sleeps is idle by design.
fn describe(stats: &WorkerStats, with_times: bool) -> String {
    let passes = stats.received + stats.recirculated;
    let ratio = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
    let mut text = String::new();
    let _ = write!(
        text,
        "  packets received: {}\n  packet recirculations: {}\n\
         \x20 avg. datapath passes per packet: {:.2}\n  phwol hits: 0\n  mfex opt hits: 0\n\
         \x20 simple match hits: 0\n  emc hits: {}\n  smc hits: 0\n  megaflow hits: {}\n\
         \x20 avg. subtable lookups per megaflow hit: {:.2}\n\
         \x20 miss with success upcall: {}\n  miss with failed upcall: {}\n\
         \x20 avg. packets per output batch: {:.2}\n",
        stats.received,
        stats.recirculated,
        ratio(passes, stats.received),
        stats.exact_hits,
        stats.megaflow_hits,
        ratio(stats.subtables, stats.megaflow_hits),
        stats.misses,
        stats.lost,
        ratio(stats.sent, stats.sent_batches),
    );
    let total = stats.busy_ns + stats.idle_ns;
    if with_times && total > 0 && stats.received > 0 {
        // Times are measured in nanoseconds; the lines keep their names for those who read them.
        let share = |part: u64| 100.0 * part as f64 / total as f64;
        let (idle, busy) = (stats.idle_ns, stats.busy_ns);
        let _ = write!(
            text,
            "  idle cycles: {idle} ({:.2}%)\n  processing cycles: {busy} ({:.2}%)\n\
             \x20 avg cycles per packet: {:.2} ({total}/{received})\n\
             \x20 avg processing cycles per packet: {:.2} ({busy}/{received})\n",
            share(idle),
            share(busy),
            ratio(total, stats.received),
            ratio(busy, stats.received),
            received = stats.received,
        );
    }
    text
}

fn show_queues(switch: &mut Switch, words: &[String]) -> Answer {
    let core = options(words)?;
    let mut text = "Displaying last 60 seconds pmd usage %\n".to_owned();
    // Open vSwitch lists polled ports only; what a sleeping worker serves is its main thread's.
    for worker in chosen(switch, core).filter(|w| w.mode != WorkerMode::Sleeping) {
        text.push_str(&heading(worker));
        text.push_str("  isolated : false\n");
        for (_, device) in switch.devices().iter().filter(|(_, d)| d.worker == Some(worker.id)) {
            let name = &device.name;
            let _ =
                writeln!(text, "  port: {name:<16}  queue-id:  0 (enabled)   pmd usage: NOT AVAIL");
        }
        text.push_str("  overhead: NOT AVAIL\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_read_as_monitoring_tools_expect() {
        let stats = WorkerStats {
            received: 10,
            recirculated: 5,
            exact_hits: 4,
            megaflow_hits: 8,
            subtables: 12,
            misses: 3,
            sent: 9,
            sent_batches: 6,
            busy_ns: 25,
            idle_ns: 75,
            ..WorkerStats::default()
        };
        let text = describe(&stats, true);
        for line in [
            "  packets received: 10",
            "  avg. datapath passes per packet: 1.50",
            "  megaflow hits: 8",
            "  avg. subtable lookups per megaflow hit: 1.50",
            "  miss with success upcall: 3",
            "  avg. packets per output batch: 1.50",
            "  idle cycles: 75 (75.00%)",
            "  avg processing cycles per packet: 2.50 (25/10)",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
        }
    }
}
