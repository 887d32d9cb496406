//! Random keys and matches for the tests, drawn from so few values that they often meet.

use flow::{Field, FlowKey, Mask, Match};
use proptest::prelude::*;
use wire::ethertype;

const V6: u128 = 0x1000_0000_0000_0000_0000_0000_0000_0000;
const IPV4: u128 = ethertype::IPV4 as u128;
const IPV6: u128 = ethertype::IPV6 as u128;
const ARP: u128 = ethertype::ARP as u128;

/// Fields with the values and the masks that are drawn for them.
const POOL: &[(Field, &[u128], &[u128])] = &[
    (Field::InPort, &[1, 2, 3], &[u128::MAX]),
    (Field::CtState, &[0, 0x21, 0x22], &[0x20, 0x22, u128::MAX]),
    (Field::Metadata, &[0, 1], &[u128::MAX]),
    (Field::Reg3, &[0, 1, 0x8000_0001], &[1, 0x8000_0000, u128::MAX]),
    (Field::EthType, &[IPV4, IPV4, IPV6, ARP], &[u128::MAX, u128::MAX, 0xff]),
    (Field::EthDst, &[1, 2, 0x0100_0000_0001], &[0x0100_0000_0000, u128::MAX]),
    (Field::VlanTci, &[0, 0x1005, 0x1006], &[0x1000, 0x1fff]),
    (Field::NwProto, &[6, 17], &[u128::MAX]),
    (
        Field::Ipv4Src,
        &[0x0a01_0200, 0x0a01_020f, 0x0a01_0303, 0x0b00_0001],
        &[0xff00_0000, 0xffff_0000, 0xffff_ff00, 0xffff_fffe, u128::MAX, 0xff],
    ),
    (
        Field::Ipv4Dst,
        &[0x0a01_0200, 0x0a01_020f, 0x0a01_0303, 0x0b00_0001, 0xc0a8_0001],
        &[0x8000_0000, 0xff00_0000, 0xffff_0000, 0xffff_ff00, u128::MAX, 0xff00_ff00],
    ),
    (
        Field::Ipv6Dst,
        &[V6 | 1, V6 | 2, V6 >> 1, 0x0a01_0200],
        &[u128::MAX << 118, u128::MAX << 64, u128::MAX << 1, u128::MAX],
    ),
    (Field::Ipv6Src, &[V6, V6 | 3], &[u128::MAX << 127, u128::MAX]),
    (Field::CtTpDst, &[0, 80], &[u128::MAX]),
    (Field::TpSrc, &[8, 79, 80, 1024], &[0xfff0, 0xfc00, u128::MAX]),
    (Field::TpDst, &[8, 79, 80, 1024], &[0x00f0, 0xfc00, u128::MAX]),
    (Field::TcpFlags, &[2, 0x10], &[2, u128::MAX]),
    (Field::NdTarget, &[0, V6], &[u128::MAX]),
    (Field::NdReserved, &[0, 1 << 29], &[u128::MAX]),
    (Field::NdOptionsType, &[0, 2], &[u128::MAX]),
];

fn pick(from: &[u128], choice: u8) -> u128 {
    from[usize::from(choice) % from.len()]
}

/// A packet's key.
pub(crate) fn key() -> impl Strategy<Value = FlowKey> {
    any::<[u8; 19]>().prop_map(|choices| {
        let mut key = FlowKey::new();
        for (&(field, values, _), choice) in POOL.iter().zip(choices) {
            key.set(field, key.get(field) | pick(values, choice));
        }
        key
    })
}

/// A match on up to four fields.
pub(crate) fn matching() -> impl Strategy<Value = Match> {
    prop::collection::vec((0..POOL.len(), any::<u8>(), any::<u8>()), 0..5).prop_map(|fields| {
        fields.into_iter().fold(Match::any(), |matching, (at, value, mask)| {
            let (field, values, masks) = POOL[at];
            matching.with_masked(field, pick(values, value), pick(masks, mask))
        })
    })
}

/// An IPv4 TCP match with prefixes and ports, as most rules are.
pub(crate) fn ipv4_matching() -> impl Strategy<Value = Match> {
    (any::<[u8; 4]>(), 0..=32u32, 0..=32u32, any::<[bool; 2]>(), any::<bool>()).prop_map(
        |(choices, src_len, dst_len, ports, zone)| {
            let prefix = |len: u32| u128::from(!u32::MAX.checked_shr(len).unwrap_or(0));
            let value = |field: Field, choice: usize| {
                let (_, values, _) = POOL.iter().find(|entry| entry.0 == field).unwrap();
                pick(values, choices[choice])
            };
            let mut matching = Match::any()
                .with(Field::EthType, 0x800)
                .with_masked(Field::Ipv4Src, value(Field::Ipv4Src, 0), prefix(src_len / 8 * 8))
                .with_masked(Field::Ipv4Dst, value(Field::Ipv4Dst, 1), prefix(dst_len / 8 * 8));
            for (i, field) in [Field::TpSrc, Field::TpDst].into_iter().enumerate() {
                if ports[i] {
                    matching = matching.with(field, value(field, 2 + i));
                }
            }
            if zone { matching.with(Field::InPort, 1) } else { matching }
        },
    )
}

/// A match with one of three masks, so that many share a subtable.
pub(crate) fn crowded_matching() -> impl Strategy<Value = Match> {
    const FIELDS: [Field; 3] = [Field::InPort, Field::TpDst, Field::Ipv4Dst];
    (0..FIELDS.len(), any::<u8>()).prop_filter_map("a field of the pool", |(at, choice)| {
        let (field, values, _) = POOL.iter().find(|entry| entry.0 == FIELDS[at])?;
        let matching = Match::any().with(*field, pick(values, choice));
        Some(if at == 2 { matching.with(Field::EthType, 0x800) } else { matching })
    })
}

/// The key with the bits outside `mask` taken from `other`.
pub(crate) fn outside(mask: &Mask, key: &FlowKey, other: &FlowKey) -> FlowKey {
    let mut out = FlowKey::new();
    for (i, word) in out.words_mut().iter_mut().enumerate() {
        let mask = mask.words()[i];
        *word = (key.words()[i] & mask) | (other.words()[i] & !mask);
    }
    out
}
