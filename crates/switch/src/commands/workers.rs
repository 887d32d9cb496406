//! `dpif-netdev/*` commands about workers (ovs: `lib/dpif-netdev-unixctl.man`).

use super::{Answer, Arguments, add};
use crate::Switch;
use crate::worker_messages::{WorkerCommand, WorkerMode};
use crate::worker_thread::WorkerThread;
use daemon::unixctl::Commands;
use datapath::WorkerStats;
use std::fmt::Write;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "[-pmd core] [dp]";
    add(commands, "dpif-netdev/pmd-stats-show", usage, 0..=3, show_stats);
    add(commands, "dpif-netdev/pmd-stats-clear", usage, 0..=3, clear_stats);
    add(commands, "dpif-netdev/pmd-sleep-show", usage, 0..=3, show_sleeps);
}

/// Parses `-pmd CORE`. Returns the core.
fn options(words: &[String]) -> Result<Option<usize>, String> {
    let (mut core, mut rest, mut words) = (None, Vec::new(), words.iter());
    while let Some(word) = words.next() {
        match word.as_str() {
            "-pmd" => core = Some(number(words.next())?),
            _ => rest.push(word.clone()),
        }
    }
    Arguments::read(&rest)?.end()?;
    Ok(core)
}

pub(super) fn number(word: Option<&String>) -> Result<usize, String> {
    let text = word.map_or("", String::as_str);
    text.parse().map_err(|_| format!("'{text}' is not a number\n"))
}

/// Returns all workers, or the one on a core.
pub(super) fn chosen(
    workers: &[WorkerThread],
    core: Option<usize>,
) -> impl Iterator<Item = &WorkerThread> {
    workers.iter().filter(move |worker| match (core, worker.mode) {
        (None, _) => true,
        (Some(core), WorkerMode::Polling { cpu, .. }) => core == cpu,
        (Some(_), WorkerMode::Sleeping) => false,
    })
}

fn show_stats(switch: &mut Switch, words: &[String]) -> Answer {
    let core = options(words)?;
    let mut text = String::new();
    for worker in chosen(switch.workers(), core) {
        text.push_str(&heading(worker));
        text.push_str(&describe(&worker.stats(), worker.mode != WorkerMode::Sleeping));
    }
    Ok(text)
}

fn clear_stats(switch: &mut Switch, words: &[String]) -> Answer {
    let core = options(words)?;
    chosen(switch.workers(), core).for_each(|worker| worker.send(WorkerCommand::ClearStats));
    Ok(String::new())
}

pub(super) fn heading(worker: &WorkerThread) -> String {
    match worker.mode {
        WorkerMode::Sleeping => "main thread:\n".to_owned(),
        WorkerMode::Polling { cpu, numa, .. } => {
            format!("pmd thread numa_id {numa} core_id {cpu}:\n")
        }
    }
}

/// Returns a quotient; 0 for a zero divisor.
pub(super) fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// Times are shown only for a worker that polls: a sleeping one is idle by design.
fn describe(stats: &WorkerStats, with_times: bool) -> String {
    let passes = stats.received + stats.recirculated;
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
    // Times are in nanoseconds; the lines keep Open vSwitch's names for scripts that parse them.
    let (idle, busy) = (stats.idle_ns, stats.busy_ns);
    if with_times && total > 0 {
        let share = |part: u64| 100.0 * ratio(part, total);
        let _ = write!(
            text,
            "  idle cycles: {idle} ({:.2}%)\n  processing cycles: {busy} ({:.2}%)\n",
            share(idle),
            share(busy),
        );
    }
    if with_times && total > 0 && stats.received > 0 {
        let _ = write!(
            text,
            "  avg cycles per packet: {:.2} ({total}/{received})\n\
             \x20 avg processing cycles per packet: {:.2} ({busy}/{received})\n",
            ratio(total, stats.received),
            ratio(busy, stats.received),
            received = stats.received,
        );
    }
    text
}

fn show_sleeps(switch: &mut Switch, words: &[String]) -> Answer {
    let core = options(words)?;
    let sleeps = &switch.desired_options().queues.sleep_max;
    let mut text = format!("Default max sleep: {:4} us\n", sleeps.default_us);
    for worker in chosen(switch.workers(), core) {
        if let WorkerMode::Polling { cpu, .. } = worker.mode {
            let us = sleeps.of_core(u16::try_from(cpu).unwrap_or(u16::MAX));
            let _ = writeln!(text, "{}  max sleep: {us:4} us", heading(worker));
        }
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
