//! The OpenFlow side of the switch: bridges with their ports, flow tables and learned addresses,
//! and the translation of flows into what the datapath's workers do.
//!
//! Nothing here reads a clock or a socket, and nothing blocks: the caller reports what happened to
//! [`Ofproto`], which returns commands for workers ([`Outbox`]) and events for OpenFlow connections
//! ([`Event`]).
//!
//! | what happened | method |
//! |---|---|
//! | the configuration changed | [`Ofproto::add_bridge`], [`Ofproto::add_port`] and so on |
//! | a controller changes flows | [`Ofproto::flow_mod`] |
//! | a packet missed in a worker | [`Ofproto::upcall`] |
//! | a worker sent statistics of its flows | [`Ofproto::dump`] |
//! | time passed | [`Ofproto::tick`], [`Ofproto::revalidate`] |

#![forbid(unsafe_code)]

mod addresses;
mod bridge;
mod bridges;
mod carried;
mod change;
mod changed;
mod config;
pub mod connection;
mod credits;
mod datapath_mask;
mod dependency;
mod describe;
mod effect;
mod events;
mod eviction;
mod exact;
mod fdb;
mod features;
mod flow_changes;
mod flow_check;
mod flow_mod;
mod flush;
mod group;
mod group_mod;
mod handler;
mod hidden;
mod ids;
mod installed;
mod learned;
mod ledger;
mod links;
mod lookup;
mod mac_table;
mod meter_mod;
mod mirror;
mod options;
mod packet_out;
mod port;
mod port_status;
mod protocol_out;
mod recirc;
mod removals;
mod resume;
mod revalidate;
mod rule;
mod selection;
mod snapshot;
mod statistics;
mod table;
mod table_features;
mod table_mod;
#[cfg(test)]
mod test_bridge;
pub mod text;
mod timeouts;
mod tlv_table;
mod trace;
mod translate;
mod underlay;
mod upcall;
mod upkeep;
mod users;
mod vlan;
mod work;

pub use bridge::{Bridge, BridgeConfig, ControllerState, FailMode, Fragments};
pub use bridges::Bridges;
pub use carried::Carried;
pub use config::Config;
pub use events::{Event, FlowChange};
pub use features::Features;
pub use flow_mod::Transaction;
pub use group::{Group, Groups};
pub use handler::{After, Handler};
pub use hidden::FAIL_OPEN_PRIORITY;
pub use ids::{BridgeId, RuleId};
pub use installed::{DatapathFlow, InstalledCounters};
pub use mac_table::{MacCounters, MacEntry, MacTable};
pub use meter_mod::Meters;
pub use mirror::{MirrorConfig, MirrorId, MirrorOutput};
pub use port::{Monitored, Port, PortDevice, PortRefused, PortSpec};
pub use protocol_out::{ProtocolFrame, ProtocolSender, Sending};
pub use revalidate::Revalidator;
pub use rule::{Rule, Rules};
pub use statistics::{Aggregate, FlowPages};
pub use table::{TableConfig, Tables};
pub use trace::TraceRequest;
pub use upcall::MegaflowPages;
pub use vlan::{PriorityTags, VlanMode};

use ::table::{Passages, Remains};
use base::{Instant, MacAddr, OfPort, PortNo, WorkerId, Zone};
use connection::ConnId;
use dependency::Dependency;
use flow::FlowCommand;
use flow_changes::FlowChanges;
use flow_mod::Undo;
use ledger::Ledger;
use meter_mod::MeterNumbers;
use openflow::message::{CtFlush, PortDesc, PortReason};
use recirc::RecircTable;
use removals::Removals;
use snapshot::{Megaflows, Shared, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use timeouts::Timeouts;
use tunnel::Underlay;
use underlay::Questions;
use upkeep::Upkeep;
use work::{Changes, Patience};

/// What the caller has to carry out after a call.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Commands for workers, in order.
    pub commands: Vec<(WorkerId, FlowCommand)>,
    /// Whether the commands request statistics that must include all that devices forwarded.
    pub reads_devices: bool,
    /// Zones whose connections are to be flushed.
    pub conntrack_flush: Vec<Zone>,
    /// Further connections to be flushed (`ovs-ofctl ct-flush`), each with the session that waits for
    /// [`connection::Connections::flushed`].
    pub conntrack_flush_tuples: Vec<(ConnId, CtFlush)>,
    /// Datapath ports whose devices a controller sets up (true) or down, in order (OpenFlow's
    /// `OFPPC_PORT_DOWN`). The port is described so from now on; if setting it fails, report that with
    /// [`Ofproto::set_port`].
    pub port_admin: Vec<(PortNo, bool)>,
}

/// All bridges and their megaflows.
#[derive(Debug)]
pub struct Ofproto {
    config: Config,
    /// The flow limit.
    flow_limit: usize,
    bridges: Bridges,
    ledgers: BTreeMap<BridgeId, Ledger>,
    rules: Rules,
    timeouts: Timeouts,
    recirc: Arc<RecircTable>,
    timeout_policies: Arc<BTreeMap<Zone, u32>>,
    underlay: Arc<Underlay>,
    /// The published snapshot and the installed megaflows.
    shared: Arc<Shared>,
    /// Handlers and revalidators at work.
    passages: Passages,
    own_handler: Handler,
    own_revalidator: Revalidator,
    /// Whether the thread that owns this also revalidates.
    revalidates: bool,
    /// The Ethernet addresses of devices that may have IP addresses.
    macs: BTreeMap<String, MacAddr>,
    /// Neighbours whose addresses are to be requested.
    questions: Questions,
    events: Vec<Event>,
    removals: Removals,
    flow_changes: FlowChanges,
    /// The undo log of the open transaction.
    undo: Option<Vec<Undo>>,
    /// Distinguishes the continuations of this run from those of other runs.
    run: u64,
    /// How often workers were removed.
    workers_lost: u64,
    /// When statistics were last requested.
    last_dump: Instant,
    /// The changes since the last snapshot.
    changes: Changes,
    is_changed: bool,
    /// A change lasts over several steps, and nothing is published before its end.
    is_held: bool,
    upkeep: Upkeep,
    features: Features,
    meter_numbers: MeterNumbers,
    gone: Vec<flush::Gone>,
    /// Bridges with tables above their limit.
    evicting: BTreeSet<BridgeId>,
    /// Parts of replaced snapshots, until they are freed.
    remains: Remains,
}

impl Ofproto {
    /// No bridges.
    pub fn new(config: Config) -> Self {
        let first = Snapshot {
            bridges: Bridges::default(),
            rules: Rules::default(),
            recirc: Arc::default(),
            timeout_policies: Arc::default(),
            underlay: Arc::default(),
            features: Features::default(),
            flow_limit: config.flow_limit,
            max_idle: Duration::from_millis(config.max_idle_ms),
            patience: Patience::new(&config),
        };
        let shared = Arc::new(Shared::new(first.clone(), Megaflows::default()));
        let Snapshot { bridges, rules, recirc, timeout_policies, underlay, .. } = first;
        let passages = Passages::default();
        Ofproto {
            flow_limit: config.flow_limit,
            config,
            bridges,
            ledgers: BTreeMap::new(),
            rules,
            timeouts: Timeouts::default(),
            recirc,
            timeout_policies,
            underlay,
            own_handler: Handler::new(&shared, passages.join()),
            own_revalidator: Revalidator::new(&shared, passages.join()),
            revalidates: true,
            shared,
            passages,
            macs: BTreeMap::new(),
            questions: Questions::default(),
            events: Vec::new(),
            removals: Removals::default(),
            flow_changes: FlowChanges::default(),
            undo: None,
            run: 0,
            workers_lost: 0,
            last_dump: Instant::ZERO,
            changes: Changes::default(),
            is_changed: false,
            is_held: false,
            upkeep: Upkeep::default(),
            features: Features::default(),
            meter_numbers: MeterNumbers::default(),
            gone: Vec::new(),
            evicting: BTreeSet::new(),
            remains: Remains::default(),
        }
    }

    /// How often workers were removed. A request that waits for all workers is dropped when this changes.
    pub(crate) fn workers_lost(&self) -> u64 {
        self.workers_lost
    }

    /// Sets the number of a zone's timeout policy, or (`None`) removes it. `ct` actions that commit
    /// connections then name it.
    pub fn set_timeout_policy(&mut self, zone: Zone, policy: Option<u32>) {
        match policy {
            Some(number) => Arc::make_mut(&mut self.timeout_policies).insert(zone, number),
            None => Arc::make_mut(&mut self.timeout_policies).remove(&zone),
        };
        self.affect(Dependency::Zone(zone));
    }

    /// All bridges.
    pub fn bridges(&self) -> &Bridges {
        &self.bridges
    }

    /// A bridge.
    pub fn bridge(&self, id: BridgeId) -> Option<&Bridge> {
        self.bridges.get(id)
    }

    /// All flows.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The events since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.tell_vacancies();
        std::mem::take(&mut self.events)
    }

    /// Adds a bridge without ports. A standalone one begins with a `NORMAL` flow, a secure one without flows.
    pub fn add_bridge(&mut self, config: BridgeConfig, now: Instant) -> BridgeId {
        let standalone = config.fail_mode == FailMode::Standalone;
        let ledger = Ledger::new(&config, now);
        let id = self.bridges.add(config);
        self.ledgers.insert(id, ledger);
        self.follow_tables(id);
        if standalone {
            self.add_default_flow(id, now);
        }
        id
    }

    /// Changes a bridge's configuration. Changing the fail mode of a bridge without controllers
    /// replaces its flows (ovs: `ofproto/connmgr.c`, `connmgr_set_fail_mode`).
    pub fn set_bridge(&mut self, id: BridgeId, config: BridgeConfig, now: Instant) {
        let Some(bridge) = self.bridges.get_mut(id) else { return };
        let fail_mode_changed = bridge.config.fail_mode != config.fail_mode;
        let is_other = *bridge.config != config;
        bridge.tables.configure(&config.tables);
        if let Some(ledger) = self.ledgers.get_mut(&id) {
            ledger.macs.configure(config.mac_table_size, config.mac_aging_s);
            ledger.macs.set_flood_vlans(config.flood_vlans.clone());
            ledger.follow_mirrors(&config);
        }
        bridge.config = Arc::new(config);
        self.follow_macs(id);
        self.follow_tables(id);
        self.evict_excess(id, now);
        let Some(bridge) = self.bridges.get(id) else { return };
        let without_controllers = !bridge.controllers.configured;
        if fail_mode_changed && without_controllers {
            self.begin_flows(id, now);
        }
        if is_other {
            self.bridge_changed(id);
        }
    }

    /// Removes a bridge with its ports and flows.
    pub fn remove_bridge(&mut self, id: BridgeId) {
        self.flush_flows(id);
        self.flush_neighbours_of_bridge(id);
        self.bridge_goes(id);
        self.bridges.remove(id);
        self.ledgers.remove(&id);
        self.removals.forget_bridge(id);
    }

    /// Adds a port. Returns its number: LOCAL for the bridge's own, or the requested one if it is free.
    pub fn add_port(
        &mut self,
        id: BridgeId,
        spec: PortSpec,
        now: Instant,
    ) -> Result<OfPort, PortRefused> {
        let number = self.bridges.add_port(id, spec.clone(), now)?;
        // A new port forwards only once it exists (ovs: `ofproto/ofproto-dpif.c`, `port_run`).
        if let Some(desc) = self.describe(id, number) {
            let new = PortDesc { live: false, ..desc };
            self.tell_port(id, PortReason::Add, new.clone(), None);
            self.tell_port_change(id, number, Some(new));
        }
        self.port_changed(id, number, &spec);
        Ok(number)
    }

    /// Changes a port's configuration; name and number stay. The addresses learned behind it are removed if
    /// its VLANs, priority tags or protection change (ovs: `ofproto/ofproto-dpif.c`, `bundle_set`).
    pub fn set_port(
        &mut self,
        id: BridgeId,
        port: OfPort,
        spec: PortSpec,
    ) -> Result<(), PortRefused> {
        let before = self.describe(id, port);
        let learning_before = self.learning_of(id, port);
        let spec_before =
            self.bridges.get(id).and_then(|bridge| Some(bridge.port(port)?.spec.clone()));
        if spec_before.as_ref() == Some(&spec) {
            return Ok(());
        }
        self.bridges.set_port(id, port, spec)?;
        self.tell_port_change(id, port, before);
        if learning_before != self.learning_of(id, port) {
            self.flush_port_macs(id, port);
        }
        let spec = self.bridges.get(id).and_then(|bridge| Some(bridge.port(port)?.spec.clone()));
        let Some((spec, before)) = spec.zip(spec_before) else { return Ok(()) };
        if !spec.forwards_like(&before) {
            self.port_changed(id, port, &before);
            self.port_changed(id, port, &spec);
        } else if spec.is_up() != before.is_up() {
            self.affect(Dependency::Link { bridge: id, port });
        }
        Ok(())
    }
}
