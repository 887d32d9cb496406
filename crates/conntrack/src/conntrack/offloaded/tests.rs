//! The effect of a device's traffic on a connection, and which connections may be offloaded.

use super::*;
use crate::conntrack::Config;
use crate::tracker::Tracker;
use base::{PortNo, Zone};
use flow::{CtAction, CtState, Frame};
use packet::Packet;

const START: Instant = Instant::from_millis(1_000_000);
const TRAFFIC: OffloadTraffic = OffloadTraffic { packets: 1_000_000, bytes: 64_000_000 };

fn after(seconds: u64) -> Instant {
    Instant::from_millis(1_000_000 + seconds * 1000)
}

/// Tracks a packet. Returns the frame.
fn track(tracker: &mut Tracker, now: Instant, text: &str) -> Frame {
    let packet = Packet::from_bytes(&wire::text::parse(text).unwrap());
    let mut frames = [Frame::parse(packet, PortNo(1)).unwrap()];
    let action = CtAction { commit: true, zone: Zone(3), ..CtAction::default() };
    tracker.execute(now, &action, &mut frames);
    let [frame] = frames;
    frame
}

fn established(tracker: &mut Tracker) -> ConnectionRef {
    for text in [
        "10.0.0.1:1000>10.0.0.2:80 S seq=100 win=1000",
        "10.0.0.2:80>10.0.0.1:1000 SA seq=500 ack=101 win=1000",
    ] {
        track(tracker, START, text);
    }
    let ack = track(tracker, START, "10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501 win=1000");
    ack.connection.unwrap()
}

fn conntrack() -> (Arc<Conntrack>, Tracker) {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let tracker = conntrack.tracker().unwrap();
    (conntrack, tracker)
}

#[test]
fn a_segment_far_outside_the_windows_is_valid_once_a_device_forwarded_some() {
    let late = "10.0.0.1:1000>10.0.0.2:80 F. seq=900000101 ack=700000501 win=1000";
    for is_offloaded in [false, true] {
        let (conntrack, mut tracker) = conntrack();
        let connection = established(&mut tracker);
        if is_offloaded {
            let idle = conntrack.with_offloaded(START, |it| {
                it.begin(connection);
                it.check(connection)
            });
            assert_eq!(idle, Ok(Duration::from_secs(86_400)));
        }
        let state = track(&mut tracker, START, late).key.ct_state();
        assert_eq!(state.contains(CtState::INV), !is_offloaded);
        let entry = tracker.entry(START, connection).unwrap();
        let expect = if is_offloaded { TcpState::Closing } else { TcpState::Established };
        assert_eq!(entry.tcp.unwrap().state(), expect);
        // No device forwards a closing connection.
        let again = conntrack.with_offloaded(START, |it| it.check(connection));
        assert_eq!(again.is_ok(), !is_offloaded);
    }
}

#[test]
fn what_a_device_forwards_keeps_a_connection_alive_and_is_counted() {
    let (conntrack, mut tracker) = conntrack();
    track(&mut tracker, START, "10.0.0.1:5>10.0.0.2:53 udp len=20");
    let single =
        track(&mut tracker, START, "10.0.0.1:5>10.0.0.2:53 udp len=20").connection.unwrap();
    let check = |connection, now| conntrack.with_offloaded(now, |it| it.check(connection));
    assert_eq!(check(single, START), Err(Refusal::NotEstablished));
    let reply = track(&mut tracker, START, "10.0.0.2:53>10.0.0.1:5 udp len=20").connection.unwrap();
    assert_eq!(check(single, START), Err(Refusal::Ended), "flows see another one now");
    let idle = check(reply, START).unwrap();
    assert_eq!(idle, Duration::from_secs(30));
    let note = |now, traffic| conntrack.with_offloaded(now, |it| it.note(reply, traffic));
    for step in 1..10 {
        assert!(note(after(step * 20), TRAFFIC));
    }
    let nothing = OffloadTraffic::default();
    assert!(note(after(180), nothing));
    let entry = tracker.entry(after(180), reply).unwrap();
    assert_eq!(entry.reply_traffic.packets, 9_000_001);
    assert_eq!(entry.reply_traffic.bytes, 9 * 64_000_000 + 62);
    assert_eq!(entry.timeout_s, 30);
    // No packets for longer than the timeout.
    assert!(!note(after(211), nothing));
    assert!(!note(after(211), TRAFFIC), "it does not come back");
    conntrack.tick(after(211));
    assert_eq!(conntrack.connections(), 0);
}

#[test]
fn a_query_is_refused() {
    let (conntrack, mut tracker) = conntrack();
    let echo = track(&mut tracker, START, "10.0.0.1>10.0.0.2 icmp-echo id=1").connection.unwrap();
    let refused = conntrack.with_offloaded(START, |it| it.check(echo));
    assert_eq!(refused, Err(Refusal::Protocol));
}

#[test]
fn a_connection_that_was_picked_up_in_its_middle_waits_for_both_sides() {
    let (conntrack, mut tracker) = conntrack();
    let check = |it| conntrack.with_offloaded(START, |all| all.check(it));
    track(&mut tracker, START, "10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501 win=1000");
    for (text, expect) in [
        ("10.0.0.2:80>10.0.0.1:1000 . seq=501 ack=101 win=1000", Err(Refusal::NotEstablished)),
        ("10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501 win=1000", Ok(Duration::from_secs(86_400))),
    ] {
        let connection = track(&mut tracker, START, text).connection.unwrap();
        assert_eq!(check(connection), expect, "{text}");
    }
}
