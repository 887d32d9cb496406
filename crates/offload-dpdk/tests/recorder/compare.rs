//! Whether a frame is one that a pattern describes.

use super::bytes::{Places, is_tag, u16_at};
use port_dpdk::flow_rule::{Ipv4, Ipv6, Item, L3_OK, L4_OK, Spec, Tcp};
use wire::ethertype;
use wire::protocol::{TCP, UDP};

/// The fragment header of IPv6 (RFC 8200, section 4.5).
const IPV6_FRAGMENT: u8 = 44;

/// How far a frame was read.
struct Reader<'a> {
    frame: &'a [u8],
    port: u16,
    at: usize,
    /// The type or protocol of what follows.
    next: u16,
    /// Where frames begin: the frame itself, and one inside a tunnel.
    starts: Vec<usize>,
    /// What a connection object said of it.
    said: Option<u32>,
}

/// Whether a pattern describes a frame that a port receives, of which a connection object said something.
pub fn matches(items: &[Item], port: u16, frame: &[u8], said: Option<u32>) -> bool {
    let mut reader = Reader { frame, port, at: 0, next: 0, starts: Vec::new(), said };
    items.iter().all(|item| reader.item(item).is_some_and(|it| it))
}

/// Whether a value has what is compared.
fn same(value: u64, Spec { value: wanted, mask }: Spec<u64>) -> bool {
    (value ^ wanted) & mask == 0
}

fn spec<T: Copy>(of: &Spec<T>, field: impl Fn(T) -> u64) -> Spec<u64> {
    Spec { value: field(of.value), mask: field(of.mask) }
}

impl Reader<'_> {
    /// `None` where the frame ends too early.
    fn item(&mut self, item: &Item) -> Option<bool> {
        let rest = self.frame.get(self.at..)?;
        Some(match item {
            Item::RepresentedPort(port) => *port == self.port,
            Item::Eth(eth) => {
                self.starts.push(self.at);
                let mac = |at: usize| {
                    rest.get(at..at + 6)
                        .map(|it| it.iter().fold(0, |all, b| all << 8 | u64::from(*b)))
                };
                let (destination, source) = (mac(0)?, mac(6)?);
                self.next = u16_at(rest, 12);
                self.at += 14;
                let has_vlan = u64::from(is_tag(self.next));
                same(destination, spec(eth, |it| it.destination.to_u64()))
                    && same(source, spec(eth, |it| it.source.to_u64()))
                    && same(self.next.into(), spec(eth, |it| it.ethertype.into()))
                    && same(has_vlan, spec(eth, |it| it.has_vlan.into()))
            }
            Item::Vlan(vlan) => {
                let (is_it, tci) = (is_tag(self.next), u16_at(rest, 0));
                self.next = u16_at(rest, 2);
                self.at += 4;
                is_it && same(tci.into(), spec(vlan, |it| it.tci.into()))
            }
            Item::Ipv4(ip) => self.next == ethertype::IPV4 && self.ipv4(rest.first_chunk()?, ip),
            Item::Ipv6(ip) => self.next == ethertype::IPV6 && self.ipv6(rest.first_chunk()?, ip),
            Item::Tcp(tcp) => self.next == u16::from(TCP) && self.tcp(rest.first_chunk()?, tcp),
            Item::Udp(udp) => {
                self.at += 8;
                let (source, destination) = (u16_at(rest, 0), u16_at(rest, 2));
                self.next == u16::from(UDP)
                    && rest.len() >= 8
                    && same(source.into(), spec(udp, |it| it.source.into()))
                    && same(destination.into(), spec(udp, |it| it.destination.into()))
            }
            Item::Vxlan { vni, compares_flags } => {
                self.at += 8;
                let [flags, _, _, _, a, b, c, _] = *rest.first_chunk()?;
                (flags == 0x08 || !compares_flags) && u32::from_be_bytes([0, a, b, c]) == *vni
            }
            Item::Integrity { level, bits } => self.is_whole(*level, *bits),
            Item::Connection(flags) => self.said == Some(*flags),
        })
    }

    fn ipv4(&mut self, header: &[u8; 20], ip: &Spec<Ipv4>) -> bool {
        self.next = header[9].into();
        self.at += usize::from(header[0] & 15) * 4;
        let address =
            |at: usize| u64::from(u16_at(header, at)) << 16 | u64::from(u16_at(header, at + 2));
        same(header[1].into(), spec(ip, |it| it.tos.into()))
            && same(header[8].into(), spec(ip, |it| it.ttl.into()))
            && same(header[9].into(), spec(ip, |it| it.protocol.into()))
            && same(u16_at(header, 6).into(), spec(ip, |it| it.fragment.into()))
            && same(address(12), spec(ip, |it| it.source.to_bits().into()))
            && same(address(16), spec(ip, |it| it.destination.to_bits().into()))
    }

    fn ipv6(&mut self, header: &[u8; 40], ip: &Spec<Ipv6>) -> bool {
        self.next = header[6].into();
        self.at += 40;
        let word =
            |at: usize| (0..4).fold(0, |all, i| all << 16 | u64::from(u16_at(header, at + 2 * i)));
        let class = u64::from(u16_at(header, 0) >> 4 & 0xff);
        same(class, spec(ip, |it| it.class.into()))
            && same(word(0) >> 32 & 0xf_ffff, spec(ip, |it| it.label.into()))
            && same(header[6].into(), spec(ip, |it| it.next_header.into()))
            && same(header[7].into(), spec(ip, |it| it.hop_limit.into()))
            && same(u64::from(header[6] == IPV6_FRAGMENT), spec(ip, |it| it.has_fragment.into()))
            && same(word(8), spec(ip, |it| (it.source.to_bits() >> 64) as u64))
            && same(word(16), spec(ip, |it| it.source.to_bits() as u64))
            && same(word(24), spec(ip, |it| (it.destination.to_bits() >> 64) as u64))
            && same(word(32), spec(ip, |it| it.destination.to_bits() as u64))
    }

    fn tcp(&mut self, header: &[u8; 20], tcp: &Spec<Tcp>) -> bool {
        self.at += 20;
        same(u16_at(header, 0).into(), spec(tcp, |it| it.source.into()))
            && same(u16_at(header, 2).into(), spec(tcp, |it| it.destination.into()))
            && same(header[13].into(), spec(tcp, |it| it.flags.into()))
    }

    /// What a device checks of one of the packets: lengths, and checksums of network and transport.
    fn is_whole(&self, level: u32, bits: u64) -> bool {
        assert_eq!(bits, L3_OK | L4_OK);
        let start = self.starts[level as usize - 1];
        let Some(places) = Places::of(self.frame, start) else { return false };
        let header = &self.frame[places.l3..places.l4];
        let is_right = places.is_ipv6 || wire::checksum::checksum(header) == 0;
        is_right
            && places.is_whole(self.frame)
            && (places.lacks_checksum(self.frame)
                || places.right_checksum(self.frame) == u16_at(self.frame, places.checksum()))
    }
}
