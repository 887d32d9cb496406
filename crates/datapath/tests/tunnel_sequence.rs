//! Several workers send packets into one GRE tunnel: their sequence numbers do not repeat.

use base::{Instant, MacAddr, PortNo, WorkerId};
use conntrack::{Config, Conntrack};
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{
    Action, Field, FlowCommand, FlowId, FlowKey, FlowPut, Match, TunnelKind, TunnelPush,
    TunnelSequence,
};
use packet::{Batch, Packet};
use std::sync::Arc;
use tunnel::{Outer, TunnelConfig};

const GUEST: PortNo = PortNo(1);
const WIRE: PortNo = PortNo(2);
const NOW: Instant = Instant::from_millis(1000);

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
    let mut workers: Vec<_> = (0..2u16)
        .map(|number| {
            let (upcalls, tracker) = (Arc::new(UpcallQueue::new()), conntrack.tracker().unwrap());
            let id = WorkerId(number);
            let mut worker = Worker::new(id, tracker, upcalls, WorkerConfig::default(), 7);
            let mut out = Outbox::new();
            let matching = Match::any().with(Field::InPort, GUEST.0.into());
            let matching = matching.with(Field::RecircId, 0);
            let into = Action::TunnelPush(Arc::new(push(&sequence)));
            let actions = vec![into, Action::Output(WIRE)].into();
            let put = FlowPut { id: FlowId(1), matching, actions };
            worker.command(NOW, FlowCommand::Put(Box::new(put)), &mut out);
            (worker, out)
        })
        .collect();
    let frame = wire::text::parse("10.0.0.1:1>10.0.0.2:2 udp").unwrap();
    let mut numbers = Vec::new();
    // The first packets of a worker miss its cache, and later ones hit it.
    for _ in 0..20 {
        for (worker, out) in &mut workers {
            let mut batch: Batch =
                [(); 3].map(|()| Packet::from_bytes(&frame)).into_iter().collect();
            worker.receive(NOW, GUEST, &mut batch, out);
            for (port, packets) in out.batches_mut() {
                assert_eq!(port, WIRE);
                numbers.extend(
                    packets.drain(..).map(|packet| {
                        u32::from_be_bytes(packet.data()[38..42].try_into().unwrap())
                    }),
                );
            }
        }
    }
    assert_eq!(numbers, (0..120).collect::<Vec<_>>());
    assert!(workers.iter().all(|(worker, _)| worker.stats().unified_hits > 0));
}
