//! The packets of the attacks.

use crate::network::{CLIENT, Network, SERVER, mac, stranger, tcp, udp};
use base::{MacAddr, PortNo};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::TcpFlags;
use wire::builder::PacketBuilder;

/// Rules of which each is selected by one field of few bits, for [`masks`].
pub const FEW_BITS: &str = "priority=30,ip,nw_src=10.0.0.1,actions=output:p1
priority=20,udp,tp_dst=80,actions=output:p1
priority=10,udp,tp_src=12345,actions=output:p1
priority=1,actions=drop";
/// Two services that hosts may use, for [`scan`].
pub const SERVICES: &str = "priority=20,tcp,tp_dst=80,actions=output:p1
priority=10,tcp,nw_dst=10.0.0.2,tp_dst=443,actions=output:p1
priority=1,actions=drop";
/// Each source port from p0 needs a flow, for [`flow_mods`].
pub const PER_SOURCE: &str =
    "priority=10,udp,in_port=p0,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:p1
priority=10,udp,in_port=p1,actions=output:p0";

/// 1,000 SYNs from random sources.
pub fn syns(random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let syn = |_| {
        let (source, port) = (stranger(random), random.u16(1024..));
        tcp(false, source, port, TcpFlags::SYN, (random.u32(..), 0))
    };
    (0..1000).map(syn).collect()
}

/// 1,000 errors that quote packets which never were.
pub fn icmp_errors(random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let error = |_| {
        let quoted = udp(stranger(random), (random.u16(1..), random.u16(1..)));
        let ip = PacketBuilder::eth(mac(2), mac(1)).ipv4(stranger(random), CLIENT);
        ip.icmp_error(3, random.u8(..16), 0, &quoted[14..42]).build()
    };
    (0..1000).map(error).collect()
}

/// A packet between two hosts.
pub fn between(from: u32, to: u32) -> Vec<u8> {
    let ip = PacketBuilder::eth(mac(from), mac(to)).ipv4(CLIENT, SERVER);
    ip.udp(1, 2).payload([0; 18]).build()
}

/// 1,000 packets from 1,000 addresses that no other part has.
pub fn new_addresses(part: u32) -> Vec<Vec<u8>> {
    (0..1000).map(|n| between(0x10_0000 + part * 1000 + n, 0x0f_ffff)).collect()
}

/// A SYN of a scan.
pub fn probe(to: Ipv4Addr, port: u16) -> Vec<u8> {
    let ip = PacketBuilder::eth(mac(1), mac(2)).ipv4(CLIENT, to);
    ip.tcp(4000, port).flags(TcpFlags::SYN).build()
}

/// 20,000 ports of one address, and one port of 20,000 addresses.
pub fn scan() -> Vec<Vec<u8>> {
    let ports = (1000..21_000u16).map(|port| probe(SERVER, port));
    let addresses = (0..20_000).map(|n| probe(Ipv4Addr::from(0x0b00_0000 + n), 81));
    ports.chain(addresses).collect()
}

/// 8,192 packets that each need a flow with a mask of its own: each first differs from the match of
/// [`FEW_BITS`] in another bit of address and ports.
pub fn masks() -> Vec<Vec<u8>> {
    let address = u32::from(CLIENT);
    let differ = |bits: u32, value: u32, at: u32| value ^ (1 << (bits - 1 - at));
    let mut attack = Vec::new();
    for a in 0..32 {
        for (b, c) in (0..16).flat_map(|b| (0..16).map(move |c| (b, c))) {
            let source = Ipv4Addr::from(differ(32, address, a));
            attack.push(udp(source, (differ(16, 12_345, b) as u16, differ(16, 80, c) as u16)));
        }
    }
    attack
}

/// A controller adds 1,000 rules, and 32 packets that each need a flow arrive.
pub fn flow_mods(network: &mut Network, part: u32) {
    for n in 0..1000 {
        let to = Ipv4Addr::from(0x0c00_0000 + part * 1000 + n);
        let rule = format!("priority=20,udp,in_port=p2,nw_dst={to},actions=output:p1");
        network.switch.flow_mod(&rule, network.now).unwrap();
    }
    network.switch.settle(network.now);
    let storm = (0..32).map(|n| udp(CLIENT, ((part * 32 + n) as u16 + 1000, 7)));
    network.send(0, storm.collect::<Vec<_>>(), 100_000);
}

/// ARP requests from new addresses, 32,000 per second and port, for so many milliseconds; a handler that takes
/// 64 upcalls per millisecond; and a port that starts a flow each millisecond, which waits at most 2.
pub fn arp(network: &mut Network, storm_ports: u16, time: u32) {
    let (mut waiting, mut upcalls) = (VecDeque::new(), Vec::new());
    for ms in 0..time {
        for port in 2..usize::from(storm_ports) + 2 {
            for n in 0..32 {
                let from = mac(0x10_0000 + (port as u32 * 200 + ms) * 32 + n);
                let frame = PacketBuilder::eth(from, MacAddr([0xff; 6]));
                let frame = frame.arp_request(CLIENT, SERVER);
                network.inputs[port].push(frame);
            }
            network.switch.work(network.now, &mut network.cables, port).unwrap();
        }
        let ip = PacketBuilder::eth(mac(0x20_0000 + ms), mac(9)).ipv4(CLIENT, SERVER);
        let frame = ip.udp(1, 2).payload([0; 18]).build();
        network.inputs[0].push(frame);
        network.switch.work(network.now, &mut network.cables, 0).unwrap();
        waiting.push_back(ms);
        network.switch.take_own_upcalls(64, &mut upcalls);
        for upcall in upcalls.drain(..) {
            if upcall.key.in_port() == PortNo(1) {
                let began = waiting.pop_front().unwrap();
                assert!(ms - began <= 2, "the flow of {began} ms was taken up at {ms} ms");
            }
            answer(network, upcall);
        }
        network.wait(Duration::from_millis(1));
    }
    // A refused upcall would still wait, and so would all after it.
    assert!(waiting.len() <= 2, "{} wait", waiting.len());
    network.switch.take_own_upcalls(usize::MAX, &mut upcalls);
    upcalls.into_iter().for_each(|upcall| answer(network, upcall));
}

fn answer(network: &mut Network, upcall: flow::Upcall) {
    for (_, command) in network.switch.translate(network.now, upcall) {
        network.switch.carry_out(network.now, command, &mut network.cables);
    }
}
