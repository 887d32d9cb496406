//! Compares the checksum functions with a naive implementation.

use proptest::prelude::*;

use super::*;

/// RFC 1071 section 4.1, word by word.
fn plain_sum(bytes: &[u8]) -> u16 {
    let mut total = 0u64;
    for pair in bytes.chunks(2) {
        total += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u64::from(*b));
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

#[test]
fn examples_of_the_rfcs() {
    // RFC 1071 section 3.
    assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    // RFC 1624 section 4: the result is 0x0000, where the older equation gave 0xffff.
    assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
    assert_eq!(sum(&[]), 0);
}

#[test]
fn udp_zero_rule() {
    assert_eq!((udp_nonzero(0), udp_nonzero(1)), (0xffff, 1));
    assert_eq!(verify_udp_v4(0, &[0; 8]), Verdict::Absent);
    assert_eq!(verify_udp_v6(0, &[0; 8]), Verdict::Bad);
}

#[test]
fn finish_partial_refuses_what_lies_outside() {
    assert!(!finish_partial(&mut [0; 8], 7, 0));
    assert!(!finish_partial(&mut [0; 8], 9, 6));
    assert!(!finish_partial(&mut [0; 8], usize::MAX, 6));
    assert!(finish_partial(&mut [0; 8], 0, 6));
}

proptest! {
    #[test]
    fn fast_is_plain(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(sum(&bytes), plain_sum(&bytes));
    }

    /// Verifying with addresses equals verifying with the sum of the pseudo-header.
    #[test]
    fn tcp_over_ipv4_all_at_once(
        a: u32, b: u32, mut segment in prop::collection::vec(any::<u8>(), 20..200), right: bool,
    ) {
        let pseudo =
            pseudo_v4(Ipv4Addr::from_bits(a), Ipv4Addr::from_bits(b), crate::protocol::TCP, segment.len());
        if right {
            segment[16..18].fill(0);
            let filled = !combine(pseudo, sum(&segment));
            segment[16..18].copy_from_slice(&filled.to_be_bytes());
        }
        let verdict = verify_tcp_v4(u64::from(a) << 32 | u64::from(b), &segment);
        prop_assert_eq!(verdict, verify_tcp(pseudo, &segment));
        prop_assert!(!right || verdict == Verdict::Good);
    }

    #[test]
    fn over_ipv6_all_at_once(
        a: u128, b: u128, protocol in 1u8.., right: bool,
        mut segment in prop::collection::vec(any::<u8>(), 20..200),
    ) {
        let (source, destination) = (Ipv6Addr::from_bits(a), Ipv6Addr::from_bits(b));
        let pseudo = pseudo_v6(source, destination, protocol, segment.len());
        if right {
            segment[16..18].fill(0);
            let filled = !combine(pseudo, sum(&segment));
            segment[16..18].copy_from_slice(&filled.to_be_bytes());
        }
        let words = [(a >> 64) as u64, a as u64, (b >> 64) as u64, b as u64];
        let verdict = verify_v6(&words, protocol, &segment);
        prop_assert_eq!(verdict, verify_tcp(pseudo, &segment));
        prop_assert!(!right || verdict == Verdict::Good);
    }

    #[test]
    fn pieces_combine(
        bytes in prop::collection::vec(any::<u8>(), 0..100), at in 0usize..50,
    ) {
        let (a, b) = bytes.split_at((at * 2).min(bytes.len() & !1));
        prop_assert_eq!(combine(sum(a), sum(b)), sum(&bytes));
    }

    #[test]
    fn pseudo_headers_are_sums(a: [u8; 16], b: [u8; 16], proto: u8, len: u16) {
        let mut v6 = [a, b].concat();
        v6.extend([0, 0]);
        v6.extend(len.to_be_bytes());
        v6.extend([0, 0, 0, proto]);
        prop_assert_eq!(pseudo_v6(a.into(), b.into(), proto, len.into()), sum(&v6));
        let (a4, b4): ([u8; 4], [u8; 4]) = (array(&a), array(&b));
        let mut v4 = [a4, b4].concat();
        v4.extend([0, proto]);
        v4.extend(len.to_be_bytes());
        prop_assert_eq!(pseudo_v4(a4.into(), b4.into(), proto, len.into()), sum(&v4));
    }

    /// The first word is non-zero, as a version or port is: over zeros alone, the result can be the other
    /// representation of zero.
    #[test]
    fn incremental_is_full(
        bytes in prop::collection::vec(any::<u8>(), 16..100), new: u128, word in 0usize..5,
    ) {
        let mut bytes = bytes;
        bytes.splice(0..0, [0x45, 0]);
        let before = checksum(&bytes);
        let at = 2 + 2 * word.min((bytes.len() - 18) / 2);
        let mut wide = bytes.clone();
        wide[at..at + 16].copy_from_slice(&new.to_be_bytes());
        let old = u128::from_be_bytes(array(&bytes[at..]));
        prop_assert_eq!(Change::u128(old, new).checksum(before), checksum(&wide));

        let mut mid = bytes.clone();
        mid[at..at + 4].copy_from_slice(&(new as u32).to_be_bytes());
        let old = u32::from_be_bytes(array(&bytes[at..]));
        prop_assert_eq!(update_u32(before, old, new as u32), checksum(&mid));
        prop_assert_eq!(Change::u32(old, new as u32).sum(sum(&bytes)), sum(&mid));

        let mut narrow = bytes.clone();
        narrow[at..at + 2].copy_from_slice(&(new as u16).to_be_bytes());
        let old = u16::from_be_bytes(array(&bytes[at..]));
        prop_assert_eq!(update_u16(before, old, new as u16), checksum(&narrow));
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().unwrap()
}
