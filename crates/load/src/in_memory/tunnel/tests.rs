//! No traffic of one network appears in another: packets of every pair of networks, side by side.

use super::*;
use crate::in_memory::{Cable, Discard};
use conntrack::Config;
use packet::{Batch, Pool};
use port::pcap::{Capture, PcapRx, PcapTx, Play};
use port::{TxCounters, TxQueue};
use std::sync::Mutex;
use std::time::Duration;

const NETWORKS: u32 = 16;
/// Networks' numbers differ in all of their 24 bits.
fn vni(network: u32) -> u32 {
    (0x01_0101 * (network + 1)) ^ (network << 20)
}

/// Records the packets that are sent.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<Vec<u8>>>>);

impl TxQueue for Record {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let frames = batch.iter().map(|packet| packet.data().to_vec());
        self.0.lock().unwrap().extend(frames);
        Discard.send(pool, batch)
    }
}

fn guest(network: u32) -> (String, PortNo) {
    (format!("g{network}"), PortNo(10 + network))
}

/// A switch with a port for each network, or with one port whose flows match the tunnel key.
fn switch(kind: TunnelKind, one_port: bool, tracked: bool) -> Switch {
    let now = clock::now();
    let mut core = underlay(now).unwrap();
    let guests: Vec<_> = (0..NETWORKS).map(guest).collect();
    let names: Vec<_> = guests.iter().map(|(name, port)| (name.as_str(), *port)).collect();
    let bridge = inner_bridge(&mut core, &names, now).unwrap();
    let mut flows = String::new();
    if one_port {
        add_tunnel(&mut core, bridge, ("t", kind, "flow"), now).unwrap();
    }
    for network in 0..NETWORKS {
        let (key, (guest, _)) = (vni(network), guest(network));
        let (from, to) = if one_port {
            (format!("in_port=t,tun_id={key}"), format!("set_field:{key}->tun_id,output:t"))
        } else {
            let name = format!("t{network}");
            add_tunnel(&mut core, bridge, (&name, kind, &key.to_string()), now).unwrap();
            (format!("in_port={name}"), format!("output:{name}"))
        };
        let zone = network + 1;
        for (from, to) in [(from, format!("output:{guest}")), (format!("in_port={guest}"), to)] {
            if tracked {
                flows += &format!("table=0,{from},udp actions=ct(zone={zone},table=1)\n");
                flows += &format!(
                    "table=1,{from},ct_state=+new,udp actions=ct(commit,zone={zone}),{to}\n"
                );
                flows += &format!("table=1,{from},ct_state=+est,udp actions={to}\n");
            } else {
                flows += &format!("{from} actions={to}\n");
            }
        }
    }
    add_flows(&mut core, bridge, &flows, now, &|name| name).unwrap();
    let conntrack = Arc::new(Conntrack::new(7, Config::default()));
    Switch::of(Answers::Owner, Parts { core, bridge, worker: WorkerId(0), conntrack }).unwrap()
}

/// The same addresses and ports in all networks: only the payload identifies the network.
fn inner(network: u32, twin: u32, is_answer: bool) -> Vec<u8> {
    let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (from, to) = if is_answer { (b, a) } else { (a, b) };
    let mac = |last| MacAddr([2, 0, 0, 0, 1, last]);
    wire::PacketBuilder::eth(mac(from[3]), mac(to[3]))
        .ipv4(from.into(), to.into())
        .udp(if is_answer { 2000 } else { 1000 }, if is_answer { 1000 } else { 2000 })
        .payload([network as u8, twin as u8, is_answer.into(), 9, 9, 9, 9, 9])
        .build()
}

fn outer(kind: TunnelKind, vni: u32, inner: &[u8]) -> Vec<u8> {
    let (header, port) = match kind {
        TunnelKind::Vxlan => (wire::vxlan::header(wire::vxlan::FLAG_VNI, vni), wire::vxlan::PORT),
        _ => (wire::geneve::header(0, 0x6558, vni, 0), wire::geneve::PORT),
    };
    wire::PacketBuilder::eth(FAR.0, NEAR.0)
        .ipv4(FAR.1, NEAR.1)
        .udp(40_000, port)
        .payload([&header[..], inner].concat())
        .build()
}

fn capture(frames: &[Vec<u8>]) -> Capture {
    let mut bytes = Vec::new();
    let mut file = PcapTx::new(&mut bytes, || Duration::ZERO).unwrap();
    frames.iter().for_each(|frame| file.record(Duration::ZERO, frame).unwrap());
    drop(file);
    Capture::parse(bytes).unwrap()
}

/// Plays frames into a port until all are processed. Returns the output of each port.
fn play(switch: &mut Switch, port: PortNo, frames: &[Vec<u8>]) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let ports = (0..NETWORKS).map(|it| guest(it).1).chain([PORTS[1].1]);
    let records: Vec<_> = ports.map(|port| (port, Record::default())).collect();
    let mut cables: Vec<_> = records
        .iter()
        .map(|(it, record)| {
            let frames = if *it == port { frames } else { &[] };
            let rx = Box::new(PcapRx::new(capture(frames), Play::Once));
            Cable { port: *it, rx, tx: Box::new(record.clone()) }
        })
        .collect();
    let at = cables.iter().position(|cable| cable.port == port).unwrap();
    while switch.turn(clock::now(), &mut cables, at).unwrap() > 0 {}
    records.into_iter().map(|(port, it)| (port.0, it.0.lock().unwrap().clone())).collect()
}

fn check(kind: TunnelKind, one_port: bool, tracked: bool) {
    let what = format!("{kind:?}, one port {one_port}, tracked {tracked}");
    let mut switch = switch(kind, one_port, tracked);
    // From the second round on, most packets hit the cache.
    for round in 0..4 {
        for network in 0..NETWORKS {
            let twins: Vec<_> = (0..NETWORKS).map(|twin| inner(network, twin, false)).collect();
            let sent = play(&mut switch, guest(network).1, &twins);
            let expect: Vec<_> = twins.iter().map(|it| (vni(network), it.clone())).collect();
            let found: Vec<_> = sent[&PORTS[1].1.0]
                .iter()
                .map(|frame| {
                    let found = tunnel::decapsulate(kind, frame, false).unwrap();
                    (found.metadata.key.unwrap() as u32, frame[found.header_len..].to_vec())
                })
                .collect();
            assert_eq!(found, expect, "{what}, round {round}");
            let others: usize = sent.values().map(Vec::len).sum();
            assert_eq!(others, expect.len(), "{what}, round {round}");
        }
        // Answers of every pair are next to each other in a batch.
        let pairs = (0..NETWORKS).flat_map(|a| (0..NETWORKS).map(move |b| (a, b)));
        let frames: Vec<_> = pairs
            .flat_map(|(a, b)| [(a, b), (b, a)])
            .map(|(network, twin)| outer(kind, vni(network), &inner(network, twin, true)))
            .collect();
        let sent = play(&mut switch, PORTS[1].1, &frames);
        for network in 0..NETWORKS {
            let found = &sent[&guest(network).1.0];
            assert_eq!(found.len() as u32, 2 * NETWORKS, "{what}, round {round}");
            let is_own = |frame: &Vec<u8>| frame[42] == network as u8 && frame[44] == 1;
            assert!(found.iter().all(is_own), "{what}, round {round}");
        }
        let total: usize = sent.values().map(Vec::len).sum();
        assert_eq!(total, frames.len(), "{what}, round {round}");
        // A network without a port.
        let unknown = outer(kind, 0xff_fffe, &inner(0, 0, true));
        let sent = play(&mut switch, PORTS[1].1, &[unknown]);
        assert_eq!(sent.values().map(Vec::len).sum::<usize>(), 0, "{what}");
    }
    let stats = switch.stats();
    assert!(stats.unified_hits > stats.exact_hits / 2, "{what}: {stats:?}");
}

#[test]
fn no_traffic_of_a_network_appears_in_another() {
    for kind in [TunnelKind::Vxlan, TunnelKind::Geneve] {
        for one_port in [false, true] {
            check(kind, one_port, false);
            check(kind, one_port, true);
        }
    }
}
