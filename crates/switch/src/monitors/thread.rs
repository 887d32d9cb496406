//! The thread that runs the machines. Neither a long list of flow-mods nor a storm of misses delays it: frames come to it
//! in a list of their own, it translates from a snapshot, and workers send its frames before other work.

use crate::slow_path_threads::STACK_BYTES;
use crate::worker_messages::{Outlet, WorkerEvent};
use base::{Instant, OfPort};
use datapath::UpcallQueue;
use flow::{Execute, MonitorId, Upcall, UpcallKind};
use ofproto::{BridgeId, ProtocolFrame, ProtocolSender, Sending};
use protocols::{Monitors, Outgoing, Report};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// Frames received, and machines run, before frames are sent.
const AT_ONCE: usize = 64;
/// Passes of a step: received frames make machines send, and what they send may reach others here.
const PASSES: usize = 16;
/// Longest sleep.
const PATIENCE: Duration = Duration::from_secs(1);

/// The place of a port, and the packets that it received, if the control thread counts them.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub bridge: BridgeId,
    pub port: OfPort,
    pub received: Option<u64>,
}

impl Place {
    /// The packets that the port received: by the counters of flows, or as the control thread counts them.
    fn received(&self, sender: Option<&ProtocolSender>) -> Option<u64> {
        let of_flows = sender.and_then(|sender| sender.received(self.bridge, self.port));
        of_flows.or(self.received)
    }
}

/// What the machines' thread and the control thread share.
pub struct Shared(Mutex<State>);

/// The machines with all that they need to run.
pub struct State {
    pub monitors: Monitors,
    pub places: HashMap<MonitorId, Place>,
    pub queue: Arc<UpcallQueue>,
    pub is_ending: bool,
    sender: Option<ProtocolSender>,
    outlets: Vec<Outlet>,
    events: Option<UnboundedSender<WorkerEvent>>,
    /// Whether the control thread was told of changes and has not looked yet.
    is_told: bool,
    received: Vec<Upcall>,
    outgoing: Vec<(MonitorId, Outgoing)>,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stepped {
    /// Nothing more is due.
    pub is_done: bool,
    /// Frames were received or sent.
    pub has_worked: bool,
}

impl Default for Shared {
    fn default() -> Self {
        Shared(Mutex::new(State {
            monitors: Monitors::new(crate::secret::secret()),
            places: HashMap::new(),
            queue: Arc::default(),
            is_ending: false,
            sender: None,
            outlets: Vec::new(),
            events: None,
            is_told: false,
            received: Vec::new(),
            outgoing: Vec::new(),
        }))
    }
}

impl Shared {
    /// Locks the machines, for a short time.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the workers that send frames, and the queue in which they pass received ones on.
    pub fn set_workers(
        &self,
        sender: ProtocolSender,
        queue: Arc<UpcallQueue>,
        outlets: Vec<Outlet>,
        events: UnboundedSender<WorkerEvent>,
    ) {
        let mut state = self.lock();
        (state.sender, state.events, state.outlets) = (Some(sender), Some(events), outlets);
        // The thread waits for the old queue.
        std::mem::replace(&mut state.queue, queue).wake_protocols();
    }

    /// Returns what the machines report.
    pub fn take_changes(&self) -> Vec<(MonitorId, Report)> {
        let mut state = self.lock();
        state.is_told = false;
        state.monitors.take_changes()
    }
}

impl State {
    /// Receives frames, runs the machines that are due, and sends their frames.
    pub fn step(&mut self, now: Instant) -> Stepped {
        let mut stepped = Stepped::default();
        let mut commands = Vec::new();
        for _ in 0..PASSES {
            let mut received = std::mem::take(&mut self.received);
            self.queue.pop_protocols(AT_ONCE, &mut received);
            let has_received = !received.is_empty();
            received.drain(..).for_each(|upcall| self.receive(now, &upcall));
            self.received = received;
            let mut outgoing = std::mem::take(&mut self.outgoing);
            let State { monitors, places, sender, .. } = self;
            let received = |id| places.get(&id)?.received(sender.as_ref());
            monitors.run(now, AT_ONCE, received, &mut outgoing);
            stepped.is_done = !has_received && outgoing.is_empty();
            stepped.has_worked |= !stepped.is_done;
            for (id, frame) in outgoing.drain(..) {
                commands.extend(self.send(now, id, &frame).map(flow::FlowCommand::Execute));
            }
            self.outgoing = outgoing;
            if stepped.is_done {
                break;
            }
        }
        if let Some(outlet) = self.outlets.first().filter(|_| !commands.is_empty()) {
            outlet.put_urgent(commands);
            outlet.wake();
        }
        self.tell();
        stepped
    }

    /// Tells a machine how many packets its port received.
    pub fn count(&mut self, now: Instant, id: MonitorId) {
        let place = self.places.get(&id);
        if let Some(received) = place.and_then(|place| place.received(self.sender.as_ref())) {
            self.monitors.count(now, id, received);
        }
    }

    fn receive(&mut self, now: Instant, upcall: &Upcall) {
        if let UpcallKind::Protocol(to) = upcall.kind {
            let unseen = upcall.key.unseen_bytes();
            let frame = upcall.packet.data().get(unseen..).unwrap_or_default();
            self.monitors.receive(now, to, frame);
        }
    }

    /// Translates a frame. One that only reaches another machine is received here.
    fn send(&mut self, now: Instant, id: MonitorId, frame: &Outgoing) -> Option<Execute> {
        let Place { bridge, port, .. } = *self.places.get(&id)?;
        let frame = ProtocolFrame { bridge, port, bytes: &frame.bytes, oam: frame.oam };
        match self.sender.as_mut()?.send(now, frame) {
            Sending::Execute(execute) => return Some(*execute),
            Sending::Here(to) => self.monitors.receive(now, to, frame.bytes),
            Sending::Nowhere => {}
        }
        None
    }

    /// Logs what machines say, and tells the control thread of changes.
    fn tell(&mut self) {
        for line in self.monitors.take_lines() {
            vlog::limited!(
                (20, 20), clock::now(), target: "bfd", line.level, "{}", line.text
            );
        }
        if self.monitors.has_changes() && !self.is_told {
            // The control thread ends after this thread.
            let told = self.events.as_ref().map(|events| events.send(WorkerEvent::Monitors));
            self.is_told = told.is_some();
        }
    }
}

/// Starts the thread.
pub fn start(shared: &Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("monitor".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(move || run(&shared))
}

fn run(shared: &Shared) {
    log::info!(target: "ofproto_dpif_monitor", "monitor thread created");
    loop {
        let mut state = shared.lock();
        if state.is_ending {
            break;
        }
        let now = clock::now();
        let is_done = state.step(now).is_done;
        let next = state.monitors.next_timeout().map_or(PATIENCE, |next| next - now);
        // A thread that sleeps keeps no old snapshot.
        state.sender.iter_mut().for_each(ProtocolSender::refresh);
        let queue = Arc::clone(&state.queue);
        drop(state);
        if is_done {
            queue.wait_protocols(next.min(PATIENCE));
        }
    }
    log::info!(target: "ofproto_dpif_monitor", "monitor thread terminated");
}
