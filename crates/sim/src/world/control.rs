//! The control side: upcalls, rules, ports, statistics.

use super::{Port, Revalidating, WORKER_TICK, World};
use crate::defect::Defect;
use crate::history::Version;
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

/// The number of misses that a worker answers in an iteration.
const OWN_BATCH: usize = 8;

impl World<'_> {
    /// Answers upcalls, if the control side was woken.
    pub(super) fn answer(&mut self, most: usize) {
        self.ofproto.apply_credits(self.now);
        if !self.woken {
            return;
        }
        self.upcalls.pop(most, &mut self.taken);
        for upcall in std::mem::take(&mut self.taken) {
            if !self.fault.strikes(Defect::LosesUpcall) {
                self.ofproto.upcall(self.now, upcall, &mut self.orders);
            }
        }
        self.woken = !self.upcalls.is_empty();
        self.go_on();
    }

    /// Does one slice of the upkeep of installed flows, and delivers the resulting commands.
    pub(super) fn go_on(&mut self) {
        self.ofproto.go_on(self.now, &mut self.orders);
        let commands = std::mem::take(&mut self.orders.commands);
        self.deliver(commands);
        self.ofproto.take_events();
        self.staleness.slices += usize::from(self.revalidators.is_empty());
        self.settle();
    }

    /// A revalidator translates flows again, or applies its results.
    pub(super) fn revalidate(&mut self, number: usize) {
        let version = self.history.last();
        let Some(Revalidating { revalidator, translated_by }) = self.revalidators.get_mut(number)
        else {
            return;
        };
        if revalidator.is_idle() {
            revalidator.translate(self.now);
            *translated_by = version;
            // It may have had to do with flows that are gone.
            self.staleness.slices += usize::from(revalidator.is_idle());
            self.settle();
            return;
        }
        let (mut commands, translated_by) = (Vec::new(), *translated_by);
        revalidator.carry_out(self.now, |all| commands.append(all));
        self.deliver(commands);
        self.staleness.slices += 1;
        self.staleness.installed(translated_by);
        self.settle();
    }

    /// Finds out by which rules installed flows may still be, and tells the workers.
    fn settle(&mut self) {
        if self.settled == self.history.last() {
            return;
        }
        let flows = self.ofproto.megaflow_counters().current;
        // A handler may still have answers of older rules to install.
        let held = self.handlings.iter().filter_map(|handling| handling.version).min();
        let newest = held.map_or(self.history.last(), |held| held.min(self.history.last()));
        let settled = if !self.ofproto.needs_revalidation() {
            newest
        } else if self.revalidators.iter().all(|it| it.revalidator.is_idle()) {
            self.staleness.over(flows).unwrap_or(0).min(newest)
        } else {
            0
        };
        if settled > self.settled {
            self.settled = settled;
            self.staleness.forget(settled);
            for member in &mut self.members {
                member.inbox.push_back(Order::Settled(settled));
            }
        }
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
        let Some(version) = handling.version else { return };
        self.staleness.installed(version);
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
        if !matches!(self.threads.answers, Answers::Workers(_)) {
            return;
        }
        self.translate(worker, OWN_BATCH);
        let (Some(handling), Some(member)) =
            (self.handlings.get_mut(worker), self.members.get_mut(worker))
        else {
            return;
        };
        if let Some(version) = handling.version {
            self.staleness.installed(version);
            let mut commands = Vec::new();
            handling.install(self.now, |all| commands.append(all));
            member.carry_out(self.now, commands, &mut self.fault);
        }
    }

    /// Puts commands into the inboxes of their workers.
    pub(super) fn deliver(&mut self, commands: Vec<(WorkerId, FlowCommand)>) {
        for (worker, command) in commands {
            let is_change = match &command {
                FlowCommand::Delete(_) | FlowCommand::Mark(_) => true,
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
    pub(super) fn hear(&mut self) {
        let Some(page) = self.pages.pop_front() else { return };
        if !self.fault.strikes(Defect::LosesPage) {
            self.ofproto.dump(self.now, page);
        }
        self.go_on();
    }

    /// Runs the timers.
    pub(super) fn tick(&mut self) {
        self.ofproto.tick(self.now, &mut self.orders);
        self.conntrack.tick(self.now);
        if self.now - self.worker_ticked >= WORKER_TICK {
            self.worker_ticked = self.now;
            self.members.iter_mut().for_each(|member| member.worker.tick_alone());
        }
        self.go_on();
    }

    /// Puts a rule into a slot.
    pub(super) fn put_rule(&mut self, slot: usize, rule: &Rule) -> Result<(), Broken> {
        let before = self.history.now().rules.get(&slot).cloned();
        if let Some(before) = before.filter(|before| before.strict() != rule.strict()) {
            self.flow_mod(FlowModCommand::DeleteStrict, &before.strict())?;
        }
        self.flow_mod(FlowModCommand::Add, &rule.to_string())?;
        self.ledger.known.has_nat |= rule.rewrites();
        self.change(|version| {
            version.rules.insert(slot, rule.clone());
        });
        self.changed = true;
        self.go_on();
        Ok(())
    }

    /// Deletes a rule.
    pub(super) fn delete_rule(&mut self, slot: usize) -> Result<(), Broken> {
        let Some(rule) = self.history.now().rules.get(&slot).cloned() else { return Ok(()) };
        self.flow_mod(FlowModCommand::DeleteStrict, &rule.strict())?;
        self.change(|version| {
            version.rules.remove(&slot);
        });
        self.changed = true;
        self.go_on();
        Ok(())
    }

    /// The rules or ports are others from now on.
    fn change(&mut self, change: impl FnOnce(&mut Version)) {
        self.history.change(change);
        self.staleness.replaced(self.history.last());
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
        let (far, near) = MemoryPort::pair(self.settings.port_depth);
        let mac = MacAddr([2, 0, 0, 0, 0, number]);
        let mut spec = PortSpec::new(format!("p{number}"), mac, PortDevice::Datapath(device));
        spec.requested = Some(OfPort(number.into()));
        let added = self.ofproto.add_port(self.bridge, spec, self.now);
        if added != Ok(OfPort(number.into())) {
            return Err((Law::Sanity, format!("port {number} is added: {added:?}")));
        }
        self.ports.insert(number, Port { device, far, near });
        self.numbers.insert(device, number);
        self.attach(&[number]);
        self.change(|version| {
            version.ports.insert(number);
        });
        (self.changed, self.ports_changed) = (true, true);
        self.go_on();
        Ok(())
    }

    /// Gives the workers these ports: first all workers may send to all of them, then one receives the packets
    /// of each.
    pub(super) fn attach(&mut self, numbers: &[u8]) {
        for (number, Port { device, near, .. }) in &self.ports {
            if numbers.contains(number) {
                for member in &mut self.members {
                    let (device, port) = (*device, near.clone());
                    member.inbox.push_back(Order::AddTx { device, port });
                }
            }
        }
        for (number, Port { device, near, .. }) in &self.ports {
            let receiver = usize::from(*number) % self.members.len();
            if numbers.contains(number) {
                let (device, port) = (*device, near.clone());
                self.members[receiver].inbox.push_back(Order::AddRx { device, port });
            }
        }
    }

    /// Removes a port.
    pub(super) fn remove_port(&mut self, number: u8) {
        let Some(port) = self.ports.remove(&number) else { return };
        self.ofproto.remove_port(self.bridge, OfPort(number.into()), self.now);
        self.upcalls.remove_port(port.device);
        for member in &mut self.members {
            member.inbox.push_back(Order::RemovePort(port.device));
        }
        self.change(|version| {
            version.ports.remove(&number);
        });
        (self.changed, self.ports_changed) = (true, true);
        self.go_on();
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
    /// rules that were checked: after a change of rules, the new ones also count earlier packets of
    /// installed flows. Lost packets count or not, depending on where they were lost.
    pub(super) fn check_statistics(&self, lost: u64) -> Result<u64, Broken> {
        // Packets of a port that was removed meanwhile are not looked up in the tables.
        if self.ports_changed {
            return Ok(0);
        }
        let tables = self.ofproto.table_stats(self.bridge);
        let first = tables.iter().find(|table| table.table == TableId(0));
        let (lookups, received) = (first.map_or(0, |table| table.lookups), self.ledger.received);
        if lookups > received || lookups + lost < received {
            let text = format!("{received} packets, {lost} lost, {lookups} lookups in table 0");
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
            if packets + lost < count.sure || packets > count.most + lost {
                let text = format!(
                    "{rule} counts {packets} packets; it was hit by {} to {}, and {lost} were lost",
                    count.sure, count.most
                );
                return Err((Law::Statistics, text));
            }
        }
        Ok(flows.len() as u64)
    }
}
