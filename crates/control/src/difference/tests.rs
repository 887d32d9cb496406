use super::*;
use crate::{Bridge, Controller};
use base::OfPort;
use ofproto::{FailMode, VlanMode};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Applies a change like a switch, which refuses invalid ones.
fn apply(to: &mut Desired, change: Change) {
    match change {
        Change::SetOptions(options) => to.options = options,
        Change::SetTls(tls) => to.tls = tls,
        Change::SetDefaultZoneLimit(limit) => to.default_zone_limit = limit,
        Change::SetZone { zone, policy } => {
            to.zones.insert(zone, policy);
        }
        Change::RemoveZone(zone) => assert!(to.zones.remove(&zone).is_some(), "{zone}"),
        Change::RemovePort { bridge, port } => {
            let ports = &mut to.bridges.get_mut(&bridge).expect("a bridge").ports;
            assert!(ports.remove(&port).is_some(), "{port}");
        }
        Change::RemoveBridge(name) => {
            let bridge = to.bridges.remove(&name).expect("a bridge");
            assert!(bridge.ports.is_empty(), "{name} has ports");
        }
        Change::AddBridge { bridge, settings } => {
            let empty = Bridge { settings, ports: BTreeMap::new() };
            assert_eq!(to.bridges.insert(bridge, empty), None);
        }
        Change::ConfigureBridge { bridge, settings } => {
            to.bridges.get_mut(&bridge).expect("a bridge").settings = settings;
        }
        Change::AddPort { bridge, port } => {
            let taken = ports_of(to).any(|(_, other)| other.name == port.name);
            assert!(!taken, "the device of {} is taken", port.name);
            let ports = &mut to.bridges.get_mut(&bridge).expect("a bridge").ports;
            assert_eq!(ports.is_empty(), port.name == bridge, "LOCAL comes first");
            if let Some(number) = port.interfaces[0].ofport_request {
                let asks = |p: &Port| p.interfaces[0].ofport_request == Some(number);
                assert!(!ports.values().any(asks), "number {number} is taken");
            }
            ports.insert(port.name.clone(), port);
        }
        Change::ConfigurePort { bridge, port } => {
            let ports = &mut to.bridges.get_mut(&bridge).expect("a bridge").ports;
            let before = ports.insert(port.name.clone(), port.clone()).expect("a port");
            assert_eq!(before.interfaces[0].kind, port.interfaces[0].kind);
        }
    }
}

type PortDraw = (Option<u8>, u8, Option<u16>, Option<u16>);

/// Four ports on up to three bridges, with unique names and numbers.
fn desired(bridges: Vec<Option<bool>>, ports: Vec<PortDraw>, rest: (bool, Vec<u32>)) -> Desired {
    let mut desired = Desired::default();
    for (index, secure) in bridges.iter().enumerate() {
        let Some(secure) = secure else { continue };
        let name = format!("br{index}");
        let local = Port::new(Interface::new(&name, InterfaceKind::Internal));
        let mut bridge = Bridge::default();
        bridge.settings.fail_mode = if *secure { FailMode::Secure } else { FailMode::Standalone };
        bridge.ports.insert(name.clone(), local);
        desired.bridges.insert(name, bridge);
    }
    for (index, (bridge, kind, number, tag)) in ports.into_iter().enumerate() {
        let Some(bridge) = bridge.and_then(|b| desired.bridges.get_mut(&format!("br{b}"))) else {
            continue;
        };
        let kind = match kind {
            0 => InterfaceKind::System,
            1 => InterfaceKind::Tap,
            peer => InterfaceKind::Patch { peer: format!("p{peer}") },
        };
        let mut interface = Interface::new(&format!("p{index}"), kind);
        let is_free = |number: &u16| {
            let asks = |p: &Port| p.interfaces[0].ofport_request == Some(OfPort(*number));
            !bridge.ports.values().any(asks)
        };
        interface.ofport_request = number.filter(is_free).map(OfPort);
        let mut port = Port::new(interface);
        if let Some(tag) = tag {
            port.vlan = VlanMode::Access(tag);
        }
        bridge.ports.insert(port.name.clone(), port);
    }
    let (flag, limits) = rest;
    desired.options.flow_restore_wait = flag;
    desired.default_zone_limit = limits.first().copied();
    for (zone, limit) in (0u16..).zip(limits) {
        if limit > 0 {
            let policy = ZonePolicy { limit: Some(limit), ..ZonePolicy::default() };
            desired.zones.insert(Zone(zone), policy);
        }
    }
    desired
}

fn any_desired() -> impl Strategy<Value = Desired> {
    let bridges = prop::collection::vec(prop::option::weighted(0.8, any::<bool>()), 3);
    let port = (
        prop::option::weighted(0.8, 0u8..3),
        0u8..4,
        prop::option::of(1u16..4),
        prop::option::of(0u16..2),
    );
    let ports = prop::collection::vec(port, 4);
    let rest = (any::<bool>(), prop::collection::vec(0u32..3, 0..4));
    (bridges, ports, rest).prop_map(|(bridges, ports, rest)| desired(bridges, ports, rest))
}

proptest! {
    #[test]
    fn changes_lead_from_old_to_new(old in any_desired(), new in any_desired()) {
        let mut model = old.clone();
        for change in difference(&old, &new) {
            apply(&mut model, change);
        }
        prop_assert_eq!(&model, &new);
        prop_assert_eq!(difference(&model, &new), vec![]);
    }

    #[test]
    fn equals_need_no_change(one in any_desired()) {
        prop_assert_eq!(difference(&one, &one.clone()), vec![]);
    }
}

#[test]
fn a_first_configuration_comes_in_order() {
    let mut new = desired(
        vec![Some(true), Some(false)],
        vec![
            (Some(0), 1, None, None),
            (Some(0), 3, None, None),
            (Some(1), 0, Some(7), None),
            (Some(1), 1, None, None),
        ],
        (false, vec![]),
    );
    new.bridges.get_mut("br0").expect("br0").settings.controllers.push(Controller::new("tcp:h"));
    let steps: Vec<String> = difference(&Desired::default(), &new)
        .into_iter()
        .map(|change| match change {
            Change::AddBridge { bridge, .. } => bridge,
            Change::AddPort { bridge, port } => format!("{bridge}/{}", port.name),
            other => panic!("{other:?}"),
        })
        .collect();
    let expect = ["br0", "br1", "br0/br0", "br1/br1", "br1/p2", "br0/p0", "br1/p3", "br0/p1"];
    assert_eq!(steps, expect);
}

#[test]
fn what_a_port_keeps_open() {
    let old =
        |number| desired(vec![Some(false)], vec![(Some(0), 0, number, None)], (false, vec![]));
    let kinds = |old: &Desired, new: &Desired| -> Vec<&'static str> {
        let kind = |change: &Change| match change {
            Change::RemovePort { .. } => "remove",
            Change::AddPort { .. } => "add",
            Change::ConfigurePort { .. } => "configure",
            other => panic!("{other:?}"),
        };
        difference(old, new).iter().map(kind).collect()
    };
    let with = |edit: &dyn Fn(&mut Port)| {
        let mut new = old(Some(1));
        edit(new.bridges.get_mut("br0").unwrap().ports.get_mut("p0").unwrap());
        kinds(&old(Some(1)), &new)
    };
    assert_eq!(kinds(&old(Some(1)), &old(Some(2))), ["remove", "add"]);
    assert_eq!(kinds(&old(None), &old(Some(2))), ["remove", "add"]);
    assert_eq!(kinds(&old(Some(1)), &old(None)), ["configure"], "the number stays");
    assert_eq!(with(&|port| port.vlan = VlanMode::Access(1)), ["configure"]);
    assert_eq!(with(&|port| port.interfaces[0].mtu_request = Some(1400)), ["configure"]);
    assert_eq!(with(&|port| port.interfaces[0].kind = InterfaceKind::Tap), ["remove", "add"]);
    let hint = |port: &mut Port| port.interfaces[0].ofport_hint = crate::Hint(Some(OfPort(3)));
    assert_eq!(with(&hint), ["remove", "add"], "it asks for another number than it has");
    let other = |port: &mut Port| {
        hint(port);
        port.interfaces[0].ofport_request = None;
    };
    assert_eq!(with(&other), ["configure"], "where a port was makes no difference");
}

#[test]
fn ports_give_up_numbers_that_others_ask_for() {
    // For each port: the number that it requested before, the one that it has (0 for a new port), and the one
    // that it requests now.
    type Numbers = (Option<u16>, u16, Option<u16>);
    const NEW: u16 = 0;
    let moved = |ports: &[Numbers]| {
        let configuration = |is_old: bool, request: fn(&Numbers) -> Option<u16>| {
            let mut desired = Desired::default();
            let bridge = desired.bridges.entry("br0".to_owned()).or_default();
            for (name, port) in ["p1", "p2", "p3"].iter().zip(ports) {
                if is_old && port.1 == NEW {
                    continue;
                }
                let mut interface = Interface::new(name, InterfaceKind::System);
                interface.ofport_request = request(port).map(OfPort);
                interface.ofport_hint = crate::Hint(Some(OfPort(port.1)).filter(|_| port.1 != NEW));
                bridge.ports.insert((*name).to_owned(), Port::new(interface));
            }
            desired
        };
        let (old, new) = (configuration(true, |port| port.0), configuration(false, |port| port.2));
        let added =
            difference(&old, &new).iter().filter_map(Change::added_port).collect::<Vec<_>>();
        added.join(" ")
    };
    let cases = [
        (vec![(None, 1, None), (None, 2, None)], ""),
        (vec![(Some(1), 1, Some(2)), (Some(2), 2, Some(1))], "p1 p2"),
        // The second port loses a number that it does not request.
        (vec![(None, 1, Some(2)), (None, 2, None)], "p1 p2"),
        (vec![(None, 1, Some(2)), (None, 2, None), (None, 3, None)], "p1 p2"),
        // A new port takes no number from another (Open vSwitch's test 1220).
        (vec![(None, 1, None), (None, NEW, Some(1))], "p2"),
        (vec![(None, 1, None), (Some(1), 2, Some(1))], ""),
        // Two requests for one number: the holder keeps it.
        (vec![(Some(1), 1, Some(1)), (None, 2, Some(1))], "p2"),
        (vec![(Some(1), 1, Some(1)), (Some(1), 2, Some(1))], ""),
        // The number is free now.
        (vec![(Some(1), 1, Some(3)), (Some(1), 2, Some(1))], "p1 p2"),
        (vec![(Some(1), 1, None), (Some(1), 2, Some(1))], "p2 p1"),
    ];
    for (ports, expect) in cases {
        assert_eq!(moved(&ports), expect, "{ports:?}");
    }
}
