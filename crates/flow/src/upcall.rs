//! What the datapath and the control side tell each other.
//!
//! A worker sends an [`Upcall`] where it does not know what to do; the control side answers with
//! [`FlowCommand`]s. Flows belong to one worker each, so that nothing here is shared.

use crate::action::{Action, ControllerAction};
use crate::key::FlowKey;
use crate::latency::Stamps;
use crate::matching::Match;
use base::{Instant, WorkerId};
use packet::Packet;
use std::sync::Arc;

/// A flow of one worker, by a number never used twice in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u64);

/// A packet whose steps are written down, by a number of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TraceId(pub u32);

/// A packet that the datapath hands to the control side.
#[derive(Debug)]
pub struct Upcall {
    /// The worker that asks, which is the one to answer.
    pub worker: WorkerId,
    /// Why.
    pub kind: UpcallKind,
    /// A copy of the packet in a buffer of its own size.
    pub packet: Packet,
    /// Its key, with the datapath's port numbers.
    pub key: FlowKey,
    /// When the worker received it.
    pub received: Instant,
    /// When it was put into the queue; [`Self::received`] where no clock is at hand.
    pub queued: Instant,
    /// Where its steps are written down.
    pub trace: Option<TraceId>,
}

/// Why a packet comes up.
#[derive(Clone, Debug, PartialEq)]
pub enum UpcallKind {
    /// No flow matches.
    Miss,
    /// A flow sends it to a controller.
    Controller(ControllerAction),
}

/// A flow to be put into a worker's table.
#[derive(Clone, Debug)]
pub struct FlowPut {
    /// Its number.
    pub id: FlowId,
    /// Which packets; flows of one worker never overlap with different actions.
    pub matching: Match,
    /// What is done with them; none at all drops them.
    pub actions: Arc<[Action]>,
}

/// Steps for one packet: the answer to a miss, or a controller's packet-out.
#[derive(Debug)]
pub struct Execute {
    /// The packet.
    pub packet: Packet,
    /// Its key, with the datapath's port numbers.
    pub key: FlowKey,
    /// What to do.
    pub actions: Arc<[Action]>,
    /// Where the packet's steps are written down.
    pub trace: Option<TraceId>,
    /// When the miss that this answers passed each stage, where that is measured.
    pub stamps: Option<Stamps>,
}

/// What the control side asks of a worker.
#[derive(Debug)]
pub enum FlowCommand {
    /// Put a flow, or give one that is there (by number) other actions.
    Put(Box<FlowPut>),
    /// Take a flow out. Its last statistics go into the next [`FlowDump`].
    Delete(FlowId),
    /// Carry out steps on one packet.
    Execute(Box<Execute>),
    /// Answer with the statistics of all flows that were hit since the last time, in one or more
    /// [`FlowDump`]s.
    Collect,
}

/// What a flow has carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// When the last packet came.
    pub used: Option<Instant>,
    /// All TCP flags seen, or-ed.
    pub tcp_flags: u16,
}

impl FlowStats {
    /// What came since `earlier`, an older reading of the same flow.
    #[must_use]
    pub fn since(&self, earlier: &FlowStats) -> FlowStats {
        FlowStats {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            used: self.used,
            tcp_flags: self.tcp_flags,
        }
    }

    /// Adds what another worker's flow, or an older one, carried.
    pub fn add(&mut self, more: &FlowStats) {
        self.packets += more.packets;
        self.bytes += more.bytes;
        self.used = self.used.max(more.used);
        self.tcp_flags |= more.tcp_flags;
    }
}

/// A page of a worker's answer to [`FlowCommand::Collect`]: totals of the flows that were hit since the
/// last answer, and of those deleted. Where many flows are deleted, pages come that are no part of an answer.
#[derive(Clone, Debug)]
pub struct FlowDump {
    /// The worker that answers.
    pub worker: WorkerId,
    /// When the worker began to answer: the whole answer has every packet that came before.
    pub at: Instant,
    /// Whether this page ends the answer.
    pub is_last: bool,
    /// Totals, not differences.
    pub flows: Vec<(FlowId, FlowStats)>,
    /// The last totals of flows that are no more.
    pub gone: Vec<(FlowId, FlowStats)>,
}
