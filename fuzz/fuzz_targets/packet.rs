//! Any bytes as a frame: parsed, tracked twice, rewritten by NAT, told in words.

#![no_main]

use base::{Instant, PortNo, Zone};
use conntrack::{Config, Conntrack, CtFlush, Tracker};
use flow::{CtAction, Frame, Nat, NatKind, NatRange, PortSelection};
use libfuzzer_sys::fuzz_target;
use packet::Packet;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

thread_local! {
    /// Made once: an empty table of all zones costs more than a packet.
    static TRACKER: RefCell<Tracker> = {
        let conntrack = Arc::new(Conntrack::new(1, Config::default()));
        RefCell::new(conntrack.tracker().expect("the first tracker"))
    };
}

fuzz_target!(|data: &[u8]| TRACKER.with_borrow_mut(|tracker| {
    let _ = wire::text::describe(data);
    let Ok(frame) = Frame::parse(Packet::from_bytes(data), PortNo(1)) else { return };
    let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
    let nat = NatRange {
        kind: NatKind::Src,
        addresses: Some((address, address)),
        ports: Some((1000, 1010)),
        selection: PortSelection::Default,
        persistent: false,
    };
    let commit = CtAction {
        commit: true,
        zone: Zone(1),
        nat: Some(Nat::Rewrite(nat)),
        ..CtAction::default()
    };
    let mut frames = [frame];
    tracker.execute(Instant::from_millis(1), &commit, &mut frames);
    // The key must be what parsing the rewritten bytes anew gives.
    let [frame] = frames;
    let anew = Frame::parse(Packet::from_bytes(frame.packet.data()), PortNo(1)).unwrap();
    assert_eq!(
        (anew.key.ipv4_src(), anew.key.tp_src()),
        (frame.key.ipv4_src(), frame.key.tp_src())
    );
    tracker.execute(Instant::from_millis(2), &commit, &mut [frame]);
    // The next packet finds nothing of this one.
    let conntrack = Arc::clone(tracker.conntrack());
    conntrack.flush(Instant::from_millis(3), &CtFlush::zone(Zone(1))).expect("a zone may be empty");
    conntrack.drain();
}));
