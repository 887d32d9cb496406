//! A reassembled datagram for tracking, which is split into its fragments again.

use super::piece::Piece;
use flow::{Field, FlowKey, Frame};
use packet::Packet;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{Ipv4, ethertype, ipv4, rewrite};

/// The key fields that tracking writes. IPv4 tuples use the fields of IPv6 tuples.
const TRACKED_FIELDS: [Field; 9] = [
    Field::CtMark,
    Field::CtState,
    Field::CtZone,
    Field::CtLabel,
    Field::CtTpSrc,
    Field::CtTpDst,
    Field::CtNwProto,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
];

/// A datagram with all its fragments.
#[derive(Debug)]
pub struct Whole {
    frame: Frame,
    /// The fragments in order.
    pieces: Vec<Piece>,
    /// The offset in the frame where the fragmented bytes begin.
    data_at: usize,
}

impl Whole {
    /// Reassembles a datagram; `None` if it exceeds IP's lengths.
    ///
    /// The headers are the first fragment's. An IPv6 datagram keeps the fragment header, as an
    /// atomic fragment (RFC 6946).
    pub(super) fn build(pieces: Vec<Piece>) -> Option<Whole> {
        let first = pieces.first()?;
        let (data_at, l3) = (first.place.data_at, usize::from(first.frame.layers.l3));
        let mut bytes = first.frame.packet.data().get(..data_at)?.to_vec();
        for piece in &pieces {
            bytes.extend_from_slice(piece.data());
        }
        let key = &first.frame.key;
        if !complete_headers(bytes.get_mut(l3..)?, key.eth_type(), data_at - l3) {
            return None;
        }
        let mut frame = Frame::parse_as(Packet::from_bytes(&bytes), key).ok()?;
        frame.key.set_recirc_id(key.recirc_id());
        copy_tracking(key, &mut frame.key);
        Some(Whole { frame, pieces, data_at })
    }

    /// The datagram as one frame, for tracking and NAT. Its length must stay.
    pub fn frame_mut(&mut self) -> &mut Frame {
        &mut self.frame
    }

    /// Returns the fragments as received, in order, with the datagram's state and NAT.
    pub fn into_fragments(self) -> impl Iterator<Item = Frame> {
        let Whole { frame: whole, pieces, data_at } = self;
        pieces.into_iter().map(move |piece| {
            let Piece { place, mut frame } = piece;
            rewrite_addresses(&whole, &mut frame);
            let changed = whole.packet.data().get(data_at + place.start..data_at + place.end);
            let end = place.data_at + (place.end - place.start);
            let data = frame.packet.data_mut().get_mut(place.data_at..end);
            if let (Some(data), Some(changed)) = (data, changed) {
                data.copy_from_slice(changed);
            }
            copy_tracking(&whole.key, &mut frame.key);
            frame
        })
    }
}

/// Sets lengths and flags of a first fragment to those of the whole datagram, which `packet` holds
/// from the IP header on. `headers` is the number of bytes before the fragmented ones.
fn complete_headers(packet: &mut [u8], eth_type: u16, headers: usize) -> bool {
    if eth_type == ethertype::IPV4 {
        let Ok(total) = u16::try_from(packet.len()) else { return false };
        let Some(flags) = packet.get(6..8) else { return false };
        let flags = u16::from_be_bytes([flags[0], flags[1]]);
        let Ok(mut ip) = Ipv4::new_quoted(&mut *packet) else { return false };
        ip.set_total_len(total);
        ip.set_fragment_field(flags & !(ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK));
        ip.set_checksum(0);
        let sum = wire::checksum::checksum(ip.header());
        ip.set_checksum(sum);
        return true;
    }
    let Ok(length) = u16::try_from(packet.len() - wire::ipv6::HEADER_LEN) else { return false };
    let offset_at = headers - wire::ipv6::FRAGMENT_HEADER_LEN + 2;
    let Some(offset) = packet.get_mut(offset_at..offset_at + 2) else { return false };
    offset.fill(0);
    let Ok(mut ip) = wire::Ipv6::new_quoted(packet) else { return false };
    ip.set_payload_len(length);
    true
}

/// Rewrites a fragment with the addresses of the whole, and the first one with its ports. The
/// transport checksum is copied from the whole afterwards.
fn rewrite_addresses(whole: &Frame, fragment: &mut Frame) {
    let key = &whole.key;
    let l3 = fragment.l3_mut();
    if key.eth_type() == ethertype::IPV4 {
        let address = |field| Ipv4Addr::from_bits(key.get(field) as u32);
        rewrite::set_ipv4_src(l3, address(Field::Ipv4Src), false);
        rewrite::set_ipv4_dst(l3, address(Field::Ipv4Dst), false);
    } else {
        let address = |field| Ipv6Addr::from_bits(key.get(field));
        rewrite::set_ipv6_src(l3, address(Field::Ipv6Src), false);
        rewrite::set_ipv6_dst(l3, address(Field::Ipv6Dst), false);
    }
    // IPv4 addresses use the fields of IPv6 addresses.
    for field in [Field::Ipv6Src, Field::Ipv6Dst] {
        fragment.key.set(field, key.get(field));
    }
    if fragment.layers.l4.is_some() {
        fragment.key.set_tp_src(key.tp_src());
        fragment.key.set_tp_dst(key.tp_dst());
    }
}

fn copy_tracking(from: &FlowKey, to: &mut FlowKey) {
    for field in TRACKED_FIELDS {
        to.set(field, from.get(field));
    }
}
