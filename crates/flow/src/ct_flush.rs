//! A filter of the connections to flush (`ovs-appctl dpctl/flush-conntrack`, NXT_CT_FLUSH).

use crate::{Masked, Tuple, TupleL4, TupleMatch};
use base::Zone;

/// Properties that a connection must have to be flushed; `None` matches any value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CtFlush {
    /// The zone.
    pub zone: Option<Zone>,
    /// The IP protocol.
    pub protocol: Option<u8>,
    /// The tuple of the original direction.
    pub original: TupleMatch,
    /// The tuple of the reply direction.
    pub reply: TupleMatch,
    /// Bits of the mark.
    pub mark: Option<Masked<u32>>,
    /// Bits of the label.
    pub label: Option<Masked<u128>>,
}

impl CtFlush {
    /// Matches all connections of a zone.
    pub fn zone(zone: Zone) -> CtFlush {
        CtFlush { zone: Some(zone), ..CtFlush::default() }
    }

    /// Matches the connection of a zone that has this tuple as its original direction. `None` for a protocol
    /// without ports or ICMP ids, whose tuples are incomplete.
    pub fn connection(zone: Zone, tuple: &Tuple) -> Option<CtFlush> {
        let Tuple { src, dst, protocol, l4 } = *tuple;
        let mut original = TupleMatch { src: Some(src), dst: Some(dst), ..TupleMatch::default() };
        match l4 {
            TupleL4::Ports { src, dst } => {
                (original.src_port, original.dst_port) = (Some(src), Some(dst));
            }
            TupleL4::Icmp { id, icmp_type, code } => {
                (original.icmp_id, original.icmp_type) = (Some(id), Some(icmp_type));
                original.icmp_code = Some(code);
            }
            TupleL4::None => return None,
        }
        let (zone, protocol) = (Some(zone), Some(protocol));
        Some(CtFlush { zone, protocol, original, ..CtFlush::default() })
    }

    /// Returns whether it matches all connections, or all of a zone.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == CtFlush { zone: self.zone, ..CtFlush::default() }
    }
}
