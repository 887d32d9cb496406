//! The simulated switch: the control side, the workers and the ports, and the effect of each step.

mod control;
mod restart;

use crate::defect::{Defect, Fault};
use crate::handling::Handling;
use crate::header;
use crate::history::{History, Version};
use crate::law::{Law, Violation};
use crate::ledger::{Broken, Ledger};
use crate::member::Member;
use crate::plan::{Plan, Settings, Step, Threads};
use crate::report::Report;
use crate::staleness::Staleness;
use base::{Instant, MacAddr, PortNo, WorkerId};
use conntrack::{Config as Tracking, Conntrack, CtFlush, Filter};
use datapath::{UpcallQueue, WorkerStats};
use flow::{FlowCommand, FlowDump, Upcall};
use ofproto::{BridgeConfig, BridgeId, Config, FailMode, Ofproto, Revalidator};
use port::MemoryPort;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The start time of a run. It is not zero, since zero means "never" in some places.
const BEGIN: Instant = Instant::from_millis(1_000_000);
/// The duration of a step.
const STEP: Duration = Duration::from_micros(7);
/// The interval of a worker's timers.
const WORKER_TICK: Duration = Duration::from_secs(1);
/// The number of rounds after which revalidation must end where nothing changes, beside those that it needs for
/// the installed flows.
const ROUNDS: usize = 16;
const FLOWS_PER_ROUND: usize = 64;
/// The number of rounds after which all parts must be idle.
const DRAIN_ROUNDS: usize = 10_000;

/// A port of the bridge.
struct Port {
    device: PortNo,
    /// The end outside the switch, and the one inside.
    far: MemoryPort,
    near: MemoryPort,
}

/// A revalidator, with the version of the rules by which it translated what it has to apply.
struct Revalidating {
    revalidator: Revalidator,
    translated_by: usize,
}

struct World<'a> {
    settings: &'a Settings,
    seed: u64,
    /// The current threads.
    threads: Threads,
    now: Instant,
    step: usize,
    ofproto: Ofproto,
    bridge: BridgeId,
    orders: ofproto::Outbox,
    conntrack: Arc<Conntrack>,
    upcalls: Arc<UpcallQueue>,
    members: Vec<Member>,
    /// Counters of the workers that were stopped, and packets that were lost with them.
    stopped: Vec<WorkerStats>,
    lost_before: u64,
    restarts: u64,
    /// The handlers, either threads of their own or one per worker.
    handlings: Vec<Handling>,
    revalidators: Vec<Revalidating>,
    /// Answers of handlers that are delivered late (a defect).
    late: Vec<(WorkerId, FlowCommand)>,
    /// The ports by OpenFlow number.
    ports: BTreeMap<u8, Port>,
    /// The OpenFlow numbers by datapath port, including removed ports.
    numbers: BTreeMap<PortNo, u8>,
    /// Whether the control side was woken for upcalls.
    woken: bool,
    taken: Vec<Upcall>,
    pages: VecDeque<FlowDump>,
    history: History,
    ledger: Ledger,
    /// The oldest version that installed flows may correspond to, and since when newer ones are there.
    settled: usize,
    staleness: Staleness,
    worker_ticked: Instant,
    /// Whether rules or ports changed after the start.
    changed: bool,
    ports_changed: bool,
    fault: Fault,
}

/// Executes a plan.
///
/// # Errors
/// The first violation of a law.
pub fn run(plan: &Plan) -> Result<Report, Violation> {
    run_with(plan, None)
}

/// Executes a plan with a defect in the switch.
///
/// # Errors
/// The first violation of a law.
pub fn run_with(plan: &Plan, defect: Option<Defect>) -> Result<Report, Violation> {
    let mut world = World::new(plan, defect)?;
    for (step, what) in plan.steps.iter().enumerate() {
        world.step = step;
        world.now = world.now + STEP;
        world.carry_out(what).map_err(|broken| at(step, broken))?;
    }
    world.step = plan.steps.len();
    let end = world.end();
    end.map_err(|broken| at(plan.steps.len(), broken))
}

fn at(step: usize, (law, text): Broken) -> Violation {
    Violation { law, step, text }
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, defect: Option<Defect>) -> Result<World<'a>, Violation> {
        let settings = &plan.settings;
        let config = Config {
            workers: settings.threads.workers.into(),
            flow_limit: settings.flow_limit,
            max_idle_ms: settings.max_idle_ms,
            ..Config::default()
        };
        let mut ofproto = Ofproto::new(config);
        let mut bridge = BridgeConfig::new("br0", MacAddr([2, 0, 0, 0, 0, 0xb0]));
        bridge.fail_mode = FailMode::Secure;
        let bridge = ofproto.add_bridge(bridge, BEGIN);
        let mut world = World {
            settings,
            seed: plan.seed,
            threads: settings.threads,
            now: BEGIN,
            step: 0,
            ofproto,
            bridge,
            orders: ofproto::Outbox::default(),
            conntrack: Arc::new(Conntrack::new(plan.seed, Tracking::default())),
            upcalls: Arc::new(UpcallQueue::answered_by(settings.threads.answers, plan.seed)),
            members: Vec::new(),
            stopped: Vec::new(),
            lost_before: 0,
            restarts: 0,
            handlings: Vec::new(),
            revalidators: Vec::new(),
            late: Vec::new(),
            ports: BTreeMap::new(),
            numbers: BTreeMap::new(),
            woken: false,
            taken: Vec::new(),
            pages: VecDeque::new(),
            history: History::new(Version::default()),
            ledger: Ledger::default(),
            settled: 0,
            staleness: Staleness::default(),
            worker_ticked: BEGIN,
            changed: false,
            ports_changed: false,
            fault: Fault::new(defect),
        };
        world.begin().map_err(|broken| at(0, broken))?;
        Ok(world)
    }

    /// Creates threads, ports and rules from the settings.
    fn begin(&mut self) -> Result<(), Broken> {
        self.start_threads()?;
        for number in 1..=self.settings.ports {
            self.add_port(number)?;
        }
        for (slot, rule) in self.settings.rules.iter().enumerate() {
            if let Some(rule) = rule {
                self.put_rule(slot, rule)?;
            }
        }
        self.drain()?;
        (self.changed, self.ports_changed) = (false, false);
        Ok(())
    }

    fn carry_out(&mut self, step: &Step) -> Result<(), Broken> {
        match step {
            Step::Arrive(packets) => {
                for (number, header) in packets {
                    if let Some(port) = self.ports.get(&header.port) {
                        // If the queue of the port is full, the switch never receives the packet.
                        let _ = port.far.push(header.packet(*number));
                    }
                }
            }
            Step::Work { worker, commands } => return self.work((*worker).into(), *commands),
            Step::Answer(most) => self.answer(*most),
            Step::Translate { handler, most } => self.translate((*handler).into(), *most),
            Step::Install(handler) => self.install((*handler).into()),
            Step::Revalidate(number) => self.revalidate((*number).into()),
            Step::GoOn => self.go_on(),
            Step::Hear => self.hear(),
            Step::Tick => self.tick(),
            Step::Pass(ms) => self.now = self.now + Duration::from_millis(*ms),
            Step::Put(slot, rule) => return self.put_rule(*slot, rule),
            Step::Delete(slot) => return self.delete_rule(*slot),
            Step::RemovePort(number) => self.remove_port(*number),
            Step::AddPort(number) => return self.add_port(*number),
            Step::Flush(zone) => {
                self.ledger.known.flushed(*zone, self.step);
                // Flushing a zone without connections is not an error.
                let _ = self.conntrack.flush(self.now, &CtFlush::zone(base::Zone(*zone)));
            }
            Step::Purge => {
                self.ofproto.delete_megaflows(self.now, &mut self.orders);
                self.go_on();
            }
            Step::Restart { threads, is_late } => return self.restart(*threads, *is_late),
            Step::Drain => return self.drain(),
        }
        Ok(())
    }

    /// Runs one iteration of a worker.
    fn work(&mut self, worker: usize, commands: usize) -> Result<(), Broken> {
        let Some(member) = self.members.get_mut(worker) else { return Ok(()) };
        member.obey(self.now, commands);
        let (asked, version, step) = (member.asked(), member.settled, self.step);
        let (ledger, numbers) = (&mut self.ledger, &self.numbers);
        let (mut came, mut unknown) = (Vec::new(), 0);
        member.receive(self.now, &mut self.fault, |device, batch| {
            for packet in batch.iter() {
                match header::parse(packet, numbers.get(&device).copied()) {
                    Some((number, header)) => {
                        came.push(number);
                        ledger.received(number, header, step, version);
                    }
                    None => unknown += 1,
                }
            }
        });
        let is_done = member.asked() == asked;
        self.answer_own(worker);
        let Some(member) = self.members.get_mut(worker) else { return Ok(()) };
        let (pages, wakes) = member.take_news();
        self.pages.extend(pages);
        if wakes && !self.fault.strikes(Defect::LosesWake) {
            self.woken = true;
        }
        self.take_sent()?;
        if unknown > 0 {
            return Err((Law::Sanity, format!("{unknown} packets that were never made came in")));
        }
        if is_done {
            self.ledger.close_some(&came, self.step, &self.history)?;
        }
        if self.is_quiet() {
            self.ledger.close_all(self.step, &self.history)?;
        }
        Ok(())
    }

    /// Takes and checks the packets that the switch sent.
    fn take_sent(&mut self) -> Result<(), Broken> {
        for (number, port) in &self.ports {
            while let Some(packet) = port.far.pop() {
                let Some(read) = header::read(&packet) else {
                    let text = format!("port {number} sends {:02x?}", packet.data());
                    return Err((Law::Sanity, text));
                };
                self.ledger.sent(read, *number, self.step)?;
            }
        }
        Ok(())
    }

    /// Returns whether no packet is in the switch.
    fn is_quiet(&self) -> bool {
        let is_idle = |handling: &Handling| handling.is_idle(&self.upcalls);
        let is_answered =
            self.upcalls.is_empty() && self.late.is_empty() && self.handlings.iter().all(is_idle);
        is_answered && self.members.iter().all(Member::is_idle)
    }

    /// Runs all parts until they are idle.
    fn drain(&mut self) -> Result<(), Broken> {
        for round in 0..DRAIN_ROUNDS {
            self.now = self.now + STEP;
            let received = self.ledger.received;
            for worker in 0..self.members.len() {
                self.work(worker, usize::MAX)?;
            }
            for handler in 0..self.handlings.len() {
                self.translate(handler, usize::MAX);
                self.install(handler);
            }
            self.answer(usize::MAX);
            for revalidator in 0..self.revalidators.len() {
                self.revalidate(revalidator);
            }
            self.go_on();
            let heard = !self.pages.is_empty();
            self.hear();
            let is_idle = received == self.ledger.received && !heard && !self.woken;
            let is_settled =
                self.settled == self.history.last() && !self.ofproto.needs_revalidation();
            if is_idle && is_settled && self.is_quiet() {
                return Ok(());
            }
            self.check_revalidation(round)?;
            if is_idle
                && !self.woken
                && self.members.iter().all(Member::is_idle)
                && !self.upcalls.is_empty()
            {
                return Err((Law::Sanity, "upcalls wait and the control side sleeps".to_owned()));
            }
        }
        Err((Law::Sanity, format!("not at rest after {DRAIN_ROUNDS} rounds")))
    }

    /// Checks that revalidation ends after so many rounds in which nothing changed.
    fn check_revalidation(&self, round: usize) -> Result<(), Broken> {
        let flows = self.ofproto.megaflow_counters().current;
        if !self.ofproto.needs_revalidation() || round < ROUNDS + flows / FLOWS_PER_ROUND {
            return Ok(());
        }
        Err((Law::Slices, format!("{flows} flows are not revalidated after {round} rounds")))
    }

    /// Runs all parts until they are idle, and returns the counters.
    fn end(&mut self) -> Result<Report, Broken> {
        self.drain()?;
        self.ofproto.collect(&mut self.orders);
        self.go_on();
        self.drain()?;
        let lost = self.lost_before + self.members.iter().map(Member::lost).sum::<u64>();
        if self.ledger.missing > lost {
            let text =
                format!("{} packets are missing and {lost} are counted", self.ledger.missing);
            return Err((Law::Loss, text));
        }
        self.check_received()?;
        self.check_flows()?;
        let rules_counted = self.check_statistics(lost)?;
        Ok(self.report(lost, rules_counted))
    }

    fn check_received(&self) -> Result<(), Broken> {
        let received = self.sum(|stats| stats.received);
        if received == self.ledger.received && self.ledger.open() == 0 {
            return Ok(());
        }
        let (came, open) = (self.ledger.received, self.ledger.open());
        let text =
            format!("{came} packets came, {received} are counted, {open} are still under way");
        Err((Law::Sanity, text))
    }

    /// Returns the sum of a counter of all workers.
    fn sum(&self, of: fn(&WorkerStats) -> u64) -> u64 {
        let running = self.members.iter().map(|it| it.worker.stats());
        self.stopped.iter().chain(running).map(of).sum()
    }

    fn report(&self, lost: u64, rules_counted: u64) -> Report {
        let flows = self.ofproto.megaflow_counters();
        Report {
            digest: self.ledger.digest(),
            received: self.ledger.received,
            sent: self.ledger.sent,
            nowhere: self.ledger.nowhere,
            lost,
            misses: self.sum(|stats| stats.misses),
            cached: self.sum(|stats| stats.unified_hits),
            recirculated: self.sum(|stats| stats.recirculated),
            changed: flows.changed,
            outdated: flows.outdated,
            idle: flows.idle,
            over_limit: flows.over_limit,
            restarts: self.restarts,
            versions: self.history.last() as u64,
            connections: self.conntrack.entries(self.now, &Filter::default()).count() as u64,
            rules_counted,
        }
    }
}
