//! Packets and actions of the `conntrack` target, from a few bytes each.

use base::Zone;
use flow::{CtAction, Frame, Masked, Nat, NatKind, NatRange, PortSelection};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use std::net::IpAddr;

/// Zones that packets are tracked in, from 0 on.
pub const ZONES: u16 = 3;

/// A packet.
#[derive(Arbitrary, Debug)]
pub struct Text {
    pub v6: bool,
    pub kind: u8,
    pub client: u8,
    pub server: u8,
    pub port: u8,
    pub flags: u8,
    pub seq: u8,
    pub ack: u8,
    pub len: u8,
}

/// What is done with it.
#[derive(Arbitrary, Debug)]
pub struct Action {
    pub commit: bool,
    pub force: bool,
    pub zone: u8,
    pub nat: u8,
    pub v6: bool,
    pub mark: Option<(u8, u8)>,
    pub label: Option<(u8, u8)>,
    pub helper: u8,
}

/// What the sides of a control connection say: the client, then the server.
const FTP: [[&str; 6]; 2] = [
    [
        "USER%20joe%0d%0a",
        "PORT%2010,0,0,1,195,80%0d%0a",
        "EPRT%20|1|10.0.0.1|50000|%0d%0a",
        "EPRT%20|2|fd10::1|50000|%0d%0a",
        "PASV%0d%0a",
        "GET%20/%0d%0aPORT%2010,0,0,1,195,80%0d%0a",
    ],
    [
        "220%20hello%0d%0a",
        "227%20Passive%20%2820,0,0,1,195,80%29%0d%0a",
        "227%20Passive%20%2830,0,0,1,195,80%29%0d%0a",
        "229%20Extended%20%28|||50000|%29%0d%0a",
        "234%20TLS%0d%0a",
        "227%20Passive%20%2820,0,0,1,",
    ],
];

/// Connections that go far, packet by packet.
pub const SCRIPTS: [&[&str]; 6] = [
    &[
        "10.0.0.1:1000>20.0.0.1:21 S seq=100 win=9000",
        "20.0.0.1:21>10.0.0.1:1000 SA seq=500 ack=101 win=9000",
        "10.0.0.1:1000>20.0.0.1:21 PA seq=101 ack=501 win=9000 data=USER%20joe%0d%0a",
        "10.0.0.1:1000>20.0.0.1:21 PA seq=111 ack=501 win=9000 data=PORT%2010,0,0,1,195,80%0d%0a",
        "20.0.0.1:20>10.0.0.1:50000 S seq=900 win=9000",
        "10.0.0.1:50000>20.0.0.1:20 SA seq=800 ack=901 win=9000",
        "10.0.0.1:1000>20.0.0.1:21 PA seq=134 ack=501 win=9000 data=EPRT%20|1|10.0.0.1|50001|%0d%0a",
        "20.0.0.1:20>10.0.0.1:50001 S seq=900 win=9000",
        "20.0.0.1:21>10.0.0.1:1000 A seq=501 ack=162 win=9000",
    ],
    &[
        "10.0.0.2:1000>20.0.0.1:21 S seq=100 win=9000",
        "20.0.0.1:21>10.0.0.2:1000 SA seq=500 ack=101 win=9000",
        "20.0.0.1:21>10.0.0.2:1000 PA seq=501 ack=101 win=9000 data=220%20hello%0d%0a",
        "10.0.0.2:1000>20.0.0.1:21 PA seq=101 ack=512 win=9000 data=PASV%0d%0a",
        "20.0.0.1:21>10.0.0.2:1000 PA seq=512 ack=107 win=9000 data=227%20%2820,0,0,1,195,80%29%0d%0a",
        "10.0.0.2:1001>20.0.0.1:50000 S seq=900 win=9000",
        "20.0.0.1:21>10.0.0.2:1000 PA seq=535 ack=107 win=9000 data=229%20%28|||50001|%29%0d%0a",
        "10.0.0.2:1001>20.0.0.1:50001 S seq=900 win=9000",
    ],
    &[
        "[fd10::1]:1000>[fd20::1]:21 S seq=100 win=9000",
        "[fd20::1]:21>[fd10::1]:1000 SA seq=500 ack=101 win=9000",
        "[fd10::1]:1000>[fd20::1]:21 PA seq=101 ack=501 win=9000 data=USER%20joe%0d%0a",
        "[fd10::1]:1000>[fd20::1]:21 PA seq=111 ack=501 win=9000 data=EPRT%20|2|fd10::1|50000|%0d%0a",
        "[fd20::1]:20>[fd10::1]:50000 S seq=900 win=9000",
    ],
    &[
        "10.0.0.1:5000>20.0.0.1:80 S seq=100 win=9000 wscale=3",
        "20.0.0.1:80>10.0.0.1:5000 SA seq=500 ack=101 win=9000 wscale=7",
        "10.0.0.1:5000>20.0.0.1:80 A seq=101 ack=501 win=9000",
        "10.0.0.1:5000>20.0.0.1:80 PA seq=101 ack=501 win=9000 len=50",
        "20.0.0.1:80>10.0.0.1:5000 FA seq=501 ack=151 win=9000",
        "10.0.0.1:5000>20.0.0.1:80 FA seq=151 ack=502 win=9000",
        "20.0.0.1:80>10.0.0.1:5000 A seq=502 ack=152 win=9000",
        "10.0.0.1:5000>20.0.0.1:80 S seq=9100 win=9000",
    ],
    &[
        "10.0.0.1:5000>20.0.0.1:80 sctp tag=0 chunks=init/7",
        "20.0.0.1:80>10.0.0.1:5000 sctp tag=7 chunks=init-ack/9",
        "10.0.0.1:5000>20.0.0.1:80 sctp tag=9 chunks=cookie-echo",
        "20.0.0.1:80>10.0.0.1:5000 sctp tag=7 chunks=cookie-ack",
        "10.0.0.1:5000>20.0.0.1:80 sctp tag=9 chunks=data",
        "20.0.0.1:80>10.0.0.1:5000 sctp tag=7 chunks=shutdown",
        "10.0.0.1:5000>20.0.0.1:80 sctp tag=9 chunks=shutdown-ack",
        "20.0.0.1:80>10.0.0.1:5000 sctp tag=7 chunks=shutdown-complete",
        "10.0.0.1:5000>20.0.0.1:80 sctp tag=9 chunks=abort",
    ],
    &[
        "10.0.0.1:5000>20.0.0.1:69 udp data=%00%01name",
        "20.0.0.1:7777>10.0.0.1:5000 udp len=9",
        "10.0.0.1:5000>20.0.0.1:80 udp len=1000 ipid=7 frag=first",
        "10.0.0.1>20.0.0.1 ip proto=17 len=8 ipid=7 frag=1008",
        "10.0.0.1>20.0.0.1 icmp-echo id=1 seq=1 len=8",
        "20.0.0.1>10.0.0.1 icmp-reply id=1 seq=1 len=8",
    ],
];

/// Chunks that SCTP's states turn on.
const CHUNKS: [&str; 8] = [
    "init/7",
    "init-ack/9",
    "cookie-echo",
    "cookie-ack",
    "data",
    "shutdown",
    "abort!",
    "shutdown-complete",
];

impl Text {
    /// Its frame.
    pub fn bytes(&self) -> Vec<u8> {
        let host = |net: u8, n: u8| match self.v6 {
            false => format!("{net}.0.0.{}", n % 4 + 1),
            true => format!("[fd{net}::{}]", n % 4 + 1),
        };
        let (mut from, mut to) = (host(10, self.client), host(20, self.server));
        let (mut source, mut destination) = (5000 + u16::from(self.port % 8), 80);
        let is_back = self.kind & 0x80 != 0;
        if is_back {
            (from, to) = (to, from);
            (source, destination) = (destination, source);
        }
        let len = self.len % 64;
        let (seq, ack) = (1000 + u32::from(self.seq) * 16, 1000 + u32::from(self.ack) * 16);
        let numbers = format!("seq={seq} ack={ack} win=500");
        let said = usize::from(self.len % 6);
        let text = match self.kind % 16 {
            0..=3 => {
                let flags = flags(self.flags);
                format!("{from}:{source}>{to}:{destination} {flags} {numbers} len={len}")
            }
            4 => format!("{from}:{source}>{to}:{destination} udp len={len}"),
            5 => format!("{from}>{to} icmp-echo id={} seq=1 len={len}", self.port % 4),
            6 => format!("{from}>{to} icmp-reply id={} seq=1 len={len}", self.port % 4),
            7 => format!("{from}>{to} ip proto={} len={len}", self.flags),
            8 => {
                let chunks = CHUNKS[usize::from(self.flags % 8)];
                let tag = self.seq % 4 + 6;
                format!("{from}:{source}>{to}:{destination} sctp tag={tag} chunks={chunks}")
            }
            9 if is_back => {
                format!("{from}:21>{to}:{destination} PA {numbers} data={}", FTP[1][said])
            }
            9 => format!("{from}:{source}>{to}:21 PA {numbers} data={}", FTP[0][said]),
            10 if is_back => format!("{from}:20>{to}:50000 {} {numbers}", flags(self.flags)),
            10 => format!("{from}:{source}>{to}:50000 {} {numbers}", flags(self.flags)),
            11 if is_back => format!("{from}:7777>{to}:{destination} udp len={len}"),
            11 => format!("{from}:{source}>{to}:69 udp data=%00%01name"),
            12 => format!("{from}:{source}>{to}:{destination} udp len=400 ipid=7 frag=first"),
            13 => {
                let (offset, more) = (u16::from(self.seq % 64) * 8, self.ack & 1);
                let more = ["", "+"][usize::from(more)];
                let len = u16::from(self.len) * 8;
                format!("{from}>{to} ip proto=17 len={len} ipid=7 frag={offset}{more}")
            }
            14 if is_back => {
                format!("{from}:21>{to}:{destination} {} {numbers}", flags(self.flags))
            }
            14 => format!("{from}:{source}>{to}:21 {} {numbers}", flags(self.flags)),
            _ => {
                let (flags, scale) = (flags(self.flags), self.len % 16);
                format!("{from}:{source}>{to}:{destination} {flags} {numbers} wscale={scale}")
            }
        };
        wire::text::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}

/// TCP's flags in the form of `wire::text`.
fn flags(bits: u8) -> String {
    let names = "FSRPAU".chars().enumerate();
    let text: String = names.filter(|(n, _)| bits & (1 << n) != 0).map(|(_, name)| name).collect();
    if text.is_empty() { "-".to_owned() } else { text }
}

const RANGES: [(NatKind, Option<(u8, u8)>, Option<(u16, u16)>, PortSelection); 8] = [
    (NatKind::Src, Some((1, 1)), None, PortSelection::Default),
    (NatKind::Src, Some((1, 3)), Some((7000, 7003)), PortSelection::Default),
    (NatKind::Src, Some((1, 1)), Some((7000, 7010)), PortSelection::Random),
    (NatKind::Src, Some((1, 4)), None, PortSelection::Hash),
    (NatKind::Src, None, None, PortSelection::Default),
    (NatKind::Dst, Some((1, 1)), None, PortSelection::Default),
    (NatKind::Dst, Some((1, 2)), Some((80, 82)), PortSelection::Default),
    (NatKind::Dst, None, Some((81, 81)), PortSelection::Default),
];

impl Action {
    /// The `ct` action.
    pub fn to_ct(&self) -> CtAction {
        let address = |n: u8| -> IpAddr {
            let text = if self.v6 { format!("fd30::{n}") } else { format!("30.0.0.{n}") };
            text.parse().expect("an address")
        };
        let nat = match self.nat % 16 {
            n @ 0..8 => {
                let (kind, addresses, ports, selection) = RANGES[usize::from(n)];
                let addresses = addresses.map(|(first, last)| (address(first), address(last)));
                let persistent = self.nat & 0x80 != 0;
                Some(Nat::Rewrite(NatRange { kind, addresses, ports, selection, persistent }))
            }
            8..=11 => Some(Nat::Restore),
            _ => None,
        };
        let masked = |(value, mask): (u8, u8)| (u32::from(value), u32::from(mask));
        let label = |(value, mask): (u8, u8)| (u128::from(value) << 60, u128::from(mask) << 60);
        CtAction {
            commit: self.commit,
            force: self.force && self.commit,
            zone: Zone(u16::from(self.zone) % ZONES),
            mark: self.mark.map(masked).map(|(value, mask)| Masked { value, mask }),
            label: self.label.map(label).map(|(value, mask)| Masked { value, mask }),
            nat,
            helper: [None, Some("ftp"), Some("tftp"), None][usize::from(self.helper % 4)],
            ..CtAction::default()
        }
    }
}

/// Who sent a frame and to whom, as text, if it is IP.
fn ends(frame: &Frame) -> Option<(String, String)> {
    let key = &frame.key;
    match key.eth_type() {
        0x0800 => Some((key.ipv4_src().to_string(), key.ipv4_dst().to_string())),
        0x86dd => Some((format!("[{}]", key.ipv6_src()), format!("[{}]", key.ipv6_dst()))),
        _ => None,
    }
}

/// An answer to a frame that arrived.
pub fn answer(arrived: &Frame, bits: u8, seq: u8, ack: u8) -> Option<Vec<u8>> {
    let (to, from) = ends(arrived)?;
    let (destination, source) = (arrived.key.tp_src(), arrived.key.tp_dst());
    let text = match arrived.key.nw_proto() {
        17 => format!("{from}:{source}>{to}:{destination} udp len=9"),
        6 => {
            let (seq, ack) = (1000 + u32::from(seq) * 16, 1000 + u32::from(ack) * 16);
            let flags = flags(bits);
            format!("{from}:{source}>{to}:{destination} {flags} seq={seq} ack={ack} win=500")
        }
        1 | 58 => {
            let l4 = arrived.l4()?;
            let id = u16::from_be_bytes([*l4.get(4)?, *l4.get(5)?]);
            format!("{from}>{to} icmp-reply id={id} seq=1 len=8")
        }
        protocol => format!("{from}>{to} ip proto={protocol} len=8"),
    };
    wire::text::parse(&text).ok()
}

/// An ICMP error about a frame that arrived.
pub fn error(arrived: &Frame, code: u8, exceeded: bool) -> Option<Vec<u8>> {
    let (to, from) = ends(arrived)?;
    let (destination, source) = (arrived.key.tp_dst(), arrived.key.tp_src());
    let what = if exceeded { "icmp-exceeded" } else { "icmp-unreach" };
    let quoted = match arrived.key.nw_proto() {
        17 => format!("{to}:{source}>{from}:{destination} udp len=9"),
        6 => format!("{to}:{source}>{from}:{destination} A seq=1000 ack=1000"),
        _ => return None,
    };
    wire::text::parse(&format!("{from}>{to} {what}({}) ({quoted})", code % 16)).ok()
}
