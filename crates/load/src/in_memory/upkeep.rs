//! What the control thread does beside answering misses: time, statistics, flow-mods.

use super::{InMemoryError, Switch};
use base::{Instant, OfPort};
use flow::FlowCommand;
use ofproto::Aggregate;
use openflow::message::{FlowModCommand, FlowStatsRequest};
use openflow::text::parse_flow;

impl Switch {
    /// Settings of the slow path.
    pub fn set_config(&mut self, config: ofproto::Config) {
        self.core.set_config(config);
    }

    /// Time went by: what is due begins (expiry, statistics), and [`Self::go_on`] goes on with it.
    pub fn keep_up(&mut self, now: Instant) {
        self.core.tick(now, &mut self.orders);
        self.go_on(now);
    }

    /// Goes on with what is to be done with many flows, a bounded part of it, as the switch does between
    /// packets; gives how many installed flows were given other actions or taken out, and whether there is
    /// more to do.
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

    /// Does what a flow-mod (in `ovs-ofctl`'s syntax) asks, without its effect on installed flows, which
    /// [`Self::settle`] has.
    pub fn flow_mod(&mut self, flow: &str, now: Instant) -> Result<(), InMemoryError> {
        let ports = |name: &str| -> Option<OfPort> { self.core.port_number(self.bridge, name) };
        let wrong = |reason| InMemoryError::Rule { line: 1, flow: flow.to_owned(), reason };
        let flow_mod = parse_flow(flow, FlowModCommand::Add, &ports)
            .map_err(|error| wrong(error.to_string()))?;
        self.core.flow_mod(self.bridge, &flow_mod, now).map_err(|error| wrong(error.reason))
    }

    /// Carries out what changed until nothing is left to do; gives how many installed flows were given
    /// other actions or taken out.
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

    /// Asks what flows have carried, so that the next [`Self::sum`] has all packets once
    /// [`Self::go_on`] has nothing left to do.
    pub fn ask_statistics(&mut self) {
        self.core.collect(&mut self.orders);
    }

    /// The sum over the rules within a match (in `ovs-ofctl`'s syntax), as a controller gets it.
    pub fn sum(&self, matching: &str, now: Instant) -> Result<Aggregate, InMemoryError> {
        let ports = |name: &str| -> Option<OfPort> { self.core.port_number(self.bridge, name) };
        let flow = parse_flow(matching, FlowModCommand::Delete, &ports).map_err(|error| {
            InMemoryError::Rule { line: 1, flow: matching.to_owned(), reason: error.to_string() }
        })?;
        let request = FlowStatsRequest { matching: flow.matching, ..FlowStatsRequest::default() };
        Ok(self.core.aggregate(self.bridge, &request, now))
    }

    /// Begins to take all installed flows out, as `dpctl/del-flows` asks; [`Self::go_on`] goes on with
    /// it.
    pub fn purge(&mut self, now: Instant) {
        self.core.delete_megaflows(now, &mut self.orders);
    }

    /// How many flows misses have brought into the worker.
    pub fn flow_count(&self) -> usize {
        self.worker.flow_count()
    }

    /// How many rules there are.
    pub fn rule_count(&self) -> usize {
        self.core.flow_count()
    }

    /// How many addresses are learned.
    pub fn learned_addresses(&self) -> usize {
        self.core.macs(self.bridge).map_or(0, |macs| macs.len())
    }
}
