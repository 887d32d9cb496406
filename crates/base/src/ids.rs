//! Identifiers, each with its own type, so that a zone cannot be passed in place of a port.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(raw: $inner) -> Self {
                $name(raw)
            }
        }
    };
}

id!(
    /// A connection tracking zone, 0 to 65,535.
    Zone(u16)
);
id!(
    /// A port of the datapath. The ports of all bridges share this number space. Packets are never sent to
    /// port 0, as in the netdev datapath of Open vSwitch (`ovs-netdev`).
    PortNo(u32)
);
id!(
    /// The number of a state that is frozen for the next pass of a packet; 0 in the first pass.
    RecircId(u32)
);
id!(
    /// A datapath worker thread, counted from 0.
    WorkerId(u16)
);
id!(
    /// An OpenFlow table, 0 to 254.
    TableId(u8)
);
id!(
    /// A bridge's 64-bit OpenFlow datapath id.
    DatapathId(u64)
);

/// An OpenFlow port of a bridge, as a 16-bit number of OpenFlow 1.0. The 32-bit numbers of later versions map
/// to these (ovs: `include/openflow/openflow-1.1.h`, `OFPP11_OFFSET`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct OfPort(pub u16);

impl OfPort {
    /// The first reserved number; ordinary ports are 1 to `MAX - 1`.
    pub const MAX: OfPort = OfPort(0xff00);
    /// Not a port: "unset" in action sets and matches (`OFPP_UNSET` of OpenFlow 1.5).
    pub const UNSET: OfPort = OfPort(0xfff7);
    /// Send to the port that the packet came in on.
    pub const IN_PORT: OfPort = OfPort(0xfff8);
    /// Submit a packet-out's packet to the first table.
    pub const TABLE: OfPort = OfPort(0xfff9);
    /// Forward as an ordinary learning switch.
    pub const NORMAL: OfPort = OfPort(0xfffa);
    /// All flooding ports except the one that the packet came in on.
    pub const FLOOD: OfPort = OfPort(0xfffb);
    /// All ports except the one that the packet came in on.
    pub const ALL: OfPort = OfPort(0xfffc);
    /// Send to the controller.
    pub const CONTROLLER: OfPort = OfPort(0xfffd);
    /// The bridge's own local port.
    pub const LOCAL: OfPort = OfPort(0xfffe);
    /// No port; in requests, any port.
    pub const NONE: OfPort = OfPort(0xffff);

    /// Returns whether a port can have this number (1 to `MAX - 1`, or LOCAL).
    pub fn is_real(self) -> bool {
        (self.0 >= 1 && self.0 < Self::MAX.0) || self == Self::LOCAL
    }

    /// Returns the 32-bit number of OpenFlow 1.1 and later.
    pub fn to_wire32(self) -> u32 {
        if self.0 >= Self::MAX.0 { u32::from(self.0) | 0xffff_0000 } else { u32::from(self.0) }
    }

    /// Returns the port of a 32-bit number, or `None` if it has no 16-bit form.
    pub fn from_wire32(raw: u32) -> Option<OfPort> {
        let ordinary = raw < u32::from(Self::MAX.0);
        let reserved = raw >= u32::from(Self::MAX.0) | 0xffff_0000;
        (ordinary || reserved).then_some(OfPort(raw as u16))
    }

    /// Returns the name of a reserved port in Open vSwitch's tools.
    pub fn reserved_name(self) -> Option<&'static str> {
        Some(match self {
            Self::UNSET => "UNSET",
            Self::IN_PORT => "IN_PORT",
            Self::TABLE => "TABLE",
            Self::NORMAL => "NORMAL",
            Self::FLOOD => "FLOOD",
            Self::ALL => "ALL",
            Self::CONTROLLER => "CONTROLLER",
            Self::LOCAL => "LOCAL",
            Self::NONE => "ANY",
            _ => return None,
        })
    }
}

impl fmt::Display for OfPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reserved_name() {
            Some(name) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openflow_ports_keep_their_meaning_on_both_wires() {
        for raw in [1u16, 2, 0xfeff, 0xff00, 0xfffe, 0xffff] {
            let port = OfPort(raw);
            assert_eq!(OfPort::from_wire32(port.to_wire32()), Some(port), "{raw:#x}");
        }
        assert_eq!(OfPort::from_wire32(0x0001_0000), None);
        assert_eq!(OfPort::from_wire32(0xff00), None);
        assert_eq!(OfPort::LOCAL.to_wire32(), 0xffff_fffe);
        assert_eq!(OfPort::LOCAL.to_string(), "LOCAL");
        assert!(!OfPort(0).is_real());
        assert!(OfPort::LOCAL.is_real() && !OfPort::NORMAL.is_real());
    }
}
