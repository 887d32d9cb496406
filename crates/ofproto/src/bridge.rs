//! A bridge: its configuration, its ports and what it has learned.

use crate::Ofproto;
use crate::addresses::Addresses;
use crate::group::Groups;
use crate::ids::BridgeId;
use crate::meter_mod::Meters;
use crate::mirror::MirrorConfig;
use crate::port::{Port, PortRefused, PortSpec};
use crate::table::{TableConfig, Tables};
use base::{DatapathId, Instant, MacAddr, OfPort, limits};
use flow::OptionMapping;
use hashbrown::HashMap;
use openflow::message::{PortConfig, PortDesc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use table::Remains;

/// What a bridge does without a controller (column `fail_mode` of `Bridge`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailMode {
    /// Forwards as a learning switch.
    #[default]
    Standalone,
    /// Does what its flows say and nothing else.
    Secure,
}

/// A bridge as it is configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BridgeConfig {
    /// Its name.
    pub name: String,
    /// Its OpenFlow datapath id.
    pub datapath_id: DatapathId,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// What it does without a controller.
    pub fail_mode: FailMode,
    /// How many addresses are kept.
    pub mac_aging_s: u64,
    /// Configuration of the flow tables that differ from the defaults.
    pub mac_table_size: usize,
    /// Flow tables that do not have the defaults.
    pub tables: BTreeMap<u8, TableConfig>,
    /// VLANs in which no address is learned, so that all packets are flooded.
    pub flood_vlans: BTreeSet<u16>,
    /// Its mirrors; at most [`MirrorConfig::MAX`] of them are used.
    pub mirrors: Vec<MirrorConfig>,
    /// Forwards frames with reserved group addresses (`other_config:forward-bpdu`).
    pub forward_bpdu: bool,
    /// Manufacturer, hardware, software, serial number and description, as OpenFlow reports them.
    pub description: [String; 5],
}

impl BridgeConfig {
    /// A bridge with the defaults.
    pub fn new(name: impl Into<String>, mac: MacAddr) -> Self {
        BridgeConfig {
            name: name.into(),
            datapath_id: DatapathId(mac.to_u64()),
            mac,
            fail_mode: FailMode::default(),
            mac_aging_s: limits::MAC_AGING_S,
            mac_table_size: limits::MAC_TABLE_SIZE,
            tables: BTreeMap::new(),
            flood_vlans: BTreeSet::new(),
            mirrors: Vec::new(),
            forward_bpdu: false,
            description: Default::default(),
        }
    }
}

/// The state of a bridge's controllers, as far as it affects packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerState {
    /// Controllers are configured: the bridge begins without flows.
    pub configured: bool,
    /// The controllers have been unreachable for so long that the bridge fails open: it forwards as a
    /// learning switch and ignores its flows.
    pub fail_open: bool,
    /// Some controller speaks OpenFlow 1.2 or earlier, and packets that miss go to it
    /// (ovs: `ofproto/connmgr.c`, `connmgr_wants_packet_in_on_miss`).
    pub wants_misses: bool,
    /// Some controller is connected.
    pub connected: bool,
}

/// How flow tables treat IP fragments, as controllers set it (OpenFlow's `OFPC_FRAG_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fragments {
    /// As packets without ports.
    #[default]
    Normal,
    /// They are dropped.
    Drop,
    /// The first fragment keeps its ports, so that flows can match them.
    NxMatch,
}

/// A bridge, as translation reads it. A clone is a snapshot: it shares what neither side changes.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// Its number.
    pub id: BridgeId,
    /// As configured.
    pub config: Arc<BridgeConfig>,
    /// Its flow tables.
    pub tables: Tables,
    /// Its groups.
    pub groups: Groups,
    /// Its meters.
    pub meters: Meters,
    /// The bridge's TLV table: the tunnel options behind the `tun_metadata` fields.
    pub(crate) tunnel_options: Arc<[OptionMapping]>,
    /// The learned Ethernet addresses.
    pub(crate) addresses: Addresses,
    pub(crate) controllers: ControllerState,
    pub(crate) fragments: Fragments,
    ports: Arc<Ports>,
}

/// The ports of a bridge.
#[derive(Clone, Debug, Default)]
struct Ports {
    by_number: BTreeMap<OfPort, Port>,
    by_name: HashMap<String, OfPort>,
    /// When each number was last released.
    freed: HashMap<OfPort, Instant>,
    /// The number assigned last.
    last_number: u16,
}

/// A released number is not assigned again for an hour, unless no other is free (ovs: `ofproto/ofproto.c`,
/// `alloc_ofp_port`).
const NUMBER_REST: Duration = Duration::from_secs(3600);
/// Numbers from here on are assigned only on request (`ofport_request`).
const FIRST_ASKED: u16 = 32_768;

impl Bridge {
    pub(crate) fn new(id: BridgeId, config: BridgeConfig) -> Self {
        let mut tables = Tables::default();
        tables.configure(&config.tables);
        Bridge {
            id,
            addresses: Addresses::default(),
            config: Arc::new(config),
            tables,
            groups: Groups::default(),
            meters: Meters::default(),
            tunnel_options: Arc::new([]),
            controllers: ControllerState::default(),
            fragments: Fragments::default(),
            ports: Arc::default(),
        }
    }

    /// The port behind which an address was learned; `None` in a flooded VLAN.
    pub(crate) fn port_of(&self, vlan: u16, mac: MacAddr) -> Option<OfPort> {
        let known = self.addresses.port_of(vlan, mac);
        known.filter(|_| !self.config.flood_vlans.contains(&vlan))
    }

    /// Whether learning the address there would change anything but its age. Group addresses are never
    /// learned, and static ones never move.
    pub(crate) fn would_learn(&self, vlan: u16, mac: MacAddr, port: OfPort) -> bool {
        !mac.is_multicast()
            && !self.config.flood_vlans.contains(&vlan)
            && self.addresses.would_learn(vlan, mac, port)
    }

    /// The last reported state of the controllers.
    pub fn controllers(&self) -> ControllerState {
        self.controllers
    }

    /// The port of this number.
    pub fn port(&self, number: OfPort) -> Option<&Port> {
        self.ports.by_number.get(&number)
    }

    /// The port of this name.
    pub fn port_named(&self, name: &str) -> Option<&Port> {
        self.port(*self.ports.by_name.get(name)?)
    }

    /// All ports by number, LOCAL last.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.by_number.values()
    }

    /// All ports in flooding order: the local one first, as in Open vSwitch, whose tools and tests depend on
    /// the order of actions.
    pub fn flood_ports(&self) -> impl Iterator<Item = &Port> {
        let local = self.port(OfPort::LOCAL);
        local.into_iter().chain(self.ports().filter(|port| port.number != OfPort::LOCAL))
    }

    /// All ports as OpenFlow describes them.
    pub fn describe_ports(&self) -> Vec<PortDesc> {
        self.ports().map(Port::describe).collect()
    }

    pub(crate) fn port_mut(&mut self, number: OfPort) -> Option<&mut Port> {
        Arc::make_mut(&mut self.ports).by_number.get_mut(&number)
    }

    pub(crate) fn add_port(&mut self, spec: PortSpec, now: Instant) -> Result<OfPort, PortRefused> {
        let ports = Arc::make_mut(&mut self.ports);
        if ports.by_name.contains_key(&spec.name) {
            return Err(PortRefused::NameTaken { port: spec.name });
        }
        let number = match ports.choose_number(&spec, now) {
            Some(number) => number,
            None => return Err(PortRefused::NoNumber { port: spec.name }),
        };
        ports.freed.remove(&number);
        ports.by_name.insert(spec.name.clone(), number);
        let (config, created) = (PortConfig::empty(), now);
        let (patch_rx, patch_tx, tunnel_sequence) = Default::default();
        let port = Port { number, spec, config, created, patch_rx, patch_tx, tunnel_sequence };
        ports.by_number.insert(number, port);
        Ok(number)
    }

    pub(crate) fn remove_port(&mut self, number: OfPort, now: Instant) -> Option<Port> {
        let ports = Arc::make_mut(&mut self.ports);
        let port = ports.by_number.remove(&number)?;
        ports.by_name.remove(&port.spec.name);
        ports.freed.insert(number, now);
        Some(port)
    }
}

impl Bridge {
    /// Frees flows, groups and addresses a part at a time.
    pub(crate) fn hand_over(self, remains: &mut Remains) {
        self.tables.hand_over(remains);
        self.groups.hand_over(remains);
        self.meters.hand_over(remains);
        self.addresses.hand_over(remains);
    }
}

impl Ports {
    /// The requested number, if it is free; otherwise the next one that was not in use recently.
    fn choose_number(&mut self, spec: &PortSpec, now: Instant) -> Option<OfPort> {
        if spec.is_local {
            return (!self.by_number.contains_key(&OfPort::LOCAL)).then_some(OfPort::LOCAL);
        }
        let is_free = |number: &OfPort| {
            number.is_real() && *number != OfPort::LOCAL && !self.by_number.contains_key(number)
        };
        if let Some(number) = spec.requested.filter(is_free) {
            return Some(number);
        }
        let mut longest_free: Option<(Instant, OfPort)> = None;
        for step in 1..FIRST_ASKED {
            let number = OfPort((self.last_number + step - 1) % (FIRST_ASKED - 1) + 1);
            if self.by_number.contains_key(&number) {
                continue;
            }
            match self.freed.get(&number) {
                Some(&freed) if now - freed < NUMBER_REST => {
                    if longest_free.is_none_or(|(before, _)| freed < before) {
                        longest_free = Some((freed, number));
                    }
                }
                _ => {
                    self.last_number = number.0;
                    return Some(number);
                }
            }
        }
        longest_free.map(|(_, number)| number)
    }
}

impl Ofproto {
    /// Sets the state of the bridge's controllers. When the first controller is configured or the last one is
    /// removed, all flows are deleted (ovs: `ofproto/connmgr.c`, `connmgr_set_controllers`).
    pub fn set_controllers(&mut self, id: BridgeId, state: ControllerState, now: Instant) {
        let Some(bridge) = self.bridges.get_mut(id) else { return };
        let before = std::mem::replace(&mut bridge.controllers, state);
        if let Some(ledger) = self.ledger_mut(id) {
            ledger.hidden.set_fail_open(state.fail_open, now);
        }
        if before.configured != state.configured {
            self.begin_flows(id, now);
        }
        if before != state {
            self.bridge_changed(id);
        }
    }

    /// Sets how a bridge's flow tables treat IP fragments.
    pub fn set_fragments(&mut self, id: BridgeId, fragments: Fragments) {
        let Some(bridge) = self.bridges.get_mut(id) else { return };
        if std::mem::replace(&mut bridge.fragments, fragments) != fragments {
            self.bridge_changed(id);
        }
    }

    /// The initial flows of a bridge: none, or one for a learning switch.
    pub(crate) fn begin_flows(&mut self, id: BridgeId, now: Instant) {
        self.flush_flows(id);
        let Some(bridge) = self.bridges.get(id) else { return };
        if bridge.config.fail_mode == FailMode::Standalone && !bridge.controllers.configured {
            self.add_default_flow(id, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mac_table::MacTable;
    use crate::port::PortDevice;

    fn spec(name: &str, requested: Option<u16>) -> PortSpec {
        let device = PortDevice::Patch { peer: String::new() };
        let requested = requested.map(OfPort);
        PortSpec { requested, ..PortSpec::new(name, MacAddr::ZERO, device) }
    }

    #[test]
    fn numbers_are_not_given_again_at_once() {
        let mut bridge = Bridge::new(BridgeId(1), BridgeConfig::new("br0", MacAddr::ZERO));
        let add = |bridge: &mut Bridge, name, requested, at_s: u64| {
            bridge.add_port(spec(name, requested), Instant::from_millis(at_s * 1000)).unwrap().0
        };
        assert_eq!(add(&mut bridge, "a", None, 0), 1);
        assert_eq!(add(&mut bridge, "b", Some(1), 0), 2);
        assert_eq!(add(&mut bridge, "c", Some(7), 0), 7);
        bridge.remove_port(OfPort(2), Instant::from_millis(1000));
        assert_eq!(add(&mut bridge, "d", None, 2), 3);
        assert_eq!(add(&mut bridge, "e", Some(2), 2), 2);
        assert_eq!(add(&mut bridge, "f", Some(0xfffe), 2), 4);
        let local = PortSpec { is_local: true, ..spec("br0", None) };
        assert_eq!(bridge.add_port(local, Instant::ZERO), Ok(OfPort::LOCAL));
        let again = bridge.add_port(spec("a", None), Instant::ZERO);
        assert_eq!(again, Err(PortRefused::NameTaken { port: "a".into() }));
        assert_eq!(bridge.port_named("f").map(|port| port.number), Some(OfPort(4)));
    }
    #[test]
    fn addresses_are_seen_as_they_were_learned_but_for_flooded_vlans() {
        let config = BridgeConfig {
            flood_vlans: BTreeSet::from([5]),
            ..BridgeConfig::new("br0", MacAddr::ZERO)
        };
        let mut bridge = Bridge::new(BridgeId(1), config);
        let mut macs = MacTable::new(9, 300);
        let (mac, now) = (MacAddr([2, 0, 0, 0, 0, 1]), Instant::ZERO);
        macs.learn(now, 0, mac, OfPort(3));
        macs.set_static(now, 7, mac, OfPort(4));
        macs.set_static(now, 5, mac, OfPort(4));
        let follow = |bridge: &mut Bridge, macs: &MacTable, vlan| {
            bridge.addresses.set((vlan, mac), macs.get(vlan, mac));
        };
        [0, 5, 7].into_iter().for_each(|vlan| follow(&mut bridge, &macs, vlan));
        let seen = |bridge: &Bridge| {
            [0, 5, 7]
                .map(|vlan| (bridge.port_of(vlan, mac), bridge.would_learn(vlan, mac, OfPort(1))))
        };
        let snapshot = bridge.clone();
        let before = [(Some(OfPort(3)), true), (None, false), (Some(OfPort(4)), false)];
        assert_eq!(seen(&bridge), before);
        assert!(!bridge.would_learn(0, mac, OfPort(3)));
        assert!(!bridge.would_learn(0, MacAddr::BROADCAST, OfPort(3)));
        macs.learn(now, 0, mac, OfPort(9));
        macs.remove_static(7, mac);
        [0, 7].into_iter().for_each(|vlan| follow(&mut bridge, &macs, vlan));
        assert_eq!(seen(&bridge), [(Some(OfPort(9)), true), (None, false), (None, true)]);
        assert_eq!(seen(&snapshot), before);
    }
}
