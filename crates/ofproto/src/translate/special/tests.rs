//! Which frames go to state machines, and which bits their flows match.

use crate::test_bridge::{NOW, TestBridge};
use crate::{
    BridgeConfig, Monitored, PortDevice, PortSpec, ProtocolFrame, ProtocolSender, Sending,
};
use base::{MacAddr, OfPort, PortNo};
use flow::{Action, Field, MonitorId, Protocol, ToProtocol, UpcallKind};
use protocols::bfd::{self, Filter};

const ID: MonitorId = MonitorId(7);
const TO: ToProtocol = ToProtocol { monitor: ID, protocol: Protocol::Bfd };
const OPEN: Filter = Filter { remote_destination: None, address: None, check_tunnel_key: false };

fn monitored(number: u32, filter: Filter) -> PortSpec {
    let monitor = Some(Monitored { id: ID, bfd: Some(filter) });
    PortSpec { monitor, alive: false, ..TestBridge::port(number) }
}

/// Sends a packet through a bridge of two ports, the first with BFD, that forwards all. Returns whether it went to the
/// state machine, and which of some fields its flow matches.
fn check(filter: Filter, packet: &str, expect: bool, fields: &[Field]) {
    const ALL: [Field; 5] =
        [Field::EthDst, Field::NwProto, Field::TpDst, Field::Ipv4Dst, Field::TunId];
    let mut switch = TestBridge::new();
    switch.ofproto.add_port(switch.id, monitored(1, filter), NOW).unwrap();
    switch.ofproto.add_port(switch.id, TestBridge::port(2), NOW).unwrap();
    switch.add("actions=2");
    switch.upcall(1, packet, UpcallKind::Miss);
    let puts = switch.out.commands.iter().filter_map(|(_, command)| command.to_put());
    let [put] = &puts.collect::<Vec<_>>()[..] else { panic!("{packet}: no flow") };
    let actions = if expect { Action::Protocol(TO) } else { Action::Output(PortNo(2)) };
    assert_eq!(put.actions[..], [actions], "{filter:?} {packet}");
    let matched = ALL.into_iter().filter(|field| put.matching.mask().has(*field));
    assert_eq!(matched.collect::<Vec<_>>(), fields, "{filter:?} {packet}");
}

#[test]
fn the_flow_of_a_frame_matches_what_decided() {
    use Field::{EthDst, Ipv4Dst, NwProto, TpDst};
    let to_mac = |mac| Filter { remote_destination: Some(mac), ..OPEN };
    let to_ip = |ip: [u8; 4]| Filter { address: Some(ip.into()), ..OPEN };
    let own = "10.0.0.1:50000>10.0.0.2:3784 udp len=24";
    let mac = wire::text::default_mac([10, 0, 0, 2].into());
    check(OPEN, own, true, &[NwProto, TpDst]);
    check(OPEN, "10.0.0.1:50000>10.0.0.2:3785 udp len=24", false, &[NwProto, TpDst]);
    check(OPEN, "10.0.0.1:50000>10.0.0.2:3784 S", false, &[NwProto]);
    check(OPEN, "[fd00::1]:50000>[fd00::2]:3784 udp len=24", false, &[]);
    check(OPEN, "10.0.0.1>10.0.0.2 arp-request", false, &[]);
    check(OPEN, "10.0.0.1>10.0.0.2 ip frag=later proto=17 len=30", false, &[NwProto]);
    check(to_mac(mac), own, true, &[EthDst, NwProto, TpDst]);
    check(to_mac(MacAddr([2, 0, 0, 0, 0, 9])), own, false, &[EthDst]);
    check(to_ip([10, 0, 0, 2]), own, true, &[NwProto, TpDst, Ipv4Dst]);
    // The flow of another address's packets does not take this session's.
    check(to_ip([10, 0, 0, 9]), own, false, &[NwProto, TpDst, Ipv4Dst]);
    // Outside of tunnels there is no key to match.
    check(Filter { check_tunnel_key: true, ..OPEN }, own, true, &[NwProto, TpDst]);
}

#[test]
fn without_bfd_a_frame_is_forwarded_and_its_flow_matches_none_of_these_bits() {
    let mut switch = TestBridge::new().with_ports(2);
    switch.add("actions=2");
    switch.upcall(1, "10.0.0.1:50000>10.0.0.2:3784 udp len=24", UpcallKind::Miss);
    let mut puts = switch.out.commands.iter().filter_map(|(_, command)| command.to_put());
    let put = puts.next_back().unwrap();
    assert_eq!(put.actions[..], [Action::Output(PortNo(2))]);
    assert!(!put.matching.mask().has(Field::TpDst));
}

/// Two bridges with a patch between them whose other end has BFD, and a sender.
fn patched(other_end: Option<Monitored>) -> (TestBridge, ProtocolSender, [OfPort; 2]) {
    let mut switch = TestBridge::new();
    let peer = switch.ofproto.add_bridge(BridgeConfig::new("br1", MacAddr::ZERO), NOW);
    let patch = |name: &str, peer: &str| {
        PortSpec::new(name, MacAddr::ZERO, PortDevice::Patch { peer: peer.into() })
    };
    let near = switch.ofproto.add_port(switch.id, patch("a", "b"), NOW).unwrap();
    let far = PortSpec { monitor: other_end, ..patch("b", "a") };
    switch.ofproto.add_port(peer, far, NOW).unwrap();
    let device = switch.ofproto.add_port(switch.id, TestBridge::port(5), NOW).unwrap();
    switch.ofproto.publish();
    let sender = switch.ofproto.protocol_sender();
    (switch, sender, [near, device])
}

#[test]
fn a_frame_leaves_its_port_or_reaches_the_machine_behind_a_patch() {
    let config = bfd::Config::default();
    let identity = bfd::Identity { discriminator: 1, number: 0, seed: 0 };
    let frame = bfd::Bfd::new(NOW, "a", identity, config).send(NOW, MacAddr::ZERO).unwrap();
    let end = Monitored { id: ID, bfd: Some(OPEN) };
    for (other_end, is_here) in [(Some(end), true), (None, false)] {
        let (switch, mut sender, [patch, device]) = patched(other_end);
        let mut send = |port| {
            let (bridge, bytes) = (switch.id, &frame.bytes[..]);
            sender.send(NOW, ProtocolFrame { bridge, port, bytes, oam: false })
        };
        let through = send(patch);
        assert_eq!(matches!(through, Sending::Here(TO)), is_here, "{through:?}");
        let Sending::Execute(execute) = send(device) else { panic!("it is not sent") };
        assert_eq!(execute.actions[..], [Action::Output(PortNo(5))]);
        assert_eq!(execute.packet.data(), frame.bytes);
        assert!(matches!(send(OfPort(99)), Sending::Nowhere));
    }
}

#[test]
fn groups_do_not_choose_a_port_that_its_protocols_call_down() {
    let mut switch = TestBridge::new().with_ports(2);
    switch.add("actions=bundle(eth_src,0,active_backup,ofport,members:2,1)");
    let chosen = |switch: &mut TestBridge| {
        switch.revalidate();
        let mut puts = switch.out.commands.iter().filter_map(|(_, command)| command.to_put());
        puts.next_back().map(|put| put.actions.to_vec())
    };
    switch.ofproto.add_port(switch.id, TestBridge::port(3), NOW).unwrap();
    switch.upcall(3, "10.0.0.1:1>10.0.0.2:2 udp", UpcallKind::Miss);
    for (alive, port) in [(true, 2), (false, 1), (true, 2)] {
        switch.ofproto.set_port_alive(switch.id, OfPort(2), alive);
        assert_eq!(chosen(&mut switch), Some(vec![Action::Output(PortNo(port))]), "{alive}");
        let port = switch.ofproto.bridge(switch.id).unwrap().port(OfPort(2)).unwrap();
        assert_eq!(port.describe().live, alive);
    }
}
