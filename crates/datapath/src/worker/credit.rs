//! Counting of packets for the flows that they hit.

use super::Worker;
use crate::installed::{HitFlow, InstalledFlow};
use base::Instant;
use classifier::Handle;
use flow::{Action, Frame};
use std::sync::Arc;

impl Worker {
    /// Counts a run of frames for the flow that they hit, and returns what the pipeline needs of it. The
    /// actions are lent, since sharing them would take two locked instructions per run: [`Self::give_back`].
    pub(crate) fn credit_frames(
        &mut self,
        now: Instant,
        handle: Handle,
        frames: &[Frame],
    ) -> Option<HitFlow> {
        let (mut bytes, mut tcp_flags) = (0, 0);
        for frame in frames {
            bytes += frame.packet.len() as u64;
            tcp_flags |= frame.key.tcp_flags();
        }
        let flow = self.flows.get_mut(handle)?;
        if flow.count(now, frames.len() as u64, bytes, tcp_flags) {
            self.dump.hit.push(flow.id);
        }
        let actions = flow.actions.take()?;
        let InstalledFlow { version, tracks, clears, tunnels, .. } = *flow;
        Some(HitFlow { handle, version, tracks, clears, tunnels, actions })
    }

    /// Returns the lent actions of a flow.
    pub(crate) fn give_back(&mut self, handle: Handle, actions: Arc<[Action]>) {
        if let Some(flow) = self.flows.get_mut(handle) {
            flow.actions = Some(actions);
        }
    }

    /// Counts packets for a flow.
    #[inline]
    pub(crate) fn credit(
        &mut self,
        now: Instant,
        handle: Handle,
        packets: u64,
        bytes: u64,
        tcp_flags: u16,
    ) {
        if let Some(flow) = self.flows.get_mut(handle)
            && flow.count(now, packets, bytes, tcp_flags)
        {
            self.dump.hit.push(flow.id);
        }
    }
}
