//! Tests beyond the cases in `testdata/conntrack/data-connections.toml` and `slipstreaming.toml`.

use super::*;
use crate::key::Family;
use base::PortNo;
use packet::{Checksum, Packet};
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn key(src: [u8; 4], dst: [u8; 4], l4: [u16; 2]) -> Key {
    let (src, dst) = (Ipv4Addr::from(src).into(), Ipv4Addr::from(dst).into());
    Key { src, dst, l4, zone: 0, protocol: 6, family: Family::V4 }
}

/// A client on 10.0.0.1 that 20.0.0.1 sees as 30.0.0.100.
fn client(port: u16) -> Connection {
    let original = key([10, 0, 0, 1], [20, 0, 0, 1], [port, 21]);
    Connection {
        id: port.into(),
        original,
        reply: key([20, 0, 0, 1], [30, 0, 0, 100], [21, port]),
        nat: Some(NatKind::Src),
        helper: Some(Helper::Ftp),
    }
}

fn frame(text: &str) -> Frame {
    Frame::parse(Packet::from_bytes(&wire::text::parse(text).unwrap()), PortNo(1)).unwrap()
}

/// Passes a line of the client to the helper, and applies its rewrite without the addresses.
fn say(algs: &mut Algs, from: &Connection, seq: u32, data: &str) -> Frame {
    let text = format!("10.0.0.1:1000>20.0.0.1:21 PA seq={seq} ack=500 data={data}");
    let mut frame = frame(&text);
    let _ = algs.observe(from, false, frame.l4().unwrap(), Instant::ZERO).unwrap();
    algs.apply(from.id, false, &mut frame);
    frame
}

/// The server accepts what the client announced.
fn accept(algs: &mut Algs, from: &Connection) {
    for (seq, data) in [(500, "220%20hello"), (511, "200%20ok")] {
        let port = from.original.l4[0];
        let text = format!("20.0.0.1:21>10.0.0.1:{port} PA seq={seq} ack=500 data={data}%0d%0a");
        let frame = frame(&text);
        let _ = algs.observe(from, true, frame.l4().unwrap(), Instant::ZERO).unwrap();
    }
}

fn is_right(frame: &Frame) -> bool {
    let upper = wire::UpperLayer::find(frame.l3()).unwrap();
    upper.verify(frame.l3()) == wire::checksum::Verdict::Good
}

fn payload(frame: &Frame) -> String {
    let tcp = Tcp::new_checked(frame.l4().unwrap()).unwrap();
    String::from_utf8(tcp.payload().to_vec()).unwrap()
}

#[test]
fn two_clients_behind_one_address_get_two_ports() {
    let mut algs = Algs::default();
    let (first, second) = (client(1000), client(2000));
    for (connection, port) in [(&first, "195,80"), (&second, "195,81")] {
        say(&mut algs, connection, 100, "USER%20joe%0d%0a");
        let frame = say(&mut algs, connection, 110, "PORT%2010,0,0,1,195,80%0d%0a");
        assert_eq!(payload(&frame), format!("PORT 30,0,0,100,{port}\r\n"));
        assert!(is_right(&frame));
    }
    let data = key([20, 0, 0, 1], [30, 0, 0, 100], [20, 50001]);
    accept(&mut algs, &second);
    let expected = algs.expectations.find(&data, Instant::ZERO).unwrap();
    assert_eq!((expected.parent, expected.port), (second.original, 50000));
    assert_eq!(expected.nat_range().ports, Some((50000, 50000)));
}

#[test]
fn each_line_moves_what_follows_it_further() {
    let mut algs = Algs::default();
    let connection = client(1000);
    say(&mut algs, &connection, 100, "USER%20joe%0d%0a");
    let seq_of = |frame: &Frame| Tcp::new_checked(frame.l4().unwrap()).unwrap().seq();
    let mut seq = 110;
    for (round, moved) in [(0, 0), (1, 2), (2, 4)] {
        let line = format!("PORT%2010,0,0,1,195,8{round}%0d%0a");
        let frame = say(&mut algs, &connection, seq, &line);
        assert_eq!(seq_of(&frame), seq + moved);
        // A retransmission.
        let again = say(&mut algs, &connection, seq, &line);
        assert_eq!(again.packet.data(), frame.packet.data());
        seq += 22;
    }
    assert_eq!(seq_of(&say(&mut algs, &connection, seq, "NOOP%0d%0a")), seq + 6);
}

/// The window check compares with what the sender of the line counts.
#[test]
fn acknowledgements_of_a_longer_line_are_moved_before_the_window_check() {
    let mut algs = Algs::default();
    let connection = client(1000);
    say(&mut algs, &connection, 100, "USER%20joe%0d%0a");
    say(&mut algs, &connection, 110, "PORT%2010,0,0,1,195,80%0d%0a");
    let ack = |is_reply, text| {
        let segment = Segment::of(frame(text).l4().unwrap()).unwrap();
        algs.unshift(connection.id, is_reply, segment).ack
    };
    for (is_reply, text, expect) in [
        (true, "20.0.0.1:21>10.0.0.1:1000 A seq=500 ack=134", 132),
        (true, "20.0.0.1:21>10.0.0.1:1000 A seq=500 ack=110", 110),
        (true, "20.0.0.1:21>10.0.0.1:1000 R seq=500", 0),
        (false, "10.0.0.1:1000>20.0.0.1:21 A seq=132 ack=600", 600),
    ] {
        assert_eq!(ack(is_reply, text), expect, "{text}");
    }
}

#[test]
fn a_shorter_text_moves_back() {
    let mut algs = Algs::default();
    let mut connection = client(1000);
    connection.original = key([110, 120, 130, 140], [20, 0, 0, 1], [1000, 21]);
    connection.reply = key([20, 0, 0, 1], [3, 0, 0, 1], [21, 1000]);
    say(&mut algs, &connection, 100, "USER%20joe%0d%0a");
    let frame = say(&mut algs, &connection, 110, "PORT%20110,120,130,140,195,80%0d%0a");
    assert_eq!(payload(&frame), "PORT 3,0,0,1,195,80\r\n");
    assert!(is_right(&frame));
    let mut answer = frame_with(
        "20.0.0.1:21>3.0.0.1:1000 A seq=500 ack=131",
        &[1, 1, 5, 10, 0, 0, 0, 131, 0, 0, 0, 140],
    );
    algs.apply(connection.id, true, &mut answer);
    let tcp = Tcp::new_checked(answer.l4().unwrap()).unwrap();
    assert_eq!(tcp.ack(), 139);
    let sack = &answer.l4().unwrap()[24..32];
    assert_eq!(sack, [0, 0, 0, 139, 0, 0, 0, 148]);
    assert!(is_right(&answer));
}

/// A segment with TCP options, which the text form does not have.
fn frame_with(text: &str, options: &[u8]) -> Frame {
    let mut bytes = wire::text::parse(text).unwrap();
    bytes.extend(options);
    let total = (bytes.len() - 14) as u16;
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    bytes[46] = ((20 + options.len()) as u8 / 4) << 4;
    let upper = wire::UpperLayer::find(&bytes[14..]).unwrap();
    upper.fill_checksum(&mut bytes[14..]);
    Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).unwrap()
}

#[test]
fn a_checksum_left_to_a_device_is_finished_where_the_length_changes() {
    let mut algs = Algs::default();
    let connection = client(1000);
    say(&mut algs, &connection, 100, "USER%20joe%0d%0a");
    let text = "10.0.0.1:1000>20.0.0.1:21 PA seq=110 ack=500 data=PORT%2010,0,0,1,195,80%0d%0a csum=partial";
    let mut frame = frame(text);
    frame.packet.offload.checksum = Checksum::Partial;
    let _ = algs.observe(&connection, false, frame.l4().unwrap(), Instant::ZERO).unwrap();
    algs.apply(connection.id, false, &mut frame);
    assert_eq!(frame.packet.offload.checksum, Checksum::Good);
    assert!(is_right(&frame));
}

#[test]
fn a_long_segment_that_would_have_to_be_rewritten_is_refused() {
    let mut algs = Algs::default();
    let connection = client(1000);
    say(&mut algs, &connection, 100, "USER%20joe%0d%0a");
    let rest = "NOOP%0d%0a".repeat(60);
    let text = format!(
        "10.0.0.1:1000>20.0.0.1:21 PA seq=110 ack=500 data=PORT%2010,0,0,1,195,80%0d%0a{rest}"
    );
    let frame = frame(&text);
    let refused = algs.observe(&connection, false, frame.l4().unwrap(), Instant::ZERO);
    assert_eq!(refused, Err(Event::HelperRefused));
    let data = key([20, 0, 0, 1], [30, 0, 0, 100], [20, 50000]);
    assert!(algs.expectations.find(&data, Instant::ZERO).is_none());
}

#[test]
fn what_goes_leaves_nothing_behind() {
    let mut algs = Algs::default();
    let connection = client(1000);
    say(&mut algs, &connection, 100, "USER%20joe%0d%0a");
    say(&mut algs, &connection, 110, "PORT%2010,0,0,1,195,80%0d%0a");
    accept(&mut algs, &connection);
    let data = key([20, 0, 0, 1], [30, 0, 0, 100], [20, 50000]);
    let expected = algs.expectations.find(&data, Instant::ZERO).unwrap();
    algs.adopt(9, &expected);
    assert_eq!(algs.parent_of(9), Some(&connection.original));
    algs.forget(connection.id);
    algs.forget(9);
    assert!(algs.sessions.is_empty() && algs.parents.is_empty());
    assert!(algs.expectations.find(&data, Instant::ZERO).is_none());
}

proptest! {
    #[test]
    fn any_segments_at_all(
        segments in proptest::collection::vec(
            (0..9usize, any::<u16>(), any::<bool>(), any::<u8>(), 0..40usize), 1..40,
        )
    ) {
        let lines = [
            "USER%20joe%0d%0a", "PORT%2010,0,0,1,195,80%0d%0a", "EPRT%20|1|10.0.0.1|50000|%0d%0a",
            "227%20x%20%2820,0,0,1,195,80%29%0d%0a", "229%20x%20%28|||50000|%29%0d%0a", "%0d%0a",
            "PORT%2030,0,0,100,4,0", "%ff%f4ABOR%0d%0a", "x",
        ];
        let mut algs = Algs::default();
        let connection = client(1000);
        for (line, seq, is_reply, value, at) in segments {
            let text = format!("10.0.0.1:1000>20.0.0.1:21 PA seq={} ack={seq} data={}", seq % 200, lines[line]);
            let mut bytes = wire::text::parse(&text).unwrap();
            if let Some(byte) = bytes.get_mut(46 + at) {
                *byte = value;
            }
            let Ok(mut frame) = Frame::parse(Packet::from_bytes(&bytes), PortNo(1)) else { continue };
            let Some(l4) = frame.l4() else { continue };
            let _ = algs.observe(&connection, is_reply, l4, Instant::ZERO);
            algs.apply(connection.id, is_reply, &mut frame);
            let length = wire::Ipv4::new_checked(frame.l3()).map(|ip| ip.total_len());
            prop_assert_eq!(length.unwrap(), frame.l3().len());
        }
    }
}
