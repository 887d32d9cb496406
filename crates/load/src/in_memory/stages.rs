//! The time of a packet, stage by stage.
//!
//! The worker reads no clock, but reports the end of each stage of a batch; here the clock is read at each
//! report. A reading costs about a nanosecond per packet, so the traffic is played a second time for this,
//! after the measurement.

use super::{Cable, Switch};
use ::datapath::{Observer, Stage};
use base::Instant;
use port::PortError;
use serde::Serialize;

/// Number of packets that are played.
const PACKETS: u64 = if cfg!(test) { 2_000 } else { 2_000_000 };

/// Nanoseconds per packet in each stage.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Stages {
    /// Receiving from one port and sending to the other.
    pub ports: f64,
    /// Parsing the headers.
    pub parse: f64,
    /// Looking up the unified cache.
    pub lookup: f64,
    /// Connection tracking, without NAT.
    pub connection: f64,
    /// Statistics, NAT, and queueing to the output port.
    pub actions: f64,
    /// The whole walk over the flow tables, for packets that miss the cache.
    pub walk: f64,
}

impl Stages {
    /// Returns the sum of all stages.
    pub fn total(&self) -> f64 {
        self.ports + self.parse + self.lookup + self.connection + self.actions + self.walk
    }

    /// Returns each stage by name, as a share of the sum.
    pub fn shares(&self) -> [(&'static str, f64); 6] {
        let of = |stage: f64| stage / self.total().max(1e-9);
        [
            ("ports", of(self.ports)),
            ("parse", of(self.parse)),
            ("lookup", of(self.lookup)),
            ("connection", of(self.connection)),
            ("actions", of(self.actions)),
            ("walk", of(self.walk)),
        ]
    }

    /// Plays the traffic in both directions and times the stages.
    pub fn measure(switch: &mut Switch, cables: &mut [Cable]) -> Result<Stages, PortError> {
        let mut watch = Watch::new();
        let mut packets = 0;
        while packets < PACKETS {
            for port in 0..cables.len() {
                packets += switch.turn_timed(clock::now(), cables, port, &mut watch)? as u64;
            }
        }
        Ok(watch.stages.each(packets))
    }

    /// Adds the stages of another iteration.
    pub fn add(&mut self, other: &Stages) {
        self.ports += other.ports;
        self.parse += other.parse;
        self.lookup += other.lookup;
        self.connection += other.connection;
        self.actions += other.actions;
        self.walk += other.walk;
    }

    /// Divides sums by the number of packets.
    pub fn each(&self, packets: u64) -> Stages {
        let each = |stage: f64| stage / packets.max(1) as f64;
        Stages {
            ports: each(self.ports),
            parse: each(self.parse),
            lookup: each(self.lookup),
            connection: each(self.connection),
            actions: each(self.actions),
            walk: each(self.walk),
        }
    }
}

/// Reads the clock at the end of each stage.
pub struct Watch {
    mark: Instant,
    stages: Stages,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}

impl Watch {
    /// A watch with all stages at zero.
    pub fn new() -> Watch {
        Watch { mark: clock::now(), stages: Stages::default() }
    }

    /// Returns the times so far, in nanoseconds.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// Excludes the time up to now.
    pub fn start(&mut self) {
        self.mark = clock::now();
    }

    /// Receiving or sending has ended.
    pub fn ports(&mut self) {
        let passed = self.passed();
        self.stages.ports += passed;
    }

    /// Returns the time since the last reading, in nanoseconds.
    fn passed(&mut self) -> f64 {
        let now = clock::now();
        let passed = now - std::mem::replace(&mut self.mark, now);
        passed.as_nanos() as f64
    }
}

impl Observer for Watch {
    fn stage_done(&mut self, stage: Stage) {
        let passed = self.passed();
        let place = match stage {
            Stage::Parse => &mut self.stages.parse,
            Stage::Lookup => &mut self.stages.lookup,
            Stage::Connection => &mut self.stages.connection,
            Stage::Actions => &mut self.stages.actions,
            Stage::Walk => &mut self.stages.walk,
        };
        *place += passed;
    }
}
