//! Connection tracking's vocabulary: the action, NAT, and tuples.

use base::Zone;
use std::fmt;
use std::net::IpAddr;
use wire::protocol;

/// A value and a mask of the bits that matter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Masked<T> {
    /// The bits.
    pub value: T,
    /// The mask.
    pub mask: T,
}

/// The action that sends a packet through connection tracking (`ct(...)`).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CtAction {
    /// Commit a new connection.
    pub commit: bool,
    /// If the packet is a reply, delete the connection and create a new one in the direction of the packet.
    pub force: bool,
    /// The zone.
    pub zone: Zone,
    /// Sets bits of the connection's mark.
    pub mark: Option<Masked<u32>>,
    /// Sets bits of the connection's label.
    pub label: Option<Masked<u128>>,
    /// Rewrites addresses and ports (NAT).
    pub nat: Option<Nat>,
    /// Application-layer helper ("ftp", "tftp").
    pub helper: Option<&'static str>,
    /// The number of the zone's timeout policy, for dumps; connection tracking itself finds the timeouts by
    /// the zone.
    pub timeout_policy: Option<u32>,
}

/// NAT: what becomes of addresses and ports.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Nat {
    /// Apply the NAT of the connection, if it has one (`nat` without arguments).
    Restore,
    /// Create new connections with this NAT; apply their own NAT to packets of existing ones.
    Rewrite(NatRange),
}

/// The address that is rewritten in the original direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NatKind {
    /// The source.
    Src,
    /// The destination.
    Dst,
}

/// How an address and port are selected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PortSelection {
    /// The address by a hash of the packet; the source port is kept if it is free.
    #[default]
    Default,
    /// By a hash of the packet.
    Hash,
    /// At random.
    Random,
}

/// The range of addresses and ports for NAT.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NatRange {
    /// The address that is rewritten.
    pub kind: NatKind,
    /// First and last address; `None` keeps the address and makes the port unique
    /// (all-zero source NAT, for `Src`).
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port; `None` allows any.
    pub ports: Option<(u16, u16)>,
    /// How to select within the range.
    pub selection: PortSelection,
    /// Make the same selection after a restart (`persistent`).
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
    /// The identifying part of the transport header.
    pub l4: TupleL4,
}

/// What tells connections between the same two addresses apart.
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
    /// Other protocols.
    None,
}

impl Tuple {
    /// Returns the protocol's name in connection dumps, or `None` if it is printed as a number (ovs:
    /// `lib/ct-dpif.c`, `ct_dpif_format_ipproto`).
    pub fn protocol_name(&self) -> Option<&'static str> {
        Some(match self.protocol {
            protocol::ICMP => "icmp",
            protocol::IGMP => "igmp",
            protocol::TCP => "tcp",
            protocol::UDP => "udp",
            protocol::DCCP => "dccp",
            protocol::ICMPV6 => "icmpv6",
            protocol::SCTP => "sctp",
            protocol::UDPLITE => "udplite",
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

/// A filter of one direction of a connection; `None` matches any value.
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
    /// Returns whether the tuple matches.
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
