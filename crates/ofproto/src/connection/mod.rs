//! OpenFlow sessions on top of [`Ofproto`]: the connections of each bridge, their requests and the messages
//! sent to them.
//!
//! Nothing here reads a socket or a clock. The program hands over the bytes it read
//! ([`Connections::receive`]) and writes the bytes it gets ([`Connections::take_output`]).
//!
//! | what happened | method |
//! |---|---|
//! | a socket was accepted or connected | [`Connections::open`] |
//! | bytes came | [`Connections::receive`], if [`Connections::wants_input`] |
//! | the socket can be written to | [`Connections::take_output`], and [`Connections::note_written`] for each part |
//! | the peer closed, or [`Connections::is_closing`] and all is written | [`Connections::close`] |
//! | [`Ofproto`] was called, and may have events | [`Connections::deliver`] |
//! | connections were flushed as [`Outbox`](crate::Outbox) requested | [`Connections::flushed`] |
//! | [`Connections::has_work`], after any of these | [`Connections::go_on`], until it has none |
//! | a worker has answered with its statistics | [`Ofproto::dump`], then [`Connections::dumped`] |
//! | [`Ofproto::go_on`] was called, and its events are delivered | [`Connections::pass_barriers`] |
//! | time went by | [`Connections::tick`], at the latest at [`Connections::next_tick`] |
//!
//! [`Connections::receive`] may change flows: call [`Ofproto::revalidate`] and send the commands before the
//! output is written, so that a barrier's reply follows its effects.

mod asynchronous;
mod bundle;
mod check;
mod collect;
mod commit;
mod config;
mod dumps;
mod input;
mod jobs;
mod limiter;
mod monitors;
mod queues;
mod request;
mod role;
mod session;
mod settings;
mod snoop;
mod statistics;
mod status;
#[cfg(test)]
mod tests;
mod waiting;

pub use limiter::Rate;
pub use settings::{ConnectionKind, Settings};
pub use status::{CloseReason, ConnectionStatus};

use crate::events::Event;
use crate::ids::BridgeId;
use crate::{Ofproto, Outbox};
use base::{Instant, PortNo, WorkerId};
use collect::Collects;
use jobs::{Job, Kind, STEPS_OF_REQUESTS};
use monitors::Monitors;
use session::Session;
use std::collections::{BTreeMap, BTreeSet};

/// Identifies a connection; never reused in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ConnId(pub u32);

/// A port's counters in the order of [`openflow::message::PortStats::counters`]; `None` is "not
/// counted".
pub type Counters = [Option<u64>; 12];

/// The state that sessions work on, borrowed for one call.
pub struct Switch<'a> {
    /// The bridges.
    pub core: &'a mut Ofproto,
    /// The time.
    pub now: Instant,
    /// The commands to carry out.
    pub out: &'a mut Outbox,
    /// Reads the counters of a datapath port for port statistics.
    pub counters: &'a mut dyn FnMut(PortNo) -> Counters,
}

/// All OpenFlow connections of all bridges.
#[derive(Debug, Default)]
pub struct Connections {
    sessions: BTreeMap<ConnId, Session>,
    /// The generation id of each bridge's last election of a primary controller.
    elections: BTreeMap<BridgeId, u64>,
    collects: Collects,
    /// Requests that last over several steps.
    jobs: BTreeMap<ConnId, Job>,
    /// The connection whose job changes flows.
    changing: Option<ConnId>,
    /// Connections whose requests wait for that.
    waiting: Vec<ConnId>,
    /// Connections whose requests can go on.
    ready: BTreeSet<ConnId>,
    /// The connection that went on last.
    turn: ConnId,
    last: u32,
}

impl Connections {
    /// No connections.
    pub fn new() -> Self {
        Connections::default()
    }

    /// Opens a session on a bridge, over a connected stream. The output starts with our hello.
    pub fn open(&mut self, bridge: BridgeId, settings: Settings, now: Instant) -> ConnId {
        self.last += 1;
        let id = ConnId(self.last);
        self.sessions.insert(id, Session::new(id, bridge, settings, now));
        id
    }

    /// Takes bytes that the peer sent and carries out the requests in them.
    pub fn receive(&mut self, id: ConnId, bytes: &[u8], switch: &mut Switch<'_>) {
        // Events of before the request must not count as its consequence.
        self.deliver(switch.core, switch.now);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.take_bytes(bytes, switch.now);
        }
        self.advance(id, switch);
    }

    /// Whether requests wait, for output to be written above all.
    pub fn has_requests(&self, id: ConnId) -> bool {
        self.sessions.get(&id).is_some_and(Session::has_requests)
    }

    /// Handles requests that waited for output to be written.
    pub fn resume(&mut self, id: ConnId, switch: &mut Switch<'_>) {
        self.deliver(switch.core, switch.now);
        self.advance(id, switch);
    }

    /// Whether to read more bytes from the peer. False while much output or input waits, so that a peer that
    /// sends requests and does not read cannot exhaust memory.
    pub fn wants_input(&self, id: ConnId) -> bool {
        self.sessions.get(&id).is_some_and(Session::wants_input)
    }

    /// Bytes to write to the peer. Call this only when the previous bytes are written, since this output is
    /// bounded. Flow monitors that paused for a full output resume when it is empty.
    pub fn take_output(&mut self, id: ConnId, core: &Ofproto) -> Vec<u8> {
        // The session is removed meanwhile, since other sessions may receive a copy.
        let Some(mut session) = self.sessions.remove(&id) else { return Vec::new() };
        if !session.has_output()
            && !self.jobs.contains_key(&id)
            && let Some(dump) = session.resume_monitors(core)
        {
            session.is_told_later = true;
            let kind = Kind::Dump(Box::new(dump));
            self.begin(id, Job { xid: 0, request: Vec::new(), kind });
        }
        let output = session.take_output();
        let messages = std::mem::take(&mut session.unsent);
        coverage::add(coverage::Event::RconnSent, messages);
        coverage::add(coverage::Event::VconnSent, messages);
        self.copy_to_snoopers(&session, &output);
        self.sessions.insert(id, session);
        output
    }

    /// The peer took some of the bytes of [`Self::take_output`].
    pub fn note_written(&mut self, id: ConnId, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.note_written(now);
        }
    }

    /// Whether output waits.
    pub fn has_output(&self, id: ConnId) -> bool {
        self.sessions.get(&id).is_some_and(Session::has_output)
    }

    /// Whether all requests that came as a whole are handled, and no output waits.
    pub fn is_idle(&self, id: ConnId) -> bool {
        !self.jobs.contains_key(&id) && self.sessions.get(&id).is_none_or(Session::is_idle)
    }

    /// Why the connection is to be closed once its output is written, if it is.
    pub fn is_closing(&self, id: ConnId) -> Option<&CloseReason> {
        self.sessions.get(&id)?.closing()
    }

    /// Removes a connection and discards its bundles.
    pub fn close(&mut self, id: ConnId, core: &mut Ofproto) {
        if let Some(session) = self.sessions.remove(&id) {
            self.watch(session.bridge, &Monitors::default(), core);
        }
        self.end_job(id, core);
    }

    /// The bridge was removed: its connections are to be closed.
    pub fn remove_bridge(&mut self, bridge: BridgeId) {
        self.elections.remove(&bridge);
        for session in self.sessions.values_mut().filter(|session| session.bridge == bridge) {
            session.close(CloseReason::BridgeGone);
        }
    }

    /// The connection's controller was removed from the configuration.
    pub fn remove(&mut self, id: ConnId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.close(CloseReason::Removed);
        }
    }

    /// Closes the bridge's connections; controllers connect again.
    pub fn hang_up(&mut self, bridge: BridgeId, reason: CloseReason) {
        for session in self.sessions.values_mut().filter(|session| session.bridge == bridge) {
            session.close(reason.clone());
        }
    }

    /// The state of a connection.
    pub fn status(&self, id: ConnId) -> Option<ConnectionStatus> {
        self.sessions.get(&id).map(Session::status)
    }

    /// Whether some connection receives packets that no flow matches: one of OpenFlow 1.0 that receives
    /// asynchronous messages does. For [`crate::ControllerState::wants_misses`].
    pub fn wants_misses(&self, bridge: BridgeId) -> bool {
        let mut sessions = self.sessions.values().filter(|session| session.bridge == bridge);
        sessions.any(Session::wants_misses)
    }

    /// Sends events to the connections of their bridges.
    pub fn deliver(&mut self, core: &mut Ofproto, now: Instant) {
        let events = core.take_events();
        self.tell(&events, now);
    }

    fn tell(&mut self, events: &[Event], now: Instant) {
        for event in events {
            for session in self.sessions.values_mut() {
                session.tell(event, false, now);
            }
        }
        self.sessions.values_mut().for_each(|session| session.send_updates(true));
    }

    /// Changes a connection's settings. What its peer configured stays.
    pub fn reconfigure(&mut self, id: ConnId, settings: Settings) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.settings = Settings { versions: session.settings.versions, ..settings };
        }
    }

    /// A worker's statistics were passed to [`Ofproto::dump`]: requests that waited for them go on.
    pub fn dumped(&mut self, worker: WorkerId, switch: &mut Switch<'_>) {
        self.collects.answered(worker);
        self.deliver(switch.core, switch.now);
        let mut waiting = self.sessions.values().filter_map(|session| session.waiting.as_ref());
        if waiting.any(|waiting| waiting.awaits(worker, &self.collects)) {
            switch.core.collect(switch.out);
            switch.out.reads_devices = true;
        }
        self.advance_waiting(switch);
    }

    /// The flush that this connection requested is complete: its requests go on.
    pub fn flushed(&mut self, id: ConnId, switch: &mut Switch<'_>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.is_flushing = false;
        }
        self.advance(id, switch);
    }

    /// A worker was stopped and does not answer any more.
    pub fn worker_gone(&mut self, worker: WorkerId, switch: &mut Switch<'_>) {
        self.collects.forget(worker);
        self.advance_waiting(switch);
    }

    /// Does what is due: echo requests to silent peers, replies to statistics requests that waited too long,
    /// expiry of idle bundles.
    pub fn tick(&mut self, switch: &mut Switch<'_>) {
        self.deliver(switch.core, switch.now);
        for session in self.sessions.values_mut() {
            session.tick(switch.now);
        }
        let ids: Vec<ConnId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.advance(id, switch);
        }
    }

    /// When [`Self::tick`] must be called next.
    pub fn next_tick(&self) -> Option<Instant> {
        self.sessions.values().filter_map(Session::next_tick).min()
    }

    fn advance_waiting(&mut self, switch: &mut Switch<'_>) {
        let waiting = self.sessions.values().filter(|session| session.waiting.is_some());
        let ids: Vec<ConnId> = waiting.map(|session| session.id).collect();
        for id in ids {
            self.advance(id, switch);
        }
    }

    /// Handles a peer's messages until one has to wait, or the peer has had its turn.
    fn advance(&mut self, id: ConnId, switch: &mut Switch<'_>) {
        // The session is removed meanwhile, since its requests may change the others.
        let Some(mut session) = self.sessions.remove(&id) else { return };
        let mut left = STEPS_OF_REQUESTS;
        while let Some(bytes) = self.next_message(&mut session, &mut left, switch) {
            coverage::count(coverage::Event::VconnReceived);
            coverage::count(coverage::Event::ReceiveOpenflow);
            self.copy_to_snoopers(&session, &bytes);
            self.handle(&mut session, bytes, switch);
            let is_over = !self.jobs.contains_key(&id);
            self.tell_all(Some(&mut session), is_over, switch);
            if self.is_turn_over(&session, &mut left) {
                break;
            }
        }
        self.sessions.insert(id, session);
    }

    /// The next message to handle. While a request lasts or waits, only echo requests are handled.
    fn next_message(
        &mut self,
        session: &mut Session,
        left: &mut usize,
        switch: &mut Switch<'_>,
    ) -> Option<Vec<u8>> {
        if self.wait(session, switch) {
            return None;
        }
        if let Some(job) = self.jobs.get(&session.id) {
            let goes_on = *left > 0 && (job.changes_flows() || session.has_room());
            let id = session.id;
            if !goes_on || !self.step(id, Some(session), left, switch) {
                return session.next_echo();
            }
        }
        let message = session.next_message()?;
        if self.must_wait(session, &message) {
            session.put_back(message);
            return session.next_echo();
        }
        Some(message)
    }
}
