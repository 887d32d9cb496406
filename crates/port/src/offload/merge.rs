//! Merging TCP segments: consecutive segments of one flow leave as one large frame, where the port's device
//! takes large frames. It is the inverse of [`super::segment`], to the byte.
//!
//! The rules are those of the kernel's GRO (Linux: `net/ipv4/tcp_offload.c`, `net/ipv4/af_inet.c`,
//! `net/ipv6/ip6_offload.c`), but for these: IPv4 ids must count up, as they do when the frame is cut again,
//! and only frames without a VLAN tag are merged. Nothing is merged across batches, so no packet waits.
//!
//! The frame's parts stay in the packets' buffers: the first packet has the headers, and of the others only
//! the payload is sent.

use super::layout::{Layout, TCP_CHECKSUM, get_u16, put_u16};
use base::limits::BATCH_SIZE;
use packet::{Checksum, Gso, GsoKind, Offload, Packet};
use wire::checksum::{checksum, combine, sum};
use wire::{ethertype, protocol};

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_ACK: u8 = 0x10;
const TCP_ECE: u8 = 0x40;
/// Where the IP header begins.
const NETWORK: usize = 14;
/// Length of the longest frame that segments are merged into.
const FRAME_BYTES: usize = 65_535;
/// How many flows of a batch are merged at a time.
const FLOWS: usize = 4;
/// No packet.
const NONE: u8 = u8::MAX;

/// Which packets of a batch leave as one frame.
#[derive(Debug)]
pub struct Merge {
    /// The packet whose payload follows that of this one.
    next: [u8; BATCH_SIZE],
    /// How many bytes of this packet do not leave, since another packet's headers stand for its own. Zero for
    /// packets that begin a frame.
    skipped: [u16; BATCH_SIZE],
}

impl Merge {
    /// Finds the packets of a batch that can leave as one frame, and gives the first of them the headers and
    /// the offload state of that frame; its length remains.
    ///
    /// `most` returns the length of the longest frame that the device takes as a segment; it is asked at most
    /// once, when there is something to merge. Longer frames are left as they are, for the device to refuse.
    pub fn of(packets: &mut [Packet], most: impl Fn() -> usize) -> Merge {
        let mut merge = Merge { next: [NONE; BATCH_SIZE], skipped: [0; BATCH_SIZE] };
        if packets.len() < 2 {
            return merge;
        }
        let mut flows = Flows { open: [None; FLOWS], most: None };
        for index in 0..packets.len().min(BATCH_SIZE) {
            flows.add(&mut merge, packets, index, &most);
        }
        for flow in flows.open.into_iter().flatten() {
            flow.finish(packets);
        }
        merge
    }

    /// Returns whether a frame begins with this packet.
    #[inline]
    pub fn begins_frame(&self, index: usize) -> bool {
        self.skipped.get(index) == Some(&0)
    }

    /// Returns the parts of the frame that begins with packet `first`, in order, each with its packet.
    pub fn parts<'a>(
        &'a self,
        packets: &'a [Packet],
        first: usize,
    ) -> impl Iterator<Item = (&'a [u8], &'a Packet)> {
        let mut at = first;
        std::iter::from_fn(move || {
            let packet = packets.get(at)?;
            let part = packet.data().get(usize::from(*self.skipped.get(at)?)..)?;
            at = usize::from(*self.next.get(at)?);
            Some((part, packet))
        })
    }
}

/// The flows that may go on.
struct Flows {
    open: [Option<Flow>; FLOWS],
    most: Option<usize>,
}

impl Flows {
    /// Adds the next packet of the batch to its flow, if it follows, and ends the flow if not.
    fn add(
        &mut self,
        merge: &mut Merge,
        packets: &mut [Packet],
        index: usize,
        most: &impl Fn() -> usize,
    ) {
        let packet = &packets[index];
        let segment = match Segment::of(packet) {
            Frame::Unrelated => return,
            Frame::Other => {
                for flow in self.open.iter_mut().filter_map(Option::take) {
                    flow.finish(packets);
                }
                return;
            }
            Frame::Tcp(segment) => segment,
        };
        let is_own = |flow: &Option<Flow>| {
            flow.is_some_and(|flow| {
                let (first, own) = (packets[flow.first].data(), packet.data());
                flow.segment.is_same_flow(&segment, first, own)
            })
        };
        if let Some(slot) = self.open.iter().position(is_own)
            && let Some(mut flow) = self.open[slot].take()
        {
            if flow.precedes(&segment, packets, index)
                && packet.len() <= *self.most.get_or_insert_with(most)
                && packets[flow.first].len() <= self.most.unwrap_or(0)
                && flow.has_right_checksum(packets)
                && segment.has_right_checksum(packet)
            {
                merge.next[flow.last] = index as u8;
                merge.skipped[index] = segment.header_bytes as u16;
                if flow.append(&segment, index) {
                    self.open[slot] = Some(flow);
                } else {
                    flow.finish(packets);
                }
                return;
            }
            flow.finish(packets);
        }
        if segment.may_begin() {
            let slot = self.open.iter().position(Option::is_none).unwrap_or(0);
            if let Some(flow) = self.open[slot].replace(Flow::of(segment, index)) {
                flow.finish(packets);
            }
        }
    }
}

/// Segments that leave as one frame, and what the next one must be.
#[derive(Clone, Copy)]
struct Flow {
    /// The first segment.
    segment: Segment,
    first: usize,
    last: usize,
    /// The payload of all segments, in bytes.
    payload_bytes: usize,
    segments: u16,
    /// The flags that end the flow, of the last segment.
    end_flags: u8,
    is_checked: bool,
}

impl Flow {
    fn of(segment: Segment, index: usize) -> Flow {
        Flow {
            segment,
            first: index,
            last: index,
            payload_bytes: segment.payload_bytes,
            segments: 1,
            end_flags: 0,
            is_checked: false,
        }
    }

    /// Returns whether `segment`, the packet at `index`, continues the flow, by its headers.
    fn precedes(&self, segment: &Segment, packets: &[Packet], index: usize) -> bool {
        let first = &self.segment;
        segment.is_mergeable
            && segment.payload_bytes <= first.payload_bytes
            && first.header_bytes + self.payload_bytes + segment.payload_bytes <= FRAME_BYTES
            && segment.sequence == first.sequence.wrapping_add(self.payload_bytes as u32)
            && (first.is_v6 || segment.id == first.id.wrapping_add(self.segments))
            && first.has_same_headers(segment, packets[self.first].data(), packets[index].data())
    }

    /// Returns whether the first segment's checksum is right.
    fn has_right_checksum(&mut self, packets: &[Packet]) -> bool {
        self.is_checked = self.is_checked || self.segment.has_right_checksum(&packets[self.first]);
        self.is_checked
    }

    /// Appends a segment. Returns whether another one may follow.
    fn append(&mut self, segment: &Segment, index: usize) -> bool {
        self.last = index;
        self.payload_bytes += segment.payload_bytes;
        self.segments += 1;
        self.end_flags = segment.flags & (TCP_PSH | TCP_FIN);
        self.end_flags == 0 && segment.payload_bytes == self.segment.payload_bytes
    }

    /// Gives the first packet the headers of the whole frame.
    fn finish(&self, packets: &mut [Packet]) {
        if self.segments > 1
            && let Some(packet) = packets.get_mut(self.first)
        {
            let written = self.write_headers(packet.data_mut());
            debug_assert!(written.is_some(), "the headers were read before");
            let segment = &self.segment;
            let kind = if segment.is_v6 { GsoKind::TcpV6 } else { GsoKind::TcpV4 };
            let segment_bytes = segment.payload_bytes as u16;
            packet.offload = Offload {
                checksum: Checksum::Partial,
                gso: Some(Gso { kind, segment_bytes, ecn: false }),
            };
        }
    }

    fn write_headers(&self, frame: &mut [u8]) -> Option<()> {
        let segment = &self.segment;
        let tcp_bytes = segment.header_bytes - segment.transport + self.payload_bytes;
        if segment.is_v6 {
            put_u16(frame, NETWORK + 4, tcp_bytes as u16)?;
        } else {
            put_u16(frame, NETWORK + 2, (tcp_bytes + 20) as u16)?;
            put_u16(frame, NETWORK + 10, 0)?;
            let computed = checksum(frame.get(NETWORK..NETWORK + 20)?);
            put_u16(frame, NETWORK + 10, computed)?;
        }
        *frame.get_mut(segment.transport + 13)? |= self.end_flags;
        let pseudo = segment.layout().pseudo_header_sum(frame, tcp_bytes)?;
        put_u16(frame, segment.transport + usize::from(TCP_CHECKSUM), pseudo)
    }
}

/// What a packet of the batch means for the flows that may go on.
enum Frame {
    Tcp(Segment),
    /// Certainly not of a TCP flow.
    Unrelated,
    /// Possibly of any TCP flow.
    Other,
}

/// A TCP segment's headers.
#[derive(Clone, Copy)]
struct Segment {
    is_v6: bool,
    /// Whether it may be merged with others: its headers are right and say nothing that one frame cannot say.
    is_mergeable: bool,
    /// Where the TCP header begins.
    transport: usize,
    /// Where the payload begins.
    header_bytes: usize,
    payload_bytes: usize,
    sequence: u32,
    /// The id of IPv4.
    id: u16,
    flags: u8,
}

impl Segment {
    fn of(packet: &Packet) -> Frame {
        let frame = packet.data();
        match get_u16(frame, 12) {
            Some(ethertype::IPV4) => Segment::of_v4(packet, frame).unwrap_or(Frame::Other),
            Some(ethertype::IPV6) => Segment::of_v6(packet, frame).unwrap_or(Frame::Other),
            Some(ethertype::ARP) => Frame::Unrelated,
            _ => Frame::Other,
        }
    }

    fn of_v4(packet: &Packet, frame: &[u8]) -> Option<Frame> {
        let header: &[u8; 20] = frame.get(NETWORK..NETWORK + 20)?.try_into().ok()?;
        if header[9] != protocol::TCP {
            return Some(Frame::Unrelated);
        }
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        if header[0] >> 4 != 4 || header[0] & 0xf < 5 || fragment & 0x3fff != 0 {
            return None;
        }
        let transport = NETWORK + usize::from(header[0] & 0xf) * 4;
        // Without options and the reserved flag, and without padding.
        let is_plain = header[0] == 0x45
            && fragment & 0x8000 == 0
            && usize::from(u16::from_be_bytes([header[2], header[3]])) + NETWORK == frame.len()
            && sum(header) == 0xffff;
        let id = u16::from_be_bytes([header[4], header[5]]);
        Segment::of_tcp(packet, frame, transport, is_plain, Some(id))
    }

    fn of_v6(packet: &Packet, frame: &[u8]) -> Option<Frame> {
        let transport = NETWORK + 40;
        match *frame.get(NETWORK + 6)? {
            protocol::TCP => {}
            protocol::UDP | protocol::ICMPV6 => return Some(Frame::Unrelated),
            _ => return None,
        }
        let is_plain = frame.get(NETWORK)? >> 4 == 6
            && usize::from(get_u16(frame, NETWORK + 4)?) + transport == frame.len();
        Segment::of_tcp(packet, frame, transport, is_plain, None)
    }

    /// `id` is that of IPv4.
    fn of_tcp(
        packet: &Packet,
        frame: &[u8],
        transport: usize,
        is_plain: bool,
        id: Option<u16>,
    ) -> Option<Frame> {
        let tcp: &[u8; 20] = frame.get(transport..transport + 20)?.try_into().ok()?;
        let header_bytes = transport + usize::from(tcp[12] >> 4) * 4;
        let payload_bytes = frame.len().saturating_sub(header_bytes);
        let flags = tcp[13];
        let is_mergeable = is_plain
            && packet.offload.gso.is_none()
            && header_bytes >= transport + 20
            && payload_bytes > 0
            && frame.len() <= FRAME_BYTES
            && flags & !(TCP_PSH | TCP_FIN | TCP_ECE) == TCP_ACK;
        Some(Frame::Tcp(Segment {
            is_v6: id.is_none(),
            is_mergeable,
            transport,
            header_bytes,
            payload_bytes,
            sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            id: id.unwrap_or(0),
            flags,
        }))
    }

    /// Returns whether other segments may follow this one in its frame.
    fn may_begin(&self) -> bool {
        self.is_mergeable && self.flags & (TCP_PSH | TCP_FIN) == 0
    }

    /// Returns whether both segments have the same addresses and ports. The segments' frames are parameters.
    fn is_same_flow(&self, other: &Segment, own: &[u8], others: &[u8]) -> bool {
        let addresses = if self.is_v6 { 22..54 } else { 26..34 };
        let ports = |transport: usize| transport..transport + 4;
        self.is_v6 == other.is_v6
            && own.get(addresses.clone()) == others.get(addresses)
            && own.get(ports(self.transport)) == others.get(ports(other.transport))
    }

    /// Returns whether all header fields agree that are the same in each segment of a large frame. The frames
    /// of both segments, which are of one flow and mergeable, are parameters.
    fn has_same_headers(&self, other: &Segment, own: &[u8], others: &[u8]) -> bool {
        let same = |from: usize, to: usize| own.get(from..to) == others.get(from..to);
        let network = if self.is_v6 {
            // Ethernet, version, traffic class and flow label; hop limit.
            same(0, 18) && same(20, 22)
        } else {
            // Ethernet, version and TOS; flags, TTL and protocol.
            same(0, 16) && same(20, 24)
        };
        let tcp = self.transport;
        network
            && self.header_bytes == other.header_bytes
            // Acknowledgement and the reserved bits; window; urgent pointer and options.
            && same(tcp + 8, tcp + 13)
            && (self.flags ^ other.flags) & !(TCP_PSH | TCP_FIN) == 0
            && same(tcp + 14, tcp + 16)
            && same(tcp + 18, self.header_bytes)
    }

    /// Returns whether the checksum is right, or still to be computed.
    fn has_right_checksum(&self, packet: &Packet) -> bool {
        packet.offload.checksum != Checksum::Unverified
            || self.verifies(packet.data()) == Some(true)
    }

    fn verifies(&self, frame: &[u8]) -> Option<bool> {
        let tcp = frame.get(self.transport..)?;
        let pseudo = self.layout().pseudo_header_sum(frame, tcp.len())?;
        Some(combine(pseudo, sum(tcp)) == 0xffff)
    }

    fn layout(&self) -> Layout {
        let (transport, ipv6) = (self.transport, self.is_v6);
        Layout { network: NETWORK, transport, protocol: protocol::TCP, ipv6 }
    }
}

#[cfg(test)]
mod tests;
