//! After a change, the installed megaflows equal a translation from scratch, although only dependent ones are
//! revalidated.

use super::*;
use crate::{
    BridgeConfig, BridgeId, Config, ControllerState, Fragments, Handler, PortDevice, PortSpec,
    VlanMode,
};
use base::{MacAddr, OfPort, PortNo, RecircId, WorkerId, Zone};
use flow::{Action, CtState, FlowKey, Frame, Match, Upcall, UpcallKind};
use openflow::message::{FlowModCommand, PortConfig};
use packet::Packet;
use proptest::prelude::*;
use std::time::Duration;

mod slices;

const MAC_AGING_S: u64 = 15;

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

/// Two learning switches with a patch between them, over three devices, and one device of no bridge.
struct Switch {
    ofproto: Ofproto,
    bridges: [BridgeId; 2],
    now: Instant,
    /// Whether every change counts as a configuration change.
    all: bool,
    /// Recirculation ids that packets may have.
    recircs: Vec<RecircId>,
    /// A handler that delays the installation of its translations.
    late: Handler,
    out: Outbox,
}

/// An event. Numbers of bridges, ports and the like are taken modulo their count.
#[derive(Clone, Debug)]
enum Event {
    Flow {
        bridge: usize,
        command: FlowModCommand,
        text: String,
    },
    Miss {
        device: u32,
        packet: &'static str,
        recirculated: bool,
    },
    Learn {
        bridge: usize,
        mac: u8,
        port: u16,
    },
    Flush {
        bridge: usize,
    },
    Vlan {
        port: u16,
        tag: u16,
    },
    PortMod {
        port: u16,
        down: bool,
    },
    Replug {
        port: u16,
    },
    Limit {
        macs: usize,
    },
    Peer {
        named: bool,
    },
    Fragments {
        drop: bool,
    },
    FailOpen(bool),
    Wait {
        s: u64,
    },
    /// A handler translates a packet. It installs the answer upon a later event, or after so many
    /// translations.
    Translate {
        device: u32,
        packet: &'static str,
        recirculated: bool,
    },
    Install,
}

const PACKETS: &[&str] = &[
    "10.0.0.1:1000>10.0.0.2:80 S",
    "10.0.0.2:80>10.0.0.1:1000 SA",
    "10.0.0.1>10.0.0.9 icmp-echo",
    "10.0.0.9:53>10.0.0.1:1000 S",
];

const MATCHES: &[&str] =
    &["", "tcp,", "tcp,tp_dst=80,", "ip,nw_src=10.0.0.1,", "ip,ct_state=+trk,"];

const ACTIONS: &[&str] = &[
    "drop",
    "NORMAL",
    "resubmit(,1)",
    "resubmit(,2),NORMAL",
    "goto_table:3",
    "output:1",
    "output:4,output:2",
    "ct(table=2)",
    "ct(commit),NORMAL",
    "CONTROLLER:50,resubmit(,3)",
    "mod_dl_dst:02:00:00:00:00:05,NORMAL",
    "FLOOD",
    "load:3->NXM_OF_IN_PORT[],resubmit(,3),output:1",
    "bundle(eth_src,0,active_backup,ofport,members:3,2)",
];

impl Switch {
    fn new(all: bool) -> Self {
        let now = Instant::from_millis(100_000);
        let mut ofproto = Ofproto::new(Config { flow_limit: 12, ..Config::default() });
        let bridges = ["br0", "br1"].map(|name| {
            let config = BridgeConfig::new(name, MacAddr::ZERO);
            ofproto.add_bridge(BridgeConfig { mac_aging_s: MAC_AGING_S, ..config }, now)
        });
        for spec in [port(1), port(2), port(3), port(4)] {
            ofproto.add_port(bridges[0], spec, now).unwrap();
        }
        for (name, device) in [("peer", patch("port4")), ("other", PortDevice::Datapath(PortNo(7)))]
        {
            ofproto.add_port(bridges[1], PortSpec::new(name, mac(0), device), now).unwrap();
        }
        let (late, out) = (ofproto.handler(), Outbox::default());
        Switch { ofproto, bridges, now, all, recircs: Vec::new(), late, out }
    }

    fn happen(&mut self, event: &Event) {
        let (id, now) = (self.bridges[0], self.now);
        match event {
            Event::Flow { bridge, command, text } => {
                let flow_mod = openflow::text::parse_flow(text, *command, &|_| None).unwrap();
                // Refused if goto_table does not go forward.
                let _ = self.ofproto.flow_mod(self.bridges[*bridge], &flow_mod, now);
            }
            Event::Miss { device, packet, recirculated } => {
                self.miss(*device, packet, *recirculated)
            }
            Event::Learn { bridge, mac: last, port } => {
                self.ofproto.learn_mac(self.bridges[*bridge], 0, mac(*last), OfPort(*port), now);
            }
            Event::Flush { bridge } => self.ofproto.flush_macs(self.bridges[*bridge]),
            Event::Vlan { port: number, tag } => {
                let vlan = match tag {
                    0 => VlanMode::default(),
                    tag => VlanMode::Access(*tag),
                };
                let _ =
                    self.ofproto.set_port(id, OfPort(*number), PortSpec { vlan, ..port(*number) });
            }
            Event::PortMod { port, down } => {
                let config = if *down { PortConfig::NO_FWD } else { PortConfig::empty() };
                let _ = self.ofproto.port_mod(
                    id,
                    OfPort(*port),
                    mac(*port as u8),
                    config,
                    PortConfig::NO_FWD,
                    &mut self.out,
                );
            }
            Event::Replug { port: number } => {
                self.ofproto.remove_port(id, OfPort(*number), now);
                self.revalidate();
                let spec = PortSpec { requested: Some(OfPort(*number)), ..port(*number) };
                self.ofproto.add_port(id, spec, now).unwrap();
            }
            Event::Limit { macs } => {
                let config = BridgeConfig::clone(&self.ofproto.bridge(id).unwrap().config);
                self.ofproto.set_bridge(id, BridgeConfig { mac_table_size: *macs, ..config }, now);
            }
            Event::Peer { named } => {
                let (end, other) = (self.bridges[1], OfPort(1));
                let device = patch(if *named { "port4" } else { "port3" });
                let spec = PortSpec::new("peer", mac(0), device);
                let _ = self.ofproto.set_port(end, other, spec);
            }
            Event::Fragments { drop } => {
                let fragments = if *drop { Fragments::Drop } else { Fragments::Normal };
                self.ofproto.set_fragments(id, fragments);
            }
            Event::FailOpen(fail_open) => {
                let state = ControllerState { fail_open: *fail_open, ..Default::default() };
                self.ofproto.set_controllers(id, state, now);
            }
            Event::Translate { device, packet, recirculated } => {
                let upcall = self.upcall(*device, packet, *recirculated);
                // Without that port the owner answers.
                if let Some(upcall) = self.late.translate(now, upcall, None) {
                    self.ofproto.upcall(now, upcall, &mut self.out);
                }
            }
            Event::Install => {
                self.late.install(now, |commands| self.out.commands.append(commands));
                self.ofproto.apply_credits(now);
            }
            Event::Wait { s } => {
                self.now = now + Duration::from_secs(*s);
                self.ofproto.tick(self.now, &mut self.out);
                self.answer();
            }
        }
        self.revalidate();
    }

    /// Answers requests for statistics without packets.
    fn answer(&mut self) {
        let is_collect =
            |(_, command): &(WorkerId, FlowCommand)| matches!(command, FlowCommand::Collect);
        if self.out.commands.iter().any(is_collect) {
            let (worker, at) = (WorkerId(0), self.now);
            let (flows, gone) = (Vec::new(), Vec::new());
            let dump =
                flow::FlowDump { worker, at, is_last: true, marked: Vec::new(), flows, gone };
            self.ofproto.dump(self.now, dump);
        }
    }

    fn upcall(&self, device: u32, packet: &str, recirculated: bool) -> Upcall {
        let bytes = wire::text::parse(packet).unwrap();
        let frame = Frame::parse(Packet::from_bytes(&bytes), PortNo(device)).unwrap();
        let (packet, mut key) = (frame.packet, Box::new(frame.key));
        if recirculated && let Some(id) = self.recircs.last() {
            key.set_recirc_id(*id);
            key.set_ct_state(CtState::TRK | CtState::NEW);
        }
        let (worker, kind) = (WorkerId(0), UpcallKind::Miss);
        let (received, queued) = (self.now, self.now);
        Upcall { worker, kind, packet, key, received, queued, trace: None }
    }

    fn miss(&mut self, device: u32, packet: &str, recirculated: bool) {
        let upcall = self.upcall(device, packet, recirculated);
        self.ofproto.upcall(self.now, upcall, &mut self.out);
        if let Some((_, FlowCommand::Execute(execute))) = self.out.commands.last() {
            self.recircs.extend(execute.actions.iter().filter_map(|action| match action {
                Action::Recirc(id) => Some(*id),
                _ => None,
            }));
        }
    }

    fn revalidate(&mut self) {
        if self.all {
            self.ofproto.changes.configuration();
        }
        while self.ofproto.go_on(self.now, &mut self.out) {}
    }

    /// Compares every megaflow with its translation now: for the packet that it was made for, and for all
    /// others that would hit it.
    fn check(&self) -> Result<(), String> {
        let mut packets: Vec<FlowKey> = Vec::new();
        for (device, packet) in
            [1, 2, 3, 7].iter().flat_map(|it| PACKETS.iter().map(move |p| (it, p)))
        {
            let bytes = wire::text::parse(packet).unwrap();
            let key = Frame::parse(Packet::from_bytes(&bytes), PortNo(*device)).unwrap().key;
            for id in self.recircs.iter().rev().take(4) {
                let mut again = key.clone();
                again.set_recirc_id(*id);
                again.set_ct_state(CtState::TRK | CtState::NEW);
                packets.push(again);
            }
            packets.push(key);
        }
        for flow in self.ofproto.megaflows() {
            let hits = packets.iter().filter(|key| flow.matching.matches(key));
            for key in hits.chain([&flow.key]) {
                let translation = self.ofproto.translate(self.now, key, Notes::Off);
                if !translation.may_install() || translation.actions != *flow.actions {
                    return Err(format!("{flow:?}\nshould do {:?}", translation.actions));
                }
                if translation.links.rules != flow.links.rules
                    || translation.links.effects != flow.links.effects
                {
                    return Err(format!(
                        "{flow:?}\nshould count for {:?}",
                        translation.links.rules
                    ));
                }
            }
        }
        Ok(())
    }

    /// The commands sent to workers, and the state of their flows.
    fn state(&mut self) -> (Vec<String>, Vec<String>) {
        let told = |(_, command): (WorkerId, FlowCommand)| match command {
            FlowCommand::Put(put) => format!("{:?} {:?} {:?}", put.id, put.matching, put.actions),
            FlowCommand::Delete(id) => format!("delete {id:?}"),
            FlowCommand::Execute(execute) => {
                format!("execute {:?} {:?}", execute.actions, execute.flow)
            }
            FlowCommand::Mark(id) => format!("mark {id:?}"),
            FlowCommand::Collect => "collect".into(),
        };
        let told = self.out.commands.drain(..).map(told).collect();
        let flow = |flow: crate::DatapathFlow| {
            format!("{:?} {:?} {:?} {:?}", flow.id, flow.matching, flow.actions, flow.links)
        };
        (told, self.ofproto.megaflows().into_iter().map(flow).collect())
    }

    /// How many megaflows an event revalidates.
    fn cost(&mut self, event: &Event) -> u64 {
        let before = self.ofproto.megaflow_counters().revalidated;
        self.happen(event);
        self.ofproto.megaflow_counters().revalidated - before
    }
}

fn patch(peer: &str) -> PortDevice {
    PortDevice::Patch { peer: peer.into() }
}

fn port(number: u16) -> PortSpec {
    let device =
        if number == 4 { patch("peer") } else { PortDevice::Datapath(PortNo(number.into())) };
    PortSpec::new(format!("port{number}"), mac(number as u8), device)
}

fn event() -> impl Strategy<Value = Event> {
    let command = prop::sample::select(&[
        FlowModCommand::Add,
        FlowModCommand::Add,
        FlowModCommand::Modify,
        FlowModCommand::Delete,
        FlowModCommand::DeleteStrict,
    ]);
    let of_flow = (prop::sample::select(MATCHES), prop::sample::select(ACTIONS));
    let flow = (0..2usize, command, 0..4u8, 0..3u16, 0..5u64, of_flow);
    let flow = flow.prop_map(|(bridge, command, table, priority, timeout, (matching, actions))| {
        let text = match command {
            FlowModCommand::Delete => format!("table={table},{matching}"),
            FlowModCommand::DeleteStrict => format!("table={table},{matching}priority={priority}"),
            FlowModCommand::Modify => format!("table={table},{matching}actions={actions}"),
            _ => format!(
                "table={table},{matching}priority={priority},hard_timeout={timeout},\
                 actions={actions}"
            ),
        };
        Event::Flow { bridge, command, text }
    });
    let device = prop::sample::select(&[1, 2, 3, 7]);
    let miss = (device, prop::sample::select(PACKETS), any::<bool>());
    let late = miss.clone().prop_map(|(device, packet, recirculated)| Event::Translate {
        device,
        packet,
        recirculated,
    });
    let miss = miss.prop_map(|(device, packet, recirculated)| Event::Miss {
        device,
        packet,
        recirculated,
    });
    let learn = (0..2usize, 1..4u8, 1..5u16);
    prop_oneof![
        6 => flow,
        12 => miss,
        6 => late,
        3 => Just(Event::Install),
        3 => learn.prop_map(|(bridge, mac, port)| Event::Learn { bridge, mac, port }),
        1 => (0..2usize).prop_map(|bridge| Event::Flush { bridge }),
        1 => (1..4u16, 0..3u16).prop_map(|(port, tag)| Event::Vlan { port, tag }),
        1 => (1..4u16, any::<bool>()).prop_map(|(port, down)| Event::PortMod { port, down }),
        1 => (1..5u16).prop_map(|port| Event::Replug { port }),
        1 => (1..4usize).prop_map(|macs| Event::Limit { macs }),
        1 => any::<bool>().prop_map(|named| Event::Peer { named }),
        1 => any::<bool>().prop_map(|drop| Event::Fragments { drop }),
        1 => any::<bool>().prop_map(Event::FailOpen),
        2 => (1..9u64).prop_map(|s| Event::Wait { s }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_change_leaves_a_megaflow_that_translation_would_not_make(
        events in prop::collection::vec(event(), 1..50),
    ) {
        let (mut some, mut all) = (Switch::new(false), Switch::new(true));
        for event in &events {
            some.happen(event);
            all.happen(event);
            prop_assert_eq!(some.check(), Ok(()), "after {:?}", event);
        }
        let counts = [&some, &all].map(|switch| switch.ofproto.megaflow_counters().revalidated);
        prop_assert!(counts[0] <= counts[1]);
    }
}

#[test]
fn what_comes_back_too_late_leaves_no_megaflow() {
    let mut switch = Switch::new(false);
    let text = "table=0,priority=1,hard_timeout=1,actions=ct(table=2)".to_owned();
    let late = Event::Miss { device: 1, packet: PACKETS[0], recirculated: true };
    for event in [
        Event::Flow { bridge: 0, command: FlowModCommand::Add, text },
        Event::Miss { device: 1, packet: PACKETS[0], recirculated: false },
        Event::Wait { s: 1 },
        Event::Wait { s: 10 },
    ] {
        switch.happen(&event);
    }
    switch.state();
    switch.happen(&late);
    assert_eq!(switch.state(), (vec!["execute [Drop(RecircUnknown)] None".to_owned()], vec![]));
}

#[test]
fn a_change_costs_what_depends_on_it() {
    let mut switch = Switch::new(false);
    let flow = |text: &str| {
        let text = text.to_owned();
        Event::Flow { bridge: 0, command: FlowModCommand::Add, text }
    };
    switch.happen(&flow("table=0,in_port=1,actions=resubmit(,7)"));
    switch.happen(&flow("table=7,actions=output:2"));
    switch.happen(&flow("table=0,in_port=2,actions=NORMAL"));
    // Two megaflows look in table 7, and two are sent to the ports of addresses 1 and 2.
    for (device, packet) in [(1, 0), (1, 2), (2, 0), (2, 1)] {
        let miss = Event::Miss { device, packet: PACKETS[packet], recirculated: false };
        switch.happen(&miss);
    }
    let counters = switch.ofproto.megaflow_counters();
    let megaflows: Vec<Match> =
        switch.ofproto.megaflows().iter().map(|flow| flow.matching.clone()).collect();
    assert_eq!(counters.current, 3, "{megaflows:?}");
    // The one of table 7 does not match addresses: both packets hit it.
    assert_eq!(switch.cost(&flow("table=7,priority=40009,ip,actions=drop")), 1);
    // No packet of the megaflows is of this kind, or could match it instead of the flow found.
    assert_eq!(switch.cost(&flow("table=7,priority=40010,arp,actions=drop")), 0);
    assert_eq!(switch.cost(&flow("table=7,priority=40008,ip,actions=output:3")), 0);
    assert_eq!(switch.cost(&flow("table=7,priority=40011,in_port=2,actions=output:3")), 0);
    assert_eq!(switch.cost(&flow("table=7,priority=40012,reg1=5,actions=output:3")), 0);
    assert_eq!(switch.cost(&flow("table=8,actions=drop")), 0);
    assert_eq!(switch.cost(&flow("table=0,priority=60000,arp,actions=drop")), 0);
    assert_eq!(
        switch
            .cost(&flow("table=0,priority=60000,in_port=2,dl_dst=02:00:00:00:00:01,actions=drop")),
        1
    );
    // The flow that the others' packets hit is deleted: it had sent none of them.
    let deleted = "table=0,priority=60000,in_port=2,dl_dst=02:00:00:00:00:01".to_owned();
    let deleted = Event::Flow { bridge: 0, command: FlowModCommand::DeleteStrict, text: deleted };
    assert_eq!(switch.cost(&deleted), 1);
    assert_eq!(switch.cost(&flow("table=7,priority=40009,ip,actions=output:2")), 1);
    let elsewhere = "table=7,actions=drop".to_owned();
    let elsewhere = Event::Flow { bridge: 1, command: FlowModCommand::Add, text: elsewhere };
    assert_eq!(switch.cost(&elsewhere), 0);
    assert_eq!(switch.cost(&Event::Learn { bridge: 0, mac: 9, port: 3 }), 0);
    assert_eq!(switch.cost(&Event::Learn { bridge: 0, mac: 2, port: 3 }), 1);
    assert_eq!(switch.cost(&Event::Learn { bridge: 1, mac: 2, port: 2 }), 0);
    // Seen at its known port.
    assert_eq!(switch.cost(&Event::Learn { bridge: 0, mac: 2, port: 3 }), 0);
    // Address 2 is behind port 3.
    assert_eq!(switch.cost(&Event::Vlan { port: 3, tag: 5 }), 1);
}

#[test]
fn a_change_of_the_configuration_costs_what_depends_on_it() {
    let mut switch = Switch::new(false);
    let flow = |bridge, text: &str| Event::Flow {
        bridge,
        command: FlowModCommand::Add,
        text: text.to_owned(),
    };
    let miss = |device| Event::Miss { device, packet: PACKETS[0], recirculated: false };
    switch.happen(&flow(0, "table=0,in_port=1,actions=output:2"));
    switch.happen(&flow(0, "table=0,in_port=2,actions=output:4"));
    switch.happen(&flow(0, "table=0,in_port=3,actions=ct(commit,zone=7),output:9"));
    switch.happen(&flow(0, "table=0,in_port=4,actions=drop"));
    switch.happen(&flow(1, "table=0,in_port=1,actions=output:2"));
    switch.happen(&flow(1, "table=0,in_port=2,actions=FLOOD"));
    // 1 to 2; 2 through the patch to the other bridge; 3 to a missing port; the other bridge's device floods
    // to the patch.
    [1, 2, 3, 7].iter().for_each(|device| switch.happen(&miss(*device)));
    assert_eq!(switch.ofproto.megaflow_counters().current, 4);
    assert_eq!(switch.cost(&Event::PortMod { port: 1, down: true }), 1);
    // Two megaflows come from port 2 or go to it.
    assert_eq!(switch.cost(&Event::PortMod { port: 2, down: true }), 2);
    assert_eq!(switch.cost(&Event::PortMod { port: 3, down: true }), 1);
    // Both that go through the patch, from either side.
    assert_eq!(switch.cost(&Event::Vlan { port: 4, tag: 5 }), 2);
    let (now, ids) = (switch.now, switch.bridges);
    let mut cost = |change: &mut dyn FnMut(&mut Ofproto)| {
        let before = switch.ofproto.megaflow_counters().revalidated;
        change(&mut switch.ofproto);
        switch.revalidate();
        assert_eq!(switch.check(), Ok(()));
        switch.ofproto.megaflow_counters().revalidated - before
    };
    let spec = |name: &str, device: u32, requested| PortSpec {
        requested: Some(OfPort(requested)),
        ..PortSpec::new(name, mac(0), PortDevice::Datapath(PortNo(device)))
    };
    let add = |number: usize, spec: PortSpec| {
        move |ofproto: &mut Ofproto| drop(ofproto.add_port(ids[number], spec.clone(), now))
    };
    // A port of the first bridge without dependents, the missing one, and one of the second bridge, which
    // flooded packets.
    assert_eq!(cost(&mut add(0, spec("port8", 8, 8))), 0);
    assert_eq!(cost(&mut add(0, spec("port9", 9, 9))), 1);
    assert_eq!(cost(&mut add(1, spec("port10", 10, 10))), 1);
    assert_eq!(cost(&mut |ofproto| ofproto.remove_port(ids[0], OfPort(8), now)), 0);
    assert_eq!(cost(&mut |ofproto| ofproto.remove_port(ids[0], OfPort(9), now)), 1);
    // A timeout policy of the zone in which connections are committed, and of another.
    assert_eq!(cost(&mut |ofproto| ofproto.set_timeout_policy(Zone(7), Some(3))), 1);
    assert_eq!(cost(&mut |ofproto| ofproto.set_timeout_policy(Zone(8), Some(3))), 0);
    // The second bridge: its own megaflow and what comes through the patch.
    let config = |ofproto: &Ofproto| BridgeConfig::clone(&ofproto.bridge(ids[1]).unwrap().config);
    let forward_bpdu = |ofproto: &mut Ofproto| {
        let config = BridgeConfig { forward_bpdu: true, ..config(ofproto) };
        ofproto.set_bridge(ids[1], config, now);
    };
    assert_eq!(cost(&mut { forward_bpdu }), 2);
    assert_eq!(cost(&mut { forward_bpdu }), 0, "nothing changed");
    let other = BridgeConfig::new("br2", MacAddr::ZERO);
    let add_bridge = |ofproto: &mut Ofproto| {
        ofproto.add_bridge(other.clone(), now);
    };
    assert_eq!(cost(&mut { add_bridge }), 0);
    assert_eq!(cost(&mut |ofproto| ofproto.set_fragments(ids[1], Fragments::Drop)), 2);
    // All come through the first bridge.
    assert_eq!(switch.cost(&Event::FailOpen(true)), 4);
}

#[test]
fn an_added_flow_is_searched_for_among_many_that_stand_for_the_same_or_for_others() {
    const MANY: u16 = 1200;
    let of_source = "table=0,priority=1,udp,in_port=1,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:2";
    let of_port = |port: u16| {
        format!("table=0,priority=2,udp,in_port=1,udp_dst={port},actions=output:{}", 2 + port % 2)
    };
    // All flows with one rule, or each with its own.
    for has_rules in [false, true] {
        let mut switch = Switch::new(false);
        let add = |text: &str| Event::Flow {
            bridge: 0,
            command: FlowModCommand::Add,
            text: text.to_owned(),
        };
        switch.ofproto.set_flow_limit(10_000);
        switch.happen(&add(of_source));
        (1..=MANY).filter(|_| has_rules).for_each(|port| switch.happen(&add(&of_port(port))));
        for port in 1..=MANY {
            switch.miss(1, &format!("10.0.0.1:{port}>10.0.0.{}:{port} udp", port % 100), false);
        }
        switch.revalidate();
        let count = switch.ofproto.megaflow_counters().current as u64;
        assert_eq!(count, u64::from(MANY), "{has_rules}");
        let mut cost =
            |matching: &str| switch.cost(&add(&format!("{matching},priority=9,actions=drop")));
        for matching in ["table=0,tcp", "table=0,reg3=1", "table=3,udp,udp_dst=7"] {
            assert_eq!(cost(matching), 0, "{matching}");
        }
        // The match of the megaflows, and fields that they do not match.
        let (precise, wide) = match has_rules {
            false => ("table=0,udp,udp_src=77", "table=0,udp,udp_dst=78"),
            true => ("table=0,udp,udp_dst=78", "table=0,udp,udp_src=77"),
        };
        assert_eq!((cost(precise), cost(wide)), (1, count), "{has_rules}");
    }
}

/// A flow-mod that adds a flow to the first bridge.
fn add(text: &str) -> Event {
    Event::Flow { bridge: 0, command: FlowModCommand::Add, text: text.to_owned() }
}
