//! Network cards of DPDK as a device that forwards by itself.

use crate::translate::translate;
use base::PortNo;
use flow::{FlowOffload, OffloadId, OffloadRule, OffloadStatus, OffloadTraffic, Refusal};
use hashbrown::{HashMap, HashSet};
use port_dpdk::flow_rule::Commands;
use port_dpdk::flow_rule::RuleAction;
use port_dpdk::flow_rule::{DeviceRefusal, FlowDevice, FlowRule, RuleHandle, RuleState};
use port_dpdk::flow_rule::{Item, L3_OK, L4_OK};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an Ethernet header, which an MTU does not count.
const ETHERNET_BYTES: u32 = 14;
/// The longest time of `AGE`.
const AGE_MAX_S: u32 = (1 << 24) - 1;

/// Forwards packets of offloaded connections by rules of `rte_flow`.
pub struct DpdkOffload<D> {
    device: D,
    ports: HashMap<PortNo, Port>,
    /// By the number of an [`OffloadId`].
    rules: Vec<Option<Installed>>,
    free_rules: Vec<u32>,
    /// Directions of connections that have a rule: the connection's number, and whether it is the reply.
    directions: HashSet<(u32, bool)>,
    refusal_words: Option<Arc<str>>,
}

/// A port of DPDK's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Port {
    number: u16,
    mtu: u32,
    /// What its device accepted of what makes rules stricter, once it accepted a rule.
    strictness: Option<Strictness>,
}

/// Parts of a rule that a device may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Strictness {
    /// `INTEGRITY`: packets with wrong checksums or lengths are left to the switch.
    integrity: bool,
    /// `AGE`: the device notes idle rules.
    age: bool,
}

/// A rule that a device has.
#[derive(Clone, Copy, Debug)]
struct Installed {
    handle: RuleHandle,
    direction: (u32, bool),
    /// The counters when they were read last.
    read: OffloadTraffic,
}

impl<D: FlowDevice> DpdkOffload<D> {
    /// Nothing offloaded yet.
    pub fn new(device: D) -> DpdkOffload<D> {
        DpdkOffload {
            device,
            ports: HashMap::new(),
            rules: Vec::new(),
            free_rules: Vec::new(),
            directions: HashSet::new(),
            refusal_words: None,
        }
    }

    /// The device.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// Makes DPDK's port `number` one whose packets may be offloaded and sent to. It replaces what was
    /// known of the port; whether that was anything else.
    pub fn add_port(&mut self, port: PortNo, number: u16, mtu: u32) -> bool {
        if self.ports.get(&port).is_some_and(|it| (it.number, it.mtu) == (number, mtu)) {
            return false;
        }
        self.ports.insert(port, Port { number, mtu, strictness: None });
        true
    }

    /// Forgets a port. The caller removes the port's rules.
    pub fn remove_port(&mut self, port: PortNo) {
        if let Some(port) = self.ports.remove(&port) {
            self.device.flush(port.number);
        }
    }

    /// Whether packets of a port may be offloaded.
    pub fn receives_from(&self, port: PortNo) -> bool {
        self.ports.contains_key(&port)
    }

    /// Has the device make a rule, as strict as it can.
    fn create(
        &mut self,
        in_port: PortNo,
        rule: &FlowRule,
        idle: Duration,
    ) -> Result<RuleHandle, Refusal> {
        let Some(port) = self.ports.get_mut(&in_port) else { return Err(Refusal::InPort) };
        let known = port.strictness.map(|it| [it]);
        let tried = known.as_ref().map_or(&Strictness::ALL[..], |it| &it[..]);
        let mut refusal = DeviceRefusal { kind: Refusal::Device, words: String::new() };
        for strictness in tried {
            match self.device.create(port.number, &strictness.apply(rule, idle)) {
                Ok(handle) => {
                    port.strictness = Some(*strictness);
                    return Ok(handle);
                }
                Err(refused) => refusal = refused,
            }
        }
        self.refusal_words = (!refusal.words.is_empty()).then(|| refusal.words.into());
        Err(refusal.kind)
    }

    /// What a rule forwarded since it was asked last, and whether it does so still.
    fn read(&mut self, id: OffloadId) -> OffloadStatus {
        let Some(rule) = self.rules.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return OffloadStatus::default();
        };
        let Some(RuleState { packets, bytes, is_aged }) = self.device.query(rule.handle) else {
            return OffloadStatus { is_ended: true, ..OffloadStatus::default() };
        };
        let before = std::mem::replace(&mut rule.read, OffloadTraffic { packets, bytes });
        let traffic = OffloadTraffic {
            packets: packets.saturating_sub(before.packets),
            bytes: bytes.saturating_sub(before.bytes),
        };
        // A packet may have come since the device took note.
        OffloadStatus { traffic, is_ended: is_aged && traffic.packets == 0 }
    }
}

impl Strictness {
    /// All of them, the strictest first.
    const ALL: [Strictness; 4] = [
        Strictness { integrity: true, age: true },
        Strictness { integrity: true, age: false },
        Strictness { integrity: false, age: true },
        Strictness { integrity: false, age: false },
    ];

    /// A rule with these parts.
    fn apply(self, rule: &FlowRule, idle: Duration) -> FlowRule {
        let mut rule = rule.clone();
        if self.integrity {
            let is_ip = |item: &&Item| matches!(item, Item::Ipv4(_) | Item::Ipv6(_));
            let levels = rule.items.iter().filter(is_ip).count() as u32;
            let bits = L3_OK | L4_OK;
            rule.items.extend((1..=levels).map(|level| Item::Integrity { level, bits }));
        }
        let timeout_s = idle.as_secs().saturating_add(u64::from(idle.subsec_nanos() > 0));
        if self.age
            && let Ok(timeout_s @ ..=AGE_MAX_S) = u32::try_from(timeout_s)
        {
            rule.actions.insert(1, RuleAction::Age { timeout_s });
        }
        rule
    }
}

impl<D: FlowDevice> FlowOffload for DpdkOffload<D> {
    fn install(&mut self, from: &OffloadRule, idle: Duration) -> Result<OffloadId, Refusal> {
        self.refusal_words = None;
        let (in_port, ports) = (from.in_port(), &self.ports);
        let translation = translate(from, &|port| Some(ports.get(&port)?.number))?;
        let received = ports.get(&in_port).ok_or(Refusal::InPort)?;
        if let Some(out) = translation.out.and_then(|out| ports.get(&out)) {
            if translation.out == Some(in_port) {
                // To send a packet back where it came from is left to the switch, which knows when that
                // is right.
                return Err(Refusal::OutPort);
            }
            let decapsulated = translation.decapsulated_bytes;
            let sent_max = translation.encapsulated_max.unwrap_or(out.mtu + ETHERNET_BYTES);
            if (received.mtu + ETHERNET_BYTES).saturating_sub(decapsulated) > sent_max {
                return Err(Refusal::Mtu);
            }
        }
        let direction = (from.connection.id, from.connection.is_reply);
        if self.directions.contains(&direction) {
            return Err(Refusal::Twice);
        }
        let handle = self.create(in_port, &translation.rule, idle)?;
        log::debug!(target: "netdev_offload", "{}", Commands(translation.in_port, &translation.rule));
        self.directions.insert(direction);
        let id = self.free_rules.pop().unwrap_or(self.rules.len() as u32);
        if id as usize == self.rules.len() {
            self.rules.push(None);
        }
        let read = OffloadTraffic::default();
        self.rules[id as usize] = Some(Installed { handle, direction, read });
        Ok(OffloadId(id))
    }

    fn refusal_words(&self) -> Option<Arc<str>> {
        self.refusal_words.clone()
    }

    fn remove(&mut self, id: OffloadId) -> OffloadTraffic {
        let traffic = self.read(id).traffic;
        let Some(rule) = self.rules.get_mut(id.0 as usize).and_then(Option::take) else {
            return OffloadTraffic::default();
        };
        self.free_rules.push(id.0);
        self.directions.remove(&rule.direction);
        if let Err(words) = self.device.destroy(rule.handle) {
            // The rule must not outlive what it hangs on, so that all rules of the ports go.
            log::error!(
                target: "netdev_offload",
                "DPDK: cannot remove a rule: {words}; all rules are removed"
            );
            self.ports.values().for_each(|port| self.device.flush(port.number));
        }
        traffic
    }

    fn status(&mut self, id: OffloadId) -> OffloadStatus {
        self.read(id)
    }

    fn passed(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
