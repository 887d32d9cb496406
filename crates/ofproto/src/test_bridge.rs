//! A bridge for tests of this crate, with flow-mods as text, upcalls and passing time.

use crate::{
    BridgeConfig, BridgeId, Config, Event, FailMode, Ofproto, Outbox, PortDevice, PortSpec,
};
use base::{Instant, MacAddr, PortNo, WorkerId};
use flow::{FlowDump, Frame, Upcall, UpcallKind};
use openflow::ErrorCode;
use openflow::message::{FlowModCommand, FlowStatsRequest};
use openflow::text;
use packet::Packet;
use std::time::Duration;

/// When a bridge comes.
pub(crate) const NOW: Instant = Instant::from_millis(1_000_000);

pub(crate) struct TestBridge {
    pub ofproto: Ofproto,
    pub id: BridgeId,
    pub now: Instant,
    /// Commands to the workers.
    pub out: Outbox,
}

impl TestBridge {
    /// A bridge without ports and flows.
    pub fn new() -> Self {
        Self::configured(Config::default(), Self::secure())
    }

    /// A configuration without initial flows.
    pub fn secure() -> BridgeConfig {
        let fail_mode = FailMode::Secure;
        BridgeConfig { fail_mode, ..BridgeConfig::new("br0", MacAddr::ZERO) }
    }

    pub fn configured(config: Config, bridge: BridgeConfig) -> Self {
        let mut ofproto = Ofproto::new(config);
        let id = ofproto.add_bridge(bridge, NOW);
        TestBridge { ofproto, id, now: NOW, out: Outbox::default() }
    }

    /// Adds ports p1 to p`last`, with the same numbers in the datapath.
    pub fn with_ports(mut self, last: u32) -> Self {
        for number in 1..=last {
            self.ofproto.add_port(self.id, Self::port(number), self.now).unwrap();
        }
        self.ofproto.take_events();
        self
    }

    /// The port of this number.
    pub fn port(number: u32) -> PortSpec {
        let device = PortDevice::Datapath(PortNo(number));
        PortSpec::new(format!("p{number}"), MacAddr::ZERO, device)
    }

    /// Sends a flow-mod like an OpenFlow 1.0 controller.
    pub fn send(&mut self, command: FlowModCommand, flow: &str) -> Result<(), ErrorCode> {
        let mut flow_mod = text::parse_flow(flow, command, &|_| None)
            .unwrap_or_else(|error| panic!("{flow}: {error}"));
        flow_mod.modify_cookie = flow_mod.cookie_mask == 0;
        self.ofproto.flow_mod(self.id, &flow_mod, self.now).map_err(|error| error.code)
    }

    pub fn add(&mut self, flow: &str) {
        self.send(FlowModCommand::Add, flow).unwrap();
    }

    /// Advances time; the worker receives no packets.
    pub fn sleep(&mut self, s: u64) {
        self.now = self.now + Duration::from_secs(s);
        self.ofproto.collect(&mut Outbox::default());
        let (worker, at, flows) = (WorkerId(0), self.now, Vec::new());
        let dump =
            FlowDump { worker, at, is_last: true, marked: Vec::new(), flows, gone: Vec::new() };
        self.ofproto.dump(self.now, dump);
        while self.ofproto.expire_flows(self.now) {}
    }

    /// A miss of a packet from a port.
    pub fn packet(&self, port: u32, packet: &str) -> Upcall {
        let bytes = wire::text::parse(packet).unwrap();
        let frame = Frame::parse(Packet::from_bytes(&bytes), PortNo(port)).unwrap();
        let (packet, key) = (frame.packet, Box::new(frame.key));
        let (worker, received, kind) = (WorkerId(0), self.now, UpcallKind::Miss);
        Upcall { worker, kind, packet, key, received, queued: received, trace: None }
    }

    /// An upcall for a packet from a port.
    pub fn upcall(&mut self, port: u32, packet: &str, kind: UpcallKind) {
        let upcall = Upcall { kind, ..self.packet(port, packet) };
        self.ofproto.upcall(self.now, upcall, &mut self.out);
    }

    /// The events of what was done. Workers have nothing to report.
    pub fn events(&mut self) -> Vec<Event> {
        while self.ofproto.go_on(self.now, &mut self.out) {}
        self.ofproto.take_events()
    }

    /// Revalidates all flows that need it.
    pub fn revalidate(&mut self) {
        while self.ofproto.needs_revalidation() {
            self.ofproto.revalidate(self.now, &mut self.out);
        }
    }

    /// The flows of all tables, as `ovs-ofctl dump-flows --no-stats` prints them.
    pub fn flows(&self) -> Vec<String> {
        let flows = self.ofproto.flows(self.id, &FlowStatsRequest::default(), self.now);
        flows.iter().map(|flow| text::format_flow(flow, false)).collect()
    }
}
