//! The running switch: the control thread's state, and how events change it.
//!
//! This state belongs to one thread. Tasks (sockets, timers, the workers' events) borrow the [`Switch`]
//! between awaits, report events to it, and then call [`Switch::settle`], which revalidates flows and sends
//! the resulting commands to workers and connections.

mod assignment;
mod balance;
mod capabilities;
pub mod command_line;
mod commands;
#[cfg(test)]
mod compatibility;
mod configuration_log;
mod configure;
mod confinement;
mod controller_status;
mod controllers;
mod counters;
mod datapaths;
mod device_events;
mod device_handle;
mod device_kind;
mod device_links;
mod device_moves;
mod device_place;
mod devices;
mod dpdk;
mod dummy;
mod dummy_ports;
pub mod expiry;
mod fail_open;
mod flow_file;
mod flow_log;
mod flush;
pub mod free_memory;
mod fresh;
mod handlers;
mod interfaces;
pub mod latency;
mod link_task;
mod mac_address;
mod metrics;
mod monitors;
mod mtu;
mod offload;
mod openflow_tasks;
mod options;
mod ovsdb_task;
mod pmd_sleep;
mod port_monitor;
mod processors;
mod queue_log;
mod replace_workers;
mod report;
mod route_task;
pub mod run;
mod rxq;
mod rxq_places;
mod secret;
mod sessions;
mod settings;
mod slow_path;
mod slow_path_threads;
mod statistics;
mod stream;
mod system_statistics;
mod tracing;
mod tunnels;
mod usage;
mod vhost;
mod worker_loop;
mod worker_messages;
mod worker_ports;
mod worker_report;
mod worker_task;
mod worker_thread;
use crate::stream::TlsSettings;
use base::Instant;
use conntrack::{Config as ConntrackConfig, Conntrack};
use control::Desired;
use datapath::WorkerConfig;
use devices::Devices;
pub use dummy::Dummy;
use flow::Upcall;
use ofproto::connection::{self, ConnId, Connections};
use ofproto::{BridgeId, Ofproto, Outbox};
use port::PortError;
pub use processors::Processors;
pub use settings::Settings;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use worker_messages::{WorkerEvent, WorkerMode};
use worker_thread::WorkerThread;

/// The switch, shared by tasks.
pub type Shared = Rc<RefCell<Switch>>;

/// Upcalls answered before other events get their turn.
const UPCALL_BUDGET: usize = 64;

/// The control thread's state.
pub struct Switch {
    settings: Settings,
    /// TLS settings from the command line and the configuration.
    tls: TlsSettings,
    ofproto: Ofproto,
    connections: Connections,
    conntrack: Arc<Conntrack>,
    /// The threads that answer misses, and the state that they share with this one.
    slow: slow_path_threads::SlowPath,
    unstartable: Option<slow_path_threads::SlowPath>,
    handler_shared: Arc<handlers::HandlerShared>,
    threads: Option<handlers::Threads>,
    /// Upcalls that were dropped in replaced queues.
    lost_before: BTreeMap<base::PortNo, u64>,
    latency: Arc<latency::Latency>,
    workers: Vec<WorkerThread>,
    devices: Devices,
    /// Further datapaths.
    datapaths: datapaths::Datapaths,
    balancer: balance::Balancer,
    offload: offload::Offload,
    /// The queue settings that were logged last.
    announced: Option<control::QueueOptions>,
    desired: Desired,
    /// Whether dummy ports need polling workers.
    polls_dummies: bool,
    /// While flows are restored (`other_config:flow-restore-wait`), misses are dropped and controllers are
    /// not connected.
    is_restoring: bool,
    configured: configure::Configured,
    tunnels: tunnels::Tunnels,
    monitoring: monitors::Monitoring,
    database: Option<report::Database>,
    /// Notified when there is something to send to the database.
    pub database_wake: Rc<Notify>,
    /// Notified when work on many megaflows must continue.
    pub upkeep_wake: Rc<Notify>,
    /// Notified when the first configuration is applied.
    pub ready: Rc<Notify>,
    outbox: Outbox,
    /// Notifiers of the sessions' writers.
    outputs: BTreeMap<ConnId, Rc<Notify>>,
    /// The channel of the workers' events.
    events: UnboundedSender<WorkerEvent>,
    inbox: Rc<RefCell<UnboundedReceiver<WorkerEvent>>>,
    started: Instant,
    dpdk: dpdk::Dpdk,
    flow_gauge: counters::FlowGauge,
    free_memory: free_memory::FreeMemory,
    /// Whether dumps identify flows only by ufid (`upcall/enable-ufid`).
    uses_ufid: bool,
    /// Samples of the counters over the last hour.
    samples: VecDeque<counters::Sample>,
    /// Until when connection events are recorded, if they are.
    watched_until: Option<Instant>,
    traces: commands::Traces,
    /// When workers log iterations.
    turn_log: metrics::LogSettings,
    /// Timeout policies of zones; each is identified by its index plus one.
    timeout_policies: Vec<BTreeMap<String, u32>>,
    /// How often the workers were replaced.
    generation: u32,
    /// Clients of `revalidator/wait` that have no answer yet.
    upkeep_waits: Vec<daemon::unixctl::Answer>,
    /// Actions that wait for fresh statistics.
    fresh: Vec<fresh::WhenFresh>,
    upcall_cost: counters::UpcallCost,
    /// A buffer for upcalls taken from the queue.
    batch: Vec<Upcall>,
    weak: std::rc::Weak<RefCell<Switch>>,
}

impl Switch {
    /// Returns a switch without bridges, with one sleeping worker. [`worker_task::serve_workers`] must run.
    pub fn start(settings: Settings) -> Result<Shared, PortError> {
        let (events, inbox) = unbounded_channel();
        let devices = Devices::new()?;
        let slow = slow_path_threads::SlowPath::at_start(&settings);
        let latency = Arc::<latency::Latency>::default();
        let datapath = settings.dummy.datapath_name();
        let handler_shared = handlers::HandlerShared::new(slow, &events, &latency, datapath);
        let shared = Rc::new_cyclic(|weak| {
            RefCell::new(Switch {
                tls: settings.tls.clone(),
                ofproto: commands::begin_ofproto(settings.dummy),
                settings,
                connections: Connections::default(),
                conntrack: Arc::new(Conntrack::new(secret::secret(), ConntrackConfig::default())),
                slow,
                unstartable: None,
                handler_shared,
                threads: None,
                lost_before: BTreeMap::new(),
                latency,
                workers: Vec::new(),
                devices,
                datapaths: datapaths::Datapaths::default(),
                balancer: balance::Balancer::default(),
                offload: offload::Offload::default(),
                announced: None,
                desired: Desired::default(),
                polls_dummies: false,
                is_restoring: true,
                configured: configure::Configured::default(),
                tunnels: tunnels::Tunnels::default(),
                monitoring: monitors::Monitoring::default(),
                database: None,
                database_wake: Rc::new(Notify::new()),
                upkeep_wake: Rc::new(Notify::new()),
                ready: Rc::new(Notify::new()),
                outbox: Outbox::default(),
                outputs: BTreeMap::new(),
                events,
                inbox: Rc::new(RefCell::new(inbox)),
                started: clock::now(),
                dpdk: dpdk::Dpdk::default(),
                flow_gauge: counters::FlowGauge::default(),
                free_memory: free_memory::FreeMemory::default(),
                uses_ufid: true,
                samples: VecDeque::new(),
                watched_until: None,
                traces: commands::Traces::default(),
                turn_log: metrics::LogSettings::default(),
                timeout_policies: Vec::new(),
                generation: 0,
                upkeep_waits: Vec::new(),
                fresh: Vec::new(),
                upcall_cost: counters::UpcallCost::default(),
                batch: Vec::new(),
                weak: weak.clone(),
            })
        });
        shared.borrow_mut().start_workers(&[WorkerMode::Sleeping], WorkerConfig::default())?;
        Ok(shared)
    }

    /// Returns the OpenFlow side of the switch.
    pub fn ofproto(&self) -> &Ofproto {
        &self.ofproto
    }

    /// Returns the OpenFlow side of the switch for changes; [`Self::settle`] must follow.
    pub fn ofproto_mut(&mut self) -> &mut Ofproto {
        &mut self.ofproto
    }

    /// Closes the OpenFlow connections of a bridge; outgoing ones are reconnected.
    pub fn hang_up(&mut self, bridge: BridgeId) {
        self.connections.hang_up(bridge, connection::CloseReason::Asked);
    }

    /// Returns connection tracking.
    pub fn conntrack(&self) -> &Arc<Conntrack> {
        &self.conntrack
    }

    /// Returns the latencies of upcalls.
    pub fn latency(&self) -> &latency::Latency {
        &self.latency
    }

    /// Returns the workers.
    pub fn workers(&self) -> &[WorkerThread] {
        &self.workers
    }

    /// Returns the datapath's ports.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns the datapath's ports for queries and changes.
    pub fn devices_mut(&mut self) -> &mut Devices {
        &mut self.devices
    }

    /// Returns the TLS settings.
    pub fn tls(&self) -> &TlsSettings {
        &self.tls
    }

    /// Answers a bounded number of upcalls. Returns whether more wait.
    fn answer_upcalls(&mut self, now: Instant) -> bool {
        let mut batch = std::mem::take(&mut self.batch);
        self.handler_shared.upcalls.pop(UPCALL_BUDGET, &mut batch);
        let (count, taken) = (batch.len() as u64, clock::now());
        if self.is_restoring {
            self.outbox.commands.extend(batch.drain(..).filter_map(Upcall::refusal));
        }
        let number = self.slow.others();
        if !batch.is_empty() {
            self.latency.batch(number, batch.len());
        }
        let datapath = self.settings.dummy.datapath_name();
        let first = self.outbox.commands.len();
        for upcall in batch.drain(..) {
            flow_log::upcall(datapath, &upcall);
            let stamps = latency::taken(&upcall, number, taken);
            let before = self.outbox.commands.len();
            self.ofproto.upcall(now, upcall, &mut self.outbox);
            latency::stamp(stamps, self.outbox.commands.get_mut(before..).unwrap_or_default());
        }
        let translated = clock::now();
        let answers = self.outbox.commands.get_mut(first..).unwrap_or_default();
        latency::translated(answers, translated);
        self.upcall_cost.add(count, translated - now);
        self.batch = batch;
        !self.handler_shared.upcalls.is_empty()
    }

    /// Periodic work.
    pub fn tick(&mut self) {
        let now = clock::now();
        self.catch_up();
        self.unwatch_connections(now);
        self.end_unwatched_trace(now);
        self.ofproto.tick(now, &mut self.outbox);
        self.with_sessions(|sessions, switch| sessions.tick(switch));
        self.turn_datapaths();
        self.watch_controllers();
        self.balance_queues();
        self.sample_counters();
        self.watch_dpdk_links(now);
        self.count_for_monitors();
        self.report_controllers();
        let flows = self.ofproto.megaflow_counters().current + self.ofproto.flow_count();
        if self.free_memory.is_due(flows) {
            daemon::memory::give_back();
        }
        self.settle();
    }

    /// Calls `f` with the sessions and the state that they use.
    fn with_sessions(&mut self, f: impl FnOnce(&mut Connections, &mut connection::Switch<'_>)) {
        let devices = &mut self.devices;
        let mut counters = |port| devices.counters(port);
        let mut lent = connection::Switch {
            core: &mut self.ofproto,
            now: clock::now(),
            out: &mut self.outbox,
            counters: &mut counters,
        };
        f(&mut self.connections, &mut lent);
    }

    /// Carries out the consequences of the last events.
    pub fn settle(&mut self) {
        let now = clock::now();
        self.flush_connections(now);
        let mut has_more = self.go_on(now);
        // Only requests that came before an answer of the workers can be behind a barrier that is passed, so this ends.
        while self.pass_barriers() {
            has_more = self.go_on(now);
        }
        if has_more || self.connections.has_work() {
            self.upkeep_wake.notify_one();
        }
        self.apply_monitor_changes();
        self.wake_revalidators();
        self.answer_upkeep_waits(has_more);
        self.send_commands();
        for (port, up) in std::mem::take(&mut self.outbox.port_admin) {
            self.set_device_up(port, up);
        }
        for (id, output) in &self.outputs {
            if self.connections.has_output(*id) || self.connections.is_closing(*id).is_some() {
                output.notify_one();
            }
        }
    }

    /// Continues the work on many megaflows by a step, and tells controllers what happened.
    fn go_on(&mut self, now: Instant) -> bool {
        let has_more = self.ofproto.go_on(now, &mut self.outbox);
        self.connections.deliver(&mut self.ofproto, now);
        has_more
    }

    /// Goes on with requests behind barriers. Returns whether there were any.
    fn pass_barriers(&mut self) -> bool {
        let mut is_any = false;
        self.with_sessions(|sessions, switch| is_any = sessions.pass_barriers(switch));
        is_any
    }

    /// Returns the bridge with this name.
    fn bridge_id(&self, name: &str) -> Option<BridgeId> {
        self.ofproto.bridges().named(name).map(|bridge| bridge.id)
    }

    /// Starts a task that ends when the switch drops its handle.
    fn spawn(&self, start: impl FnOnce(&Shared) -> JoinHandle<()>) -> Option<JoinHandle<()>> {
        self.weak.upgrade().map(|shared| start(&shared))
    }
}
