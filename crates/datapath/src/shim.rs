//! Headers between Ethernet and the network layer, or in front of the packet: MPLS labels (RFC 3032) and NSH
//! (RFC 8300). Packets without an Ethernet header are stored here with one of zero addresses
//! ([`Field::PacketType`](flow::Field::PacketType)).

use crate::burst::present;
use crate::observer::Observer;
use crate::step::Step;
use crate::worker::Worker;
use base::limits;
use flow::{Action, DropReason, Field, Frame};
use packet::{Offload, Packet};
use port::offload;
use wire::mpls::ENTRY_LEN;
use wire::nsh::next_protocol;
use wire::{LabelEntry, Nsh, ethertype};

/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;

/// Executes an action that adds or removes such a header. Segmentation and checksums left to a device are
/// done before, since devices do not parse behind these headers. If a frame is segmented, all are taken out
/// of their places and returned in order.
pub(crate) fn carry_out(
    worker: &mut Worker,
    frames: &mut [Frame],
    action: &Action,
    observer: &mut impl Observer,
) -> Vec<Frame> {
    let adds = match action {
        Action::PushMpls { .. } | Action::AddMpls { .. } | Action::PushNsh(_) => true,
        Action::PopMpls { .. } | Action::PopNsh => false,
        _ => return Vec::new(),
    };
    if adds && present(frames).any(|frame| frame.packet.offload.gso.is_some()) {
        let mut all = Vec::with_capacity(frames.len().max(limits::BATCH_SIZE));
        present(frames)
            .for_each(|frame| segment(worker, frame, DropReason::Malformed, &mut all, observer));
        all.iter_mut().for_each(|frame| change(worker, frame, action, observer));
        return all;
    }
    present(frames).for_each(|frame| change(worker, frame, action, observer));
    Vec::new()
}

/// Adds a frame or its segments to `all`. A large frame that cannot be segmented is dropped for `reason`.
pub(crate) fn segment(
    worker: &mut Worker,
    frame: &mut Frame,
    reason: DropReason,
    all: &mut Vec<Frame>,
    observer: &mut impl Observer,
) {
    if frame.packet.offload.gso.is_none() {
        all.push(frame.take());
        return;
    }
    let large = frame.packet.take();
    let Frame { key, layers, connection, received, .. } = &*frame;
    let (layers, connection, received) = (*layers, *connection, *received);
    let place = |packet| Frame { packet, key: key.clone(), layers, connection, received };
    if offload::segment(&large, &mut worker.pool, |packet| all.push(place(packet))) {
        worker.pool.give(large);
    } else {
        worker.refuse(large, reason, observer);
    }
}

fn change(worker: &mut Worker, frame: &mut Frame, action: &Action, observer: &mut impl Observer) {
    let changed = match action {
        Action::PushMpls { ethertype, entry } => push_mpls(worker, frame, *ethertype, *entry),
        Action::AddMpls { ethertype, entry } => add_mpls(worker, frame, *ethertype, *entry),
        Action::PushNsh(header) => push_nsh(worker, frame, header),
        Action::PopMpls { ethertype } => pop_mpls(frame, *ethertype),
        _ => pop_nsh(frame),
    };
    match changed.filter(|()| frame.reread()) {
        Some(()) => observer.note(|| Step::Done(action.clone())),
        None => {
            let adds = !matches!(action, Action::PopMpls { .. } | Action::PopNsh);
            let reason = if adds { DropReason::NoHeadroom } else { DropReason::Malformed };
            worker.refuse(frame.packet.take(), reason, observer);
        }
    }
}

/// Pushes a label behind the Ethernet header and its tags. The connection state is cleared, as in Open
/// vSwitch.
fn push_mpls(
    worker: &mut Worker,
    frame: &mut Frame,
    ethertype: u16,
    entry: LabelEntry,
) -> Option<()> {
    let at = usize::from(frame.layers.l3);
    open(worker, &mut frame.packet, at, ENTRY_LEN)?;
    let bytes = frame.packet.data_mut();
    bytes.get_mut(at - 2..at)?.copy_from_slice(&ethertype.to_be_bytes());
    bytes.get_mut(at..at + ENTRY_LEN)?.copy_from_slice(&entry.0.to_be_bytes());
    frame.clear_ct();
    if frame.key.get(Field::PacketType) != 0 {
        frame.key.set(Field::PacketType, ethertype.into());
    }
    Some(())
}

/// Pushes a label in front of the packet.
fn add_mpls(
    worker: &mut Worker,
    frame: &mut Frame,
    ethertype: u16,
    entry: LabelEntry,
) -> Option<()> {
    if frame.key.get(Field::PacketType) != 0 {
        return push_mpls(worker, frame, ethertype, entry);
    }
    put_in_front(worker, frame, ethertype, &entry.0.to_be_bytes())?;
    frame.clear_ct();
    Some(())
}

/// Makes room in front of a frame for a header and an Ethernet header with zero addresses.
fn put_in_front(
    worker: &mut Worker,
    frame: &mut Frame,
    ethertype: u16,
    header: &[u8],
) -> Option<()> {
    let len = ETHERNET + header.len();
    open(worker, &mut frame.packet, 0, len)?;
    let bytes = frame.packet.data_mut().get_mut(..len)?;
    bytes[ETHERNET - 2..ETHERNET].copy_from_slice(&ethertype.to_be_bytes());
    bytes[ETHERNET..].copy_from_slice(header);
    frame.key.set(Field::PacketType, ethertype.into());
    Some(())
}

/// Pops a label. A packet without one stays as it is.
fn pop_mpls(frame: &mut Frame, behind: u16) -> Option<()> {
    if !frame.key.is_mpls() {
        return Some(());
    }
    let at = usize::from(frame.layers.l3);
    if frame.key.get(Field::PacketType) != 0 {
        if behind == ethertype::TRANSPARENT_ETHERNET {
            frame.key.set(Field::PacketType, 0);
            return frame.packet.remove(0, at + ENTRY_LEN).then_some(());
        }
        frame.key.set(Field::PacketType, behind.into());
    }
    frame.packet.remove(at, ENTRY_LEN).then_some(())?;
    frame.packet.data_mut().get_mut(at - 2..at)?.copy_from_slice(&behind.to_be_bytes());
    Some(())
}

/// Pushes an NSH header in front of the packet. The packet type determines the next protocol.
fn push_nsh(worker: &mut Worker, frame: &mut Frame, header: &[u8]) -> Option<()> {
    let next = match frame.key.get(Field::PacketType) as u16 {
        0 => next_protocol::ETHERNET,
        ethertype::IPV4 => next_protocol::IPV4,
        ethertype::IPV6 => next_protocol::IPV6,
        ethertype::NSH => next_protocol::NSH,
        _ => return None,
    };
    if next == next_protocol::ETHERNET {
        put_in_front(worker, frame, ethertype::NSH, header)?;
    } else {
        open(worker, &mut frame.packet, ETHERNET, header.len())?;
        let bytes = frame.packet.data_mut();
        bytes.get_mut(ETHERNET - 2..ETHERNET)?.copy_from_slice(&ethertype::NSH.to_be_bytes());
        bytes.get_mut(ETHERNET..ETHERNET + header.len())?.copy_from_slice(header);
        frame.key.set(Field::PacketType, ethertype::NSH.into());
    }
    let mut nsh = Nsh::new_checked(frame.packet.data_mut().get_mut(ETHERNET..)?).ok()?;
    nsh.set_next_protocol(next);
    Some(())
}

/// Pops an NSH header. A packet without one stays as it is; one with a malformed header or a next protocol
/// without a packet type is dropped.
fn pop_nsh(frame: &mut Frame) -> Option<()> {
    if frame.key.get(Field::PacketType) != ethertype::NSH.into() {
        return Some(());
    }
    let nsh = Nsh::new_checked(frame.packet.data().get(ETHERNET..)?).ok()?;
    let (next, len) = (nsh.next_protocol(), nsh.header_len());
    let packet_type = match next {
        next_protocol::ETHERNET => {
            frame.key.set(Field::PacketType, 0);
            return frame.packet.remove(0, ETHERNET + len).then_some(());
        }
        next_protocol::IPV4 => ethertype::IPV4,
        next_protocol::IPV6 => ethertype::IPV6,
        next_protocol::NSH => ethertype::NSH,
        _ => return None,
    };
    frame.packet.remove(ETHERNET, len).then_some(())?;
    frame
        .packet
        .data_mut()
        .get_mut(ETHERNET - 2..ETHERNET)?
        .copy_from_slice(&packet_type.to_be_bytes());
    frame.key.set(Field::PacketType, packet_type.into());
    Some(())
}

/// Makes room for `bytes` bytes at `at`, in another buffer if there is no headroom. Completes the checksum
/// first.
fn open(worker: &mut Worker, packet: &mut Packet, at: usize, bytes: usize) -> Option<()> {
    offload::complete_checksum(packet);
    if !packet.insert(at, bytes) {
        let mut roomy = worker.pool.take();
        let total = packet.len() + bytes;
        let parts = packet.data().split_at_checked(at);
        let (Some(area), Some((front, behind))) = (roomy.receive_area().get_mut(..total), parts)
        else {
            worker.pool.give(roomy);
            return None;
        };
        area[..at].copy_from_slice(front);
        area[at + bytes..].copy_from_slice(behind);
        roomy.set_received(total, Offload::default());
        std::mem::swap(packet, &mut roomy);
        worker.pool.give(roomy);
    }
    packet.forget_offload();
    Some(())
}

/// Writes a field of these headers into the bytes. Returns whether the frame has the field.
pub(crate) fn write(frame: &mut Frame, field: Field, new: u128) -> bool {
    if frame.key.is_mpls() {
        let (first, [before, ..]) = (Field::MplsLse0, frame.key.label_stack());
        let mut key = frame.key.clone();
        key.set(field, new);
        let is_of_first =
            matches!(field, Field::MplsLse0 | Field::MplsLabel | Field::MplsTc | Field::MplsTtl);
        // The bottom-of-stack bit cannot be changed.
        let entry = key.get(first) as u32;
        if !is_of_first || LabelEntry(entry).is_bottom() != before.is_bottom() {
            return false;
        }
        let place = frame.l3_mut().get_mut(..ENTRY_LEN);
        return place.map(|place| place.copy_from_slice(&entry.to_be_bytes())).is_some();
    }
    if !frame.key.is_nsh() {
        return false;
    }
    let Ok(mut nsh) = Nsh::new_checked(frame.l3_mut()) else { return false };
    let (flags, ttl) = (nsh.flags(), nsh.ttl());
    let (path, index) = (nsh.service_path(), nsh.service_index());
    let context = match field {
        Field::NshFlags if new <= 3 => return set(|| nsh.set_flags_ttl(new as u8, ttl)),
        Field::NshTtl if new <= 63 => return set(|| nsh.set_flags_ttl(flags, new as u8)),
        Field::NshSpi => return set(|| nsh.set_path(new as u32, index)),
        Field::NshSi => return set(|| nsh.set_path(path, new as u8)),
        Field::NshC1 => 0,
        Field::NshC2 => 1,
        Field::NshC3 => 2,
        Field::NshC4 => 3,
        _ => return false,
    };
    let mut words = nsh.context();
    words[context] = new as u32;
    nsh.md_type() == wire::nsh::MD_TYPE_1 && set(|| nsh.set_context(&words))
}

fn set(write: impl FnOnce()) -> bool {
    write();
    true
}

#[cfg(test)]
mod tests;
