//! Flushes with the syntax of `dpctl/flush-conntrack`, compared with a naive walk over all connections.

use crate::support;
use base::{Instant, Zone};
use conntrack::flush::{add_labels, add_mark, add_tuple, is_quick};
use conntrack::{Conntrack, CtFlush, Direction, Entry};
use flow::{CtAction, Masked, TupleL4};
use proptest::prelude::*;
use support::Tracked;

const NOW: Instant = Instant::from_millis(2);

/// Connections in several zones, identified by source port or identifier.
fn table() -> Tracked {
    let tracked = support::tracker();
    let bits = |value, mask| Some(Masked { value, mask });
    let in_zone = support::commit;
    let marked = CtAction { mark: bits(0xaa, u32::MAX), ..in_zone(0) };
    let labelled = CtAction { label: Some(Masked { value: 0xaa << 32, mask: !0 }), ..in_zone(5) };
    let nat = CtAction { nat: Some(support::nat("src=30.0.0.1")), ..in_zone(6) };
    let packets: [(&str, &CtAction); 9] = [
        ("10.1.1.1:1>10.1.1.2:80 udp len=4", &marked),
        ("10.1.1.2:2>10.1.1.1:80 udp len=4", &labelled),
        ("10.1.1.1:3>20.0.0.1:80 udp len=4", &nat),
        ("10.1.1.1:3>20.0.0.1:80 udp len=4", &in_zone(7)),
        ("10.1.1.1:4>20.0.0.1:80 S seq=1 win=9", &in_zone(5)),
        ("[fd00::1]:5>[fd00::2]:53 udp len=4", &in_zone(5)),
        ("10.1.1.1>10.1.1.2 icmp-echo id=6 seq=1 len=8", &in_zone(5)),
        ("10.1.1.1>10.1.1.2 ip proto=47 len=8", &in_zone(8)),
        ("10.1.1.1:9>10.1.1.2:80 sctp chunks=init/7", &in_zone(8)),
    ];
    for (text, action) in packets {
        let mut frame = support::frame(text);
        tracked.execute(Instant::from_millis(1), action, std::slice::from_mut(&mut frame));
    }
    assert_eq!(tracked.connections(), 9);
    tracked
}

/// `zone=5 mark=1 orig:… reply:…`: the words of a request.
fn flush(words: &str) -> CtFlush {
    let mut flush = CtFlush::default();
    for word in words.split_whitespace() {
        let done = match word.split_once(['=', ':']) {
            Some(("zone", zone)) => {
                flush.zone = Some(Zone(zone.parse().unwrap()));
                Ok(())
            }
            Some(("mark", text)) => add_mark(&mut flush, text),
            Some(("labels", text)) => add_labels(&mut flush, text),
            Some(("orig", text)) => add_tuple(&mut flush, Direction::Original, text),
            Some(("reply", text)) => add_tuple(&mut flush, Direction::Reply, text),
            _ => panic!("{word}"),
        };
        done.unwrap_or_else(|error| panic!("{word}: {error}"));
    }
    flush
}

fn name(entry: &Entry) -> u16 {
    match entry.original.l4 {
        TupleL4::Ports { src, .. } => src,
        TupleL4::Icmp { id, .. } => id,
        TupleL4::None => 0,
    }
}

/// Returns the connections that a flush removed; the flush must return their number.
fn gone(tracked: &Conntrack, flush: &CtFlush) -> Vec<u16> {
    let before = support::dump(tracked, NOW, None);
    let count = tracked.flush(NOW, flush).unwrap_or(0);
    let after = support::dump(tracked, NOW, None);
    let gone = before.iter().filter(|entry| !after.contains(entry));
    let mut names: Vec<u16> = gone.map(name).collect();
    names.sort_unstable();
    assert_eq!(count as usize, names.len(), "{flush:?}");
    assert_eq!(tracked.connections() as usize, after.len(), "{flush:?}");
    names
}

#[test]
fn flushes_take_what_fits_and_nothing_else() {
    let cases: [(&str, &[u16]); 30] = [
        ("mark=0xaa", &[1]),
        ("mark=0xab", &[]),
        ("mark=2/2", &[1]),
        ("mark=0/0xff", &[0, 2, 3, 3, 4, 5, 6, 9]),
        ("mark=0/0xff zone=5", &[2, 4, 5, 6]),
        ("labels=0xaa00000000", &[2]),
        ("labels=0x0200000000/0x0200000000", &[2]),
        ("labels=0x0200000000/0x0200000000 mark=1", &[]),
        ("zone=0 labels=0xaa00000000", &[]),
        ("zone=5 orig:ct_nw_proto=6", &[4]),
        ("orig:ct_nw_proto=17,ct_tp_src=1", &[1]),
        ("orig:ct_nw_src=10.1.1.2", &[2]),
        ("reply:ct_nw_src=10.1.1.2", &[0, 1, 6, 9]),
        ("zone=8 reply:ct_nw_src=10.1.1.2", &[0, 9]),
        ("orig:ct_ipv6_dst=fd00::2", &[5]),
        // The client with NAT.
        ("reply:ct_nw_dst=30.0.0.1", &[3]),
        ("orig:ct_nw_dst=20.0.0.1,ct_nw_proto=17,ct_tp_dst=80", &[3, 3]),
        // Complete tuples, in one zone and in all; the zone of a single original one is 0.
        (
            "orig:ct_nw_src=10.1.1.1,ct_nw_dst=10.1.1.2,ct_nw_proto=17,ct_tp_src=1,ct_tp_dst=80",
            &[1],
        ),
        (
            "orig:ct_nw_src=10.1.1.2,ct_nw_dst=10.1.1.1,ct_nw_proto=17,ct_tp_src=80,ct_tp_dst=1",
            &[1],
        ),
        ("orig:ct_nw_src=10.1.1.1,ct_nw_dst=20.0.0.1,ct_nw_proto=17,ct_tp_src=3,ct_tp_dst=80", &[]),
        (
            "zone=7 orig:ct_nw_src=10.1.1.1,ct_nw_dst=20.0.0.1,ct_nw_proto=17,ct_tp_src=3,ct_tp_dst=80",
            &[3],
        ),
        (
            "mark=0 orig:ct_nw_src=10.1.1.1,ct_nw_dst=20.0.0.1,ct_nw_proto=17,ct_tp_src=3,ct_tp_dst=80",
            &[3, 3],
        ),
        (
            "reply:ct_nw_src=20.0.0.1,ct_nw_dst=30.0.0.1,ct_nw_proto=17,ct_tp_src=80,ct_tp_dst=3",
            &[3],
        ),
        (
            "zone=7 reply:ct_nw_src=20.0.0.1,ct_nw_dst=30.0.0.1,ct_nw_proto=17,ct_tp_src=80,ct_tp_dst=3",
            &[],
        ),
        (
            "orig:ct_nw_src=10.1.1.9 reply:ct_nw_src=20.0.0.1,ct_nw_dst=30.0.0.1,ct_nw_proto=17,ct_tp_src=80,ct_tp_dst=3",
            &[],
        ),
        (
            "zone=5 orig:ct_nw_src=10.1.1.1,ct_nw_dst=10.1.1.2,ct_nw_proto=1,icmp_id=6,icmp_type=8",
            &[6],
        ),
        ("orig:ct_nw_src=10.1.1.1,ct_nw_dst=10.1.1.2,ct_nw_proto=1,icmp_id=6", &[6]),
        ("reply:ct_nw_src=10.1.1.2,ct_nw_dst=10.1.1.1,ct_nw_proto=1,icmp_id=6", &[6]),
        ("zone=8 orig:ct_nw_src=10.1.1.1,ct_nw_dst=10.1.1.2,ct_nw_proto=47", &[0]),
        ("zone=9 mark=0/1", &[]),
    ];
    for (words, expect) in cases {
        assert_eq!(gone(&table(), &flush(words)), expect, "{words}");
    }
}

/// Draining until no work is left frees all records of a flushed zone.
#[test]
fn a_flushed_zone_is_more_to_do_until_its_records_are_back() {
    let tracked = support::tracker();
    for port in 1..=2000 {
        let mut frame = support::frame(&format!("10.1.1.1:{port}>10.1.1.2:80 udp len=4"));
        tracked.execute(NOW, &support::commit(5), std::slice::from_mut(&mut frame));
    }
    assert!(!tracked.tick_within(NOW, 100));
    assert_eq!(tracked.flush(NOW, &flush("zone=5")), Ok(2000));
    let iterations = (0..1000).take_while(|_| tracked.tick_within(NOW, 100)).count();
    assert!((10..999).contains(&iterations), "{iterations}");
    assert!(!tracked.drain());
}

#[test]
fn a_tuple_that_nobody_has_is_told() {
    let tracked = table();
    let words = "orig:ct_nw_src=9.9.9.9,ct_nw_dst=10.1.1.2,ct_nw_proto=17,ct_tp_src=1,ct_tp_dst=80";
    let error = tracked.flush(NOW, &flush(words)).unwrap_err().to_string();
    assert_eq!(error, "no connection has this original tuple in zone 0; give the tuple before NAT");
    assert_eq!(tracked.flush(NOW, &flush(&format!("mark=0 {words}"))), Ok(0));
}

/// One of a few values, so that requests sometimes match; mostly none.
fn perhaps<T>(values: &[T]) -> impl Strategy<Value = Option<T>> + use<T>
where
    T: Clone + std::fmt::Debug + 'static,
{
    prop_oneof![3 => Just(None), 2 => prop::sample::select(values.to_vec()).prop_map(Some)]
}

fn tuples() -> impl Strategy<Value = flow::TupleMatch> {
    let addresses = ["10.1.1.1", "10.1.1.2", "20.0.0.1", "30.0.0.1", "fd00::1", "fd00::2"]
        .map(|text| text.parse().unwrap());
    let ports = [1, 2, 3, 4, 5, 9, 53, 80];
    (
        (perhaps(&addresses), perhaps(&addresses), perhaps(&ports), perhaps(&ports)),
        (perhaps(&[6_u16, 7]), perhaps(&[0_u8, 8]), perhaps(&[0_u8])),
    )
        .prop_map(|((src, dst, src_port, dst_port), (icmp_id, icmp_type, icmp_code))| {
            flow::TupleMatch { src, dst, src_port, dst_port, icmp_id, icmp_type, icmp_code }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lookups and walks remove the same connections as a comparison with each entry of a dump.
    #[test]
    fn any_flush_takes_what_an_oracle_says(
        zone in perhaps(&[0, 5, 6, 7, 8]),
        protocol in perhaps(&[1, 6, 17, 47, 132]),
        (original, reply) in (tuples(), tuples()),
        mark in perhaps(&[(0xaa, u32::MAX), (0, 1), (2, 2)]),
        label in perhaps(&[(0xaa << 32, u128::MAX), (2 << 32, 2 << 32), (0, 1)]),
    ) {
        let bits = |(value, mask)| Masked { value, mask };
        let label = label.map(|(value, mask)| Masked { value, mask });
        let flush = CtFlush {
            zone: zone.map(Zone), protocol, original, reply, mark: mark.map(bits), label,
        };
        let fits = |entry: &Entry| {
            flush.zone.is_none_or(|it| it == entry.zone)
                && protocol.is_none_or(|it| it == entry.original.protocol)
                && original.matches(&entry.original)
                && reply.matches(&entry.reply)
                && mark.is_none_or(|(value, mask)| entry.mark & mask == value & mask)
                && label.is_none_or(|it| entry.label & it.mask == it.value & it.mask)
        };
        let tracked = table();
        let entries = support::dump(&tracked, NOW, None);
        let mut expect: Vec<u16> = entries.iter().filter(|entry| fits(entry)).map(name).collect();
        expect.sort_unstable();
        let gone = gone(&tracked, &flush);
        // A single complete original tuple is looked up in zone 0, in either direction.
        let is_plain = reply == flow::TupleMatch::default() && zone.is_none()
            && mark.is_none() && label.is_none() && original != flow::TupleMatch::default();
        if !(is_plain && is_quick(&flush)) {
            prop_assert_eq!(gone, expect, "{:?}", flush);
        }
    }
}
