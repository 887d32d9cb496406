//! Plans: the initial state and the steps of a run, generated from a seed.

use crate::header::Header;
use crate::rule::{Rule, Tracks, ZONES};
use datapath::Answers;
use fastrand::Rng;

/// The threads of a switch beside the control side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threads {
    /// The number of workers. Each port's receive queue belongs to one of them.
    pub workers: u8,
    /// The threads that answer misses.
    pub answers: Answers,
    /// The number of revalidators. Without any the control side does their work.
    pub revalidators: u8,
}

/// The initial state of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The threads at the start.
    pub threads: Threads,
    /// The number of OpenFlow ports, which are numbered from 1.
    pub ports: u8,
    /// The rules by slot; a slot may be free.
    pub rules: Vec<Option<Rule>>,
    /// Entries of each worker's unified cache; 0 turns it off.
    pub unified_entries: usize,
    /// One in this many megaflow hits is inserted into the exact-match cache; 0 disables the cache.
    pub exact_insert_inverse: u32,
    /// The maximum number of installed flows.
    pub flow_limit: usize,
    /// The idle timeout of installed flows in milliseconds.
    pub max_idle_ms: u64,
    /// The number of packets that a port's device holds in each direction. It drops what exceeds that.
    pub port_depth: usize,
}

/// One step of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Packets, each with a number, arrive at a port and are queued there.
    Arrive(Vec<(u32, Header)>),
    /// A worker executes commands and receives from its ports.
    Work {
        /// The worker.
        worker: u8,
        /// The maximum number of commands.
        commands: usize,
    },
    /// The control side answers at most this many upcalls, if it was woken.
    Answer(usize),
    /// A handler without pending answers translates misses.
    Translate {
        /// The handler.
        handler: u8,
        /// The maximum number of misses.
        most: usize,
    },
    /// A handler installs the flows of its answers.
    Install(u8),
    /// A revalidator translates flows again, or applies its results.
    Revalidate(u8),
    /// The control side does one slice of revalidation and other upkeep.
    GoOn,
    /// The control side processes one page of a dump.
    Hear,
    /// Timers of the control side and the workers run.
    Tick,
    /// Time passes, in milliseconds.
    Pass(u64),
    /// A rule replaces the one in its slot.
    Put(usize, Rule),
    /// The rule of a slot is deleted.
    Delete(usize),
    /// A port is removed, with the packets that are queued there.
    RemovePort(u8),
    /// A port is added again.
    AddPort(u8),
    /// The connections of a zone are flushed.
    Flush(u16),
    /// All installed flows are deleted, as by `dpctl/del-flows`.
    Purge,
    /// Workers, handlers and revalidators end, and others take their places, as after a change of
    /// `pmd-cpu-mask` or of the number of handlers.
    Restart {
        /// The threads from then on.
        threads: Threads,
        /// Whether the old workers receive packets after the last upcalls were answered.
        is_late: bool,
    },
    /// All parts continue until they are idle.
    Drain,
}

/// A run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The seed that it was generated from.
    pub seed: u64,
    /// The initial state.
    pub settings: Settings,
    /// The steps.
    pub steps: Vec<Step>,
}

/// The kinds of changes during a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    /// Rules change.
    rules: bool,
    /// Ports are removed and added.
    ports: bool,
    /// Whether packets are tracked. Zones are flushed then.
    tracks: Tracks,
    /// Many different packets arrive at once, more than the queue of misses holds.
    storms: bool,
    /// Workers and handlers are replaced.
    restarts: bool,
    /// Devices hold few packets.
    drops: bool,
}

impl Kind {
    fn of(seed: u64) -> Kind {
        let bit = |n: u64| seed >> n & 1 == 1;
        let every = |count: u64| seed % count == count - 1;
        Kind {
            rules: bit(0),
            tracks: match (bit(1), bit(2)) {
                (false, _) => Tracks::Nothing,
                (true, false) => Tracks::Connections,
                (true, true) => Tracks::Nat,
            },
            ports: every(5),
            storms: every(8),
            restarts: every(3),
            drops: every(11),
        }
    }
}

const SLOTS: usize = 16;
const STEPS: usize = 400;
/// The usual depth of a port's queues in packets, and that of one which drops some.
const PORT_DEPTHS: [usize; 2] = [4096, 6];

/// Generates the steps.
struct Maker {
    rng: Rng,
    kind: Kind,
    settings: Settings,
    /// The current threads.
    threads: Threads,
    /// The flows of most packets.
    flows: Vec<Header>,
    next: u32,
    /// The ports that are currently removed.
    away: Vec<u8>,
    /// The current rules.
    rules: Vec<Option<Rule>>,
}

impl Plan {
    /// Generates the plan of a seed.
    pub fn new(seed: u64) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let kind = Kind::of(seed);
        let settings = settings(&mut rng, kind);
        let flows = (0..rng.usize(4..16)).map(|_| Header::random(&mut rng, settings.ports));
        let flows: Vec<Header> = flows.collect();
        let rules = settings.rules.clone();
        let (threads, away) = (settings.threads, Vec::new());
        let mut maker = Maker { rng, kind, settings, threads, flows, next: 0, away, rules };
        let steps = (0..STEPS).map(|_| maker.step()).collect();
        Plan { seed, settings: maker.settings, steps }
    }
}

fn settings(rng: &mut Rng, kind: Kind) -> Settings {
    let (workers, ports) = (rng.u8(1..=2), rng.u8(2..=4));
    let rules = (0..SLOTS).map(|slot| {
        // Without the first rule, most packets would be dropped.
        (slot == 0 || rng.u8(0..4) > 0).then(|| Rule::random(rng, slot, ports, kind.tracks))
    });
    let rules = rules.collect();
    Settings {
        threads: threads(rng, workers),
        ports,
        rules,
        unified_entries: [0, 4, 1 << 12][rng.usize(0..3)],
        exact_insert_inverse: [0, 1, 100][rng.usize(0..3)],
        flow_limit: [3, 50, 100_000, 100_000][rng.usize(0..4)],
        max_idle_ms: [50, 500, 10_000][rng.usize(0..3)],
        port_depth: PORT_DEPTHS[usize::from(kind.drops)],
    }
}

/// The threads beside so many workers.
fn threads(rng: &mut Rng, workers: u8) -> Threads {
    let answers = match rng.u8(0..4) {
        0 => Answers::Owner,
        1 => Answers::Workers(workers.into()),
        count => Answers::Handlers(u16::from(count) - 1),
    };
    Threads { workers, answers, revalidators: rng.u8(0..3) }
}

impl Maker {
    fn step(&mut self) -> Step {
        if self.kind.restarts && self.rng.u8(0..40) == 0 {
            let workers = self.rng.u8(1..=4);
            self.threads = threads(&mut self.rng, workers);
            return Step::Restart { threads: self.threads, is_late: self.rng.bool() };
        }
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
            96 if self.kind.tracks != Tracks::Nothing => Step::Flush(self.rng.u16(1..=ZONES)),
            97 if self.rng.bool() => Step::Purge,
            98..100 => Step::Drain,
            _ => self.arrive(),
        }
    }

    fn answer(&mut self) -> Step {
        let most = [1, 3, 64][self.rng.usize(0..3)];
        let Answers::Handlers(handlers) = self.threads.answers else {
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
        match self.threads.revalidators {
            revalidators @ 1.. if self.rng.u8(0..6) > 0 => {
                Step::Revalidate(self.rng.u8(..revalidators))
            }
            _ => Step::GoOn,
        }
    }

    fn work(&mut self) -> Step {
        let commands = [0, 1, 2, usize::MAX, usize::MAX][self.rng.usize(0..5)];
        Step::Work { worker: self.rng.u8(..self.threads.workers), commands }
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
                let reply = flow.reply(self.rng.u8(1..=ports));
                match self.kind.tracks == Tracks::Nat && self.rng.bool() {
                    true => Header { dst: Header::NAT_HOST, ..reply },
                    false => reply,
                }
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
