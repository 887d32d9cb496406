mod guest;
mod hostile;
mod notify;
mod protocol;

use crate::counters::Burst;
use crate::feature;
use crate::header;
use ::port::vnet::{Backlog, Received};
use guest::{BASE, BUFFERS, Guest};
use packet::{Batch, Checksum, Gso, GsoKind, Offload, Packet, Pool};

/// Every combination of features that changes the rings.
fn variants() -> impl Iterator<Item = u64> {
    let bits = [
        feature::RING_PACKED,
        feature::MRG_RXBUF,
        feature::INDIRECT_DESC,
        feature::EVENT_IDX,
        feature::VERSION_1,
    ];
    (0..1u32 << bits.len()).map(move |choice| {
        let chosen = bits.iter().enumerate().filter(|(at, _)| choice & 1 << at != 0);
        chosen.fold(feature::CSUM | feature::GUEST_CSUM, |all, (_, bit)| all | bit)
    })
}

fn frame(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + number) as u8 & 0xfe).collect()
}

/// Lengths of frames: the shortest, ordinary ones, and the longest.
const LENGTHS: [usize; 6] = [14, 60, 61, 1514, 9014, 65_000];

#[test]
fn frames_of_a_guest_arrive_whole_and_in_order() {
    for features in variants() {
        let mut guest = Guest::new(features, 8);
        let (mut ring, mut pool, mut burst) = (guest.ring(), Pool::new(8), Burst::default());
        let indirect = features & feature::INDIRECT_DESC != 0;
        let header_bytes = header::length(features);
        for number in 0..60 {
            let bytes = frame(number, LENGTHS[number % LENGTHS.len()]);
            let mut whole = vec![0; header_bytes];
            whole.extend_from_slice(&bytes);
            guest.write(BUFFERS, &whole);
            // Divided at any place, also within the header, and with an empty part.
            let cut = 1 + number % (whole.len() - 1);
            let parts = [(0, cut), (cut, 0), (cut, whole.len() - cut)];
            let chain =
                parts.map(|(at, length)| (BASE + BUFFERS + at as u64, length as u32, false));
            let id = guest.post(&chain, indirect);
            let mut batch = Batch::new();
            let got = ring.receive(&mut pool, &mut batch, &mut Backlog::default(), &mut burst);
            assert_eq!(got.map(|got| got.errors), Ok(0));
            let got: Vec<&[u8]> = batch.iter().map(Packet::data).collect();
            assert_eq!(got, [&bytes], "features {features:#x}, frame {number}");
            assert_eq!(guest.reap(), [(id, 0)]);
        }
        assert_eq!(burst.packets(), 60);
    }
}

#[test]
fn frames_to_a_guest_arrive_whole_and_in_order() {
    for features in variants() {
        let merges = features & feature::MRG_RXBUF != 0;
        let indirect = features & feature::INDIRECT_DESC != 0;
        let header_bytes = header::length(features);
        let mut guest = Guest::new(features, 16);
        let (mut ring, mut burst) = (guest.ring(), Burst::default());
        for number in 0..60 {
            let bytes = frame(number, LENGTHS[number % 5]);
            // Many small buffers, or one in two parts.
            let (buffers, each) = if merges { (13, 700) } else { (1, 9100) };
            let mut posted = Vec::new();
            for buffer in 0..buffers {
                let address = BASE + BUFFERS + buffer * 0x4000;
                let chain = [(address, 12, true), (address + 12, each - 12, true)];
                let chain = if guest.room() < 2 && !indirect {
                    &[(address, each, true)][..]
                } else {
                    &chain
                };
                if guest.room() < chain.len() && !indirect {
                    break;
                }
                posted.push((guest.post(chain, indirect), address - BASE));
            }
            let room = posted.len() as u32 * each;
            let sent = ring.send(&[Packet::from_bytes(&bytes)], &mut burst).unwrap();
            let fits = header_bytes + bytes.len() <= room as usize;
            assert_eq!(sent.count, usize::from(fits || !merges), "{features:#x} {number}");
            let used = guest.reap();
            let got: Vec<u8> = used
                .iter()
                .zip(&posted)
                .flat_map(|((id, length), (posted, address))| {
                    assert_eq!(id, posted);
                    guest.read(*address, *length as usize)
                })
                .collect();
            if fits {
                assert_eq!(&got[header_bytes..], bytes, "features {features:#x}, frame {number}");
                if header_bytes == header::HEADER_MAX {
                    assert_eq!(got[10..12], (used.len() as u16).to_le_bytes());
                }
            }
            // A guest with what it has left.
            (guest, ring) = match posted.len() > used.len() {
                true => {
                    let fresh = Guest::new(features, 16);
                    let ring = fresh.ring();
                    (fresh, ring)
                }
                false => (guest, ring),
            };
        }
    }
}

#[test]
fn a_full_ring_takes_the_rest_later() {
    for features in variants() {
        let mut guest = Guest::new(features, 4);
        let (mut ring, mut burst) = (guest.ring(), Burst::default());
        let packets: Vec<Packet> = (0..6).map(|n| Packet::from_bytes(&frame(n, 60))).collect();
        for buffer in 0..4 {
            guest.post(&[(BASE + BUFFERS + buffer * 0x800, 0x800, true)], false);
        }
        assert_eq!(ring.send(&packets, &mut burst).unwrap().count, 4);
        assert_eq!(ring.send(&packets[4..], &mut burst).unwrap().count, 0);
        assert_eq!(guest.reap().len(), 4);
        guest.post(&[(BASE + BUFFERS, 0x800, true)], false);
        assert_eq!(ring.send(&packets[4..], &mut burst).unwrap().count, 1);
        assert_eq!(guest.reap().len(), 1);
    }
}

#[test]
fn a_ring_goes_on_where_it_stopped() {
    for features in variants() {
        let mut guest = Guest::new(features, 4);
        let (mut pool, mut burst) = (Pool::new(8), Burst::default());
        let mut ring = guest.ring();
        for number in 0..25 {
            guest.write(BUFFERS, &[0; 100]);
            guest.post(&[(BASE + BUFFERS, 100, false)], false);
            let mut batch = Batch::new();
            ring.receive(&mut pool, &mut batch, &mut Backlog::default(), &mut burst).unwrap();
            assert_eq!((batch.len(), guest.reap().len()), (1, 1), "{features:#x} {number}");
            let memory = std::sync::Arc::clone(&guest.memory);
            let base = ring.base();
            ring = crate::ring::Ring::new(features, 4, base, guest.areas(), memory).unwrap();
        }
    }
}

/// A frame of 4,000 bytes with these protocols.
fn large(kind: GsoKind) -> (Vec<u8>, usize) {
    let mut frame = vec![2; 12];
    let (is_ipv6, protocol) = match kind {
        GsoKind::TcpV4 => (false, 6),
        GsoKind::TcpV6 => (true, 6),
        GsoKind::UdpL4 => (false, 17),
    };
    if is_ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0x0f, 0xa0, protocol, 64]);
        frame.extend([0xfd; 32]);
    } else {
        frame.extend([8, 0, 0x45, 0, 0x0f, 0xb4, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    }
    let start = frame.len();
    frame.resize(start + 4000, 0);
    if kind == GsoKind::UdpL4 {
        frame[start + 4..start + 6].copy_from_slice(&4000u16.to_be_bytes());
    } else {
        frame[start + 12] = 0x50;
    }
    (frame, start)
}

#[test]
fn offload_passes_through_a_guest() {
    let features = feature::VERSION_1 | feature::GUEST_CSUM;
    for kind in [GsoKind::TcpV4, GsoKind::TcpV6, GsoKind::UdpL4] {
        let (frame, start) = large(kind);
        for gso in [None, Some(false), Some(true)] {
            let gso = gso.map(|ecn| Gso { kind, segment_bytes: 1400, ecn });
            let mut packet = Packet::from_bytes(&frame);
            packet.offload = Offload { checksum: Checksum::Partial, gso };
            let header = header::encode(features, &packet, 3);
            assert_eq!(header[6..8], (start as u16).to_le_bytes());
            assert_eq!(header[10..], [3, 0]);
            let mut back = Packet::from_bytes(&frame);
            let received = header::decode(&header, &mut back);
            assert!(matches!(received, Some(Received::Whole)), "{kind:?} {gso:?}");
            assert_eq!(back.offload, packet.offload);
        }
    }
    // A guest cannot say that a checksum is good, and is told so only if it reads it.
    let mut packet = Packet::from_bytes(&[0; 60]);
    packet.offload.checksum = Checksum::Good;
    let told = header::encode(features, &packet, 1);
    assert_eq!((told[0], header::encode(feature::VERSION_1, &packet, 1)[0]), (2, 0));
    assert!(header::decode(&told, &mut packet).is_some());
    assert_eq!(packet.offload, Offload::default());
}

#[test]
fn a_guest_gets_only_the_offload_that_it_takes() {
    let gso = |kind, ecn| Offload {
        checksum: Checksum::Partial,
        gso: Some(Gso { kind, segment_bytes: 1400, ecn }),
    };
    let partial = Offload { checksum: Checksum::Partial, gso: None };
    let sum = feature::GUEST_CSUM;
    for (offload, needs) in [
        (Offload::default(), 0),
        (partial, sum),
        (gso(GsoKind::TcpV4, false), sum | feature::GUEST_TSO4),
        (gso(GsoKind::TcpV6, false), sum | feature::GUEST_TSO6),
        (gso(GsoKind::TcpV4, true), sum | feature::GUEST_TSO4 | feature::GUEST_ECN),
        (gso(GsoKind::UdpL4, false), sum | feature::GUEST_USO4 | feature::GUEST_USO6),
    ] {
        assert!(header::is_taken(needs, &offload), "{offload:?}");
        for bit in (0..64).map(|bit| 1u64 << bit).filter(|bit| needs & bit != 0) {
            assert!(!header::is_taken(needs & !bit, &offload), "{offload:?} without {bit:#x}");
        }
    }
}
