//! Tests beyond the cases in `testdata/`: bounds, time, forged fragments and any order.

use super::*;
use base::PortNo;
use packet::Packet;
use proptest::prelude::*;

const V4: &str = "10.0.0.1:1000>10.0.0.2:53 udp len=3000 ipid=9";
const V6: &str = "[fd00::1]:1000>[fd00::2]:53 udp len=3000";

/// Bytes `start..end` behind the IP header, as a fragment; `more` need not be true.
fn fragment_of(whole: &[u8], start: usize, end: usize, more: bool) -> Frame {
    let is_v4 = whole[14] >> 4 == 4;
    let (headers, data) = whole.split_at(if is_v4 { 34 } else { 54 });
    let mut bytes = headers.to_vec();
    let data = &data[start.min(data.len())..end.min(data.len())];
    let place = (start as u16 & 0xfff8, u16::from(more));
    if is_v4 {
        bytes[16..18].copy_from_slice(&((20 + data.len()) as u16).to_be_bytes());
        bytes[20..22].copy_from_slice(&(place.1 << 13 | place.0 >> 3).to_be_bytes());
        bytes[24..26].fill(0);
        let sum = checksum(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        bytes[18..20].copy_from_slice(&((8 + data.len()) as u16).to_be_bytes());
        bytes.extend([bytes[20], 0]);
        bytes[20] = 44;
        bytes.extend((place.0 | place.1).to_be_bytes());
        bytes.extend(7u32.to_be_bytes());
    }
    bytes.extend(data);
    Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).unwrap()
}

fn checksum(header: &[u8]) -> u16 {
    wire::checksum::checksum(header)
}

fn part(text: &str, start: usize, end: usize) -> Frame {
    let whole = wire::text::parse(text).unwrap();
    let length = whole.len() - if whole[14] >> 4 == 4 { 34 } else { 54 };
    fragment_of(&whole, start, end, end < length)
}

/// Holds one fragment at a time in seconds. Returns whether it was held, and the completed datagrams.
fn hold(fragments: &Fragments, at_s: u64, mut frame: Frame) -> (bool, Vec<Whole>) {
    let now = Instant::from_millis(at_s * 1000);
    let whole = fragments.hold(now, Zone(0), std::slice::from_mut(&mut frame));
    (frame.packet.is_empty(), whole)
}

fn is_held(fragments: &Fragments, at_s: u64, frame: Frame) -> bool {
    let (held, whole) = hold(fragments, at_s, frame);
    held && whole.is_empty()
}

#[test]
fn no_more_are_held_than_may_be() {
    let fragments = Fragments::new();
    assert!(fragments.set_fragments_max(5001).is_err());
    fragments.set_fragments_max(3).unwrap();
    for id in 0..3 {
        let text = format!("10.0.0.1:1000>10.0.0.2:53 udp len=3000 ipid={id}");
        assert!(is_held(&fragments, 0, part(&text, 0, 1480)));
    }
    // The oldest datagram is dropped, then the next, but not for a fragment of itself.
    assert!(is_held(&fragments, 0, part(V4, 0, 1480)));
    let last = "10.0.0.1:1000>10.0.0.2:53 udp len=3000 ipid=1";
    assert!(!is_held(&fragments, 0, part(last, 1480, 3008)));
    assert_eq!((fragments.status().fragments, fragments.status().v4.counts.evicted), (3, 1));
    assert!(fragments.status().display(false).to_string().contains("v4 frags evicted: 1\n"));
    assert!(is_held(&fragments, 16, part(V4, 0, 1480)));
    assert_eq!(fragments.status().fragments, 1);
    assert_eq!(fragments.status().v4.counts.expired, 3);
    fragments.set_fragments_max(0).unwrap();
    assert!(!is_held(&fragments, 16, part(V4, 1480, 3008)));
}

/// 67 first fragments per second from one host excluded those of all others.
#[test]
fn one_hosts_fragments_keep_out_no_others() {
    let fragments = Fragments::new();
    let flood = |id: u32, from: u8, zone: u16| {
        let text =
            format!("66.0.{}.{from}:1000>10.0.0.2:53 udp len=3000 ipid={}", id >> 16, id & 0xffff);
        let mut frame = part(&text, 0, 1480);
        let now = Instant::from_millis(1000);
        assert!(fragments.hold(now, Zone(zone), std::slice::from_mut(&mut frame)).is_empty());
        assert!(frame.packet.is_empty(), "{id}");
    };
    (0..1000).for_each(|id| flood(id, 1, 0));
    // Each of these hosts sends three fragments, interleaved.
    for (start, end) in [(0, 1480), (1480, 2960), (2960, 4008)] {
        for host in 0..100 {
            let text = format!("10.0.1.{host}:1000>10.0.0.2:53 udp len=4000 ipid=7");
            let (held, whole) = hold(&fragments, 1, part(&text, start, end));
            assert_eq!((held, whole.len()), (true, usize::from(end == 4008)), "{host}");
            flood(2000 + start as u32 + host, 1, 0);
        }
    }
    let counts = fragments.status().v4.counts;
    assert_eq!((counts.completed, counts.evicted, fragments.status().fragments), (300, 401, 899));
}

/// A flood with forged source addresses affects only its zone.
#[test]
fn forged_fragments_of_one_zone_keep_out_no_others() {
    let fragments = Fragments::new();
    let now = Instant::from_millis(1000);
    let send = |from: u32, zone: u16, start: usize| {
        let [_, a, b, c] = from.to_be_bytes();
        let text = format!("66.{a}.{b}.{c}:1000>10.0.0.2:53 udp len=2000 ipid=7");
        let mut frame = part(&text, start, start + 1480);
        fragments.hold(now, Zone(zone), std::slice::from_mut(&mut frame)).len()
    };
    (0..50).for_each(|from| _ = send(from, 2, 0));
    (0..5000).for_each(|from| _ = send(from, 1, 0));
    assert_eq!((0..50).map(|from| send(from, 2, 1480)).sum::<usize>(), 50);
}

#[test]
fn what_is_not_whole_after_fifteen_seconds_is_dropped() {
    let fragments = Fragments::new();
    assert!(is_held(&fragments, 100, part(V4, 0, 1480)));
    fragments.tick(Instant::from_millis(115_000));
    assert_eq!(fragments.status().fragments, 1);
    fragments.tick(Instant::from_millis(115_001));
    assert_eq!(fragments.status().fragments, 0);
    // The rest begins another datagram, whose start never arrives.
    assert!(is_held(&fragments, 116, part(V4, 1480, 3008)));
    assert_eq!(fragments.status().v4.counts.expired, 1);
    assert_eq!(fragments.status().v4.counts.completed, 0);
}

#[test]
fn a_version_that_is_off_holds_nothing() {
    let fragments = Fragments::new();
    fragments.set_enabled(IpVersion::V6, false);
    assert!(!is_held(&fragments, 0, part(V6, 0, 1448)));
    assert!(is_held(&fragments, 0, part(V4, 0, 1480)));
    fragments.set_enabled(IpVersion::V6, true);
    assert!(is_held(&fragments, 0, part(V6, 0, 1448)));
}

#[test]
fn the_least_size_can_be_set_down_to_400() {
    let fragments = Fragments::new();
    assert!(!is_held(&fragments, 0, part(V4, 0, 800)));
    assert!(fragments.set_min_bytes(IpVersion::V4, 399).is_err());
    fragments.set_min_bytes(IpVersion::V4, 400).unwrap();
    assert!(is_held(&fragments, 0, part(V4, 0, 800)));
    assert_eq!(fragments.status().v4.counts.too_small, 1);
}

#[test]
fn an_overlap_in_ipv6_gives_up_what_came_and_what_is_to_come() {
    let fragments = Fragments::new();
    assert!(is_held(&fragments, 0, part(V6, 0, 1448)));
    assert!(!is_held(&fragments, 0, part(V6, 1440, 2888)));
    assert_eq!(fragments.status().fragments, 0);
    assert!(!is_held(&fragments, 1, part(V6, 0, 1448)));
    assert!(!is_held(&fragments, 1, part(V6, 1448, 3008)));
    let counts = fragments.status().v6.counts;
    assert_eq!((counts.overlapped, counts.purged, counts.completed), (1, 1, 0));
    // After the deadline, the identification may be used again.
    assert!(is_held(&fragments, 16, part(V6, 0, 1448)));
    assert_eq!(hold(&fragments, 16, part(V6, 1448, 3008)).1.len(), 1);
}

#[test]
fn a_fragment_around_another_overlaps_it() {
    // Open vSwitch 3.1 looks at the ends of the new fragment only.
    for (text, held) in [(V4, 1), (V6, 0)] {
        let fragments = Fragments::new();
        assert!(is_held(&fragments, 0, part(text, 1480, 2760)));
        assert!(!is_held(&fragments, 0, part(text, 1472, 2960)), "{text}");
        assert_eq!(fragments.status().fragments, held, "{text}");
    }
}

#[test]
fn a_changed_copy_in_ipv6_is_an_overlap() {
    let fragments = Fragments::new();
    assert!(is_held(&fragments, 0, part(V6, 0, 1448)));
    let mut copy = part(V6, 0, 1448);
    *copy.packet.data_mut().last_mut().unwrap() ^= 1;
    assert!(!is_held(&fragments, 0, copy));
    assert_eq!(fragments.status().fragments, 0);
}

#[test]
fn pieces_that_lie_about_the_end_are_refused() {
    let whole = wire::text::parse("10.0.0.1:1000>10.0.0.2:53 udp len=9000 ipid=9").unwrap();
    let piece = |start, end, more| fragment_of(&whole, start, end, more);
    /// First byte, end, and whether more fragments follow.
    type Cut = (usize, usize, bool);
    let cases: [(&str, &[Cut], Cut); 5] = [
        ("behind the last", &[(1480, 2960, false)], (2960, 4440, true)),
        ("a second last", &[(1480, 2960, false)], (4440, 5920, false)),
        ("a last before others", &[(4440, 5920, true)], (1480, 2960, false)),
        ("not in units of 8", &[], (0, 1479, true)),
        ("empty", &[], (1480, 1480, false)),
    ];
    for (what, before, (start, end, more)) in cases {
        let fragments = Fragments::new();
        for &(start, end, more) in before {
            assert!(is_held(&fragments, 0, piece(start, end, more)), "{what}");
        }
        assert!(!is_held(&fragments, 0, piece(start, end, more)), "{what}");
        assert_eq!(fragments.status().fragments, before.len() as u32, "{what}");
    }
}

#[test]
fn a_datagram_larger_than_ip_can_say_is_refused() {
    // The "ping of death": the last fragment ends beyond byte 65,535.
    let whole = wire::text::parse("10.0.0.1>10.0.0.2 ip proto=47 len=65000 ipid=9").unwrap();
    let mut last = fragment_of(&whole, 0, 1480, false);
    last.packet.data_mut()[20..22].copy_from_slice(&8185u16.to_be_bytes());
    last.packet.data_mut()[24..26].fill(0);
    let sum = checksum(&last.packet.data()[14..34]);
    last.packet.data_mut()[24..26].copy_from_slice(&sum.to_be_bytes());
    let last = Frame::parse(last.packet, PortNo(1)).unwrap();
    assert!(!is_held(&Fragments::new(), 0, last));
}

#[test]
fn the_status_reads_as_open_vswitch_has_it() {
    let fragments = Fragments::new();
    assert!(is_held(&fragments, 0, part(V4, 1480, 2960)));
    assert!(is_held(&fragments, 0, part(V6, 0, 1448)));
    let text = fragments.status().display(true).to_string();
    let expect = "        Fragmentation Module Status
        ---------------------------
        v4 enabled: 1
        v6 enabled: 1
        max num frags (v4/v6): 1000
        num frag: 2
        min v4 frag size: 1200
        v4 frags accepted: 1
        v4 frags completed: 0
        v4 frags expired: 0
        v4 frags too small: 0
        v4 frags overlapped: 0
        v4 frags purged: 0
        min v6 frag size: 1280
        v6 frags accepted: 1
        v6 frags completed: 0
        v6 frags expired: 0
        v6 frags too small: 0
        v6 frags overlapped: 0
        v6 frags purged: 0

        Fragment Lists:

(src=10.0.0.1,dst=10.0.0.2,recirc_id=0,ip_id=9,dl_type=0x800,zone=0,nw_proto=17,num_fragments=1,\
state=other frag)
(src=fd00::1,dst=fd00::2,recirc_id=0,ip_id=7,dl_type=0x86dd,zone=0,nw_proto=0,num_fragments=1,\
state=first frag)
";
    assert_eq!(text, expect);
}

proptest! {
    #[test]
    fn any_order_gives_the_whole_and_the_pieces_back(
        v6: bool, length in 2000..20_000usize, cut in 160..500usize, order: u64,
    ) {
        let text = match v6 {
            true => format!("[fd00::1]>[fd00::2] ip proto=47 len={length}"),
            false => format!("10.0.0.1>10.0.0.2 ip proto=47 len={length} ipid=9"),
        };
        let whole = wire::text::parse(&text).unwrap();
        let mut starts: Vec<usize> = (0..length).step_by(cut * 8).collect();
        fastrand::Rng::with_seed(order).shuffle(&mut starts);
        let fragments = Fragments::new();
        let (last, before) = starts.split_last().unwrap();
        let piece = |start: usize| {
            let end = (start + cut * 8).min(length);
            fragment_of(&whole, start, end, end < length)
        };
        for &start in before {
            prop_assert!(is_held(&fragments, 0, piece(start)));
            prop_assert!(!is_held(&fragments, 0, piece(start)));
        }
        let (held, mut found) = hold(&fragments, 0, piece(*last));
        if starts.len() == 1 {
            return Ok(());
        }
        prop_assert!(held);
        let mut found = found.pop().unwrap();
        let (frame, headers) = (found.frame_mut(), if v6 { 62 } else { 34 });
        prop_assert_eq!(frame.key.nw_frag(), 0);
        prop_assert_eq!(&frame.packet.data()[headers..], &whole[if v6 { 54 } else { 34 }..]);
        starts.sort_unstable();
        let out: Vec<Frame> = found.into_fragments().collect();
        prop_assert_eq!(out.len(), starts.len());
        for (frame, &start) in out.iter().zip(&starts) {
            let expect = piece(start);
            prop_assert_eq!(frame.packet.data(), expect.packet.data());
        }
        prop_assert_eq!(fragments.status().fragments, 0);
        prop_assert!(fragments.status().datagrams.is_empty());
    }

    #[test]
    fn forged_pieces_break_nothing(
        pieces in proptest::collection::vec(
            (any::<bool>(), 0..400usize, 0..400usize, any::<bool>(), 0..80usize, any::<u8>(), 0..9u64),
            1..60,
        )
    ) {
        let fragments = Fragments::new();
        fragments.set_min_bytes(IpVersion::V4, 400).unwrap();
        fragments.set_fragments_max(9).unwrap();
        let (v4, v6) = (wire::text::parse(V4).unwrap(), wire::text::parse(V6).unwrap());
        let mut now_s = 0;
        for (is_v6, start, end, more, at, value, later_s) in pieces {
            let whole = if is_v6 { &v6 } else { &v4 };
            let mut frame = fragment_of(whole, start * 8, (start + end) * 8, more);
            if let Some(byte) = frame.packet.data_mut().get_mut(at) {
                *byte = value;
            }
            let Ok(frame) = Frame::parse(frame.packet, PortNo(1)) else { continue };
            now_s += later_s;
            for whole in hold(&fragments, now_s, frame).1 {
                for frame in whole.into_fragments() {
                    prop_assert!(!frame.packet.is_empty());
                }
            }
            let status = fragments.status();
            prop_assert!(status.fragments <= 9 && status.datagrams.len() <= 9);
            let counted: u32 = status.datagrams.iter().map(|it| it.fragments).sum();
            prop_assert_eq!(status.fragments, counted);
        }
    }
}
