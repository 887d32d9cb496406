//! Looking through installed megaflows after a change.
//!
//! What a translation asks of flow tables and learned addresses is written down with its megaflow
//! ([`Dependency`]). Changes of these are frequent, and each has few megaflows that asked: only
//! those are translated again. A change of the configuration (bridges, ports, controllers) is
//! rare and may concern anything, and after one all megaflows are translated again.
//!
//! A table is one thing here. That the flow added matches none of a megaflow's packets does not
//! settle it: which bits the lookup looks at depends on all flows of the table.

use crate::bridge::{Bridge, BridgeId};
use crate::installed::Installed;
use crate::translate::{Notes, datapath_mask};
use crate::upcall::links;
use crate::{Ofproto, Outbox};
use base::{Instant, MacAddr, TableId};
use flow::{FlowCommand, FlowId, FlowPut};
use hashbrown::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

/// Something that a translation asked and that can change while the configuration does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Dependency {
    /// A flow table was looked in.
    Table { bridge: BridgeId, table: TableId },
    /// A group was asked for, and may have been missing.
    Group { bridge: BridgeId, group: u32 },
    /// NORMAL asked where an address is, and may have been told that it is unknown.
    Mac { bridge: BridgeId, vlan: u16, mac: MacAddr },
    /// The routes of the underlay were asked.
    Routes,
    /// A bridge was asked for a neighbour's address, and may have been told that it has none.
    Neighbour { bridge: BridgeId, ip: IpAddr },
}

/// What changed since the installed megaflows were last looked through.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The configuration, which all megaflows depend on.
    configuration: bool,
    /// Only what megaflows depend on is here, so that this does not grow with what was not asked.
    /// A megaflow installed later was translated after the change.
    dependencies: HashSet<Dependency>,
}

impl Changes {
    /// Bridges, ports or what is known of controllers.
    pub fn configuration(&mut self) {
        self.configuration = true;
    }

    /// One thing.
    pub fn one(&mut self, what: Dependency, installed: &Installed) {
        if installed.is_depended_on(what) {
            self.dependencies.insert(what);
        }
    }

    /// Addresses of the bridge that came, moved or went.
    pub fn macs(&mut self, bridge: &mut Bridge, installed: &Installed) {
        let id = bridge.id;
        for (vlan, mac) in bridge.macs.take_changed() {
            self.one(Dependency::Mac { bridge: id, vlan, mac }, installed);
        }
    }

    fn is_empty(&self) -> bool {
        !self.configuration && self.dependencies.is_empty()
    }

    /// The megaflows that must be translated again, in the order in which they were made.
    fn concerned(&self, installed: &Installed) -> Vec<FlowId> {
        if self.configuration {
            return installed.ids();
        }
        let flows = self.dependencies.iter().flat_map(|&on| installed.dependents(on));
        let mut ids: Vec<FlowId> = flows.collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl Ofproto {
    /// Translates those megaflows again that depend on what changed. Those whose steps are
    /// different get the new ones; those that match too much go
    /// (ovs: `ofproto/ofproto-dpif-upcall.c`, `revalidate_ukey`).
    pub fn revalidate(&mut self, now: Instant, out: &mut Outbox) {
        let changes = std::mem::take(&mut self.changes);
        for id in changes.concerned(&self.installed) {
            self.revalidate_one(id, now, out);
        }
    }

    /// Whether [`Self::revalidate`] has something to do.
    pub fn needs_revalidation(&self) -> bool {
        !self.changes.is_empty()
    }

    fn revalidate_one(&mut self, id: FlowId, now: Instant, out: &mut Outbox) {
        let Some(flow) = self.installed.get(id) else { return };
        let (worker, key) = (flow.worker, flow.key.clone());
        let translation = self.translate(now, &key, Notes::Off);
        self.installed.counters.revalidated += 1;
        let Some(flow) = self.installed.get_mut(id) else { return };
        if translation.is_orphan()
            || translation.learns_anew
            || !datapath_mask(&translation.mask).is_within(flow.matching.mask())
        {
            self.installed.counters.outdated += 1;
            self.delete_megaflow(id, now, out);
            return;
        }
        if *flow.actions != translation.actions {
            flow.actions = translation.actions.as_slice().into();
            let (matching, actions) = (flow.matching.clone(), flow.actions.clone());
            let put = FlowPut { id, matching, actions };
            out.commands.push((worker, FlowCommand::Put(Box::new(put))));
            self.installed.counters.changed += 1;
        }
        let links = Arc::new(links(&translation, &key));
        self.installed.relink(id, links, now, &mut self.recirc);
    }
}

#[cfg(test)]
mod tests;
