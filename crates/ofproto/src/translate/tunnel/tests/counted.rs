//! Effects of packets that hit megaflows: learned neighbours and counters.

use super::*;
use crate::Outbox;
use base::WorkerId;
use flow::{FlowDump, FlowId, FlowStats, Frame, Upcall, UpcallKind};
use packet::Packet;
use std::net::Ipv4Addr;

const UNDERLAY: &str = "br-phy";
/// Another machine that takes over the remote end's address.
const OTHER: MacAddr = MacAddr([2, 0, 0, 9, 0, 3]);

/// A switch whose underlay sends packets from the wire to the local port, whatever their headers.
fn receiving(lacking: Lacking) -> Ofproto {
    let flows: [&[&str]; 2] =
        [OUT[0], &["in_port=LOCAL,actions=output:1", "in_port=1,actions=LOCAL"]];
    let mut ofproto = switch(VXLAN, None, lacking, flows);
    ofproto.add_tunnel_end(TUNNEL, "vxlan_sys_4789", TunnelKind::Vxlan.into(), 4789);
    ofproto.publish();
    ofproto
}

/// A packet misses. Returns its megaflow.
fn miss(ofproto: &mut Ofproto, now: Instant, port: u32, bytes: &[u8]) -> Option<FlowId> {
    let Frame { packet, key, .. } = Frame::parse(Packet::from_bytes(bytes), PortNo(port)).unwrap();
    let (worker, kind) = (WorkerId(0), UpcallKind::Miss);
    let upcall = Upcall {
        worker,
        kind,
        packet,
        key: Box::new(key),
        received: now,
        queued: now,
        trace: None,
    };
    let mut out = Outbox::default();
    ofproto.upcall(now, upcall, &mut out);
    out.commands.iter().find_map(|(_, command)| command.to_put()).map(|put| put.id)
}

/// The worker reports packets and bytes of a megaflow, the last packet received now.
fn tell(ofproto: &mut Ofproto, now: Instant, id: FlowId, packets: u64, bytes: u64) {
    let stats = FlowStats { packets, bytes, used: Some(now), tcp_flags: 0 };
    let flows = vec![(id, stats)];
    let dump = FlowDump {
        worker: WorkerId(0),
        at: now,
        is_last: true,
        marked: Vec::new(),
        flows,
        gone: Vec::new(),
    };
    ofproto.dump(now, dump);
}

/// An outer packet from a machine with this address.
fn outer(mac: MacAddr, source: [u8; 4], source_port: u16) -> Vec<u8> {
    let frame = wire::PacketBuilder::eth(mac, NEAR).ipv4(source.into(), Ipv4Addr::new(10, 9, 0, 1));
    frame.udp(source_port, 4789).payload([8, 0, 0, 0, 0, 0, 5, 0]).build()
}

fn announced(mac: MacAddr, source: [u8; 4]) -> Vec<u8> {
    let frame = wire::PacketBuilder::eth(mac, MacAddr::BROADCAST);
    frame.arp(2, (mac, source.into()), (mac, source.into()))
}

fn known(ofproto: &Ofproto, now: Instant, source: [u8; 4]) -> Option<MacAddr> {
    ofproto.underlay().neighbours.lookup(now, UNDERLAY, source.into())
}

#[test]
fn packets_that_hit_a_megaflow_teach_no_address_of_the_packet_that_made_it() {
    let mut ofproto = receiving(Lacking::Nothing);
    let at = |s: u64| Instant::from_millis(1000 + 1000 * s);
    let id = miss(&mut ofproto, at(1), WIRE, &outer(OTHER, REMOTE, 1)).unwrap();
    let mask = ofproto.megaflow(id).unwrap().matching.mask().clone();
    assert!(!mask.has(Field::EthSrc) && !mask.has(Field::Ipv4Src));
    assert_eq!(known(&ofproto, at(1), REMOTE), Some(OTHER), "the packet says it");
    // The first machine takes the address back. Packets that hit the megaflow may be from either.
    miss(&mut ofproto, at(2), WIRE, &announced(FAR, REMOTE));
    assert_eq!(known(&ofproto, at(2), REMOTE), Some(FAR));
    (3..6).for_each(|s| tell(&mut ofproto, at(s), id, 10 * s, 1000 * s));
    assert_eq!(known(&ofproto, at(6), REMOTE), Some(FAR));
}

#[test]
fn a_megaflow_of_announcements_teaches_their_address_until_another_is_announced() {
    let mut ofproto = receiving(Lacking::Nothing);
    let at = |s: u64| Instant::from_millis(1000 + 1000 * s);
    let far = miss(&mut ofproto, at(1), WIRE, &announced(FAR, REMOTE)).unwrap();
    let other = miss(&mut ofproto, at(2), WIRE, &announced(OTHER, REMOTE)).unwrap();
    assert_ne!(far, other);
    assert_eq!(known(&ofproto, at(2), REMOTE), Some(OTHER));
    tell(&mut ofproto, at(3), far, 1, 60);
    assert_eq!(known(&ofproto, at(3), REMOTE), Some(FAR), "it announced itself again");
    // Statistics arrive late: the last packet of `other` was earlier.
    let used = Some(Instant::from_millis(3500));
    let flows = vec![(other, FlowStats { packets: 1, bytes: 60, used, tcp_flags: 0 })];
    let (worker, gone) = (WorkerId(0), Vec::new());
    ofproto.dump(
        at(4),
        FlowDump { worker, at: at(4), is_last: true, marked: Vec::new(), flows, gone },
    );
    assert_eq!(known(&ofproto, at(4), REMOTE), Some(FAR));
}

#[test]
fn outer_packets_teach_addresses_only_of_neighbours_that_are_known_or_asked_for() {
    let mut ofproto = receiving(Lacking::Neighbour);
    let at = |s: u64| Instant::from_millis(1000 + 1000 * s);
    for host in 3..200 {
        miss(&mut ofproto, at(1), WIRE, &outer(OTHER, [10, 9, 0, host], host.into()));
    }
    miss(&mut ofproto, at(1), WIRE, &outer(FAR, REMOTE, 1));
    assert_eq!(ofproto.underlay().neighbours.show(at(1)).lines().count(), 2, "the title alone");
    let guest = wire::text::parse("10.0.0.1:1>10.0.0.2:53 udp").unwrap();
    miss(&mut ofproto, at(2), GUEST, &guest);
    miss(&mut ofproto, at(2), WIRE, &outer(OTHER, [10, 9, 0, 3], 3));
    miss(&mut ofproto, at(2), WIRE, &outer(FAR, REMOTE, 2));
    assert_eq!(known(&ofproto, at(2), REMOTE), Some(FAR), "it was asked for");
    assert_eq!(known(&ofproto, at(2), [10, 9, 0, 3]), None);
    miss(&mut ofproto, at(3), WIRE, &outer(OTHER, REMOTE, 3));
    assert_eq!(known(&ofproto, at(3), REMOTE), Some(OTHER), "it is known");
}

#[test]
fn flows_of_the_underlay_count_outer_headers() {
    let counts = |flows: [&[&str]; 2]| {
        let mut ofproto = switch(VXLAN, None, Lacking::Nothing, flows);
        let now = Instant::from_millis(2000);
        let bytes = wire::text::parse("10.0.0.1:1>10.0.0.2:53 udp len=100").unwrap();
        let id = miss(&mut ofproto, now, GUEST, &bytes).unwrap();
        tell(&mut ofproto, now, id, 9, 900);
        let inner = bytes.len() as u64 + 900;
        ["br-int", "br-phy"].map(|name| {
            let bridge = ofproto.bridges().named(name).unwrap().id;
            let tables = &ofproto.bridges().get(bridge).unwrap().tables;
            let rules = tables.all();
            let mut all: Vec<_> = rules
                .into_iter()
                .filter_map(|id| ofproto.rules.get(id))
                .map(|rule| rule.carried.pair())
                .filter(|(packets, _)| *packets > 0)
                .map(|(packets, bytes)| (packets, bytes - inner))
                .collect();
            all.sort();
            all
        })
    };
    assert_eq!(counts(OUT), [vec![(10, 0)], vec![(10, 500)]]);
    // The actions in the guests' bridge see the inner packet.
    let twice: [&[&str]; 2] =
        [&["in_port=1,actions=output:2,resubmit(,1)", "table=1,actions=drop"], OUT[1]];
    assert_eq!(counts(twice), [vec![(10, 0), (10, 0)], vec![(10, 500)]]);
}
