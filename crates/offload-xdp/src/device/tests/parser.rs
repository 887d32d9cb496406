//! Random frames: the program forwards what the switch's own parser finds to be whole packets of a rule, with
//! right checksums, that change no connection; and nothing else.

use super::vxlan::{out_of, vxlan, vxlan_v6, vxlan_with};
use super::*;
use wire::checksum::{self, Verdict};
use wire::protocol::{TCP, UDP};

const FRAMES: u32 = 40_000;

const PACKETS: [&str; 8] = [
    "10.0.0.1:1000>10.0.0.2:80 . seq=5 ack=6 len=30",
    "10.0.0.1:1000>10.0.0.2:80 PA seq=5 ack=6 len=3 csum=partial",
    "10.0.0.1:1000>10.0.0.2:80 udp len=22",
    "10.0.0.1:1000>10.0.0.2:80 udp len=9 csum=zero",
    "10.0.0.1:1000>10.0.0.2:80 udp len=9 vlan=5",
    "[fd00::1]:1000>[fd00::2]:80 . seq=5 ack=6 len=9",
    "[fd00::1]:1000>[fd00::2]:80 udp len=7",
    "[fd00::1]:1000>[fd00::2]:80 udp len=7 svlan=9 csum=partial",
];

/// Returns whether the rule is for packets with these headers.
fn is_for(rule: &OffloadRule, headers: &Headers) -> bool {
    let words = headers.words().iter().zip(rule.headers.words()).zip(rule.mask.words());
    words.into_iter().all(|((seen, wanted), mask)| (seen ^ wanted) & mask == 0)
}

/// A packet as the switch's parsers read it.
struct Seen {
    headers: Headers,
    /// Where the transport header begins, and where the packet ends.
    l4: usize,
    end: usize,
    /// The sum of the pseudo header.
    pseudo: u16,
    /// Whether it is whole, with right checksums or those that a device completes.
    is_right: bool,
}

fn read(frame: &[u8]) -> Option<Seen> {
    let mut headers = Headers::none();
    let layers = headers.read(frame, IN)?;
    let (l3, l4) = (usize::from(layers.l3), usize::from(layers.l4?));
    let ip = &frame[l3..];
    let (end, pseudo, is_header_right);
    let protocol = headers.protocol();
    if headers.is_ipv6() {
        let ip = wire::Ipv6::new_checked(ip).ok()?;
        end = l4 + ip.payload().len();
        pseudo = checksum::pseudo_v6(ip.source(), ip.destination(), protocol, end - l4);
        is_header_right = true;
    } else {
        let ip = wire::Ipv4::new_checked(ip).ok()?;
        end = l3 + ip.total_len();
        pseudo = checksum::pseudo_v4(ip.source(), ip.destination(), protocol, end - l4);
        is_header_right =
            ip.options().is_empty() && checksum::verify_ipv4_header(ip.header()) == Verdict::Good;
    }
    let l4_bytes = &frame[l4..end];
    let field = |at: usize| u16::from_be_bytes([l4_bytes[at], l4_bytes[at + 1]]);
    let is_right = match protocol {
        TCP => field(16) == pseudo || checksum::verify_tcp(pseudo, l4_bytes) == Verdict::Good,
        UDP => {
            usize::from(field(4)) == l4_bytes.len()
                && match field(6) {
                    0 => !headers.is_ipv6(),
                    sum if sum == pseudo => true,
                    _ => checksum::combine(pseudo, checksum::sum(l4_bytes)) == 0xffff,
                }
        }
        _ => false,
    };
    Some(Seen { headers, l4, end, pseudo, is_right: is_header_right && is_right })
}

/// Returns whether the switch would take the frame for a packet of one of these rules that changes no connection.
fn is_of(rules: &[OffloadRule], frame: &[u8]) -> bool {
    let Some(seen) = read(frame) else { return false };
    let is_plain = seen.headers.protocol() != TCP || frame[seen.l4 + 13] & 0x17 == 0x10;
    seen.is_right && is_plain && rules.iter().any(|rule| is_for(rule, &seen.headers))
}

/// Changes a frame in up to three places. Half of the frames get right checksums afterwards, so that the change is
/// not found by them alone.
fn mutate(random: &mut fastrand::Rng, frame: &mut Vec<u8>, l3: usize) {
    for _ in 0..random.u32(0..=3) {
        // Most changes are in headers.
        let near = if random.bool() { frame.len() } else { frame.len().min(l3 + 48) };
        let at = random.usize(0..near);
        match random.u32(0..10) {
            0 => frame.truncate(at.max(14)),
            1 => frame.extend(std::iter::repeat_n(random.u8(..), random.usize(1..40))),
            2 => frame[at] = random.u8(..),
            3 => frame[at] = frame[at].wrapping_add(1),
            4 => frame[at] = frame[at].wrapping_sub(1),
            _ => frame[at] ^= 1 << random.u32(0..8),
        }
        if frame.len() <= 14 {
            break;
        }
    }
    if random.bool() && frame.len() > l3 {
        wire::builder::fill_checksums(&mut frame[l3..]);
    }
}

/// The rules, installed, each for a connection of its own.
struct Installed {
    rules: Vec<OffloadRule>,
    ids: Vec<OffloadId>,
}

impl Installed {
    fn new(offload: &mut XdpOffload, rules: Vec<OffloadRule>) -> Installed {
        let numbered = rules.into_iter().enumerate().map(|(n, mut rule)| {
            rule.connection.id = n as u32;
            rule
        });
        let rules: Vec<OffloadRule> = numbered.collect();
        let ids = rules.iter().map(|rule| offload.install(rule, IDLE).unwrap()).collect();
        Installed { rules, ids }
    }

    /// Installs anew what a FIN or RST ended.
    fn renew(&mut self, offload: &mut XdpOffload) {
        for (id, rule) in self.ids.iter_mut().zip(&self.rules) {
            if offload.status(*id).is_ended {
                offload.remove(*id);
                *id = offload.install(rule, IDLE).unwrap();
            }
        }
    }
}

/// The headers that tell these packets apart, once each.
fn rules_of(packets: &[&str]) -> Vec<OffloadRule> {
    let mut rules: Vec<OffloadRule> = Vec::new();
    for packet in packets {
        let rule = rule(packet, &[Action::Output(OUT)]);
        if !rules.iter().any(|known| is_for(known, &rule.headers)) {
            rules.push(rule);
        }
    }
    rules
}

#[test]
fn the_program_and_the_switch_read_the_same() {
    in_namespace("random frames", |mut offload| {
        let mut installed = Installed::new(&mut offload, rules_of(&PACKETS));
        assert_eq!(installed.rules.len(), 4);
        let mut random = fastrand::Rng::with_seed(21);
        let (mut forwarded, mut passed) = (0, 0);
        for nth in 0..FRAMES {
            let text = PACKETS[random.usize(0..PACKETS.len())];
            let mut frame = wire::text::parse(text).unwrap();
            mutate(&mut random, &mut frame, if text.contains("vlan=") { 18 } else { 14 });
            let (is_forwarded, out) = offload.try_frame(IN, &frame).unwrap();
            assert_eq!(is_forwarded, is_of(&installed.rules, &frame), "{nth}, {text}: {frame:x?}");
            assert_eq!(out, frame, "{nth}, {text}");
            *(if is_forwarded { &mut forwarded } else { &mut passed }) += 1;
            installed.renew(&mut offload);
        }
        assert!(forwarded > FRAMES / 8 && passed > FRAMES / 8, "{forwarded}, {passed}");
    });
}

/// Returns whether the switch would take the frame for one of a rule's tunnel, with a packet of the rule in it.
fn is_within(rule: &OffloadRule, frame: &[u8]) -> bool {
    let (Some(tunnel), Some(seen)) = (&rule.tunnel, read(frame)) else { return false };
    let Seen { headers, l4, end, pseudo, is_right } = seen;
    let outer = OffloadRule { headers: tunnel.headers, mask: tunnel.mask, ..rule.clone() };
    let has_checksum = frame[l4 + 6..l4 + 8] != [0, 0];
    // One that is left to a device would be completed at the wrong place behind the decapsulation.
    let is_complete =
        !has_checksum || checksum::combine(pseudo, checksum::sum(&frame[l4..end])) == 0xffff;
    is_right
        && end == frame.len()
        && headers.tag_type().is_none()
        && is_for(&outer, &headers)
        && headers.key_addresses() == tunnel.headers.key_addresses()
        && has_checksum == tunnel.has_checksum
        && is_complete
        && frame.get(l4 + 8..l4 + 16) == Some(&tunnel.word.to_be_bytes()[..])
        && is_of(std::slice::from_ref(rule), &frame[l4 + 16..])
}

#[test]
fn the_program_and_the_switch_read_the_same_within_tunnels() {
    let inner = [PACKETS[0], PACKETS[2], PACKETS[5]];
    let kinds: [fn(&str) -> Vec<u8>; 3] = [vxlan, |it| vxlan_with(true, it), vxlan_v6];
    for within in kinds {
        in_namespace("random frames in tunnels", move |mut offload| {
            let rules = inner.map(|it| out_of(&within(it), it, &[Action::Output(OUT)])).to_vec();
            let mut installed = Installed::new(&mut offload, rules);
            let mut random = fastrand::Rng::with_seed(22);
            let (mut forwarded, mut passed) = (0, 0);
            for nth in 0..FRAMES / 2 {
                let text = inner[random.usize(0..inner.len())];
                let mut frame = within(text);
                let start = frame.len() - wire::text::parse(text).unwrap().len();
                let whole = frame.clone();
                if random.bool() {
                    let mut packet = frame.split_off(start);
                    mutate(&mut random, &mut packet, 14);
                    frame.extend(packet);
                } else {
                    mutate(&mut random, &mut frame, 14);
                }
                let is_mine = installed.rules.iter().any(|rule| is_within(rule, &frame));
                let (is_forwarded, out) = offload.try_frame(IN, &frame).unwrap();
                assert_eq!(is_forwarded, is_mine, "{nth}, {text}:\n{frame:x?}\n{whole:x?}");
                assert_eq!(out, frame[if is_forwarded { start } else { 0 }..], "{nth}, {text}");
                *(if is_forwarded { &mut forwarded } else { &mut passed }) += 1;
                installed.renew(&mut offload);
            }
            assert!(forwarded > FRAMES / 30 && passed > FRAMES / 8, "{forwarded}, {passed}");
        });
    }
}
