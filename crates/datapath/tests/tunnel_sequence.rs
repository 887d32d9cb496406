//! Several workers send packets into one GRE tunnel: their sequence numbers do not repeat.

#[path = "support/bench.rs"]
mod bench;

use base::{MacAddr, PortNo};
use bench::Bench;
use conntrack::{Config, Conntrack};
use datapath::WorkerConfig;
use flow::{Action, Field, FlowKey, Match, TunnelKind, TunnelPush, TunnelSequence};
use packet::Packet;
use std::sync::Arc;
use tunnel::{Outer, TunnelConfig};

const GUEST: PortNo = PortNo(1);
const WIRE: PortNo = PortNo(2);

fn push(sequence: &TunnelSequence) -> TunnelPush {
    let options = [("remote_ip", "172.31.1.2"), ("seq", "true")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let config = TunnelConfig::parse(TunnelKind::Gre, "t", &options).config.unwrap();
    let outer = Outer {
        ethernet: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        source: [172, 31, 1, 1].into(),
        destination: [172, 31, 1, 2].into(),
        tos: 0,
        ttl: 64,
        dont_fragment: true,
        checksum: false,
        oam: false,
        key: 0,
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    };
    TunnelPush {
        port: PortNo(9),
        out_port: PortNo(3),
        kind: TunnelKind::Gre,
        strips_ethernet: false,
        source_ports: tunnel::SOURCE_PORTS,
        header: tunnel::build(&config, &outer).unwrap(),
        frame_max: u32::MAX,
        answer: FlowKey::new(),
        copies_ecn: false,
        sequence: sequence.clone(),
    }
}

#[test]
fn workers_draw_from_one_sequence() {
    let conntrack = Arc::new(Conntrack::new(2, Config::default()));
    let sequence = TunnelSequence::default();
    let mut benches = [0, 1].map(|number| {
        let mut bench = Bench::with(&conntrack, number, WorkerConfig::default());
        let matching = Match::any().with(Field::InPort, GUEST.0.into()).with(Field::RecircId, 0);
        let into = Action::TunnelPush(Arc::new(push(&sequence)));
        bench.put(1, matching, [into, Action::Output(WIRE)]);
        bench
    });
    let frame = wire::text::parse("10.0.0.1:1>10.0.0.2:2 udp").unwrap();
    let mut numbers = Vec::new();
    // The first packets of a worker miss its cache, and later ones hit it.
    for _ in 0..20 {
        for bench in &mut benches {
            bench.receive(GUEST.0, [(); 3].map(|()| Packet::from_bytes(&frame)));
            for (port, bytes) in bench.sent_bytes() {
                assert_eq!(port, WIRE);
                numbers.push(u32::from_be_bytes(bytes[38..42].try_into().unwrap()));
            }
        }
    }
    assert_eq!(numbers, (0..120).collect::<Vec<_>>());
    assert!(benches.iter().all(|bench| bench.worker.stats().unified_hits > 0));
}
