//! Plans: what a run begins with and what happens in which order, made from a seed.

use crate::header::Header;
use crate::rule::{Rule, ZONES};
use datapath::Answers;
use fastrand::Rng;

/// What a run begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Workers; each port's receive queue belongs to one of them.
    pub workers: u8,
    /// Who answers misses.
    pub answers: Answers,
    /// Revalidators; without any the control side does their work.
    pub revalidators: u8,
    /// OpenFlow ports, numbered from 1.
    pub ports: u8,
    /// The rules by slot; a slot may be free.
    pub rules: Vec<Option<Rule>>,
    /// Entries of each worker's unified flow cache; 0 turns it off.
    pub unified_entries: usize,
    /// One in this many megaflow hits enters the exact-match cache; 0 is none.
    pub exact_insert_inverse: u32,
    /// The most installed flows.
    pub flow_limit: usize,
    /// Installed flows without packets for this long go, in milliseconds.
    pub max_idle_ms: u64,
}

/// What happens in one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Packets arrive at a port and wait there; each has a number.
    Arrive(Vec<(u32, Header)>),
    /// A worker carries out this many commands at most and receives from its ports.
    Work {
        /// The worker.
        worker: u8,
        /// How many of the commands that wait have reached it.
        commands: usize,
    },
    /// The control side answers upcalls, this many at most, if it was woken.
    Answer(usize),
    /// A handler that has no answers yet translates misses, this many at most.
    Translate {
        /// The handler.
        handler: u8,
        /// How many.
        most: usize,
    },
    /// A handler installs the flows of its answers.
    Install(u8),
    /// A revalidator translates flows again, or carries out what it has translated.
    Revalidate(u8),
    /// The control side goes on with revalidation and the like, one slice.
    GoOn,
    /// The control side hears of one page of a dump.
    Hear,
    /// Timers of the control side and the workers run.
    Tick,
    /// Time passes, in milliseconds.
    Pass(u64),
    /// A rule takes the place of the one in its slot.
    Put(usize, Rule),
    /// The rule of a slot goes.
    Delete(usize),
    /// A port goes, with what waits there.
    RemovePort(u8),
    /// A port comes back.
    AddPort(u8),
    /// The connections of a zone are forgotten.
    Flush(u16),
    /// All installed flows are deleted, as by `dpctl/del-flows`.
    Purge,
    /// All parts go on until nothing is left to do.
    Drain,
}

/// A run, as its seed makes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What it was made from.
    pub seed: u64,
    /// What it begins with.
    pub settings: Settings,
    /// What happens.
    pub steps: Vec<Step>,
}

/// How much changes during a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    /// Rules change.
    rules: bool,
    /// Ports go and come.
    ports: bool,
    /// Packets are tracked, and zones flushed.
    tracks: bool,
    /// Many different packets come at once, more than may wait.
    storms: bool,
}

impl Kind {
    fn of(seed: u64) -> Kind {
        let bit = |n: u64| seed >> n & 1 == 1;
        Kind { rules: bit(0), tracks: bit(1), ports: seed % 5 == 4, storms: seed % 8 == 7 }
    }
}

const SLOTS: usize = 16;
const STEPS: usize = 400;

/// Makes the steps.
struct Maker {
    rng: Rng,
    kind: Kind,
    settings: Settings,
    /// Packets are mostly of these flows.
    flows: Vec<Header>,
    next: u32,
    /// Ports that are away.
    away: Vec<u8>,
    /// The rules as they are in this step.
    rules: Vec<Option<Rule>>,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let kind = Kind::of(seed);
        let settings = settings(&mut rng, kind);
        let flows = (0..rng.usize(4..16)).map(|_| Header::random(&mut rng, settings.ports));
        let flows: Vec<Header> = flows.collect();
        let rules = settings.rules.clone();
        let mut maker = Maker { rng, kind, settings, flows, next: 0, away: Vec::new(), rules };
        let steps = (0..STEPS).map(|_| maker.step()).collect();
        Plan { seed, settings: maker.settings, steps }
    }
}

fn settings(rng: &mut Rng, kind: Kind) -> Settings {
    let (workers, ports) = (rng.u8(1..=2), rng.u8(2..=4));
    let rules = (0..SLOTS).map(|slot| {
        // Without the first, most packets would go nowhere.
        (slot == 0 || rng.u8(0..4) > 0).then(|| Rule::random(rng, slot, ports, kind.tracks))
    });
    let rules = rules.collect();
    Settings {
        workers,
        answers: match rng.u8(0..4) {
            0 => Answers::Owner,
            1 => Answers::Workers(workers.into()),
            count => Answers::Handlers(u16::from(count) - 1),
        },
        revalidators: rng.u8(0..3),
        ports,
        rules,
        unified_entries: [0, 4, 1 << 12][rng.usize(0..3)],
        exact_insert_inverse: [0, 1, 100][rng.usize(0..3)],
        flow_limit: [3, 50, 100_000, 100_000][rng.usize(0..4)],
        max_idle_ms: [50, 500, 10_000][rng.usize(0..3)],
    }
}

impl Maker {
    fn step(&mut self) -> Step {
        match self.rng.u32(0..100) {
            0..30 => self.arrive(),
            30..60 => self.work(),
            60..76 => self.answer(),
            76..82 => self.go_on(),
            82..86 => Step::Hear,
            86..88 => Step::Tick,
            88..91 => Step::Pass(self.rng.u64(1..200)),
            91..95 if self.kind.rules => self.change(),
            95 if self.kind.ports => self.port(),
            96 if self.kind.tracks => Step::Flush(self.rng.u16(1..=ZONES)),
            97 if self.rng.bool() => Step::Purge,
            98..100 => Step::Drain,
            _ => self.arrive(),
        }
    }

    fn answer(&mut self) -> Step {
        let most = [1, 3, 64][self.rng.usize(0..3)];
        let Answers::Handlers(handlers) = self.settings.answers else {
            return Step::Answer(most);
        };
        let handler = self.rng.u8(..handlers as u8);
        match self.rng.u8(0..5) {
            0 => Step::Answer(most),
            1 | 2 => Step::Translate { handler, most },
            _ => Step::Install(handler),
        }
    }

    fn go_on(&mut self) -> Step {
        match self.settings.revalidators {
            revalidators @ 1.. if self.rng.u8(0..6) > 0 => {
                Step::Revalidate(self.rng.u8(..revalidators))
            }
            _ => Step::GoOn,
        }
    }

    fn work(&mut self) -> Step {
        let commands = [0, 1, 2, usize::MAX, usize::MAX][self.rng.usize(0..5)];
        Step::Work { worker: self.rng.u8(..self.settings.workers), commands }
    }

    fn arrive(&mut self) -> Step {
        let storm = self.kind.storms && self.rng.u8(0..12) == 0;
        let count = if storm { self.rng.usize(100..400) } else { self.rng.usize(1..12) };
        let mut packets = Vec::new();
        let mut header = self.header(storm);
        while packets.len() < count {
            if storm || self.rng.u8(0..3) == 0 {
                header = Header { port: header.port, ..self.header(storm) };
            }
            packets.push((self.next, header));
            self.next += 1;
        }
        Step::Arrive(packets)
    }

    fn header(&mut self, storm: bool) -> Header {
        let ports = self.settings.ports;
        match self.rng.u8(0..8) {
            _ if storm => Header::random(&mut self.rng, ports),
            0 => Header::random(&mut self.rng, ports),
            1..4 => {
                let flow = self.flows[self.rng.usize(..self.flows.len())];
                flow.reply(self.rng.u8(1..=ports))
            }
            _ => self.flows[self.rng.usize(..self.flows.len())],
        }
    }

    fn change(&mut self) -> Step {
        let slot = self.rng.usize(..SLOTS);
        let (ports, tracks) = (self.settings.ports, self.kind.tracks);
        let rng = &mut self.rng;
        let rule = match &self.rules[slot] {
            Some(_) if slot > 0 && rng.u8(0..3) == 0 => None,
            Some(rule) if rng.bool() => Some(rule.with_other_acts(rng, ports, tracks)),
            _ => Some(Rule::random(rng, slot, ports, tracks)),
        };
        self.rules[slot].clone_from(&rule);
        rule.map_or(Step::Delete(slot), |rule| Step::Put(slot, rule))
    }

    fn port(&mut self) -> Step {
        let port = self.rng.u8(1..=self.settings.ports);
        match self.away.iter().position(|&away| away == port) {
            Some(at) => Step::AddPort(self.away.swap_remove(at)),
            None => {
                self.away.push(port);
                Step::RemovePort(port)
            }
        }
    }
}
