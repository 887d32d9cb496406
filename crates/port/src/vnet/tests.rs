use super::*;
use crate::fault::Prng;
use crate::offload::{complete_checksum, segment};
use packet::{Offload, Pool};
use wire::checksum::{combine, crc32c, pseudo_v4, pseudo_v6, sum};

/// The headers of a frame for a table of cases, outermost first.
#[derive(Clone, Copy, PartialEq, Debug)]
enum H {
    Eth,
    Vlan,
    V4,
    V6,
    Udp {
        checksum: bool,
    },
    Tcp,
    Sctp,
    Vxlan,
    /// With options of 4 bytes.
    Geneve,
    Gre {
        checksum: bool,
        key: bool,
    },
    Mpls,
    Icmp,
}
use H::*;

const ADDRESSES: [[u8; 4]; 2] = [[10, 1, 1, 1], [10, 1, 1, 2]];

fn bytes_of(header: H) -> usize {
    match header {
        Eth => 14,
        Vlan | Mpls => 4,
        V4 | Tcp => 20,
        V6 => 40,
        Udp { .. } | Vxlan | Icmp => 8,
        Sctp | Geneve => 12,
        Gre { checksum, key } => 4 + if checksum { 4 } else { 0 } + if key { 4 } else { 0 },
    }
}

/// The Ethernet type or IP protocol by which the header before says which one follows.
fn number(header: H, after_ip: bool) -> u16 {
    match (header, after_ip) {
        (Eth, _) => 0x6558,
        (Vlan, _) => 0x8100,
        (V4, false) => 0x0800,
        (V6, false) => 0x86dd,
        (V4, true) => 4,
        (V6, true) => 41,
        (Mpls, _) => 0x8847,
        (Udp { .. }, _) => 17,
        (Tcp, _) => 6,
        (Sctp, _) => 132,
        (Gre { .. }, _) => 47,
        (Icmp, _) => 1,
        (Vxlan | Geneve, _) => unreachable!(),
    }
}

/// Builds a frame with these headers and payload, and the offset of each header. `id` is that of each IPv4 header.
/// All checksums are right, but in the last header there is the sum of the pseudo header if it is `partial`, and in
/// those before what results when the last one is right, as the kernel leaves them.
fn build(headers: &[H], payload: &[u8], id: u16, sequence: u32, partial: bool) -> Vec<u8> {
    let mut offsets = Vec::new();
    let mut f = Vec::new();
    for header in headers {
        offsets.push(f.len());
        f.extend(vec![0; bytes_of(*header)]);
    }
    f.extend(payload);
    let len = f.len();
    for (i, header) in headers.iter().enumerate().rev() {
        let at = offsets[i];
        let next = headers.get(i + 1).copied();
        let put = |f: &mut Vec<u8>, at: usize, value: u16| {
            f[at..at + 2].copy_from_slice(&value.to_be_bytes());
        };
        let is_last = next.is_none();
        // The sum of the pseudo header from the IP header before.
        let pseudo = |protocol: u8| match headers[i - 1] {
            V6 => pseudo_v6([0xfd; 16].into(), [0xfe; 16].into(), protocol, len - at),
            _ => pseudo_v4(ADDRESSES[0].into(), ADDRESSES[1].into(), protocol, len - at),
        };
        let next_is = |after_ip| next.map_or(0, |next| number(next, after_ip));
        match *header {
            Eth => {
                f[at..at + 12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
                put(&mut f, at + 12, next_is(false));
            }
            Vlan => {
                put(&mut f, at, 5);
                put(&mut f, at + 2, next_is(false));
            }
            // The last label, then the packet.
            Mpls => f[at..at + 4].copy_from_slice(&[0, 1, 1, 64]),
            V4 => {
                f[at] = 0x45;
                put(&mut f, at + 2, (len - at) as u16);
                put(&mut f, at + 4, id);
                (f[at + 8], f[at + 9]) = (64, next_is(true) as u8);
                f[at + 12..at + 20].copy_from_slice(&ADDRESSES.concat());
                let computed = !sum(&f[at..at + 20]);
                put(&mut f, at + 10, computed);
            }
            V6 => {
                f[at] = 0x60;
                put(&mut f, at + 4, (len - at - 40) as u16);
                (f[at + 6], f[at + 7]) = (next_is(true) as u8, 64);
                f[at + 8..at + 24].fill(0xfd);
                f[at + 24..at + 40].fill(0xfe);
            }
            Udp { checksum } => {
                put(&mut f, at, 1000);
                put(&mut f, at + 2, if next == Some(Geneve) { 6081 } else { 4789 });
                put(&mut f, at + 4, (len - at) as u16);
                let computed = !combine(pseudo(17), sum(&f[at..]));
                let value = if partial && is_last { pseudo(17) } else { computed };
                put(&mut f, at + 6, if checksum || is_last { value } else { 0 });
            }
            Tcp => {
                put(&mut f, at, 1000);
                put(&mut f, at + 2, 80);
                f[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
                (f[at + 12], f[at + 13]) = (0x50, 0x10);
                let computed = !combine(pseudo(6), sum(&f[at..]));
                put(&mut f, at + 16, if partial && is_last { pseudo(6) } else { computed });
            }
            Sctp => {
                put(&mut f, at, 1000);
                put(&mut f, at + 2, 80);
                let crc = crc32c(&f[at..]).to_le_bytes();
                f[at + 8..at + 12].copy_from_slice(if partial { &[0; 4] } else { &crc });
            }
            Vxlan => f[at] = 8,
            Geneve => {
                f[at] = 1;
                put(&mut f, at + 2, 0x6558);
                f[at + 8..at + 12].copy_from_slice(&[1, 2, 3, 0]);
            }
            Gre { checksum, key } => {
                let flags = if checksum { 0x8000 } else { 0 } | if key { 0x2000 } else { 0 };
                put(&mut f, at, flags);
                put(&mut f, at + 2, next_is(false));
                if checksum {
                    let computed = !sum(&f[at..]);
                    put(&mut f, at + 4, computed);
                }
            }
            Icmp => {
                f[at] = 8;
                let computed = !sum(&f[at..]);
                put(&mut f, at + 2, if partial { 0 } else { computed });
            }
        }
    }
    f
}

/// With checksums in the outer headers as they are when the last one is complete.
fn build_partial(headers: &[H], payload: &[u8]) -> Vec<u8> {
    let mut whole = build(headers, payload, 7, 100, false);
    let partial = build(headers, payload, 7, 100, true);
    let start = start_of(headers);
    let bytes = bytes_of(headers[headers.len() - 1]);
    whole[start..start + bytes].copy_from_slice(&partial[start..start + bytes]);
    whole
}

fn start_of(headers: &[H]) -> usize {
    headers[..headers.len() - 1].iter().copied().map(bytes_of).sum()
}

fn header(needs: bool, gso: u8, size: u16, start: usize, offset: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    (header[0], header[1]) = (u8::from(needs), gso);
    header[4..6].copy_from_slice(&size.to_ne_bytes());
    header[6..8].copy_from_slice(&(start as u16).to_ne_bytes());
    header[8..10].copy_from_slice(&(offset as u16).to_ne_bytes());
    header
}

/// What is received of a frame; none if it is refused.
fn received(header: &[u8; HEADER_BYTES], frame: &[u8]) -> Option<Vec<Packet>> {
    let (mut packet, mut pool, mut all) = (Packet::from_bytes(frame), Pool::new(4), Vec::new());
    let received = decode(header, 0, &mut packet)?;
    let (mut backlog, mut batch) = (Backlog::default(), packet::Batch::new());
    backlog.receive(packet, received, &mut batch);
    loop {
        backlog.continue_with(&mut pool, &mut batch);
        let is_last = backlog.is_empty();
        all.extend(batch.drain(..));
        if is_last {
            return Some(all);
        }
    }
}

const UDP: H = Udp { checksum: true };
const TUNNELS: [&[H]; 20] = [
    &[Eth, V4, Udp { checksum: false }, Vxlan, Eth],
    &[Eth, V4, UDP, Vxlan, Eth],
    &[Eth, V6, UDP, Vxlan, Eth],
    &[Eth, V6, Udp { checksum: false }, Vxlan, Eth],
    &[Eth, Vlan, V4, UDP, Vxlan, Eth, Vlan],
    &[Eth, V4, UDP, Geneve, Eth],
    &[Eth, V4, Udp { checksum: false }, Geneve, Eth],
    &[Eth, V6, UDP, Geneve, Eth],
    &[Eth, V4, Gre { checksum: false, key: false }],
    &[Eth, V4, Gre { checksum: true, key: true }],
    &[Eth, V6, Gre { checksum: true, key: false }],
    &[Eth, V4, Gre { checksum: false, key: true }, Eth],
    &[Eth, V6, Gre { checksum: true, key: true }, Eth],
    // IPIP, SIT and the like.
    &[Eth, V4],
    &[Eth, V6],
    // FOU.
    &[Eth, V4, UDP],
    &[Eth, V6, Udp { checksum: false }],
    &[Eth, Mpls],
    &[Eth, Vlan, Mpls, Mpls],
    &[Eth, Vlan, Vlan, V4, UDP, Vxlan, Eth],
];
const INNER: [(&[H], u8, usize); 4] = [
    (&[V4, Tcp], GSO_TCPV4, 16),
    (&[V6, Tcp], GSO_TCPV6, 16),
    (&[V4, UDP], GSO_UDP_L4, 6),
    (&[V6, UDP], GSO_UDP_L4, 6),
];

#[test]
fn segments_in_tunnels_are_those_that_the_sender_would_have_sent_itself() {
    for tunnel in TUNNELS {
        for (inner, gso, offset) in INNER {
            let headers = [tunnel, inner].concat();
            let payload: Vec<u8> = (0..2500u16).map(|i| (i / 7) as u8).collect();
            let frame = build_partial(&headers, &payload);
            let header = header(true, gso, 1000, start_of(&headers), offset);
            let pieces = received(&header, &frame).unwrap();
            let expect: Vec<Vec<u8>> = (0..3)
                .map(|i| {
                    let part = &payload[i * 1000..2500.min((i + 1) * 1000)];
                    build(&headers, part, 7 + i as u16, 100 + 1000 * i as u32, false)
                })
                .collect();
            let data: Vec<_> = pieces.iter().map(|it| it.data().to_vec()).collect();
            assert_eq!(data, expect, "{headers:?}");
            let done = Offload { checksum: Checksum::Good, gso: None };
            assert!(pieces.iter().all(|it| it.offload == done));
        }
    }
}

#[test]
fn a_partial_checksum_within_a_tunnel_is_completed_at_reception() {
    for tunnel in TUNNELS {
        for (inner, _, offset) in INNER.into_iter().chain([(&[V4, Sctp][..], 0, 8)]) {
            let headers = [tunnel, inner].concat();
            let frame = build_partial(&headers, &[0x5a; 101]);
            let header = header(true, 0, 0, start_of(&headers), offset);
            let pieces = received(&header, &frame).unwrap();
            assert_eq!(pieces[0].data(), build(&headers, &[0x5a; 101], 7, 100, false));
            assert_eq!(pieces[0].offload, Offload::default(), "{headers:?}");
        }
    }
}

#[test]
fn a_partial_checksum_is_carried_on_only_as_that_of_the_transport_header() {
    for outer in [&[Eth][..], &[Eth, Vlan], &[Eth, Vlan, Vlan, Vlan]] {
        for (inner, offset, is_carried) in [
            (&[V4, Tcp][..], 16, true),
            (&[V6, Tcp], 16, true),
            (&[V4, UDP], 6, true),
            (&[V6, UDP], 6, true),
            (&[V4, Sctp], 8, false),
            (&[V6, Sctp], 8, false),
            (&[V4, Icmp], 2, false),
        ] {
            let headers = [outer, inner].concat();
            let (frame, start) = (build_partial(&headers, &[0x5a; 33]), start_of(&headers));
            let whole = build(&headers, &[0x5a; 33], 7, 100, false);
            let mut packet =
                received(&header(true, 0, 0, start, offset), &frame).unwrap().remove(0);
            let is_partial = packet.offload.checksum == Checksum::Partial;
            assert_eq!((is_partial, packet.data() == frame), (is_carried, is_carried));
            complete_checksum(&mut packet);
            assert_eq!(packet.data(), whole, "{headers:?}");
            // Any other place is written now or never.
            for (start, offset) in
                (0..frame.len()).flat_map(|at| [(at, 2), (at, 6), (at, 12), (at, 16)])
            {
                let place = (start_of(&headers), if inner.contains(&Tcp) { 16 } else { 6 });
                let Some(mut all) = received(&header(true, 0, 0, start, offset), &frame) else {
                    assert!(start + offset + 2 > frame.len());
                    continue;
                };
                let seen = all[0].data().to_vec();
                let is_partial = all[0].offload.checksum == Checksum::Partial;
                assert_eq!(is_partial, is_carried && (start, offset) == place, "{start}+{offset}");
                complete_checksum(&mut all[0]);
                assert!(is_partial || all[0].data() == seen);
            }
        }
    }
    // A fragment has no checksum of its own, and a packet that is cut none at all.
    let mut fragment = build_partial(&[Eth, V4, UDP], &[1; 30]);
    fragment[20] = 0x20;
    let mut long = build_partial(&[Eth, V4, UDP], &[1; 30]);
    long[17] += 1;
    let mut no_header = build_partial(&[Eth, V4, Tcp], &[1; 30]);
    no_header[34 + 12] = 0x40;
    for (frame, offset) in [(fragment, 6), (long, 6), (no_header, 16)] {
        let packet = received(&header(true, 0, 0, 34, offset), &frame).unwrap().remove(0);
        assert_eq!(packet.offload.checksum, Checksum::Unverified);
        assert_ne!(packet.data(), frame);
    }
}

#[test]
fn decode_is_the_inverse_of_encode() {
    let mut prng = Prng::new(1);
    for round in 0..20_000 {
        let outer = [&[Eth][..], &[Eth, Vlan], &[Eth, Vlan, Vlan]][prng.below(3) as usize];
        let kind = [GsoKind::TcpV4, GsoKind::TcpV6, GsoKind::UdpL4][prng.below(3) as usize];
        let (inner, least): (&[H], u64) = match kind {
            GsoKind::TcpV4 => (&[V4, Tcp], 1),
            GsoKind::TcpV6 => (&[V6, Tcp], 1),
            GsoKind::UdpL4 => (&[V4, UDP], 1),
        };
        let mut packet = Packet::from_bytes(&build_partial(&[outer, inner].concat(), &[3; 100]));
        let states = [Checksum::Unverified, Checksum::Good, Checksum::Partial];
        let segment_bytes = (least + prng.below(65535)) as u16;
        let gso = Gso { kind, segment_bytes, ecn: prng.below(2) == 1 };
        packet.offload = Offload {
            checksum: states[prng.below(3) as usize],
            gso: (prng.below(2) == 1).then_some(gso),
        };
        let mut again = Packet::from_bytes(packet.data());
        assert!(matches!(decode(&encode(&packet), 0, &mut again), Some(Received::Whole)));
        assert_eq!(again.offload, packet.offload, "round {round}");
    }
}

#[test]
fn any_header_over_any_frame_is_received_or_refused() {
    let mut prng = Prng::new(2);
    let frames = [
        build(&[Eth, V4, Tcp], &[7; 300], 1, 1, false),
        build(&[Eth, V6, UDP, Vxlan, Eth, V4, Tcp], &[7; 300], 1, 1, false),
        build(&[Eth, V4, Gre { checksum: true, key: false }, V6, UDP], &[7; 300], 1, 1, false),
        build(&[Eth, Mpls, V4, Sctp], &[7; 300], 1, 1, false),
    ];
    let mut pool = Pool::new(8);
    for _ in 0..50_000 {
        let mut header = [0; HEADER_BYTES];
        header.iter_mut().for_each(|b| *b = prng.below(256) as u8);
        header[7] = prng.below(2) as u8;
        header[1] = [0, 1, 4, 5, header[1]][prng.below(5) as usize];
        let full = &frames[prng.below(4) as usize];
        let mut bytes = full[..prng.below(full.len() as u64 + 1) as usize].to_vec();
        if let Some(byte) = bytes.get_mut(prng.below(60) as usize) {
            *byte = prng.below(256) as u8;
        }
        for mut packet in received(&header, &bytes).into_iter().flatten() {
            let seen = packet.data().to_vec();
            if packet.offload.gso.is_some() {
                assert!(segment(&packet, &mut pool, |_| ()));
            }
            let was = packet.offload.checksum;
            complete_checksum(&mut packet);
            assert!(was == Checksum::Partial || packet.data() == seen);
            assert!(was != Checksum::Partial || packet.offload.checksum == Checksum::Good);
        }
    }
}

#[test]
fn segmentation_that_contradicts_the_frame_is_refused() {
    let frame = build_partial(&[Eth, V4, Tcp], &[7; 300]);
    for header in [
        header(false, 3, 100, 0, 0),
        header(false, 2, 100, 0, 0),
        header(false, 0x7f, 100, 0, 0),
        header(false, GSO_TCPV4, 0, 0, 0),
        header(false, GSO_ECN, 100, 0, 0),
        header(false, GSO_TCPV6, 100, 0, 0),
        header(true, GSO_TCPV4, 100, 34, 12),
        header(true, GSO_TCPV4, 100, 30, 16),
        header(true, GSO_UDP_L4, 100, 34, 6),
    ] {
        assert!(received(&header, &frame).is_none(), "{header:?}");
    }
    // Each segment would need a sequence number of its own.
    let headers = [Eth, V4, Gre { checksum: false, key: true }, V4, Tcp];
    let mut frame = build_partial(&headers, &[7; 300]);
    let header = header(true, GSO_TCPV4, 100, start_of(&headers), 16);
    assert_eq!(received(&header, &frame).map(|all| all.len()), Some(3));
    frame[34] = 0x10;
    assert!(received(&header, &frame).is_none());
    // Bytes behind the outer packet would become part of it.
    let headers = [Eth, V4, UDP, Vxlan, Eth, V4, Tcp];
    let mut frame = build_partial(&headers, &[7; 300]);
    frame[17] -= 1;
    assert!(
        received(&self::header(true, GSO_TCPV4, 100, start_of(&headers), 16), &frame).is_none()
    );
}
