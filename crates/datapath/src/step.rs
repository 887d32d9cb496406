//! The steps of a traced packet.

use base::{PortNo, RecircId, Zone};
use conntrack::Entry;
use flow::{Action, CtState, DropReason, FlowId, Match};
use std::sync::Arc;

/// An event in a packet's processing.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Its headers were parsed.
    Parsed,
    /// The unified cache was probed.
    Probed {
        /// It has an entry for these headers.
        is_known: bool,
    },
    /// The entry was checked, and the packet applied to its connection, if it has one.
    Followed {
        /// The entry is current. Otherwise the packet walks.
        is_as_known: bool,
        /// The connection.
        connection: Option<Box<Entry>>,
    },
    /// A flow matched.
    Hit {
        /// The flow.
        flow: FlowId,
        /// Its match.
        matching: Box<Match>,
        /// Its actions.
        actions: Arc<[Action]>,
        /// The lookup that found it.
        by: FoundBy,
    },
    /// No flow matched: an upcall.
    Missed {
        /// The recirculation id of the pass.
        recirc_id: RecircId,
        /// The upcall was queued; otherwise the packet was dropped.
        is_queued: bool,
    },
    /// The packet passed through connection tracking.
    Tracked {
        /// The zone.
        zone: Zone,
        /// The connection state.
        state: CtState,
        /// The mark.
        mark: u32,
        /// The label.
        label: u128,
        /// The connection, if it has an entry.
        connection: Option<Box<Entry>>,
    },
    /// A fragment, which is held until its datagram is whole.
    Held,
    /// An action of the flow was executed.
    Done(Action),
    /// NAT rewrote addresses and ports.
    NatRewritten,
    /// It was copied, for actions whose changes do not persist.
    Copied,
    /// It recirculated.
    Recirculated(RecircId),
    /// It was queued for output to a port.
    Output(PortNo),
    /// Its path was offered to the unified cache.
    Offered,
    /// It was dropped.
    Dropped(DropReason),
}

/// The lookup that found a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundBy {
    /// The unified cache, with all flows of the path.
    Unified,
    /// The exact-match cache.
    Exact,
    /// The megaflow table.
    Table {
        /// After probing this many of its subtables.
        subtables: u64,
    },
}
