//! Counters of the switch, summed over workers, and their text.

use super::Switch;
use base::Instant;
use conntrack::Event;
use datapath::WorkerStats;
use ofproto::MacCounters;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Interval of samples for rates, and the number of samples in an hour.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
const SAMPLES: usize = 721;

/// A counter's name, and where to find its value.
type Counter<T> = (&'static str, fn(&T) -> u64);

const REVALIDATED: &str = "flows_revalidated";
/// Counters of workers.
const OF_WORKERS: [Counter<WorkerStats>; 5] = [
    ("netdev_received", |stats| stats.received),
    ("netdev_sent", |stats| stats.sent),
    ("upcalls", |stats| stats.misses),
    ("upcall_lost", |stats| stats.lost),
    ("recirculated", |stats| stats.recirculated),
];
/// Counters of learned addresses.
const OF_MACS: [Counter<MacCounters>; 5] = [
    ("mac_learning_learned", |macs| macs.learned),
    ("mac_learning_expired", |macs| macs.expired),
    ("mac_learning_evicted", |macs| macs.evicted),
    ("mac_learning_moved", |macs| macs.moved),
    ("mac_learning_static_none_move", |macs| macs.static_none_move),
];

/// The names of all counters.
#[cfg(test)]
pub fn counter_names() -> Vec<&'static str> {
    let of_workers = OF_WORKERS.iter().map(|(name, _)| *name);
    let of_macs = OF_MACS.iter().map(|(name, _)| *name);
    let drops = flow::DropReason::ALL.iter().map(|reason| reason.name());
    let conntrack = Event::ALL.iter().map(|event| event.name());
    let coverage = coverage::Event::ALL.iter().map(|event| event.name());
    of_workers.chain(of_macs).chain(drops).chain(conntrack).chain(coverage).collect()
}

/// The counters at one moment, by name.
pub type Sample = (Instant, Vec<(String, u64)>);

fn value_of(counters: &[(String, u64)], name: &str) -> Option<u64> {
    counters.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
}

/// Returns log lines for the time between two samples: why records of ended connections are not reused.
fn reuse_warnings(before: &[(String, u64)], now: &[(String, u64)]) -> Vec<String> {
    let more = |event: Event| {
        let [now, before] = [now, before].map(|it| value_of(it, event.name()).unwrap_or(0));
        now.saturating_sub(before)
    };
    let mut warnings = Vec::new();
    let refused = more(Event::FenceRefused);
    if refused > 0 {
        warnings.push(format!(
            "membarrier(2) failed {refused} times: while it does, no record of a connection that ended is \
             used again"
        ));
    }
    let waited = more(Event::RecordsWait);
    if waited > 0 {
        warnings.push(format!(
            "{waited} connections were not made: too many records of connections that ended wait for a \
             thread that is held up"
        ));
    }
    warnings
}

/// The number of megaflows over time, and the duration of the last dump.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowGauge {
    /// A moving average with weight one half, rounded down as in Open vSwitch.
    pub average: usize,
    /// The maximum.
    pub maximum: usize,
    /// Duration of the last dump, from the worker's first page until all were processed, in milliseconds.
    pub dump_ms: u64,
}

impl FlowGauge {
    /// Adds the current number of flows.
    pub fn sample(&mut self, count: usize) {
        self.average = (self.average + count) / 2;
        self.maximum = self.maximum.max(count);
    }
}

/// Number of answered upcalls, and their total time.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpcallCost {
    count: u64,
    ns: u64,
}

impl UpcallCost {
    /// Adds upcalls that were answered in this time.
    pub fn add(&mut self, count: u64, time: Duration) {
        self.count += count;
        self.ns += time.as_nanos() as u64;
    }
}

/// Sums over all workers.
pub struct Totals {
    stats: WorkerStats,
    /// Packets that missed and were dropped because the queue was full.
    pub lost: u64,
}

impl Totals {
    /// Returns the passes with a matching flow.
    pub fn hits(&self) -> u64 {
        self.stats.exact_hits + self.stats.megaflow_hits
    }

    /// Returns the passes that caused an upcall.
    pub fn misses(&self) -> u64 {
        self.stats.misses
    }
}

impl Switch {
    /// Returns the average time to answer an upcall, in nanoseconds.
    pub fn upcall_cost_ns(&self) -> u64 {
        self.upcall_cost.ns.checked_div(self.upcall_cost.count).unwrap_or(0)
    }

    /// Returns the sums over all workers.
    pub fn totals(&self) -> Totals {
        let mut stats = WorkerStats::default();
        for worker in &self.workers {
            stats.add(&worker.stats());
        }
        let lost = stats.lost;
        Totals { stats, lost }
    }

    /// Returns every counter with its name, in a fixed order: packets, revalidated flows, drops by reason,
    /// events of connection tracking.
    fn counters(&self) -> Vec<(String, u64)> {
        let totals = self.totals();
        let stats = &totals.stats;
        let revalidated = self.ofproto.megaflow_counters().revalidated;
        let mut counters = vec![(REVALIDATED.to_owned(), revalidated)];
        counters.extend(OF_WORKERS.map(|(name, count)| (name.to_owned(), count(stats))));
        counters.extend(coverage::counts().map(|(event, n)| (event.name().to_owned(), n)));
        counters.extend(stats.drops.iter().map(|(reason, n)| (reason.name().to_owned(), n)));
        let conntrack = self.conntrack.counters();
        counters.extend(conntrack.iter().map(|(event, n)| (event.name().to_owned(), n)));
        let macs = self.ofproto.bridges().iter().filter_map(|bridge| self.ofproto.macs(bridge.id));
        for macs in macs.map(ofproto::MacTable::counters) {
            counters.extend(OF_MACS.map(|(name, count)| (name.to_owned(), count(&macs))));
        }
        // Counters of several components or bridges may have the same name, as in Open vSwitch.
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

    /// Keeps a sample of the counters for rates.
    pub fn sample_counters(&mut self) {
        let now = clock::now();
        if self.samples.back().is_none_or(|(at, _)| now - *at >= SAMPLE_EVERY) {
            let counters = self.counters();
            let before = self.samples.back().map_or(&[][..], |(_, counters)| counters);
            for warning in reuse_warnings(before, &counters) {
                vlog::limited!((1, 5), now, target: "conntrack", log::Level::Warn, "{warning}");
            }
            self.samples.push_back((now, counters));
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    /// Returns the text of `coverage/show`, with rates over three periods: each from the oldest sample within
    /// the period, or from the start, before which all counters were zero (ovs: `lib/coverage.c`,
    /// `coverage_array_sum`).
    pub fn describe_coverage(&self) -> String {
        let now = clock::now();
        let since = |seconds: u64| {
            let young = |at: Instant| now - at <= Duration::from_secs(seconds) + SAMPLE_EVERY;
            self.samples.iter().find(|(at, _)| young(*at))
        };
        let (second5, minute, hour) = (since(5), since(60), since(3600));
        let rate = |name: &str, total: u64, sample: Option<&Sample>, seconds: f64| {
            let before = sample.and_then(|(_, counters)| value_of(counters, name)).unwrap_or(0);
            let at = sample.map_or(self.started, |(at, _)| *at);
            total.saturating_sub(before) as f64 / (now - at).as_secs_f64().max(seconds)
        };
        let (hit, never): (Vec<_>, Vec<_>) = self.counters().into_iter().partition(|(_, n)| *n > 0);
        // The same events yield the same hash, so that two outputs can be compared at a glance.
        let mut hasher = std::hash::DefaultHasher::new();
        hit.iter().for_each(|(name, _)| name.hash(&mut hasher));
        let mut text = format!(
            "Event coverage, avg rate over last: 5 seconds, last minute, last hour,  \
             hash={:08x}:\n",
            hasher.finish() as u32,
        );
        for (name, total) in &hit {
            let _ = writeln!(
                text,
                "{name:<24} {:5.1}/sec {:9.3}/sec {:13.4}/sec   total: {total}",
                rate(name, *total, second5, 5.0),
                rate(name, *total, minute, 60.0),
                rate(name, *total, hour, 3600.0),
            );
        }
        let _ = writeln!(text, "{} events never hit", never.len());
        text
    }

    /// Returns the value of one counter.
    pub fn read_counter(&self, name: &str) -> Result<String, String> {
        // Counters of Open vSwitch that do not exist here are zero.
        Ok(format!("{}\n", value_of(&self.counters(), name).unwrap_or(0)))
    }

    /// Returns the text of `memory/show`, without zeros (ovs: `lib/simap.c`).
    pub fn describe_memory(&self) -> String {
        let bridges = || self.ofproto.bridges().iter();
        let any = usize::from(bridges().next().is_some());
        let counts = [
            ("connections", self.conntrack.connections() as usize),
            ("handlers", any * usize::from(self.slow.others().max(1))),
            ("ports", bridges().map(|bridge| bridge.ports().count()).sum()),
            ("revalidators", any * usize::from(self.slow.revalidators.max(1))),
            ("rules", self.ofproto.flow_count()),
            ("udpif keys", self.ofproto.megaflow_counters().current),
        ];
        let some = counts.iter().filter(|(_, count)| *count > 0);
        let words: Vec<String> = some.map(|(name, count)| format!("{name}:{count}")).collect();
        words.join(" ") + "\n"
    }

    /// Returns the text of `upcall/show`.
    pub fn describe_upcalls(&self) -> String {
        if self.ofproto.bridges().iter().next().is_none() {
            return String::new();
        }
        let count = self.ofproto.megaflow_counters().current;
        let (limit, ufid) = (self.ofproto.flow_limit(), self.uses_ufid);
        let FlowGauge { average, maximum, dump_ms } = self.flow_gauge;
        let mut text = format!(
            "{}:\n  flows         : (current {count}) (avg {average}) (max {maximum}) \
             (limit {limit})\n  dump duration : {dump_ms}ms\n  ufid enabled : {ufid}\n\n\
             \x20 1: (keys {count})\n",
            self.settings.dummy.datapath_name(),
        );
        let _ = writeln!(text, "  {}", self.slow.describe());
        for (port, dropped) in self.lost_upcalls() {
            let name = self.devices.get(port).map_or("?", |device| device.name.as_str());
            let _ = writeln!(text, "  lost of {name}: {dropped}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_why_records_are_not_used_again_and_only_while_they_are_not() {
        let sample = |refused, waited| {
            [(Event::FenceRefused, refused), (Event::RecordsWait, waited)]
                .map(|(event, count)| (event.name().to_owned(), count))
        };
        let (first, second) = (sample(2, 10), sample(3, 10));
        let said = |warnings: Vec<String>| warnings.join("|");
        assert_eq!(said(reuse_warnings(&[], &sample(0, 0))), "");
        assert_eq!(said(reuse_warnings(&first, &first)), "");
        let warnings = said(reuse_warnings(&first, &second));
        assert!(warnings.starts_with("membarrier(2) failed 1 times") && !warnings.contains('|'));
        assert!(
            said(reuse_warnings(&first, &sample(2, 17))).starts_with("7 connections were not made")
        );
    }
}
