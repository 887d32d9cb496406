//! Packets whose outer packet exceeds the MTU of a tunnel's underlay: their senders receive an ICMP error
//! with the MTU inside the tunnel, or the outer packet is fragmented.

use crate::observer::Observer;
use crate::worker::Worker;
use base::Instant;
use flow::{DropReason, Field, Frame, TunnelPush};
use packet::{Offload, Packet, Pool};
use port::offload;
use wire::checksum::checksum;
use wire::{Ipv4, ethernet, ipv4};

/// Fragments but the last carry a multiple of this many bytes (RFC 791).
const FRAGMENT_UNIT: usize = 8;

/// Whether a frame is too large for the tunnel. A frame with GSO is judged by its segments.
#[inline]
pub(crate) fn exceeds(packet: &Packet, to: &TunnelPush) -> bool {
    offload::exceeds(packet, to.frame_max as usize)
}

/// Drops a frame that is too large, and sends an ICMP error to its sender if permitted: as a packet out of
/// the tunnel, from the frame's destination address (as Linux: `net/ipv4/ip_tunnel_core.c`,
/// `iptunnel_pmtud_build_icmp`).
pub(crate) fn refuse(
    worker: &mut Worker,
    now: Instant,
    packet: Packet,
    to: &TunnelPush,
    observer: &mut impl Observer,
) {
    if let Some(answer) = answer(worker, now, &packet, to) {
        worker.again.push((0, answer));
    }
    worker.refuse(packet, DropReason::TunnelTooBig, observer);
}

fn answer(worker: &mut Worker, now: Instant, packet: &Packet, to: &TunnelPush) -> Option<Frame> {
    let mut place = worker.pool.take();
    let len = wire::too_big(packet.data(), to.frame_max, place.receive_area());
    let Some(len) = len.filter(|_| worker.error_limit.allows(now)) else {
        worker.pool.give(place);
        return None;
    };
    place.set_received(len, Offload::default());
    let mut answer = Frame::parse(place, to.port).ok()?;
    answer.key.copy_tunnel(&to.answer);
    answer.key.set(Field::PacketType, to.answer.get(Field::PacketType));
    Some(answer)
}

/// An outer packet, or its fragments.
pub(crate) fn fragments(
    worker: &mut Worker,
    mut frame: Frame,
    to: &TunnelPush,
    observer: &mut impl Observer,
) -> Vec<Frame> {
    let mtu = to.outer_mtu();
    if frame.packet.len() <= ethernet::HEADER_LEN + mtu {
        return vec![frame];
    }
    worker.fragment_id = worker.fragment_id.wrapping_add(1);
    let (key, layers) = (&frame.key, frame.layers);
    let mut pieces = Vec::new();
    let received = frame.received;
    let piece = |packet| Frame { packet, key: key.clone(), layers, connection: None, received };
    let limits = (mtu, worker.fragment_id);
    let packet = frame.packet.take();
    if !fragment(&mut worker.pool, &packet, limits, |packet| pieces.push(piece(packet))) {
        pieces.drain(..).for_each(|piece| worker.pool.give(piece.packet));
        worker.refuse(packet, DropReason::TunnelTooBig, observer);
        return pieces;
    }
    worker.pool.give(packet);
    for piece in &mut pieces {
        let mark = piece.key.pkt_mark();
        if piece.read_again(to.out_port) {
            piece.key.set_pkt_mark(mark);
        }
    }
    pieces
}

/// Splits an outer IPv4 packet into fragments of at most `mtu` bytes (RFC 791 section 3.2). Returns `false`
/// if its header or the MTU do not permit it.
fn fragment(
    pool: &mut Pool,
    packet: &Packet,
    (mtu, id): (usize, u16),
    mut out: impl FnMut(Packet),
) -> bool {
    cut(pool, packet.data(), (mtu, id), &mut out).is_some()
}

fn cut(
    pool: &mut Pool,
    frame: &[u8],
    (mtu, id): (usize, u16),
    out: &mut impl FnMut(Packet),
) -> Option<()> {
    let (ethernet, packet) = frame.split_at_checked(ethernet::HEADER_LEN)?;
    let ip = Ipv4::new_checked(packet).ok()?;
    let (header, payload) = (ip.header(), ip.payload());
    let room = mtu.checked_sub(header.len())? / FRAGMENT_UNIT * FRAGMENT_UNIT;
    if room == 0 {
        return None;
    }
    for (index, part) in payload.chunks(room).enumerate() {
        let mut piece = pool.take();
        let network = ethernet.len();
        let body = network + header.len();
        let area = piece.receive_area().get_mut(..body + part.len())?;
        area[..network].copy_from_slice(ethernet);
        area[network..body].copy_from_slice(header);
        area[body..].copy_from_slice(part);
        let offset = u16::try_from(index * room / FRAGMENT_UNIT).ok()?;
        let is_last = (index + 1) * room >= payload.len();
        let more = if is_last { 0 } else { ipv4::MORE_FRAGMENTS };
        let mut ip = Ipv4::new_quoted(&mut area[network..body]).ok()?;
        ip.set_total_len(u16::try_from(header.len() + part.len()).ok()?);
        ip.set_id(id);
        ip.set_fragment_field(offset | more);
        ip.set_checksum(0);
        let computed = checksum(ip.header());
        ip.set_checksum(computed);
        let len = body + part.len();
        piece.set_received(len, Offload::default());
        out(piece);
    }
    Some(())
}

#[cfg(test)]
mod tests;
