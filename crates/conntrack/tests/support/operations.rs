//! Operations on a tracker and on the oracle, in any order. Both must agree on each packet and on their
//! state.
//!
//! The operations cover datagrams, echoes and protocols without ports; TCP by hosts that sometimes violate
//! its rules by amounts around the limits of the window checks; SCTP; announcements of FTP and TFTP; ICMP
//! errors; fragments; IPv4 and IPv6; zones, commits, force, marks, NAT, changing maximum and limits, flushes
//! and time.

#![allow(dead_code)]

#[path = "oracle/mod.rs"]
mod oracle;

use base::{Instant, PortNo, Zone};
use conntrack::{Change, Config, Conntrack, CtFlush, Event, Filter, Tracker, What};
use flow::{
    CtAction, Field, Frame, Masked, Nat, NatKind, NatRange, PortSelection, Tuple, TupleL4,
    TupleMatch,
};
use oracle::{Known, Oracle, Progress, reverse};
use packet::Packet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// An encoded operation: its kind and its choices. Any bytes are valid.
pub type Operation = [u8; 8];

const ZONES: u16 = 3;
const HOSTS: [[u8; 4]; 4] = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3], [30, 0, 0, 101]];
/// Offsets of sequence numbers from the expected one. The limits of the checks are at 65,535 + 1,500.
const OFF: [i64; 16] =
    [0, 0, 0, 0, 0, 1, -1, 2, -2, 1000, -1000, 67_035, -67_035, 67_036, -67_036, 3_000_000_000];
const FLAGS: [&str; 16] =
    ["A", "A", "PA", "PA", "SA", "SA", "S", "FA", "FA", "R", "RA", "F", "-", "SR", "FPA", "AU"];
const WINDOWS: [u32; 8] = [0, 1, 500, 1000, 2000, 9000, 40_000, 65_535];
const CHUNKS: [&str; 16] = [
    "init/7",
    "init/8",
    "init-ack/9",
    "init-ack/5",
    "cookie-echo",
    "cookie-echo,data",
    "cookie-ack",
    "data",
    "sack",
    "heartbeat",
    "abort",
    "abort!",
    "shutdown",
    "shutdown-ack",
    "shutdown-complete",
    "shutdown-complete!",
];
/// Lines of FTP control connections.
const LINES: [&str; 17] = [
    "USER%20joe%0d%0a",
    "220%20hello%0d%0a",
    "PORT%2010,0,0,1,19,136%0d%0a",
    "PORT%2010,0,0,2,19,137%0d%0a",
    "EPRT%20|1|10.0.0.1|5000|%0d%0a",
    "EPRT%20|2|fd00::1|5000|%0d%0a",
    "227%20Passive%20%2810,0,0,2,19,136%29%0d%0a",
    "229%20Passive%20%28|||5001|%29%0d%0a",
    "PORT%2010,0,0,1,0,80%0d%0a",
    "PORT%2010,0,0,1,195",
    "POST%20/%20HTTP/1.1%0d%0aHost:%20x%0d%0a",
    "LIST%0d%0aPORT%2010,0,0,1,19,136%0d%0a",
    "PASV%0d%0a",
    "EPSV%0d%0a",
    "200%20ok%0d%0a",
    "500%20no%0d%0a",
    "200-ok%0d%0a",
];

/// Counters of connections refused or dropped for lack of room.
const ROOM: [Event; 5] = [
    Event::EvictedClosed,
    Event::EvictedUnanswered,
    Event::EvictedAnswered,
    Event::Full,
    Event::ZoneFull,
];

/// The action for a packet.
#[derive(Clone, Default, Debug)]
struct Order {
    zone: u16,
    commit: bool,
    force: bool,
    mark: Option<(u32, u32)>,
    nat: Option<NatChoice>,
    helper: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NatChoice {
    Restore,
    /// The source becomes 30.0.0.101 or fd00::4.
    Source,
    /// The destination becomes 10.0.0.3 or fd00::3.
    Destination,
}

/// The tracker and the oracle, side by side.
struct World {
    conntrack: Arc<Conntrack>,
    tracker: Tracker,
    oracle: Oracle,
    now_ms: u64,
    /// The next segment of each end of a TCP connection.
    seqs: BTreeMap<(u16, Tuple), u32>,
}

/// Performs operations on both. Panics if they differ.
pub fn run(seed: u64, early_drop: bool, operations: &[Operation]) {
    let config = Config { connections_max: 20, early_drop, ..Config::default() };
    let mut world = World::new(seed, config);
    // So few that early drop happens.
    let fragments_max = seed as u32 % 8;
    world.conntrack.fragments().set_fragments_max(fragments_max).expect("not above the bound");
    world.oracle.fragments.max = fragments_max as usize;
    for (step, operation) in operations.iter().enumerate() {
        world.carry_out(*operation, &format!("step {step}, {operation:?}"));
    }
    world.compare("at the end");
}

/// Fills a table of four zones with connections of all classes. The table is so small that early drop
/// examines all of it. Panics if another connection is dropped than the oracle expects.
pub fn fill(seed: u64, max: u32, operations: &[Operation]) {
    let mut world = World::new(seed, Config { connections_max: max, ..Config::default() });
    for zone in 0..ZONES {
        world.conntrack.set_zone_limit(Some(Zone(zone)), 30);
        world.oracle.limits.insert(zone, 30);
    }
    let mut begun: Vec<(u8, Order, String, String)> = Vec::new();
    for (step, [which, a, b, ..]) in operations.iter().enumerate() {
        world.now_ms += u64::from(*b);
        let at = format!("step {step}");
        // The first zone is as frequent as all others together.
        let zone = if a & 1 == 0 { 0 } else { u16::from(a >> 1) % ZONES };
        let (forth, back) =
            (format!("10.0.0.1:{}>10.0.0.2:80", 1000 + step), "10.0.0.2:80>10.0.0.1");
        let back = format!("{back}:{}", 1000 + step);
        let order = Order { zone, commit: true, ..Order::default() };
        match which % 8 {
            0..3 => world.send(&format!("{forth} udp len=9"), &order, &at),
            3 => world.send(
                &format!("10.0.0.1>10.0.0.2 icmp-echo id={step} seq=1 len=8"),
                &order,
                &at,
            ),
            4 => world.send(&format!("{forth} sctp tag=0 chunks=init/7"), &order, &at),
            _ => world.send(&format!("{forth} S seq=100 win=1000"), &order, &at),
        }
        begun.push((which % 8, order, forth, back));
        let (kind, order, forth, back) =
            &begun[begun.len() - 1 - usize::from(*a) % begun.len().min(8)];
        if which & 0x80 == 0 {
            continue;
        }
        match kind {
            0..3 => world.send(&format!("{back} udp len=9"), order, &at),
            3 | 4 => {}
            _ => {
                world.send(&format!("{back} SA seq=500 ack=101 win=1000"), order, &at);
                world.send(&format!("{forth} A seq=101 ack=501 win=1000"), order, &at);
                if which & 0x40 != 0 {
                    world.send(&format!("{forth} R seq=101"), order, &at);
                }
            }
        }
    }
    world.compare("at the end");
}

impl World {
    fn new(seed: u64, config: Config) -> World {
        let oracle = Oracle::new(&config);
        let conntrack = Arc::new(Conntrack::new(seed, config));
        let tracker = conntrack.tracker().expect("the first tracker");
        conntrack.set_watched(true);
        World { conntrack, tracker, oracle, now_ms: 1000, seqs: BTreeMap::new() }
    }

    fn carry_out(&mut self, operation: Operation, at: &str) {
        let [which, a, b, c, ..] = operation;
        let order = order(operation);
        match which % 64 {
            0..12 => self.send(&datagram([a, b, c]), &order, at),
            12..18 => {
                let (ends, tuple) = ends(6, a, b, c);
                self.seqs.insert((order.zone, tuple), 101);
                self.seqs.insert((order.zone, reverse(tuple)), 500);
                let scale = ["", "", " wscale=0", " wscale=7"][usize::from(c >> 6)];
                let window = WINDOWS[usize::from(b >> 5)];
                self.send(&format!("{ends} S seq=100 win={window}{scale}"), &order, at);
            }
            18..36 => self.segment(operation, &order, at),
            36..40 => self.sctp(operation, &order, at),
            40..42 => {
                let (ends, _) = ends(17, a, b, 0);
                let data = ["%00%01name%00octet%00", "%00%05xx"][usize::from(c % 2)];
                let order = Order { helper: Some("tftp"), force: false, ..order };
                self.send(&format!("{ends} udp data={data}"), &order, at);
            }
            42..45 => self.error(operation, &order, at),
            45..48 => {
                let (ends, _) = ends(17, a, b, 0);
                let text = format!("{ends} udp len=3000 ipid={}", 7 + c % 2);
                let places =
                    [(0, 1480), (1480, 2960), (2960, 3008), (1480, 3008), (0, 1488), (8, 1480)];
                let (start, end) = places[usize::from(c >> 1) % places.len()];
                self.send_bytes(
                    &cut(&text, start, end),
                    &order,
                    &format!("{at}: {start}..{end} of {text}"),
                );
            }
            60..64 => self.talk(operation, &order, at),
            _ => self.arrange(operation, at),
        }
        if which % 8 == 0 {
            self.compare(at);
        }
    }

    /// Operations other than packets.
    fn arrange(&mut self, [which, a, b, c, d, ..]: Operation, at: &str) {
        let (zone, now) = (u16::from(a) % ZONES, Instant::from_millis(self.now_ms));
        match which % 64 {
            48 => self.flush(&CtFlush::zone(Zone(zone)), at),
            49..51 => self.flush_one(a, at),
            51 => {
                let original = TupleMatch { src: Some(host(b)), ..TupleMatch::default() };
                self.flush(&CtFlush { zone: Some(Zone(zone)), original, ..CtFlush::default() }, at);
            }
            52 => {
                let mark = Some(Masked { value: u32::from(b & c), mask: u32::from(c) });
                self.flush(&CtFlush { zone: Some(Zone(zone)), mark, ..CtFlush::default() }, at);
            }
            53 if a % 8 == 0 => self.flush(&CtFlush::default(), at),
            54 => {
                self.oracle.max = u32::from(b % 32);
                self.conntrack.set_connections_max(u32::from(b % 32));
            }
            55 => {
                let limit = 1 + u32::from(b % 8);
                let of = (c % 4 != 0).then_some(Zone(zone));
                self.conntrack.set_zone_limit(of, limit);
                match of {
                    None => self.oracle.limit_default = limit,
                    Some(zone) => _ = self.oracle.limits.insert(zone.0, limit),
                }
            }
            56 => {
                self.conntrack.clear_zone_limit(Zone(zone));
                self.oracle.limits.remove(&zone);
            }
            57 => {
                self.oracle.checks_windows = a % 4 != 0;
                self.conntrack.set_check_tcp_windows(a % 4 != 0);
            }
            _ => {
                let steps_ms = [1, 500, 2_900, 5_000, 31_000, 40_000, 61_000, 901_000];
                self.now_ms += steps_ms[usize::from(d % 8)];
                if d > 250 {
                    self.now_ms += 86_401_000;
                }
                // A connection that is due within a tick of the wheel may still exist otherwise, and count.
                self.oracle.expire(Instant::from_millis(self.now_ms));
                let _ = now;
            }
        }
    }

    /// The nth connection of a protocol.
    fn nth(&self, which: u8, protocol: u8) -> Option<&Known> {
        let is_it = |known: &&Known| known.original.protocol == protocol;
        let those: Vec<&Known> = self.oracle.known.iter().filter(is_it).collect();
        those.get(usize::from(which).checked_rem(those.len())?).copied()
    }

    /// A segment of a TCP connection, as one of its ends sends it or a third host.
    fn segment(&mut self, operation: Operation, order: &Order, at: &str) {
        let [which, a, b, c, ..] = operation;
        let Some(known) = self.nth(a, 6) else { return };
        let Progress::Tcp(sides) = &known.progress else { return };
        let (zone, is_begun) = (known.zone, sides.iter().any(|it| it.state as u8 == 0));
        // Mostly, the SYN is answered first.
        let from = if is_begun && b & 7 != 0 { 1 } else { usize::from(b >> 7) };
        let flags = if is_begun && b & 7 != 0 { "SA" } else { FLAGS[usize::from(b >> 3) % 16] };
        let tuple = if from == 0 { known.original } else { known.reply };
        let next =
            |tuple: Tuple, first: u32| self.seqs.get(&(zone, tuple)).copied().unwrap_or(first);
        let both = [next(known.original, 101), next(known.reply, 500)];
        let (own, acked) = (both[from], both[1 - from]);
        let (off, off_ack) = (OFF[usize::from(c) % 16], OFF[usize::from(c >> 4)]);
        let off_ack = if off == 0 { off_ack } else { 0 };
        let number = |from: u32, off: i64| from.wrapping_add(off as u32);
        let (seq, ack) = (number(own, off), number(acked, off_ack));
        let window = WINDOWS[usize::from(a >> 5)];
        let data = match which % 4 {
            0 if !flags.contains(['S', 'F', 'R']) => {
                format!(" data={}", LINES[usize::from(a >> 2) % LINES.len()])
            }
            1 => format!(" len={}", [1, 10, 1000, 1400][usize::from(a >> 3) % 4]),
            _ => String::new(),
        };
        let scale = match flags.contains('S') && a & 4 != 0 {
            true => [" wscale=0", " wscale=7", " wscale=14"][usize::from(a >> 3) % 3],
            false => "",
        };
        let acks = if flags.contains('A') { format!(" ack={ack}") } else { String::new() };
        let text = format!("{} {flags} seq={seq}{acks} win={window}{scale}{data}", of_tuple(tuple));
        let nat = known.nat.map(|_| NatChoice::Restore);
        if off == 0 {
            self.seqs.insert((zone, tuple), seq.wrapping_add(space(&text)));
        }
        let order = Order { zone, force: order.force && which % 16 == 2, nat, ..order.clone() };
        self.send(&text, &order, at);
    }

    /// The next line of an FTP control connection, with the right sequence number.
    fn talk(&mut self, [_, a, b, ..]: Operation, order: &Order, at: &str) {
        let is_it = |known: &&Known| known.helper == Some("ftp");
        let those: Vec<&Known> = self.oracle.known.iter().filter(is_it).collect();
        let Some(index) = usize::from(a).checked_rem(those.len()) else { return };
        let known = those[index];
        let Progress::Tcp(sides) = &known.progress else { return };
        let line = LINES[usize::from(b) % LINES.len()];
        let is_answered = sides[1].state as u8 != 0;
        let from = usize::from(!is_answered || line.starts_with(['2', '5']));
        let zone = known.zone;
        let next =
            |tuple: Tuple, first: u32| self.seqs.get(&(zone, tuple)).copied().unwrap_or(first);
        let both = [next(known.original, 101), next(known.reply, 500)];
        let tuple = if from == 0 { known.original } else { known.reply };
        let what = match is_answered {
            true => format!("PA seq={} ack={} data={line}", both[from], both[1 - from]),
            false => format!("SA seq={} ack={}", both[from], both[1 - from]),
        };
        let text = format!("{} {what} win=9000", of_tuple(tuple));
        let nat = known.nat.map(|_| NatChoice::Restore);
        self.seqs.insert((zone, tuple), both[from].wrapping_add(space(&text)));
        let order = Order { zone, force: false, nat, ..order.clone() };
        self.send(&text, &order, at);
    }

    fn sctp(&mut self, [which, a, b, c, ..]: Operation, order: &Order, at: &str) {
        let chunks = CHUNKS[usize::from(c) % 16];
        let known = self.nth(a, 132).filter(|_| which % 4 != 0);
        let Some(known) = known else {
            let (ends, _) = ends(132, a, b, 0);
            let tag = if c & 0x30 == 0 { " tag=9" } else { "" };
            let chunks = if tag.is_empty() { "init/7" } else { "data" };
            return self.send(&format!("{ends} sctp{tag} chunks={chunks}"), order, at);
        };
        let tuple = if b & 1 == 0 { known.original } else { known.reply };
        let tags = [7, 9];
        let tag = match c >> 4 {
            0..2 => 5,
            2 => 8,
            // The tag that the other side requested; a reflected tag is its own.
            _ => tags[usize::from((b & 1 == 0) != chunks.contains('!'))],
        };
        let tag = if chunks.starts_with("init/") { 0 } else { tag };
        let nat = known.nat.map(|_| NatChoice::Restore);
        let order = Order { zone: known.zone, force: false, nat, ..order.clone() };
        self.send(&format!("{} sctp tag={tag} chunks={chunks}", of_tuple(tuple)), &order, at);
    }

    /// An ICMP error about a packet that left on either side of a connection.
    fn error(&mut self, [which, a, b, c, ..]: Operation, order: &Order, at: &str) {
        let those = &self.oracle.known;
        let Some(index) = usize::from(a).checked_rem(those.len()) else { return };
        let known = &those[index];
        let quoted = reverse(if b & 1 == 0 { known.original } else { known.reply });
        let inner = match (quoted.protocol, quoted.l4) {
            (6, _) => {
                let own = self.seqs.get(&(known.zone, quoted)).copied().unwrap_or(101);
                let seq = own.wrapping_add(OFF[usize::from(c) % 16] as u32);
                format!("{} A seq={seq} ack=1", of_tuple(quoted))
            }
            (132, _) => format!("{} sctp tag={} chunks=data", of_tuple(quoted), 1 + c % 9),
            (17, _) => format!("{} udp len=9", of_tuple(quoted)),
            (protocol, TupleL4::Icmp { id, icmp_type, .. }) => {
                let kind = if matches!(icmp_type, 8 | 128) { "icmp-echo" } else { "icmp-reply" };
                let _ = protocol;
                format!("{} {kind} id={id} seq=1 len=8", addresses(quoted))
            }
            _ => format!("{} ip proto=47 len=12", addresses(quoted)),
        };
        let to = if c & 0x70 == 0 { host(b >> 2) } else { quoted.src };
        let from = if b & 2 == 0 { quoted.dst } else { host_like(b >> 2, to) };
        if from.is_ipv4() != to.is_ipv4() || to.is_ipv4() != quoted.src.is_ipv4() {
            return;
        }
        let codes = ["icmp-unreach(3)", "icmp-exceeded(0)", "icmp-unreach(1)"];
        let code = codes[usize::from(which) % codes.len()];
        let ends = addresses(Tuple { src: from, dst: to, ..quoted });
        let nat = known.nat.map(|_| NatChoice::Restore);
        let order = Order { zone: known.zone, force: false, nat, ..order.clone() };
        self.send(&format!("{ends} {code} ({inner})"), &order, at);
    }

    fn send(&mut self, text: &str, order: &Order, at: &str) {
        self.send_bytes(&parse(text), order, &format!("{at}: {text}"));
    }

    fn send_bytes(&mut self, bytes: &[u8], order: &Order, at: &str) {
        let now = Instant::from_millis(self.now_ms);
        self.oracle.expire(now);
        while self.conntrack.tick(now) > 0 || self.conntrack.drain() {}
        // A connection that is due within a tick of the wheel may still exist, and count.
        if self.conntrack.connections() as usize > self.oracle.known.len() {
            return;
        }
        let frame = || Frame::parse(Packet::from_bytes(bytes), PortNo(1)).expect("whole headers");
        let (mut frame_here, mut frame_there) = (frame(), frame());
        let action = action(order, bytes[12] == 8 && bytes[13] == 0);
        let frames = std::slice::from_mut(&mut frame_here);
        let mut found: Vec<Frame> = self.tracker.execute_reassembling(now, &action, frames);
        self.oracle.dropped = self.dropped();
        let mut expected = self.oracle.track(now, &action, &mut frame_there);
        found.push(frame_here);
        expected.push(frame_there);
        let shown = |frame: &Frame| {
            let state = frame.key.ct_state().to_string();
            let text = wire::text::describe(frame.packet.data());
            (state, frame.key.ct_mark(), text.unwrap_or_default())
        };
        let at = format!("{at} {order:?}");
        let dropped = &self.oracle.dropped;
        for event in ROOM {
            let both = [self.conntrack.counters().get(event), self.oracle.counted(event)];
            assert_eq!(both[0], both[1], "{at}: {}, {dropped:?}", event.name());
        }
        assert_eq!(found.len(), expected.len(), "{at}: fragments");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(shown(found), shown(expected), "{at}");
            assert_eq!(found.packet.data(), expected.packet.data(), "{at}");
            for field in Field::BASIC.iter().filter(|field| field.name().starts_with("ct_")) {
                let both = [found, expected].map(|frame| frame.key.get(*field));
                assert_eq!(both[0], both[1], "{at}: {}", field.name());
            }
        }
    }

    /// Connections that the tracker dropped since the last call.
    fn dropped(&self) -> Vec<(u16, Tuple)> {
        let changes = self.conntrack.events().changes.into_iter();
        let is_dropped = |change: &Change| matches!(change.what, What::Destroyed(event) if ROOM.contains(&event));
        changes.filter(is_dropped).map(|it| (it.entry.zone.0, it.entry.original)).collect()
    }

    fn flush(&mut self, flush: &CtFlush, at: &str) {
        let now = Instant::from_millis(self.now_ms);
        self.oracle.expire(now);
        while self.conntrack.tick(now) > 0 || self.conntrack.drain() {}
        if self.conntrack.connections() as usize > self.oracle.known.len() {
            return;
        }
        let flushed = self.conntrack.flush(now, flush);
        assert_eq!(flushed.ok(), self.oracle.flush(now, flush), "{at}: {flush:?}");
    }

    /// Flushes one connection by its whole tuple.
    fn flush_one(&mut self, which: u8, at: &str) {
        self.oracle.expire(Instant::from_millis(self.now_ms));
        let Some(index) = usize::from(which).checked_rem(self.oracle.known.len()) else { return };
        let Known { zone, original, .. } = &self.oracle.known[index];
        let Some(flush) = CtFlush::connection(Zone(*zone), original) else { return };
        self.flush(&flush, at);
    }

    fn compare(&mut self, at: &str) {
        let now = Instant::from_millis(self.now_ms);
        let shown = |entries: Vec<conntrack::Entry>| {
            let mut shown: Vec<_> = entries
                .into_iter()
                .map(|it| {
                    let detail = conntrack::text::Detail { more: true, statistics: true };
                    let traffic = [it.original_traffic, it.reply_traffic];
                    let traffic = traffic.map(|it| (it.packets, it.bytes));
                    (it.zone.0, it.original, it.display(detail).to_string(), traffic)
                })
                .collect();
            shown.sort_unstable();
            shown
        };
        let zones = (0..ZONES).map(|zone| Filter::zone(Zone(zone)));
        let found = zones.flat_map(|it| self.conntrack.entries(now, &it).collect::<Vec<_>>());
        let found = shown(found.collect());
        let expected = shown(self.oracle.entries(now, &Filter::default()));
        assert_eq!(found, expected, "{at}");
    }
}

fn parse(text: &str) -> Vec<u8> {
    wire::text::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The number of sequence numbers that a segment takes.
fn space(text: &str) -> u32 {
    let bytes = parse(text);
    let l4 = if bytes[14] >> 4 == 4 { 34 } else { 54 };
    let header = usize::from(bytes[l4 + 12] >> 4) * 4;
    let flags = u32::from(bytes[l4 + 13] & 1) + u32::from(bytes[l4 + 13] >> 1 & 1);
    (bytes.len() - l4 - header) as u32 + flags
}

/// A fragment of an IPv4 packet; an IPv6 packet whole.
fn cut(text: &str, start: usize, end: usize) -> Vec<u8> {
    let whole = parse(text);
    if whole[14] >> 4 != 4 {
        return whole;
    }
    let mut bytes = whole[..34].to_vec();
    bytes.extend(&whole[34 + start..34 + end]);
    let more = u16::from(34 + end < whole.len());
    bytes[16..18].copy_from_slice(&((20 + end - start) as u16).to_be_bytes());
    bytes[20..22].copy_from_slice(&(more << 13 | (start / 8) as u16).to_be_bytes());
    bytes[24..26].fill(0);
    let sum = wire::checksum::checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// An IPv4 address, or in one of eight cases an IPv6 address.
fn host(n: u8) -> IpAddr {
    match n & 0x38 {
        0x38 => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1 + u16::from(n % 4)]),
        _ => IpAddr::from(HOSTS[usize::from(n % 4)]),
    }
}

/// An address of the same IP version.
fn host_like(n: u8, other: IpAddr) -> IpAddr {
    match other {
        IpAddr::V4(_) => IpAddr::from(HOSTS[usize::from(n % 4)]),
        IpAddr::V6(_) => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1 + u16::from(n % 4)]),
    }
}

fn addresses(tuple: Tuple) -> String {
    match tuple.src {
        IpAddr::V4(_) => format!("{}>{}", tuple.src, tuple.dst),
        IpAddr::V6(_) => format!("[{}]>[{}]", tuple.src, tuple.dst),
    }
}

fn of_tuple(tuple: Tuple) -> String {
    let TupleL4::Ports { src, dst } = tuple.l4 else { return addresses(tuple) };
    match tuple.src {
        IpAddr::V4(_) => format!("{}:{src}>{}:{dst}", tuple.src, tuple.dst),
        IpAddr::V6(_) => format!("[{}]:{src}>[{}]:{dst}", tuple.src, tuple.dst),
    }
}

/// Hosts and ports of a packet that may begin a connection.
fn ends(protocol: u8, a: u8, b: u8, c: u8) -> (String, Tuple) {
    let src = host(a);
    let mut dst = host_like(a >> 6, src);
    // The direction of a host's packets to itself is ambiguous.
    if src == dst && protocol != 17 {
        dst = host_like((a >> 6) + 1, src);
    }
    let l4 = TupleL4::Ports { src: 5000 + u16::from(b % 3), dst: 5000 + u16::from(c % 3) };
    let tuple = Tuple { src, dst, protocol, l4 };
    (of_tuple(tuple), tuple)
}

fn datagram([a, b, c]: [u8; 3]) -> String {
    let (ends, tuple) = ends(17, a, b, c);
    match b >> 6 {
        0 | 1 => format!("{ends} udp len=9{}", if b & 0x38 == 0x38 { " csum=zero" } else { "" }),
        2 => {
            let kind = if c & 0x80 == 0 { "icmp-reply" } else { "icmp-echo" };
            format!("{} {kind} id={} seq=1 len=8", addresses(tuple), 5000 + u16::from(b % 3))
        }
        _ => format!("{} ip proto=47 len=12", addresses(tuple)),
    }
}

fn order([which, _, _, _, d, e, f, g]: Operation) -> Order {
    let nats = [
        None,
        None,
        Some(NatChoice::Restore),
        Some(NatChoice::Restore),
        Some(NatChoice::Source),
        Some(NatChoice::Destination),
    ];
    Order {
        zone: u16::from(d) % ZONES,
        commit: e & 1 != 0,
        force: e & 0x0e == 2,
        mark: (e & 0x30 == 0x10).then(|| (u32::from(f), u32::from(g))),
        nat: nats[usize::from(f) % nats.len()],
        helper: (e & 0xc0 == 0x40 && matches!(which % 64, 12..36)).then_some("ftp"),
    }
}

fn action(order: &Order, is_v4: bool) -> CtAction {
    let rewrite = |kind, last: u8| {
        let address = match is_v4 {
            true => IpAddr::from(HOSTS[usize::from(last)]),
            false => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1 + u16::from(last)]),
        };
        Nat::Rewrite(NatRange {
            kind,
            addresses: Some((address, address)),
            ports: None,
            selection: PortSelection::Default,
            persistent: false,
        })
    };
    CtAction {
        zone: Zone(order.zone),
        commit: order.commit || order.force,
        force: order.force,
        mark: order.mark.map(|(value, mask)| Masked { value, mask }),
        nat: order.nat.map(|nat| match nat {
            NatChoice::Restore => Nat::Restore,
            NatChoice::Source => rewrite(NatKind::Src, 3),
            NatChoice::Destination => rewrite(NatKind::Dst, 2),
        }),
        helper: order.helper,
        ..CtAction::default()
    }
}
