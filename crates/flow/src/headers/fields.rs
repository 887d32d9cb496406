//! Single fields of headers, or the bits of a field in a mask.

use super::Headers;
use base::MacAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

impl Headers {
    /// Returns the Ethernet destination.
    pub fn eth_dst(&self) -> MacAddr {
        MacAddr::from_u64(self.words[1] >> 16)
    }

    /// Returns the Ethernet source.
    pub fn eth_src(&self) -> MacAddr {
        MacAddr::from_u64(self.words[2] >> 16)
    }

    /// Returns the Ethernet type.
    #[inline]
    pub fn eth_type(&self) -> u16 {
        self.words[1] as u16
    }

    /// Returns the VLAN tag, with [`VLAN_PRESENT`](crate::VLAN_PRESENT) if there is one.
    pub fn vlan_tci(&self) -> u16 {
        self.words[2] as u16
    }

    /// Returns the TOS byte of IPv4 or the traffic class of IPv6.
    pub fn tos(&self) -> u8 {
        (self.words[3] >> 48) as u8
    }

    /// Returns the time to live of IPv4 or the hop limit of IPv6.
    pub fn ttl(&self) -> u8 {
        (self.words[3] >> 40) as u8
    }

    /// Returns the flow label of IPv6.
    pub fn flow_label(&self) -> u32 {
        self.words[0] as u32 & 0xf_ffff
    }

    /// Returns source and destination of an IPv4 packet.
    pub fn ipv4_ends(&self) -> [Ipv4Addr; 2] {
        [self.words[4] >> 32, self.words[4]].map(|bits| Ipv4Addr::from_bits(bits as u32))
    }

    /// Returns source and destination of an IPv6 packet.
    pub fn ipv6_ends(&self) -> [Ipv6Addr; 2] {
        let [.., a, b, c, d] = self.words;
        [(a, b), (c, d)]
            .map(|(high, low)| Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
    }

    /// Returns whether a mask has bits of an Ethernet address or a VLAN tag.
    pub fn has_link_bits(&self) -> bool {
        self.words[1] & !0xffff | self.words[2] != 0
    }

    /// Returns the Ethernet header, the VLAN tag, protocol, TOS, TTL and ports as three words: words 1 to 3 of
    /// the table above. Devices match on these.
    pub fn link_to_ports(&self) -> [u64; 3] {
        let [_, destination, source, ports, ..] = self.words;
        [destination, source, ports]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PortNo;
    use wire::builder::PacketBuilder;

    #[test]
    fn fields_are_those_of_the_packet() {
        let (from, to) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let (v4, v6) = (["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd01::2"]);
        let v4 = v4.map(|text| text.parse::<Ipv4Addr>().unwrap());
        let v6 = v6.map(|text| text.parse::<Ipv6Addr>().unwrap());
        let frames = [
            PacketBuilder::eth(from, to)
                .vlan(wire::Tci(5))
                .ipv4(v4[0], v4[1])
                .tcp(1000, 80)
                .build(),
            PacketBuilder::eth(from, to).ipv6(v6[0], v6[1]).tcp(1000, 80).build(),
        ];
        for (is_v6, mut frame) in [false, true].into_iter().zip(frames) {
            // TOS or class 0x2e, flow label 0x12345, TTL or hop limit 9.
            if is_v6 {
                frame[14..18].copy_from_slice(&[0x62, 0xe1, 0x23, 0x45]);
                frame[21] = 9;
            } else {
                (frame[19], frame[26]) = (0x2e, 9);
            }
            let mut headers = Headers::none();
            headers.read(&frame, PortNo(7)).unwrap();
            assert_eq!((headers.eth_dst(), headers.eth_src()), (to, from));
            assert_eq!((headers.tos(), headers.ttl()), (0x2e, 9));
            let (tag, label) = if is_v6 { (0, 0x12345) } else { (crate::VLAN_PRESENT | 5, 0) };
            assert_eq!((headers.vlan_tci(), headers.flow_label()), (tag, label));
            if is_v6 {
                assert_eq!((headers.eth_type(), headers.ipv6_ends()), (0x86dd, v6));
            } else {
                assert_eq!((headers.eth_type(), headers.ipv4_ends()), (0x0800, v4));
            }
            assert_eq!(headers.link_to_ports()[2] as u32, 1000 << 16 | 80);
        }
        let mask = Headers::none().tuple_mask();
        assert!(!mask.has_link_bits() && mask.exact_mask().has_link_bits());
    }
}
