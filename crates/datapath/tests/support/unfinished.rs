//! Frames with any vnet header through a switch: what leaves is what the rules saw.
//!
//! The test `vnet` and the fuzz target of that name use it.

#![allow(dead_code)]

use super::bench::Bench;
use base::{MacAddr, PortNo, Zone};
use datapath::WorkerConfig;
use flow::{
    Action, CtAction, Field, FlowKey, Frame, Match, TunnelKind, TunnelPush, TunnelSequence,
};
use packet::{Batch, Checksum, Packet, Pool};
use port::offload;
use port::vnet::{self, Backlog};
use std::sync::Arc;
use tunnel::{Outer, TunnelConfig};
use wire::{LabelEntry, ethertype, protocol};

const FROM: u32 = 1;
const PLAIN: PortNo = PortNo(2);
const TUNNEL: PortNo = PortNo(3);
const TAGGED: PortNo = PortNo(4);
const LABELLED: PortNo = PortNo(5);

/// A switch that sends each packet plain, with a tag, with a label, and after connection tracking in a tunnel.
pub struct Rig {
    bench: Bench,
    pool: Pool,
}

impl Rig {
    pub fn new() -> Rig {
        let mut bench = Bench::new(WorkerConfig::default());
        let tag = Action::PushVlan { tpid: ethertype::VLAN, tci: 0x1005 };
        let label = LabelEntry::new(16, 0, true, 64);
        let label = Action::PushMpls { ethertype: ethertype::MPLS, entry: label };
        let ct = CtAction { commit: true, zone: Zone(1), ..CtAction::default() };
        let actions = [
            Action::Output(PLAIN),
            Action::Clone([tag, Action::Output(TAGGED)].into()),
            Action::Clone([label, Action::Output(LABELLED)].into()),
            Action::Ct(Box::new(ct)),
            Action::TunnelPush(Arc::new(push())),
            Action::Output(TUNNEL),
        ];
        bench.put(1, Match::any().with(Field::InPort, FROM.into()), actions);
        Rig { bench, pool: Pool::new(64) }
    }

    /// Receives a frame with this header, and compares what leaves with what the datapath received. Returns how many
    /// packets that was.
    pub fn check(&mut self, header: &[u8; vnet::HEADER_BYTES], bytes: &[u8]) -> usize {
        let mut packet = Packet::from_bytes(bytes);
        let Some(received) = vnet::decode(header, 0, &mut packet) else { return 0 };
        let (mut backlog, mut batch, mut count) = (Backlog::default(), Batch::new(), 0);
        backlog.receive(packet, received, &mut batch);
        loop {
            backlog.continue_with(&mut self.pool, &mut batch);
            let is_last = backlog.is_empty();
            count += batch.len();
            for packet in batch.drain(..) {
                self.check_one(packet);
            }
            if is_last {
                return count;
            }
        }
    }

    fn check_one(&mut self, packet: Packet) {
        let Ok(seen) = Frame::parse(packet.compact_copy(), PortNo(FROM)) else { return };
        let expect = self.expect(&seen);
        self.bench.receive(FROM, [packet]);
        let mut left: [Vec<Packet>; 6] = Default::default();
        for (port, packet) in self.bench.take_sent() {
            let out = &mut left[port.0 as usize];
            assert!(offload::finish(packet, &mut self.pool, |piece| out.push(piece)));
        }
        for port in [PLAIN, TAGGED, LABELLED, TUNNEL] {
            let out = &left[port.0 as usize];
            // Connection tracking holds fragments.
            let is_whole = seen.key.nw_frag() == 0 || port != TUNNEL;
            assert!(out.len() == expect.len() || !is_whole, "{port}: {:?}", seen.key);
            for (packet, expect) in out.iter().zip(&expect) {
                let bytes = masked(&seen, &without_headers(port, &seen, packet.data()));
                assert_eq!(bytes, *expect, "{port}");
            }
        }
    }

    /// What must leave, without the checksum that the sender left to do.
    fn expect(&mut self, seen: &Frame) -> Vec<Vec<u8>> {
        if seen.packet.offload.gso.is_none() {
            return vec![masked(seen, seen.packet.data())];
        }
        let mut pieces = Vec::new();
        assert!(offload::segment(&seen.packet, &mut self.pool, |piece| pieces.push(piece)));
        let masked = pieces.iter().map(|piece| {
            let parsed = Frame::parse(piece.compact_copy(), PortNo(FROM)).expect("it is longer");
            for field in Field::ALL.iter().filter(|field| **field != Field::TcpFlags) {
                assert_eq!(parsed.key.get(*field), seen.key.get(*field), "{field:?}");
            }
            masked(seen, piece.data())
        });
        masked.collect()
    }
}

/// The bytes, without the transport header's checksum if the sender left it to do.
fn masked(seen: &Frame, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if seen.packet.offload.checksum == Checksum::Partial {
        let offset = match seen.key.nw_proto() {
            protocol::TCP => 16,
            protocol::UDP => 6,
            other => panic!("protocol {other} has a partial checksum"),
        };
        let at = usize::from(seen.layers.l4.expect("it has a transport header")) + offset;
        bytes[at..at + 2].fill(0);
    }
    bytes
}

/// Without the headers that the switch put in front before it sent the packet to `port`.
fn without_headers(port: PortNo, seen: &Frame, bytes: &[u8]) -> Vec<u8> {
    let l3 = usize::from(seen.layers.l3);
    match port {
        TAGGED => [&bytes[..12], &bytes[16..]].concat(),
        LABELLED => [&bytes[..l3 - 2], &seen.packet.data()[l3 - 2..l3], &bytes[l3 + 4..]].concat(),
        TUNNEL => {
            let found = tunnel::decapsulate(TunnelKind::Vxlan, bytes, false).expect("it is right");
            bytes[found.header_len..found.end].to_vec()
        }
        _ => bytes.to_vec(),
    }
}

/// Into a VXLAN tunnel.
pub fn push() -> TunnelPush {
    let options = [("remote_ip", "172.31.1.2"), ("key", "5")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let config = TunnelConfig::parse(TunnelKind::Vxlan, "t", &options).config.expect("valid");
    let outer = Outer {
        ethernet: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        source: [172, 31, 1, 1].into(),
        destination: [172, 31, 1, 2].into(),
        tos: 0,
        ttl: 64,
        dont_fragment: true,
        checksum: true,
        oam: false,
        key: 5,
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    };
    TunnelPush {
        port: PortNo(9),
        out_port: PortNo(3),
        kind: TunnelKind::Vxlan,
        strips_ethernet: false,
        source_ports: tunnel::SOURCE_PORTS,
        header: tunnel::build(&config, &outer).expect("VXLAN can say that"),
        frame_max: u32::MAX,
        answer: FlowKey::new(),
        copies_ecn: false,
        sequence: TunnelSequence::default(),
    }
}
