//! Messages between the datapath and the control side.
//!
//! A worker sends an [`Upcall`] for a packet that no flow matches; the control side answers with
//! [`FlowCommand`]s. Each flow belongs to one worker, so nothing here is shared.

use crate::action::{Action, ControllerAction};
use crate::drop::DropReason;
use crate::key::{FlowKey, Mask};
use crate::latency::{Stamps, UpcallClass};
use crate::matching::Match;
use crate::protocol::ToProtocol;
use base::{Instant, WorkerId};
use packet::Packet;
use std::sync::Arc;

/// The number of a flow of one worker. Numbers are not reused in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u64);

/// The number of a traced packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TraceId(pub u32);

/// A packet that the datapath sends to the control side.
#[derive(Debug)]
pub struct Upcall {
    /// The worker that sent it and gets the answer.
    pub worker: WorkerId,
    /// The reason.
    pub kind: UpcallKind,
    /// A copy of the packet, in a buffer of its size.
    pub packet: Packet,
    /// Its key, with the datapath's port numbers. The answer takes it back, and the worker uses its memory again.
    pub key: Box<FlowKey>,
    /// When the worker received it.
    pub received: Instant,
    /// When it was queued; equals [`Self::received`] where no clock is available.
    pub queued: Instant,
    /// The trace that the packet belongs to, if it is traced.
    pub trace: Option<TraceId>,
}

impl Upcall {
    /// Returns the times of an upcall that this handler dequeued and has not translated yet.
    pub fn taken(&self, handler: u16, taken: Instant) -> Stamps {
        Stamps {
            class: UpcallClass::of(self.key.eth_type()),
            handler,
            received: self.received,
            queued: self.queued,
            taken,
            translated: taken,
        }
    }

    /// Returns the command for the worker if the upcall is dropped without an answer: the packet is dropped,
    /// and the packets that wait behind it go on. None for a packet that others do not wait for.
    pub fn refusal(self) -> Option<(WorkerId, FlowCommand)> {
        if self.kind != UpcallKind::Miss {
            return None;
        }
        let Upcall { worker, packet, key, trace, .. } = self;
        let actions = Arc::new([Action::Drop(DropReason::UpcallQueueFull)]);
        let execute = Execute { packet, key, actions, flow: None, trace, stamps: None };
        Some((worker, FlowCommand::Execute(execute)))
    }
}

/// The reason of an upcall.
#[derive(Clone, Debug, PartialEq)]
pub enum UpcallKind {
    /// No flow matches.
    Miss,
    /// A flow sends it to a controller.
    Controller(ControllerAction),
    /// A flow sends it to the state machine of a protocol.
    Protocol(ToProtocol),
}

/// A flow to install in a worker.
#[derive(Clone, Debug)]
pub struct FlowPut {
    /// Its number.
    pub id: FlowId,
    /// The match. Flows of one worker that overlap have the same actions.
    pub matching: Match,
    /// The actions; an empty list drops the packet.
    pub actions: Arc<[Action]>,
}

/// Actions to execute on one packet: the answer to a miss, or a packet-out of a controller.
#[derive(Debug)]
pub struct Execute {
    /// The packet.
    pub packet: Packet,
    /// Its key, with the datapath's port numbers.
    pub key: Box<FlowKey>,
    /// The actions.
    pub actions: Arc<[Action]>,
    /// The flow to install first, for packets that are to be treated alike.
    pub flow: Option<AnswerFlow>,
    /// The trace that the packet belongs to, if it is traced.
    pub trace: Option<TraceId>,
    /// When the upcall that this answers passed each stage, if latency is measured.
    pub stamps: Option<Stamps>,
}

/// A flow that the answer to a miss installs. Its match is the packet's key under the mask, and its actions are
/// those of the answer.
#[derive(Clone, Debug)]
pub struct AnswerFlow {
    /// Its number.
    pub id: FlowId,
    /// The bits that its packets have in common. Flows share their masks.
    pub mask: Arc<Mask>,
}

/// A command of the control side to a worker.
#[derive(Debug)]
pub enum FlowCommand {
    /// Install a flow, or change the actions of an installed one (with the same number).
    Put(Box<FlowPut>),
    /// Delete a flow. Its last statistics are in the next [`FlowDump`].
    Delete(FlowId),
    /// Execute actions on one packet, and install a flow before that if the answer has one.
    Execute(Execute),
    /// Note what a flow has carried so far, as every change of its actions does: its later packets count for other
    /// OpenFlow flows. The next [`FlowDump`] has it.
    Mark(FlowId),
    /// Report the statistics of all flows that were hit since the last report, in one or more [`FlowDump`]s.
    Collect,
}

impl FlowCommand {
    /// Returns the flow that the command installs or changes.
    pub fn to_put(&self) -> Option<FlowPut> {
        match self {
            FlowCommand::Put(put) => Some((**put).clone()),
            FlowCommand::Execute(asked) => asked.flow.as_ref().map(|flow| FlowPut {
                id: flow.id,
                matching: Match::new(&asked.key, &flow.mask),
                actions: Arc::clone(&asked.actions),
            }),
            FlowCommand::Delete(_) | FlowCommand::Mark(_) | FlowCommand::Collect => None,
        }
    }
}

/// Statistics of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// When the last packet was processed.
    pub used: Option<Instant>,
    /// All TCP flags seen, or-ed.
    pub tcp_flags: u16,
}

impl FlowStats {
    /// Returns the difference to `earlier`, an older reading of the same flow.
    #[must_use]
    pub fn since(&self, earlier: &FlowStats) -> FlowStats {
        FlowStats {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            used: self.used,
            tcp_flags: self.tcp_flags,
        }
    }

    /// Adds the statistics of another worker's flow, or of an older one.
    pub fn add(&mut self, more: &FlowStats) {
        self.packets += more.packets;
        self.bytes += more.bytes;
        self.used = self.used.max(more.used);
        self.tcp_flags |= more.tcp_flags;
    }
}

/// A page of a worker's report ([`FlowCommand::Collect`]): totals of the flows that were hit since the last
/// report, and of changed and deleted flows. When many flows are changed or deleted, there are also pages outside of a
/// report.
#[derive(Clone, Debug)]
pub struct FlowDump {
    /// The worker that reports.
    pub worker: WorkerId,
    /// When the worker started the report, which includes all packets up to then.
    pub at: Instant,
    /// Whether this is the last page of the report.
    pub is_last: bool,
    /// The totals of flows when their actions were changed or [`FlowCommand::Mark`] was executed, in this order. They
    /// are older than all others on the page.
    pub marked: Vec<(FlowId, FlowStats)>,
    /// Totals, not differences.
    pub flows: Vec<(FlowId, FlowStats)>,
    /// The last totals of deleted flows.
    pub gone: Vec<(FlowId, FlowStats)>,
}
