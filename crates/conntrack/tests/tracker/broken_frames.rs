//! Truncated, forged and random frames: each gets a state, and none panics.

use crate::support;
use base::{Instant, PortNo};
use conntrack::Event;
use flow::{CtAction, CtState, Frame};
use packet::Packet;
use proptest::prelude::*;

const SEEDS: [&str; 8] = [
    "10.0.0.1:1000>10.0.0.2:80 S seq=100 win=1000 mss=1460 wscale=7",
    "10.0.0.1:1000>10.0.0.2:80 PA seq=101 ack=1 len=30",
    "10.0.0.1:1000>10.0.0.2:53 udp len=20",
    "10.0.0.1>10.0.0.2 icmp-echo id=77 seq=1 len=8",
    "10.0.0.2>10.0.0.1 icmp-unreach(3) (10.0.0.1:1000>10.0.0.2:53 udp len=20)",
    "[fe80::1]:1000>[fe80::2]:53 udp len=20 vlan=5",
    "[fe80::2]>[fe80::1] icmp-unreach(4) ([fe80::1]:1000>[fe80::2]:53 udp len=20)",
    "10.0.0.1>10.0.0.2 ip proto=47 len=20",
];

fn actions() -> Vec<CtAction> {
    let nat = |text| Some(support::nat(text));
    vec![
        support::look(0),
        support::commit(0),
        CtAction { nat: nat("src=30.0.0.1:7000-7010"), ..support::commit(0) },
        CtAction { nat: nat("dst=[fd02::1]"), ..support::commit(0) },
        CtAction { nat: nat("restore"), ..support::look(0) },
        CtAction { force: true, ..support::commit(0) },
    ]
}

proptest! {
    #[test]
    fn nothing_breaks(
        packets in proptest::collection::vec(
            (
                0..SEEDS.len(),
                proptest::collection::vec((0..100usize, any::<u8>()), 0..4),
                proptest::option::of(0..100usize),
                0..6usize,
                any::<bool>(),
            ),
            1..30,
        )
    ) {
        let tracker = support::tracker();
        let actions = actions();
        for (at, (seed, changes, cut, action, vouched)) in packets.into_iter().enumerate() {
            let mut bytes = wire::text::parse(SEEDS[seed]).unwrap();
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes.truncate(cut.unwrap_or(usize::MAX));
            let length = bytes.len();
            let Ok(mut frame) = Frame::parse(Packet::from_bytes(&bytes), PortNo(1)) else {
                continue;
            };
            if vouched {
                frame.packet.offload.checksum = packet::Checksum::Good;
            }
            let now = Instant::from_millis(at as u64);
            tracker.execute(now, &actions[action], std::slice::from_mut(&mut frame));
            let state = frame.key.ct_state();
            prop_assert!(state.contains(CtState::TRK));
            let kinds = [CtState::NEW, CtState::EST, CtState::REL, CtState::INV];
            prop_assert_eq!(kinds.iter().filter(|&&kind| state.contains(kind)).count(), 1);
            prop_assert_eq!(frame.packet.len(), length);
        }
    }
}

#[test]
fn what_is_wrong_is_counted() {
    let tcp = SEEDS[0];
    let error = SEEDS[4];
    // Offsets behind 14 bytes of Ethernet: IPv4 at 14, transport at 34; quoted packet at 42.
    /// The packet, changed bytes, its truncated length, and the counted event.
    type Case<'a> = (&'a str, &'a [(usize, u8)], Option<usize>, Event);
    let cases: [Case<'_>; 11] = [
        (tcp, &[(22, 1)], None, Event::L3Checksum),
        (tcp, &[(50, 0xff)], None, Event::L4Checksum),
        (tcp, &[], Some(40), Event::Truncated),
        (tcp, &[], Some(50), Event::Truncated),
        (tcp, &[(46, 0x40)], None, Event::Truncated),
        (tcp, &[(46, 0xf0)], None, Event::Truncated),
        (SEEDS[2], &[(39, 200)], None, Event::Truncated),
        (SEEDS[2], &[(39, 7)], None, Event::Truncated),
        (error, &[(34, 99), (36, 0), (37, 0)], None, Event::L4Checksum),
        (SEEDS[3], &[(41, 9)], None, Event::L4Checksum),
        (SEEDS[5], &[(64, 9)], None, Event::L4Checksum),
    ];
    for (text, changes, cut, event) in cases {
        let tracker = support::tracker();
        let mut bytes = wire::text::parse(text).unwrap();
        for &(at, value) in changes {
            bytes[at] = value;
        }
        bytes.truncate(cut.unwrap_or(usize::MAX));
        let mut frame = Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).unwrap();
        let action = support::commit(0);
        tracker.execute(Instant::ZERO, &action, std::slice::from_mut(&mut frame));
        assert_eq!(frame.key.ct_state(), CtState::INV | CtState::TRK, "{text} {changes:?} {cut:?}");
        let counted: Vec<_> = tracker.counters().iter().filter(|&(_, count)| count > 0).collect();
        assert_eq!(counted, [(event, 1)], "{text} {changes:?} {cut:?}");
        assert_eq!(tracker.connections(), 0);
    }
}
