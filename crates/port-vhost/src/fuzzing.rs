//! Entry points for fuzzing: whole rings, and whole exchanges with a front-end.

use crate::areas::Areas;
use crate::counters::Burst;
use crate::feature;
use crate::format::Format;
use crate::memory::{GuestMemory, Region, RegionPlace};
use crate::message::{HEADER_BYTES, Header, Request};
use crate::notifier::Notifier;
use crate::pace::Clocks;
use crate::queues::{VhostRx, VhostTx};
use crate::ring::Ring;
use crate::session::Session;
use crate::shared::Shared;
use ::port::vnet::Backlog;
use ::port::{RxQueue, TxQueue};
use packet::{Batch, Packet, Pool};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::sync::{Arc, LazyLock};
use vm_memory::Bytes;

/// The guest's memory: 64 KiB at both addresses.
const PLACE: RegionPlace = RegionPlace { guest: 0, length: 1 << 16, user: 0, offset: 0 };
/// Where the areas of the ring are.
const AREAS: [u64; 3] = [0, 0x400, 0x800];
/// Features that change rings, by the bits of the first byte.
const FEATURES: [u64; 8] = [
    feature::RING_PACKED,
    feature::MRG_RXBUF,
    feature::INDIRECT_DESC,
    feature::EVENT_IDX,
    feature::VERSION_1,
    feature::CSUM,
    feature::GUEST_CSUM,
    feature::GUEST_TSO4,
];

/// A ring with any contents, which change between bursts. The first byte chooses the features, the second the
/// direction and the size; then pieces of memory follow, each with its length and its place.
pub fn ring(bytes: &[u8]) {
    let Some(([bits, choice], mut pieces)) = bytes.split_first_chunk() else { return };
    let chosen = FEATURES.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0);
    let features = chosen.fold(0, |all, (_, feature)| all | feature);
    let size = 1 << (choice & 7).min(6);
    let memory = GuestMemory::new(vec![Arc::new(Region::anonymous(PLACE))]);
    let memory = Arc::new(memory.expect("one region"));
    let [table, driver, device] = Format::lengths(features, size);
    let find = |at: usize, length| memory.find(AREAS[at], length).expect("within the memory");
    let areas = Areas { table: find(0, table), driver: find(1, driver), device: find(2, device) };
    let base = if bits & 1 != 0 { 0x8000_8000 } else { 0 };
    let ring = Ring::new(features, size, base, areas, Arc::clone(&memory));
    let mut ring = ring.expect("a ring in the memory");
    let all = memory.slice(memory.find(0, 1 << 16).expect("the memory")).expect("the memory");
    let (mut pool, mut backlog, mut burst) = (Pool::new(4), Backlog::default(), Burst::default());
    while let Some(([length, low, high], rest)) = pieces.split_first_chunk() {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        pieces = rest;
        let at = usize::from(u16::from_le_bytes([*low, *high]));
        // What does not fit is left out.
        let _ = all.write(piece, at);
        if choice & 8 == 0 {
            let mut batch = Batch::new();
            let _ = ring.receive(&mut pool, &mut batch, &mut backlog, &mut burst);
            batch.iter().for_each(check_packet);
        } else {
            let frames = [14, 60, 1514, 9014].map(|length| Packet::from_bytes(&vec![1; length]));
            if let Ok(sent) = ring.send(&frames, &mut burst) {
                assert!(sent.count <= frames.len() && sent.too_long <= sent.count as u64);
            }
        }
    }
}

/// Messages of a front-end, each with a byte for its descriptors before it; packets pass after each.
pub fn exchange(mut bytes: &[u8]) {
    let Ok(shared) = Shared::new(1522) else { return };
    let shared = Arc::new(shared);
    // One for all inputs, since the kernel takes a while to end it.
    static NOTIFIER: LazyLock<Arc<Notifier>> =
        LazyLock::new(|| Arc::new(notifier().expect("asynchronous I/O")));
    let notifier = Arc::clone(&NOTIFIER);
    let mut session = Session::new(Arc::clone(&shared), notifier, feature::OFFERED);
    let mut rx = VhostRx::new(Arc::clone(&shared), 0, 1);
    let mut tx = VhostTx::new(Arc::clone(&shared), 0, 1);
    let mut pool = Pool::new(4);
    while let Some((kind, rest)) = bytes.split_first() {
        let Some((header, rest)) = rest.split_first_chunk::<HEADER_BYTES>() else { break };
        let Ok(header) = Header::read(header) else { break };
        let (payload, rest) = rest.split_at(rest.len().min(header.size));
        bytes = rest;
        let Ok(request) = Request::read(header.request, payload) else { break };
        let files = (0..kind & 3).filter_map(|_| file(kind & 4 != 0)).collect();
        if session.execute(request, files).is_err() {
            break;
        }
        session.publish();
        let mut batch = Batch::new();
        let _ = rx.receive(&mut pool, &mut batch);
        batch.iter().for_each(check_packet);
        batch.push(Packet::from_bytes(&[1; 60]));
        let _ = tx.send(&mut pool, &mut batch);
    }
    drop(session);
    assert!(shared.rings.iter().all(|slot| slot.lock().is_none()), "a ring outlives its session");
}

/// A notifier whose time stands still.
fn notifier() -> std::io::Result<Notifier> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    Notifier::new(wake, Clocks::STILL)
}

/// Memory, or an eventfd.
fn file(is_event: bool) -> Option<OwnedFd> {
    if is_event {
        return eventfd(0, EventfdFlags::CLOEXEC).ok();
    }
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).ok()?;
    ftruncate(&file, PLACE.length).ok()?;
    Some(file)
}

fn check_packet(packet: &Packet) {
    assert!(packet.len() >= 14);
    if packet.offload.checksum == packet::Checksum::Partial {
        assert!(::port::offload::is_whole(packet.data()));
    }
}
