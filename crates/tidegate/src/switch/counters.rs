//! What the switch counts, summed over workers and put into words.

use super::Switch;
use crate::clock;
use datapath::WorkerStats;
use std::fmt::Write;

/// How many megaflows there were over time, and how long their last dump took.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowGauge {
    /// A moving average, half of it the last count.
    pub average: usize,
    /// The most there were.
    pub maximum: usize,
    /// How long the last dump's statistics took to be worked in, in milliseconds.
    pub dump_ms: u64,
}

impl FlowGauge {
    /// Counts the flows once more.
    pub fn sample(&mut self, count: usize) {
        self.average = (self.average + count).div_ceil(2);
        self.maximum = self.maximum.max(count);
    }
}

/// Sums over all workers.
pub struct Totals {
    stats: WorkerStats,
    /// Packets that missed and found the queue full.
    pub lost: u64,
}

impl Totals {
    /// Passes that a flow answered.
    pub fn hits(&self) -> u64 {
        self.stats.exact_hits + self.stats.megaflow_hits
    }

    /// Passes whose packet went up.
    pub fn misses(&self) -> u64 {
        self.stats.misses
    }
}

impl Switch {
    /// Sums over all workers.
    pub fn totals(&self) -> Totals {
        let mut stats = WorkerStats::default();
        for worker in &self.workers {
            stats.add(&worker.stats());
        }
        let lost = stats.lost;
        Totals { stats, lost }
    }

    /// Every counter with its name, in a fixed order: packets, drops by reason, connection
    /// tracking's events.
    fn counters(&self) -> Vec<(String, u64)> {
        let totals = self.totals();
        let stats = &totals.stats;
        let mut counters = vec![
            ("netdev_received".to_owned(), stats.received),
            ("netdev_sent".to_owned(), stats.sent),
            ("dpif_execute".to_owned(), stats.misses),
            ("upcall_lost".to_owned(), stats.lost),
            ("recirculated".to_owned(), stats.recirculated),
        ];
        counters.extend(stats.drops.iter().map(|(reason, n)| (reason.name().to_owned(), n)));
        let conntrack = self.conntrack.counters();
        counters.extend(conntrack.iter().map(|(event, n)| (event.name().to_owned(), n)));
        // Two sides may count under one name, as Open vSwitch has it.
        counters.sort_by(|a, b| a.0.cmp(&b.0));
        counters.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
        counters
    }

    /// The text of `coverage/show`. Rates are averages since the start: nothing is sampled.
    pub fn describe_coverage(&self) -> String {
        let seconds = (clock::now() - self.started).as_secs_f64().max(1.0);
        let mut text = "Event coverage, avg rate over last: 5 seconds, last minute, last hour,  \
                        hash=00000000:\n"
            .to_owned();
        let counters = self.counters();
        let (hit, never): (Vec<_>, Vec<_>) = counters.into_iter().partition(|(_, n)| *n > 0);
        for (name, total) in &hit {
            let rate = *total as f64 / seconds;
            let _ = writeln!(
                text,
                "{name:<24} {rate:5.1}/sec {rate:9.3}/sec {rate:13.4}/sec   total: {total}"
            );
        }
        let _ = writeln!(text, "{} events never hit", never.len());
        text
    }

    /// The value of one counter.
    pub fn read_counter(&self, name: &str) -> Result<String, String> {
        let found = self.counters().into_iter().find(|(known, _)| known == name);
        // What Open vSwitch counts and this switch has no such thing as stays at zero.
        Ok(format!("{}\n", found.map_or(0, |(_, total)| total)))
    }

    /// The text of `memory/show`.
    pub fn describe_memory(&self) -> String {
        let ports: usize = self.ofproto.bridges().iter().map(|b| b.ports().count()).sum();
        format!(
            "connections:{} handlers:1 ports:{ports} revalidators:1 rules:{} udpif keys:{}\n",
            self.conntrack.connections(),
            self.ofproto.rules().len(),
            self.ofproto.megaflows().count(),
        )
    }

    /// The text of `upcall/show`.
    pub fn describe_upcalls(&self) -> String {
        if self.ofproto.bridges().iter().next().is_none() {
            return String::new();
        }
        let count = self.ofproto.megaflows().count();
        let limit = self.ofproto.config().flow_limit;
        let FlowGauge { average, maximum, dump_ms } = self.flow_gauge;
        let mut text = format!(
            "{}:\n  flows         : (current {count}) (avg {average}) (max {maximum}) \
             (limit {limit})\n  dump duration : {dump_ms}ms\n  ufid enabled : true\n\n\
             \x20 1: (keys {count})\n",
            super::commands::DATAPATH_NAME,
        );
        for (port, dropped) in self.upcalls.dropped() {
            let name = self.devices.get(port).map_or("?", |device| device.name.as_str());
            let _ = writeln!(text, "  lost of {name}: {dropped}");
        }
        text
    }
}
