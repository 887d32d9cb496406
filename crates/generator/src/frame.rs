//! Builds frames: Ethernet with at most one VLAN tag, ARP, IPv4, IPv6, neighbour discovery, TCP and UDP.

use crate::address::Address;
use crate::checksum::Sum;
use crate::pattern;
use base::MacAddr;
use packet::{Offload, Packet};

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_ARP: u16 = 0x0806;
pub(crate) const ETHERTYPE_VLAN: u16 = 0x8100;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
pub(crate) const PROTOCOL_TCP: u8 = 6;
pub(crate) const PROTOCOL_UDP: u8 = 17;
pub(crate) const PROTOCOL_ICMPV6: u8 = 58;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;

/// Both ends of a connection as one host sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flow {
    pub local: Address,
    pub remote: Address,
    pub local_port: u16,
    pub remote_port: u16,
    pub protocol: u8,
}

/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM: usize = 6;

/// The Ethernet header of a host's frames and the contents of its TCP messages.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub mac: MacAddr,
    pub vlan: Option<u16>,
    /// Text that its TCP messages repeat; `None` sends the pattern.
    pub text: Option<Box<[u8]>>,
}

/// A TCP segment to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SegmentOut {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// Maximum segment size and window scale, on SYN only.
    pub options: Option<(u16, Option<u8>)>,
    /// Offset of the payload in the stream.
    pub offset: u32,
    pub length: u16,
}

/// An ARP or neighbour discovery message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resolution {
    Ask { local: Address, wanted: Address },
    Answer { local: Address, remote: Address, to: MacAddr },
}

/// Writes bytes one after the other. Bytes that do not fit are left out, and `finish` reports it.
struct Writer<'a> {
    area: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some(to) = self.area.get_mut(self.at..self.at + N) {
            to.copy_from_slice(&bytes);
        }
        self.at += N;
    }

    fn u16(&mut self, value: u16) {
        self.put(value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    fn ethernet(&mut self, wire: &Wire, to: MacAddr, ethertype: u16) {
        let mut header = [0; 12];
        header[..6].copy_from_slice(&to.0);
        header[6..].copy_from_slice(&wire.mac.0);
        self.put(header);
        if let Some(vlan) = wire.vlan {
            self.u16(ETHERTYPE_VLAN);
            self.u16(vlan & 0xfff);
        }
        self.u16(ethertype);
    }

    /// Writes the Ethernet and IP headers before `length` bytes of `protocol`. Returns the pseudo header's
    /// sum.
    #[inline(always)]
    fn network(
        &mut self,
        wire: &Wire,
        to: MacAddr,
        ends: [Address; 2],
        protocol: u8,
        length: u16,
    ) -> Sum {
        let pseudo = Sum::default().number(u16::from(protocol)).number(length);
        if let [Some(from), Some(towards)] = ends.map(|end| end.as_v4()) {
            self.ethernet(wire, to, ETHERTYPE_IPV4);
            // Don't fragment, identification 0 (RFC 6864 section 4.1), TTL 64.
            let mut header =
                [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            header[2..4].copy_from_slice(&(length + 20).to_be_bytes());
            header[12..16].copy_from_slice(&from);
            header[16..20].copy_from_slice(&towards);
            let addresses = Sum::default().bytes(&header[12..20]).finish();
            let sum = Sum::default().bytes(&header[..12]).number(!addresses).finish();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            self.put(header);
            pseudo.number(!addresses)
        } else {
            self.ethernet(wire, to, ETHERTYPE_IPV6);
            let hop_limit = if protocol == PROTOCOL_ICMPV6 { 255 } else { 64 };
            self.put([0x60, 0, 0, 0]);
            self.u16(length);
            self.put([protocol, hop_limit]);
            self.put(ends[0].0);
            self.put(ends[1].0);
            pseudo.bytes(&ends[0].0).bytes(&ends[1].0)
        }
    }
}

/// Runs `write` over the packet's room and sets the frame's length. `write` returns a starting sum, the
/// offset at which the checksummed bytes begin, and the offset at which the checksum is stored.
#[inline]
fn build(packet: &mut Packet, write: impl FnOnce(&mut Writer<'_>) -> Option<(Sum, usize, usize)>) {
    let mut writer = Writer { area: packet.receive_area(), at: 0 };
    let checksum = write(&mut writer);
    let end = writer.at;
    let area = packet.receive_area();
    if let Some((pseudo, start, field)) = checksum
        && let Some(covered) = area.get(start..end)
    {
        let sum = pseudo.bytes(covered).finish();
        // In UDP, 0 means "no checksum" and 0xffff stands for it (RFC 768). Other protocols' sums never come
        // to 0xffff, and tshark reports it.
        let is_udp = field == start + UDP_CHECKSUM;
        let sum = if sum == 0 && is_udp { 0xffff } else { sum };
        if let Some(field) = area.get_mut(field..field + 2) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
    packet.set_received(end, Offload::default());
}

/// Bytes of headers at most: Ethernet with a tag, IPv6, TCP with its options.
pub(crate) const HEADERS: usize = 14 + 4 + 40 + 28;

/// Writes a TCP segment with the stream's pattern, or the host's own text, as payload.
pub(crate) fn tcp(packet: &mut Packet, wire: &Wire, to: MacAddr, flow: &Flow, out: &SegmentOut) {
    build(packet, |w| {
        let header: u16 = match out.options {
            Some((_, Some(_))) => 28,
            Some((_, None)) => 24,
            None => 20,
        };
        let ends = [flow.local, flow.remote];
        let pseudo = w.network(wire, to, ends, PROTOCOL_TCP, header + out.length);
        let start = w.at;
        let mut fixed = [0; 20];
        fixed[0..2].copy_from_slice(&flow.local_port.to_be_bytes());
        fixed[2..4].copy_from_slice(&flow.remote_port.to_be_bytes());
        fixed[4..8].copy_from_slice(&out.seq.to_be_bytes());
        fixed[8..12].copy_from_slice(&out.ack.to_be_bytes());
        fixed[12] = (header as u8 / 4) << 4;
        fixed[13] = out.flags;
        fixed[14..16].copy_from_slice(&out.window.to_be_bytes());
        w.put(fixed);
        if let Some((mss, scale)) = out.options {
            let [high, low] = mss.to_be_bytes();
            w.put([2, 4, high, low]);
            if let Some(scale) = scale {
                w.put([1, 3, 3, scale]);
            }
        }
        let end = w.at + usize::from(out.length);
        let area = w.area.get_mut(w.at..end).unwrap_or_default();
        match &wire.text {
            Some(text) => pattern::repeat(text, out.offset, area),
            None => pattern::fill(out.offset, area),
        }
        w.at = end;
        Some((pseudo, start, start + 16))
    });
}

/// Writes a UDP datagram of `length` bytes: the message's number and the pattern.
pub(crate) fn udp(
    packet: &mut Packet,
    wire: &Wire,
    to: MacAddr,
    flow: &Flow,
    message: u32,
    length: u16,
) {
    build(packet, |w| {
        let ends = [flow.local, flow.remote];
        let pseudo = w.network(wire, to, ends, PROTOCOL_UDP, 8 + length);
        let start = w.at;
        w.u16(flow.local_port);
        w.u16(flow.remote_port);
        w.u16(8 + length);
        w.u16(0);
        let end = w.at + usize::from(length);
        w.u32(message);
        pattern::fill(message, w.area.get_mut(w.at..end).unwrap_or_default());
        w.at = end;
        Some((pseudo, start, start + UDP_CHECKSUM))
    });
}

/// Writes an ARP message, or a neighbour solicitation or advertisement (RFC 826, RFC 4861).
pub(crate) fn resolution(packet: &mut Packet, wire: &Wire, message: &Resolution) {
    let (local, remote, to) = match *message {
        Resolution::Ask { local, wanted } => (local, wanted, None),
        Resolution::Answer { local, remote, to } => (local, remote, Some(to)),
    };
    build(packet, |w| {
        if let (Some(local), Some(remote)) = (local.as_v4(), remote.as_v4()) {
            w.ethernet(wire, to.unwrap_or(MacAddr::BROADCAST), ETHERTYPE_ARP);
            w.put([0, 1, 8, 0, 6, 4, 0, if to.is_some() { 2 } else { 1 }]);
            w.put(wire.mac.0);
            w.put(local);
            w.put(to.unwrap_or(MacAddr::ZERO).0);
            w.put(remote);
            return None;
        }
        let [.., x, y, z] = remote.0;
        // A solicitation goes to the solicited-node multicast address (RFC 4291 section 2.7.1).
        let group = Address([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, x, y, z]);
        let (mac, towards) = match to {
            Some(to) => (to, remote),
            None => (MacAddr([0x33, 0x33, 0xff, x, y, z]), group),
        };
        let pseudo = w.network(wire, mac, [local, towards], PROTOCOL_ICMPV6, 32);
        let start = w.at;
        if to.is_some() {
            // The flags solicited and override (RFC 4861 section 4.4).
            w.put([136, 0, 0, 0, 0x60, 0, 0, 0]);
            w.put(local.0);
            w.put([2, 1]);
        } else {
            w.put([135, 0, 0, 0, 0, 0, 0, 0]);
            w.put(remote.0);
            w.put([1, 1]);
        }
        w.put(wire.mac.0);
        Some((pseudo, start, start + 2))
    });
}
