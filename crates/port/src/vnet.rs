//! The vnet header: ten bytes before every frame that describe its offload (Linux:
//! `include/uapi/linux/virtio_net.h`, in native byte order on these interfaces).

mod backlog;
#[cfg(test)]
mod tests;

pub use backlog::Backlog;

use crate::offload::{self, Segments};
use packet::{Checksum, Gso, GsoKind, Packet};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 10;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// What the datapath gets of a received frame.
#[derive(Debug)]
pub enum Received {
    /// The frame itself.
    Whole,
    /// Its segments, in its stead: the datapath does not know this segmentation.
    Segments(Segments),
}

/// Takes over the offload that the header of a received frame describes. `inserted` bytes were put in front of the
/// network header since. Returns `None` for a frame whose segmentation the switch does not support (the kernel's old
/// UDP fragmentation), or whose header contradicts it.
///
/// A sender writes any start and offset of a checksum into the header. Those that are not the transport header's are
/// completed here, so that the rules see the bytes that leave the switch.
#[must_use]
pub fn decode(
    header: &[u8; HEADER_BYTES],
    inserted: usize,
    packet: &mut Packet,
) -> Option<Received> {
    let [flags, gso_type, _, _, size0, size1, start0, start1, offset0, offset1] = *header;
    let needs_checksum = flags & NEEDS_CSUM != 0;
    let start = usize::from(u16::from_ne_bytes([start0, start1])) + inserted;
    let offset = usize::from(u16::from_ne_bytes([offset0, offset1]));
    packet.forget_offload();
    if !needs_checksum && flags & DATA_VALID != 0 {
        packet.offload.checksum = Checksum::Good;
    }
    if gso_type == GSO_NONE {
        let is_whole = !needs_checksum || offload::state_partial(packet, start, offset);
        return is_whole.then_some(Received::Whole);
    }
    let kind = match gso_type & !GSO_ECN {
        GSO_TCPV4 => GsoKind::TcpV4,
        GSO_TCPV6 => GsoKind::TcpV6,
        GSO_UDP_L4 => GsoKind::UdpL4,
        _ => return None,
    };
    let segment_bytes = u16::from_ne_bytes([size0, size1]);
    let gso = Gso { kind, segment_bytes, ecn: gso_type & GSO_ECN != 0 };
    let place = offload::partial_place(packet.data());
    let is_outermost = place.is_some_and(|(at, _, _)| usize::from(at) == start);
    if needs_checksum && !is_outermost {
        // The kernel passes a packet in a tunnel as if it were plain: only the checksum's start says where it is
        // (Linux: `include/linux/virtio_net.h`, `virtio_net_hdr_from_skb`).
        return Segments::of_tunnelled(packet.data(), gso, start).map(Received::Segments);
    }
    // The header's length field is only a hint, which the kernel sets to the linear part of its buffer.
    let is_its_checksum = place.is_some_and(|(_, at, _)| usize::from(at) == offset);
    if (needs_checksum && !is_its_checksum) || !offload::is_segmentable(packet.data(), gso) {
        return None;
    }
    packet.offload.gso = Some(gso);
    if needs_checksum {
        packet.offload.checksum = Checksum::Partial;
    }
    Some(Received::Whole)
}

/// Returns the header for a frame with its offload. The frame may end before its payload.
pub fn encode(packet: &Packet) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let offload = packet.offload;
    let is_partial = match offload.checksum {
        Checksum::Unverified => false,
        Checksum::Good => {
            header[0] = DATA_VALID;
            false
        }
        Checksum::Partial => true,
    };
    if !is_partial && offload.gso.is_none() {
        return header;
    }
    // A frame without these headers has neither, or is refused by the kernel for its length.
    let Some((start, offset, end)) = offload::partial_place(packet.data()) else { return header };
    if is_partial {
        header[0] = NEEDS_CSUM;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
    }
    if let Some(gso) = offload.gso {
        header[1] = match gso.kind {
            GsoKind::TcpV4 => GSO_TCPV4,
            GsoKind::TcpV6 => GSO_TCPV6,
            GsoKind::UdpL4 => GSO_UDP_L4,
        };
        if gso.ecn {
            header[1] |= GSO_ECN;
        }
        header[2..4].copy_from_slice(&end.to_ne_bytes());
        header[4..6].copy_from_slice(&gso.segment_bytes.to_ne_bytes());
    }
    header
}
