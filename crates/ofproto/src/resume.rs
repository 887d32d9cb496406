//! Packets paused at a controller (`controller(pause)`), and their resumption (ovs:
//! `ofproto/ofproto-dpif-xlate.c`, `xlate_resume`).

use crate::ids::BridgeId;
use crate::packet_out::whole_frame;
use crate::recirc::{Frozen, Rest};
use crate::translate::{Notes, translate_resumed};
use crate::upcall::links;
use crate::{Ofproto, Outbox};
use base::{Instant, TableId, WorkerId};
use flow::{Execute, Field, FlowCommand, FlowStats, Frame};
use openflow::message::{Continuation, ContinuedActions, PacketIn};
use openflow::{ErrorCode, OfError};
use std::sync::Arc;

impl Ofproto {
    /// Sets the number that distinguishes this run's continuations from those of other runs; controllers
    /// cannot guess it.
    #[must_use]
    pub fn of_run(self, run: u64) -> Self {
        Ofproto { run, ..self }
    }

    /// The bridge's identifier in continuations.
    fn continued_bridge(&self, id: BridgeId) -> u128 {
        u128::from(self.run) << 64 | u128::from(id.0)
    }

    /// The continuation that a controller needs to resume a packet.
    pub(crate) fn continuation(&self, state: &Frozen) -> Continuation {
        let rest = |rest: &Rest| ContinuedActions {
            table: rest.table,
            cookie: rest.cookie,
            actions: rest.actions.clone(),
        };
        Continuation {
            bridge: self.continued_bridge(state.bridge),
            stack: state.stack.clone(),
            mirrors: state.mirrored,
            conntracked: state.conntracked,
            rest: state.rest.iter().map(rest).collect(),
            action_set: state.action_set.clone(),
            port: state.device,
        }
    }

    /// Resumes a packet as the controller returned it. The first worker carries it out.
    pub fn resume(
        &mut self,
        packet_in: &PacketIn,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), OfError> {
        let stale = || {
            let reason = "resume: the continuation is of another run, or its bridge is gone";
            OfError::new(ErrorCode::ContinuationStale, reason)
        };
        let Some(continuation) = &packet_in.continuation else { return Err(stale()) };
        let bridge = BridgeId(continuation.bridge as u32);
        if continuation.bridge != self.continued_bridge(bridge) {
            return Err(stale());
        }
        let mut packet_in = packet_in.clone();
        let known = self.bridges.get(bridge).ok_or_else(stale)?;
        known.place_match(&mut packet_in.metadata)?;
        let packet_in = &packet_in;
        let whole = whole_frame(&packet_in.data, &packet_in.metadata, continuation.port);
        let Ok(mut frame) = whole else {
            let reason = "resume: the packet has no whole Ethernet header";
            return Err(OfError::new(ErrorCode::BadPacket, reason));
        };
        let known = packet_in.metadata.key();
        for &field in METADATA {
            if packet_in.metadata.mask().has(field) {
                frame.key.set(field, known.get(field));
            }
        }
        let state = thawed(bridge, continuation, packet_in);
        let mut translation = translate_resumed(self.world(now), &frame.key, &state, Notes::Off);
        let bytes = frame.seen_len() as u64;
        let tcp_flags = frame.key.tcp_flags();
        let stats = FlowStats { packets: 1, bytes, used: Some(now), tcp_flags };
        let actions: Arc<[flow::Action]> = std::mem::take(&mut translation.actions).into();
        self.credit(&links(translation.links, &frame.key), &stats, now);
        if actions.is_empty() {
            return Ok(());
        }
        let Frame { packet, key, .. } = frame;
        let key = Box::new(key);
        let execute = Execute { packet, key, actions, flow: None, trace: None, stamps: None };
        coverage::count(coverage::Event::Execute);
        out.commands.push((WorkerId(0), FlowCommand::Execute(execute)));
        Ok(())
    }
}

/// The datapath's metadata of a packet.
const METADATA: &[Field] = &[
    Field::PktMark,
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::CtLabel,
    Field::CtNwProto,
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
    Field::CtTpSrc,
    Field::CtTpDst,
];

/// The state in which the packet was paused, with the registers that the controller returned.
fn thawed(bridge: BridgeId, continuation: &Continuation, packet_in: &PacketIn) -> Frozen {
    let rest = |it: &ContinuedActions| Rest {
        table: it.table,
        cookie: it.cookie,
        actions: it.actions.clone(),
    };
    Frozen {
        bridge,
        table: TableId(0),
        device: continuation.port,
        pipeline: Frozen::pipeline_of(packet_in.metadata.key()),
        stack: continuation.stack.clone(),
        action_set: continuation.action_set.clone(),
        conntracked: continuation.conntracked,
        mirrored: continuation.mirrors,
        rest: continuation.rest.iter().map(rest).collect(),
        userdata: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
