//! Front-ends, honest ones and others.

use super::guest::{BASE, MEMORY, USER};
use super::notify::notifier;
use crate::dirty_log::DirtyLog;
use crate::fault::Fault;
use crate::feature::{self, protocol};
use crate::memory::{GuestMemory, Region, RegionPlace};
use crate::message::{Header, Request, RingAddresses};
use crate::queues::VhostRx;
use crate::session::Session;
use crate::shared::Shared;
use ::port::RxQueue;
use packet::{Batch, Pool};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm_memory::Bytes;

fn file(bytes: u64) -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, bytes).unwrap();
    file
}

const PLACE: RegionPlace = RegionPlace { guest: BASE, length: MEMORY, user: USER, offset: 0 };

fn session() -> (Arc<Shared>, Session) {
    let shared = Arc::new(Shared::new(1522).unwrap());
    (Arc::clone(&shared), Session::new(shared, notifier(), feature::OFFERED))
}

/// Starts a ring.
fn start(session: &mut Session, ring: u32) -> Result<(), Fault> {
    let event = || eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let at = USER + 0x1_0000 * u64::from(ring);
    let addresses = RingAddresses { table: at, driver: at + 0x4000, device: at + 0x8000 };
    for (request, files) in [
        (Request::SetVringNum { ring, entries: 256 }, vec![]),
        (Request::SetVringBase { ring, base: 0 }, vec![]),
        (Request::SetVringAddr { ring, addresses }, vec![]),
        (Request::SetVringCall { ring, has_file: true }, vec![event()]),
        (Request::SetVringKick { ring, has_file: true }, vec![event()]),
        (Request::SetVringEnable { ring, is_enabled: true }, vec![]),
    ] {
        session.execute(request, files)?;
        session.publish();
    }
    Ok(())
}

#[test]
fn a_guest_comes_up_and_goes_down() {
    let (shared, mut session) = session();
    let offered = session.execute(Request::GetFeatures, vec![]).unwrap().unwrap();
    assert_eq!(offered.as_slice(), feature::OFFERED.to_le_bytes());
    session.execute(Request::SetFeatures(feature::PROTOCOL_FEATURES), vec![]).unwrap();
    session.execute(Request::SetProtocolFeatures(protocol::OFFERED), vec![]).unwrap();
    assert!(session.may_want_replies());
    session.execute(Request::SetMemTable(vec![PLACE]), vec![file(MEMORY)]).unwrap();
    start(&mut session, 0).unwrap();
    assert!(!shared.link_up.load(Ordering::Relaxed));
    start(&mut session, 1).unwrap();
    assert!(shared.link_up.load(Ordering::Relaxed));
    assert_eq!((shared.pairs(), shared.ring_for(5).map(|(ring, _)| ring)), (1, Some(0)));
    assert_eq!(shared.status().ring_sizes, [256, 256]);
    // A second pair, of which the guest turns off the first half.
    start(&mut session, 2).unwrap();
    assert_eq!(shared.ring_for(5).map(|(ring, _)| ring), Some(2));
    session.execute(Request::SetVringEnable { ring: 0, is_enabled: false }, vec![]).unwrap();
    assert!(session.publish() && !shared.link_up.load(Ordering::Relaxed));
    assert_eq!(shared.ring_for(0).map(|(ring, _)| ring), Some(2));
    session.execute(Request::SetVringEnable { ring: 0, is_enabled: true }, vec![]).unwrap();
    assert!(session.publish() && shared.link_up.load(Ordering::Relaxed));
    let base = session.execute(Request::GetVringBase { ring: 1 }, vec![]).unwrap().unwrap();
    assert_eq!(base.as_slice(), [1, 0, 0, 0, 0, 0, 0, 0]);
    assert!(session.publish() && !shared.link_up.load(Ordering::Relaxed));
    drop(session);
    assert!(shared.rings.iter().all(|slot| slot.lock().is_none()));
}

#[test]
fn memory_may_change_under_rings_in_use() {
    let (shared, mut session) = session();
    session.execute(Request::SetFeatures(feature::PROTOCOL_FEATURES), vec![]).unwrap();
    session.execute(Request::SetMemTable(vec![PLACE]), vec![file(MEMORY)]).unwrap();
    start(&mut session, 0).unwrap();
    let more = RegionPlace { guest: BASE + MEMORY, user: USER + MEMORY, ..PLACE };
    for _ in 0..2 {
        session.execute(Request::AddMemRegion(more), vec![file(MEMORY)]).unwrap();
    }
    for _ in 0..2 {
        session.execute(Request::RemoveMemRegion(more), vec![]).unwrap();
    }
    assert!(shared.rings[0].lock().is_some());
    // Not away from below them.
    assert!(session.execute(Request::RemoveMemRegion(PLACE), vec![]).is_err());
}

/// Four pairs of rings, in which every entry that the guest sends is the same chain of 256 empty buffers.
#[test]
fn pairs_with_useless_descriptors_share_the_work_of_a_burst() {
    let (shared, mut session) = session();
    session.execute(Request::SetFeatures(feature::PROTOCOL_FEATURES), vec![]).unwrap();
    let memory = file(MEMORY);
    let place = |ring: u64, at: u64| 0x1_0000 * ring + at;
    for ring in [1, 3, 5, 7] {
        for slot in 0..256u64 {
            // Length, flags (NEXT) and next.
            let next = u8::from(slot < 255);
            let bytes = [BASE.to_le_bytes(), [0, 0, 0, 0, next, 0, slot as u8 + next, 0]];
            rustix::io::pwrite(&memory, &bytes.concat(), place(ring, slot * 16)).unwrap();
        }
        rustix::io::pwrite(&memory, &256u16.to_le_bytes(), place(ring, 0x4002)).unwrap();
    }
    let shared_memory = memory.try_clone().unwrap();
    session.execute(Request::SetMemTable(vec![PLACE]), vec![shared_memory]).unwrap();
    (0..8).for_each(|ring| start(&mut session, ring).unwrap());
    let mut rx = VhostRx::new(shared, 0, 1);
    let mut used_in_all = Vec::new();
    for _ in 0..4 {
        rx.receive(&mut Pool::new(4), &mut Batch::new()).unwrap();
        used_in_all.push([1, 3, 5, 7].map(|ring| {
            let mut used = [0; 2];
            rustix::io::pread(&memory, &mut used, place(ring, 0x8002)).unwrap();
            u16::from_le_bytes(used)
        }));
    }
    // 16 chains of 256 descriptors each time.
    assert_eq!(used_in_all, [[16, 0, 0, 0], [16, 16, 0, 0], [16, 16, 16, 0], [16; 4]]);
}

#[test]
fn what_a_front_end_must_not_do_is_a_fault() {
    let region = |change: fn(&mut RegionPlace)| {
        let mut place = PLACE;
        change(&mut place);
        place
    };
    let event = || eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let zeros = || OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
    let table = |place: RegionPlace| (Request::SetMemTable(vec![place]), vec![file(MEMORY)]);
    for (what, (request, files)) in [
        ("a feature that was not offered", (Request::SetFeatures(1 << 33), vec![])),
        ("a protocol feature, likewise", (Request::SetProtocolFeatures(1 << 8), vec![])),
        ("an address that wraps", table(region(|it| it.guest = u64::MAX - 5))),
        ("a front-end's address that wraps", table(region(|it| it.user = u64::MAX - 5))),
        ("an offset that wraps", table(region(|it| it.offset = u64::MAX - 4095))),
        ("a length that wraps", table(region(|it| it.length = u64::MAX))),
        ("an empty region", table(region(|it| it.length = 0))),
        ("a region longer than its file", table(region(|it| it.length += 1))),
        ("a region without a file", (Request::SetMemTable(vec![PLACE]), vec![])),
        (
            "regions that overlap",
            (Request::SetMemTable(vec![PLACE; 2]), vec![file(MEMORY), file(MEMORY)]),
        ),
        ("an eventfd as memory", (Request::SetMemTable(vec![PLACE]), vec![event()])),
        ("a ring of none", (Request::SetVringNum { ring: 0, entries: 0 }, vec![])),
        ("a ring of 65,535", (Request::SetVringNum { ring: 0, entries: 65_535 }, vec![])),
        ("a ring of 65,536", (Request::SetVringNum { ring: 0, entries: 65_536 }, vec![])),
        ("a split ring of 100", (Request::SetVringNum { ring: 0, entries: 100 }, vec![])),
        ("a ring beyond the last", (Request::SetVringBase { ring: 256, base: 0 }, vec![])),
        ("a kick without a file", (Request::SetVringKick { ring: 0, has_file: true }, vec![])),
        ("an MTU of 67", (Request::NetSetMtu(67), vec![])),
        ("a log without a file", (Request::SetLogBase { size: 4096, offset: 0 }, vec![])),
        ("a log in a device", (Request::SetLogBase { size: 4096, offset: 0 }, vec![zeros()])),
        ("a log at an odd place", (Request::SetLogBase { size: 64, offset: 4 }, vec![file(4096)])),
        (
            "a log longer than its file",
            (Request::SetLogBase { size: 8192, offset: 0 }, vec![file(4096)]),
        ),
    ] {
        let (_, mut session) = session();
        assert!(session.execute(request, files).is_err(), "{what}");
    }
    let (_, mut session) = session();
    session.execute(Request::SetFeatures(feature::PROTOCOL_FEATURES), vec![]).unwrap();
    assert!(start(&mut session, 0).is_err(), "rings without memory");
}

#[test]
fn messages_have_their_lengths() {
    let number = [7; 8];
    for (request, payload, expect) in [
        (1, &[][..], Ok(Request::GetFeatures)),
        (2, &number[..], Ok(Request::SetFeatures(0x0707_0707_0707_0707))),
        (2, &number[..7], Err(())),
        (1, &number[..], Err(())),
        (12, &[3, 1, 0, 0, 0, 0, 0, 0], Ok(Request::SetVringKick { ring: 3, has_file: false })),
        (18, &[1, 0, 0, 0, 1, 0, 0, 0], Ok(Request::SetVringEnable { ring: 1, is_enabled: true })),
        (5, &[9, 0, 0, 0, 0, 0, 0, 0], Err(())),
        (22, &[], Err(())),
        (1000, &[], Err(())),
    ] {
        assert_eq!(Request::read(request, payload).map_err(drop), expect, "request {request}");
    }
    for (flags, size, is_valid) in [(1u8, 8u8, true), (9, 0, true), (0, 0, false), (5, 0, false)] {
        let header = [1, 0, 0, 0, flags, 0, 0, 0, size, 0, 0, 0];
        assert_eq!(Header::read(&header).is_ok(), is_valid, "flags {flags}");
    }
    assert!(Header::read(&[1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).is_err());
}

#[test]
fn a_file_that_becomes_shorter_is_told() {
    let file = file(MEMORY);
    let region = Region::map(PLACE, file.try_clone().unwrap()).unwrap();
    let memory = GuestMemory::new(vec![Arc::new(region)]).unwrap();
    let whole = memory.slice(memory.find(BASE, MEMORY as u32).unwrap()).unwrap();
    whole.write_slice(&[5; 100], MEMORY as usize - 100).unwrap();
    assert!(!memory.is_torn());
    ftruncate(&file, 4096).unwrap();
    let mut byte = [9];
    whole.read_slice(&mut byte, MEMORY as usize - 1).unwrap();
    assert_eq!((byte, memory.is_torn()), ([0], true));
    // The rest, too, is the switch's own by now.
    whole.write_slice(&[1; 8192], 0).unwrap();
}

#[test]
fn the_log_has_a_bit_for_each_page() {
    let file = file(4096);
    let log = DirtyLog::map(file.try_clone().unwrap(), 8, 64).unwrap();
    log.mark(0x1000, 1);
    log.mark(0x3fff, 2);
    log.mark(64 * 4096, 4096);
    log.mark(u64::MAX - 10, 100);
    let mut bytes = [0; 24];
    rustix::io::pread(&file, &mut bytes, 0).unwrap();
    assert_eq!(bytes[8..], [0b1_1010, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Any sequence of messages is executed or refused.
    #[test]
    fn any_exchange_is_survived(
        messages in prop::collection::vec(
            (0u32..45, prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..48), 0usize..3),
            0..40),
    ) {
        let (_, mut session) = session();
        for (number, payload, files) in messages {
            let Ok(request) = Request::read(number, &payload) else { continue };
            let files = (0..files).map(|_| file(MEMORY)).collect();
            let _ = session.execute(request, files);
            session.publish();
        }
    }
}
