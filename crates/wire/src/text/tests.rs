//! Parsing and printing of the text form.

use proptest::prelude::*;

use super::*;
use crate::checksum::Verdict;
use crate::{Ethernet, Icmp, Ipv4, PacketBuilder, TcpFlags, UpperLayer};

/// Texts that are printed again after they are parsed.
const CANONICAL: &[&str] = &[
    "10.0.0.1:1000>10.0.0.2:80 S",
    "10.0.0.1:1000>10.0.0.2:80 S seq=4294967295 win=0 mss=1460 sack wscale=7",
    "10.0.0.1:1000>10.0.0.2:80 PA seq=1 ack=2 len=300 ttl=63 tos=184 ipid=77",
    "10.0.0.1:1000>10.0.0.2:80 - eth=02:00:00:00:00:aa>ff:ff:ff:ff:ff:ff",
    "10.0.0.1:1000>10.0.0.2:80 SFRPUEWA",
    "10.0.0.1:1000>10.0.0.2:80 RA csum=bad vlan=7/3",
    "10.0.0.1:1000>10.0.0.2:80 A len=1 csum=partial",
    "10.0.0.1:1>10.0.0.2:53 udp len=20 svlan=9 vlan=4095",
    "10.0.0.1:1>10.0.0.2:53 udp csum=zero",
    "10.0.0.1:1>10.0.0.2:53 udp len=100 ipid=5 frag=first",
    "10.0.0.1>10.0.0.2 ip proto=17 len=8 ipid=5 frag=later",
    "10.0.0.1>10.0.0.2 ip proto=17 len=8 ipid=5 frag=last",
    "10.0.0.1>10.0.0.2 ip proto=6 len=8 frag=8+",
    "10.0.0.1:1>10.0.0.2:80 sctp",
    "10.0.0.1:1>10.0.0.2:80 sctp tag=4294967295 len=20 csum=bad vlan=7",
    "10.0.0.1:1>10.0.0.2:80 sctp len=4 csum=zero",
    "10.0.0.1:1>10.0.0.2:80 sctp tag=7 len=16 frag=first",
    "10.0.0.1>10.0.0.2 ip proto=132 len=8 frag=later",
    "10.0.0.1>10.0.0.2 ip proto=47 len=12",
    "10.0.0.1>10.0.0.2 icmp-echo id=7 seq=1 len=56",
    "10.0.0.1>10.0.0.2 icmp-reply",
    "10.0.0.9>10.0.0.1 icmp-error(3,1) (10.0.0.1:5>10.0.0.2:53 udp len=20)",
    "10.0.0.9>10.0.0.1 icmp-error(3,4) mtu=1400 (10.0.0.1:5>10.0.0.2:80 A len=10 ttl=9)",
    "10.0.0.9>10.0.0.1 icmp-error(11,0) (10.0.0.1>10.0.0.2 icmp-echo id=3) ttl=4",
    "10.0.0.1>10.0.0.2 arp-request",
    "10.0.0.1>10.0.0.2 arp-reply vlan=5",
    "[fe80::1]:1000>[fe80::2]:80 SA seq=5 ack=6 ttl=1",
    "[fe80::1]:1>[fe80::2]:53 udp len=4 ipid=9 frag=first",
    "[fe80::1]>[fe80::2] ip proto=17 len=8 ipid=9 frag=later",
    "[fe80::1]:1>[fe80::2]:80 sctp tag=5 len=9 ttl=3",
    "[fe80::1]>[fe80::2] icmp-echo id=7 seq=1",
    "[fe80::1]>[fe80::2] icmp-error(1,4) ([fe80::2]:5>[fe80::1]:53 udp len=20)",
    "[fe80::1]>[ff02::1:ff00:2] nd-solicit target=[fe80::2]",
    "[fe80::2]>[fe80::1] nd-advert target=[fe80::2] ttl=64",
];

#[test]
fn texts_come_back() {
    for text in CANONICAL {
        let frame = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(describe(&frame).as_deref(), Ok(*text));
        let upper = frame.get(14..).map(UpperLayer::find);
        if let (Some(Ok(upper)), false) = (upper, text.contains("csum=")) {
            assert_ne!(upper.verify(&frame[14..]), Verdict::Bad, "{text}");
        }
    }
}

#[test]
fn texts_of_one_packet() {
    for (text, canonical) in [
        ("10.0.0.1:1>10.0.0.2:2 S.", "10.0.0.1:1>10.0.0.2:2 SA"),
        ("10.0.0.1:1>10.0.0.2:2 . win=0xffff", "10.0.0.1:1>10.0.0.2:2 A"),
        ("  10.0.0.1:1>10.0.0.2:2\tudp   ttl=64 ", "10.0.0.1:1>10.0.0.2:2 udp"),
        ("10.0.0.1:1>10.0.0.2:2 udp frag=later", "10.0.0.1>10.0.0.2 ip proto=17 frag=later"),
        ("10.0.0.1>10.0.0.2 A frag=later", "10.0.0.1>10.0.0.2 ip proto=6 frag=later"),
        ("[::1]>[::2] nd-solicit", "[::1]>[::2] nd-solicit target=[::2]"),
        ("[::1]>[::2] nd-advert", "[::1]>[::2] nd-advert target=[::1]"),
        (
            "1.0.0.1>1.0.0.2 icmp-unreach(3) (1.0.0.2:1>1.0.0.3:2 udp)",
            "1.0.0.1>1.0.0.2 icmp-error(3,3) (1.0.0.2:1>1.0.0.3:2 udp)",
        ),
        (
            "[::1]>[::2] icmp-exceeded(0) ([::2]:1>[::3]:2 S)",
            "[::1]>[::2] icmp-error(3,0) ([::2]:1>[::3]:2 S)",
        ),
    ] {
        assert_eq!(parse(text).map(|frame| describe(&frame)), Ok(Ok(canonical.into())), "{text}");
    }
}

#[test]
fn bytes_are_the_builders() {
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let syn = PacketBuilder::eth(mac(1), mac(2)).ipv4(a, b).tcp(1000, 80).flags(TcpFlags::SYN);
    let want = syn.seq(5).payload([0, 1, 2]).build();
    assert_eq!(parse("10.0.0.1:1000>10.0.0.2:80 S seq=5 len=3"), Ok(want.clone()));
    assert_eq!(parse_ip("10.0.0.1:1000>10.0.0.2:80 S seq=5 len=3"), Ok(want[14..].to_vec()));
    let error =
        parse("10.0.0.9>10.0.0.1 icmp-unreach(1) (10.0.0.1:1000>10.0.0.2:80 S seq=5 len=3)");
    let error = error.unwrap();
    let eth = Ethernet::new_checked(&error[..]).unwrap();
    let ip = Ipv4::new_checked(eth.payload()).unwrap();
    assert_eq!(Icmp::new_checked(ip.payload()).unwrap().payload(), &want[14..]);
}

#[test]
fn errors_say_where_and_what() {
    for (text, column, what) in [
        ("", 1, "SRC>DST"),
        ("10.0.0.1", 1, "'>'"),
        ("10.0.0.1>10.0.0.2", 18, "what kind"),
        ("10.0.0.1>10.0.0.2 quux", 19, "'quux' is no kind"),
        ("10.0.0.x:1>10.0.0.2:2 S", 1, "'10.0.0.x' is not an IPv4 address"),
        ("10.0.0.1:1>10.0.0.2:65536 S", 21, "number up to 65535"),
        ("10.0.0.1:+1>10.0.0.2:2 S", 10, "number up to"),
        ("10.0.0.1>10.0.0.2:2 S", 1, "a port must follow"),
        ("10.0.0.1:1>[::2]:2 S", 1, "one IP version"),
        ("[::1]x>[::2] udp", 6, "':PORT'"),
        ("[::g]:1>[::2]:2 udp", 2, "IPv6 address"),
        ("[::1]>[::2] arp-request", 13, "ARP is for IPv4"),
        ("1.0.0.1>1.0.0.2 nd-solicit", 9, "is for IPv6"),
        ("1.0.0.1:1>1.0.0.2:2 udp seq=4", 25, "no option 'seq'"),
        ("1.0.0.1:1>1.0.0.2:2 udp ttl=256", 29, "up to 255"),
        ("1.0.0.1:1>1.0.0.2:2 udp ttl=1 ttl=2", 31, "no option 'ttl'"),
        ("1.0.0.1:1>1.0.0.2:2 udp frag=7+", 30, "multiple of 8"),
        ("1.0.0.1:1>1.0.0.2:2 udp eth=1:2>3", 29, "Ethernet address"),
        ("1.0.0.1:1>1.0.0.2:2 udp vlan=4096", 30, "up to 4095"),
        ("1.0.0.1:1>1.0.0.2:2 udp (x", 27, "')' is missing"),
        ("1.0.0.1:1>1.0.0.2:2 udp )", 25, "')' without '('"),
        ("1.0.0.1:1>1.0.0.2:2 udp (x)", 25, "only ICMP errors"),
        ("1.0.0.1>1.0.0.2 icmp-unreach(1)", 17, "needs the packet"),
        ("1.0.0.1>1.0.0.2 icmp-unreach(1) (1.0.0.1:1>1.0.0.2:2 udp x=1)", 58, "no option 'x'"),
        ("1.0.0.1>1.0.0.2 icmp-unreach(1) (1.0.0.1:1>1.0.0.2:2 udp vlan=1)", 58, "'vlan'"),
        ("1.0.0.1>1.0.0.2 icmp-error(1) (1.0.0.1:1>1.0.0.2:2 udp)", 28, "(TYPE,CODE)"),
    ] {
        match parse(text) {
            Ok(_) => panic!("{text}: taken"),
            Err(error) => {
                assert_eq!(error.column, column, "{text}: {error}");
                assert!(error.what.contains(what), "{text}: {error}");
            }
        }
    }
    let deep = "1.0.0.1>1.0.0.2 icmp-unreach(1) (".repeat(1000) + &")".repeat(1000);
    assert!(parse(&deep).unwrap_err().what.contains("deep"));
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,60}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_damaged_text_panics(
        which in 0..CANONICAL.len(), at in 0usize..80, with in "[ -~]{0,2}", cut in 0usize..3,
    ) {
        let mut text = CANONICAL[which].to_owned();
        let at = at.min(text.len());
        text.replace_range(at..(at + cut).min(text.len()), &with);
        if let Ok(frame) = parse(&text) {
            let _ = describe(&frame);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..150)) {
        let _ = describe(&bytes);
    }

    #[test]
    fn no_damaged_frame_panics(
        which in 0..CANONICAL.len(), cut in 0usize..150,
        damage in prop::collection::vec((0usize..100, any::<u8>()), 0..4),
    ) {
        let mut frame = parse(CANONICAL[which]).unwrap();
        frame.truncate(cut);
        for (at, value) in damage {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        let _ = describe(&frame);
    }
}

#[test]
fn payloads_that_are_text() {
    for text in [
        "10.0.0.1:1000>10.0.0.2:21 PA data=PORT%2010,0,0,1,195,80%0d%0a",
        "10.0.0.1:1000>10.0.0.2:69 udp data=%00%01name%00octet%00",
        "[fe80::1]:21>[fe80::2]:1000 PA data=229%20%28|||6446|%29%0d%0a",
        "10.0.0.1:1000>10.0.0.2:80 sctp chunks=init/7",
        "10.0.0.1:1000>10.0.0.2:80 sctp tag=9 chunks=cookie-echo,data,sack",
        "[fe80::1]:1000>[fe80::2]:80 sctp tag=9 chunks=abort!",
    ] {
        let frame = parse(text).unwrap();
        assert_eq!(describe(&frame).unwrap(), text);
    }
    assert!(parse("10.0.0.1:1>10.0.0.2:2 udp data=%2").is_err());
    assert!(parse("10.0.0.1:1>10.0.0.2:2 udp data=%zz").is_err());
    assert!(parse("10.0.0.1:1>10.0.0.2:2 sctp chunks=inti/7").is_err());
}
