//! Support for several test programs: frames and actions from text, checks of bytes.

#![allow(dead_code)]

pub mod case;

use base::{PortNo, Zone};
use conntrack::{Config, Conntrack, Entry, Filter, Tracker};
use flow::{ConnectionRef, CtAction, Field, Frame, Masked, Nat, NatKind, NatRange, PortSelection};
use packet::Packet;
use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

/// The frame that a text describes (`wire::text`).
pub fn frame(text: &str) -> Frame {
    let bytes = wire::text::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).expect("a whole Ethernet header")
}

/// A fragment of the frame that `text` describes: bytes `start..end` behind its IP header; IPv6 is fragmented
/// completely, including extension headers. `id` is IPv6's identification; IPv4 has it in its header.
pub fn fragment(text: &str, start: usize, end: usize, id: u32) -> Frame {
    let whole = wire::text::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Frame::parse(Packet::from_bytes(&cut(&whole, start, end, id)), PortNo(1)).expect("Ethernet")
}

fn cut(whole: &[u8], start: usize, end: usize, id: u32) -> Vec<u8> {
    let l3 = if whole[12..14] == [0x81, 0] { 18 } else { 14 };
    let is_v4 = whole[l3] >> 4 == 4;
    let header = l3 + if is_v4 { 20 } else { 40 };
    let data = &whole[header..];
    let end = end.min(data.len());
    let more = u16::from(end < data.len());
    let mut bytes = whole[..header].to_vec();
    if is_v4 {
        bytes[l3 + 2..l3 + 4].copy_from_slice(&((20 + end - start) as u16).to_be_bytes());
        bytes[l3 + 6..l3 + 8].copy_from_slice(&(more << 13 | (start / 8) as u16).to_be_bytes());
        bytes[l3 + 10..l3 + 12].fill(0);
        let sum = wire::checksum::checksum(&bytes[l3..header]);
        bytes[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
    } else {
        bytes[l3 + 4..l3 + 6].copy_from_slice(&((8 + end - start) as u16).to_be_bytes());
        bytes.extend([whole[l3 + 6], 0]);
        bytes[l3 + 6] = 44;
        bytes.extend((start as u16 | more).to_be_bytes());
        bytes.extend(id.to_be_bytes());
    }
    bytes.extend(&data[start..end]);
    bytes
}

/// Reassembles fragments in order, and checks the result with [`check_frame`].
pub fn check_fragments(frames: &[Frame]) {
    let first = frames.first().expect("a fragment");
    let l3 = usize::from(first.layers.l3);
    let is_v4 = first.l3()[0] >> 4 == 4;
    let header = l3 + if is_v4 { 20 } else { 48 };
    let mut bytes = first.packet.data()[..header].to_vec();
    for frame in frames {
        let fresh =
            Frame::parse(Packet::from_bytes(frame.packet.data()), PortNo(1)).expect("Ethernet");
        for &field in Field::BASIC {
            if !field.name().starts_with("ct_") {
                assert_eq!(frame.key.get(field), fresh.key.get(field), "{}", field.name());
            }
        }
        if let Ok(ip) = wire::Ipv4::new_checked(frame.l3()) {
            assert_eq!(
                wire::checksum::verify_ipv4_header(ip.header()),
                wire::checksum::Verdict::Good
            );
        }
        bytes.extend(&frame.packet.data()[header..]);
    }
    let length = (bytes.len() - l3) as u16;
    if is_v4 {
        bytes[l3 + 2..l3 + 4].copy_from_slice(&length.to_be_bytes());
        bytes[l3 + 6..l3 + 8].fill(0);
        bytes[l3 + 10..l3 + 12].fill(0);
        let sum = wire::checksum::checksum(&bytes[l3..header]);
        bytes[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
    } else {
        bytes[l3 + 4..l3 + 6].copy_from_slice(&(length - 40).to_be_bytes());
        bytes[l3 + 42..l3 + 44].fill(0);
    }
    let whole = Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).expect("Ethernet");
    check_frame(&whole);
}

/// An action without commit.
pub fn look(zone: u16) -> CtAction {
    CtAction { zone: Zone(zone), ..CtAction::default() }
}

/// An action with commit.
pub fn commit(zone: u16) -> CtAction {
    CtAction { commit: true, ..look(zone) }
}

/// `src=10.0.0.1-10.0.0.9:100-200,hash`, `dst=[::1]:80`, `src` (keep the address) or `restore`.
pub fn nat(text: &str) -> Nat {
    if text == "restore" {
        return Nat::Restore;
    }
    let mut parts = text.split(',');
    let first = parts.next().expect("split gives one part at least");
    let (kind, range) = first.split_once('=').unwrap_or((first, ""));
    let kind = match kind {
        "src" => NatKind::Src,
        "dst" => NatKind::Dst,
        other => panic!("{text}: {other} is neither src nor dst"),
    };
    let mut nat = NatRange {
        kind,
        addresses: None,
        ports: None,
        selection: PortSelection::Default,
        persistent: false,
    };
    let (addresses, ports) = split_ports(range);
    if !addresses.is_empty() {
        let ends: Vec<IpAddr> = addresses
            .split('-')
            .map(|ip| ip.trim_matches(['[', ']']).parse().expect("an IP address"))
            .collect();
        nat.addresses = Some((ends[0], *ends.last().expect("split gives one part at least")));
    }
    if !ports.is_empty() {
        let ends: Vec<u16> = ports.split('-').map(|port| port.parse().expect("a port")).collect();
        nat.ports = Some((ends[0], *ends.last().expect("split gives one part at least")));
    }
    for flag in parts {
        match flag {
            "hash" => nat.selection = PortSelection::Hash,
            "random" => nat.selection = PortSelection::Random,
            "persistent" => nat.persistent = true,
            other => panic!("{text}: unknown flag {other}"),
        }
    }
    Nat::Rewrite(nat)
}

/// The ports are behind the last colon outside brackets.
fn split_ports(range: &str) -> (&str, &str) {
    let from = range.rfind(']').unwrap_or(0);
    match range[from..].find(':') {
        Some(at) => (&range[..from + at], &range[from + at + 1..]),
        None => (range, ""),
    }
}

/// `0x5/0xff`, or `5` for all bits.
pub fn masked(text: &str) -> Masked<u128> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).expect("a number"),
        None => text.parse().expect("a number"),
    };
    match text.split_once('/') {
        Some((value, mask)) => Masked { value: number(value), mask: number(mask) },
        None => Masked { value: number(text), mask: u128::MAX },
    }
}

/// All entries, sorted by their lines.
pub fn dump(tracker: &Conntrack, now: base::Instant, zone: Option<u16>) -> Vec<Entry> {
    let filter = Filter { zone: zone.map(Zone), ..Filter::default() };
    let mut entries: Vec<_> = tracker.entries(now, &filter).collect();
    entries.sort_by_cached_key(ToString::to_string);
    entries
}

/// Connection tracking with one thread, for both tracking and commands.
pub struct Tracked {
    conntrack: Arc<Conntrack>,
    tracker: RefCell<Tracker>,
}

impl Tracked {
    pub fn new(seed: u64, config: Config) -> Tracked {
        let conntrack = Arc::new(Conntrack::new(seed, config));
        let tracker = RefCell::new(conntrack.tracker().expect("the first tracker"));
        Tracked { conntrack, tracker }
    }

    pub fn execute(&self, now: base::Instant, action: &CtAction, frames: &mut [Frame]) {
        self.tracker.borrow_mut().execute(now, action, frames);
    }

    pub fn execute_reassembling(
        &self,
        now: base::Instant,
        action: &CtAction,
        frames: &mut [Frame],
    ) -> Vec<Frame> {
        self.tracker.borrow_mut().execute_reassembling(now, action, frames)
    }

    /// Packets and bytes in both directions of the only connection.
    pub fn dump_traffic(&self) -> [(u64, u64); 2] {
        let entries = dump(self, base::Instant::from_millis(1), None);
        let [entry] = &entries[..] else { panic!("{} connections", entries.len()) };
        [entry.original_traffic, entry.reply_traffic].map(|it| (it.packets, it.bytes))
    }

    pub fn follow_known(&self, now: base::Instant, known: ConnectionRef, frame: &Frame) -> bool {
        self.tracker.borrow_mut().follow_known(now, known, frame)
    }
}

impl Deref for Tracked {
    type Target = Conntrack;

    fn deref(&self) -> &Conntrack {
        &self.conntrack
    }
}

/// An empty tracker with the defaults.
pub fn tracker() -> Tracked {
    Tracked::new(42, Config::default())
}

/// Panics if the key and the bytes differ, or a checksum is wrong.
pub fn check_frame(frame: &Frame) {
    let fresh = Frame::parse(Packet::from_bytes(frame.packet.data()), PortNo(1))
        .expect("a whole Ethernet header");
    for &field in Field::BASIC {
        if !field.name().starts_with("ct_") {
            assert_eq!(frame.key.get(field), fresh.key.get(field), "{}", field.name());
        }
    }
    if let Ok(ip) = wire::Ipv4::new_checked(frame.l3()) {
        assert_eq!(wire::checksum::verify_ipv4_header(ip.header()), wire::checksum::Verdict::Good);
    }
    if let Ok(upper) = wire::UpperLayer::find(frame.l3()) {
        assert_ne!(upper.verify(frame.l3()), wire::checksum::Verdict::Bad);
    }
}
