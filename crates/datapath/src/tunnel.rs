//! Tunnels: adds and removes outer headers.

use crate::burst::PathTrace;
use crate::observer::Observer;
use crate::outbox::Outbox;
use crate::outer::Seen;
use crate::path_mtu;
use crate::shim;
use crate::step::Step;
use crate::worker::Worker;
use base::{Instant, PortNo};
use flow::{
    Action, DropReason, Field, FlowKey, Frame, Headers, TUN_CSUM, TUN_KEY, TUN_OAM, TunnelEnd,
    TunnelPush,
};
use packet::{Checksum, Offload, Packet};
use port::offload;
use std::net::IpAddr;
use std::sync::Arc;
use tunnel::{Envelope, Inner, Metadata, PopError};
use wire::ethertype;

/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;

/// Encapsulates frames in their places. If a frame becomes several, all are taken out of their places and
/// returned in order: frames larger than the wire permits are segmented before encapsulation, since a device
/// would segment only behind the outer headers, and outer packets too large for the underlay are fragmented.
pub(crate) fn push(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    to: &Arc<TunnelPush>,
    observer: &mut impl Observer,
) -> Vec<Frame> {
    let fragments = to.may_fragment();
    let is_one = |frame: &Frame| {
        let packet = &frame.packet;
        packet.offload.gso.is_none() && !(fragments && path_mtu::exceeds(packet, to))
    };
    if frames.iter().all(is_one) {
        frames.iter_mut().for_each(|frame| push_one(worker, now, frame, to, observer));
        return Vec::new();
    }
    let mut all = Vec::with_capacity(frames.len());
    for frame in frames.iter_mut().filter(|frame| !frame.packet.is_empty()) {
        segment(worker, now, frame, to, &mut all, observer);
    }
    all.iter_mut().for_each(|frame| push_one(worker, now, frame, to, observer));
    if fragments {
        all = all
            .into_iter()
            .flat_map(|frame| path_mtu::fragments(worker, frame, to, observer))
            .collect();
    }
    all
}

/// Adds a frame to `all`, or its segments if the tunnel needs packets of their size.
fn segment(
    worker: &mut Worker,
    now: Instant,
    frame: &mut Frame,
    to: &TunnelPush,
    all: &mut Vec<Frame>,
    observer: &mut impl Observer,
) {
    if frame.packet.offload.gso.is_none() {
        all.push(frame.take());
        return;
    }
    if !to.may_fragment() && path_mtu::exceeds(&frame.packet, to) {
        return path_mtu::refuse(worker, now, frame.packet.take(), to, observer);
    }
    shim::segment(worker, frame, DropReason::TunnelPush, all, observer);
}

fn push_one(
    worker: &mut Worker,
    now: Instant,
    frame: &mut Frame,
    to: &Arc<TunnelPush>,
    observer: &mut impl Observer,
) {
    if frame.packet.is_empty() {
        return;
    }
    if path_mtu::exceeds(&frame.packet, to) && !to.may_fragment() {
        return path_mtu::refuse(worker, now, frame.packet.take(), to, observer);
    }
    if encapsulate(worker, now, frame, to).is_some() {
        observer.note(|| Step::Done(Action::TunnelPush(Arc::clone(to))));
    } else {
        worker.refuse(frame.packet.take(), DropReason::TunnelPush, observer);
    }
}

/// `None` if the packet gets too long.
fn encapsulate(
    worker: &mut Worker,
    now: Instant,
    frame: &mut Frame,
    to: &TunnelPush,
) -> Option<()> {
    let source_port = key_source_port(&frame.key, to);
    put_in_front(worker, now, frame, to, source_port)?;
    let mark = frame.key.pkt_mark();
    frame.read_again(to.out_port).then_some(())?;
    frame.key.set_pkt_mark(mark);
    Some(())
}

/// Puts the outer headers in front of the bytes; the key and the parsed layers are wrong afterwards.
#[inline]
fn put_in_front(
    worker: &mut Worker,
    now: Instant,
    frame: &mut Frame,
    to: &TunnelPush,
    source_port: u16,
) -> Option<()> {
    offload::complete_checksum(&mut frame.packet);
    if to.strips_ethernet && !frame.packet.remove(0, usize::from(frame.layers.l3)) {
        return None;
    }
    let header = &to.header;
    if !frame.packet.prepend(header) {
        make_room(worker, &mut frame.packet, header)?;
    }
    let bytes = frame.packet.data_mut();
    tunnel::finish(bytes, to.kind, source_port, &to.sequence, now)?;
    frame.packet.forget_offload();
    Some(())
}

/// Encapsulates and sends packets of a cached path. As [`push`], but without parsing the outer headers, since
/// no action reads them. Packets with keys have other addresses or ports than in their headers.
pub(crate) fn push_known(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    headers: &[Headers],
    (to, port, has_keys): (&Arc<TunnelPush>, PortNo, bool),
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    let mut sent = 0;
    for (at, headers) in (0..frames.len()).zip(headers) {
        let frame = &mut frames[at];
        if frame.packet.offload.gso.is_some() || path_mtu::exceeds(&frame.packet, to) {
            if !has_keys {
                headers.write_key(&mut frame.key);
            }
            let mut cut = push(worker, now, std::slice::from_mut(frame), to, observer);
            send(&mut frames[sent..at], port, out);
            let pieces = cut.iter().filter(|frame| !frame.packet.is_empty());
            pieces.for_each(|_| observer.note(|| Step::Output(port)));
            send(&mut cut, port, out);
            sent = at + 1;
            continue;
        }
        let source_port = match has_keys {
            true => key_source_port(&frame.key, to),
            false => {
                let (addresses, ports) = (headers.key_addresses(), headers.key_ports());
                to.source_port(addresses, ports, headers.protocol())
            }
        };
        if put_in_front(worker, now, frame, to, source_port).is_some() {
            observer.note(|| Step::Done(Action::TunnelPush(Arc::clone(to))));
            observer.note(|| Step::Output(port));
        } else {
            worker.refuse(frame.packet.take(), DropReason::TunnelPush, observer);
        }
    }
    send(&mut frames[sent..], port, out);
}

fn send(frames: &mut [Frame], port: PortNo, out: &mut Outbox) {
    let packets = frames.iter_mut().map(|frame| &mut frame.packet);
    out.extend(port, packets.filter(|packet| !packet.is_empty()));
}

/// Moves the packet to another buffer, with a header in front of it.
fn make_room(worker: &mut Worker, packet: &mut Packet, header: &[u8]) -> Option<()> {
    let mut roomy = worker.pool.take();
    let total = header.len() + packet.len();
    let Some(area) = roomy.receive_area().get_mut(..total) else {
        worker.pool.give(roomy);
        return None;
    };
    let (front, behind) = area.split_at_mut(header.len());
    front.copy_from_slice(header);
    behind.copy_from_slice(packet.data());
    roomy.set_received(total, Offload::default());
    std::mem::swap(packet, &mut roomy);
    worker.pool.give(roomy);
    Some(())
}

/// The UDP source port of a packet's flow, from its key.
fn key_source_port(key: &FlowKey, to: &TunnelPush) -> u16 {
    if key.is_ip() {
        return to.source_port(key.addresses(), key.ports(), key.nw_proto());
    }
    let words = [key.get(Field::EthSrc) as u64, key.get(Field::EthDst) as u64];
    to.source_port_of(words.into_iter().chain([key.eth_type().into()]))
}

/// Decapsulates frames in their places; they then come from the tunnel's port. There is a trace per frame, or
/// none at all.
pub(crate) fn pop(
    worker: &mut Worker,
    frames: &mut [Frame],
    traces: &mut [PathTrace],
    (port, end): (PortNo, TunnelEnd),
    observer: &mut impl Observer,
) {
    for (i, frame) in frames.iter_mut().enumerate().filter(|(_, it)| !it.packet.is_empty()) {
        if frame.packet.offload.gso.is_some() {
            pop_segments(worker, frame, (port, end), observer);
            continue;
        }
        match decapsulate(frame, traces.get_mut(i), port, end) {
            Ok(()) => observer.note(|| Step::Done(Action::TunnelPop { port, end })),
            Err(reason) => worker.refuse(frame.packet.take(), reason, observer),
        }
    }
}

/// Decapsulates the datagrams of a large frame, each of which has a tunnel's header. Takes the frame out of its place.
#[cold]
fn pop_segments(
    worker: &mut Worker,
    frame: &mut Frame,
    (port, end): (PortNo, TunnelEnd),
    observer: &mut impl Observer,
) {
    let mut all = Vec::new();
    shim::segment(worker, frame, DropReason::TunnelPop, &mut all, observer);
    for mut piece in all {
        match decapsulate(&mut piece, None, port, end) {
            Ok(()) => {
                observer.note(|| Step::Done(Action::TunnelPop { port, end }));
                worker.again.push((0, piece));
            }
            Err(reason) => worker.refuse(piece.packet.take(), reason, observer),
        }
    }
}

fn decapsulate(
    frame: &mut Frame,
    trace: Option<&mut PathTrace>,
    port: PortNo,
    tunnel_end: TunnelEnd,
) -> Result<(), DropReason> {
    let data = frame.packet.data();
    let kind = tunnel_end.kind;
    let found = tunnel::decapsulate(tunnel_end, data, is_trusted(&frame.packet.offload));
    let found = found.map_err(|error| match error {
        PopError::Checksum => DropReason::TunnelChecksum,
        PopError::Malformed | PopError::Payload => DropReason::TunnelPop,
    })?;
    let mut key = FlowKey::new();
    write_metadata(&mut key, &found.metadata);
    key.set_raw_options(found.metadata.options);
    let (header_len, end, inner) = (found.header_len, found.end, found.inner);
    // An envelope is read as if the outer headers had neither tags nor IP options nor extension headers.
    let transport = frame.layers.l3 + if frame.key.eth_type() == ethertype::IPV6 { 40 } else { 20 };
    let is_plain = frame.layers.l4 == Some(transport);
    let is_read = |it: &Envelope<'_>| it.len == header_len && inner == Inner::Frame && is_plain;
    let envelope = trace.as_ref().and_then(|_| Envelope::read(kind, data)).filter(is_read);
    let seen = envelope.and_then(|it| Seen::new(kind, port, &it));
    let is_cut = cut(&mut frame.packet, header_len, end);
    if let Inner::Packet(kind) = inner {
        key.set(Field::PacketType, kind.into());
        is_cut
            .then(|| frame.packet.insert(0, ETHERNET))
            .filter(|it| *it)
            .ok_or(DropReason::TunnelPop)?;
        if let Some(place) = frame.packet.data_mut().get_mut(ETHERNET - 2..ETHERNET) {
            place.copy_from_slice(&kind.to_be_bytes());
        }
    }
    let mark = frame.key.pkt_mark();
    if !is_cut || !frame.read_again(port) {
        return Err(DropReason::TunnelPop);
    }
    frame.key.copy_tunnel(&key);
    frame.key.set(Field::PacketType, key.get(Field::PacketType));
    frame.key.set_pkt_mark(mark);
    if let Some(trace) = trace {
        trace.opened(frame, seen);
    }
    Ok(())
}

/// Whether checksums need no verification: those left to the device by the sender are incomplete, and the
/// packet was never on a wire.
pub(crate) fn is_trusted(offload: &Offload) -> bool {
    !matches!(offload.checksum, Checksum::Unverified) || offload.gso.is_some()
}

/// Removes the outer headers, and padding behind the inner packet's end.
#[inline]
pub(crate) fn cut(packet: &mut Packet, header_len: usize, end: usize) -> bool {
    packet.truncate(end);
    // The state was that of the outer checksum.
    packet.forget_offload();
    packet.remove(0, header_len)
}

/// Writes the tunnel metadata of the outer headers into the key.
fn write_metadata(key: &mut FlowKey, metadata: &Metadata<'_>) {
    let bits = |ip| match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
    let flags = flag(metadata.key.is_some(), TUN_KEY)
        | flag(metadata.checksum, TUN_CSUM)
        | flag(metadata.oam, TUN_OAM);
    let (policy, group) = metadata.group;
    let (version, index, direction, hardware) = metadata.erspan;
    let (gtpu_flags, gtpu_kind) = metadata.gtpu;
    for (field, value) in [
        (Field::TunIpv6Src, bits(metadata.source)),
        (Field::TunIpv6Dst, bits(metadata.destination)),
        (Field::TunId, metadata.key.unwrap_or(0).into()),
        (Field::TunFlags, flags.into()),
        (Field::TunTos, metadata.tos.into()),
        (Field::TunTtl, metadata.ttl.into()),
        (Field::TunGbpId, group.into()),
        (Field::TunGbpFlags, policy.into()),
        (Field::TunErspanVer, version.into()),
        (Field::TunErspanIdx, index.into()),
        (Field::TunErspanDir, direction.into()),
        (Field::TunErspanHwid, hardware.into()),
        (Field::TunGtpuFlags, gtpu_flags.into()),
        (Field::TunGtpuMsgtype, gtpu_kind.into()),
    ] {
        if value != 0 {
            key.set(field, value);
        }
    }
}
