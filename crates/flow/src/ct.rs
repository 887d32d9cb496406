//! Connection tracking's vocabulary: the action, address translation, and tuples.

use base::Zone;
use std::fmt;
use std::net::IpAddr;

/// A value and which of its bits count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Masked<T> {
    /// The bits.
    pub value: T,
    /// Which of them count.
    pub mask: T,
}

/// Send a packet through connection tracking (`ct(...)`).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CtAction {
    /// Remember a new connection.
    pub commit: bool,
    /// If the connection runs the other way, forget it and begin anew in this direction.
    pub force: bool,
    /// The zone.
    pub zone: Zone,
    /// Sets bits of the connection's mark.
    pub mark: Option<Masked<u32>>,
    /// Sets bits of the connection's label.
    pub label: Option<Masked<u128>>,
    /// Translates addresses.
    pub nat: Option<Nat>,
    /// Application-layer helper ("ftp", "tftp").
    pub helper: Option<&'static str>,
    /// The number of the zone's timeout policy, for those who read the action; connection
    /// tracking itself knows the zone's timeouts.
    pub timeout_policy: Option<u32>,
}

/// Address translation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Nat {
    /// Translate as the connection was set up, if it was (`nat` without arguments).
    Restore,
    /// Set a new connection up with this translation; others are translated as they were.
    Translate(NatRange),
}

/// Which side of the connection is rewritten in the original direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NatKind {
    /// The source.
    Src,
    /// The destination.
    Dst,
}

/// How an address and port are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PortSelection {
    /// The address by the packet's hash; the port kept where it is free.
    #[default]
    Default,
    /// By a hash of the packet.
    Hash,
    /// At random.
    Random,
}

/// What addresses and ports may be translated to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NatRange {
    /// The side that is rewritten.
    pub kind: NatKind,
    /// First and last address; `None` keeps the address and makes the port unique
    /// (all-zero source NAT, for `Src`).
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port; `None` leaves the choice to the engine.
    pub ports: Option<(u16, u16)>,
    /// How to choose.
    pub selection: PortSelection,
    /// The same choice over restarts.
    pub persistent: bool,
}

/// One direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Tuple {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the source's family.
    pub dst: IpAddr,
    /// IP protocol.
    pub protocol: u8,
    /// What identifies the connection within the protocol.
    pub l4: TupleL4,
}

/// What identifies a connection between two addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum TupleL4 {
    /// TCP, UDP, SCTP: ports.
    Ports {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
    },
    /// ICMP and ICMPv6 queries.
    Icmp {
        /// The query's identifier.
        id: u16,
        /// Type.
        icmp_type: u8,
        /// Code.
        code: u8,
    },
    /// Protocols without either.
    None,
}

impl Tuple {
    /// The protocol's name as connection dumps print it, or `None` for one printed as a number
    /// (ovs: `lib/ct-dpif.c`, `ct_dpif_format_ipproto`).
    pub fn protocol_name(&self) -> Option<&'static str> {
        Some(match self.protocol {
            1 => "icmp",
            2 => "igmp",
            6 => "tcp",
            17 => "udp",
            33 => "dccp",
            58 => "icmpv6",
            132 => "sctp",
            136 => "udplite",
            _ => return None,
        })
    }
}

impl fmt::Display for Tuple {
    /// `src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2`, as connection dumps print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "src={},dst={}", self.src, self.dst)?;
        match self.l4 {
            TupleL4::Ports { src, dst } => write!(f, ",sport={src},dport={dst}"),
            TupleL4::Icmp { id, icmp_type, code } => {
                write!(f, ",id={id},type={icmp_type},code={code}")
            }
            TupleL4::None => Ok(()),
        }
    }
}

/// Parts of one direction of a connection; what is `None` is not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TupleMatch {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// Source port.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
    /// Identifier of an ICMP query.
    pub icmp_id: Option<u16>,
    /// Type of an ICMP query.
    pub icmp_type: Option<u8>,
    /// Code of an ICMP query.
    pub icmp_code: Option<u8>,
}

impl TupleMatch {
    /// Whether the tuple has all of them.
    #[must_use]
    pub fn matches(&self, tuple: &Tuple) -> bool {
        let l4 = match tuple.l4 {
            TupleL4::Ports { src, dst } => is(self.src_port, src) && is(self.dst_port, dst),
            TupleL4::Icmp { id, icmp_type, code } => {
                is(self.icmp_id, id) && is(self.icmp_type, icmp_type) && is(self.icmp_code, code)
            }
            TupleL4::None => true,
        };
        l4 && is(self.src, tuple.src) && is(self.dst, tuple.dst)
    }
}

fn is<T: PartialEq>(wanted: Option<T>, value: T) -> bool {
    wanted.is_none_or(|wanted| wanted == value)
}
