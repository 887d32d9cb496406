//! The stages of a lookup, outer headers first: a packet that differs in an outer stage leaves the
//! inner ones wildcarded.

use flow::{Field, Mask};

/// A part of the key. Lookups compare the stages in this order (ovs: `include/openvswitch/flow.h`,
/// `FLOW_SEGMENT_1_ENDS_AT` and following).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Ports, registers and connection state, which are not in the packet.
    Metadata,
    /// Ethernet and VLAN.
    L2,
    /// Addresses, also the original ones of the connection, and the other IP fields.
    L3,
    /// Ports, also the original ones of the connection, TCP flags, ARP and ND, and what lies in the place of
    /// these: MPLS and NSH.
    L4,
}

impl Stage {
    /// All, outermost first.
    pub const ALL: [Stage; 4] = [Stage::Metadata, Stage::L2, Stage::L3, Stage::L4];

    /// The stage that a field belongs to.
    pub fn of(field: Field) -> Stage {
        use Field::*;
        match field {
            EthDst | EthType | EthSrc | PacketType | VlanTpid | VlanTci | VlanTpid1 | VlanTci1 => {
                Stage::L2
            }
            Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst | CtNwSrc | CtNwDst | CtIpv6Src | CtIpv6Dst
            | NwProto | NwTos | NwTtl | NwFrag | Ipv6Label => Stage::L3,
            TpSrc | TpDst | TcpFlags | CtTpSrc | CtTpDst | ArpSha | ArpTha | NdTarget
            | NdReserved | NdOptionsType | MplsLse0 | MplsLse1 | MplsLse2 | NshFlags | NshTtl
            | NshMdtype | NshNp | NshSpi | NshSi | NshC1 | NshC2 | NshC3 | NshC4 => Stage::L4,
            // Any stage is correct for any field; the right one only makes megaflows wider.
            _ => Stage::Metadata,
        }
    }

    /// The bits of `mask` in the fields of this stage.
    pub fn part_of(self, mask: &Mask) -> Mask {
        let mut part = Mask::new();
        for &field in Field::BASIC {
            if Stage::of(field) == self {
                part.add_bits(field, mask.get(field));
            }
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_every_field_is_in_exactly_one_stage() {
        let mut all = Mask::new();
        for &field in Field::BASIC {
            all.add(field);
        }
        let mut seen = Mask::new();
        for stage in Stage::ALL {
            let part = stage.part_of(&all);
            let twice = part.words().iter().zip(seen.words()).any(|(a, b)| a & b != 0);
            assert!(!twice, "{stage:?} shares bits with an outer stage");
            seen.union(&part);
        }
        assert_eq!(seen, all);
    }
}
