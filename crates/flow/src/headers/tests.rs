//! Compares headers with the full key, for frames of every kind.

use super::*;
use crate::extract::extract;
use crate::key::{FlowKey, Mask};
use crate::vlan_limit::VlanLimit;
use proptest::prelude::*;

const IN_PORT: PortNo = PortNo(3);

/// IPv4 or IPv6 frames that are valid but for one byte, or truncated.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let protocol = prop_oneof![Just(6u8), Just(17), Just(132), Just(1), Just(2), Just(58), 0u8..];
    let spoil = prop_oneof![Just(None), (0..90usize, any::<u8>()).prop_map(Some)];
    let cut = prop_oneof![3 => Just(usize::MAX), 1 => 0..100usize];
    let tags = prop_oneof![
        Just(&[][..]),
        Just(&[0x8100u16][..]),
        Just(&[0x88a8][..]),
        Just(&[0x88a8, 0x8100][..]),
    ];
    let bytes = prop::collection::vec(0..3u8, 64);
    (any::<bool>(), tags, protocol, spoil, cut, bytes, 0..3usize).prop_map(
        |(v6, tags, protocol, spoil, cut, bytes, options)| {
            let mut frame = bytes[..12].to_vec();
            for tpid in tags {
                frame.extend(tpid.to_be_bytes());
                frame.extend(&bytes[12..14]);
            }
            if v6 {
                frame.extend([0x86, 0xdd, 0x60, bytes[14], bytes[15], 1, 0, 30, protocol, 64]);
                frame.extend(&bytes[16..48]);
            } else {
                let header = 20 + 4 * options;
                frame.extend([8, 0, 0x40 + (header / 4) as u8, bytes[14], 0, (header + 30) as u8]);
                frame.extend([0, 1, 0, 0, bytes[15], protocol, 0, 0]);
                frame.extend(&bytes[16..24]);
                frame.extend(vec![1; header - 20]);
            }
            frame.extend(&bytes[24..54]);
            frame.extend([0; 6]);
            if let Some((at, value)) = spoil
                && let Some(byte) = frame.get_mut(at)
            {
                *byte = value;
            }
            frame.truncate(cut);
            frame
        },
    )
}

fn key_of(frame: &[u8], vlans: VlanLimit) -> Option<(FlowKey, Layers)> {
    let mut key = FlowKey::new();
    let layers = extract(frame, vlans, &mut key)?;
    key.set_in_port_raw(IN_PORT.0);
    Some((key, layers))
}

fn headers_of(frame: &[u8]) -> Option<(Headers, Layers)> {
    let mut headers = Headers { words: [7; HEADER_WORDS] };
    let layers = headers.read(frame, IN_PORT);
    assert_eq!(layers.is_none(), headers.is_none());
    Some((headers, layers?))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn ordinary_packets_have_the_same_key_both_ways(frame in frames()) {
        if let Some((headers, layers)) = headers_of(&frame) {
            let mut key = FlowKey::new();
            key.words_mut().fill(99);
            headers.write_key(&mut key);
            for vlans in [1, 2].map(VlanLimit::new) {
                prop_assert_eq!(Some((key.clone(), layers)), key_of(&frame, vlans));
            }
        }
    }

    #[test]
    fn agreeing_under_the_mask_is_agreeing_in_the_key(
        a in frames(), b in frames(), words in prop::collection::vec(prop_oneof![
            5 => Just(0u64), 1 => Just(u64::MAX), 1 => any::<u64>(), 1 => Just(0xffffu64 << 48),
        ], crate::field::WORDS),
    ) {
        let (Some((a, _)), Some((b, _))) = (headers_of(&a), headers_of(&b)) else {
            return Ok(());
        };
        let mut mask = Mask::new();
        mask.words_mut().copy_from_slice(&words);
        let ours = a.mask_of(&mask);
        let agree = |x: &Headers, y: &Headers, m: &Headers| {
            (0..HEADER_WORDS).all(|i| (x.words[i] ^ y.words[i]) & m.words[i] == 0)
        };
        if agree(&a, &b, &ours) {
            let keys = [a, b].map(|headers| {
                let mut key = FlowKey::new();
                headers.write_key(&mut key);
                key.masked(&mask)
            });
            prop_assert_eq!(&keys[0], &keys[1]);
        }
        if agree(&a, &b, &a.exact_mask()) {
            prop_assert_eq!(a, b);
        }
    }
}

#[test]
fn an_echo_and_its_answer_are_told_apart_and_from_those_of_other_identifiers() {
    for v6 in [false, true] {
        let read = |from: u8, to: u8, icmp_type: u8, id: u16| {
            let mut frame = vec![0; 12];
            if v6 {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 58, 64]);
                [from, to].iter().for_each(|&it| frame.extend(u128::from(it).to_be_bytes()));
            } else {
                frame.extend([8, 0, 0x45, 0, 0, 36, 0, 0, 0, 0, 64, 1, 0, 0]);
                frame.extend([10, 0, 0, from, 10, 0, 0, to]);
            }
            let [high, low] = id.to_be_bytes();
            frame.extend([icmp_type, 0, 7, 7, high, low, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]);
            headers_of(&frame).unwrap().0
        };
        let [request, reply] = if v6 { [128, 129] } else { [8, 0] };
        let there = read(1, 2, request, 0x1234);
        let back = read(2, 1, reply, 0x1234);
        let other = read(1, 2, request, 0x1235);
        let ours = [there, back, other];
        assert_eq!(ours.map(|it| it.icmp_id()), [0x1234, 0x1234, 0x1235]);
        assert_eq!(ours.map(|it| it.icmp_type()), [request, reply, request]);
        // Only connection tracking tells them apart, no flow does.
        let differs = |one: &Headers, mask: &Headers| {
            (0..HEADER_WORDS).any(|i| (one.words[i] ^ there.words[i]) & mask.words[i] != 0)
        };
        let mut all = Mask::new();
        all.words_mut().fill(u64::MAX);
        assert!(differs(&other, &there.tuple_mask()) && differs(&back, &there.tuple_mask()));
        assert!(!differs(&other, &there.mask_of(&all)) && differs(&back, &there.mask_of(&all)));
    }
}
