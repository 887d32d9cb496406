use super::*;
use crate::{Envelope, Outer, TunnelConfig, build, finish};
use base::MacAddr;
use proptest::prelude::*;

fn config(kind: TunnelKind, options: &str) -> TunnelConfig {
    let options = options.split_whitespace().filter_map(|it| it.split_once('='));
    let options = options.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    TunnelConfig::parse(kind, "t", &options).config.unwrap()
}

fn outer(ends: [&str; 2], key: u64) -> Outer<'static> {
    let [source, destination] = ends.map(|ip| ip.parse().unwrap());
    Outer {
        ethernet: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        source,
        destination,
        tos: 0x20,
        ttl: 64,
        dont_fragment: true,
        checksum: false,
        oam: false,
        key,
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    }
}

const V4: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
const V6: [&str; 2] = ["fd00::1", "fd00::2"];
const INNER: [u8; 20] = [0x45, 0, 0, 20, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];

fn encapsulate(config: &TunnelConfig, outer: &Outer<'_>, inner: &[u8]) -> Vec<u8> {
    let mut frame = build(config, outer).unwrap().to_vec();
    frame.extend(inner);
    finish(&mut frame, config.kind, 40_000, &flow::TunnelSequence::default(), base::Instant::ZERO)
        .unwrap();
    frame
}

/// Decapsulation returns the encapsulated packet, and the checksums that receivers verify are correct.
fn check(config: &TunnelConfig, outer: &Outer<'_>, header_len: usize) {
    let frame = encapsulate(config, outer, &INNER);
    let found = decapsulate(config.end(), &frame, false).unwrap();
    assert_eq!((found.header_len, found.end), (header_len, frame.len()), "{config:?}");
    let inner = outer.packet.map_or(Inner::Frame, Inner::Packet);
    assert_eq!(found.inner, inner);
    let has_checksum = outer.checksum;
    let has_key = config.out_key != crate::Key::Absent || config.kind.protocol() == protocol::UDP;
    let is_bare = matches!(config.kind, TunnelKind::Bareudp | TunnelKind::Srv6);
    let expect = Metadata {
        source: outer.source,
        destination: outer.destination,
        tos: outer.tos,
        ttl: outer.ttl,
        key: (has_key && !is_bare).then_some(outer.key),
        checksum: has_checksum,
        oam: outer.oam,
        group: outer.group,
        erspan: outer.erspan,
        gtpu: outer.gtpu,
        options: outer.options,
    };
    assert_eq!(found.metadata, expect);
    // Padding of short frames is not part of the inner packet.
    let padded = [frame.as_slice(), &[0; 9]].concat();
    let found = decapsulate(config.end(), &padded, false).unwrap();
    assert_eq!(found.end, frame.len());
    for len in 0..frame.len() {
        assert!(decapsulate(config.end(), &frame[..len], false).is_err(), "{len} bytes");
    }
    for at in (0..frame.len() * 8).filter(|at| has_checksum && *at / 8 >= header_len) {
        let mut broken = frame.clone();
        broken[at / 8] ^= 1 << (at % 8);
        assert_eq!(decapsulate(config.end(), &broken, false), Err(PopError::Checksum));
        assert_ne!(decapsulate(config.end(), &broken, true), Err(PopError::Checksum));
    }
}

#[test]
fn what_goes_in_comes_out() {
    let flow = |kind| config(kind, "remote_ip=flow key=flow");
    for (ends, ip) in [(V4, 34), (V6, 54)] {
        for checksum in [false, true] {
            let outer = |key| Outer { checksum, ..outer(ends, key) };
            check(&flow(TunnelKind::Vxlan), &outer(0xab_cdef), ip + 16);
            let options = [0, 1, 0x83, 1, 1, 2, 3, 4];
            let geneve = Outer { options: &options, oam: true, ..outer(7) };
            check(&flow(TunnelKind::Geneve), &geneve, ip + 24);
            let words = usize::from(checksum) * 4;
            check(&flow(TunnelKind::Gre), &outer(0xffff_ffff), ip + 8 + words);
            let without = config(TunnelKind::Gre, "remote_ip=flow seq=true");
            check(&without, &outer(0), ip + 8 + words);
        }
        let gre = config(TunnelKind::Gre, "remote_ip=flow packet_type=legacy_l3");
        check(&gre, &Outer { packet: Some(0x0800), ..outer(ends, 0) }, ip + 4);
        let erspan = |erspan| Outer { erspan, ..outer(ends, 0x3ff) };
        check(&flow(TunnelKind::Erspan), &erspan((1, 0xf_ffff, 0, 0)), ip + 16);
        check(&flow(TunnelKind::Erspan), &erspan((2, 0, 1, 0x3f)), ip + 20);
        let ip6erspan = flow(TunnelKind::Ip6Erspan);
        check(&ip6erspan, &erspan((2, 0, 1, 0x3f)), ip + 20);
        let gtpu = Outer { gtpu: (0x30, 255), packet: Some(0x0800), ..outer(ends, 9) };
        check(&flow(TunnelKind::Gtpu), &gtpu, ip + 16);
        let bare = config(TunnelKind::Bareudp, "remote_ip=flow dst_port=6635 payload_type=ip");
        check(&bare, &Outer { packet: Some(0x0800), ..outer(ends, 0) }, ip + 8);
        let policy = config(TunnelKind::Vxlan, "remote_ip=flow key=flow exts=gbp");
        check(&policy, &Outer { group: (0x48, 0x1234), ..outer(ends, 5) }, ip + 16);
        let generic = config(TunnelKind::Vxlan, "remote_ip=flow key=flow exts=gpe");
        check(&generic, &outer(ends, 5), ip + 16);
        check(&generic, &Outer { packet: Some(0x0800), ..outer(ends, 5) }, ip + 16);
    }
}

#[test]
fn segments_stand_behind_the_outer_header() {
    let srv6 = |options: &str| config(TunnelKind::Srv6, &format!("remote_ip=flow {options}"));
    let outer = |packet| Outer { packet: Some(packet), ..outer(V6, 0) };
    check(&srv6(""), &outer(0x0800), 54 + 24);
    let label = |options, inner: &[u8], packet| {
        let frame = encapsulate(&srv6(options), &outer(packet), inner);
        wire::Ipv6::new_checked(&frame[14..]).unwrap().flow_label()
    };
    let mut v6 = [0; 40];
    v6[..4].copy_from_slice(&[0x61, 0x2a, 0xbc, 0xde]);
    assert_eq!(label("", &v6, 0x86dd), 0xa_bcde);
    assert_eq!(label("srv6_flowlabel=copy", &INNER, 0x0800), 0);
    assert_eq!(label("srv6_flowlabel=zero", &v6, 0x86dd), 0);
    assert_eq!(label("srv6_flowlabel=compute", &v6, 0x86dd), 40_000);
    // With several segments, the first one is the outer destination, where the packet is not decapsulated
    // yet.
    let several = srv6("srv6_segs=fd00::2,fd00::3,fd00::4");
    let mut frame = encapsulate(&several, &outer(0x0800), &INNER);
    let found = wire::Srv6::find(protocol::ROUTING, &frame[54..]).unwrap();
    assert_eq!((found.segments_left(), found.segments().count()), (2, 3));
    assert_eq!(decapsulate(TunnelKind::Srv6, &frame, false), Err(PopError::Payload));
    frame[54 + 3] = 0;
    let found = decapsulate(TunnelKind::Srv6, &frame, false).unwrap();
    assert_eq!((found.header_len, found.inner), (54 + 8 + 48, Inner::Packet(0x0800)));
    frame[54 + 2] = 0;
    assert_eq!(decapsulate(TunnelKind::Srv6, &frame, false), Err(PopError::Malformed));
    // Refused: a first segment other than the remote end, an IPv4 end, a frame.
    let other = srv6("srv6_segs=fd00::3");
    assert_eq!(build(&other, &outer(0x0800)), None);
    assert_eq!(build(&srv6(""), &Outer { packet: Some(0x0800), ..self::outer(V4, 0) }), None);
    assert_eq!(build(&srv6(""), &self::outer(V6, 0)), None);
}

#[test]
fn what_a_protocol_cannot_say_is_not_built() {
    let none = |kind, outer: Outer<'_>| {
        assert_eq!(build(&config(kind, "remote_ip=flow key=flow"), &outer), None);
    };
    none(TunnelKind::Vxlan, outer(V4, 1 << 24));
    none(TunnelKind::Geneve, outer(V4, 1 << 24));
    none(TunnelKind::Gre, outer(V4, 1 << 32));
    none(TunnelKind::Erspan, Outer { erspan: (1, 0, 0, 0), ..outer(V4, 0x400) });
    none(TunnelKind::Erspan, outer(V4, 1));
    none(TunnelKind::Vxlan, Outer { packet: Some(0x0800), ..outer(V4, 1) });
    none(TunnelKind::Gtpu, outer(V4, 1));
    none(TunnelKind::Vxlan, outer([V4[0], V6[0]], 1));
}

#[test]
fn a_group_policy_is_taken_only_where_the_port_has_one() {
    let with = config(TunnelKind::Vxlan, "remote_ip=flow exts=gbp");
    let frame = encapsulate(&with, &Outer { group: (0x48, 7), ..outer(V4, 1) }, &INNER);
    assert_eq!(decapsulate(with.end(), &frame, false).unwrap().metadata.group, (0x48, 7));
    let without = config(TunnelKind::Vxlan, "remote_ip=flow");
    assert_eq!(decapsulate(without.end(), &frame, false), Err(PopError::Payload));
    let frame = encapsulate(&with, &outer(V4, 1), &INNER);
    assert!(decapsulate(without.end(), &frame, false).is_ok(), "it has no group");
}

#[test]
fn bareudp_carries_what_its_payload_type_says() {
    let tunnel = |payload: &str| {
        config(TunnelKind::Bareudp, &format!("remote_ip=flow dst_port=6635 payload_type={payload}"))
    };
    let mut v6 = INNER;
    v6[0] = 0x60;
    let label = [&[0, 0, 0x11, 64][..], &INNER].concat();
    let check = |payload, packet, inner: &[u8], ends, expect: Option<u16>| {
        let outer = Outer { packet: Some(packet), ..outer(ends, 0) };
        let built = build(&tunnel(payload), &outer).is_some();
        assert_eq!(built, expect.is_some(), "{payload} {packet:#x}");
        // A header that another tunnel put in front.
        let frame = encapsulate(&tunnel("0"), &outer, inner);
        let found = decapsulate(tunnel(payload).end(), &frame, false);
        let expect = expect.map(Inner::Packet).ok_or(PopError::Payload);
        assert_eq!(found.map(|it| it.inner), expect, "{payload} {packet:#x}");
    };
    check("ip", 0x0800, &INNER, V4, Some(0x0800));
    check("ip", 0x86dd, &v6, V4, Some(0x86dd));
    check("ip", 0x8847, &label, V4, None);
    check("mpls", 0x8847, &label, V4, Some(0x8847));
    check("mpls", 0x8848, &label, ["10.0.0.1", "224.0.0.9"], Some(0x8848));
    // The first bits of a label may be those of IPv4.
    check("mpls", 0x8847, &INNER, V6, Some(0x8847));
    check("0x894f", 0x894f, &INNER, V4, Some(0x894f));
    assert_eq!(build(&tunnel("mpls"), &Outer { packet: Some(0x0800), ..outer(V4, 0) }), None);
}

#[test]
fn messages_of_gtpu_are_delivered_whole_and_optional_fields_are_not_sent() {
    let gtpu = config(TunnelKind::Gtpu, "remote_ip=flow key=flow");
    let header = |gtpu| Outer { gtpu, packet: Some(0x0800), ..outer(V4, 9) };
    for (kind, sent) in [(1, 0x30), (254, 0x32), (26, 0x37)] {
        let mut frame = encapsulate(&gtpu, &header((0x30, kind)), &INNER);
        frame[42] = sent;
        let found = decapsulate(TunnelKind::Gtpu, &frame, false).unwrap();
        assert_eq!((found.header_len, found.end, found.inner), (0, frame.len(), Inner::Frame));
        assert_eq!((found.metadata.gtpu, found.metadata.key), ((sent, kind), Some(9)));
    }
    // A packet that came with a sequence number goes on in another tunnel.
    for flags in [0x31, 0x32, 0x34, 0x37] {
        let frame = encapsulate(&gtpu, &header((flags, 255)), &INNER);
        let found = decapsulate(TunnelKind::Gtpu, &frame, false).unwrap();
        assert_eq!((found.header_len, found.metadata.gtpu), (50, (0x30, 255)));
        assert_eq!(&frame[found.header_len..found.end], INNER);
    }
}

#[test]
fn checksums_are_as_configured() {
    let check = |kind, csum: &str, expect: [bool; 2]| {
        let config = config(kind, &format!("remote_ip=flow {csum}"));
        for (is_ipv6, expect) in [false, true].into_iter().zip(expect) {
            let checksum = config.has_checksum(is_ipv6);
            assert_eq!(checksum, expect, "{kind:?} {csum} {is_ipv6}");
            let frame = encapsulate(
                &config,
                &Outer { checksum, ..outer(if is_ipv6 { V6 } else { V4 }, 1) },
                &INNER,
            );
            let found = decapsulate(kind, &frame, false).unwrap();
            assert_eq!(found.metadata.checksum, expect, "{kind:?} {csum} {is_ipv6}");
        }
    };
    for kind in [TunnelKind::Vxlan, TunnelKind::Geneve] {
        check(kind, "", [false, true]);
        check(kind, "csum=true", [true, true]);
        check(kind, "csum=false", [false, false]);
    }
    check(TunnelKind::Gre, "", [false, false]);
    check(TunnelKind::Gre, "csum=true", [true, true]);
}

#[test]
fn each_packet_has_the_next_number_and_erspan_its_time() {
    let sequence = flow::TunnelSequence::default();
    let at = |version, ms: u64| {
        let config = config(TunnelKind::Erspan, "remote_ip=flow key=flow");
        let outer = Outer { erspan: (version, 0, 1, 7), ..outer(V4, 5) };
        let mut frame = build(&config, &outer).unwrap().to_vec();
        frame.extend(INNER);
        let now = base::Instant::from_millis(ms);
        finish(&mut frame, config.kind, 0, &sequence.clone(), now).unwrap();
        let word = |at| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        // The number, and of version 2 the time, of version 1 the index.
        [word(38), word(46)]
    };
    assert_eq!(at(2, 0), [0, 0]);
    assert_eq!(at(2, 12_345), [1, 123_450]);
    assert_eq!(at(1, 12_345), [2, 0]);
    // 32 bits last for some five days.
    assert_eq!(at(2, 500_000_000), [3, 5_000_000_000u64 as u32]);
}

#[test]
fn packets_of_other_protocols_are_refused() {
    let vxlan = encapsulate(&config(TunnelKind::Vxlan, "remote_ip=flow"), &outer(V4, 1), &INNER);
    let refused = |change: &dyn Fn(&mut Vec<u8>), expect| {
        let mut frame = vxlan.clone();
        change(&mut frame);
        assert_eq!(decapsulate(TunnelKind::Vxlan, &frame, true).map(|_| ()), Err(expect));
    };
    refused(&|frame| frame[42] = 0, PopError::Malformed);
    refused(&|frame| frame[49] = 1, PopError::Malformed);
    refused(&|frame| frame[13] = 6, PopError::Malformed);
    refused(&|frame| frame[24] ^= 1, PopError::Malformed);
    refused(&|frame| frame[39] += 1, PopError::Malformed);
    refused(&|frame| frame[39] = 7, PopError::Malformed);
    refused(&|frame| (frame[42], frame[45]) = (0x0c, 5), PopError::Payload);
    let gre = config(TunnelKind::Erspan, "remote_ip=flow erspan_ver=1");
    let frame = encapsulate(&gre, &Outer { erspan: (1, 0, 0, 0), ..outer(V4, 1) }, &INNER);
    assert_eq!(decapsulate(TunnelKind::Gre, &frame, true).map(|_| ()), Err(PopError::Payload));
}

#[test]
fn extension_headers_of_outer_packets_are_skipped() {
    /// Puts extension headers behind the outer IPv6 header.
    fn with(frame: &[u8], first: u8, headers: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        frame[20] = first;
        let len = u16::from_be_bytes([frame[18], frame[19]]) + headers.len() as u16;
        frame[18..20].copy_from_slice(&len.to_be_bytes());
        frame.splice(54..54, headers.iter().copied());
        frame
    }
    for (kind, next) in [(TunnelKind::Geneve, 17), (TunnelKind::Vxlan, 17), (TunnelKind::Gre, 47)] {
        let outer = Outer { checksum: true, ..outer(V6, 7) };
        let plain = encapsulate(&config(kind, "remote_ip=flow key=7 csum=true"), &outer, &INNER);
        let known = decapsulate(kind, &plain, false).unwrap();
        let hop_by_hop = [60, 0, 1, 4, 0, 0, 0, 0];
        let options = [next, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let frame = with(&plain, 0, &[&hop_by_hop[..], &options].concat());
        let found = decapsulate(kind, &frame, false).unwrap();
        assert_eq!(found.metadata, known.metadata, "{kind:?}");
        assert_eq!(found.header_len, known.header_len + 24);
        assert_eq!(&frame[found.header_len..found.end], &INNER);
        let mut broken = frame.clone();
        *broken.last_mut().unwrap() ^= 1;
        assert_eq!(decapsulate(kind, &broken, false), Err(PopError::Checksum));
        // An atomic fragment is a whole packet (RFC 6946).
        let fragment = |last| [next, 0, 0, last, 0, 0, 0, 9];
        assert!(decapsulate(kind, &with(&plain, 44, &fragment(0)), false).is_ok());
        let mut routing = [next, 2, 4, 0, 0, 0, 0, 0].to_vec();
        routing.extend([0; 16]);
        assert!(decapsulate(kind, &with(&plain, 43, &routing), true).is_ok());
        routing[3] = 1;
        for (first, headers) in [
            (44, &fragment(1)[..]),
            (44, &fragment(8)),
            (43, &routing),
            (60, &[next, 200, 0, 0, 0, 0, 0, 0]),
            (60, &[59, 0, 1, 4, 0, 0, 0, 0]),
        ] {
            let frame = with(&plain, first, headers);
            assert_eq!(decapsulate(kind, &frame, true), Err(PopError::Malformed), "{headers:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(
        kind in 0..TunnelKind::ALL.len(),
        at in 0usize..80,
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        trusted: bool,
    ) {
        let kind = TunnelKind::ALL[kind];
        let frame = encapsulate(&config(TunnelKind::Geneve, "remote_ip=flow"), &outer(V4, 1), &INNER);
        let mut frame = frame;
        for (place, byte) in frame.iter_mut().skip(at).zip(&bytes) {
            *place = *byte;
        }
        for frame in [&frame[..], &bytes] {
            if let Ok(found) = decapsulate(kind, frame, trusted) {
                prop_assert!(found.header_len <= found.end && found.end <= frame.len());
            }
        }
    }
}

proptest! {
    /// [`Envelope`] and [`decapsulate`] agree on packets that equal an accepted one.
    #[test]
    fn envelopes_agree_with_the_whole_reading(
        kind in 0usize..3,
        (is_ipv6, checksum, trusted) in any::<(bool, bool, bool)>(),
        changes in prop::collection::vec((0usize..90, any::<u8>()), 0..3),
        padding in 0usize..4,
    ) {
        let kind = [TunnelKind::Vxlan, TunnelKind::Geneve, TunnelKind::Gre][kind];
        let config = config(kind, "remote_ip=flow key=flow");
        let ends = if is_ipv6 { V6 } else { V4 };
        let options = [0, 1, 3, 1, 1, 2, 3, 4];
        let is_geneve = kind == TunnelKind::Geneve;
        let options: &[u8] = if is_geneve { &options } else { &[] };
        let checksum = checksum && kind != TunnelKind::Gre;
        let good = encapsulate(&config, &Outer { options, checksum, ..outer(ends, 0x12_3456) }, &INNER);
        let known = Envelope::read(kind, &good).unwrap();
        let mut frame = [good.clone(), vec![0; padding]].concat();
        for (at, byte) in changes {
            let at = at % frame.len();
            frame[at] = byte;
        }
        // Conditions that hold for ordinary packets: the protocol, no options, no fragment.
        let fixed = if is_ipv6 { vec![12, 13, 14, 20] } else { vec![12, 13, 14, 20, 21, 23] };
        let is_ordinary = fixed.iter().all(|&at| frame[at] == good[at]);
        let mask = Envelope::word_mask(kind, 0);
        let found = Envelope::read(kind, &frame).filter(|it| {
            (it.word & mask, it.options, it.has_checksum)
                == (known.word & mask, known.options, known.has_checksum)
        });
        let whole = decapsulate(kind, &frame, trusted);
        if let Some(found) = found && is_ordinary && found.is_right(&frame, trusted) {
            let whole = whole.unwrap();
            prop_assert_eq!((found.len, found.end), (whole.header_len, whole.end));
            prop_assert_eq!(whole.inner, Inner::Frame);
            let key = found.word & !mask;
            let key = if kind == TunnelKind::Gre { key } else { key >> 8 };
            prop_assert_eq!(whole.metadata.key, Some(key));
            prop_assert_eq!(whole.metadata.checksum, found.has_checksum);
            prop_assert_eq!(whole.metadata.options, found.options);
        } else if frame[..good.len()] == good {
            prop_assert!(false, "it is as the known one");
        }
    }
}
