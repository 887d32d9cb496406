//! Random operations on a connection tracker: packets with all actions, time, flushes and limits.
//! After each, what the tracker says of itself must agree with itself.

#![no_main]

use base::{Instant, PortNo, Zone};
use conntrack::{Config, Conntrack, Entry, Filter, Flush, Timeout, TimeoutPolicy, Tracker};
use flow::{
    CtAction, CtState, Field, Frame, Masked, Nat, NatKind, NatRange, PortSelection, TupleMatch,
};
use flow::{Tuple, TupleL4};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use packet::Packet;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const ZONES: u16 = 3;

#[derive(Arbitrary, Debug)]
enum Operation {
    Packet {
        packet: Text,
        action: Action,
    },
    /// Bytes of the packet are damaged on its way.
    Damaged {
        packet: Text,
        action: Action,
        damage: [(u8, u8); 3],
        cut: Option<u8>,
    },
    /// The last packet, as it came out, is answered.
    Answer {
        flags: u8,
        seq: u8,
        ack: u8,
        action: Action,
    },
    /// The last packet goes through once more, with its key as it came out.
    Again {
        action: Action,
    },
    /// An ICMP error about the last packet, as it came out.
    Error {
        code: u8,
        exceeded: bool,
        action: Action,
    },
    Pass {
        ms: u16,
    },
    PassLong {
        s: u16,
    },
    FlushZone {
        zone: u8,
    },
    FlushMatching {
        address: u8,
        port: Option<u8>,
        protocol: u8,
    },
    FlushOne {
        which: u8,
    },
    Maximum {
        connections: u8,
    },
    ZoneLimit {
        zone: Option<u8>,
        limit: u8,
    },
    ClearZoneLimit {
        zone: u8,
    },
    Timeouts {
        zone: Option<u8>,
        which: u8,
        seconds: u16,
    },
    ClearTimeouts {
        zone: u8,
    },
    CheckWindows {
        check: bool,
    },
    MakesRoom {
        makes_room: bool,
    },
    Drain,
}

#[derive(Arbitrary, Debug)]
struct Text {
    v6: bool,
    kind: u8,
    client: u8,
    server: u8,
    port: u8,
    flags: u8,
    seq: u8,
    ack: u8,
    len: u8,
}

#[derive(Arbitrary, Debug)]
struct Action {
    commit: bool,
    force: bool,
    zone: u8,
    nat: u8,
    v6: bool,
    mark: Option<(u8, u8)>,
    label: Option<(u8, u8)>,
    helper: u8,
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
    fn bytes(&self) -> Vec<u8> {
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
    fn to_ct(&self) -> CtAction {
        let address = |n: u8| -> IpAddr {
            let text = if self.v6 { format!("fd30::{n}") } else { format!("30.0.0.{n}") };
            text.parse().expect("an address")
        };
        let nat = match self.nat % 16 {
            n @ 0..8 => {
                let (kind, addresses, ports, selection) = RANGES[usize::from(n)];
                let addresses = addresses.map(|(first, last)| (address(first), address(last)));
                let persistent = self.nat & 0x80 != 0;
                Some(Nat::Translate(NatRange { kind, addresses, ports, selection, persistent }))
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

struct World {
    conntrack: Arc<Conntrack>,
    tracker: Tracker,
    now: Instant,
    /// The last packet as it came out.
    last: Option<Frame>,
}

impl World {
    fn track(&mut self, mut frame: Frame, action: &CtAction) {
        let was_good = is_good(&frame);
        let before = self.conntrack.connections();
        let room = self.conntrack.connections_max().max(before);
        let released =
            self.tracker.execute_reassembling(self.now, action, std::slice::from_mut(&mut frame));
        assert!(self.conntrack.connections() <= room, "more connections than the maximum");
        for frame in &released {
            assert!(frame.key.ct_state().contains(CtState::TRK));
            check_key(frame);
        }
        if frame.packet.is_empty() {
            // A fragment that waits for others, or that came out with them.
            self.last = released.into_iter().next();
            return;
        }
        assert!(released.is_empty());
        if let Some(known) = frame.connection {
            // What would go the same way changes nothing that flows see.
            if self.tracker.follow_known(self.now, known, &frame) {
                let mut again = self::frame(frame.packet.data());
                let nat = action.nat.as_ref().map(|_| Nat::Restore);
                let look = CtAction { zone: action.zone, nat, ..CtAction::default() };
                self.tracker.execute(self.now, &look, std::slice::from_mut(&mut again));
                let seen = |frame: &Frame| (frame.key.ct_mark(), frame.key.ct_label());
                assert_eq!(seen(&again), seen(&frame));
            }
        }
        let state = frame.key.ct_state();
        assert!(state.contains(CtState::TRK));
        assert!(!state.contains(CtState::NEW | CtState::EST), "{state}");
        assert!(!state.contains(CtState::INV) || !state.intersects(CtState::NEW | CtState::EST));
        check_key(&frame);
        // Translation mends checksums; what was wrong before may stay wrong.
        assert!(!was_good || is_good(&frame), "a checksum was spoilt");
        self.last = Some(frame);
    }

    /// Zone by zone: to look through all 65,536 each time takes longer than all else.
    fn dump(&self) -> Vec<Entry> {
        let of_zone = |zone| {
            let filter = Filter::zone(Zone(zone));
            self.conntrack.entries(self.now, &filter).collect::<Vec<_>>()
        };
        (0..ZONES).flat_map(of_zone).collect()
    }

    fn check(&self) {
        let entries = self.dump();
        let stats = |zone| self.conntrack.stats(self.now, &Filter::zone(Zone(zone))).total;
        assert_eq!((0..ZONES).map(stats).sum::<u32>() as usize, entries.len());
        assert!(entries.len() <= self.conntrack.connections() as usize);
        let mut seen: HashSet<(Zone, Tuple)> = HashSet::new();
        for entry in &entries {
            assert!(seen.insert((entry.zone, entry.original)), "{entry} is not alone");
            if entry.reply != entry.original {
                assert!(seen.insert((entry.zone, entry.reply)), "{entry} is not alone");
            }
            assert_eq!(entry.original.src.is_ipv4(), entry.reply.dst.is_ipv4(), "{entry}");
        }
        let counts = self.conntrack.zone_limits(&[]).zones;
        let counted: u32 = counts.iter().map(|zone| zone.count).sum();
        assert!(counted <= self.conntrack.connections(), "{counts:?}");
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Packet { packet, action } => {
                self.track(frame(&packet.bytes()), &action.to_ct());
            }
            Operation::Damaged { packet, action, damage, cut } => {
                let mut bytes = packet.bytes();
                for (at, flip) in damage {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= flip;
                }
                if let Some(cut) = cut {
                    bytes.truncate(usize::from(cut).max(14));
                }
                self.track(frame(&bytes), &action.to_ct());
            }
            Operation::Answer { flags, seq, ack, action } => {
                if let Some(answer) = self.last.as_ref().and_then(|it| answer(it, flags, seq, ack))
                {
                    self.track(frame(&answer), &action.to_ct());
                }
            }
            Operation::Again { action } => {
                if let Some(last) = self.last.take() {
                    self.track(last, &action.to_ct());
                }
            }
            Operation::Error { code, exceeded, action } => {
                if let Some(error) = self.last.as_ref().and_then(|it| error(it, code, exceeded)) {
                    self.track(frame(&error), &action.to_ct());
                }
            }
            other => self.control(other),
        }
    }

    fn control(&mut self, operation: Operation) {
        let tracker = &self.conntrack;
        let zone = |zone: u8| Zone(u16::from(zone) % ZONES);
        match operation {
            Operation::Pass { ms } => {
                self.now = self.now + Duration::from_millis(ms.into());
                tracker.tick(self.now);
            }
            Operation::PassLong { s } => {
                self.now = self.now + Duration::from_secs(s.into());
                tracker.tick(self.now);
            }
            Operation::FlushZone { zone: it } => {
                let flush = Flush::zone(zone(it));
                tracker.flush(self.now, &flush).expect("a zone may be empty");
                assert!(self.dump().iter().all(|entry| entry.zone != zone(it)));
            }
            Operation::FlushMatching { address, port, protocol } => {
                let src = Some(format!("10.0.0.{}", address % 4 + 1).parse().expect("an address"));
                let src_port = port.map(|port| 5000 + u16::from(port % 8));
                let original = TupleMatch { src, src_port, ..TupleMatch::default() };
                let protocol = Some([6, 17, 1][usize::from(protocol) % 3]);
                let flush = Flush { protocol, original, ..Flush::default() };
                tracker.flush(self.now, &flush).expect("not a whole tuple");
            }
            Operation::FlushOne { which } => self.flush_one(usize::from(which)),
            Operation::Maximum { connections } => tracker.set_connections_max(connections.into()),
            Operation::ZoneLimit { zone: it, limit } => {
                tracker.set_zone_limit(it.map(zone), limit.into());
            }
            Operation::ClearZoneLimit { zone: it } => {
                tracker.clear_zone_limit(zone(it));
            }
            Operation::Timeouts { zone: it, which, seconds } => {
                let mut policy = TimeoutPolicy::new();
                policy.set(Timeout::ALL[usize::from(which) % Timeout::ALL.len()], seconds.into());
                match it {
                    Some(it) => tracker.set_zone_timeouts(zone(it), policy),
                    None => tracker.set_default_timeouts(policy),
                }
            }
            Operation::ClearTimeouts { zone: it } => {
                tracker.clear_zone_timeouts(zone(it));
            }
            Operation::CheckWindows { check } => tracker.set_check_tcp_windows(check),
            Operation::MakesRoom { makes_room } => tracker.set_makes_room(makes_room),
            Operation::Drain => _ = tracker.drain(),
            _ => {}
        }
    }

    /// Flushes a connection by its whole tuple.
    fn flush_one(&mut self, which: usize) {
        let entries = self.dump();
        let Some(entry) = entries.get(which % entries.len().max(1)) else { return };
        let Tuple { src, dst, protocol, l4 } = entry.original;
        let mut original = TupleMatch { src: Some(src), dst: Some(dst), ..TupleMatch::default() };
        match l4 {
            TupleL4::Ports { src, dst } => {
                (original.src_port, original.dst_port) = (Some(src), Some(dst));
            }
            TupleL4::Icmp { id, icmp_type, code } => {
                (original.icmp_id, original.icmp_type) = (Some(id), Some(icmp_type));
                original.icmp_code = Some(code);
            }
            // Other protocols have no whole tuple.
            TupleL4::None => return,
        }
        let reply = TupleMatch::default();
        let protocol = Some(protocol);
        let zone = Some(entry.zone);
        let flush = Flush { zone, protocol, original, reply, ..Flush::default() };
        let flushed = self.conntrack.flush(self.now, &flush);
        assert_eq!(flushed.ok(), Some(1), "{entry}");
        assert_eq!(self.dump().len(), entries.len() - 1, "{entry}");
    }
}

fn frame(bytes: &[u8]) -> Frame {
    Frame::parse(Packet::from_bytes(bytes), PortNo(1)).expect("a whole Ethernet header")
}

/// The key says what the bytes say.
fn check_key(frame: &Frame) {
    let fresh = self::frame(frame.packet.data());
    for &field in Field::BASIC {
        if !field.name().starts_with("ct_") {
            let (told, there) = (frame.key.get(field), fresh.key.get(field));
            assert_eq!(told, there, "{}", field.name());
        }
    }
}

/// Whether no checksum of the packet is wrong.
fn is_good(frame: &Frame) -> bool {
    use wire::checksum::{Verdict, verify_ipv4_header};
    let header = wire::Ipv4::new_checked(frame.l3());
    let header_is_good = header.is_ok_and(|ip| verify_ipv4_header(ip.header()) == Verdict::Good);
    let upper = wire::UpperLayer::find(frame.l3());
    let upper_is_good = upper.is_ok_and(|upper| upper.verify(frame.l3()) != Verdict::Bad);
    (header_is_good || frame.key.eth_type() != 0x0800) && upper_is_good
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

fn answer(arrived: &Frame, bits: u8, seq: u8, ack: u8) -> Option<Vec<u8>> {
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

fn error(arrived: &Frame, code: u8, exceeded: bool) -> Option<Vec<u8>> {
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

fuzz_target!(|operations: Vec<Operation>| {
    let config = Config { connections_max: 64, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(1, config));
    conntrack.fragments().set_min_bytes(conntrack::IpVersion::V4, 400).expect("the bound itself");
    let tracker = conntrack.tracker().expect("the first tracker");
    let mut world = World { conntrack, tracker, now: Instant::from_millis(1000), last: None };
    let looks_at_all = operations.len() % 16 == 15;
    for operation in operations.into_iter().take(100) {
        world.run(operation);
        world.check();
    }
    // Nothing stays behind: neither when all is flushed, nor in the zones' counts.
    let tracker = &world.conntrack;
    let flush = |flush| tracker.flush(world.now, &flush).expect("not a whole tuple");
    if looks_at_all {
        assert!(tracker.entries(world.now, &Filter::default()).eq(world.dump()));
        flush(Flush::default());
    } else {
        (0..ZONES).for_each(|zone| _ = flush(Flush::zone(Zone(zone))));
    }
    assert_eq!(tracker.connections(), 0);
    assert!(tracker.zone_limits(&[]).zones.iter().all(|zone| zone.count == 0));
});
