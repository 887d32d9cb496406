//! Random packets: of new and existing connections, replies to forwarded packets, ICMP errors about these,
//! and malformed ones.

use super::tunnels;
use fastrand::Rng;

/// A packet and its input or output port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub port: u32,
    pub bytes: Vec<u8>,
}

/// The latest packets, from which new ones are derived.
pub struct Traffic {
    random: Rng,
    received: Vec<Sent>,
    sent: Vec<Sent>,
    /// Whether there are packets in tunnels.
    pub has_tunnels: bool,
}

const KEPT: usize = 48;

impl Traffic {
    pub fn new(seed: u64) -> Traffic {
        Traffic {
            random: Rng::with_seed(seed),
            received: Vec::new(),
            sent: Vec::new(),
            has_tunnels: false,
        }
    }

    pub fn random(&mut self) -> &mut Rng {
        &mut self.random
    }

    /// Records a packet that the switch sent.
    pub fn saw(&mut self, sent: &Sent) {
        match tunnels::unwrap(&sent.bytes).filter(|_| self.has_tunnels) {
            Some(bytes) => keep(&mut self.random, &mut self.sent, &Sent { bytes, port: sent.port }),
            None => keep(&mut self.random, &mut self.sent, sent),
        }
    }

    /// Returns the next packet. Its port is below 4, or the given one.
    pub fn next(&mut self, port: u32) -> Sent {
        let mut packet = match self.random.u32(0..100) {
            0..8 => self.fresh(),
            8..40 => self.again().unwrap_or_else(|| self.fresh()),
            40..55 => self.more().unwrap_or_else(|| self.fresh()),
            55..94 => self.answer().unwrap_or_else(|| self.fresh()),
            94..96 => self.error().unwrap_or_else(|| self.fresh()),
            _ => self.spoiled().unwrap_or_else(|| self.fresh()),
        };
        if self.random.u32(0..40) == 0 {
            packet.port = port;
        }
        keep(&mut self.random, &mut self.received, &packet);
        if self.has_tunnels { self.wrapped(packet) } else { packet }
    }

    /// Puts most packets into a tunnel, and spoils the outer headers of some.
    fn wrapped(&mut self, mut packet: Sent) -> Sent {
        let r = &mut self.random;
        if r.u32(0..4) != 0 {
            let choice = if r.u32(0..8) == 0 { r.u32(..) } else { 0x1_0113 };
            packet.bytes = tunnels::wrap(&packet.bytes, choice);
            if r.u32(0..50) == 0 {
                let at = r.usize(0..packet.bytes.len().min(58));
                packet.bytes[at] = r.u8(..);
            }
        }
        packet
    }

    fn fresh(&mut self) -> Sent {
        let r = &mut self.random;
        let (a, b) = (r.u32(1..4), r.u32(4..6));
        let (sport, dport) = (1000 + r.u32(0..3), 80 + r.u32(0..2));
        let options = ["", " ttl=9", " tos=1", " vlan=5", " svlan=6", " csum=bad", " frag=first"]
            [r.usize(0..24).saturating_sub(17)];
        let flags = ["S", "S", "S", "A ack=9", "PA ack=9 len=4", "SA ack=4", "R", "SF"];
        let what = match r.u32(0..15) {
            0..5 => format!("{} seq={}", flags[r.usize(0..8)], 100 * r.u32(0..3)),
            5..9 => format!("udp len={}", r.u32(0..20)),
            9 => "sctp tag=1 len=16".to_owned(),
            10 => format!("ip proto={} len=9", [2, 47, 47, 50][r.usize(0..4)]),
            _ => format!("icmp-echo id={} seq={}", r.u32(1..4), r.u32(1..4)),
        };
        let has_ports = !what.starts_with(['i']);
        let ports = |port: u32| if has_ports { format!(":{port}") } else { String::new() };
        let ends = match r.u32(0..4) {
            0 if !has_ports => format!("[fd00::{a}]>[fd00::{b}]"),
            0 => format!("[fd00::{a}]{}>[fd00::{b}]{}", ports(sport), ports(dport)),
            _ => format!("10.0.0.{a}{}>10.0.0.{b}{}", ports(sport), ports(dport)),
        };
        let text = match r.u32(0..30) {
            0 => format!("10.0.0.{a}>10.0.0.{b} arp-request"),
            1 => format!("[fd00::{a}]>[fd00::{b}] nd-solicit"),
            _ => format!("{ends} {what}{options}"),
        };
        let bytes = wire::text::parse(&text)
            .or_else(|_| wire::text::parse(text.trim_end_matches(" csum=bad")))
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        Sent { port: r.u32(0..4), bytes }
    }

    /// Returns an earlier packet again.
    fn again(&mut self) -> Option<Sent> {
        self.random.choice(&self.received).cloned()
    }

    /// Returns the next packet of the sender of an earlier one.
    fn more(&mut self) -> Option<Sent> {
        let mut packet = self.random.choice(&self.received)?.clone();
        let r = &mut self.random;
        change_icmp(&mut packet.bytes, |at| if r.u32(0..8) == 0 { at - 2 } else { at });
        change_tcp(&mut packet.bytes, |seq, ack, flags, len| {
            let used = len + u32::from(flags & 3 != 0);
            let flags = [0x10, 0x10, 0x18, 0x18, 0x11, 0x14, flags][r.usize(0..7)];
            (seq.wrapping_add(used), if ack == 0 { 1001 } else { ack }, flags)
        });
        Some(packet)
    }

    /// Returns the reply of the receiver of a packet.
    fn answer(&mut self) -> Option<Sent> {
        let mut packet = self.random.choice(&self.sent)?.clone();
        let r = &mut self.random;
        swap(&mut packet.bytes, 0, 6, 6);
        let l3 = network(&packet.bytes)?;
        let l4 = transport(&packet.bytes);
        match packet.bytes[l3] >> 4 {
            4 => swap(&mut packet.bytes, l3 + 12, l3 + 16, 4),
            _ => swap(&mut packet.bytes, l3 + 8, l3 + 24, 16),
        }
        let protocol = protocol(&packet.bytes, l3);
        if let Some(l4) = l4 {
            match protocol {
                1 if packet.bytes.get(l4) == Some(&8) => packet.bytes[l4] = 0,
                58 if packet.bytes.get(l4) == Some(&128) => packet.bytes[l4] = 129,
                6 | 17 | 132 if packet.bytes.len() >= l4 + 4 => {
                    swap(&mut packet.bytes, l4, l4 + 2, 2);
                }
                _ => {}
            }
        }
        change_tcp(&mut packet.bytes, |seq, ack, flags, len| {
            let used = len + u32::from(flags & 3 != 0);
            let ours = if flags & 0x10 != 0 { ack } else { 1000 };
            let answer = if flags & 0x12 == 2 { 0x12 } else { 0x10 };
            let flags = [answer, answer, answer, answer, 0x18, 0x11, 0x14][r.usize(0..7)];
            (ours, seq.wrapping_add(used), flags)
        });
        wire::builder::fill_checksums(&mut packet.bytes[l3..]);
        Some(packet)
    }

    /// Returns the ICMP error of a router about a forwarded packet (over IPv4: port unreachable), received on
    /// the port that the packet left by, or on another.
    fn error(&mut self) -> Option<Sent> {
        let about = self.random.choice(&self.sent)?.clone();
        let l3 = network(&about.bytes).filter(|&l3| about.bytes[l3] >> 4 == 4)?;
        let quoted = about.bytes.get(l3..l3 + 28)?;
        let mut bytes = about.bytes[..l3].to_vec();
        swap(&mut bytes, 0, 6, 6);
        bytes.extend([0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0]);
        let from = if self.random.bool() { &quoted[16..20] } else { &[10, 0, 0, 99] };
        bytes.extend(from);
        bytes.extend(&quoted[12..16]);
        bytes.extend([3, 3, 0, 0, 0, 0, 0, 0]);
        bytes.extend(quoted);
        wire::builder::fill_checksums(&mut bytes[l3..]);
        Some(Sent { port: about.port, bytes })
    }

    fn spoiled(&mut self) -> Option<Sent> {
        let mut packet = self.random.choice(&self.received)?.clone();
        let at = self.random.usize(0..packet.bytes.len().max(1));
        match self.random.u32(0..3) {
            0 => packet.bytes.truncate(at),
            _ => {
                if let Some(byte) = packet.bytes.get_mut(at) {
                    *byte = self.random.u8(..);
                }
            }
        }
        Some(packet)
    }
}

fn keep(random: &mut Rng, list: &mut Vec<Sent>, packet: &Sent) {
    if list.len() < KEPT {
        list.push(packet.clone());
    } else {
        let at = random.usize(0..KEPT);
        list[at] = packet.clone();
    }
}

fn swap(bytes: &mut [u8], a: usize, b: usize, len: usize) {
    if bytes.len() >= b + len {
        (0..len).for_each(|i| bytes.swap(a + i, b + i));
    }
}

/// Returns the offset of the IP header.
fn network(bytes: &[u8]) -> Option<usize> {
    let tag = |at: usize| matches!(bytes.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8]));
    let at = if tag(12) { 18 } else { 14 };
    let is_ip = matches!(bytes.get(at - 2..at), Some([8, 0] | [0x86, 0xdd]));
    (is_ip && bytes.len() >= at + 20 && (bytes[at - 2] == 8 || bytes.len() >= at + 40))
        .then_some(at)
}

fn protocol(bytes: &[u8], l3: usize) -> u8 {
    if bytes[l3] >> 4 == 4 { bytes[l3 + 9] } else { bytes[l3 + 6] }
}

fn transport(bytes: &[u8]) -> Option<usize> {
    let l3 = network(bytes)?;
    Some(l3 + if bytes[l3] >> 4 == 4 { usize::from(bytes[l3] & 15) * 4 } else { 40 })
}

/// Increments a word of an echo request or reply at the place of the sequence number; `choose` selects which.
fn change_icmp(bytes: &mut [u8], choose: impl FnOnce(usize) -> usize) {
    let (Some(l3), Some(l4)) = (network(bytes), transport(bytes)) else { return };
    if !matches!(protocol(bytes, l3), 1 | 58) || bytes.len() < l4 + 8 {
        return;
    }
    let last = choose(l4 + 6) + 1;
    bytes[last] = bytes[last].wrapping_add(1);
    wire::builder::fill_checksums(&mut bytes[l3..]);
}

/// Changes the numbers and flags of a TCP segment, depending on the present ones and the length of its
/// payload.
fn change_tcp(bytes: &mut [u8], change: impl FnOnce(u32, u32, u8, u32) -> (u32, u32, u8)) {
    let (Some(l3), Some(l4)) = (network(bytes), transport(bytes)) else { return };
    if protocol(bytes, l3) != 6 || bytes.len() < l4 + 20 {
        return;
    }
    let word =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let data = bytes.len().saturating_sub(l4 + usize::from(bytes[l4 + 12] >> 4) * 4);
    let (seq, ack, flags) = change(word(l4 + 4), word(l4 + 8), bytes[l4 + 13], data as u32);
    bytes[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
    bytes[l4 + 8..l4 + 12].copy_from_slice(&ack.to_be_bytes());
    bytes[l4 + 13] = flags;
    wire::builder::fill_checksums(&mut bytes[l3..]);
}
