//! Segments large frames as the kernel does (Linux: `net/ipv4/tcp_offload.c`, `net/ipv4/udp_offload.c`,
//! `net/ipv4/gre_offload.c`).

use super::complete_checksum;
use super::layout::{Layout, TCP_CHECKSUM, UDP_CHECKSUM, get_u16, network_header, put_u16};
use packet::{Checksum, Gso, GsoKind, Offload, Packet, Pool};
use wire::checksum::{checksum, combine, sum, udp_nonzero};
use wire::{ethertype, protocol};

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;
/// The most segments of a frame. TCP sends 64 KB in segments of 48 bytes or more (Linux: `include/net/tcp.h`,
/// `TCP_MIN_SND_MSS`), and UDP at most 128 datagrams (Linux: `include/linux/udp.h`, `UDP_MAX_SEGMENTS`).
const TCP_SEGMENTS: usize = 65_536 / 48;
const UDP_SEGMENTS: usize = 128;

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

/// Segments a packet according to its [`packet::Gso`], with complete checksums: IPv4 ids and sequence numbers
/// advance, FIN and PSH are set only in the last segment and CWR only in the first.
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
    let Some(mut segments) = Segments::of(packet.data(), gso) else { return false };
    while let Some(piece) = segments.next(packet.data(), pool) {
        out(piece);
    }
    true
}

/// Returns whether the frame can be segmented so, and into a bounded number of segments.
pub fn is_segmentable(frame: &[u8], gso: Gso) -> bool {
    Segments::of(frame, gso).is_some()
}

/// Returns whether a frame is longer than `bytes`, or, if it is large, one of its segments is.
#[inline]
pub fn exceeds(packet: &Packet, bytes: usize) -> bool {
    packet.len() > bytes && packet.offload.gso.is_none_or(|gso| longest(packet, gso) > bytes)
}

/// Returns the length of the longest segment of a large frame.
fn longest(packet: &Packet, gso: Gso) -> usize {
    let frame = packet.data();
    let header = Layout::of(frame).and_then(|layout| layout.header_end(frame));
    header.map_or(packet.len(), |header| packet.len().min(header + usize::from(gso.segment_bytes)))
}

/// The segments of a large frame, which are made one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    gso: Gso,
    /// The headers of the packet that is segmented.
    inner: Layout,
    /// The outer headers of a tunnel, of which each segment gets its own.
    outer: Option<Outer>,
    /// The bytes that each segment repeats, and where the last one ends.
    header_bytes: usize,
    end: usize,
    next: usize,
}

impl Segments {
    /// The segments of a TCP or UDP frame; `None` if its headers or their number do not permit it.
    pub fn of(frame: &[u8], gso: Gso) -> Option<Segments> {
        let layout = Layout::of_whole(frame)?;
        Segments::new(frame, gso, layout, None, layout.end(frame)?)
    }

    /// The segments of a frame whose TCP or UDP packet, which begins at `transport`, is within a tunnel or behind
    /// headers that have no length. Of the tunnel nothing is known but these bytes.
    ///
    /// The inner IP header is recognised by its length, which reaches to the frame's end, and an IPv4 header also by
    /// its checksum. Tunnels within tunnels are not recognised: the kernel segments packets before it
    /// encapsulates them again.
    pub(crate) fn of_tunnelled(frame: &[u8], gso: Gso, transport: usize) -> Option<Segments> {
        let inner = inner_layout(frame, transport)?;
        let outer = Outer::of(frame, inner.network)?;
        Segments::new(frame, gso, inner, outer, frame.len())
    }

    fn new(
        frame: &[u8],
        gso: Gso,
        inner: Layout,
        outer: Option<Outer>,
        end: usize,
    ) -> Option<Segments> {
        let header_bytes = inner.header_end(frame)?;
        let payload = end.checked_sub(header_bytes)?;
        let each = usize::from(gso.segment_bytes);
        let most = match gso.kind {
            GsoKind::TcpV4 | GsoKind::TcpV6 => TCP_SEGMENTS,
            GsoKind::UdpL4 => UDP_SEGMENTS,
        };
        let is_possible = each > 0 && payload <= each * most && inner.carries(gso.kind);
        is_possible.then_some(Segments { gso, inner, outer, header_bytes, end, next: 0 })
    }

    /// Makes the next segment of the frame.
    pub fn next(&mut self, frame: &[u8], pool: &mut Pool) -> Option<Packet> {
        let (each, index) = (usize::from(self.gso.segment_bytes), self.next);
        let (header, payload) = frame.get(..self.end)?.split_at_checked(self.header_bytes)?;
        let count = payload.len().div_ceil(each).max(1);
        if index >= count {
            return None;
        }
        self.next = index + 1;
        let part = payload.get(index * each..payload.len().min((index + 1) * each))?;
        let total = header.len() + part.len();
        let mut piece = pool.take_fitting(total);
        let area = piece.receive_area().get_mut(..total)?;
        area[..header.len()].copy_from_slice(header);
        area[header.len()..].copy_from_slice(part);
        let from = index * each;
        let place = Place { index, from: from as u32, last: index + 1 == count };
        self.write_headers(area, place)?;
        piece.set_received(total, Offload { checksum: Checksum::Good, gso: None });
        Some(piece)
    }

    /// Writes lengths, ids, sequence number, flags and checksums of a segment.
    fn write_headers(&self, area: &mut [u8], place: Place) -> Option<()> {
        let inner = &self.inner;
        inner.write_network(area, place.index)?;
        let length = area.len().checked_sub(inner.transport)?;
        let field = match self.gso.kind {
            GsoKind::TcpV4 | GsoKind::TcpV6 => {
                let at = inner.transport + 4;
                let sequence = area.get_mut(at..at + 4)?;
                let advanced = u32::from_be_bytes(sequence.try_into().ok()?);
                sequence.copy_from_slice(&advanced.wrapping_add(place.from).to_be_bytes());
                let flags = area.get_mut(inner.transport + 13)?;
                if !place.last {
                    *flags &= !(TCP_FIN | TCP_PSH);
                }
                if place.index > 0 {
                    *flags &= !TCP_CWR;
                }
                TCP_CHECKSUM
            }
            GsoKind::UdpL4 => {
                put_u16(area, inner.transport + 4, u16::try_from(length).ok()?)?;
                UDP_CHECKSUM
            }
        };
        write_checksum(area, inner, inner.transport + usize::from(field))?;
        self.outer.as_ref().map_or(Some(()), |outer| outer.write(area, place.index))
    }
}

/// The position of a segment in a large frame.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    /// Offset of its payload in the whole payload, in bytes.
    from: u32,
    last: bool,
}

/// The outer headers of a tunnel.
#[derive(Clone, Copy, Debug)]
struct Outer {
    layout: Layout,
    /// Whether UDP or GRE has a checksum.
    has_checksum: bool,
}

impl Outer {
    /// Reads the headers before the inner IP packet, which begins at `inner`. The inner value is `None` if they have
    /// no lengths: MPLS labels or NSH.
    fn of(frame: &[u8], inner: usize) -> Option<Option<Outer>> {
        let (ethertype, network) = network_header(frame)?;
        let layout = match ethertype {
            ethertype::IPV4 => Layout::of_ipv4(frame, network)?,
            ethertype::IPV6 => Layout::of_ipv6(frame, network)?,
            ethertype::MPLS | ethertype::MPLS_MULTICAST | ethertype::NSH => return Some(None),
            _ => return None,
        };
        let (bytes, has_checksum) = match layout.protocol {
            protocol::UDP => (8, get_u16(frame, layout.transport + 6)? != 0),
            // With a sequence number, each segment would need one of its own (RFC 2890).
            protocol::GRE => match get_u16(frame, layout.transport)? {
                flags if flags & GRE_SEQUENCE != 0 => return None,
                flags => (4, flags & GRE_CHECKSUM != 0),
            },
            protocol::IPV4 | protocol::IPV6 => (0, false),
            _ => return None,
        };
        let is_before = layout.transport + bytes <= inner && layout.end(frame)? == frame.len();
        is_before.then_some(Some(Outer { layout, has_checksum }))
    }

    fn write(&self, area: &mut [u8], index: usize) -> Option<()> {
        let at = &self.layout;
        at.write_network(area, index)?;
        let length = area.len().checked_sub(at.transport)?;
        match at.protocol {
            protocol::UDP => {
                put_u16(area, at.transport + 4, u16::try_from(length).ok()?)?;
                let field = at.transport + usize::from(UDP_CHECKSUM);
                if self.has_checksum { write_checksum(area, at, field) } else { Some(()) }
            }
            protocol::GRE if self.has_checksum => {
                put_u16(area, at.transport + 4, 0)?;
                let computed = checksum(area.get(at.transport..)?);
                put_u16(area, at.transport + 4, computed)
            }
            _ => Some(()),
        }
    }
}

/// GRE has a checksum (RFC 2784), or a sequence number (RFC 2890).
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_SEQUENCE: u16 = 0x1000;

/// Computes the checksum of the transport packet, which ends with the frame.
fn write_checksum(area: &mut [u8], layout: &Layout, field: usize) -> Option<()> {
    put_u16(area, field, 0)?;
    let packet = area.get(layout.transport..)?;
    let computed = !combine(layout.pseudo_header_sum(area, packet.len())?, sum(packet));
    let is_udp = layout.protocol == protocol::UDP;
    put_u16(area, field, if is_udp { udp_nonzero(computed) } else { computed })
}

/// Returns the layout of the IP packet whose transport header begins at `transport` and which ends with the frame.
pub(super) fn inner_layout(frame: &[u8], transport: usize) -> Option<Layout> {
    let is_inner = |layout: &Layout| {
        layout.transport == transport
            && layout.end(frame) == Some(frame.len())
            && (layout.ipv6
                || frame.get(layout.network..transport).is_some_and(|it| sum(it) == 0xffff))
    };
    let v4 = (20..=60).step_by(4).filter_map(|bytes| {
        let network = transport.checked_sub(bytes)?;
        Layout::of_ipv4(frame, network).filter(is_inner)
    });
    // Extension headers are multiples of 8 bytes.
    let v6 = (40..=40 + 8 * 8).step_by(8).filter_map(|bytes| {
        let network = transport.checked_sub(bytes)?;
        Layout::of_ipv6(frame, network).filter(is_inner)
    });
    v4.chain(v6).next()
}
