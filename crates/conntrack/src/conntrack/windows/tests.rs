//! Windows kept by a device: the start, taking them over, and its mark.

use super::*;
use crate::conntrack::{Config, Conntrack};
use crate::counters::Event;
use crate::protocols::tcp::TcpState;
use crate::tracker::Tracker;
use base::{PortNo, Zone};
use flow::{CtAction, CtState, Frame, MARK_IN_WINDOW, TcpWindow};
use packet::Packet;
use std::sync::Arc;

const START: Instant = Instant::from_millis(1_000_000);

/// Tracks a packet with a device's mark. Returns the frame.
fn track(tracker: &mut Tracker, mark: u32, text: &str) -> Frame {
    let mut packet = Packet::from_bytes(&wire::text::parse(text).unwrap());
    packet.mark = mark;
    let mut frames = [Frame::parse(packet, PortNo(1)).unwrap()];
    let action = CtAction { commit: true, zone: Zone(3), ..CtAction::default() };
    tracker.execute(START, &action, &mut frames);
    let [frame] = frames;
    frame
}

fn is_invalid(tracker: &mut Tracker, mark: u32, text: &str) -> bool {
    track(tracker, mark, text).key.ct_state().contains(CtState::INV)
}

/// A connection whose sides scale their windows by 7 and 2.
fn established(check_tcp_windows: bool) -> (Arc<Conntrack>, Tracker, ConnectionRef) {
    let config = Config { check_tcp_windows, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(1, config));
    let mut tracker = conntrack.tracker().unwrap();
    for text in [
        "10.0.0.1:1000>10.0.0.2:80 S seq=100 win=64000 wscale=7",
        "10.0.0.2:80>10.0.0.1:1000 SA seq=500 ack=101 win=8000 wscale=2",
    ] {
        track(&mut tracker, 0, text);
    }
    let ack = "10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501 win=500";
    let connection = track(&mut tracker, 0, ack).connection.unwrap();
    (conntrack, tracker, connection)
}

fn windows(conntrack: &Conntrack, of: ConnectionRef) -> Option<(WindowsKept, TcpWindows)> {
    conntrack.with_offloaded(START, |it| it.windows(of))
}

#[test]
fn a_device_begins_with_the_windows_of_both_sides() {
    for is_checked in [true, false] {
        let (conntrack, _tracker, connection) = established(is_checked);
        let (kept, windows) = windows(&conntrack, connection).unwrap();
        // The windows of the SYNs are not scaled; later ones are.
        let original = TcpWindow {
            sent_end: 101,
            allowed_end: 101 + 8000,
            max_window: 500 << 7,
            scale: Some(7),
        };
        let reply = TcpWindow {
            sent_end: 501,
            allowed_end: 501 + (500 << 7),
            max_window: 8000,
            scale: Some(2),
        };
        assert_eq!(windows, TcpWindows { original, reply, is_checked });
        assert_eq!(kept.id(), connection.id);
    }
}

#[test]
fn a_connection_without_its_handshake_or_of_another_protocol_has_no_windows() {
    let (conntrack, mut tracker, _) = established(true);
    let picked_up = [
        "10.0.0.7:1000>10.0.0.2:80 . seq=101 ack=501 win=500",
        "10.0.0.2:80>10.0.0.7:1000 . seq=501 ack=101 win=500",
    ]
    .map(|text| track(&mut tracker, 0, text).connection);
    let udp = ["10.0.0.1:5>10.0.0.2:53 udp"; 2].map(|it| track(&mut tracker, 0, it).connection);
    for connection in [picked_up[1], udp[1]].map(Option::unwrap) {
        assert_eq!(windows(&conntrack, connection), None);
    }
}

#[test]
fn what_a_device_forwarded_moves_windows_on_and_never_back() {
    let (conntrack, mut tracker, connection) = established(true);
    let (kept, begun) = windows(&conntrack, connection).unwrap();
    let far = "10.0.0.1:1000>10.0.0.2:80 . seq=5000101 ack=7000501 win=500 len=10";
    assert!(is_invalid(&mut tracker, 0, far));
    let mut moved = begun;
    (moved.original.sent_end, moved.original.allowed_end) = (5_000_101, 5_008_101);
    (moved.reply.sent_end, moved.reply.allowed_end) = (7_000_501, 7_064_501);
    moved.original.max_window = 65_000 << 7;
    conntrack.with_offloaded(START, |it| it.advance(&kept, &moved));
    let mut expect = moved;
    expect.original.sent_end += 1;
    assert_eq!(windows(&conntrack, connection).unwrap().1, expect);
    // An older state of the device changes nothing.
    conntrack.with_offloaded(START, |it| it.advance(&kept, &begun));
    assert_eq!(windows(&conntrack, connection).unwrap().1, expect);
    assert!(!is_invalid(&mut tracker, 0, far));
    // Segments within the first windows are outside the present ones.
    let late = "10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501 win=500 len=10";
    assert!(is_invalid(&mut tracker, 0, late));
}

#[test]
fn a_segment_that_the_device_found_in_its_windows_is_valid() {
    let fin = "10.0.0.1:1000>10.0.0.2:80 F. seq=5000101 ack=7000501 win=500";
    let data = "10.0.0.1:1000>10.0.0.2:80 . seq=5000101 ack=7000501 win=500 len=10";
    let reset = "10.0.0.1:1000>10.0.0.2:80 R seq=5000101";
    for (text, state) in
        [(fin, TcpState::Closing), (data, TcpState::Established), (reset, TcpState::TimeWait)]
    {
        for mark in [0, 1, MARK_IN_WINDOW] {
            let (conntrack, mut tracker, connection) = established(true);
            let is_marked = mark == MARK_IN_WINDOW;
            let frame = track(&mut tracker, mark, text);
            assert_eq!(frame.key.ct_state().contains(CtState::INV), !is_marked, "{text}");
            let entry = tracker.entry(START, connection).unwrap();
            let expect = if is_marked { state } else { TcpState::Established };
            assert_eq!(entry.tcp.unwrap().state(), expect, "{text}");
            let counters = conntrack.counters();
            assert_eq!(counters.get(Event::TcpWindow), u64::from(!is_marked));
            assert_eq!(counters.get(Event::TcpWindowBypassed), 0);
        }
    }
    // The mark for windows does not make odd flags valid.
    let (_conntrack, mut tracker, _) = established(true);
    let odd = "10.0.0.1:1000>10.0.0.2:80 SF seq=5000101";
    assert!(is_invalid(&mut tracker, MARK_IN_WINDOW, odd));
}

#[test]
fn windows_are_loose_while_they_are_handed_over() {
    let far = "10.0.0.1:1000>10.0.0.2:80 . seq=5000101 ack=7000501 win=500 len=10";
    let (conntrack, mut tracker, connection) = established(true);
    let (kept, _) = windows(&conntrack, connection).unwrap();
    let with = |work: &dyn Fn(&Offloaded<'_>) -> bool| conntrack.with_offloaded(START, work);
    assert!(with(&|it| it.loosen(&kept)) && !with(&|it| it.loosen(&kept)));
    assert!(!with(&|it| it.checks_windows(&kept)));
    assert!(!windows(&conntrack, connection).unwrap().1.is_checked);
    assert!(!is_invalid(&mut tracker, 0, far));
    conntrack.with_offloaded(START, |it| it.tighten(&kept));
    assert!(with(&|it| it.checks_windows(&kept)));
    assert!(is_invalid(&mut tracker, 0, "10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501 len=10"));
}

#[test]
fn a_connection_is_known_after_a_change_of_its_mark_and_no_more_after_its_end() {
    let (conntrack, mut tracker, connection) = established(true);
    let (kept, begun) = windows(&conntrack, connection).unwrap();
    let packet = Packet::from_bytes(
        &wire::text::parse("10.0.0.1:1000>10.0.0.2:80 . seq=101 ack=501").unwrap(),
    );
    let mut frames = [Frame::parse(packet, PortNo(1)).unwrap()];
    let mark = Some(flow::Masked { value: 7, mask: u32::MAX });
    let action = CtAction { commit: true, zone: Zone(3), mark, ..CtAction::default() };
    tracker.execute(START, &action, &mut frames);
    assert_eq!(windows(&conntrack, connection), None, "flows see another connection");
    let mut moved = begun;
    moved.original.sent_end += 5;
    conntrack.with_offloaded(START, |it| it.advance(&kept, &moved));
    let now = frames[0].connection.unwrap();
    assert_eq!(windows(&conntrack, now).unwrap().1.original.sent_end, 107);
    conntrack.flush(START, &crate::CtFlush::default()).unwrap();
    assert!(!conntrack.with_offloaded(START, |it| it.checks_windows(&kept)));
}
