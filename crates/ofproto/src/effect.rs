//! Effects of packets besides sending them.

use crate::hidden::Miss;
use crate::ids::{BridgeId, RuleId};
use crate::mirror::MirrorId;
use base::{MacAddr, OfPort, TableId};
use openflow::message::FlowMod;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

/// An effect of a packet besides sending it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Effect {
    /// A bridge saw an address behind a port.
    Learn { bridge: BridgeId, vlan: u16, mac: MacAddr, port: OfPort },
    /// A flow was learned, unless there are `limit` of its cookie.
    LearnFlow { bridge: BridgeId, flow: Arc<FlowMod>, limit: u32 },
    /// A flow learned from the packet itself matched.
    HitLearned { bridge: BridgeId, flow: Arc<FlowMod> },
    /// A flow gets other timeouts after FIN or RST.
    FinTimeout { rule: RuleId, idle_s: u16, hard_s: u16 },
    /// A lookup in a table.
    Lookup { bridge: BridgeId, table: TableId, found: bool },
    /// No flow matched.
    Miss { bridge: BridgeId, miss: Miss },
    /// A packet went through a group, by one of its buckets or (`None`) by all.
    Group { bridge: BridgeId, group: u32, generation: u64, bucket: Option<u32> },
    /// A packet went through a patch.
    Patch { from: (BridgeId, OfPort), to: (BridgeId, OfPort) },
    /// A packet came out of a tunnel or went into it.
    Tunnel { at: (BridgeId, OfPort), sent: bool },
    /// A mirror copied a packet.
    Mirror { bridge: BridgeId, mirror: MirrorId },
    /// A neighbour of a bridge announced its address. The megaflow matches on both addresses.
    NeighbourSeen { bridge: BridgeId, ip: IpAddr, mac: MacAddr },
    /// A packet was sent to a neighbour.
    NeighbourUsed { bridge: BridgeId, ip: IpAddr },
    /// A packet could not be sent because a neighbour's address is unknown; `port` may request it.
    NeighbourWanted { bridge: BridgeId, port: OfPort, source: IpAddr, target: IpAddr },
}

impl Eq for Effect {}

/// Hashes a learned flow by its identity in a table.
impl Hash for Effect {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Effect::Learn { bridge, vlan, mac, port } => (bridge, vlan, mac, port).hash(state),
            Effect::LearnFlow { bridge, flow, .. } | Effect::HitLearned { bridge, flow } => {
                (bridge, flow.table, flow.priority, &flow.matching).hash(state);
            }
            Effect::FinTimeout { rule, idle_s, hard_s } => (rule, idle_s, hard_s).hash(state),
            Effect::Lookup { bridge, table, found } => (bridge, table, found).hash(state),
            Effect::Miss { bridge, miss } => (bridge, miss).hash(state),
            Effect::Group { bridge, group, generation, bucket } => {
                (bridge, group, generation, bucket).hash(state);
            }
            Effect::Patch { from, to } => (from, to).hash(state),
            Effect::Tunnel { at, sent } => (at, sent).hash(state),
            Effect::Mirror { bridge, mirror } => (bridge, mirror).hash(state),
            Effect::NeighbourSeen { bridge, ip, mac } => (bridge, ip, mac).hash(state),
            Effect::NeighbourUsed { bridge, ip } => (bridge, ip).hash(state),
            Effect::NeighbourWanted { bridge, port, source, target } => {
                (bridge, port, source, target).hash(state);
            }
        }
    }
}
