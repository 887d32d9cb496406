//! A switch of two bridges without a datapath, and packets that miss in it.

use crate::dice::Dice;
use base::{Instant, MacAddr, PortNo, RecircId, WorkerId};
use flow::{Action, CtState, Execute, FlowCommand, FlowPut, Frame, Upcall, UpcallKind};
use ofproto::{BridgeConfig, BridgeId, Config, Ofproto, Outbox, PortDevice, PortSpec};
use packet::Packet;
use std::time::Duration;

/// Passes through the tables that one packet gets.
const MAX_PASSES: usize = 6;

/// Two bridges joined by a patch, three more ports on the first.
pub struct Switch {
    pub ofproto: Ofproto,
    pub bridges: [BridgeId; 2],
    pub now: Instant,
    pub out: Outbox,
}

/// What a miss is answered with.
pub struct Answer {
    pub actions: std::sync::Arc<[Action]>,
    pub put: Option<FlowPut>,
}

impl Switch {
    /// Learning switches, with the flow that makes them so.
    pub fn new() -> Self {
        let now = Instant::from_millis(1_000_000);
        let mut ofproto = Ofproto::new(Config { flow_limit: 200, ..Config::default() });
        let mac = |n| MacAddr([2, 0, 0, 0, 0, n]);
        let bridges = [("br0", 100), ("br1", 101)].map(|(name, n)| {
            let config = BridgeConfig { mac_table_size: 16, ..BridgeConfig::new(name, mac(n)) };
            ofproto.add_bridge(config, now)
        });
        let patch = |peer: &str| PortDevice::Patch { peer: peer.to_owned() };
        let device = |n| PortDevice::Datapath(PortNo(n));
        let ports = [
            (0, "br0", device(10)),
            (0, "p1", device(1)),
            (0, "p2", device(2)),
            (0, "p3", device(3)),
            (0, "to-br1", patch("to-br0")),
            (1, "br1", device(11)),
            (1, "p4", device(4)),
            (1, "to-br0", patch("to-br1")),
        ];
        for (bridge, name, device) in ports {
            let mut spec = PortSpec::new(name, mac(1), device);
            spec.is_local = name.starts_with("br");
            ofproto.add_port(bridges[bridge], spec, now).expect("the names are different");
        }
        ofproto.take_events();
        Switch { ofproto, bridges, now, out: Outbox::default() }
    }

    /// Lets time pass.
    pub fn pass(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        self.ofproto.tick(self.now, &mut self.out);
    }

    /// Looks through what is installed until nothing is left to be looked through.
    pub fn revalidate(&mut self) {
        for _ in 0..1000 {
            if !self.ofproto.needs_revalidation() {
                return;
            }
            self.ofproto.revalidate(self.now, &mut self.out);
        }
        panic!("revalidation does not come to an end");
    }

    /// A miss of this packet: what is to be done with it, and with those like it.
    pub fn miss(&mut self, bytes: &[u8], key: &flow::FlowKey) -> Answer {
        self.out.commands.clear();
        let upcall = Upcall {
            worker: WorkerId(0),
            kind: UpcallKind::Miss,
            packet: Packet::from_bytes(bytes),
            key: Box::new(key.clone()),
            received: self.now,
            queued: self.now,
            trace: None,
        };
        self.ofproto.upcall(self.now, upcall, &mut self.out);
        let mut answer = Answer { actions: [].into(), put: None };
        for (_, command) in self.out.commands.drain(..) {
            answer.put = command.to_put().or(answer.put);
            if let FlowCommand::Execute(Execute { actions, .. }) = command {
                answer.actions = actions;
            }
        }
        answer
    }

    /// Sends a packet through the tables, and again for each recirculation; `ct` says what
    /// connection tracking makes of it. Checks on each pass that the megaflow fits the packet, and
    /// that packets which `variants` makes of it and which fit too are treated alike.
    pub fn send(&mut self, bytes: &[u8], port: PortNo, ct: CtState, variants: &[Vec<u8>]) {
        let Ok(frame) = Frame::parse(Packet::from_bytes(bytes), port) else { return };
        // A table that learned from the packet may treat the next one otherwise.
        for _ in 0..2 {
            self.miss(bytes, &frame.key);
        }
        let mut passes = vec![(RecircId(0), CtState::empty())];
        let mut next = 0;
        while let Some(&(recirc, state)) = passes.get(next) {
            next += 1;
            let with_state = |mut key: flow::FlowKey| {
                key.set_recirc_id(recirc);
                key.set_ct_state(state);
                key
            };
            let key = with_state(frame.key.clone());
            self.ofproto.delete_megaflows(self.now, &mut self.out);
            let answer = self.miss(bytes, &key);
            let put = answer.put.expect("there is room for a megaflow");
            assert!(put.matching.matches(&key), "a megaflow that its packet does not match");
            assert_eq!(put.actions, answer.actions);
            for variant in variants {
                let Ok(like) = Frame::parse(Packet::from_bytes(variant), port) else { continue };
                let like_key = with_state(like.key);
                if put.matching.matches(&like_key) {
                    let other = self.miss(variant, &like_key);
                    let (wanted, got) = (&answer.actions, &other.actions);
                    assert_eq!(wanted, got, "{like_key:?} fits {:?}", put.matching);
                }
            }
            let state = if has_ct(&answer.actions) { ct | CtState::TRK } else { state };
            for id in recirculations(&answer.actions) {
                if passes.len() < MAX_PASSES {
                    passes.push((id, state));
                }
            }
        }
    }
}

impl Default for Switch {
    fn default() -> Self {
        Switch::new()
    }
}

fn has_ct(actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::Clone(inner) => has_ct(inner),
        other => matches!(other, Action::Ct(_)),
    })
}

fn recirculations(actions: &[Action]) -> Vec<RecircId> {
    let of_action = |action: &Action| match action {
        Action::Recirc(id) => vec![*id],
        Action::Clone(inner) => recirculations(inner),
        _ => Vec::new(),
    };
    actions.iter().flat_map(of_action).collect()
}

/// Packets that differ from one in a few bytes of its headers.
pub fn variants(bytes: &[u8], seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut dice = Dice::new(seed);
    let headers = bytes.len().min(80);
    (0..count)
        .map(|_| {
            let mut variant = bytes.to_vec();
            for _ in 0..1 + dice.below(4) {
                if headers > 0 {
                    variant[dice.below(headers)] ^= 1 << dice.below(8);
                }
            }
            variant
        })
        .collect()
}
