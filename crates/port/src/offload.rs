//! Software offloads: completing checksums, segmenting large frames, and merging segments.
//!
//! The first two are for ports that cannot carry [`packet::Offload`] (pcap files), and for packets that leave
//! the switch otherwise than through a port, such as to a controller. [`Merge`] is for ports whose device takes
//! large frames.

mod merge;
mod partial;

pub use merge::Merge;
pub use partial::find_partial;

use packet::{Checksum, GsoKind, Offload, Packet, Pool};
use wire::checksum::{checksum, combine, sum, udp_nonzero};
use wire::ethertype;
use wire::protocol;

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;
/// Where the checksum field lies in a UDP header (RFC 768).
const UDP_CHECKSUM: u16 = 6;

/// Completes a transport checksum that is [`Checksum::Partial`]; other states are unchanged.
///
/// The field already contains the pseudo header's sum, so only the sum from `start` to the end of the frame
/// is missing. A start or offset outside the frame, which only an invalid peer sends, makes the packet
/// [`Checksum::Unverified`]. A packet with `gso` gets the checksum of the large frame; use [`segment`] for
/// the checksums of segments.
pub fn complete_checksum(packet: &mut Packet) {
    let Checksum::Partial { start, offset } = packet.offload.checksum else { return };
    packet.offload.checksum = Checksum::Unverified;
    let field = usize::from(start) + usize::from(offset);
    let Some(covered) = packet.data().get(usize::from(start)..) else { return };
    let computed = checksum(covered);
    let computed = if offset == UDP_CHECKSUM { udp_nonzero(computed) } else { computed };
    if put_u16(packet.data_mut(), field, computed).is_some() {
        packet.offload.checksum = Checksum::Good;
    }
}

/// Turns per packet with any offload into packets that any wire can carry: completes the checksum in place, or
/// segments a large frame and returns its buffer to `pool`. Returns false, without any output, if the
/// packet's headers do not permit segmentation.
#[must_use]
pub fn finish(mut packet: Packet, pool: &mut Pool, mut out: impl FnMut(Packet)) -> bool {
    if packet.offload.gso.is_none() {
        complete_checksum(&mut packet);
        out(packet);
        return true;
    }
    let cut = segment(&packet, pool, out);
    pool.give(packet);
    cut
}

/// Segments a packet according to its [`packet::Gso`], with complete checksums, as the kernel does (Linux:
/// `net/ipv4/tcp_offload.c`, `net/ipv4/udp_offload.c`): IPv4 ids and sequence numbers advance, FIN and PSH
/// are set only in the last segment and CWR only in the first.
///
/// A packet without `gso` yields one copy with a complete checksum. Returns false, without any output, if the
/// packet's headers do not permit segmentation.
#[must_use]
pub fn segment(packet: &Packet, pool: &mut Pool, mut out: impl FnMut(Packet)) -> bool {
    let Some(gso) = packet.offload.gso else {
        let mut copy = pool.copy(packet);
        complete_checksum(&mut copy);
        out(copy);
        return true;
    };
    let frame = packet.data();
    let Some(layout) = Layout::of(frame) else { return false };
    if !layout.carries(gso.kind) || gso.segment_bytes == 0 {
        return false;
    }
    // The kernel's header length is a hint (it depends on the linear part of its buffer), so the transport
    // header decides.
    let Some(header_bytes) = layout.header_bytes(frame, gso.kind) else { return false };
    let Some((header, payload)) = frame.split_at_checked(header_bytes) else { return false };
    let pieces = payload.len().div_ceil(usize::from(gso.segment_bytes)).max(1);
    for index in 0..pieces {
        let from = index * usize::from(gso.segment_bytes);
        let to = payload.len().min(from + usize::from(gso.segment_bytes));
        let mut piece = pool.take();
        let total = header_bytes + (to - from);
        let Some(area) = piece.receive_area().get_mut(..total) else { return false };
        area[..header_bytes].copy_from_slice(header);
        area[header_bytes..].copy_from_slice(&payload[from..to]);
        let place =
            Place { index, from: from as u32, first: index == 0, last: index + 1 == pieces };
        if layout.finish_segment(area, gso.kind, place).is_none() {
            pool.give(piece);
            return false;
        }
        piece.set_received(total, Offload { checksum: Checksum::Good, gso: None });
        out(piece);
    }
    true
}

/// Returns the number of header bytes that each segment of a large frame repeats: up to the end of the TCP or
/// UDP header. `transport` is the offset of that header if known (the start of a partial checksum). Returns
/// `None` if the frame is too short or does not match `kind`.
pub fn gso_header_bytes(frame: &[u8], kind: GsoKind, transport: Option<usize>) -> Option<u16> {
    let end = match transport {
        Some(start) => transport_end(frame, kind, start)?,
        None => {
            let layout = Layout::of(frame)?;
            layout.carries(kind).then(|| layout.header_bytes(frame, kind))??
        }
    };
    (end <= frame.len()).then(|| u16::try_from(end).ok())?
}

/// The position of a segment in a large frame.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    /// Offset of its payload in the whole payload, in bytes.
    from: u32,
    first: bool,
    last: bool,
}

/// Offsets of the headers that segmentation changes.
struct Layout {
    network: usize,
    transport: usize,
    protocol: u8,
    ipv6: bool,
}

impl Layout {
    fn of(frame: &[u8]) -> Option<Layout> {
        let mut ethertype_at = 12;
        // At most four tags, to bound the loop.
        for _ in 0..=4 {
            let network = ethertype_at + 2;
            match get_u16(frame, ethertype_at)? {
                ethertype::VLAN | ethertype::SERVICE_VLAN => ethertype_at += 4,
                ethertype::IPV4 => {
                    let words = frame.get(network)? & 0xf;
                    if words < 5 {
                        return None;
                    }
                    return Some(Layout {
                        network,
                        transport: network + usize::from(words) * 4,
                        protocol: *frame.get(network + 9)?,
                        ipv6: false,
                    });
                }
                ethertype::IPV6 => return Layout::of_ipv6(frame, network),
                _ => return None,
            }
        }
        None
    }

    fn of_ipv6(frame: &[u8], network: usize) -> Option<Layout> {
        let mut protocol = *frame.get(network + 6)?;
        let mut transport = network + 40;
        // Hop-by-hop, routing and destination options; lengths are in units of 8 bytes beyond the first (RFC
        // 8200 section 4). A fragment header excludes segmentation.
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

    fn carries(&self, kind: GsoKind) -> bool {
        match kind {
            GsoKind::TcpV4 => !self.ipv6 && self.protocol == protocol::TCP,
            GsoKind::TcpV6 => self.ipv6 && self.protocol == protocol::TCP,
            GsoKind::UdpL4 => self.protocol == protocol::UDP,
        }
    }

    fn header_bytes(&self, frame: &[u8], kind: GsoKind) -> Option<usize> {
        transport_end(frame, kind, self.transport)
    }

    /// Writes lengths, ids, sequence number, flags and checksums of one segment.
    fn finish_segment(&self, area: &mut [u8], kind: GsoKind, place: Place) -> Option<()> {
        if self.ipv6 {
            let payload = u16::try_from(area.len().checked_sub(self.network + 40)?).ok()?;
            put_u16(area, self.network + 4, payload)?;
        } else {
            let total = u16::try_from(area.len().checked_sub(self.network)?).ok()?;
            let id = get_u16(area, self.network + 4)?.wrapping_add(place.index as u16);
            put_u16(area, self.network + 2, total)?;
            put_u16(area, self.network + 4, id)?;
            put_u16(area, self.network + 10, 0)?;
            let computed = checksum(area.get(self.network..self.transport)?);
            put_u16(area, self.network + 10, computed)?;
        }
        let length = area.len().checked_sub(self.transport)?;
        let field = match kind {
            GsoKind::TcpV4 | GsoKind::TcpV6 => {
                let at = self.transport + 4;
                let sequence = area.get_mut(at..at + 4)?;
                let advanced = u32::from_be_bytes(sequence.try_into().ok()?);
                sequence.copy_from_slice(&advanced.wrapping_add(place.from).to_be_bytes());
                let flags = area.get_mut(self.transport + 13)?;
                if !place.last {
                    *flags &= !(TCP_FIN | TCP_PSH);
                }
                if !place.first {
                    *flags &= !TCP_CWR;
                }
                self.transport + 16
            }
            GsoKind::UdpL4 => {
                put_u16(area, self.transport + 4, u16::try_from(length).ok()?)?;
                self.transport + usize::from(UDP_CHECKSUM)
            }
        };
        put_u16(area, field, 0)?;
        let segment_sum = sum(area.get(self.transport..)?);
        let computed = !combine(self.pseudo_header_sum(area, length)?, segment_sum);
        let is_udp = self.protocol == protocol::UDP;
        put_u16(area, field, if is_udp { udp_nonzero(computed) } else { computed })
    }

    fn pseudo_header_sum(&self, frame: &[u8], length: usize) -> Option<u16> {
        let addresses = if self.ipv6 {
            self.network + 8..self.network + 40
        } else {
            self.network + 12..self.network + 20
        };
        let numbers = combine(u16::from(self.protocol), u16::try_from(length).ok()?);
        Some(combine(sum(frame.get(addresses)?), numbers))
    }
}

/// Returns the end of the transport header that starts at `start`.
fn transport_end(frame: &[u8], kind: GsoKind, start: usize) -> Option<usize> {
    match kind {
        GsoKind::TcpV4 | GsoKind::TcpV6 => {
            let words = frame.get(start + 12)? >> 4;
            (words >= 5).then(|| start + usize::from(words) * 4)
        }
        GsoKind::UdpL4 => Some(start + 8),
    }
}

fn get_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) -> Option<()> {
    bytes.get_mut(at..at + 2)?.copy_from_slice(&value.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests;
