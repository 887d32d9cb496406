//! Writes the key of an ordinary packet.

use super::{Headers, SERVICE_TAG};
use crate::field::{Field, HEADER_FIELDS, TUNNEL_WORDS};
use crate::key::FlowKey;
use wire::ethertype;

/// The first of the words that are zero in ordinary packets: those of ARP and neighbour discovery.
pub(super) const AFTER_PORTS: usize = Field::TpSrc.word() + 1;
const _: () = {
    // `write_packet_fields` writes these words in this order.
    let fields = [
        Field::EthDst,
        Field::EthSrc,
        Field::VlanTci,
        Field::Ipv6Src,
        Field::Ipv6Dst,
        Field::NwProto,
        Field::TpSrc,
    ];
    let words = [0, 1, 2, 3, 5, 7, 8];
    let mut i = 0;
    while i < fields.len() {
        assert!(fields[i].word() == HEADER_FIELDS.start + words[i]);
        i += 1;
    }
};

impl Headers {
    /// Writes the whole key of the packet.
    #[inline]
    pub fn write_key(&self, key: &mut FlowKey) {
        key.clear_tunnel();
        // All words except those that are written next.
        let words = key.words_mut();
        words[..HEADER_FIELDS.start].fill(0);
        words[AFTER_PORTS..TUNNEL_WORDS.start].fill(0);
        words[Field::InPort.word()] = self.words[0] >> 32 << 32;
        self.write_packet_fields(key);
    }

    /// Writes the fields of a key that connection tracking reads (it reads the rest from the packet):
    /// Ethernet type, protocol and fragment bits. Leaves the others unchanged.
    #[inline]
    pub fn write_protocol(&self, key: &mut FlowKey) {
        let words = key.words_mut();
        words[Field::EthType.word()] = self.words[1];
        words[Field::NwProto.word()] = self.words[3] & 0xffff_ff00_0000_0000;
    }

    /// Writes the fields of packets of this kind into a key, and leaves the others unchanged.
    #[inline]
    pub fn write_packet_fields(&self, key: &mut FlowKey) {
        let h = &self.words;
        let tag = if h[2] as u16 == 0 { 0 } else { self.tag() };
        let addresses = match self.is_ipv6() {
            true => [h[4], h[5], h[6], h[7]],
            false => [0, h[4] >> 32, 0, h[4] & 0xffff_ffff],
        };
        let words = &mut key.words_mut()[HEADER_FIELDS.start..AFTER_PORTS];
        words[..3].copy_from_slice(&[h[1], h[2] & !0xffff, tag]);
        words[3..7].copy_from_slice(&addresses);
        words[7] = h[3] & 0xffff_ff00_0000_0000 | h[0] & 0xffff_ffff;
        words[8] = (h[3] & self.port_bits()) << 32;
    }

    /// Returns the word of a key with the VLAN tag.
    #[inline(never)]
    fn tag(&self) -> u64 {
        let h = &self.words;
        let tpid = if h[3] & SERVICE_TAG != 0 { ethertype::SERVICE_VLAN } else { ethertype::VLAN };
        u64::from(tpid) << 48 | (h[2] & 0xffff) << 32
    }
}
