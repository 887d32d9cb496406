//! The control thread's work besides misses: time, statistics, flow-mods.

use super::switch::{port_mac, port_name};
use super::{InMemoryError, Switch};
use ::datapath::WorkerConfig;
use base::{Instant, OfPort};
use flow::FlowCommand;
use ofproto::{Aggregate, Features};
use openflow::message::{FlowModCommand, FlowStatsRequest, PortConfig};
use openflow::text::parse_flow;

impl Switch {
    /// Settings of the slow path.
    pub fn set_config(&mut self, config: ofproto::Config) {
        self.core.set_config(config);
    }

    /// Makes each further flow match all fields of its packet (`upcall/disable-megaflows`).
    pub fn disable_megaflows(&mut self, now: Instant) {
        let features = Features { wildcards: false, ..self.core.features() };
        self.core.set_features(features, now, &mut self.orders);
    }

    /// Sets a port down, by its number from 0: packets that a flow sends there are dropped.
    pub fn set_port_down(&mut self, number: u16) -> Result<(), InMemoryError> {
        let refused = |reason| InMemoryError::Port(reason);
        let port = self.core.port_number(self.bridge, &port_name(number));
        let port = port.ok_or_else(|| refused(format!("there is no {}", port_name(number))))?;
        let down = PortConfig::PORT_DOWN;
        self.core
            .port_mod(self.bridge, port, port_mac(number), down, down, &mut self.orders)
            .map_err(|error| refused(error.reason))
    }

    /// Advances time: starts expiry and statistics that are due, which [`Self::go_on`] continues.
    pub fn keep_up(&mut self, now: Instant) {
        self.core.tick(now, &mut self.orders);
        if self.free_memory.is_due(self.core.megaflow_counters().current) {
            daemon::memory::give_back();
        }
        self.go_on(now);
    }

    /// Continues work on many flows by a bounded part, as the switch does between packets. Returns how many
    /// installed flows were replaced or removed, and whether more work is left.
    pub fn go_on(&mut self, now: Instant) -> (usize, bool) {
        let mut more = self.core.go_on(now, &mut self.orders);
        let mut changed = 0;
        for (_, command) in std::mem::take(&mut self.orders.commands) {
            changed += usize::from(matches!(command, FlowCommand::Put(_) | FlowCommand::Delete(_)));
            self.worker.command(now, command, &mut self.out);
        }
        self.worker.continue_dump(&mut self.out);
        for dump in std::mem::take(&mut self.out.dumps) {
            self.core.dump(now, dump);
            more = true;
        }
        (changed, more || self.worker.is_dumping())
    }

    /// Adds a flow (in `ovs-ofctl`'s syntax), without its effect on installed flows, which [`Self::settle`]
    /// applies.
    pub fn flow_mod(&mut self, flow: &str, now: Instant) -> Result<(), InMemoryError> {
        self.modify(FlowModCommand::Add, flow, now)
    }

    /// Deletes the flows within a match, in the same way.
    pub fn delete_flows(&mut self, matching: &str, now: Instant) -> Result<(), InMemoryError> {
        self.modify(FlowModCommand::Delete, matching, now)
    }

    fn modify(
        &mut self,
        command: FlowModCommand,
        flow: &str,
        now: Instant,
    ) -> Result<(), InMemoryError> {
        let ports = |name: &str| -> Option<OfPort> { self.core.port_number(self.bridge, name) };
        let wrong = |reason| InMemoryError::Rule { line: 1, flow: flow.to_owned(), reason };
        let flow_mod =
            parse_flow(flow, command, &ports).map_err(|error| wrong(error.to_string()))?;
        self.core.flow_mod(self.bridge, &flow_mod, now).map_err(|error| wrong(error.reason))
    }

    /// Applies changes until none are left. Returns how many installed flows were replaced or removed.
    pub fn settle(&mut self, now: Instant) -> usize {
        let mut sum = 0;
        loop {
            let (changed, more) = self.go_on(now);
            sum += changed;
            if !more {
                return sum;
            }
        }
    }

    /// Requests statistics of the installed flows. The next [`Self::sum`] includes all packets once
    /// [`Self::go_on`] has no work left.
    pub fn ask_statistics(&mut self) {
        self.core.collect(&mut self.orders);
    }

    /// Returns the sum over the rules within a match (in `ovs-ofctl`'s syntax), as a controller receives it.
    pub fn sum(&self, matching: &str, now: Instant) -> Result<Aggregate, InMemoryError> {
        let ports = |name: &str| -> Option<OfPort> { self.core.port_number(self.bridge, name) };
        let flow = parse_flow(matching, FlowModCommand::Delete, &ports).map_err(|error| {
            InMemoryError::Rule { line: 1, flow: matching.to_owned(), reason: error.to_string() }
        })?;
        let request = FlowStatsRequest { matching: flow.matching, ..FlowStatsRequest::default() };
        Ok(self.core.aggregate(self.bridge, &request, now))
    }

    /// Starts to remove all installed flows, as `dpctl/del-flows` does; [`Self::go_on`] continues.
    pub fn purge(&mut self, now: Instant) {
        self.core.delete_megaflows(now, &mut self.orders);
    }

    /// Returns the number of flows that misses have installed in the worker.
    pub fn flow_count(&self) -> usize {
        self.worker.flow_count()
    }

    /// Returns the number of masks that these flows have, each a subtable that a lookup may have to visit.
    pub fn mask_count(&self) -> usize {
        self.worker.mask_count()
    }

    /// Has the worker look up every packet among its flows, without the caches in front of them.
    pub fn disable_caches(&mut self) {
        let config = WorkerConfig::default();
        self.worker.configure(WorkerConfig {
            exact_insert_inverse: 0,
            unified_entries: 0,
            ..config
        });
    }

    /// Returns the number of rules.
    pub fn rule_count(&self) -> usize {
        self.core.flow_count()
    }

    /// Returns the number of learned addresses.
    pub fn learned_addresses(&self) -> usize {
        self.core.macs(self.bridge).map_or(0, |macs| macs.len())
    }
}
