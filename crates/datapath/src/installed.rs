//! A flow in a worker's table.

use crate::flow_kind::FlowKind;
use base::Instant;
use classifier::{Handle, Index, MegaflowTable};
use flow::{Action, FlowId, FlowStats};
use std::sync::Arc;

/// A flow in a worker's table.
#[derive(Debug)]
pub struct InstalledFlow {
    /// Its number.
    pub id: FlowId,
    /// Its actions; lent out while they are executed.
    pub(crate) actions: Option<Arc<[Action]>>,
    /// Whether and how its packets are cached.
    pub(crate) kind: FlowKind,
    /// Changes with the actions; unique among all flows and their lists of actions.
    pub(crate) version: u64,
    /// What it has carried, and when it carried the last packet, in nanoseconds. Not as [`FlowStats`], which
    /// takes 16 bytes more of each flow.
    packets: u64,
    bytes: u64,
    used_ns: u64,
    tcp_flags: u16,
    /// Whether the actions have a `ct`.
    pub(crate) tracks: bool,
    /// Whether the actions have a `ct_clear`, which comes before any `ct`.
    pub(crate) clears: bool,
    /// Whether packets are encapsulated after a `ct`, or decapsulated: then the path trace needs their state
    /// before the last action.
    pub(crate) tunnels: bool,
    /// Bytes of each packet that statistics leave out
    /// ([`FlowKey::unseen_bytes`](flow::FlowKey::unseen_bytes)).
    pub(crate) unseen_bytes: u8,
    /// Whether it is in the list for the next dump.
    pub(crate) reported: bool,
}

// There may be ten million of them.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<InstalledFlow>() <= 88);

impl InstalledFlow {
    /// A flow that has carried nothing.
    pub(crate) fn new(id: FlowId, actions: Arc<[Action]>, kind: FlowKind, version: u64) -> Self {
        InstalledFlow {
            id,
            actions: Some(actions),
            kind,
            version,
            packets: 0,
            bytes: 0,
            used_ns: 0,
            tcp_flags: 0,
            tracks: false,
            clears: false,
            tunnels: false,
            unseen_bytes: 0,
            reported: false,
        }
    }

    /// Counts packets. Returns whether they are the first since the last dump.
    #[inline]
    pub(crate) fn count(&mut self, now: Instant, packets: u64, bytes: u64, tcp_flags: u16) -> bool {
        self.packets += packets;
        self.bytes += bytes;
        self.used_ns = now.as_nanos();
        self.tcp_flags |= tcp_flags;
        !std::mem::replace(&mut self.reported, true)
    }

    /// Its statistics as dumps report them.
    pub(crate) fn told(&self) -> FlowStats {
        let unseen = self.packets * u64::from(self.unseen_bytes);
        FlowStats {
            packets: self.packets,
            bytes: self.bytes.saturating_sub(unseen),
            used: (self.packets > 0).then(|| Instant::from_nanos(self.used_ns)),
            tcp_flags: self.tcp_flags,
        }
    }

    /// Whether the flow ends a path without connection tracking, with actions that can be cached.
    pub(crate) fn ends_untracked(&self) -> bool {
        !self.tracks && matches!(self.kind, FlowKind::Terminal(_))
    }
}

/// The flow that a run of packets hit, for the pipeline.
pub(crate) struct HitFlow {
    pub handle: Handle,
    pub version: u64,
    pub tracks: bool,
    pub clears: bool,
    pub tunnels: bool,
    pub actions: Arc<[Action]>,
}

/// The flow of a number, among the places by their flows' numbers.
pub(crate) fn find(
    ids: &Index,
    flows: &MegaflowTable<InstalledFlow>,
    id: FlowId,
) -> Option<Handle> {
    let is_it = |place: u32| flows.at(place as usize).is_some_and(|flow| flow.id == id);
    flows.handle_at(ids.find(hash(id), is_it)? as usize)
}

/// Spreads numbers of flows, which the control side counts up in their lower half (Knuth, The Art of Computer
/// Programming, section 6.4). Flows that are installed together stay side by side, in the same cache lines.
pub(crate) fn hash(id: FlowId) -> u64 {
    const TOGETHER: u32 = 4;
    let slot = id.0 as u32;
    let spread = (slot >> TOGETHER).wrapping_mul(0x9e37_79b9) << TOGETHER;
    u64::from(spread | slot & ((1 << TOGETHER) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_lie_side_by_side_and_all_are_spread() {
        const FLOWS: u64 = 1 << 16;
        let hashes: Vec<u64> = (0..FLOWS).map(|n| hash(FlowId(7 << 32 | n))).collect();
        assert!(hashes.iter().all(|hash| *hash <= u32::MAX.into()));
        let neighbours = hashes.windows(2).filter(|it| it[0] + 1 == it[1]).count();
        assert!(neighbours as u64 >= FLOWS / 16 * 15);
        // By the highest bits, which choose a part, and by the lowest, which choose a place in it.
        for shift in [32 - 8, 0] {
            let mut counts = [0u64; 256];
            hashes.iter().for_each(|hash| counts[(hash >> shift) as usize % 256] += 1);
            let mean = FLOWS / 256;
            assert!(counts.iter().all(|&it| mean / 2 < it && it < mean * 2), "{counts:?}");
        }
    }

    #[test]
    fn a_flow_is_used_from_its_first_packet_on() {
        let actions: Arc<[Action]> = [].into();
        let mut flow = InstalledFlow::new(FlowId(1), actions, FlowKind::Uncacheable, 1);
        assert_eq!(flow.told(), FlowStats::default());
        assert!(flow.count(Instant::from_nanos(5), 2, 120, 0x10));
        assert!(!flow.count(Instant::from_nanos(7), 1, 60, 0x02));
        flow.unseen_bytes = 4;
        let used = Some(Instant::from_nanos(7));
        assert_eq!(flow.told(), FlowStats { packets: 3, bytes: 168, used, tcp_flags: 0x12 });
    }
}
