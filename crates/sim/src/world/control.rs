//! The control side: upcalls, rules, ports, statistics.

use super::{PORT_DEPTH, Port, WORKER_TICK, World};
use crate::defect::Defect;
use crate::law::Law;
use crate::ledger::Broken;
use crate::member::Order;
use crate::rule::Rule;
use base::{MacAddr, OfPort, PortNo, TableId, WorkerId};
use datapath::Answers;
use flow::{FlowCommand, Upcall};
use ofproto::{PortDevice, PortSpec};
use openflow::message::{FlowModCommand, FlowStatsRequest};
use openflow::text::parse_flow;
use port::MemoryPort;

/// The minimum number of installed flows that one slice of revalidation checks.
const FLOWS_PER_SLICE: usize = 128;
/// The number of misses that a worker answers in an iteration.
const OWN_BATCH: usize = 8;
/// The number of additional slices that revalidation may need.
const SLICES: usize = 8;

impl World<'_> {
    /// Answers upcalls, if the control side was woken.
    pub(super) fn answer(&mut self, most: usize) -> Result<(), Broken> {
        self.ofproto.apply_credits(self.now);
        if !self.woken {
            return Ok(());
        }
        self.upcalls.pop(most, &mut self.taken);
        for upcall in std::mem::take(&mut self.taken) {
            if !self.fault.strikes(Defect::LosesUpcall) {
                self.ofproto.upcall(self.now, upcall, &mut self.orders);
            }
        }
        self.woken = !self.upcalls.is_empty();
        self.go_on()
    }

    /// Does one slice of the upkeep of installed flows, and delivers the resulting commands.
    pub(super) fn go_on(&mut self) -> Result<(), Broken> {
        self.ofproto.go_on(self.now, &mut self.orders);
        let commands = std::mem::take(&mut self.orders.commands);
        self.deliver(commands);
        self.ofproto.take_events();
        self.settle(self.revalidators.is_empty())
    }

    /// A revalidator translates flows again, or applies its results.
    pub(super) fn revalidate(&mut self, number: usize) -> Result<(), Broken> {
        let Some(revalidator) = self.revalidators.get_mut(number) else { return Ok(()) };
        if revalidator.is_idle() {
            revalidator.translate(self.now);
            return Ok(());
        }
        let mut commands = Vec::new();
        revalidator.carry_out(self.now, |all| commands.append(all));
        self.deliver(commands);
        self.settle(true)
    }

    /// Checks whether all flows correspond to the current rules, and that this takes no more slices of
    /// revalidation than allowed. `is_slice` tells whether a slice was just done.
    fn settle(&mut self, is_slice: bool) -> Result<(), Broken> {
        if self.settled == self.history.last() {
            return Ok(());
        }
        if !self.ofproto.needs_revalidation() {
            // A handler may still have answers of older rules to install.
            let held = self.handlings.iter().filter_map(|handling| handling.version).min();
            let settled = held.map_or(self.history.last(), |held| held.min(self.history.last()));
            if settled > self.settled {
                (self.settled, self.slices) = (settled, 0);
                for member in &mut self.members {
                    member.inbox.push_back(Order::Settled(settled));
                }
            }
            return Ok(());
        }
        self.slices += usize::from(is_slice);
        let flows = self.ofproto.megaflow_counters().current;
        // Each version may restart revalidation.
        let versions = self.history.last() - self.settled;
        let most = (SLICES + flows / FLOWS_PER_SLICE) * versions;
        if self.slices > most {
            let text = format!("{} slices for {flows} flows and {versions} changes", self.slices);
            return Err((Law::Slices, text));
        }
        Ok(())
    }

    /// A handler without pending answers translates misses by the current rules.
    pub(super) fn translate(&mut self, handler: usize, most: usize) {
        let Some(handling) = self.handlings.get_mut(handler) else { return };
        if handling.version.is_some() {
            return;
        }
        let (fault, version) = (&mut self.fault, self.history.last());
        let is_lost = || fault.strikes(Defect::LosesUpcall);
        let mut refused = Vec::new();
        for upcall in handling.translate(self.now, most, &self.upcalls, version, is_lost) {
            let (is_queued, dropped) = self.upcalls.pass_on(upcall);
            self.woken |= is_queued;
            refused.extend(dropped.and_then(Upcall::refusal));
        }
        self.deliver(refused);
    }

    /// A handler installs the flows of its answers. Flows of older rules are revalidated.
    pub(super) fn install(&mut self, handler: usize) {
        let late = std::mem::take(&mut self.late);
        self.deliver(late);
        let Some(handling) = self.handlings.get_mut(handler) else { return };
        if handling.version.is_none() {
            return;
        }
        let mut commands = Vec::new();
        handling.install(self.now, |all| commands.append(all));
        if self.fault.strikes(Defect::LosesAnswer) {
            commands.pop();
        }
        if self.fault.strikes(Defect::DelaysAnswers) {
            std::mem::swap(&mut commands, &mut self.late);
        }
        self.deliver(commands);
    }

    /// A worker answers its own misses, if the settings say so.
    pub(super) fn answer_own(&mut self, worker: usize) {
        if !matches!(self.settings.answers, Answers::Workers(_)) {
            return;
        }
        self.translate(worker, OWN_BATCH);
        let (Some(handling), Some(member)) =
            (self.handlings.get_mut(worker), self.members.get_mut(worker))
        else {
            return;
        };
        if handling.version.is_some() {
            let mut commands = Vec::new();
            handling.install(self.now, |all| commands.append(all));
            member.carry_out(self.now, commands, &mut self.fault);
        }
    }

    /// Puts commands into the inboxes of their workers.
    fn deliver(&mut self, commands: Vec<(WorkerId, FlowCommand)>) {
        for (worker, command) in commands {
            let is_change = match &command {
                FlowCommand::Delete(_) => true,
                FlowCommand::Put(put) => {
                    self.ofproto.megaflow(put.id).is_some_and(|it| it.created < self.now)
                }
                FlowCommand::Execute(_) | FlowCommand::Collect => false,
            };
            if is_change && self.fault.strikes(Defect::LosesChange) {
                continue;
            }
            if let Some(member) = self.members.get_mut(usize::from(worker.0)) {
                member.inbox.push_back(Order::Flow(command));
            }
        }
    }

    /// Processes a page of a dump.
    pub(super) fn hear(&mut self) -> Result<(), Broken> {
        let Some(page) = self.pages.pop_front() else { return Ok(()) };
        if !self.fault.strikes(Defect::LosesPage) {
            self.ofproto.dump(self.now, page);
        }
        self.go_on()
    }

    /// Runs the timers.
    pub(super) fn tick(&mut self) -> Result<(), Broken> {
        self.ofproto.tick(self.now, &mut self.orders);
        self.conntrack.tick(self.now);
        if self.now - self.worker_ticked >= WORKER_TICK {
            self.worker_ticked = self.now;
            self.members.iter_mut().for_each(|member| member.worker.tick_alone());
        }
        self.go_on()
    }

    /// Puts a rule into a slot.
    pub(super) fn put_rule(&mut self, slot: usize, rule: &Rule) -> Result<(), Broken> {
        let before = self.history.now().rules.get(&slot).cloned();
        if let Some(before) = before.filter(|before| before.strict() != rule.strict()) {
            self.flow_mod(FlowModCommand::DeleteStrict, &before.strict())?;
        }
        self.flow_mod(FlowModCommand::Add, &rule.to_string())?;
        self.history.change(|version| {
            version.rules.insert(slot, rule.clone());
        });
        self.changed = true;
        self.go_on()
    }

    /// Deletes a rule.
    pub(super) fn delete_rule(&mut self, slot: usize) -> Result<(), Broken> {
        let Some(rule) = self.history.now().rules.get(&slot).cloned() else { return Ok(()) };
        self.flow_mod(FlowModCommand::DeleteStrict, &rule.strict())?;
        self.history.change(|version| {
            version.rules.remove(&slot);
        });
        self.changed = true;
        self.go_on()
    }

    fn flow_mod(&mut self, command: FlowModCommand, text: &str) -> Result<(), Broken> {
        let wrong = |why: String| (Law::Sanity, format!("{text}: {why}"));
        let flow_mod =
            parse_flow(text, command, &|_: &str| None).map_err(|error| wrong(error.to_string()))?;
        let done = self.ofproto.flow_mod(self.bridge, &flow_mod, self.now);
        done.map_err(|error| wrong(error.reason))
    }

    /// Adds a port.
    pub(super) fn add_port(&mut self, number: u8) -> Result<(), Broken> {
        if self.ports.contains_key(&number) {
            return Ok(());
        }
        let device = PortNo(self.numbers.len() as u32 + 1);
        let (far, near) = MemoryPort::pair(PORT_DEPTH);
        let mac = MacAddr([2, 0, 0, 0, 0, number]);
        let mut spec = PortSpec::new(format!("p{number}"), mac, PortDevice::Datapath(device));
        spec.requested = Some(OfPort(number.into()));
        let added = self.ofproto.add_port(self.bridge, spec, self.now);
        if added != Ok(OfPort(number.into())) {
            return Err((Law::Sanity, format!("port {number} is added: {added:?}")));
        }
        self.ports.insert(number, Port { device, far });
        self.numbers.insert(device, number);
        let receiver = usize::from(number) % self.members.len();
        for (at, member) in self.members.iter_mut().enumerate() {
            let (port, receives) = (near.clone(), at == receiver);
            member.inbox.push_back(Order::AddPort { device, port, receives });
        }
        self.history.change(|version| {
            version.ports.insert(number);
        });
        (self.changed, self.ports_changed) = (true, true);
        self.go_on()
    }

    /// Removes a port.
    pub(super) fn remove_port(&mut self, number: u8) -> Result<(), Broken> {
        let Some(port) = self.ports.remove(&number) else { return Ok(()) };
        self.ofproto.remove_port(self.bridge, OfPort(number.into()), self.now);
        self.upcalls.remove_port(port.device);
        for member in &mut self.members {
            member.inbox.push_back(Order::RemovePort(port.device));
        }
        self.history.change(|version| {
            version.ports.remove(&number);
        });
        (self.changed, self.ports_changed) = (true, true);
        self.go_on()
    }

    /// Checks that the control side and the workers have the same installed flows.
    pub(super) fn check_flows(&self) -> Result<(), Broken> {
        for (at, member) in self.members.iter().enumerate() {
            let known = self
                .ofproto
                .megaflows()
                .into_iter()
                .filter(|flow| usize::from(flow.worker.0) == at)
                .count();
            let installed = member.worker.flow_count();
            if known != installed {
                let text = format!("worker {at} has {installed} flows, the control side {known}");
                return Err((Law::Flows, text));
            }
        }
        Ok(())
    }

    /// Checks that every packet counts once in table 0 and in each rule that it hit. Returns the number of
    /// rules that were checked exactly: after a change of rules, the new ones also count earlier packets of
    /// installed flows.
    pub(super) fn check_statistics(&self, lost: u64) -> Result<u64, Broken> {
        // Lost packets and those of a port that was removed meanwhile are not looked up in the tables.
        if self.ports_changed || lost > 0 {
            return Ok(0);
        }
        let tables = self.ofproto.table_stats(self.bridge);
        let first = tables.iter().find(|table| table.table == TableId(0));
        let lookups = first.map_or(0, |table| table.lookups);
        if lookups != self.ledger.received {
            let text = format!("{} packets, {lookups} lookups in table 0", self.ledger.received);
            return Err((Law::Statistics, text));
        }
        if self.changed {
            return Ok(0);
        }
        let request = FlowStatsRequest::default();
        let flows = self.ofproto.flows(self.bridge, &request, self.now);
        for (slot, rule) in &self.history.now().rules {
            let flow =
                flows.iter().find(|it| it.table.0 == rule.table && it.priority == rule.priority);
            let packets = flow.map_or(0, |flow| flow.packets);
            let count = self.ledger.rules.get(slot).copied().unwrap_or_default();
            if packets < count.sure || packets > count.most {
                let text = format!(
                    "{rule} counts {packets} packets; it was hit by {} to {}",
                    count.sure, count.most
                );
                return Err((Law::Statistics, text));
            }
        }
        Ok(flows.len() as u64)
    }
}
