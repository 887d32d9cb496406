//! The kernel as a device with flow offload.

use crate::layout::{POP_VLAN, PUSH_VLAN, Rule};
use crate::program::{Program, ProgramError};
use crate::rule::{DeviceRule, Key, device_rule};
use crate::slots::between;
use aya::maps::MapError;
use aya::programs::xdp::XdpLinkId;
use base::PortNo;
use flow::{
    FlowOffload, OffloadId, OffloadRefusal, OffloadRule, OffloadStatus, OffloadTraffic, Refusal,
};
use hashbrown::HashMap;
use std::time::Duration;

/// The lengths of an Ethernet header and of a VLAN tag, which the MTU does not include.
const ETHERNET_BYTES: u32 = wire::ethernet::HEADER_LEN as u32;
const TAG_BYTES: u32 = wire::vlan::HEADER_LEN as u32;

/// Forwards packets of offloaded connections by an XDP program on the ports' devices.
pub struct XdpOffload {
    program: Program,
    ports: HashMap<PortNo, Port>,
    /// The rules by number ([`OffloadId`]).
    rules: Vec<Option<Installed>>,
    free_rules: Vec<u32>,
    /// The slots of connections, by their number.
    connections: HashMap<u32, Connection>,
    free_slots: Vec<u32>,
    /// The generation of the connection that was added last.
    generation: u64,
}

/// A device that the program may send packets to. If the program is attached to it (`link`), its packets may
/// be offloaded.
struct Port {
    name: String,
    ifindex: u32,
    mtu: u32,
    link: Option<XdpLinkId>,
}

/// A rule in the map of the program.
#[derive(Clone, Copy)]
struct Installed {
    key: Key,
    connection: u32,
    slot: u32,
    generation: u64,
    direction: usize,
    /// The word of traffic at the last reading.
    read: u64,
}

struct Connection {
    slot: u32,
    generation: u64,
    /// Whether each direction has a rule.
    directions: [bool; 2],
}

impl XdpOffload {
    /// Loads the program for at most this many connections.
    ///
    /// # Errors
    /// This build has no program, or the kernel refuses it.
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

    /// Returns whether this build has the program, without which [`Self::new`] fails.
    pub fn is_built() -> bool {
        crate::program::is_built()
    }

    /// Adds a device that packets may be sent to. With `receives`, its own packets may be offloaded, too.
    /// Returns whether the port is new or changed.
    ///
    /// # Errors
    /// The program cannot be attached to the device.
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

    /// Removes a port and detaches the program from its device. The caller removes the port's rules.
    pub fn remove_port(&mut self, port: PortNo) {
        let Some(known) = self.ports.remove(&port) else { return };
        if let Some(link) = known.link {
            self.program.detach(link, known.ifindex);
        }
        self.program.send_no_more_to(known.ifindex);
    }

    /// Returns whether packets of a port may be offloaded.
    pub fn receives_from(&self, port: PortNo) -> bool {
        self.ports.get(&port).is_some_and(|port| port.link.is_some())
    }

    /// Returns how many VLAN tags the program saw in frames from a port, at most two in each, since the port was added;
    /// `None` if its packets are not offloaded. A tag that stands beside the frame is not seen.
    pub fn tags(&self, port: PortNo) -> Option<u64> {
        let port = self.ports.get(&port).filter(|port| port.link.is_some())?;
        Some(self.program.tags(port.ifindex))
    }

    pub(crate) fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    pub(crate) fn ifindex(&self, port: PortNo) -> Option<u32> {
        Some(self.ports.get(&port)?.ifindex)
    }

    /// Returns the slot and generation of a connection for a rule in one direction. Allocates a slot for a
    /// new connection.
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

    /// Records that a direction of a connection has no rule any more. Frees the slot with the last one.
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
    /// Removes a rule from the map, unless a later one has replaced it there.
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

/// Returns the maximum length of a received frame that is forwarded, and the additional length of frames with a
/// VLAN tag, which an MTU does not include. Larger frames exceed the MTU of the output port, or are GSO frames,
/// which the kernel has not segmented yet.
fn frame_bytes_max(made: &DeviceRule, in_mtu: u32, out: Option<&Port>) -> (u32, u8) {
    let DeviceRule { rule, outer_bytes, .. } = made;
    let Some(&Port { mtu: out_mtu, .. }) = out else { return (u32::MAX, 0) };
    let mut most = out_mtu.saturating_add(ETHERNET_BYTES);
    let mut tag_room = TAG_BYTES;
    if let Some(frame_max) = made.frame_max {
        let pushed = if rule.does & PUSH_VLAN != 0 { TAG_BYTES } else { 0 };
        most = most.saturating_sub(rule.header_bytes).min(frame_max).saturating_sub(pushed);
        // A tag that stays is part of what the outer packet carries.
        tag_room = if rule.does & POP_VLAN != 0 { TAG_BYTES } else { 0 };
    }
    if *outer_bytes > 0 {
        // GSO frames cannot be decapsulated.
        let in_most = in_mtu.saturating_add(ETHERNET_BYTES);
        most = most.saturating_add(*outer_bytes).min(in_most);
        tag_room = tag_room.min(in_most - most);
    }
    (most, tag_room as u8)
}

/// Returns the key with the receiving device.
fn on_device(key: Key, ifindex: u32) -> Key {
    match key {
        Key::V4(key) => Key::V4(crate::layout::KeyV4 { port: ifindex, ..key }),
        Key::V6(key) => Key::V6(crate::layout::KeyV6 { port: ifindex, ..key }),
    }
}

impl FlowOffload for XdpOffload {
    fn install(&mut self, from: &OffloadRule, idle: Duration) -> Result<OffloadId, OffloadRefusal> {
        let made = device_rule(from)?;
        let in_port = self.ports.get(&from.in_port()).filter(|port| port.link.is_some());
        let in_port = in_port.ok_or(Refusal::InPort)?;
        let ifindex = in_port.ifindex;
        let port = |out| self.ports.get(&out).ok_or(Refusal::OutPort);
        let out = made.out.map(port).transpose()?;
        // The switch sends packets out of the port that they came in on, since it knows when that is allowed.
        if made.out == Some(from.in_port()) {
            return Err(Refusal::OutPort.into());
        }
        let (connection, direction) = (from.connection.id, usize::from(from.connection.is_reply));
        let (frame_bytes_max, tag_room) = frame_bytes_max(&made, in_port.mtu, out);
        let rule = Rule {
            out: out.map_or(0, |out| out.ifindex),
            frame_bytes_max,
            tag_room,
            direction: direction as u32,
            idle_ns: idle.as_nanos() as u64,
            ..made.rule
        };
        let (slot, generation) = self.place(connection, direction)?;
        let key = on_device(made.key, ifindex);
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
            // Ending the slot passes its packets up nevertheless, including those of the other direction.
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
        let is_ended = slots.is_ended(rule.slot, rule.generation);
        OffloadStatus { traffic, is_ended, windows: None }
    }

    fn passed(&self) -> Vec<(&'static str, u64)> {
        self.program.passed()
    }
}

#[cfg(test)]
mod tests;
