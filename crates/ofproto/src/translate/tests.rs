//! Properties of translation, on random tables and packets.

use super::{Keys, Memory, Notes, Translation, translate};
use crate::datapath_mask::datapath_mask;
use crate::{BridgeConfig, BridgeId, Config, Ofproto, PortDevice, PortSpec, VlanMode};
use base::{Instant, MacAddr, OfPort, PortNo};
use flow::{Action, FRAG_LATER, Field, FlowKey, Mask, SetField, VLAN_PRESENT};
use openflow::message::FlowModCommand;
use proptest::prelude::*;
use std::sync::Arc;

/// With notes, the result has the key after all changes.
const TOLD: Notes = Notes::On { names: false, learns: false };

impl Ofproto {
    /// Translates a packet with the current tables.
    pub(crate) fn translate(&self, now: Instant, key: &FlowKey, notes: Notes) -> Translation {
        translate(self.world(now), key, notes, Memory::default(), &mut Keys::default())
    }
}

const NOW: Instant = Instant::from_millis(1000);

/// Matches of generated flows.
const MATCHES: &[&str] = &[
    "",
    "in_port=1",
    "in_port=2",
    "ip",
    "tcp",
    "udp,tp_dst=53",
    "tcp,tp_dst=80",
    "tcp,tp_dst=32768/0x8000",
    "ip,nw_src=10.0.0.0/24",
    "ip,nw_src=10.0.0.1",
    "ip,nw_dst=10.0.0.0/16",
    "ip,ct_state=-trk",
    "ip,ct_state=+trk+new",
    "ip,ct_state=+trk+est",
    "arp",
    "arp,arp_op=1",
    "arp,arp_tpa=10.0.0.2",
    "dl_vlan=10",
    "vlan_tci=0",
    "dl_src=02:00:00:00:00:01",
    "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
    "reg0=1",
    "ip,reg0=0/1,nw_ttl=64",
    "icmp,icmp_type=8",
];

/// Actions of generated flows.
const ACTIONS: &[&str] = &[
    "drop",
    "output:1",
    "output:2",
    "output:3",
    "LOCAL",
    "NORMAL",
    "FLOOD",
    "IN_PORT",
    "CONTROLLER:100",
    "resubmit(,1)",
    "resubmit(,2)",
    "resubmit(2,1)",
    "load:1->NXM_NX_REG0[]",
    "move:NXM_OF_IP_SRC[0..7]->NXM_NX_REG0[0..7]",
    "mod_nw_dst:10.0.0.9",
    "mod_nw_src:10.0.0.1",
    "mod_tp_dst:80",
    "mod_dl_src:02:00:00:00:00:09",
    "mod_vlan_vid:20",
    "strip_vlan",
    "push_vlan:0x8100",
    "dec_ttl",
    "set_field:10.0.0.0/255.0.0.0->ip_dst",
    "push:NXM_NX_REG0[]",
    "pop:NXM_NX_REG0[]",
    "push:NXM_OF_ETH_SRC[],pop:NXM_OF_ETH_DST[]",
    "ct(table=1)",
    "ct(commit,zone=NXM_NX_REG0[0..15])",
    "ct(commit,exec(load:1->NXM_NX_CT_MARK[]))",
    "ct_clear",
    "clone(mod_dl_dst:02:00:00:00:00:07,output:2)",
    "clone(ct(commit),output:3)",
    "exit",
    "learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
    "learn(table=2,priority=1,limit=1,result_dst=NXM_NX_REG0[0],NXM_OF_VLAN_TCI[0..11])",
    "bundle(symmetric_l4,0,hrw,ofport,members:1,2,3)",
    "multipath(symmetric_l3l4,0,hrw,3,0,NXM_NX_REG0[0..1])",
    "output:4",
    "push:OXM_OF_IN_PORT[],pop:NXM_NX_REG0[]",
    "move:NXM_NX_REG0[]->OXM_OF_IN_PORT[]",
];

fn patch(name: &str, peer: &str) -> PortSpec {
    PortSpec::new(name, MacAddr::ZERO, PortDevice::Patch { peer: peer.into() })
}

fn device(name: &str, number: u32, vlan: VlanMode) -> PortSpec {
    let device = PortDevice::Datapath(PortNo(number));
    PortSpec { vlan, ..PortSpec::new(name, MacAddr::ZERO, device) }
}

/// Two bridges with a patch between (port 4 of the first); `flows` go to the first, and every
/// other one to the second.
fn switch(flows: &[String]) -> (Ofproto, BridgeId) {
    let mut ofproto = Ofproto::new(Config::default());
    let ids =
        ["br0", "br1"].map(|name| ofproto.add_bridge(BridgeConfig::new(name, MacAddr::ZERO), NOW));
    let local = PortSpec { is_local: true, ..device("br0", 9, VlanMode::default()) };
    let trunk = VlanMode::Trunk { trunks: vec![0, 10, 20] };
    for spec in [
        device("p1", 1, VlanMode::default()),
        device("p2", 2, VlanMode::Access(10)),
        device("p3", 3, trunk),
        device("p4", 4, VlanMode::Dot1qTunnel { tag: 10, cvlans: vec![0, 20], ethertype: 0x88a8 }),
        patch("a", "b"),
        local,
    ] {
        ofproto.add_port(ids[0], spec, NOW).unwrap();
    }
    for spec in [patch("b", "a"), device("p5", 5, VlanMode::default())] {
        ofproto.add_port(ids[1], spec, NOW).unwrap();
    }
    ofproto.learn_mac(ids[0], 0, MacAddr([2, 0, 0, 0, 0, 2]), OfPort(2), NOW);
    ofproto.learn_mac(ids[0], 10, MacAddr([2, 0, 0, 0, 0, 1]), OfPort(1), NOW);
    for (i, flow) in flows.iter().enumerate() {
        add(&mut ofproto, ids[0], flow);
        if i % 2 == 1 {
            add(&mut ofproto, ids[1], flow);
        }
    }
    (ofproto, ids[0])
}

fn add(ofproto: &mut Ofproto, id: BridgeId, flow: &str) {
    let flow_mod = openflow::text::parse_flow(flow, FlowModCommand::Add, &|_| None);
    let flow_mod = flow_mod.unwrap_or_else(|error| panic!("{flow}: {error}"));
    ofproto.flow_mod(id, &flow_mod, NOW).unwrap();
}

fn flows() -> impl Strategy<Value = Vec<String>> {
    let actions = prop::collection::vec(prop::sample::select(ACTIONS), 1..4);
    let flow = (0..3u8, 0..4u16, prop::sample::select(MATCHES), actions);
    let text = flow.prop_map(|(table, priority, matching, mut actions)| {
        if actions.len() > 1 {
            actions.retain(|action| *action != "drop");
        }
        let actions = if actions.is_empty() { "drop".into() } else { actions.join(",") };
        let comma = if matching.is_empty() { "" } else { "," };
        format!("table={table},priority={priority}{comma}{matching},actions={actions}")
    });
    prop::collection::vec(text, 1..12)
}

/// Random bytes for a packet.
type Seed = [u8; 16];

/// A packet from the wire. Few distinct values, so that flows often match.
fn packet(eth_type: u16, seed: Seed) -> FlowKey {
    let mut key = FlowKey::new();
    let pick = |i: usize, values: &[u128]| values[usize::from(seed[i]) % values.len()];
    key.set_eth_type(eth_type);
    key.set(Field::InPort, pick(0, &[1, 2, 3, 4, 5, 9]));
    key.set(Field::EthSrc, pick(1, &[0x0200_0000_0001, 0x0200_0000_0002]));
    key.set(Field::EthDst, pick(2, &[0x0200_0000_0002, 0xffff_ffff_ffff, 0x0180_c200_0001]));
    let tci = pick(3, &[0, 0, 0x100a, 0x700a, 0x1014, 0x1000, 0x7000]) as u16;
    key.set_vlan_tci(tci);
    key.set_vlan_tpid(if tci & VLAN_PRESENT != 0 { 0x8100 } else { 0 });
    if tci & VLAN_PRESENT != 0 {
        let tci = pick(7, &[0, 0, 0x100a, 0x1014, 0x1000, 0x7000]) as u16;
        key.set_vlan_tci1(tci);
        key.set_vlan_tpid1(if tci == 0 { 0 } else { pick(15, &[0x8100, 0x88a8]) as u16 });
    }
    if eth_type == 0x0806 {
        key.set(Field::ArpOp, pick(4, &[1, 2]));
        key.set(Field::ArpSpa, pick(5, &[0x0a00_0001, 0x0a00_0002]));
        key.set(Field::ArpTpa, pick(6, &[0x0a00_0001, 0x0a00_0002]));
    }
    if eth_type == 0x0800 {
        key.set(Field::Ipv4Src, pick(5, &[0x0a00_0001, 0x0a00_0002, 0x0a01_0001, 0x0b00_0001]));
        key.set(Field::Ipv4Dst, pick(6, &[0x0a00_0001, 0x0a00_0002, 0x0a01_0001, 0x0b00_0001]));
        key.set(Field::NwProto, pick(8, &[1, 6, 6, 17, 47]));
        key.set(Field::NwTtl, pick(9, &[64, 1, 0]));
        key.set(Field::NwTos, pick(10, &[0, 8]));
        key.set(Field::NwFrag, pick(11, &[0, 0, 0, 1, 3]));
        key.set(Field::TpSrc, pick(12, &[1000, 80]));
        key.set(Field::TpDst, pick(13, &[80, 53, 40080]));
        tidy_transport(&mut key);
    }
    key
}

/// Restricts the ports to values that the protocol can have.
fn tidy_transport(key: &mut FlowKey) {
    match key.nw_proto() {
        _ if key.nw_frag() & FRAG_LATER != 0 => {
            key.set_tp_src(0);
            key.set_tp_dst(0);
        }
        1 => {
            key.set_tp_src(key.tp_src() & 0xff);
            key.set_tp_dst(key.tp_dst() & 0xff);
        }
        6 | 17 => {}
        _ => {
            key.set_tp_src(0);
            key.set_tp_dst(0);
        }
    }
}

/// Clears what an absent tag cannot have: a packet has no priority without a tag, and no inner tag
/// without an outer one.
fn tidy_tags(key: &mut FlowKey) {
    if key.vlan_tci() & VLAN_PRESENT == 0 {
        key.set_vlan_tci(0);
        key.set_vlan_tpid(0);
    }
    if key.vlan_tci() == 0 || key.vlan_tci1() & VLAN_PRESENT == 0 {
        key.set_vlan_tci1(0);
        key.set_vlan_tpid1(0);
    }
}

/// Gives a packet connection state.
fn track(key: &mut FlowKey, seed: u8) {
    let states = [0x21, 0x22, 0x2a, 0x30, 0x20];
    key.set(Field::CtState, states[usize::from(seed) % states.len()]);
    key.set_ct_mark(u32::from(seed >> 4));
}

/// A packet that agrees with `key` in `mask`, and with `other` elsewhere.
fn mix(key: &FlowKey, mask: &Mask, other: &FlowKey) -> FlowKey {
    let mut mixed = other.clone();
    for ((word, key), mask) in mixed.words_mut().iter_mut().zip(key.words()).zip(mask.words()) {
        *word = (*word & !mask) | (key & mask);
    }
    if mixed.is_ip() {
        tidy_transport(&mut mixed);
    }
    tidy_tags(&mut mixed);
    mixed
}

/// Applies the datapath actions up to the last output to a key.
fn carry_out(key: &FlowKey, actions: &[Action]) -> FlowKey {
    let mut key = key.clone();
    for action in actions {
        match action {
            Action::Set(SetField { field, value, mask }) => {
                key.set(*field, (key.get(*field) & !mask) | (value & mask));
            }
            Action::PushVlan { tpid, tci } => {
                key.set_vlan_tci1(key.vlan_tci());
                key.set_vlan_tpid1(key.vlan_tpid());
                key.set_vlan_tci(*tci);
                key.set_vlan_tpid(*tpid);
            }
            Action::PopVlan => {
                key.set_vlan_tci(key.vlan_tci1());
                key.set_vlan_tpid(key.vlan_tpid1());
                key.set_vlan_tci1(0);
                key.set_vlan_tpid1(0);
            }
            Action::Output(_) => {}
            other => panic!("{other:?} in a flow that only rewrites"),
        }
    }
    key
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Packets that agree in the mask are treated the same: megaflows rely on it.
    #[test]
    fn packets_that_agree_in_the_mask_are_treated_the_same(
        flows in flows(), eth_type in prop::sample::select(&[0x0800u16, 0x0806, 0x88cc]),
        first: Seed, others in prop::collection::vec(any::<Seed>(), 8),
    ) {
        let (ofproto, _) = switch(&flows);
        let mut key = packet(eth_type, first);
        // The same for the passes after connection tracking.
        for _ in 0..3 {
            let expect = ofproto.translate(NOW, &key, Notes::Off);
            let mask = datapath_mask(&expect.mask);
            for other in &others {
                let mut other = packet(eth_type, *other);
                if key.recirc_id().0 != 0 {
                    let seed = first[14] ^ other.nw_ttl();
                    track(&mut other, seed);
                }
                let other = mix(&key, &mask, &other);
                let got = ofproto.translate(NOW, &other, Notes::Off);
                prop_assert_eq!(&got.actions, &expect.actions, "{:?} and {:?}", key, other);
                prop_assert_eq!(&got.links.rules, &expect.links.rules);
            }
            let Some(&id) = expect.links.recircs.first() else { break };
            key.set_recirc_id(id);
            track(&mut key, first[15]);
        }
    }

    /// Notes change nothing.
    #[test]
    fn telling_what_is_done_does_not_change_it(flows in flows(), seed: Seed) {
        let (ofproto, _) = switch(&flows);
        let key = packet(0x0800, seed);
        let quiet = ofproto.translate(NOW, &key, Notes::Off);
        let told = ofproto.translate(NOW, &key, Notes::On { names: true, learns: true });
        prop_assert_eq!(quiet.actions, told.actions);
        prop_assert_eq!(quiet.mask, told.mask);
    }

    /// The datapath actions give the packet the key that the OpenFlow actions made.
    #[test]
    fn steps_do_what_actions_say(
        actions in prop::collection::vec(prop::sample::select(&ACTIONS[12..26]), 1..6),
        eth_type in prop::sample::select(&[0x0800u16, 0x0806]), seed: Seed,
    ) {
        let flow = format!("table=0,priority=9,actions={},output:1,output:3", actions.join(","));
        let (ofproto, _) = switch(&[flow]);
        let mut key = packet(eth_type, seed);
        key.set(Field::InPort, 2);
        let translation = ofproto.translate(NOW, &key, TOLD);
        // An expired TTL ends the list before the output.
        if translation.actions.iter().any(|action| matches!(action, Action::Output(_))) {
            let got = carry_out(&key, &translation.actions);
            for &field in Field::BASIC {
                let inside = field.is_pipeline() || field == Field::ActsetOutput;
                if !inside && field != Field::InPort {
                    let expect = translation.final_key.as_ref().unwrap().get(field);
                    prop_assert_eq!(got.get(field), expect, "{} {:?}", field.name(), actions);
                }
            }
        }
    }
}

#[test]
fn endless_resubmits_drop_the_packet() {
    let deep = "table=0,actions=resubmit(,0)".to_owned();
    let (ofproto, _) = switch(std::slice::from_ref(&deep));
    let translation = ofproto.translate(NOW, &packet(0x0800, [0; 16]), Notes::Off);
    assert_eq!(translation.actions, [Action::Drop(flow::DropReason::ResubmitDepth)]);
    let many = ["resubmit(,1)"; 70].join(",");
    let flows = [
        format!("table=0,actions={many}"),
        format!("table=1,actions={}", many.replace(",1)", ",2)")),
        "table=2,actions=drop".to_owned(),
    ];
    let (ofproto, _) = switch(&flows);
    let translation = ofproto.translate(NOW, &packet(0x0800, [0; 16]), Notes::Off);
    assert_eq!(translation.error, Some(flow::DropReason::Resubmits));
}

#[test]
fn unknown_ports_and_numbers_drop_the_packet() {
    let (ofproto, _) = switch(&[]);
    let mut key = packet(0x0800, [0; 16]);
    key.set_in_port_raw(77);
    let translation = ofproto.translate(NOW, &key, Notes::Off);
    assert_eq!(translation.error, Some(flow::DropReason::NoPort));
    key.set_in_port_raw(1);
    key.set_recirc_id(base::RecircId(5));
    let translation = ofproto.translate(NOW, &key, Notes::Off);
    assert_eq!(translation.error, Some(flow::DropReason::RecircUnknown));
}

/// Found by the simulation, as seed 1019: a packet is tracked while its port is removed.
#[test]
fn a_removed_port_forwards_nothing_in_a_later_pass() {
    let flows = [
        "table=0,priority=2,in_port=1,actions=output:5",
        "table=0,priority=1,actions=ct(table=1)",
        "table=2,actions=drop",
        "table=1,actions=output:2",
    ];
    let (mut ofproto, id) = switch(&flows.map(str::to_owned));
    let config = tunnel::TunnelConfig::parse(
        flow::TunnelKind::Vxlan,
        "t0",
        &[("remote_ip".to_owned(), "10.9.0.2".to_owned())].into(),
    );
    let (device, config) = (PortNo(20), Arc::new(config.config.unwrap()));
    let tunnel = PortSpec::new("t0", MacAddr::ZERO, PortDevice::Tunnel { device, config });
    let tunnel = ofproto.add_port(id, tunnel, NOW).unwrap();
    // The translation of the second pass.
    let later = |ofproto: &Ofproto, came: u32, goes_on: u32| {
        let mut key = packet(0x0800, [0; 16]);
        key.set_in_port_raw(came);
        let first = ofproto.translate(NOW, &key, Notes::Off);
        let Some(Action::Recirc(recirc)) = first.actions.last() else {
            panic!("{:?}", first.actions)
        };
        key.set_in_port_raw(goes_on);
        key.set_recirc_id(*recirc);
        ofproto.translate(NOW, &key, Notes::Off)
    };
    // A port of the same bridge, and one whose packets come through a patch.
    for came in [3, 1] {
        let there = later(&ofproto, came, came);
        assert_eq!(there.error, None);
        assert!(there.may_install() && !there.actions.is_empty());
        // The numbers of no device and of a tunnel's, as in packets of a controller.
        for device in [u32::MAX, device.0] {
            assert_eq!(later(&ofproto, came, device).actions, there.actions, "{device}");
        }
        // A device without a port.
        let gone = later(&ofproto, came, 30);
        assert_eq!(gone.error, Some(flow::DropReason::NoPort));
        assert!(!gone.may_install());
    }
    ofproto.remove_port(id, tunnel, NOW);
    assert_eq!(later(&ofproto, 3, device.0).error, Some(flow::DropReason::NoPort));
}

/// A port has a 16-bit and a 32-bit number; they differ for reserved ports.
#[test]
fn a_wide_port_number_is_openflow_13s() {
    let cases: &[(u32, &str, u128, u128)] = &[
        // Port of the datapath, actions, then register 0 and in_port.
        (1, "move:OXM_OF_IN_PORT[]->NXM_NX_REG0[]", 1, 1),
        (9, "move:OXM_OF_IN_PORT[]->NXM_NX_REG0[]", 0xffff_fffe, 0xfffe),
        (9, "push:OXM_OF_IN_PORT[16..31],pop:NXM_NX_REG0[0..15]", 0xffff, 0xfffe),
        (9, "push:NXM_OF_IN_PORT[],pop:NXM_NX_REG0[0..15]", 0xfffe, 0xfffe),
        (1, "load:0xfffffffe->OXM_OF_IN_PORT[]", 0, 0xfffe),
        (1, "load:0x10002->OXM_OF_IN_PORT[]", 0, 0xffff),
        (1, "load:2->OXM_OF_IN_PORT[]", 0, 2),
        (9, "load:2->OXM_OF_IN_PORT[0..15]", 0, 0xffff),
        (9, "load:2->NXM_OF_IN_PORT[]", 0, 2),
        (1, "move:OXM_OF_ACTSET_OUTPUT[]->NXM_NX_REG0[]", 0xffff_fff7, 1),
    ];
    for &(port, actions, reg0, in_port) in cases {
        let (ofproto, _) = switch(&[format!("table=0,actions={actions},output:3")]);
        let mut key = packet(0x0800, [0; 16]);
        key.set_in_port_raw(port);
        let end = ofproto.translate(NOW, &key, TOLD).final_key.unwrap();
        assert_eq!((end.get(Field::Reg0), end.get(Field::InPort)), (reg0, in_port), "{actions}");
    }
}

/// OpenFlow 1.1 and 1.2 configure the handling of misses.
#[test]
fn a_miss_goes_on_in_the_next_table_or_to_the_controller_or_nowhere() {
    use openflow::message::TableMiss as M;
    let outcome = |misses: &[(u8, M)], flows: &[&str]| {
        let flows: Vec<String> = flows.iter().map(|flow| (*flow).to_owned()).collect();
        let (mut ofproto, id) = switch(&flows);
        // The initial flow of a learning switch.
        ofproto.flush_flows(id);
        flows.iter().for_each(|flow| add(&mut ofproto, id, flow));
        for (table, miss) in misses {
            let table_mod = openflow::message::TableMod {
                table: Some(base::TableId(*table)),
                miss: Some(*miss),
                evicts: None,
                eviction_flags: None,
                vacancy: None,
            };
            ofproto.table_mod(id, &table_mod).unwrap();
        }
        let mut key = packet(0x0800, [0; 16]);
        key.set_in_port_raw(1);
        let translation = ofproto.translate(NOW, &key, TOLD);
        let controller = |action: &Action| matches!(action, Action::Controller(_));
        let to_controller = translation.actions.iter().any(controller);
        (translation.final_key.unwrap().get(Field::Reg0), to_controller)
    };
    let third = "table=2,actions=load:7->NXM_NX_REG0[]";
    let go_on = [(0, M::Continue), (1, M::Continue)];
    assert_eq!(outcome(&[], &[third]), (0, false));
    assert_eq!(outcome(&go_on, &[third]), (7, false));
    assert_eq!(outcome(&go_on[..1], &[third]), (0, false));
    assert_eq!(outcome(&[(0, M::Controller)], &[third]), (0, true));
    assert_eq!(outcome(&[(0, M::Drop)], &[third]), (0, false));
    assert_eq!(outcome(&go_on, &["table=0,actions=goto_table:1", third]), (7, false));
    // `resubmit` looks only in its table.
    assert_eq!(outcome(&go_on, &["table=0,actions=resubmit(,1)", third]), (0, false));
}

/// As in Open vSwitch, regardless of the bridge's other ports.
#[test]
fn floods_reach_the_local_port_first() {
    let mut seed = [0; 16];
    seed[2] = 1;
    let broadcast = packet(0x0806, seed);
    for action in ["FLOOD", "ALL", "NORMAL"] {
        let (ofproto, _) = switch(&[format!("actions={action}")]);
        let translation = ofproto.translate(NOW, &broadcast, Notes::Off);
        let first = translation.actions.iter().find(|it| matches!(it, Action::Output(_)));
        assert_eq!(first, Some(&Action::Output(PortNo(9))), "{action}: {:?}", translation.actions);
    }
}
