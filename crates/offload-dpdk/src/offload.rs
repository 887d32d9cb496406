//! Network cards of DPDK as an offload device.

mod checked;

use crate::device_rule::{DeviceRule, device_rule, marking};
use crate::strictness::Strictness;
use base::PortNo;
use flow::{
    FlowOffload, OffloadId, OffloadRefusal, OffloadRule, OffloadStatus, OffloadTraffic, Refusal,
    TcpWindows, WindowCheck,
};
use hashbrown::HashMap;
use port_dpdk::flow_rule::{
    Commands, DeviceRefusal, FlowDevice, FlowRule, Item, RuleHandle, RuleState,
};
use std::time::Duration;

/// Bytes of an Ethernet header and of a VLAN tag, which an MTU does not include.
const ETHERNET_BYTES: u32 = wire::ethernet::HEADER_LEN as u32;
const TAG_BYTES: u32 = wire::vlan::HEADER_LEN as u32;
/// Forwards packets of offloaded connections by rules of `rte_flow`.
pub struct DpdkOffload<D> {
    device: D,
    ports: HashMap<PortNo, Port>,
    /// Indexed by the number of an [`OffloadId`].
    rules: Vec<Option<Installed>>,
    free_rules: Vec<u32>,
}

/// A DPDK port.
#[derive(Debug)]
struct Port {
    number: u16,
    mtu: u32,
    /// The strictness at which its device accepted the first rule of each shape.
    accepted: [Option<Strictness>; SHAPES],
    /// Whether its device refused to mark packets: without a tunnel, and with one.
    refuses_marks: [bool; 2],
    checks: checked::PortChecks,
}

/// Kinds of rules: with or without `transfer`, with or without outer headers, and the two for connections
/// whose windows the device checks.
const SHAPES: usize = 6;
const CHECK_SHAPE: usize = 4;
const CHECKED_SHAPE: usize = 5;

/// An installed rule.
#[derive(Debug)]
struct Installed {
    handle: RuleHandle,
    /// DPDK's number of the input port.
    port: u16,
    /// The reason why the device only marks packets; `None` if it forwards them.
    only_marks: Option<OffloadRefusal>,
    /// The counters at the last reading.
    read: OffloadTraffic,
    /// The connection object that checks its packets.
    check: Option<checked::Check>,
}

impl<D: FlowDevice> DpdkOffload<D> {
    /// Creates an offload without rules.
    pub fn new(device: D) -> DpdkOffload<D> {
        DpdkOffload { device, ports: HashMap::new(), rules: Vec::new(), free_rules: Vec::new() }
    }

    /// Returns the device.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// Adds DPDK's port `number`, whose packets may be offloaded and to which packets may be sent. Returns
    /// whether the port is new or changed.
    pub fn add_port(&mut self, port: PortNo, number: u16, mtu: u32) -> bool {
        if self.ports.get(&port).is_some_and(|it| (it.number, it.mtu) == (number, mtu)) {
            return false;
        }
        let checks = self.ports.remove(&port).and_then(|old| self.keep_checks(old, number));
        let checks = checks.unwrap_or_default();
        let (accepted, refuses_marks) = ([None; SHAPES], [false; 2]);
        self.ports.insert(port, Port { number, mtu, accepted, refuses_marks, checks });
        true
    }

    /// Removes a port. The caller removes the port's rules.
    pub fn remove_port(&mut self, port: PortNo) {
        if let Some(port) = self.ports.remove(&port) {
            self.device.flush(port.number);
        }
    }

    /// Whether packets of a port may be offloaded.
    pub fn receives_from(&self, port: PortNo) -> bool {
        self.ports.contains_key(&port)
    }

    /// Installs a rule, as strict as the device accepts.
    fn create(
        &mut self,
        in_port: PortNo,
        rule: &FlowRule,
        idle: Duration,
    ) -> Result<RuleHandle, OffloadRefusal> {
        let is_tunnelled = rule.items.iter().any(|it| matches!(it, Item::Vxlan { .. }));
        let shape = usize::from(rule.transfers) << 1 | usize::from(is_tunnelled);
        self.create_shape(in_port, rule, idle, (shape, Strictness::all(is_tunnelled)))
    }

    /// The same for one kind of rules, with its accepted strictness.
    fn create_shape(
        &mut self,
        in_port: PortNo,
        rule: &FlowRule,
        idle: Duration,
        (shape, tried): (usize, impl Iterator<Item = Strictness>),
    ) -> Result<RuleHandle, OffloadRefusal> {
        let port = self.ports.get_mut(&in_port).ok_or(Refusal::InPort)?;
        let accepted = &mut port.accepted[shape];
        let mut refusal = DeviceRefusal { kind: Refusal::Device, words: String::new() };
        for strictness in tried.skip_while(|it| accepted.is_some_and(|accepted| *it != accepted)) {
            let rule = strictness.apply(rule, idle);
            log::debug!(target: "netdev_offload", "{}", Commands(port.number, &rule));
            match self.device.create(port.number, &rule) {
                Ok(handle) => {
                    accepted.get_or_insert(strictness);
                    return Ok(handle);
                }
                Err(refused) => refusal = refused,
            }
            log::debug!(target: "netdev_offload", "DPDK: refused: {}", refusal.words);
            if refusal.kind != Refusal::Device {
                break;
            }
        }
        Err(in_words(refusal))
    }

    /// Removes a rule of a port.
    fn destroy(&mut self, handle: RuleHandle, port: u16) {
        if let Err(words) = self.device.destroy(handle) {
            // The rule must not outlive what it depends on, so all rules of its device are flushed.
            log::error!(
                target: "netdev_offload",
                "DPDK: cannot remove a rule: {words}; all rules of its device are removed"
            );
            self.device.flush(port);
        }
    }

    /// Stores an installed rule.
    fn keep(&mut self, installed: Installed) -> OffloadId {
        let id = self.free_rules.pop().unwrap_or(self.rules.len() as u32);
        if id as usize == self.rules.len() {
            self.rules.push(None);
        }
        self.rules[id as usize] = Some(installed);
        OffloadId(id)
    }

    fn installed(&mut self, id: OffloadId) -> Option<&mut Installed> {
        self.rules.get_mut(id.0 as usize)?.as_mut()
    }

    /// Returns the traffic of a rule since the last reading, and whether the rule still forwards.
    fn read(&mut self, id: OffloadId) -> OffloadStatus {
        let Some(rule) = self.rules.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return OffloadStatus::default();
        };
        // The switch forwards and counts packets that are only marked.
        if rule.only_marks.is_some() {
            return OffloadStatus::default();
        }
        let Some(RuleState { packets, bytes, is_aged }) = self.device.query(rule.handle) else {
            return OffloadStatus { is_ended: true, ..OffloadStatus::default() };
        };
        let before = std::mem::replace(&mut rule.read, OffloadTraffic { packets, bytes });
        let traffic = OffloadTraffic {
            packets: packets.saturating_sub(before.packets),
            bytes: bytes.saturating_sub(before.bytes),
        };
        if rule.check.is_some() {
            return OffloadStatus { traffic, ..self.read_check(id) };
        }
        // A packet may have arrived after the device reported it idle.
        OffloadStatus { traffic, is_ended: is_aged && traffic.packets == 0, windows: None }
    }
}

/// Converts a device's refusal.
fn in_words(DeviceRefusal { kind, words }: DeviceRefusal) -> OffloadRefusal {
    OffloadRefusal { kind, words: (!words.is_empty()).then(|| words.into()) }
}

/// Returns whether all frames of the input port fit the output port: a device neither fragments nor answers
/// larger ones.
fn fits(device_rule: &DeviceRule, in_mtu: u32, out_mtu: u32) -> bool {
    let &DeviceRule { decapsulated_bytes, tags: [came, leave], encapsulated_max, .. } = device_rule;
    // The tags of an inner frame are part of the outer packet.
    let outer_tags = if decapsulated_bytes == 0 { came } else { 0 };
    let received = in_mtu + ETHERNET_BYTES + outer_tags * TAG_BYTES;
    let inner = received.saturating_sub(decapsulated_bytes);
    let sent = (inner + leave * TAG_BYTES).saturating_sub(came * TAG_BYTES);
    sent <= encapsulated_max.unwrap_or(out_mtu + ETHERNET_BYTES + leave * TAG_BYTES)
}

impl<D: FlowDevice> DpdkOffload<D> {
    /// Installs a rule by which the device forwards packets.
    fn forward(
        &mut self,
        from: &OffloadRule,
        idle: Duration,
    ) -> Result<RuleHandle, OffloadRefusal> {
        let device_rule = self.device_rule(from)?;
        self.create(from.in_port(), &device_rule.rule, idle)
    }

    /// Makes a device rule, if frames of its input port fit its output port.
    fn device_rule(&self, from: &OffloadRule) -> Result<DeviceRule, Refusal> {
        let (in_port, ports) = (from.in_port(), &self.ports);
        let device_rule = device_rule(from, &|port| Some(ports.get(&port)?.number))?;
        let received = ports.get(&in_port).ok_or(Refusal::InPort)?;
        if let Some(out) = device_rule.out.and_then(|out| ports.get(&out)) {
            if device_rule.out == Some(in_port) {
                // Packets that return to their input port are left to the switch, which decides whether that
                // is allowed.
                return Err(Refusal::OutPort);
            }
            if !fits(&device_rule, received.mtu, out.mtu) {
                return Err(Refusal::Mtu);
            }
        }
        Ok(device_rule)
    }

    /// Installs a rule by which the device marks packets that it does not forward, if it supports that.
    fn mark(&mut self, from: &OffloadRule, refusal: Refusal) -> Option<RuleHandle> {
        let is_tunnelled = usize::from(from.tunnel.is_some());
        let port = self.ports.get_mut(&from.in_port())?;
        if matches!(refusal, Refusal::Full | Refusal::Twice) || port.refuses_marks[is_tunnelled] {
            return None;
        }
        let rule = marking(from).ok()?;
        log::debug!(target: "netdev_offload", "{}", Commands(port.number, &rule));
        let made = self.device.create(port.number, &rule);
        if let Err(refused) = &made {
            log::debug!(target: "netdev_offload", "DPDK: refused: {}", refused.words);
            port.refuses_marks[is_tunnelled] = refused.kind == Refusal::Device;
        }
        made.ok()
    }
}

impl<D: FlowDevice> FlowOffload for DpdkOffload<D> {
    fn install(&mut self, from: &OffloadRule, idle: Duration) -> Result<OffloadId, OffloadRefusal> {
        let port = self.ports.get(&from.in_port()).ok_or(Refusal::InPort)?.number;
        let (handle, only_marks) = match self.forward(from, idle) {
            Ok(handle) => (handle, None),
            Err(refusal) => match self.mark(from, refusal.kind) {
                Some(handle) => (handle, Some(refusal)),
                None => return Err(refusal),
            },
        };
        let read = OffloadTraffic::default();
        Ok(self.keep(Installed { handle, port, only_marks, read, check: None }))
    }

    fn window_check(&self, rule: &OffloadRule) -> WindowCheck {
        self.checks_of(rule)
    }

    fn install_checked(
        &mut self,
        rules: [&OffloadRule; 2],
        windows: &TcpWindows,
    ) -> Result<[OffloadId; 2], OffloadRefusal> {
        self.install_pair(rules, windows)
    }

    fn set_checked(&mut self, id: OffloadId, is_checked: bool) -> bool {
        self.set_liberal(id, !is_checked).is_some()
    }

    fn end_checked(&mut self, id: OffloadId) -> Option<TcpWindows> {
        self.end_pair(id)
    }

    fn only_marks(&self, id: OffloadId) -> Option<OffloadRefusal> {
        self.rules.get(id.0 as usize)?.as_ref()?.only_marks.clone()
    }

    fn remove(&mut self, id: OffloadId) -> OffloadTraffic {
        // Without the other direction, the device would treat segments as invalid.
        self.end_pair(id);
        let traffic = self.read(id).traffic;
        let Some(rule) = self.rules.get_mut(id.0 as usize).and_then(Option::take) else {
            return OffloadTraffic::default();
        };
        self.free_rules.push(id.0);
        self.destroy(rule.handle, rule.port);
        traffic
    }

    fn status(&mut self, id: OffloadId) -> OffloadStatus {
        self.read(id)
    }

    fn passed(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
