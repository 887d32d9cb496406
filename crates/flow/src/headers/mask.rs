//! Masks of [`Headers`].

use super::write::AFTER_PORTS;
use super::{HEADER_WORDS, Headers, PORTS, PROTOCOL, SERVICE_TAG, TYPE};
use crate::field::{Field, TUNNEL_WORDS};
use crate::key::{Mask, VLAN_PRESENT};

impl Headers {
    /// Returns the bits of these headers that determine the key's bits in `mask`, in the first pass. Packets
    /// that agree in them agree in the masked key. The Ethernet type is always included, since it decides the
    /// meaning of the addresses.
    #[must_use]
    pub fn mask_of(&self, mask: &Mask) -> Headers {
        let m = |field: Field| mask.words()[field.word()];
        let mut words = [0; HEADER_WORDS];
        words[0] = m(Field::InPort) >> 32 << 32 | m(Field::TcpFlags) & 0xffff_ffff;
        words[1] = m(Field::EthDst) | 0xffff;
        words[2] = m(Field::EthSrc) & !0xffff | m(Field::VlanTci) >> 32 & 0xffff;
        let ports = m(Field::TpSrc) >> 32 & self.port_bits();
        words[3] = m(Field::NwProto) & 0xffff_ff00_0000_0000 | ports;
        if mask.has(Field::VlanTpid) {
            // The presence bit tells whether there is a tag.
            words[2] |= u64::from(VLAN_PRESENT);
            words[3] |= SERVICE_TAG;
        }
        if self.is_ipv6() {
            let addresses = Field::Ipv6Src.word()..Field::Ipv6Dst.word() + 2;
            words[4..].copy_from_slice(&mask.words()[addresses]);
        } else {
            words[4] = m(Field::Ipv4Src) << 32 | m(Field::Ipv4Dst) & 0xffff_ffff;
        }
        let others = &mask.words()[AFTER_PORTS..TUNNEL_WORDS.start];
        if mask.has(Field::NdReserved) || others.iter().any(|&word| word != 0) {
            // Fields of other protocols are zero because of the protocol, fields of other messages because of
            // the type.
            words[3] |= PROTOCOL | if self.is_icmp() { TYPE } else { 0 };
        }
        Headers { words }
    }

    /// Returns a mask of the bits that identify a connection: addresses, protocol and ports. The Ethernet
    /// type is included.
    #[must_use]
    pub fn tuple_mask(&self) -> Headers {
        let wide = if self.is_ipv6() { u64::MAX } else { 0 };
        let words = [0, 0xffff, 0, PROTOCOL | PORTS, u64::MAX, wide, wide, wide];
        Headers { words }
    }

    /// Returns whether packets that agree in the bits of this mask belong to the same direction of one
    /// connection. `is_ipv6` tells whether the packets are IPv6.
    pub fn is_of_one_tuple(&self, is_ipv6: bool) -> bool {
        let wide = if is_ipv6 { u64::MAX } else { 0 };
        let [.., ports, v4, a, b, c] = self.words;
        ports as u32 == u32::MAX && v4 == u64::MAX && [a, b, c] == [wide; 3]
    }

    /// Returns whether packets that agree in the bits of this mask have a VLAN tag of the same type.
    pub fn has_tag_type(&self) -> bool {
        self.words[3] & SERVICE_TAG != 0
    }

    /// Returns a mask of all bits.
    #[must_use]
    pub fn exact_mask(&self) -> Headers {
        let wide = if self.is_ipv6() { u64::MAX } else { 0 };
        let narrow = u64::MAX;
        Headers { words: [narrow, narrow, narrow, narrow, narrow, wide, wide, wide] }
    }

    /// Returns the union of both masks.
    #[must_use]
    pub fn union(&self, other: &Headers) -> Headers {
        Headers { words: std::array::from_fn(|i| self.words[i] | other.words[i]) }
    }
}
