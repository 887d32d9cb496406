//! The steps of a packet that is looked at alone.

use crate::worker::Worker;
use base::{PortNo, RecircId, Zone};
use classifier::Handle;
use conntrack::Entry;
use flow::{Action, CtState, DropReason, FlowId, Match};
use std::sync::Arc;

/// Something that was done to a packet, or that became of it.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Its headers were read.
    Parsed,
    /// The unified cache was asked for it.
    Probed {
        /// It knows packets with these headers.
        is_known: bool,
    },
    /// What the cache knows was checked, and the connection told of the packet, if it has one.
    Followed {
        /// Everything is as the cache knows it. Otherwise the packet takes the whole walk.
        is_as_known: bool,
        /// The connection.
        connection: Option<Box<Entry>>,
    },
    /// A flow matched.
    Hit {
        /// The flow.
        flow: FlowId,
        /// Which packets it is for.
        matching: Box<Match>,
        /// What is done with them.
        actions: Arc<[Action]>,
        /// Where it was found.
        by: FoundBy,
    },
    /// No flow matched, and the control side was asked.
    Missed {
        /// Which pass it was.
        recirc_id: RecircId,
        /// There was room in its queue; otherwise the packet was dropped.
        is_queued: bool,
    },
    /// Connection tracking said something of it.
    Tracked {
        /// Where.
        zone: Zone,
        /// What.
        state: CtState,
        /// The mark that it gave the packet.
        mark: u32,
        /// The label that it gave the packet.
        label: u128,
        /// The connection, where it is one that can be remembered.
        connection: Option<Box<Entry>>,
    },
    /// A fragment, which is held until its datagram is whole.
    Held,
    /// What a flow says was done.
    Done(Action),
    /// Addresses and ports were rewritten as its connection has them.
    NatRewritten,
    /// It was copied, for steps whose changes are forgotten after them.
    Copied,
    /// It goes round once more.
    Recirculated(RecircId),
    /// It lies ready to be sent from a port.
    Output(PortNo),
    /// It was offered to the unified cache, so that the next one like it need not walk.
    Offered,
    /// It was dropped.
    Dropped(DropReason),
}

/// Where a flow was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundBy {
    /// In the unified cache, with all others on the packet's way.
    Unified,
    /// In the exact-match cache.
    Exact,
    /// In the table.
    Table {
        /// After probing this many of its subtables.
        subtables: u64,
    },
}

impl Worker {
    /// What is told of a flow that was hit.
    pub(crate) fn hit_step(&self, hit: Handle, by: FoundBy) -> Step {
        let flow = self.flows.get(hit);
        Step::Hit {
            flow: flow.map_or(FlowId(0), |flow| flow.id),
            matching: Box::new(self.flows.matching(hit).unwrap_or_else(Match::any)),
            actions: flow.and_then(|flow| flow.actions.clone()).unwrap_or_default(),
            by,
        }
    }
}
