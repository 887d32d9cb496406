//! Counters of a run.

/// The counters of a run, by which tests verify what it covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// A hash of the sent packets and their steps, which equal runs share.
    pub digest: u64,
    /// Packets that workers received.
    pub received: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were sent to no port.
    pub nowhere: u64,
    /// Packets lost because a queue was full.
    pub lost: u64,
    /// Passes that no installed flow matched.
    pub misses: u64,
    /// Passes that a worker's unified cache answered.
    pub cached: u64,
    /// Second passes.
    pub recirculated: u64,
    /// Installed flows whose actions were changed.
    pub changed: u64,
    /// Installed flows that were deleted because rules were.
    pub outdated: u64,
    /// Installed flows that were deleted by the idle timeout.
    pub idle: u64,
    /// Flows that were not installed because of the flow limit.
    pub over_limit: u64,
    /// Times that workers and handlers were replaced.
    pub restarts: u64,
    /// Versions of the rules and ports.
    pub versions: u64,
    /// Connections at the end.
    pub connections: u64,
    /// Rules whose packet counts were checked exactly.
    pub rules_counted: u64,
}

impl Report {
    /// Adds another run's counts.
    pub fn add(&mut self, other: &Report) {
        self.received += other.received;
        self.sent += other.sent;
        self.nowhere += other.nowhere;
        self.lost += other.lost;
        self.misses += other.misses;
        self.cached += other.cached;
        self.recirculated += other.recirculated;
        self.changed += other.changed;
        self.outdated += other.outdated;
        self.idle += other.idle;
        self.over_limit += other.over_limit;
        self.restarts += other.restarts;
        self.versions += other.versions;
        self.connections += other.connections;
        self.rules_counted += other.rules_counted;
    }
}
