//! The kernel as a device that forwards by itself.

use crate::layout::{PUSH_VLAN, Rule};
use crate::program::{Program, ProgramError};
use crate::rule::{Key, Translation, translate};
use crate::slots::between;
use aya::maps::MapError;
use aya::programs::xdp::XdpLinkId;
use base::PortNo;
use flow::{
    FlowOffload, OffloadId, OffloadRefusal, OffloadRule, OffloadStatus, OffloadTraffic, Refusal,
};
use hashbrown::HashMap;
use std::time::Duration;

/// An Ethernet header and a VLAN tag, which the MTU does not count.
const ETHERNET_BYTES: u32 = wire::ethernet::HEADER_LEN as u32;
const TAG_BYTES: u32 = wire::vlan::HEADER_LEN as u32;

/// Forwards packets of offloaded connections by an XDP program on the ports' devices.
pub struct XdpOffload {
    program: Program,
    ports: HashMap<PortNo, Port>,
    /// By the number of an [`OffloadId`].
    rules: Vec<Option<Installed>>,
    free_rules: Vec<u32>,
    /// The slots of connections, by their number.
    connections: HashMap<u32, Connection>,
    free_slots: Vec<u32>,
    /// Of the connection that came last.
    generation: u64,
}

/// A device that packets may be sent to, and may be offloaded from where it has the program.
struct Port {
    name: String,
    ifindex: u32,
    mtu: u32,
    link: Option<XdpLinkId>,
}

/// A rule that is in the program's map.
#[derive(Clone, Copy)]
struct Installed {
    key: Key,
    connection: u32,
    slot: u32,
    generation: u64,
    direction: usize,
    /// The word of traffic when it was read last.
    read: u64,
}

struct Connection {
    slot: u32,
    generation: u64,
    /// Which directions have a rule.
    directions: [bool; 2],
}

impl XdpOffload {
    /// Loads the program, with room for so many connections.
    ///
    /// # Errors
    /// There is no program in this build, or the kernel does not take it.
    pub fn new(connections: u32) -> Result<XdpOffload, ProgramError> {
        let program = Program::load(connections)?;
        let free_slots = (0..program.slots.len() as u32).rev().collect();
        Ok(XdpOffload {
            program,
            ports: HashMap::new(),
            rules: Vec::new(),
            free_rules: Vec::new(),
            connections: HashMap::new(),
            free_slots,
            generation: 0,
        })
    }

    /// Whether the program was built, so that [`Self::new`] can succeed.
    pub fn is_built() -> bool {
        crate::program::is_built()
    }

    /// Makes a device one that packets may be sent to, and where `receives` says so one whose packets
    /// may be offloaded. Returns whether the port is new or changed.
    ///
    /// # Errors
    /// The device does not take the program.
    pub fn add_port(
        &mut self,
        port: PortNo,
        (name, ifindex, mtu): (&str, u32, u32),
        receives: bool,
    ) -> Result<bool, ProgramError> {
        if let Some(known) = self.ports.get_mut(&port)
            && (known.name.as_str(), known.ifindex, known.link.is_some())
                == (name, ifindex, receives)
            && known.mtu == mtu
        {
            return Ok(false);
        }
        self.remove_port(port);
        self.program.send_to(name, ifindex)?;
        let link = if receives { Some(self.program.attach(name, ifindex)?) } else { None };
        self.ports.insert(port, Port { name: name.to_owned(), ifindex, mtu, link });
        Ok(true)
    }

    /// Forgets a port: the program leaves its device. The caller removes the port's rules.
    pub fn remove_port(&mut self, port: PortNo) {
        let Some(known) = self.ports.remove(&port) else { return };
        if let Some(link) = known.link {
            self.program.detach(link);
        }
        self.program.send_no_more_to(known.ifindex);
    }

    /// Whether packets of a port may be offloaded.
    pub fn receives_from(&self, port: PortNo) -> bool {
        self.ports.get(&port).is_some_and(|port| port.link.is_some())
    }

    pub(crate) fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    pub(crate) fn ifindex(&self, port: PortNo) -> Option<u32> {
        Some(self.ports.get(&port)?.ifindex)
    }

    /// The slot of a connection, a new one if it has none, for a rule in one direction.
    fn place(&mut self, connection: u32, direction: usize) -> Result<(u32, u64), Refusal> {
        if let Some(known) = self.connections.get_mut(&connection) {
            if self.program.slots.is_ended(known.slot, known.generation) {
                return Err(Refusal::Ended);
            }
            if std::mem::replace(&mut known.directions[direction], true) {
                return Err(Refusal::Twice);
            }
            return Ok((known.slot, known.generation));
        }
        let slot = self.free_slots.pop().ok_or(Refusal::Full)?;
        self.generation += 1;
        let generation = self.generation;
        self.program.slots.begin(slot, generation);
        let mut directions = [false; 2];
        directions[direction] = true;
        self.connections.insert(connection, Connection { slot, generation, directions });
        Ok((slot, generation))
    }

    /// A direction of a connection has no rule any more.
    fn leave(&mut self, connection: u32, direction: usize) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        known.directions[direction] = false;
        if known.directions == [false; 2] {
            self.program.slots.end(known.slot);
            self.free_slots.push(known.slot);
            self.connections.remove(&connection);
        }
    }

    fn put(&mut self, key: Key, rule: &Rule) -> Result<(), OffloadRefusal> {
        let put = match key {
            Key::V4(key) => self.program.rules_v4.insert(key, rule, 0),
            Key::V6(key) => self.program.rules_v6.insert(key, rule, 0),
        };
        put.map_err(|error| {
            let words = Some(error.to_string().into());
            OffloadRefusal { kind: Refusal::Device, words }
        })
    }
}

impl XdpOffload {
    /// Takes a rule out of the map, unless a later one of the same packets stands there.
    fn take(&mut self, rule: &Installed) -> Result<(), MapError> {
        let Program { rules_v4, rules_v6, .. } = &mut self.program;
        let is_it = |there: &Rule| there.generation == rule.generation;
        match rule.key {
            Key::V4(key) if rules_v4.get(&key, 0).is_ok_and(|it| is_it(&it)) => {
                rules_v4.remove(&key)
            }
            Key::V6(key) if rules_v6.get(&key, 0).is_ok_and(|it| is_it(&it)) => {
                rules_v6.remove(&key)
            }
            _ => Ok(()),
        }
    }
}

/// The longest frame that comes in and is forwarded. Larger ones were not on a wire like this, and are several
/// packets that the kernel has yet to cut (GSO), or do not fit the way out.
fn frame_bytes_max(translated: &Translation, in_mtu: u32, out: Option<&Port>) -> u32 {
    let Translation { rule, outer_bytes, .. } = translated;
    let Some(&Port { mtu: out_mtu, .. }) = out else { return u32::MAX };
    let mut most = out_mtu.saturating_add(ETHERNET_BYTES);
    if let Some(frame_max) = translated.frame_max {
        let pushed = if rule.does & PUSH_VLAN != 0 { TAG_BYTES } else { 0 };
        most = most.saturating_sub(rule.header_bytes).min(frame_max).saturating_sub(pushed);
    }
    if *outer_bytes > 0 {
        // Frames that the kernel has yet to cut cannot be decapsulated.
        most = most.saturating_add(*outer_bytes).min(in_mtu.saturating_add(ETHERNET_BYTES));
    }
    most
}

/// The key with the device that packets come in on.
fn on_device(key: Key, ifindex: u32) -> Key {
    match key {
        Key::V4(key) => Key::V4(crate::layout::KeyV4 { port: ifindex, ..key }),
        Key::V6(key) => Key::V6(crate::layout::KeyV6 { port: ifindex, ..key }),
    }
}

impl FlowOffload for XdpOffload {
    fn install(&mut self, from: &OffloadRule, idle: Duration) -> Result<OffloadId, OffloadRefusal> {
        let translated = translate(from)?;
        let in_port = self.ports.get(&from.in_port()).filter(|port| port.link.is_some());
        let in_port = in_port.ok_or(Refusal::InPort)?;
        let ifindex = in_port.ifindex;
        let port = |out| self.ports.get(&out).ok_or(Refusal::OutPort);
        let out = translated.out.map(port).transpose()?;
        // To send a packet back where it came from is left to the switch, which knows when that is right.
        if translated.out == Some(from.in_port()) {
            return Err(Refusal::OutPort.into());
        }
        let (connection, direction) = (from.connection.id, usize::from(from.connection.is_reply));
        let rule = Rule {
            out: out.map_or(0, |out| out.ifindex),
            frame_bytes_max: frame_bytes_max(&translated, in_port.mtu, out),
            direction: direction as u32,
            idle_ns: idle.as_nanos() as u64,
            ..translated.rule
        };
        let (slot, generation) = self.place(connection, direction)?;
        let key = on_device(translated.key, ifindex);
        if let Err(refusal) = self.put(key, &Rule { slot, generation, ..rule }) {
            self.leave(connection, direction);
            return Err(refusal);
        }
        let read = self.program.slots.traffic(slot, direction);
        let installed = Installed { key, connection, slot, generation, direction, read };
        let id = self.free_rules.pop().unwrap_or(self.rules.len() as u32);
        if id as usize == self.rules.len() {
            self.rules.push(None);
        }
        self.rules[id as usize] = Some(installed);
        Ok(OffloadId(id))
    }

    fn remove(&mut self, id: OffloadId) -> OffloadTraffic {
        let Some(rule) = self.rules.get_mut(id.0 as usize).and_then(Option::take) else {
            return OffloadTraffic::default();
        };
        self.free_rules.push(id.0);
        if let Err(error) = self.take(&rule) {
            log::warn!(target: "netdev_offload", "XDP: cannot remove a rule: {error}");
            // Its packets are passed up all the same, those of the other direction with them.
            self.program.slots.end(rule.slot);
        }
        let traffic = between(rule.read, self.program.slots.traffic(rule.slot, rule.direction));
        self.leave(rule.connection, rule.direction);
        traffic
    }

    fn status(&mut self, id: OffloadId) -> OffloadStatus {
        let Some(rule) = self.rules.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return OffloadStatus::default();
        };
        let slots = &self.program.slots;
        let word = slots.traffic(rule.slot, rule.direction);
        let traffic = between(std::mem::replace(&mut rule.read, word), word);
        OffloadStatus { traffic, is_ended: slots.is_ended(rule.slot, rule.generation) }
    }

    fn passed(&self) -> Vec<(&'static str, u64)> {
        self.program.passed()
    }
}

#[cfg(test)]
mod tests;
