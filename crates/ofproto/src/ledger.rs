//! The state of a bridge that translation does not read: when addresses were last seen, counters of hidden
//! flows, eviction order, learned cookies and the users of groups and meters. Snapshots do not contain it, so
//! changing it costs no copy.

use crate::Ofproto;
use crate::bridge::BridgeConfig;
use crate::dependency::Dependency;
use crate::eviction::Evictions;
use crate::hidden::HiddenFlows;
use crate::ids::BridgeId;
use crate::learned::LearnedCookies;
use crate::mac_table::MacTable;
use crate::mirror::MirrorId;
use crate::rule::{Rule, each_group, each_meter};
use crate::users::Users;
use base::{Instant, MacAddr};
use flow::FlowStats;
use std::collections::BTreeMap;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The learned addresses with their ages.
    pub macs: MacTable,
    pub hidden: HiddenFlows,
    pub learned: LearnedCookies,
    pub group_users: Users,
    pub meter_users: Users,
    pub evictions: Evictions,
    /// Packets and bytes that each mirror of the configuration copied.
    pub mirrored: BTreeMap<MirrorId, (u64, u64)>,
    /// When a device of the underlay last went down: packets received earlier teach no neighbours.
    pub neighbours_since: Instant,
}

impl Ledger {
    /// The ledger of a new bridge.
    pub fn new(config: &BridgeConfig, now: Instant) -> Self {
        let mut macs = MacTable::new(config.mac_table_size, config.mac_aging_s);
        macs.set_flood_vlans(config.flood_vlans.clone());
        let mut ledger = Ledger {
            macs,
            hidden: HiddenFlows::new(now),
            learned: LearnedCookies::default(),
            group_users: Users::new(each_group),
            meter_users: Users::new(each_meter),
            evictions: Evictions::default(),
            mirrored: BTreeMap::new(),
            neighbours_since: Instant::ZERO,
        };
        ledger.follow_mirrors(config);
        ledger
    }

    /// Keeps the counts of mirrors that the configuration has.
    pub fn follow_mirrors(&mut self, config: &BridgeConfig) {
        let before = std::mem::take(&mut self.mirrored);
        let ids = config.mirrors.iter().map(|mirror| mirror.id);
        self.mirrored = ids.map(|id| (id, before.get(&id).copied().unwrap_or_default())).collect();
    }

    /// Counts copies. Those of a mirror that is gone are not counted.
    pub fn count_mirrored(&mut self, mirror: MirrorId, more: &FlowStats) {
        if let Some((packets, bytes)) = self.mirrored.get_mut(&mirror) {
            *packets += more.packets;
            *bytes += more.bytes;
        }
    }

    /// A flow is added to its table, or replaces another.
    pub fn add_flow(&mut self, rule: &Rule) {
        self.learned.add(&rule.actions);
        self.group_users.add(rule.id, &rule.actions);
        self.meter_users.add(rule.id, &rule.actions);
        self.evictions.put(rule);
    }

    /// A flow is removed.
    pub fn remove_flow(&mut self, rule: &Rule) {
        self.learned.remove(&rule.actions);
        self.group_users.remove(rule.id, &rule.actions, &[]);
        self.meter_users.remove(rule.id, &rule.actions, &[]);
        self.evictions.remove(rule);
    }
}

impl Ofproto {
    pub(crate) fn ledger(&self, id: BridgeId) -> Option<&Ledger> {
        self.ledgers.get(&id)
    }

    pub(crate) fn ledger_mut(&mut self, id: BridgeId) -> Option<&mut Ledger> {
        self.ledgers.get_mut(&id)
    }

    /// The learned addresses of a bridge, with their ages.
    pub fn macs(&self, id: BridgeId) -> Option<&MacTable> {
        self.ledger(id).map(|ledger| &ledger.macs)
    }

    /// The packets and bytes that each mirror copied.
    pub fn mirrored(&self) -> impl Iterator<Item = (MirrorId, (u64, u64))> + '_ {
        self.ledgers.values().flat_map(|ledger| ledger.mirrored.iter().map(|(&id, &it)| (id, it)))
    }

    /// Applies the tables' configuration to the eviction order.
    pub(crate) fn follow_tables(&mut self, id: BridgeId) {
        if let (Some(bridge), Some(ledger)) = (self.bridges.get(id), self.ledgers.get_mut(&id)) {
            ledger.evictions.follow(&bridge.tables, &self.rules);
            ledger.evictions.go_on(&self.rules, &mut self.remains);
        }
    }

    /// Copies added, moved and removed addresses to the table that translation reads.
    pub(crate) fn follow_macs(&mut self, id: BridgeId) {
        let Some(ledger) = self.ledgers.get_mut(&id) else { return };
        if !ledger.macs.has_changed() {
            return;
        }
        let Some(bridge) = self.bridges.get_mut(id) else { return };
        let changed: Vec<(u16, MacAddr)> = ledger.macs.take_changed().collect();
        for (vlan, mac) in changed {
            bridge.addresses.set((vlan, mac), ledger.macs.get(vlan, mac));
            self.changes.one(Dependency::Mac { bridge: id, vlan, mac });
        }
    }
}
