//! Quotes in ICMP errors, byte by byte: headers with options, truncated quotes, and messages that the text
//! form of packets cannot express.

use crate::support;
use base::{Instant, PortNo};
use conntrack::Event;
use flow::{CtState, Frame};
use packet::Packet;

/// A connection, an error about its first packet, the change of the quote, and whether the error is then
/// related to the connection. All others are invalid, and counted as bad quotes.
type Case = (&'static str, &'static str, &'static str, fn(&mut Vec<u8>), bool);

const UDP: &str = "10.0.0.1:5000>20.0.0.1:53 udp len=20";
const UDP_V6: &str = "[fd00::1]:5000>[fd01::1]:53 udp len=20";
const ECHO: &str = "10.0.0.1>20.0.0.1 icmp-echo id=77 seq=1 len=8";
const GRE: &str = "10.0.0.1>20.0.0.1 ip proto=47 len=20";

const CASES: [Case; 18] = [
    (
        "the least that RFC 792 demands",
        UDP,
        "20.0.0.9>10.0.0.1 icmp-unreach(3)",
        |it| cut(it, 28),
        true,
    ),
    ("one byte less", UDP, "20.0.0.9>10.0.0.1 icmp-unreach(3)", |it| cut(it, 27), false),
    ("no transport header", UDP, "20.0.0.9>10.0.0.1 icmp-unreach(3)", |it| cut(it, 20), false),
    ("half an IP header", UDP, "20.0.0.9>10.0.0.1 icmp-unreach(3)", |it| cut(it, 12), false),
    ("with IP options", UDP, "20.0.0.9>10.0.0.1 icmp-unreach(3)", options, true),
    ("of another IP version", UDP, "20.0.0.9>10.0.0.1 icmp-unreach(3)", |it| it[0] = 0x65, false),
    (
        "without a source port",
        UDP,
        "20.0.0.9>10.0.0.1 icmp-unreach(3)",
        |it| it[20..22].fill(0),
        false,
    ),
    (
        "without a destination port",
        UDP,
        "20.0.0.9>10.0.0.1 icmp-unreach(3)",
        |it| it[22..24].fill(0),
        false,
    ),
    ("an echo", ECHO, "20.0.0.9>10.0.0.1 icmp-unreach(1)", |it| cut(it, 28), true),
    ("an echo that is cut", ECHO, "20.0.0.9>10.0.0.1 icmp-unreach(1)", |it| cut(it, 27), false),
    ("an echo with a code", ECHO, "20.0.0.9>10.0.0.1 icmp-unreach(1)", |it| it[21] = 1, false),
    ("an error", ECHO, "20.0.0.9>10.0.0.1 icmp-unreach(1)", |it| it[20] = 3, false),
    ("a protocol without ports", GRE, "20.0.0.9>10.0.0.1 icmp-unreach(2)", |it| cut(it, 20), true),
    ("IPv6, the least", UDP_V6, "[fd01::9]>[fd00::1] icmp-unreach(4)", |it| cut(it, 48), true),
    ("IPv6, one byte less", UDP_V6, "[fd01::9]>[fd00::1] icmp-unreach(4)", |it| cut(it, 47), false),
    ("behind extension headers", UDP_V6, "[fd01::9]>[fd00::1] icmp-unreach(4)", extensions, true),
    (
        "behind extension headers, cut",
        UDP_V6,
        "[fd01::9]>[fd00::1] icmp-unreach(4)",
        |it| {
            extensions(it);
            cut(it, 40 + 24 + 7);
        },
        false,
    ),
    (
        "cut within an extension header",
        UDP_V6,
        "[fd01::9]>[fd00::1] icmp-unreach(4)",
        |it| {
            extensions(it);
            cut(it, 40 + 12);
        },
        false,
    ),
];

fn cut(quote: &mut Vec<u8>, bytes: usize) {
    quote.truncate(bytes);
}

/// One word of no-operation options.
fn options(quote: &mut Vec<u8>) {
    quote[0] = 0x46;
    quote[3] += 4;
    quote.splice(20..20, [1; 4]);
}

/// Hop-by-hop options of 8 bytes and destination options of 16, all padding, before the UDP header.
fn extensions(quote: &mut Vec<u8>) {
    let mut headers = vec![60, 0, 1, 4, 0, 0, 0, 0, 17, 1, 1, 12];
    headers.resize(24, 0);
    quote[6] = 0;
    quote[5] += 24;
    quote.splice(40..40, headers);
}

/// The packet of a text, with changed bytes from `at` on and correct lengths and checksums.
fn changed(text: &str, at: usize, change: fn(&mut Vec<u8>)) -> Frame {
    let mut bytes = wire::text::parse(text).unwrap();
    let mut behind = bytes.split_off(at);
    change(&mut behind);
    bytes.extend(behind);
    let ip_bytes = (bytes.len() - 14) as u16;
    match bytes[14] >> 4 {
        4 => bytes[16..18].copy_from_slice(&ip_bytes.to_be_bytes()),
        _ => bytes[18..20].copy_from_slice(&(ip_bytes - 40).to_be_bytes()),
    }
    assert!(wire::builder::fill_checksums(&mut bytes[14..]), "{text}");
    Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).unwrap()
}

#[test]
fn an_error_is_related_where_its_quote_says_enough() {
    for (what, first, error, change, is_related) in CASES {
        let tracked = support::tracker();
        let mut frame = support::frame(first);
        tracked.execute(
            Instant::from_millis(1),
            &support::commit(0),
            std::slice::from_mut(&mut frame),
        );
        assert!(frame.key.ct_state().contains(CtState::NEW), "{what}");
        let quote = if first.starts_with('[') { 14 + 40 + 8 } else { 14 + 20 + 8 };
        let mut frame = changed(&format!("{error} ({first})"), quote, change);
        tracked.execute(
            Instant::from_millis(2),
            &support::look(0),
            std::slice::from_mut(&mut frame),
        );
        let expect = if is_related { CtState::REL | CtState::RPL } else { CtState::INV };
        assert_eq!(frame.key.ct_state(), expect | CtState::TRK, "{what}");
        assert_eq!(tracked.counters().get(Event::IcmpQuote), u64::from(!is_related), "{what}");
    }
}

/// Eight bytes are a complete message; a shorter one has no header to parse.
#[test]
fn a_message_has_eight_bytes_at_least() {
    for (text, state, truncated) in [
        ("10.0.0.1>20.0.0.1 icmp-echo id=77 seq=1 len=0", CtState::NEW, 0),
        ("[fd00::1]>[fd01::1] icmp-echo id=77 seq=1 len=0", CtState::NEW, 0),
        ("10.0.0.1>20.0.0.1 ip proto=1 len=7", CtState::INV, 1),
        ("[fd00::1]>[fd01::1] ip proto=58 len=7", CtState::INV, 1),
    ] {
        let tracked = support::tracker();
        let mut frame = support::frame(text);
        tracked.execute(
            Instant::from_millis(1),
            &support::commit(0),
            std::slice::from_mut(&mut frame),
        );
        assert_eq!(frame.key.ct_state(), state | CtState::TRK, "{text}");
        assert_eq!(tracked.counters().get(Event::Truncated), truncated, "{text}");
    }
}
