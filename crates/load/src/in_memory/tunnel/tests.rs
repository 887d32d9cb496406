//! Traffic of one network never appears in another: packets of every pair of networks, interleaved.

use super::*;
use crate::in_memory::{Cable, Discard};
use conntrack::Config;
use openflow::message::{TlvCommand, TlvMap};
use packet::{Batch, Pool};
use port::pcap::{Capture, PcapRx, PcapTx, Play};
use port::{TxCounters, TxQueue};
use std::sync::Mutex;
use std::time::Duration;

const NETWORKS: u32 = 16;
/// The networks' VNIs differ in all of their 24 bits.
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
    outer_with(kind, vni, &[], inner)
}

fn outer_with(kind: TunnelKind, vni: u32, options: &[u8], inner: &[u8]) -> Vec<u8> {
    let (header, port) = match kind {
        TunnelKind::Vxlan => (wire::vxlan::header(wire::vxlan::FLAG_VNI, vni), wire::vxlan::PORT),
        _ => (wire::geneve::header(0, 0x6558, vni, options.len()), wire::geneve::PORT),
    };
    wire::PacketBuilder::eth(FAR.0, NEAR.0)
        .ipv4(FAR.1, NEAR.1)
        .udp(40_000, port)
        .payload([&header[..], options, inner].concat())
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
    while switch.iterate(clock::now(), &mut cables, at).unwrap() > 0 {}
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

/// Values of the options of 0, 8 and 124 bytes that only packets of this network have.
fn values(network: u32) -> [Vec<u8>; 3] {
    let byte = |at: usize| (at as u8).wrapping_mul(3) ^ network as u8;
    [Vec::new(), (0..8).map(byte).collect(), (0..124).map(byte).collect()]
}

fn options(values: &[Vec<u8>]) -> Vec<u8> {
    let option = |(kind, value): (u8, &Vec<u8>)| {
        [&wire::geneve::option_header(0x102, kind, value.len())[..], value].concat()
    };
    (0x80..).zip(values).flat_map(option).collect()
}

/// A switch whose flows distinguish networks by options alone.
fn switch_by_options() -> Switch {
    let now = clock::now();
    let mut core = underlay(now).unwrap();
    let guests: Vec<_> = (0..NETWORKS).map(guest).collect();
    let names: Vec<_> = guests.iter().map(|(name, port)| (name.as_str(), *port)).collect();
    let bridge = inner_bridge(&mut core, &names, now).unwrap();
    let map = |(kind, len, index)| TlvMap { class: 0x102, kind, len, index };
    // Removing one leaves a gap, so the long value is split between two places.
    let first = [map((0x7f, 4, 1)), map((0x80, 0, 0)), map((0x81, 8, 8))];
    core.tlv_table_mod(bridge, TlvCommand::Add, &first).unwrap();
    core.tlv_table_mod(bridge, TlvCommand::Delete, &first[..1]).unwrap();
    core.tlv_table_mod(bridge, TlvCommand::Add, &[map((0x82, 124, 63))]).unwrap();
    add_tunnel(&mut core, bridge, ("t", TunnelKind::Geneve, "7"), now).unwrap();
    let mut flows = String::new();
    for network in 0..NETWORKS {
        let [_, short, long] = values(network);
        let hex = |bytes: &[u8]| bytes.iter().map(|it| format!("{it:02x}")).collect::<String>();
        let (short, long, (guest, _)) = (hex(&short), hex(&long), guest(network));
        let mask = "f".repeat(244) + "0000";
        let cut = &long[..244];
        flows += &format!(
            "in_port=t,tun_metadata0,tun_metadata8=0x{short},\
             tun_metadata63=0x{cut}0000/0x{mask} actions=output:{guest}\n\
             in_port={guest} actions=set_field:0->tun_metadata0,\
             set_field:0x{short}->tun_metadata8,set_field:0x{long}->tun_metadata63,output:t\n"
        );
    }
    add_flows(&mut core, bridge, &flows, now, &|name| name).unwrap();
    let conntrack = Arc::new(Conntrack::new(7, Config::default()));
    Switch::of(Answers::Owner, Parts { core, bridge, worker: WorkerId(0), conntrack }).unwrap()
}

#[test]
fn options_of_every_length_go_with_their_packets() {
    let mut switch = switch_by_options();
    let kind = TunnelKind::Geneve;
    // From the second round on, packets hit the cache.
    for round in 0..4 {
        for network in 0..NETWORKS {
            let frame = inner(network, 0, false);
            let sent = play(&mut switch, guest(network).1, std::slice::from_ref(&frame));
            let [only] = &sent[&PORTS[1].1.0][..] else { panic!("{network}, round {round}") };
            let found = tunnel::decapsulate(kind, only, false).unwrap();
            assert_eq!(found.metadata.options, options(&values(network)), "round {round}");
            assert_eq!(only[found.header_len..], frame, "round {round}");
        }
        // The flows do not match the last two bytes.
        let arriving = |network: u32| {
            let mut values = values(network);
            values[2][122] = round;
            outer_with(kind, 7, &options(&values), &inner(network, 0, true))
        };
        let frames: Vec<_> = (0..NETWORKS).chain((0..NETWORKS).rev()).map(arriving).collect();
        let sent = play(&mut switch, PORTS[1].1, &frames);
        for network in 0..NETWORKS {
            let expect = vec![inner(network, 0, true); 2];
            assert_eq!(sent[&guest(network).1.0], expect, "{network}, round {round}");
        }
        // A wrong value, a missing option, and lengths that differ from the table's.
        let [none, short, long] = values(3);
        let mut other = long.clone();
        other[0] ^= 0x80;
        for wrong in [
            vec![none.clone(), short.clone(), other],
            vec![none.clone(), short.clone()],
            vec![none.clone(), vec![0; 4], long.clone()],
            vec![vec![0; 4], short, long],
        ] {
            let frame = outer_with(kind, 7, &options(&wrong), &inner(3, 0, true));
            let sent = play(&mut switch, PORTS[1].1, &[frame]);
            assert_eq!(sent.values().map(Vec::len).sum::<usize>(), 0, "{wrong:?}");
        }
    }
    assert!(switch.stats().unified_hits > 0);
}

/// An option of class 0x102.
fn option(kind: u8, value: &[u8]) -> Vec<u8> {
    [&wire::geneve::option_header(0x102, kind, value.len())[..], value].concat()
}

#[test]
fn bridges_that_map_options_differently_each_see_their_own() {
    let now = clock::now();
    let mut core = underlay(now).unwrap();
    let first = inner_bridge(&mut core, &[("g0", PortNo(10))], now).unwrap();
    let second = add_bridge(&mut core, "br1", MacAddr([2, 0, 0, 0, 0, 0xb1]), now);
    let spec = PortSpec::new("g1", mac_of(PortNo(11)), PortDevice::Datapath(PortNo(11)));
    core.add_port(second, spec, now).unwrap();
    // The same option has other fields and another length; the same field stands for another option.
    let map = |kind, len, index| TlvMap { class: 0x102, kind, len, index };
    core.tlv_table_mod(first, TlvCommand::Add, &[map(0x80, 4, 0), map(0x81, 4, 1)]).unwrap();
    core.tlv_table_mod(second, TlvCommand::Add, &[map(0x81, 4, 0), map(0x80, 8, 5)]).unwrap();
    for (bridge, name, key, flows) in [
        (
            first,
            "t0",
            "7",
            "in_port=t0,tun_metadata0=0xa1,tun_metadata1=0xb0/0xf0 actions=output:g0\n\
             in_port=g0 actions=set_field:0xc1->tun_metadata0,output:t0\n",
        ),
        (
            second,
            "t1",
            "8",
            "in_port=t1,tun_metadata5=0xa2,tun_metadata0=0xb2 actions=output:g1\n\
             in_port=g1 actions=set_field:0xc2->tun_metadata0,output:t1\n",
        ),
    ] {
        add_tunnel(&mut core, bridge, (name, TunnelKind::Geneve, key), now).unwrap();
        add_flows(&mut core, bridge, flows, now, &|name| name).unwrap();
    }
    let conntrack = Arc::new(Conntrack::new(7, Config::default()));
    let parts = Parts { core, bridge: first, worker: WorkerId(0), conntrack };
    let mut switch = Switch::of(Answers::Owner, parts).unwrap();
    let word = |value: u8| [0, 0, 0, value];
    let of_first =
        |kind| [option(kind, &word(0xa1)), option(0x81, &word(0xb3)), option(1, &word(9))].concat();
    let of_second =
        [option(0x81, &word(0xb2)), option(0x80, &[[0; 4], word(0xa2)].concat())].concat();
    let arrive = |switch: &mut Switch, vni, options: &[u8]| {
        let frame = outer_with(TunnelKind::Geneve, vni, options, &inner(1, 0, true));
        let sent = play(switch, PORTS[1].1, &[frame]);
        let found = sent.iter().filter(|(_, frames)| !frames.is_empty());
        found.map(|(port, _)| *port).collect::<Vec<_>>()
    };
    // From the second round on, packets hit the cache.
    for _ in 0..4 {
        assert_eq!(arrive(&mut switch, 7, &of_first(0x80)), [10]);
        assert_eq!(arrive(&mut switch, 8, &of_second), [11]);
        assert_eq!(arrive(&mut switch, 7, &of_second), [0; 0]);
        assert_eq!(arrive(&mut switch, 8, &of_first(0x80)), [0; 0]);
        for (guest, expect) in [(10, option(0x80, &word(0xc1))), (11, option(0x81, &word(0xc2)))] {
            let sent = play(&mut switch, PortNo(guest), &[inner(0, 0, false)]);
            let [only] = &sent[&PORTS[1].1.0][..] else { panic!("{guest}") };
            let found = tunnel::decapsulate(TunnelKind::Geneve, only, false).unwrap();
            assert_eq!(found.metadata.options, expect, "{guest}");
        }
    }
    // The first bridge's fields stand for other options now, of which one is not known. Packets of before are
    // judged anew, and the other bridge's are as they were.
    switch.core.flush_flows(first);
    switch.core.tlv_table_mod(first, TlvCommand::Clear, &[]).unwrap();
    let maps = [map(0x82, 4, 0), map(0x81, 4, 1)];
    switch.core.tlv_table_mod(first, TlvCommand::Add, &maps).unwrap();
    let flow = "in_port=t0,tun_metadata0=0xa1 actions=output:g0\n";
    add_flows(&mut switch.core, first, flow, clock::now(), &|name| name).unwrap();
    for _ in 0..4 {
        assert_eq!(arrive(&mut switch, 7, &of_first(0x82)), [10]);
        assert_eq!(arrive(&mut switch, 7, &of_first(0x80)), [0; 0]);
        assert_eq!(arrive(&mut switch, 8, &of_second), [11]);
    }
}
