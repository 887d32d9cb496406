//! The worker, the handlers and the control thread of a switch, simulated by one thread. Each has its own
//! clock, which advances by the processor time of its work, as if each had its own processor.

use super::super::hosts::Hosts;
use super::policy::{Policy, handler_of};
use crate::BenchError;
use ::conntrack::{Config as ConntrackConfig, Conntrack};
use base::{Instant, WorkerId};
use datapath::Answers;
use flow::{FlowCommand, Upcall};
use load::in_memory::{Cable, Switch};
use ofproto::{After, Handler};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use switch::latency::{self, Latency};

/// The start time of an experiment: not zero, which means "never" in places.
pub const BEGIN: Instant = Instant::from_millis(1000);
/// The time after which hosts have given up, however slow the switch is.
const LONGEST: Duration = Duration::from_secs(30);

/// A handler with its clock.
struct TimedHandler {
    handler: Handler,
    at: Instant,
    /// Its upcalls, under a policy with one list per handler.
    list: VecDeque<Upcall>,
}

/// The switch and the clocks of its threads.
pub struct Station {
    pub switch: Switch,
    pub hosts: Hosts,
    pub latency: Latency,
    cables: Vec<Cable>,
    policy: Policy,
    desks: Vec<TimedHandler>,
    worker_at: Instant,
    control_at: Instant,
    /// When the control thread was woken.
    control_told: Option<Instant>,
    /// Answers by the time at which the worker receives them, and their order.
    answers: BTreeMap<(Instant, u64), FlowCommand>,
    answered: u64,
    batch: usize,
    next_port: usize,
    arp_turn: u16,
}

/// Runs work. Returns its result and its processor time.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = clock::thread_time();
    let done = work();
    (done, clock::thread_time().saturating_sub(before))
}

impl Station {
    /// A learning switch between these hosts.
    pub fn new(
        hosts: Hosts,
        ports: u16,
        (policy, handlers): (Policy, u16),
        batch: u16,
    ) -> Result<Station, BenchError> {
        let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), ConntrackConfig::default()));
        // Under the other policies all upcalls go through one list and are distributed at once.
        let lists = if policy == Policy::Ours { handlers } else { 1 };
        let answers = Answers::Handlers(lists);
        let (flows, worker) = ("actions=normal", WorkerId(0));
        let mut switch = Switch::answered_by(answers, ports, flows, worker, conntrack)?;
        let desk = |_| TimedHandler { handler: switch.handler(), at: BEGIN, list: VecDeque::new() };
        let desks = (0..handlers).map(desk).collect();
        Ok(Station {
            desks,
            cables: hosts.cables(),
            switch,
            hosts,
            latency: Latency::default(),
            policy,
            worker_at: BEGIN,
            control_at: BEGIN,
            control_told: None,
            answers: BTreeMap::new(),
            answered: 0,
            batch: batch.into(),
            next_port: 0,
            arp_turn: 0,
        })
    }

    /// The duration so far.
    pub fn took(&self) -> Duration {
        self.worker_at - BEGIN
    }

    /// Runs until all hosts are done.
    pub fn run(&mut self) -> Result<(), BenchError> {
        while !self.hosts.are_over() && self.took() < LONGEST {
            self.step()?;
        }
        Ok(())
    }

    /// Runs the thread with the earliest clock.
    fn step(&mut self) -> Result<(), BenchError> {
        let at = self.worker_at;
        if self.control_told.is_some_and(|told| told.max(self.control_at) <= at) {
            self.control();
            return Ok(());
        }
        if let Some(handler) = self.next_handler().filter(|it| self.desks[*it].at <= at) {
            self.handle(handler);
            return Ok(());
        }
        self.hosts.tick(at);
        let ready = self.answers.first_entry().filter(|entry| entry.key().0 <= at);
        if let Some(entry) = ready {
            let command = entry.remove();
            self.carry_out(command);
        } else if let Some(port) = self.port_with_packets() {
            let Station { switch, cables, .. } = self;
            let (received, took) = timed(|| switch.work(at, cables, port));
            received?;
            self.worker_at = self.worker_at + took;
            self.hand_out();
        } else {
            self.rest();
        }
        self.hosts.answer(self.worker_at);
        Ok(())
    }

    /// Among the handlers with waiting upcalls, the one with the earliest clock.
    fn next_handler(&self) -> Option<usize> {
        let waits = |number: &usize| match self.policy {
            Policy::Ours => self.switch.has_upcalls(*number as u16),
            Policy::OneForArp | Policy::ArpSpread => !self.desks[*number].list.is_empty(),
        };
        (0..self.desks.len()).filter(waits).min_by_key(|number| self.desks[*number].at)
    }

    /// The worker is idle until the next event.
    fn rest(&mut self) {
        let handler = self.next_handler().map(|number| self.desks[number].at);
        let control = self.control_told.map(|told| told.max(self.control_at));
        let answer = self.answers.first_key_value().map(|((ready, _), _)| *ready);
        let events = [handler, control, answer, self.hosts.next_timer()];
        let next = events.into_iter().flatten().min();
        self.worker_at = self.worker_at.max(next.unwrap_or(self.worker_at + LONGEST));
    }

    fn port_with_packets(&mut self) -> Option<usize> {
        let count = self.cables.len();
        let mut ports = (0..count).map(|step| (self.next_port + step) % count);
        let port = ports.find(|port| self.hosts.has_sent(*port))?;
        self.next_port = (port + 1) % count;
        Some(port)
    }

    /// Distributes upcalls to the handlers' lists, under a policy that has them.
    fn hand_out(&mut self) {
        if self.policy == Policy::Ours {
            return;
        }
        let (mut upcalls, handlers) = (Vec::new(), self.desks.len() as u16);
        self.switch.take_upcalls(0, usize::MAX, &mut upcalls);
        for upcall in upcalls {
            let number = handler_of(self.policy, &upcall.key, handlers, &mut self.arp_turn);
            self.desks[usize::from(number)].list.push_back(upcall);
        }
    }

    /// A handler takes a batch, translates it and installs its flows; then the worker receives the answers.
    fn handle(&mut self, number: usize) {
        let Station { switch, batch, desks, policy, latency, .. } = self;
        let desk = &mut desks[number];
        let mut upcalls = Vec::new();
        let ((), took) = timed(|| match policy {
            Policy::Ours => switch.take_upcalls(number as u16, *batch, &mut upcalls),
            Policy::OneForArp | Policy::ArpSpread => {
                let most = (*batch).min(desk.list.len());
                upcalls.extend(desk.list.drain(..most));
            }
        });
        // The first of them woke it, if it slept.
        let queued = upcalls.iter().map(|upcall| upcall.queued).min().unwrap_or(desk.at);
        desk.at = desk.at.max(queued) + took;
        latency.batch(number as u16, upcalls.len());
        let taken = desk.at;
        let mut refused = Vec::new();
        for upcall in upcalls {
            let stamps = latency::taken(&upcall, number as u16, taken);
            let (before, at) = (clock::thread_time(), desk.at);
            let now = || at + clock::thread_time().saturating_sub(before);
            refused.extend(desk.handler.translate(at, upcall, Some(stamps)));
            desk.at = now();
        }
        let (mut commands, at) = (Vec::new(), desk.at);
        let (after, took) = timed(|| {
            desk.handler.install(at, |all| {
                latency::translated(all, at);
                commands.append(all);
            })
        });
        desk.at = desk.at + took;
        let ready = desk.at;
        self.answer(ready, commands);
        let After { wake_owner, wake_revalidators, .. } = after;
        if wake_owner || wake_revalidators {
            self.control_told = self.control_told.or(Some(ready));
        }
        for upcall in refused {
            let now = self.control_at.max(ready);
            let (commands, took) = timed(|| self.switch.translate(now, upcall));
            self.control_at = now + took;
            self.answer(self.control_at, commands);
        }
    }

    /// The control thread applies the handlers' credits, and revalidates flows.
    fn control(&mut self) {
        let now = self.control_at.max(self.control_told.take().unwrap_or(self.control_at));
        let (commands, took) = timed(|| self.switch.catch_up(now));
        self.control_at = now + took;
        self.answer(self.control_at, commands);
    }

    fn answer(&mut self, ready: Instant, commands: Vec<(WorkerId, FlowCommand)>) {
        for (_, command) in commands {
            self.answered += 1;
            self.answers.insert((ready, self.answered), command);
        }
    }

    fn carry_out(&mut self, command: FlowCommand) {
        let (at, stamps) = (self.worker_at, latency::stamps_of(&command));
        let Station { switch, cables, .. } = self;
        let ((), took) = timed(|| switch.carry_out(at, command, cables));
        self.worker_at = self.worker_at + took;
        if let Some(stamps) = stamps {
            self.latency.recorder(WorkerId(0)).record(&[stamps], self.worker_at);
        }
    }
}
