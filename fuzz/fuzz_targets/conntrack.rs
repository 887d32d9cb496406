//! Random operations on a connection tracker: packets with all actions, time, flushes and limits.
//! After each, what the tracker says of itself must agree with itself.

#![no_main]

use base::{Instant, PortNo, Zone};
use conntrack::{Config, Conntrack, CtFlush, Entry, Filter, Timeout, TimeoutPolicy, Tracker};
use flow::{CtAction, CtState, Field, Frame, Nat, Tuple, TupleMatch};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use packet::Packet;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tidegate_fuzz::tracked::{Action, SCRIPTS, Text, ZONES, answer, error};

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
    EarlyDrop {
        early_drop: bool,
    },
    Drain,
    /// Some packets of a connection that goes far, one after the other.
    Script {
        which: u8,
        from: u8,
        count: u8,
        action: Action,
    },
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
        // NAT rewrite mends checksums; what was wrong before may stay wrong.
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
            Operation::Script { which, from, count, action } => {
                let script = SCRIPTS[usize::from(which) % SCRIPTS.len()];
                let some = script.iter().skip(usize::from(from % 8)).take(usize::from(count % 16));
                for text in some {
                    let bytes = wire::text::parse(text).unwrap_or_else(|it| panic!("{text}: {it}"));
                    self.track(frame(&bytes), &action.to_ct());
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
                let flush = CtFlush::zone(zone(it));
                tracker.flush(self.now, &flush).expect("a zone may be empty");
                assert!(self.dump().iter().all(|entry| entry.zone != zone(it)));
            }
            Operation::FlushMatching { address, port, protocol } => {
                let src = Some(format!("10.0.0.{}", address % 4 + 1).parse().expect("an address"));
                let src_port = port.map(|port| 5000 + u16::from(port % 8));
                let original = TupleMatch { src, src_port, ..TupleMatch::default() };
                let protocol = Some([6, 17, 1][usize::from(protocol) % 3]);
                // All zones at once take long.
                let zone = Some(zone(address / 4)).filter(|_| address < 0xf0);
                let flush = CtFlush { zone, protocol, original, ..CtFlush::default() };
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
            Operation::EarlyDrop { early_drop } => tracker.set_early_drop(early_drop),
            Operation::Drain => _ = tracker.drain(),
            _ => {}
        }
    }

    /// Flushes a connection by its whole tuple.
    fn flush_one(&mut self, which: usize) {
        let entries = self.dump();
        let Some(entry) = entries.get(which % entries.len().max(1)) else { return };
        // Other protocols have no whole tuple.
        let Some(flush) = CtFlush::connection(entry.zone, &entry.original) else { return };
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
        flush(CtFlush::default());
    } else {
        (0..ZONES).for_each(|zone| _ = flush(CtFlush::zone(Zone(zone))));
    }
    assert_eq!(tracker.connections(), 0);
    assert!(tracker.zone_limits(&[]).zones.iter().all(|zone| zone.count == 0));
});
