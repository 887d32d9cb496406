//! Flows that come into a worker's table and go.

use crate::flow_kind::FlowKind;
use crate::inside::{self, PortSet};
use crate::installed::InstalledFlow;
use crate::worker::Worker;
use classifier::Handle;
use flow::{Action, Field, FlowId, FlowKey, FlowStats, Mask};
use std::sync::Arc;

impl Worker {
    /// The flow of a number.
    pub(crate) fn handle_of(&self, id: FlowId) -> Option<Handle> {
        let flow = |place: u32| self.flows.at(place as usize);
        let is_it = |place| flow(place).is_some_and(|flow| flow.id == id);
        self.flows.handle_at(self.ids.find(hash(id), is_it)? as usize)
    }

    /// Puts a flow in for packets that agree with the key in the bits of the mask, or gives the one of that number
    /// other actions.
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
        let flow = InstalledFlow {
            id,
            actions: Some(actions),
            stats: FlowStats::default(),
            kind,
            version: self.epoch,
            tracks,
            clears,
            tunnels,
            unseen_bytes: if mask.get(Field::PacketType) == 0 {
                0
            } else {
                key.unseen_bytes() as u8
            },
            reported: false,
        };
        let (handle, replaced) = self.flows.put(key, mask, flow);
        let place = handle.index() as u32;
        // Two misses of one flow may both be answered with a put; the later answer counts.
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

/// Spreads numbers of flows, which the control side chooses (Knuth, The Art of Computer Programming,
/// section 6.4).
fn hash(id: FlowId) -> u64 {
    id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
