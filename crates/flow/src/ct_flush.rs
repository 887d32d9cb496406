//! Which connections are to be forgotten (`ovs-appctl dpctl/flush-conntrack`, NXT_CT_FLUSH).

use crate::{Masked, Tuple, TupleL4, TupleMatch};
use base::Zone;

/// What a connection must have to be forgotten; what is `None` is not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CtFlush {
    /// Its zone.
    pub zone: Option<Zone>,
    /// Its IP protocol.
    pub protocol: Option<u8>,
    /// Its original direction.
    pub original: TupleMatch,
    /// Its reply direction.
    pub reply: TupleMatch,
    /// Bits of its mark.
    pub mark: Option<Masked<u32>>,
    /// Bits of its label.
    pub label: Option<Masked<u128>>,
}

impl CtFlush {
    /// Everything in a zone.
    pub fn zone(zone: Zone) -> CtFlush {
        CtFlush { zone: Some(zone), ..CtFlush::default() }
    }

    /// The one connection of a zone that has this tuple as its original direction; None for a protocol
    /// without ports or ICMP ids, which has no whole tuple.
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

    /// Whether it asks for nothing but a zone, or for everything.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == CtFlush { zone: self.zone, ..CtFlush::default() }
    }
}
