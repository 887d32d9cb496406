//! `dpif-netdev/pmd-perf-show` (ovs: `lib/dpif-netdev-perf.c`, `pmd_perf_format_overall_stats`).
//!
//! Cycles in the output are nanoseconds, as if the processor ran at 1 GHz; the lines keep Open vSwitch's
//! names for scripts that parse them. Histograms and histories require `other_config:pmd-perf-metrics=true`,
//! as in Open vSwitch.

use super::workers::{chosen, heading, number, ratio};
use super::{Answer, Arguments, add};
use crate::Switch;
use crate::metrics::{
    HISTORY, LogSettings, write_histograms, write_iterations, write_milliseconds,
};
use crate::worker_messages::WorkerMode;
use crate::worker_report::WorkerReport;
use daemon::unixctl::Commands;
use datapath::WorkerStats;
use std::fmt::Write;
use std::time::Duration;

/// Adds this command.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "on|off [-b before] [-a after] [-e|-ne] [-us usec] [-q qlen]";
    add(commands, "dpif-netdev/pmd-perf-log-set", usage, 0..=10, set_log);
    let usage = "[-nh] [-it iter-history-len] [-ms ms-history-len] [-pmd core] [dp]";
    add(commands, "dpif-netdev/pmd-perf-show", usage, 0..=8, show);
}

fn show(switch: &mut Switch, words: &[String]) -> Answer {
    let (mut core, mut rest) = (None, Vec::new());
    let (mut histograms, mut iterations, mut milliseconds) = (true, 0, 0);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-pmd" => core = Some(number(words.next())?),
            "-it" => iterations = number(words.next())?.min(HISTORY),
            "-ms" => milliseconds = number(words.next())?.min(HISTORY),
            "-nh" => histograms = false,
            _ => rest.push(word.clone()),
        }
    }
    Arguments::read(&rest)?.end()?;
    let (now, mut text) = (clock::now(), String::new());
    for worker in chosen(switch.workers(), core).filter(|w| w.mode != WorkerMode::Sleeping) {
        let report = worker.report();
        let duration = now - report.since;
        let _ = writeln!(
            text,
            "\nTime: {}\nMeasurement duration: {:.3} s\n",
            time_of_day(clock::since_epoch()),
            duration.as_secs_f64()
        );
        let _ = writeln!(text, "{}", heading(worker));
        text.push_str(&describe(&report, duration, switch.upcall_cost_ns()));
        if !worker.metrics().is_on() {
            continue;
        }
        let kept = worker.metrics().kept();
        if histograms {
            text.push('\n');
            write_histograms(&mut text, &kept);
        }
        if iterations > 0 {
            text.push('\n');
            write_iterations(&mut text, &kept, iterations);
        }
        if milliseconds > 0 {
            text.push('\n');
            write_milliseconds(&mut text, &kept, milliseconds);
        }
    }
    Ok(text)
}

/// Parses `on|off [-b before] [-a after] [-e|-ne] [-us usec] [-q qlen]`, in any order.
fn set_log(switch: &mut Switch, words: &[String]) -> Answer {
    let log = read_log(switch.turn_log, words).ok_or(LOG_USAGE)?;
    let on = if log.is_on { "on" } else { "off" };
    log::info!(
        target: "pmd_perf",
        "pmd-perf-log-set: {on}, before={}, after={}, extend={}, us_thr={}, q_thr={}",
        log.before, log.after, log.extends, log.longest_us, log.queue_full
    );
    switch.turn_log = log;
    switch.workers().iter().for_each(|worker| worker.metrics().set_log(log));
    Ok(String::new())
}

const LOG_USAGE: &str = "Usage: ovs-appctl dpif-netdev/pmd-perf-log-set [on|off] [-b before] \
    [-a after] [-e|-ne] [-us usec] [-q qlen]";

/// Returns the settings with these changes; `None` for an unknown word.
fn read_log(mut log: LogSettings, words: &[String]) -> Option<LogSettings> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next()?.parse::<u32>().ok();
        match word.as_str() {
            "on" => log.is_on = true,
            "off" => log.is_on = false,
            "-e" => log.extends = true,
            "-ne" => log.extends = false,
            "-b" => log.before = (value()? as usize).min(HISTORY - 2),
            "-a" => log.after = (value()? as usize).min(HISTORY - 2),
            "-q" => log.queue_full = value()?,
            "-us" => log.longest_us = value()?,
            _ => return None,
        }
    }
    log.after = log.after.min(HISTORY - 2 - log.before);
    Some(log)
}

/// Formats `HH:MM:SS.mmm`, UTC.
fn time_of_day(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, since_epoch.subsec_millis())
}

/// `upcall_ns` is the average time for one upcall, over all workers.
fn describe(report: &WorkerReport, duration: Duration, upcall_ns: u64) -> String {
    let (stats, iterations) = (&report.stats, &report.iterations);
    let (seconds, used_ns) = (duration.as_secs_f64(), stats.busy_ns + stats.idle_ns);
    let share = |part: u64, total: u64| 100.0 * ratio(part, total);
    let mut text = String::new();
    let _ = write!(
        text,
        "  Iterations:         {:12}  ({:.2} us/it)\n\
         \x20 - Used TSC cycles:  {used_ns:12}  ({:5.1} % of total cycles)\n\
         \x20 - idle iterations:  {:12}  ({:5.1} % of used cycles)\n\
         \x20 - busy iterations:  {:12}  ({:5.1} % of used cycles)\n\
         \x20 - sleep iterations: {:12}  ({:5.1} % of iterations)\n\
         \x20 Sleep time (us):    {:12.0}  ({:3.0} us/iteration avg.)\n",
        iterations.all,
        ratio(used_ns + iterations.slept_ns, iterations.all) / 1000.0,
        share(used_ns, duration.as_nanos() as u64),
        iterations.all - iterations.busy,
        share(stats.idle_ns, used_ns),
        iterations.busy,
        share(stats.busy_ns, used_ns),
        iterations.slept,
        share(iterations.slept, iterations.all),
        iterations.slept_ns as f64 / 1000.0,
        ratio(iterations.slept_ns, iterations.slept) / 1000.0,
    );
    text.push_str(&describe_received(stats, seconds, upcall_ns));
    if stats.sent == 0 {
        let _ = writeln!(text, "  Tx packets:         {:12}\n", 0);
    } else {
        let _ = writeln!(
            text,
            "  Tx packets:         {:12}  ({:.0} Kpps)\n\
             \x20 Tx batches:         {:12}  ({:.2} pkts/batch)",
            stats.sent,
            stats.sent as f64 / seconds.max(f64::MIN_POSITIVE) / 1000.0,
            stats.sent_batches,
            ratio(stats.sent, stats.sent_batches),
        );
    }
    text
}

/// Returns the lines about received packets and their lookups.
fn describe_received(stats: &WorkerStats, seconds: f64, upcall_ns: u64) -> String {
    let (received, passes) = (stats.received, stats.received + stats.recirculated);
    if received == 0 {
        return format!("  Rx packets:         {:12}\n", 0);
    }
    let mut text = format!(
        "  Rx packets:         {received:12}  ({:.0} Kpps, {:.0} cycles/pkt)\n\
         \x20 Datapath passes:    {passes:12}  ({:.2} passes/pkt)\n",
        received as f64 / seconds.max(f64::MIN_POSITIVE) / 1000.0,
        ratio(stats.busy_ns, received),
        ratio(passes, received),
    );
    let found = ratio(stats.subtables, stats.megaflow_hits);
    let upcall_us = if stats.misses == 0 { 0.0 } else { upcall_ns as f64 / 1000.0 };
    for (name, count, more) in [
        ("PHWOL hits:", 0, String::new()),
        ("MFEX Opt hits:", 0, String::new()),
        ("Simple Match hits:", 0, String::new()),
        ("EMC hits:", stats.exact_hits, String::new()),
        ("SMC hits:", 0, String::new()),
        ("Megaflow hits:", stats.megaflow_hits, format!(", {found:.2} subtbl lookups/hit")),
        ("Upcalls:", stats.misses, format!(", {upcall_us:.1} us/upcall")),
        ("Lost upcalls:", stats.lost, String::new()),
    ] {
        let percent = 100.0 * ratio(count, passes);
        let _ = writeln!(text, "  - {name:<18}{count:12}  ({percent:5.1} %{more})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker_report::Iterations;

    #[test]
    fn performance_is_told_in_open_vswitch_s_lines() {
        let stats = WorkerStats {
            received: 1_000_000,
            recirculated: 500_000,
            exact_hits: 750_000,
            megaflow_hits: 600_000,
            subtables: 900_000,
            misses: 150_000,
            lost: 15_000,
            sent: 900_000,
            sent_batches: 90_000,
            busy_ns: 600_000_000,
            idle_ns: 200_000_000,
            ..WorkerStats::default()
        };
        let iterations =
            Iterations { all: 40_000, busy: 30_000, slept: 1000, slept_ns: 200_000_000 };
        let report = WorkerReport { stats, iterations, ..WorkerReport::default() };
        let expect = "\
\x20 Iterations:                40000  (25.00 us/it)
  - Used TSC cycles:     800000000  ( 80.0 % of total cycles)
  - idle iterations:         10000  ( 25.0 % of used cycles)
  - busy iterations:         30000  ( 75.0 % of used cycles)
  - sleep iterations:         1000  (  2.5 % of iterations)
  Sleep time (us):          200000  (200 us/iteration avg.)
  Rx packets:              1000000  (1000 Kpps, 600 cycles/pkt)
  Datapath passes:         1500000  (1.50 passes/pkt)
  - PHWOL hits:                  0  (  0.0 %)
  - MFEX Opt hits:               0  (  0.0 %)
  - Simple Match hits:           0  (  0.0 %)
  - EMC hits:               750000  ( 50.0 %)
  - SMC hits:                    0  (  0.0 %)
  - Megaflow hits:          600000  ( 40.0 %, 1.50 subtbl lookups/hit)
  - Upcalls:                150000  ( 10.0 %, 2.5 us/upcall)
  - Lost upcalls:            15000  (  1.0 %)
  Tx packets:               900000  (900 Kpps)
  Tx batches:                90000  (10.00 pkts/batch)
";
        assert_eq!(describe(&report, Duration::from_secs(1), 2500), expect);
        let nothing = describe(&WorkerReport::default(), Duration::ZERO, 0);
        assert!(nothing.ends_with(
            "  Rx packets:                    0\n  Tx packets:                    0\n\n"
        ));
        assert!(!nothing.contains("NaN") && !nothing.contains("inf"), "{nothing}");
    }

    #[test]
    fn what_is_logged_is_set_in_any_order() {
        let read = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            read_log(LogSettings::default(), &words)
        };
        let is = LogSettings::default();
        for (line, expect) in [
            ("", Some(is)),
            ("on -e", Some(LogSettings { is_on: true, extends: true, ..is })),
            ("-us 10 -b 1 -a 2 on off -ne", {
                Some(LogSettings { longest_us: 10, before: 1, after: 2, ..is })
            }),
            ("-b 9999 -a 9999 -q 7", {
                Some(LogSettings { before: 998, after: 0, queue_full: 7, ..is })
            }),
            ("-b", None),
            ("-us soon", None),
            ("maybe", None),
        ] {
            assert_eq!(read(line), expect, "{line}");
        }
    }

    #[test]
    fn the_time_is_that_of_the_day() {
        let time = Duration::from_secs(1_700_000_000) + Duration::from_millis(42);
        assert_eq!(time_of_day(time), "22:13:20.042");
    }
}
