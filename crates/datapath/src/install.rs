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
        if let Some(handle) = self.handle_of(id)
            && let Some(flow) = self.flows.get_mut(handle)
        {
            (flow.actions, flow.kind) = (Some(actions), kind);
            (flow.tracks, flow.clears, flow.tunnels) = (tracks, clears, tunnels);
            flow.version = self.epoch;
            return;
        }
        let is_told = mask.get(Field::PacketType) != 0;
        let mut flow = InstalledFlow::new(id, actions, kind, self.epoch);
        (flow.tracks, flow.clears, flow.tunnels) = (tracks, clears, tunnels);
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

    pub(crate) fn delete(&mut self, id: FlowId) {
        let Some(handle) = self.handle_of(id) else { return };
        self.epoch += 1;
        self.ids.remove(hash(id), handle.index() as u32);
        if let Some(flow) = self.flows.remove_handle(handle) {
            self.dump.gone.push((id, flow.told()));
        }
    }
}
