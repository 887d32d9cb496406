//! Table lookups.

use super::context::Context;
use super::found::Found;
use crate::bridge::Fragments;
use crate::effect::Effect;
use crate::hidden::Miss;
use crate::lookup::{Lookup, Seen};
use base::{OfPort, TableId, limits};
use flow::{FRAG_ANY, FlowKey};
use openflow::message::{PortConfig, TableMiss};

impl Context<'_> {
    /// Looks up the packet in the current table with `in_port` (ovs: `ofproto/ofproto-dpif.c`,
    /// `rule_dpif_lookup_from_table`).
    pub fn lookup(&mut self, in_port: OfPort, may_packet_in: bool, honor_miss: bool) -> Found {
        let controllers = self.bridge.controllers;
        if controllers.fail_open && self.table == TableId(0) {
            let (bridge, miss) = (self.bridge.id, Miss::FailOpen);
            self.effects.push(Effect::Miss { bridge, miss });
            return Found::FailOpen;
        }
        let mut has_ports = true;
        if self.key.nw_frag() & FRAG_ANY != 0 {
            match self.bridge.fragments {
                Fragments::NxMatch => {}
                Fragments::Drop => return Found::Fragment,
                // Only the first fragment has ports, and all fragments must match the same flows.
                Fragments::Normal => has_ports = false,
            }
        }
        let bridge = self.bridge.id;
        let (found, miss) = if has_ports && self.key.in_port_raw() == in_port.0.into() {
            self.lookup_on(None, honor_miss)
        } else {
            let mut key = self.key.clone();
            key.set_in_port_raw(in_port.0.into());
            if !has_ports {
                key.set_tp_src(0);
                key.set_tp_dst(0);
            }
            self.lookup_on(Some(&key), honor_miss)
        };
        let port = self.port(self.in_port());
        let has_no_packet_ins =
            port.is_some_and(|port| port.config.contains(PortConfig::NO_PACKET_IN));
        let goes_to_controller = match miss {
            Some(TableMiss::Drop) => false,
            Some(TableMiss::Controller | TableMiss::Continue) => port.is_some(),
            None => honor_miss && controllers.wants_misses,
        };
        let found = match found {
            Some(found) => found,
            None if may_packet_in && goes_to_controller && !has_no_packet_ins => {
                Found::MissToController
            }
            None => Found::Miss,
        };
        let miss = match found {
            Found::MissToController => Some(Miss::ToController),
            Found::Miss => Some(Miss::Dropped),
            Found::Rule(_) | Found::Pending(_) | Found::FailOpen | Found::Fragment => None,
        };
        self.effects.extend(miss.map(|miss| Effect::Miss { bridge, miss }));
        found
    }

    /// Looks up a key in the current table and, while misses are configured to continue, in the next ones.
    /// Also returns the miss handling of the last table, if it is configured.
    fn lookup_on(
        &mut self,
        other: Option<&FlowKey>,
        honor_miss: bool,
    ) -> (Option<Found>, Option<TableMiss>) {
        let bridge = self.bridge.id;
        loop {
            let (table, key) = (self.table, other.unwrap_or(self.key));
            let rule = self.bridge.tables.lookup(table, key, &mut self.mask);
            let priority = rule.and_then(|id| self.world.rules.get(id)).map(|it| it.priority);
            let seen = Seen {
                bridge,
                table,
                key,
                original: self.original,
                is_rewritten: self.is_rewritten,
                varying: self.varying,
            };
            let lookup = Lookup::new(&seen, priority);
            if !self.lookups.contains(&lookup) {
                self.lookups.push(lookup);
            }
            let mut found = rule.map(Found::Rule);
            if !self.pending.is_empty() {
                let key = key.clone();
                found = self.find_pending(&key, priority).or(found);
            }
            self.effects.push(Effect::Lookup { bridge, table, found: found.is_some() });
            let miss = self.bridge.tables.miss(table).filter(|_| honor_miss);
            let is_last = usize::from(table.0) + 2 >= limits::TABLES;
            if found.is_some() || is_last || miss != Some(TableMiss::Continue) {
                return (found, miss);
            }
            self.table = TableId(table.0 + 1);
        }
    }
}
