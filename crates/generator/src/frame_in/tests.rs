use super::*;
use crate::frame::{self, ACK, Flow, PSH, Resolution, SYN, SegmentOut, Wire};
use crate::pattern;
use packet::Packet;
use proptest::prelude::*;

const TO: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn wire(vlan: Option<u16>) -> Wire {
    Wire { mac: MacAddr([2, 0, 0, 0, 0, 1]), vlan, text: None }
}

fn flow(v6: bool, protocol: u8) -> Flow {
    let (local, remote) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
    let address = |text: &str| text.parse::<std::net::IpAddr>().unwrap().into();
    let (local, remote) = (address(local), address(remote));
    Flow { local, remote, local_port: 1234, remote_port: 80, protocol }
}

/// Converts the fast parse's result to that of the full parse.
fn arrived_of((source_mac, flow, segment): (MacAddr, Flow, Segment<'_>)) -> Arrived<'_> {
    let content = Content::Tcp(segment);
    Arrived { source_mac, source: flow.remote, destination: flow.local, content }
}

proptest! {
    #[test]
    fn segments_are_read_as_written_and_one_changed_bit_is_seen(
        v6 in any::<bool>(),
        vlan in proptest::option::of(1u16..4095),
        seq in any::<u32>(), ack in any::<u32>(), window in any::<u16>(),
        options in proptest::option::of((64u16..9000, proptest::option::of(0u8..15))),
        offset in any::<u32>(), length in 0u16..1461,
        flip in any::<usize>(),
    ) {
        let (wire, flow) = (wire(vlan), flow(v6, PROTOCOL_TCP));
        let flags = if options.is_some() { SYN } else { ACK | PSH };
        let out = SegmentOut { seq, ack, flags, window, options, offset, length };
        let mut packet = Packet::with_capacity(9100);
        frame::tcp(&mut packet, &wire, TO, &flow, &out);
        let arrived = read(packet.data(), vlan, true).unwrap();
        prop_assert_eq!(arrived.source_mac, wire.mac);
        prop_assert_eq!((arrived.source, arrived.destination), (flow.local, flow.remote));
        // Where the fast parse returns a result, it equals that of the full parse.
        prop_assert_eq!(likely_flow(packet.data(), vlan), (!v6).then_some(arrived.flow()));
        let plain = read_plain(packet.data(), true).map(arrived_of);
        prop_assert_eq!(plain.is_some(), !v6 && vlan.is_none());
        prop_assert!(plain.is_none_or(|plain| plain == arrived));
        let Content::Tcp(segment) = arrived.content else { panic!("not TCP") };
        prop_assert_eq!((segment.source_port, segment.destination_port), (1234, 80));
        prop_assert_eq!((segment.seq, segment.ack, segment.flags), (seq, ack, flags));
        prop_assert_eq!((segment.window, segment.mss, segment.scale),
            (window, options.map(|o| o.0), options.and_then(|o| o.1)));
        prop_assert_eq!(segment.payload.len(), usize::from(length));
        prop_assert!(pattern::matches(offset, segment.payload));
        let segment_scale = segment.scale.is_some();
        // The TCP checksum covers ports to payload, so any flipped bit there is detected.
        let start = packet.len() - usize::from(length) - [20, 24, 28][usize::from(options.is_some()) + usize::from(segment_scale)];
        let at = start + flip % (packet.len() - start);
        packet.data_mut()[at] ^= 1 << (flip % 8);
        prop_assert_eq!(read(packet.data(), vlan, true), Err(Discard::BadChecksum));
        prop_assert_eq!(read_plain(packet.data(), true), None);
    }

    #[test]
    fn datagrams_are_read_as_written(v6 in any::<bool>(), message in any::<u32>(), length in 4u16..1457) {
        let (wire, flow) = (wire(None), flow(v6, PROTOCOL_UDP));
        let mut packet = Packet::with_capacity(9100);
        frame::udp(&mut packet, &wire, TO, &flow, message, length);
        let arrived = read(packet.data(), None, true).unwrap();
        let Content::Udp(datagram) = arrived.content else { panic!("not UDP") };
        prop_assert_eq!(datagram.payload.len(), usize::from(length));
        prop_assert_eq!(&datagram.payload[..4], message.to_be_bytes());
        prop_assert!(pattern::matches(message, &datagram.payload[4..]));
    }

    #[test]
    fn no_bytes_make_reading_panic(
        frame in proptest::collection::vec(any::<u8>(), 0..120),
        kind in 0usize..4, vlan in proptest::option::of(0u16..4), protocol in any::<u8>(),
    ) {
        let mut frame = frame;
        if frame.len() > 24 {
            let ethertype = [ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_ARP, ETHERTYPE_VLAN][kind];
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            frame[14] = if kind == 0 { 0x45 } else { 0x60 };
            frame[if kind == 0 { 23 } else { 20 }] =
                [PROTOCOL_TCP, PROTOCOL_UDP, PROTOCOL_ICMPV6, protocol][usize::from(protocol) % 4];
        }
        let _ = (read(&frame, vlan, false), likely_flow(&frame, vlan));
        for verify in [false, true] {
            let (all, plain) = (read(&frame, None, verify), read_plain(&frame, verify));
            prop_assert!(plain.is_none_or(|plain| all == Ok(arrived_of(plain))));
        }
    }
}

#[test]
fn questions_and_answers_are_read_as_written() {
    for v6 in [false, true] {
        for vlan in [None, Some(7)] {
            let wire = wire(vlan);
            let Flow { local, remote, .. } = flow(v6, 0);
            let mut packet = Packet::with_capacity(200);
            frame::resolution(&mut packet, &wire, &Resolution::Ask { local, wanted: remote });
            let asked = read(packet.data(), vlan, true).unwrap();
            assert_eq!((asked.source, asked.destination), (local, remote));
            assert_eq!(asked.content, Content::Question);
            assert!(packet.data()[0] & 1 == 1, "a question goes to a group");
            let answer = Resolution::Answer { local, remote, to: TO };
            frame::resolution(&mut packet, &wire, &answer);
            let answered = read(packet.data(), vlan, true).unwrap();
            assert_eq!(answered.source, local);
            assert_eq!(answered.content, Content::Answer { mac: wire.mac });
            assert_eq!(packet.data()[..6], TO.0);
        }
    }
}
