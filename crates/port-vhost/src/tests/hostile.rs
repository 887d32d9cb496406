//! Guests that break virtio's rules.

use super::guest::{BASE, BUFFERS, Guest, MEMORY};
use crate::chain::{DESCRIPTORS_MAX, INDIRECT, NEXT, WRITE};
use crate::counters::Burst;
use crate::fault::RingFault;
use crate::feature;
use crate::ring::Sent;
use ::port::vnet::Backlog;
use packet::{Batch, Packet, Pool};
use proptest::prelude::*;

const BUFFER: u64 = BASE + BUFFERS;

/// The number of invalid frames in a ring of 8 entries that `prepare` filled.
fn receive(features: u64, prepare: impl FnOnce(&mut Guest)) -> Result<u64, RingFault> {
    let mut guest = Guest::new(features, 8);
    let mut ring = guest.ring();
    prepare(&mut guest);
    let (mut pool, mut batch, mut backlog) = (Pool::new(8), Batch::new(), Backlog::default());
    let got = ring.receive(&mut pool, &mut batch, &mut backlog, &mut Burst::default());
    got.map(|got| got.errors)
}

#[test]
fn each_wrong_descriptor_of_a_split_ring_is_a_fault() {
    const INDIRECT_DESC: u64 = feature::INDIRECT_DESC;
    // A first descriptor, and what comes of it.
    for (what, features, (address, length, flags, next), expect) in [
        ("outside", 0, (BASE + MEMORY, 60, 0, 0), RingFault::Address(BASE + MEMORY)),
        ("before", 0, (0, 60, 0, 0), RingFault::Address(0)),
        ("across the end", 0, (BASE + MEMORY - 10, 60, 0, 0), RingFault::Address(BASE + MEMORY)),
        ("wraps", 0, (u64::MAX - 5, 60, 0, 0), RingFault::Address(u64::MAX - 5)),
        ("to be written", 0, (BUFFER, 60, WRITE, 0), RingFault::Direction),
        ("next outside", 0, (BUFFER, 60, NEXT, 8), RingFault::Descriptor(8)),
        ("next far outside", 0, (BUFFER, 60, NEXT, 65_535), RingFault::Descriptor(65_535)),
        ("a cycle", 0, (BUFFER, 60, NEXT, 0), RingFault::Long),
        ("an empty cycle", 0, (BUFFER, 0, NEXT, 0), RingFault::Long),
        ("an indirect table, not negotiated", 0, (BUFFER, 16, INDIRECT, 0), RingFault::Indirect),
        ("an empty table", INDIRECT_DESC, (BUFFER, 0, INDIRECT, 0), RingFault::Indirect),
        ("part of a table", INDIRECT_DESC, (BUFFER, 24, INDIRECT, 0), RingFault::Indirect),
        (
            "a table and a next",
            INDIRECT_DESC,
            (BUFFER, 16, INDIRECT | NEXT, 1),
            RingFault::Indirect,
        ),
        ("a table outside", INDIRECT_DESC, (BASE + MEMORY, 16, INDIRECT, 0), RingFault::Indirect),
        (
            "a table across the end",
            INDIRECT_DESC,
            (BASE + MEMORY - 16, 32, INDIRECT, 0),
            RingFault::Indirect,
        ),
    ] {
        let got = receive(features, |guest| {
            guest.describe(0, address, length, flags, next);
            guest.offer(0);
        });
        assert_eq!(got, Err(expect), "{what}");
    }
    assert_eq!(receive(0, |guest| guest.offer(8)), Err(RingFault::Descriptor(8)));
    let nested = receive(INDIRECT_DESC, |guest| {
        guest.describe(0, BUFFER, 16, INDIRECT, 0);
        guest.describe(BUFFERS, BUFFER, 16, INDIRECT, 0);
        guest.offer(0);
    });
    assert_eq!(nested, Err(RingFault::Indirect), "a table in a table");
}

#[test]
fn indexes_that_jump_are_a_fault() {
    for jump in [9, 60_000, 65_535] {
        let got = receive(0, |guest| guest.set_available(jump));
        assert_eq!(got, Err(RingFault::Index { from: 0, to: jump, size: 8 }));
    }
}

/// The guest that ended switches with DPDK's vhost library: 256 valid buffers of 13 bytes, then the available index
/// is 60,000.
#[test]
fn more_buffers_than_the_ring_has_are_a_fault() {
    for features in [feature::MRG_RXBUF, feature::MRG_RXBUF | feature::VERSION_1] {
        let mut guest = Guest::new(features, 256);
        let mut ring = guest.ring();
        for buffer in 0..256 {
            guest.post(&[(BUFFER + buffer * 16, 13, true)], false);
        }
        let frames: Vec<Packet> = (0..32).map(|_| Packet::from_bytes(&[0; 1500])).collect();
        assert_eq!(ring.send(&[], &mut Burst::default()), Ok(Sent::default()));
        // 117 buffers for each frame: the third does not fit any more.
        assert_eq!(ring.send(&frames, &mut Burst::default()).map(|sent| sent.count), Ok(2));
        guest.set_available(60_000);
        let sent = ring.send(&frames, &mut Burst::default());
        assert!(
            matches!(sent, Ok(Sent { count: 0, .. }) | Err(RingFault::Index { .. })),
            "{sent:?}"
        );
        let sent = ring.send(&frames, &mut Burst::default());
        assert!(
            matches!(sent, Ok(Sent { count: 0, .. }) | Err(RingFault::Index { .. })),
            "{sent:?}"
        );
        for _ in 0..22 {
            guest.reap();
        }
    }
}

#[test]
fn useless_buffers_cost_a_bounded_amount() {
    // Empty chains only: they never make room for a packet.
    let mut guest = Guest::new(feature::MRG_RXBUF, 2048);
    let mut ring = guest.ring();
    for _ in 0..2048 {
        guest.post(&[(BUFFER, 0, true)], false);
    }
    let frames: Vec<Packet> = (0..32).map(|_| Packet::from_bytes(&[0; 60])).collect();
    let sent = ring.send(&frames, &mut Burst::default()).unwrap();
    assert!(sent.count <= 4 && sent.too_long == sent.count as u64, "{sent:?}");
    assert_eq!(guest.reap(), []);
    // Every available entry is the same chain of empty buffers.
    let mut guest = Guest::new(feature::MRG_RXBUF, 1024);
    let mut ring = guest.ring();
    for slot in 0..1024 {
        let next = if slot < 1023 { NEXT } else { 0 };
        guest.describe(slot * 16, BUFFER, 0, WRITE | next, slot as u16 + 1);
        guest.offer(0);
    }
    let sent = ring.send(&frames, &mut Burst::default());
    assert_eq!(sent, Ok(Sent { count: 4, too_long: 4 }), "of 4,096 descriptors");
    // Frames that are too short or too long are errors, and their buffers come back.
    for (length, errors) in [(0, 1), (23, 1), (24, 0), (65_610, 0), (65_611, 1), (1 << 20, 1)] {
        assert_eq!(
            receive(0, |guest| _ = guest.post(&[(BUFFER, length, false)], false)),
            Ok(errors)
        );
    }
    const { assert!(DESCRIPTORS_MAX < 2048) };
}

#[test]
fn wrong_descriptors_of_a_packed_ring_are_a_fault() {
    let packed = feature::RING_PACKED | feature::INDIRECT_DESC;
    let available = 1 << 7;
    for (what, flags, expect) in [
        ("to be written", WRITE, Err(RingFault::Direction)),
        ("a table and more", INDIRECT | NEXT, Err(RingFault::Indirect)),
        ("a table of parts", INDIRECT, Err(RingFault::Indirect)),
        ("not available", 1 << 15, Ok(0)),
    ] {
        let mark = if flags & 1 << 15 != 0 { 0 } else { available };
        let got = receive(packed, |guest| guest.describe(0, BUFFER, 60, flags | mark, 0));
        assert_eq!(got, expect, "{what}");
    }
    let round = receive(packed, |guest| {
        for slot in 0..8 {
            guest.describe(slot * 16, BUFFER, 60, available | NEXT, 0);
        }
    });
    assert_eq!(round, Err(RingFault::Long), "a chain without an end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 2000 }))]

    /// Whatever is in a ring, packets are whole, faults are faults, and nothing else happens.
    #[test]
    fn any_ring_is_survived(
        bits in any::<u8>(),
        table in prop::collection::vec(
            (0u64..0x50_0000, 0u32..0x3000, 0u16..8, 0u16..12, any::<bool>()), 1..16),
        heads in prop::collection::vec(0u16..18, 0..16),
        index in prop_oneof![0u16..20, any::<u16>()],
        sends in any::<bool>(),
    ) {
        let bit = |at: u8, feature: u64| if bits & 1 << at != 0 { feature } else { 0 };
        let is_packed = bits & 1 != 0;
        let features = bit(0, feature::RING_PACKED)
            | bit(1, feature::MRG_RXBUF)
            | bit(2, feature::INDIRECT_DESC)
            | bit(3, feature::EVENT_IDX)
            | bit(4, feature::VERSION_1)
            | bit(5, feature::CSUM);
        let guest = Guest::new(features, 16);
        let mut ring = guest.ring();
        for (slot, (address, length, flags, next, is_wrapped)) in table.iter().enumerate() {
            let marks = match (is_packed, is_wrapped) {
                (false, _) => 0,
                (true, true) => 1 << 15,
                (true, false) => 1 << 7,
            };
            guest.describe(slot as u64 * 16, BASE + address, *length, flags | marks, *next);
        }
        for (slot, head) in heads.iter().enumerate() {
            guest.write_u16(0x8_0000 + 4 + 2 * slot as u64, *head);
        }
        guest.set_available(index);
        let (mut pool, mut burst) = (Pool::new(8), Burst::default());
        for _ in 0..3 {
            if sends {
                let frames: Vec<Packet> =
                    [60, 1514, 9000].map(|length| Packet::from_bytes(&vec![0; length])).into();
                if let Ok(sent) = ring.send(&frames, &mut burst) {
                    prop_assert!(sent.count <= 3 && sent.too_long <= 3);
                }
            } else {
                let mut batch = Batch::new();
                let _ = ring.receive(&mut pool, &mut batch, &mut Backlog::default(), &mut burst);
                for packet in &batch {
                    prop_assert!(packet.len() >= 14);
                }
            }
        }
    }
}
