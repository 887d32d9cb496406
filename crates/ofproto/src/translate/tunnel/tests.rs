//! Output to tunnels: drop reasons, path MTU, loops, neighbours, packets without Ethernet headers.

mod counted;

use crate::translate::{Notes, Translation};
use crate::{BridgeConfig, BridgeId, Config, Ofproto, PortDevice, PortSpec};
use base::{Instant, MacAddr, OfPort, PortNo};
use flow::{Action, DropReason, Field, FlowKey, TunnelKind};
use openflow::message::FlowModCommand;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tunnel::{SystemRoute, SystemRoutes, SystemRouting, TABLE_MAIN, TunnelConfig};

const NOW: Instant = Instant::from_millis(1000);
const NEAR: MacAddr = MacAddr([2, 0, 0, 9, 0, 1]);
const FAR: MacAddr = MacAddr([2, 0, 0, 9, 0, 2]);
const REMOTE: [u8; 4] = [10, 9, 0, 2];
/// Datapath ports: the underlay's local port, its wire, the guest's port and the tunnels'.
const LOCAL: u32 = 1;
const WIRE: u32 = 2;
const GUEST: u32 = 3;
const TUNNEL: PortNo = PortNo(9);

/// What is missing in the underlay.
#[derive(Clone, Copy, PartialEq)]
enum Lacking {
    Nothing,
    Route,
    Neighbour,
}

/// A switch with two bridges. In the guests' bridge, port 1 is the guest's, 2 a tunnel and 3 a patch; in the
/// underlay's, 1 is the wire, 2 the patch and 3 a tunnel.
fn switch(
    options: &str,
    mtu: Option<u32>,
    lacking: Lacking,
    [guests, underlay]: [&[&str]; 2],
) -> Ofproto {
    let mut ofproto = Ofproto::new(Config::default());
    let mut bridge = |name| ofproto.add_bridge(BridgeConfig::new(name, NEAR), NOW);
    let [int, phy] = ["br-int", "br-phy"].map(&mut bridge);
    let device = |name: &str, port| PortSpec::new(name, NEAR, PortDevice::Datapath(PortNo(port)));
    let patch = |name: &str, peer: &str| {
        PortSpec::new(name, MacAddr::ZERO, PortDevice::Patch { peer: peer.into() })
    };
    let local = PortSpec { is_local: true, ..device("br-phy", LOCAL) };
    for (id, spec) in [
        (int, device("guest", GUEST)),
        (int, tunnel_port("t0", options)),
        (int, patch("a", "b")),
        (phy, local),
        (phy, device("wire", WIRE)),
        (phy, patch("b", "a")),
        (phy, tunnel_port("t1", "remote_ip=10.9.0.2 key=77")),
    ] {
        ofproto.add_port(id, spec, NOW).unwrap();
    }
    let near = IpAddr::from([10, 9, 0, 1]);
    let route = SystemRoute {
        table: TABLE_MAIN,
        prefix: IpAddr::from([10, 9, 0, 0]),
        len: 24,
        metric: 0,
        device: "br-phy".to_owned(),
        gateway: None,
        source: Some(near),
        mtu,
    };
    let routes = if lacking == Lacking::Route { Vec::new() } else { vec![route] };
    let addresses = BTreeMap::from([("br-phy".to_owned(), vec![(near, 24)])]);
    let macs = BTreeMap::from([("br-phy".to_owned(), NEAR)]);
    let routing = SystemRouting { routes, addresses, ..SystemRouting::default() };
    ofproto.set_routing(Arc::new(SystemRoutes::new(routing)), macs);
    if lacking != Lacking::Neighbour {
        ofproto.learn_neighbour(NOW, "br-phy", REMOTE.into(), FAR);
    }
    guests.iter().for_each(|flow| add(&mut ofproto, int, flow));
    underlay.iter().for_each(|flow| add(&mut ofproto, phy, flow));
    ofproto
}

fn tunnel_port(name: &str, options: &str) -> PortSpec {
    let options = options.split_whitespace().filter_map(|it| it.split_once('='));
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let config = TunnelConfig::parse(TunnelKind::Vxlan, name, &options).config.unwrap();
    PortSpec::new(name, NEAR, PortDevice::Tunnel { device: TUNNEL, config: Arc::new(config) })
}

fn add(ofproto: &mut Ofproto, id: BridgeId, flow: &str) {
    let flow_mod = openflow::text::parse_flow(flow, FlowModCommand::Add, &|_| None).unwrap();
    ofproto.flow_mod(id, &flow_mod, NOW).unwrap();
}

/// The translation of a UDP packet from a port.
fn translate(ofproto: &Ofproto, port: u32) -> Translation {
    let mut key = FlowKey::new();
    key.set_in_port_raw(port);
    key.set_eth_type(0x0800);
    key.set_nw_proto(17);
    key.set_nw_ttl(64);
    ofproto.translate(NOW, &key, Notes::Off)
}

const VXLAN: &str = "remote_ip=10.9.0.2 key=5";
const OUT: [&[&str]; 2] = [&["in_port=1,actions=output:2"], &["in_port=LOCAL,actions=output:1"]];

#[test]
fn what_a_tunnel_cannot_send_is_dropped_for_its_reason() {
    let check = |options, mtu, lacking, expect: Option<DropReason>| {
        let actions = translate(&switch(options, mtu, lacking, OUT), GUEST).actions;
        let reason = match &actions[..] {
            [Action::TunnelPush(_), Action::Output(PortNo(WIRE))] => None,
            [Action::Drop(reason)] => Some(*reason),
            _ => panic!("{options}: {actions:?}"),
        };
        assert_eq!(reason, expect, "{options} {mtu:?}");
    };
    let whole = Lacking::Nothing;
    check(VXLAN, None, whole, None);
    check(VXLAN, Some(118), whole, None);
    check(VXLAN, Some(117), whole, Some(DropReason::TunnelMtu));
    check(VXLAN, Some(40), whole, Some(DropReason::TunnelMtu));
    check("remote_ip=10.9.0.2 key=5 df_default=false", Some(117), whole, None);
    check("remote_ip=10.9.0.2 key=16777215", None, whole, None);
    check("remote_ip=10.9.0.2 key=16777216", None, whole, Some(DropReason::TunnelHeader));
    check(VXLAN, None, Lacking::Route, Some(DropReason::TunnelRoute));
    check("remote_ip=10.8.0.2 key=5", None, whole, Some(DropReason::TunnelRoute));
    check(VXLAN, None, Lacking::Neighbour, Some(DropReason::TunnelNeighbour));
}

#[test]
fn loops_between_bridges_end_and_are_counted() {
    let check = |what, port, flows| {
        let actions = translate(&switch(VXLAN, None, Lacking::Nothing, flows), port).actions;
        assert_eq!(actions, [Action::Drop(DropReason::ResubmitDepth)], "{what}");
    };
    check(
        "a patch that is answered by its peer",
        GUEST,
        [&["in_port=1,actions=output:3", "in_port=3,actions=IN_PORT"], &["actions=IN_PORT"]],
    );
    check(
        "a tunnel of the underlay's own bridge",
        LOCAL,
        [&[], &["in_port=LOCAL,actions=output:3"]],
    );
    check(
        "a tunnel whose outer packets come back by a patch",
        GUEST,
        [&["actions=output:2"], &["in_port=LOCAL,actions=output:2"]],
    );
    // Copies sent elsewhere on the way are sent.
    let flows: [&[&str]; 2] = [
        &["in_port=1,actions=output:3", "in_port=3,actions=IN_PORT"],
        &["actions=output:1,IN_PORT"],
    ];
    let sent = translate(&switch(VXLAN, None, Lacking::Nothing, flows), GUEST).actions;
    assert!(
        sent.len() > 1 && sent.iter().all(|it| *it == Action::Output(PortNo(WIRE))),
        "{sent:?}"
    );
}

#[test]
fn packets_from_before_a_link_went_down_teach_no_neighbours() {
    let mut ofproto = switch(VXLAN, None, Lacking::Nothing, OUT);
    let bridge = ofproto.bridges().named("br-phy").unwrap().id;
    let at = Instant::from_millis;
    let known = |ofproto: &Ofproto| {
        ofproto.underlay().neighbours.lookup(at(2001), "br-phy", REMOTE.into()).is_some()
    };
    ofproto.forget_neighbours_behind("wire", at(1500));
    assert!(known(&ofproto), "the device has no address");
    ofproto.forget_neighbours_behind("br-phy", at(2000));
    assert!(!known(&ofproto));
    ofproto.neighbour_seen(at(1999), bridge, REMOTE.into(), FAR);
    assert!(!known(&ofproto), "the packet is from before");
    ofproto.neighbour_seen(at(2001), bridge, REMOTE.into(), FAR);
    assert!(known(&ofproto));
}

#[test]
fn neighbours_outlive_a_port_that_is_opened_anew_and_go_with_a_removed_one() {
    let at = Instant::from_millis;
    for (is_removed, known) in [(false, true), (true, false)] {
        let mut ofproto = switch(VXLAN, None, Lacking::Nothing, OUT);
        let bridge = ofproto.bridges().named("br-phy").unwrap().id;
        if is_removed {
            ofproto.remove_port(bridge, OfPort::LOCAL, at(1));
        } else {
            assert_eq!(
                ofproto.detach_port(bridge, OfPort::LOCAL, at(1)).as_deref(),
                Some("br-phy")
            );
        }
        let found = ofproto.underlay().neighbours.lookup(at(1), "br-phy", REMOTE.into());
        assert_eq!(found.is_some(), known);
    }
}

#[test]
fn packets_have_an_ethernet_header_where_their_port_says_so() {
    const MODES: [&str; 3] = ["legacy_l2", "legacy_l3", "ptap"];
    let inner: &[&str] =
        &["in_port=1,actions=output:2", "in_port=2,actions=mod_dl_dst:02:00:00:00:00:09,output:1"];
    let of = |mode: &str, from_tunnel: Option<u16>| {
        let options = format!("{VXLAN} exts=gpe packet_type={mode}");
        let ofproto = switch(&options, None, Lacking::Nothing, [inner, OUT[1]]);
        let Some(packet_type) = from_tunnel else { return translate(&ofproto, GUEST).actions };
        let mut key = FlowKey::new();
        key.set_in_port_raw(TUNNEL.0);
        key.set_eth_type(0x0800);
        for (field, value) in [
            (Field::TunId, 5),
            (Field::TunIpv6Src, 0x0a09_0002),
            (Field::TunIpv6Dst, 0x0a09_0001),
            (Field::TunFlags, flow::TUN_KEY.into()),
            (Field::PacketType, packet_type.into()),
        ] {
            key.set(field, value);
        }
        ofproto.translate(NOW, &key, Notes::Off).actions
    };
    for (mode, pops) in MODES.into_iter().zip([false, true, false]) {
        let actions = of(mode, None);
        let (first, rest) = actions.split_at(usize::from(pops));
        assert!(first.iter().all(|it| *it == Action::PopEth), "{mode}: {actions:?}");
        let [Action::TunnelPush(push), Action::Output(_)] = rest else { panic!("{actions:?}") };
        assert_eq!(push.strips_ethernet, pops, "{mode}");
        assert_eq!(push.answer.get(Field::PacketType) != 0, pops, "{mode}");
    }
    let unknown = vec![Action::Drop(DropReason::TunnelUnknown)];
    let out = Action::Output(PortNo(GUEST));
    let destination = MacAddr([2, 0, 0, 0, 0, 9]);
    let pushed = vec![Action::PushEth { source: MacAddr::ZERO, destination }, out.clone()];
    for (mode, packet_type, expect) in [
        ("legacy_l3", 0x0800, Some(pushed)),
        ("legacy_l3", 0, Some(unknown.clone())),
        ("legacy_l2", 0x0800, Some(unknown)),
        // A packet without an Ethernet header cannot leave by the guest's port.
        ("ptap", 0x0800, Some(Vec::new())),
        ("ptap", 0, None),
        ("legacy_l2", 0, None),
    ] {
        let actions = of(mode, Some(packet_type));
        let is_set = matches!(&actions[..], [Action::Set(_), it] if *it == out);
        assert!(expect.map_or(is_set, |it| it == actions), "{mode} {packet_type:#x}: {actions:?}");
    }
}

#[test]
fn what_an_ethernet_header_says_matters_where_it_is_put_back() {
    let options = format!("{VXLAN} exts=gpe packet_type=legacy_l3");
    let check = |flow: &str, looks_at_addresses| {
        let ofproto = switch(&options, None, Lacking::Nothing, [&[flow], OUT[1]]);
        let Translation { actions, mask, .. } = translate(&ofproto, GUEST);
        let puts_back = actions.iter().any(|it| matches!(it, Action::PushEth { .. }));
        assert_eq!(puts_back, looks_at_addresses, "{flow}: {actions:?}");
        for field in [Field::EthSrc, Field::EthDst] {
            assert_eq!(mask.is_exact(field), looks_at_addresses, "{flow}: {field:?}");
        }
    };
    check("in_port=1,actions=output:2", false);
    check("in_port=1,actions=output:2,output:1,in_port", true);
}

#[test]
fn packets_without_ethernet_headers_go_where_they_can() {
    const AWARE: &str = "remote_ip=10.9.0.2 key=5 exts=gpe packet_type=ptap";
    let push = |destination| {
        let destination = MacAddr([0, 0, 0, 0, 0, destination]);
        Action::PushEth { source: MacAddr::ZERO, destination }
    };
    let (guest, wire) = (Action::Output(PortNo(GUEST)), Action::Output(PortNo(WIRE)));
    let drop = vec![Action::Drop(DropReason::PacketType)];
    let out = "in_port=LOCAL,actions=output:1";
    let check = |from: u32, guests: &[&str], underlay: &str, expect: &[Action]| {
        let ofproto = switch(AWARE, None, Lacking::Nothing, [guests, &[underlay, out]]);
        let mut key = FlowKey::new();
        key.set_in_port_raw(from);
        key.set_eth_type(0x0800);
        key.set(Field::Ipv4Dst, 0x0a00_0001);
        if from == TUNNEL.0 {
            let ends = [(Field::TunIpv6Src, 0x0a09_0002), (Field::TunIpv6Dst, 0x0a09_0001)];
            ends.into_iter().for_each(|(field, value)| key.set(field, value));
            key.set(Field::TunId, 5);
            key.set(Field::TunFlags, flow::TUN_KEY.into());
            key.set(Field::PacketType, 0x0800);
        }
        let mut actions = ofproto.translate(NOW, &key, Notes::Off).actions;
        actions.retain(|it| !matches!(it, Action::TunnelPush(push) if push.strips_ethernet));
        assert_eq!(actions, expect, "{guests:?} {underlay}");
    };
    let patch = "in_port=2,packet_type=(1,0x800),nw_dst=10.0.0.1,actions=encap(ethernet),output:1";
    check(GUEST, &["actions=decap(),output:2"], out, &[Action::PopEth, wire.clone()]);
    check(GUEST, &["actions=decap(),IN_PORT"], out, &[]);
    check(GUEST, &["actions=decap(),mod_dl_dst:2:0:0:0:0:1,push_vlan:0x8100,IN_PORT"], out, &[]);
    check(GUEST, &["actions=push_vlan:0x8100,decap(),output:2"], out, &drop);
    check(GUEST, &["actions=decap(),decap(),output:2"], out, &drop);
    check(GUEST, &["actions=encap(ethernet),output:2"], out, &drop);
    let through = [Action::PopEth, push(0), wire.clone()];
    check(GUEST, &["actions=decap(),output:3"], patch, &through);
    // A frame has another packet type.
    check(GUEST, &["actions=output:3"], patch, &[]);
    let encap = "packet_type=(1,0x800),nw_dst=10.0.0.1,\
                 actions=encap(ethernet),mod_dl_dst:0:0:0:0:0:7,output:1";
    check(TUNNEL.0, &[encap], out, &[push(7), guest.clone()]);
    // Flows on headers match frames.
    for flow in ["ip", "ip,nw_dst=10.0.0.1", "dl_dst=0:0:0:0:0:0", "vlan_tci=0", "eth"] {
        let frames = format!("priority=40000,{flow},actions=output:2");
        check(TUNNEL.0, &[&frames, encap], out, &[push(7), guest.clone()]);
    }
    let all = "priority=40000,in_port=2,actions=drop";
    check(TUNNEL.0, &[all, encap], out, &[]);
}

#[test]
fn ecn_bits_are_matched_and_the_step_says_whether_for_the_outer_header_alone() {
    let check = |flows: &[&str], expect: bool| {
        let ofproto = switch(VXLAN, None, Lacking::Nothing, [flows, OUT[1]]);
        for ecn in 0..4u8 {
            let mut key = FlowKey::new();
            key.set_in_port_raw(GUEST);
            key.set_eth_type(0x0800);
            key.set_nw_proto(17);
            key.set_nw_tos(0x20 | ecn);
            let Translation { actions, mask, .. } = ofproto.translate(NOW, &key, Notes::Off);
            let [.., Action::TunnelPush(push), Action::Output(_)] = &actions[..] else {
                panic!("{flows:?}: {actions:?}")
            };
            assert_eq!(push.copies_ecn, expect, "{flows:?}");
            assert_eq!(push.header[15], ecn, "the outer TOS");
            assert_eq!(mask.get(Field::NwTos) & 3, 3, "{flows:?}");
        }
    };
    check(OUT[0], true);
    check(&["in_port=1,ip,nw_tos=32,actions=output:2"], true);
    // Another flow of the same table matches them.
    let of_ecn = "priority=40000,in_port=1,ip,nw_ecn=1,actions=output:2";
    check(&["in_port=1,actions=output:2", of_ecn], false);
}
