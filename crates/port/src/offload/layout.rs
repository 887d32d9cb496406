//! The places of a frame's headers that software offloads read and write.

use packet::GsoKind;
use wire::checksum::{checksum, combine, sum};
use wire::{ethertype, protocol};

/// Where the checksum field lies in a TCP header (RFC 9293 section 3.1).
pub(super) const TCP_CHECKSUM: u16 = 16;
/// Where the checksum field lies in a UDP header (RFC 768).
pub(super) const UDP_CHECKSUM: u16 = 6;
/// The most VLAN tags that are skipped: more than the headroom of a packet has room for.
const TAGS: usize = 36;

/// The offsets of an IP packet's headers in a frame, which is not a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub network: usize,
    pub transport: usize,
    pub protocol: u8,
    pub ipv6: bool,
}

impl Layout {
    /// Returns the layout of the outermost IP packet.
    pub fn of(frame: &[u8]) -> Option<Layout> {
        let (ethertype, network) = network_header(frame)?;
        match ethertype {
            ethertype::IPV4 => Layout::of_ipv4(frame, network),
            ethertype::IPV6 => Layout::of_ipv6(frame, network),
            _ => None,
        }
    }

    pub fn of_ipv4(frame: &[u8], network: usize) -> Option<Layout> {
        let header: &[u8; 20] = frame.get(network..)?.first_chunk()?;
        let words = usize::from(header[0] & 0xf);
        // Of fragments, none has the whole transport packet (flag MF, or a non-zero offset).
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        let is_whole = header[0] >> 4 == 4 && words >= 5 && fragment == 0;
        let transport = network + words * 4;
        is_whole.then_some(Layout { network, transport, protocol: header[9], ipv6: false })
    }

    pub fn of_ipv6(frame: &[u8], network: usize) -> Option<Layout> {
        if frame.get(network)? >> 4 != 6 {
            return None;
        }
        let mut protocol = *frame.get(network + 6)?;
        let mut transport = network + 40;
        // Hop-by-hop, routing and destination options; lengths are in units of 8 bytes beyond the first (RFC
        // 8200 section 4). A fragment header is no transport header.
        for _ in 0..8 {
            if !matches!(
                protocol,
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS
            ) {
                return Some(Layout { network, transport, protocol, ipv6: true });
            }
            protocol = *frame.get(transport)?;
            transport += (usize::from(*frame.get(transport + 1)?) + 1) * 8;
        }
        None
    }

    /// Returns the layout of the outermost IP packet if it is a whole TCP or UDP packet: header and length lie
    /// within the frame, as the flow key's parser requires.
    pub fn of_whole(frame: &[u8]) -> Option<Layout> {
        let layout = Layout::of(frame)?;
        let end = layout.end(frame).filter(|end| *end <= frame.len())?;
        (layout.header_end(frame)? <= end).then_some(layout)
    }

    /// Returns where the packet ends according to its IP header.
    pub fn end(&self, frame: &[u8]) -> Option<usize> {
        Some(match self.ipv6 {
            true => self.network + 40 + usize::from(get_u16(frame, self.network + 4)?),
            false => self.network + usize::from(get_u16(frame, self.network + 2)?),
        })
    }

    /// Returns where the TCP or UDP header ends.
    pub fn header_end(&self, frame: &[u8]) -> Option<usize> {
        match self.protocol {
            protocol::TCP => {
                let words = frame.get(self.transport + 12)? >> 4;
                (words >= 5).then(|| self.transport + usize::from(words) * 4)
            }
            protocol::UDP => Some(self.transport + 8),
            _ => None,
        }
    }

    /// Returns the offset of the checksum in the TCP or UDP header.
    pub fn checksum_offset(&self) -> Option<u16> {
        match self.protocol {
            protocol::TCP => Some(TCP_CHECKSUM),
            protocol::UDP => Some(UDP_CHECKSUM),
            _ => None,
        }
    }

    pub fn carries(&self, kind: GsoKind) -> bool {
        match kind {
            GsoKind::TcpV4 => !self.ipv6 && self.protocol == protocol::TCP,
            GsoKind::TcpV6 => self.ipv6 && self.protocol == protocol::TCP,
            GsoKind::UdpL4 => self.protocol == protocol::UDP,
        }
    }

    /// Sets the length of the IP packet, which ends with the frame, and the id of an IPv4 packet, which is the
    /// `index`th after the present one.
    pub fn write_network(&self, frame: &mut [u8], index: usize) -> Option<()> {
        let network = self.network;
        if self.ipv6 {
            let payload = u16::try_from(frame.len().checked_sub(network + 40)?).ok()?;
            return put_u16(frame, network + 4, payload);
        }
        let total = u16::try_from(frame.len().checked_sub(network)?).ok()?;
        let id = get_u16(frame, network + 4)?.wrapping_add(index as u16);
        put_u16(frame, network + 2, total)?;
        put_u16(frame, network + 4, id)?;
        put_u16(frame, network + 10, 0)?;
        let computed = checksum(frame.get(network..self.transport)?);
        put_u16(frame, network + 10, computed)
    }

    /// Returns the sum of the pseudo header of a transport packet of `length` bytes.
    pub fn pseudo_header_sum(&self, frame: &[u8], length: usize) -> Option<u16> {
        let addresses = if self.ipv6 {
            self.network + 8..self.network + 40
        } else {
            self.network + 12..self.network + 20
        };
        let numbers = combine(u16::from(self.protocol), u16::try_from(length).ok()?);
        Some(combine(sum(frame.get(addresses)?), numbers))
    }
}

/// Returns the Ethernet type behind all VLAN tags, and where the header of that type begins.
pub(super) fn network_header(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = 12;
    for _ in 0..=TAGS {
        match get_u16(frame, at)? {
            ethertype::VLAN | ethertype::SERVICE_VLAN => at += 4,
            ethertype => return Some((ethertype, at + 2)),
        }
    }
    None
}

pub(super) fn get_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn put_u16(bytes: &mut [u8], at: usize, value: u16) -> Option<()> {
    bytes.get_mut(at..at + 2)?.copy_from_slice(&value.to_be_bytes());
    Some(())
}
