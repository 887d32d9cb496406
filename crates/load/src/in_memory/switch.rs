//! A whole switch on one thread, without a network: a bridge with its flows, one worker, and no waiting
//! between threads.

use super::{InMemoryError, OwnTime, Watch};
use ::conntrack::Conntrack;
use ::datapath::{Answers, Outbox, UpcallQueue, Worker, WorkerConfig, WorkerStats};
use base::{Instant, MacAddr, OfPort, PortNo, WorkerId};
use flow::{DropReason, Upcall};
use ofproto::{BridgeConfig, BridgeId, FailMode, Ofproto, PortDevice, PortSpec};
use openflow::message::FlowModCommand;
use openflow::text::parse_flow;
use packet::{Batch, Pool};
use port::{PortError, RxQueue, TxCounters, TxQueue};
use std::sync::Arc;
use switch::expiry::expiry_budget;
use switch::free_memory::FreeMemory;

/// Names and numbers of the two ports, the clients' side first.
pub const PORTS: [(&str, PortNo); 2] = [("p0", PortNo(1)), ("p1", PortNo(2))];
/// Misses taken from the queue at a time.
const UPCALLS: usize = 256;

/// The switch.
pub struct Switch {
    pub(super) core: Ofproto,
    pub(super) bridge: BridgeId,
    pub(super) worker: Worker,
    conntrack: Arc<Conntrack>,
    pub(super) upcalls: Arc<UpcallQueue>,
    pub(super) orders: ofproto::Outbox,
    waiting: Vec<Upcall>,
    pub(super) out: Outbox,
    pub(super) free_memory: FreeMemory,
}

/// The components of a switch.
pub(super) struct Parts {
    pub core: Ofproto,
    pub bridge: BridgeId,
    pub worker: WorkerId,
    pub conntrack: Arc<Conntrack>,
}

/// The queues of a port.
pub struct Cable {
    /// The port.
    pub port: PortNo,
    /// Its receive queue.
    pub rx: Box<dyn RxQueue>,
    /// Its transmit queue.
    pub tx: Box<dyn TxQueue>,
}

/// Counts packets and drops them: the wire behind a port that is always fast enough.
#[derive(Debug, Default)]
pub struct Discard;

impl TxQueue for Discard {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        for packet in batch.drain(..) {
            counters.packets += 1;
            counters.bytes += packet.len() as u64;
            pool.give(packet);
        }
        counters
    }
}

impl Switch {
    /// A bridge with two ports and only these flows (in `ovs-ofctl`'s syntax, one per line). Other switches
    /// may share its connections, as several workers do, each with ports and flows of its own.
    pub fn sharing(
        flows: &str,
        worker: WorkerId,
        conntrack: Arc<Conntrack>,
    ) -> Result<Switch, InMemoryError> {
        Switch::with_ports(PORTS.len() as u16, flows, worker, conntrack)
    }

    /// As [`Switch::sharing`], with this number of ports, named by [`port_name`].
    pub fn with_ports(
        ports: u16,
        flows: &str,
        worker: WorkerId,
        conntrack: Arc<Conntrack>,
    ) -> Result<Switch, InMemoryError> {
        Switch::answered_by(Answers::Owner, ports, flows, worker, conntrack)
    }

    /// As [`Switch::with_ports`], with misses answered by handlers from [`Self::handler`] instead of the
    /// owner of the tables.
    pub fn answered_by(
        answers: Answers,
        ports: u16,
        flows: &str,
        worker: WorkerId,
        conntrack: Arc<Conntrack>,
    ) -> Result<Switch, InMemoryError> {
        let (core, bridge) = bridge(ports, flows, clock::now())?;
        Switch::of(answers, Parts { core, bridge, worker, conntrack })
    }

    /// A switch from its components, whose bridges have their flows.
    pub(super) fn of(answers: Answers, parts: Parts) -> Result<Switch, InMemoryError> {
        let Parts { core, bridge, worker, conntrack } = parts;
        let upcalls = Arc::new(UpcallQueue::answered_by(answers, fastrand::u64(..)));
        let worker = Worker::new(
            worker,
            conntrack.tracker()?,
            Arc::clone(&upcalls),
            WorkerConfig::default(),
            fastrand::u64(..),
        );
        Ok(Switch {
            core,
            bridge,
            worker,
            conntrack,
            upcalls,
            orders: ofproto::Outbox::default(),
            waiting: Vec::new(),
            out: Outbox::new(),
            free_memory: FreeMemory::default(),
        })
    }

    /// Receives one batch on a port and processes it completely, misses included. Returns the number of
    /// packets received.
    pub fn iterate(
        &mut self,
        now: Instant,
        cables: &mut [Cable],
        port: usize,
    ) -> Result<usize, PortError> {
        let received = self.receive(now, cables, port)?;
        if self.out.wake_control {
            self.answer(now);
        }
        self.send(cables);
        Ok(received)
    }

    /// The worker receives a batch on a port. Returns the number of packets received.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        cables: &mut [Cable],
        port: usize,
    ) -> Result<usize, PortError> {
        let Some(Cable { port, rx, .. }) = cables.get_mut(port) else { return Ok(0) };
        let mut batch = Batch::new();
        rx.receive(self.worker.pool(), &mut batch)?;
        let received = batch.len();
        self.worker.receive(now, *port, &mut batch, &mut self.out);
        Ok(received)
    }

    /// As [`Self::iterate`], with the time of each stage. Answers to misses belong to no stage.
    pub fn turn_timed(
        &mut self,
        now: Instant,
        cables: &mut [Cable],
        port: usize,
        watch: &mut Watch,
    ) -> Result<usize, PortError> {
        let Some(Cable { port, rx, .. }) = cables.get_mut(port) else { return Ok(0) };
        let mut batch = Batch::new();
        watch.start();
        rx.receive(self.worker.pool(), &mut batch)?;
        watch.ports();
        let received = batch.len();
        self.worker.receive_timed(now, *port, &mut batch, &mut self.out, watch);
        if self.out.wake_control {
            self.answer(now);
            watch.start();
        }
        self.send(cables);
        watch.ports();
        Ok(received)
    }

    /// Answers misses until none are left.
    fn answer(&mut self, now: Instant) {
        while std::mem::take(&mut self.out.wake_control) {
            while !self.upcalls.is_empty() {
                self.upcalls.pop(UPCALLS, &mut self.waiting);
                for upcall in self.waiting.drain(..) {
                    self.core.upcall(now, upcall, &mut self.orders);
                }
                self.core.revalidate(now, &mut self.orders);
                for (_, command) in self.orders.commands.drain(..) {
                    self.worker.command(now, command, &mut self.out);
                }
            }
        }
    }

    /// Sends the worker's output, as its thread does.
    pub(super) fn send(&mut self, cables: &mut [Cable]) {
        for (port, batch) in self.out.batches_mut() {
            let cable = cables.iter_mut().find(|cable| cable.port == port);
            let Some(Cable { tx, .. }) = cable else {
                for packet in batch.drain(..) {
                    self.worker.drop_packet(packet, DropReason::NoPort);
                }
                continue;
            };
            let sent = tx.send(self.worker.pool(), batch);
            let stats = self.worker.stats_mut();
            stats.sent += sent.packets;
            stats.sent_batches += 1;
            stats.drops.count(DropReason::TxQueueFull, sent.dropped);
        }
    }

    /// Periodic work: sorts subtables and removes expired connections.
    pub fn tick(&mut self, now: Instant) {
        self.worker.tick_alone();
        while self.conntrack.tick(now) > 0 {}
    }

    /// Removes at most `connections_max` expired connections. Returns whether more are left.
    pub fn expire(&mut self, now: Instant, connections_max: usize) -> bool {
        self.conntrack.tick_within(now, connections_max)
    }

    /// Removes a few of the worker's own expired connections, as in each iteration of the switch.
    pub fn expire_own(&mut self, now: Instant, received: usize) {
        self.worker.expire(now, expiry_budget(received as u64));
    }

    /// Sorts the subtables.
    pub fn sort(&mut self) {
        self.worker.tick_alone();
    }

    /// As [`Self::sort`], with the memory for the worker's cache prepared on another thread's time, as in the
    /// switch.
    pub fn sort_beside(&mut self, time: &mut OwnTime) {
        if let Some(wanted) = self.worker.tick() {
            let room = time.beside(|| wanted.prepare(|| ()));
            let spent = self.worker.take(room);
            time.beside(|| drop(spent));
        }
    }

    /// Returns the worker's counters.
    pub fn stats(&self) -> &WorkerStats {
        self.worker.stats()
    }

    /// Sets the flow limit.
    pub fn set_flow_limit(&mut self, flows: usize) {
        self.core.set_flow_limit(flows);
    }
}

/// Returns the name of a port by its number, from 0.
pub fn port_name(number: u16) -> String {
    format!("p{number}")
}

/// The Ethernet address of a port by its number, from 0.
pub(super) fn port_mac(number: u16) -> MacAddr {
    let [high, low] = (number + 1).to_be_bytes();
    MacAddr([2, 0, 0, high, low, 0xb0])
}

fn bridge(ports: u16, flows: &str, now: Instant) -> Result<(Ofproto, BridgeId), InMemoryError> {
    let mut core = Ofproto::new(ofproto::Config::default());
    let mut config = BridgeConfig::new("br0", MacAddr([2, 0, 0, 0, 0, 0xb0]));
    config.fail_mode = FailMode::Secure;
    let bridge = core.add_bridge(config, now);
    for number in 0..ports {
        let device = PortNo(u32::from(number) + 1);
        let spec = PortSpec::new(port_name(number), port_mac(number), PortDevice::Datapath(device));
        core.add_port(bridge, spec, now)
            .map_err(|refused| InMemoryError::Port(refused.to_string()))?;
    }
    add_flows(&mut core, bridge, flows, now, &|name| name)?;
    Ok((core, bridge))
}

/// Adds flows, one per line, to a bridge; `named` resolves their port names.
pub(super) fn add_flows(
    core: &mut Ofproto,
    bridge: BridgeId,
    flows: &str,
    now: Instant,
    named: &dyn for<'a> Fn(&'a str) -> &'a str,
) -> Result<(), InMemoryError> {
    let lines = flows.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    for (index, flow) in lines.enumerate().filter(|(_, flow)| !flow.is_empty()) {
        let ports = |name: &str| -> Option<OfPort> { core.port_number(bridge, named(name)) };
        let wrong = |reason| InMemoryError::Rule { line: index + 1, flow: flow.to_owned(), reason };
        let flow_mod = parse_flow(flow, FlowModCommand::Add, &ports)
            .map_err(|error| wrong(error.to_string()))?;
        core.flow_mod(bridge, &flow_mod, now).map_err(|error| wrong(error.reason))?;
    }
    Ok(())
}
