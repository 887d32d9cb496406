//! A bridge with two ports, and its OpenFlow peers.

use crate::connection::{ConnId, Connections, Settings, Switch};
use crate::{BridgeConfig, BridgeId, Config, Ofproto, Outbox, PortDevice, PortSpec};
use base::{Instant, MacAddr, OfPort, PortNo, TableId, WorkerId};
use flow::{Field, FlowCommand, FlowId, Frame, Match, Upcall, UpcallKind};
use openflow::action::{Action, Ct, ZoneSource};
use openflow::message::{FlowFlags, FlowMod, Message, Version};
use openflow::{DecodeOptions, EncodeOptions, Framer, Header, OfError, decode, encode};
use packet::Packet;
use std::time::Duration;

pub struct Bench {
    pub core: Ofproto,
    pub connections: Connections,
    pub out: Outbox,
    pub now: Instant,
    pub bridge: BridgeId,
}

/// Speed and features of the ports in the recorded sessions.
const TEN_GIGABITS: (u32, u32) = (0x840, 10_000_000);

impl Bench {
    /// A bridge as in the recorded sessions, with this number of workers.
    pub fn new(workers: u16) -> Self {
        let mut core = Ofproto::new(Config { workers, ..Config::default() });
        let mac = MacAddr([0x8e, 0x63, 0xef, 0x76, 0x10, 0x41]);
        let config = BridgeConfig {
            description: ["Nicira, Inc.", "Open vSwitch", "3.1.0", "None", "None"]
                .map(str::to_owned),
            ..BridgeConfig::new("br0", mac)
        };
        let now = Instant::from_millis(1_000_000);
        let bridge = core.add_bridge(config, now);
        let macs = [
            mac,
            MacAddr([0x3e, 0x12, 0x45, 0xc6, 0x50, 0xc3]),
            MacAddr([0x96, 0xf2, 0xd2, 0xb5, 0x14, 0x09]),
        ];
        for (n, (name, mac)) in ["br0", "p0", "p1"].into_iter().zip(macs).enumerate() {
            let mut spec = PortSpec::new(name, mac, PortDevice::Datapath(PortNo(n as u32 + 1)));
            spec.is_local = n == 0;
            (spec.up, spec.carrier) = (n != 0, n != 0);
            (spec.features, spec.speed_kbps) = TEN_GIGABITS;
            core.add_port(bridge, spec, now).unwrap();
        }
        core.flush_flows(bridge);
        core.take_events();
        let (connections, out) = (Connections::new(), Outbox::default());
        Bench { core, connections, out, now, bridge }
    }

    pub fn with<R>(&mut self, run: impl FnOnce(&mut Connections, &mut Switch<'_>) -> R) -> R {
        let mut switch = Switch {
            core: &mut self.core,
            now: self.now,
            out: &mut self.out,
            counters: &mut |device| [Some(u64::from(device.0)); 12],
        };
        run(&mut self.connections, &mut switch)
    }

    pub fn open(&mut self, settings: Settings) -> ConnId {
        self.connections.open(self.bridge, settings, self.now)
    }

    /// A connection after its hello.
    pub fn connect(&mut self, settings: Settings, version: Version) -> ConnId {
        let id = self.open(settings);
        assert_eq!(self.take(id).len(), 1, "a hello");
        self.send(id, &[version as u8, 0, 0, 8, 0, 0, 0, 1]);
        assert_eq!(self.connections.status(id).unwrap().version, Some(version));
        id
    }

    pub fn send(&mut self, id: ConnId, bytes: &[u8]) {
        self.with(|connections, switch| connections.receive(id, bytes, switch));
        self.go_on();
    }

    /// Carries out what was begun.
    pub fn go_on(&mut self) {
        self.with(|connections, switch| while connections.go_on(switch) {});
        self.settle();
        self.with(|connections, switch| while connections.go_on(switch) {});
    }

    /// Does what the switch does after each event.
    pub fn settle(&mut self) {
        let mut is_passed = true;
        while is_passed {
            while self.core.go_on(self.now, &mut self.out) {}
            is_passed = self.with(|connections, switch| {
                connections.deliver(switch.core, switch.now);
                connections.pass_barriers(switch)
            });
        }
    }

    /// Sends a message with transaction id 7.
    pub fn tell(&mut self, id: ConnId, message: &Message) {
        let version = self.connections.status(id).unwrap().version.unwrap();
        for bytes in encode(version, 7, message, &EncodeOptions::default()) {
            self.send(id, &bytes);
        }
    }

    /// Sends a message and returns the replies.
    pub fn ask(&mut self, id: ConnId, message: &Message) -> Vec<Message> {
        self.tell(id, message);
        self.heard(id)
    }

    /// The messages sent to the peer.
    pub fn heard(&mut self, id: ConnId) -> Vec<Message> {
        let messages = self.take(id);
        messages.iter().map(|bytes| read(bytes).unwrap()).collect()
    }

    /// The same as bytes.
    pub fn take(&mut self, id: ConnId) -> Vec<Vec<u8>> {
        let mut framer = Framer::new();
        framer.push(&self.connections.take_output(id, &self.core));
        // Reading may let something go on.
        self.go_on();
        framer.push(&self.connections.take_output(id, &self.core));
        let messages = std::iter::from_fn(|| framer.next_message().unwrap()).collect();
        assert_eq!(framer.pending(), 0);
        messages
    }

    /// Lets time pass.
    pub fn pass(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        self.with(|connections, switch| connections.tick(switch));
    }

    /// Takes the waiting commands, and returns how many of them request statistics.
    pub fn ship(&mut self) -> usize {
        let commands = std::mem::take(&mut self.out.commands);
        commands.iter().filter(|(_, command)| matches!(command, FlowCommand::Collect)).count()
    }

    /// A packet from a device misses. Returns its megaflow.
    pub fn miss(&mut self, device: u32, packet: &str) -> FlowId {
        let bytes = wire::text::parse(packet).unwrap();
        let frame = Frame::parse(Packet::from_bytes(&bytes), PortNo(device)).unwrap();
        let (packet, key) = (frame.packet, Box::new(frame.key));
        let (worker, received, kind) = (WorkerId(0), self.now, UpcallKind::Miss);
        let upcall = Upcall { worker, kind, packet, key, received, queued: received, trace: None };
        self.core.upcall(self.now, upcall, &mut self.out);
        self.core.megaflows().last().expect("it is installed").id
    }

    pub fn flows(&self) -> usize {
        self.core.rules().len()
    }
}

/// Decodes a message in its own version.
/// The messages of some output.
pub fn messages(output: &[u8]) -> Vec<Message> {
    let mut framer = Framer::new();
    framer.push(output);
    let messages = std::iter::from_fn(|| framer.next_message().unwrap());
    messages.map(|bytes| read(&bytes).unwrap()).collect()
}

pub fn read(bytes: &[u8]) -> Result<Message, OfError> {
    let wire = Header::read(bytes).unwrap().version;
    let version = Version::ALL.into_iter().find(|version| *version as u8 == wire).unwrap();
    decode(version, bytes, &DecodeOptions::default()).map(|(_, message)| message)
}

/// Adds a flow of this priority that matches `in_port`.
pub fn add_flow(priority: u16) -> FlowMod {
    FlowMod {
        matching: Match::any().with(Field::InPort, 1),
        priority,
        table: Some(TableId(0)),
        actions: vec![Action::Output { port: OfPort(2), max_len: 0 }],
        ..FlowMod::default()
    }
}

/// The initial flow of the recorded sessions.
pub fn first_flow() -> FlowMod {
    let untracked = Match::any().with(Field::EthType, 0x800).with_masked(
        Field::CtState,
        0,
        u128::from(flow::CtState::TRK.bits()),
    );
    let ct = Ct {
        commit: false,
        force: false,
        zone: ZoneSource::Immediate(0),
        table: Some(TableId(0)),
        alg: 0,
        exec: Vec::new(),
    };
    FlowMod {
        matching: untracked,
        flags: FlowFlags::RESET_COUNTS,
        actions: vec![Action::Ct(ct)],
        ..add_flow(1)
    }
}
