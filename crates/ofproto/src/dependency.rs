//! What translations depend on.

use crate::ids::{BridgeId, RuleId};
use base::{MacAddr, OfPort, PortNo, TableId, Zone};
use std::net::IpAddr;

/// An input of a translation that can change while the configuration does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Dependency {
    /// A lookup in a flow table.
    Table { bridge: BridgeId, table: TableId },
    /// A lookup in a flow table after some action may have rewritten a header.
    RewrittenTable { bridge: BridgeId, table: TableId },
    /// A group, which may not exist.
    Group { bridge: BridgeId, group: u32 },
    /// A meter of packets to controllers, which may not exist.
    Meter { bridge: BridgeId, meter: u32 },
    /// The number of flows in a table.
    FlowCount { bridge: BridgeId, table: TableId },
    /// Whether a port's link is up.
    Link { bridge: BridgeId, port: OfPort },
    /// A flow that was hit.
    Rule(RuleId),
    /// A bridge's configuration and the state of its controllers.
    Bridge { bridge: BridgeId },
    /// A port, which may not exist.
    Port { bridge: BridgeId, port: OfPort },
    /// All ports of a bridge, or one by its name.
    Ports { bridge: BridgeId },
    /// The bridge port of a datapath port.
    Device(PortNo),
    /// The timeout policy of a zone.
    Zone(Zone),
    /// A lookup by `NORMAL` of an address, which may be unknown.
    Mac { bridge: BridgeId, vlan: u16, mac: MacAddr },
    /// The routes of the underlay.
    Routes,
    /// A neighbour's address in a bridge, which may be unknown.
    Neighbour { bridge: BridgeId, ip: IpAddr },
}
