use super::layout::{Layout, get_u16, put_u16};
use super::*;
use packet::{Checksum, Gso, GsoKind, Offload, Packet, Pool};
use wire::checksum::{combine, sum};

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;
const TCP_FLAGS_ALL: u8 = TCP_CWR | 0x10 | TCP_PSH | TCP_FIN;

/// Returns an Ethernet frame (with a VLAN tag if requested) with an IP header, the given transport header and
/// a payload that counts up; lengths cover the whole frame.
fn frame(vlan: bool, ipv6: bool, protocol: u8, transport: &[u8], payload_bytes: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if vlan {
        f.extend([0x81, 0, 0, 7]);
    }
    let length = (transport.len() + payload_bytes) as u16;
    if ipv6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend(length.to_be_bytes());
        f.extend([protocol, 64]);
        f.extend((1..=32).collect::<Vec<u8>>());
    } else {
        f.extend([0x08, 0, 0x45, 0]);
        f.extend((length + 20).to_be_bytes());
        f.extend([0xff, 0xff, 0x40, 0, 64, protocol, 0, 0, 10, 1, 1, 1, 10, 1, 1, 2]);
    }
    f.extend(transport);
    f.extend((0..payload_bytes).map(|i| i as u8));
    f
}

fn tcp_header() -> Vec<u8> {
    let mut header = vec![0x12, 0x34, 0, 80, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x80, TCP_FLAGS_ALL];
    header.extend([1, 0, 0, 0, 0, 0]);
    header.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    header
}

/// The receiver's check, independent of the code under test: the words of pseudo header and segment add up to
/// all ones.
fn transport_verifies(frame: &[u8]) -> bool {
    let at = Layout::of(frame).unwrap();
    let length = frame.len() - at.transport;
    combine(at.pseudo_header_sum(frame, length).unwrap(), sum(&frame[at.transport..])) == 0xffff
}

fn cut(packet: &Packet) -> Option<Vec<Packet>> {
    let mut pieces = Vec::new();
    segment(packet, &mut Pool::new(4), |piece| pieces.push(piece)).then_some(pieces)
}

#[test]
fn tcp_is_cut_as_the_kernel_cuts_it() {
    for (vlan, ipv6) in [(false, false), (true, false), (false, true), (true, true)] {
        let bytes = frame(vlan, ipv6, 6, &tcp_header(), 3500);
        let kind = if ipv6 { GsoKind::TcpV6 } else { GsoKind::TcpV4 };
        let mut packet = Packet::from_bytes(&bytes);
        packet.offload.gso = Some(Gso { kind, segment_bytes: 1448, ecn: true });
        let pieces = cut(&packet).unwrap();
        assert_eq!(pieces.len(), 3);
        let at = Layout::of(&bytes).unwrap();
        let header = at.transport + 32;
        let mut payload: Vec<u8> = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            let data = piece.data();
            assert!(transport_verifies(data), "vlan {vlan} ipv6 {ipv6} segment {i}");
            assert_eq!(piece.offload, Offload { checksum: Checksum::Good, gso: None });
            let sequence =
                u32::from_be_bytes(data[at.transport + 4..at.transport + 8].try_into().unwrap());
            assert_eq!(sequence, 0xffff_ff00u32.wrapping_add(1448 * i as u32));
            let expect = [TCP_CWR | 0x10, 0x10, 0x10 | TCP_PSH | TCP_FIN][i];
            assert_eq!(data[at.transport + 13], expect, "flags of segment {i}");
            if ipv6 {
                assert_eq!(
                    get_u16(data, at.network + 4),
                    Some((data.len() - at.network - 40) as u16)
                );
            } else {
                assert_eq!(get_u16(data, at.network + 2), Some((data.len() - at.network) as u16));
                assert_eq!(get_u16(data, at.network + 4), Some(0xffffu16.wrapping_add(i as u16)));
                assert_eq!(sum(&data[at.network..at.transport]), 0xffff);
            }
            payload.extend(&data[header..]);
        }
        assert_eq!(payload, bytes[header..]);
    }
}

#[test]
fn udp_becomes_datagrams_of_their_own() {
    for ipv6 in [false, true] {
        let bytes = frame(false, ipv6, 17, &[0, 53, 0, 54, 0, 0, 0, 0], 1001);
        let mut packet = Packet::from_bytes(&bytes);
        packet.offload.gso = Some(Gso { kind: GsoKind::UdpL4, segment_bytes: 500, ecn: false });
        let pieces = cut(&packet).unwrap();
        let at = Layout::of(&bytes).unwrap().transport;
        let lengths: Vec<_> = pieces.iter().map(|p| get_u16(p.data(), at + 4).unwrap()).collect();
        assert_eq!(lengths, [508, 508, 9]);
        assert!(pieces.iter().all(|p| transport_verifies(p.data())));
    }
}

#[test]
fn a_partial_checksum_is_finished() {
    for (protocol, transport, offset) in
        [(6u8, tcp_header(), 16u16), (17, vec![0, 53, 0, 54, 0, 29, 0, 0], 6)]
    {
        let mut bytes = frame(false, false, protocol, &transport, 21);
        let at = Layout::of(&bytes).unwrap();
        let length = bytes.len() - at.transport;
        let pseudo = at.pseudo_header_sum(&bytes, length).unwrap();
        put_u16(&mut bytes, at.transport + usize::from(offset), pseudo).unwrap();
        let mut packet = Packet::from_bytes(&bytes);
        packet.offload.checksum = Checksum::Partial;
        complete_checksum(&mut packet);
        assert_eq!(packet.offload.checksum, Checksum::Good);
        assert!(transport_verifies(packet.data()));
    }
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    let mut bytes = frame(false, false, 17, &[0, 53, 0, 54, 0, 8, 0, 0], 0);
    let at = Layout::of(&bytes).unwrap().transport;
    // All words together make 0xffff, whose complement is zero.
    let rest = !sum(&bytes[at..]);
    put_u16(&mut bytes, at + 6, rest).unwrap();
    let mut packet = Packet::from_bytes(&bytes);
    packet.offload.checksum = Checksum::Partial;
    complete_checksum(&mut packet);
    assert_eq!(packet.data()[at + 6..], [0xff, 0xff]);
}

#[test]
fn lies_are_refused_without_output() {
    let good = frame(false, false, 6, &tcp_header(), 100);
    let gso = |kind, segment_bytes| Some(Gso { kind, segment_bytes, ecn: false });
    let mut cases = vec![
        (good.clone(), gso(GsoKind::TcpV6, 50)),
        (good.clone(), gso(GsoKind::UdpL4, 50)),
        (good.clone(), gso(GsoKind::TcpV4, 0)),
    ];
    // A frame truncated within its headers cannot be segmented.
    for len in 0..66 {
        cases.push((good[..len].to_vec(), gso(GsoKind::TcpV4, 50)));
    }
    let mut short_tcp_header = good.clone();
    short_tcp_header[14 + 20 + 12] = 0x40;
    cases.push((short_tcp_header, gso(GsoKind::TcpV4, 50)));
    for (i, (bytes, gso)) in cases.into_iter().enumerate() {
        let mut packet = Packet::from_bytes(&bytes);
        packet.offload.gso = gso;
        assert!(cut(&packet).is_none(), "case {i}");
    }
    // Without a header whose checksum it can be, nothing is written.
    let mut fragment = good.clone();
    fragment[14 + 6] = 0x20;
    let mut icmp = good.clone();
    icmp[14 + 9] = 1;
    for bytes in [vec![0; 20], vec![0; 70], good[..60].to_vec(), fragment, icmp] {
        let mut packet = Packet::from_bytes(&bytes);
        packet.offload.checksum = Checksum::Partial;
        complete_checksum(&mut packet);
        assert_eq!(packet.offload.checksum, Checksum::Unverified);
        assert_eq!(packet.data(), bytes);
    }
}

#[test]
fn a_frame_has_a_bounded_number_of_segments() {
    for (protocol, header, kind, most) in
        [(6, tcp_header(), GsoKind::TcpV4, 1365), (17, vec![0; 8], GsoKind::UdpL4, 128)]
    {
        for (payload, fits) in [(7 * most, true), (7 * most + 1, false)] {
            let mut packet = Packet::from_bytes(&frame(false, false, protocol, &header, payload));
            packet.offload.gso = Some(Gso { kind, segment_bytes: 7, ecn: false });
            assert_eq!(cut(&packet).map(|all| all.len()), fits.then_some(most), "{kind:?}");
        }
    }
}

#[test]
fn finish_serves_every_packet_and_gives_buffers_back() {
    let mut pool = Pool::new(4);
    let mut large = pool.take();
    let bytes = frame(false, false, 6, &tcp_header(), 300);
    large.receive_area()[..bytes.len()].copy_from_slice(&bytes);
    large.set_received(
        bytes.len(),
        Offload {
            checksum: Checksum::Unverified,
            gso: Some(Gso { kind: GsoKind::TcpV4, segment_bytes: 100, ecn: false }),
        },
    );
    let mut out = Vec::new();
    assert!(finish(large, &mut pool, |p| out.push(p)));
    assert!(finish(Packet::from_bytes(&[1; 60]), &mut pool, |p| out.push(p)));
    assert_eq!(out.iter().map(Packet::len).collect::<Vec<_>>(), [166, 166, 166, 60]);
}
