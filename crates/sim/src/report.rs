//! What a run was like.

/// Counts of a run, so that tests can see that it did what it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The same for two runs in which the same packets were sent in the same steps.
    pub digest: u64,
    /// Packets that workers received.
    pub received: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were sent to no port.
    pub nowhere: u64,
    /// Packets lost because too many waited.
    pub lost: u64,
    /// Passes that no installed flow matched.
    pub misses: u64,
    /// Passes that a worker's unified flow cache answered.
    pub cached: u64,
    /// Second passes.
    pub recirculated: u64,
    /// Installed flows that were given other actions.
    pub changed: u64,
    /// Installed flows that went because rules did.
    pub outdated: u64,
    /// Installed flows that went because no packets came.
    pub idle: u64,
    /// Flows that were not installed because there were enough.
    pub over_limit: u64,
    /// Versions of the rules and ports.
    pub versions: u64,
    /// Connections that were tracked at the end.
    pub connections: u64,
    /// Rules whose packets were counted exactly.
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
        self.versions += other.versions;
        self.connections += other.connections;
        self.rules_counted += other.rules_counted;
    }
}
