//! The header of each packet in a ring (VIRTIO 1.2 section 5.1.6): the vnet header of the kernel's devices, and the
//! number of buffers.

use crate::feature;
use ::port::vnet::{self, Received};
use packet::{Checksum, GsoKind, Offload, Packet};

/// Bytes of the longest header.
pub const HEADER_MAX: usize = 12;
/// Where the number of buffers is.
const BUFFERS: usize = vnet::HEADER_BYTES;
/// Flags: the switch computes the checksum; the checksum is right.
const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;

/// A header.
pub type Header = [u8; HEADER_MAX];

/// Returns the length of headers with these features: without the last field, it is that of old guests.
pub fn length(features: u64) -> usize {
    if features & (feature::VERSION_1 | feature::MRG_RXBUF) != 0 { HEADER_MAX } else { BUFFERS }
}

/// Whether a guest with these features may leave work on its packets to the switch.
pub fn may_leave_work(features: u64) -> bool {
    features & feature::CSUM != 0
}

/// Takes over the offload that a guest wants for its frame. Returns `None` if it contradicts the frame, or is a
/// segmentation that was not offered.
pub fn decode(header: &Header, packet: &mut Packet) -> Option<Received> {
    let mut header = *header.first_chunk()?;
    // A guest cannot know that a checksum is good: that is the device's to say.
    header[0] &= NEEDS_CSUM;
    vnet::decode(&header, 0, packet)
}

/// Returns the header for a packet in a number of buffers. The guest must support the offload.
pub fn encode(features: u64, packet: &Packet, buffers: u16) -> Header {
    let mut header = [0; HEADER_MAX];
    header[..BUFFERS].copy_from_slice(&vnet::encode(packet));
    header[BUFFERS..].copy_from_slice(&buffers.to_le_bytes());
    if features & feature::GUEST_CSUM == 0 {
        header[0] &= !DATA_VALID;
    }
    header
}

/// Whether a guest with these features takes a packet with this offload as it is.
pub fn is_taken(features: u64, offload: &Offload) -> bool {
    let has = |wanted: u64| features & wanted == wanted;
    let is_partial = offload.checksum == Checksum::Partial;
    if is_partial && !has(feature::GUEST_CSUM) {
        return false;
    }
    let Some(gso) = offload.gso else { return true };
    let takes_kind = match gso.kind {
        GsoKind::TcpV4 => has(feature::GUEST_TSO4),
        GsoKind::TcpV6 => has(feature::GUEST_TSO6),
        GsoKind::UdpL4 => has(feature::GUEST_USO4 | feature::GUEST_USO6),
    };
    takes_kind && is_partial && (!gso.ecn || has(feature::GUEST_ECN))
}
