//! Where a packet's time goes, stage by stage.
//!
//! The worker has no clock in it. It says when a stage of a batch is over, though, and here a clock
//! is looked at each time. The looks themselves cost about a nanosecond a packet each, so that the
//! traffic is played a second time for this, after it was measured.

use super::{Cable, Switch};
use ::datapath::{Observer, Stage};
use base::Instant;
use port::PortError;
use serde::Serialize;

/// How many packets are played.
const PACKETS: u64 = if cfg!(test) { 2_000 } else { 2_000_000 };

/// Nanoseconds a packet in each stage.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Stages {
    /// Receiving from the port, and handing the packet to the other.
    pub ports: f64,
    /// Reading the headers.
    pub parse: f64,
    /// Looking up what is known of the packet.
    pub lookup: f64,
    /// Following it in connection tracking, address translation not included.
    pub connection: f64,
    /// Counting it, translating it, and putting it where it is to be sent from.
    pub actions: f64,
    /// The whole walk over the tables, of packets of which nothing is known.
    pub walk: f64,
}

impl Stages {
    /// All stages together.
    pub fn total(&self) -> f64 {
        self.ports + self.parse + self.lookup + self.connection + self.actions + self.walk
    }

    /// Each stage by its name, as a part of the whole.
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

    /// Plays the traffic both ways.
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

    /// What another turn took, too.
    pub fn add(&mut self, other: &Stages) {
        self.ports += other.ports;
        self.parse += other.parse;
        self.lookup += other.lookup;
        self.connection += other.connection;
        self.actions += other.actions;
        self.walk += other.walk;
    }

    /// Of a sum over so many packets, what one of them took.
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

/// Looks at the clock when a stage is over.
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
    /// A watch that has seen nothing yet.
    pub fn new() -> Watch {
        Watch { mark: clock::now(), stages: Stages::default() }
    }

    /// What it has seen, in nanoseconds.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// The time before the next stage is of no stage.
    pub fn start(&mut self) {
        self.mark = clock::now();
    }

    /// Receiving or sending is over.
    pub fn ports(&mut self) {
        let passed = self.passed();
        self.stages.ports += passed;
    }

    /// The time since the last look, in nanoseconds.
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
