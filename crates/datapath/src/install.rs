//! Installation and removal of flows in a worker's table.

use crate::flow_kind::FlowKind;
use crate::inside;
use crate::installed::{InstalledFlow, find, hash};
use crate::outside::PortSet;
use crate::worker::Worker;
use classifier::Handle;
use flow::{Action, Field, FlowId, FlowKey, Mask};
use std::sync::Arc;

impl Worker {
    /// The handle of a flow.
    pub(crate) fn handle_of(&self, id: FlowId) -> Option<Handle> {
        find(&self.ids, &self.flows, id)
    }

    /// Installs a flow for packets that agree with the key in the bits of the mask, or changes the actions of
    /// the flow with that id.
    pub(crate) fn put(&mut self, id: FlowId, key: &FlowKey, mask: &Mask, actions: Arc<[Action]>) {
        let Some(handle) = self.handle_of(id) else { return self.install(id, key, mask, actions) };
        let new = self.flow_with(id, key, mask, actions);
        if let Some(flow) = self.flows.get_mut(handle) {
            (flow.actions, flow.kind, flow.version) = (new.actions, new.kind, new.version);
            (flow.tracks, flow.clears, flow.tunnels) = (new.tracks, new.clears, new.tunnels);
        }
    }

    /// Installs a flow with a new id. A search for that id would read two cache lines of many.
    pub(crate) fn install(
        &mut self,
        id: FlowId,
        key: &FlowKey,
        mask: &Mask,
        actions: Arc<[Action]>,
    ) {
        let mut flow = self.flow_with(id, key, mask, actions);
        let is_told = mask.get(Field::PacketType) != 0;
        flow.unseen_bytes = if is_told { key.unseen_bytes() as u8 } else { 0 };
        let (handle, replaced) = self.flows.put(key, mask, flow);
        let place = handle.index() as u32;
        // Two misses of one flow may both be answered with a put; the later one replaces the earlier.
        if let Some(old) = replaced {
            self.ids.remove(hash(old.id), place);
            self.dump.gone.push((old.id, old.told()));
        }
        self.ids.insert(hash(id), place);
    }

    /// A flow that has carried nothing, of the next epoch.
    fn flow_with(
        &mut self,
        id: FlowId,
        key: &FlowKey,
        mask: &Mask,
        actions: Arc<[Action]>,
    ) -> InstalledFlow {
        self.epoch += 1;
        let kind = FlowKind::of(&actions);
        let tracks = actions.iter().any(|action| matches!(action, Action::Ct(_)));
        let clears = actions.contains(&Action::CtClear);
        if inside::opens_tunnels(&actions) {
            let is_exact = mask.get(Field::InPort) == u128::from(u32::MAX);
            let from = key.in_port();
            self.opens_from = if is_exact { self.opens_from.with(from) } else { PortSet::ALL };
        }
        let pushes = actions.iter().any(|action| matches!(action, Action::TunnelPush(_)));
        let tunnels = kind == FlowKind::Decapsulates || tracks && pushes;
        let mut flow = InstalledFlow::new(id, actions, kind, self.epoch);
        (flow.tracks, flow.clears, flow.tunnels) = (tracks, clears, tunnels);
        flow
    }

    pub(crate) fn delete(&mut self, id: FlowId) {
        let Some(handle) = self.handle_of(id) else { return };
        self.epoch += 1;
        self.ids.remove(hash(id), handle.index() as u32);
        if let Some(flow) = self.flows.remove_handle(handle) {
            self.dump.gone.push((id, flow.told()));
        }
    }
}
