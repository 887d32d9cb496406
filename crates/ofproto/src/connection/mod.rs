//! OpenFlow sessions on top of [`Ofproto`]: who is connected to a bridge, what they ask and what
//! they are told.
//!
//! Nothing here reads a socket or a clock. The program hands over the bytes it read
//! ([`Connections::receive`]) and writes the bytes it gets ([`Connections::take_output`]).
//!
//! | what happened | method |
//! |---|---|
//! | a socket was accepted or connected | [`Connections::open`] |
//! | bytes came | [`Connections::receive`], if [`Connections::wants_input`] |
//! | the socket can be written to | [`Connections::take_output`] |
//! | the peer closed, or [`Connections::is_closing`] and all is written | [`Connections::close`] |
//! | [`Ofproto`] was called, and may have events | [`Connections::deliver`] |
//! | connections were forgotten as [`Outbox`](crate::Outbox) said | [`Connections::flushed`] |
//! | a worker has answered with its statistics | [`Ofproto::dump`], then [`Connections::dumped`] |
//! | time went by | [`Connections::tick`], at the latest at [`Connections::next_tick`] |
//!
//! After [`Connections::receive`] the flows may be others: call [`Ofproto::revalidate`] and send the
//! commands before the output is written, so that a barrier's reply comes when all is in force.

mod asynchronous;
mod bundle;
mod check;
mod collect;
mod config;
mod limiter;
mod monitors;
mod queues;
mod request;
mod role;
mod session;
mod settings;
mod snoop;
mod statistics;
#[cfg(test)]
mod tests;

pub use limiter::Rate;
pub use session::{CloseReason, ConnectionStatus};
pub use settings::{ConnectionKind, Settings};

use crate::bridge::BridgeId;
use crate::events::Event;
use crate::{Ofproto, Outbox};
use base::{Instant, PortNo, WorkerId};
use collect::Collects;
use monitors::Monitors;
use session::Session;
use std::collections::BTreeMap;

/// Names a connection; never used twice in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u32);

/// A port's counters in the order of [`openflow::message::PortStats::counters`]; `None` is "not
/// counted".
pub type Counters = [Option<u64>; 12];

/// What sessions work on, lent for one call.
pub struct Switch<'a> {
    /// The bridges.
    pub core: &'a mut Ofproto,
    /// The time.
    pub now: Instant,
    /// What must be carried out.
    pub out: &'a mut Outbox,
    /// Reads the counters of a datapath port, when statistics of it are asked for.
    pub counters: &'a mut dyn FnMut(PortNo) -> Counters,
}

/// All OpenFlow connections of all bridges.
#[derive(Debug, Default)]
pub struct Connections {
    sessions: BTreeMap<ConnId, Session>,
    /// Each bridge's last election of a primary controller.
    elections: BTreeMap<BridgeId, u64>,
    collects: Collects,
    last: u32,
}

impl Connections {
    /// No connections.
    pub fn new() -> Self {
        Connections::default()
    }

    /// Begins a session on a bridge, over a stream that is connected. Our hello is in its output.
    pub fn open(&mut self, bridge: BridgeId, settings: Settings, now: Instant) -> ConnId {
        self.last += 1;
        let id = ConnId(self.last);
        self.sessions.insert(id, Session::new(id, bridge, settings, now));
        id
    }

    /// Takes bytes that the peer sent and does what they ask.
    pub fn receive(&mut self, id: ConnId, bytes: &[u8], switch: &mut Switch<'_>) {
        // What happened before the request must not look like its consequence.
        self.deliver(switch.core, switch.now);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.take_bytes(bytes, switch.now);
        }
        self.advance(id, switch);
    }

    /// Whether more bytes should be read from the peer. Not while much of what it asked for before
    /// waits, so that no peer can fill the memory by asking and not reading.
    pub fn wants_input(&self, id: ConnId) -> bool {
        self.sessions.get(&id).is_some_and(Session::wants_input)
    }

    /// Bytes to be written to the peer. Take them only when the ones taken before are written:
    /// what waits here is bounded. Flow monitors that paused because much waited go on when nothing
    /// does.
    pub fn take_output(&mut self, id: ConnId, core: &Ofproto) -> Vec<u8> {
        // The session is taken out meanwhile, as others may get a copy.
        let Some(mut session) = self.sessions.remove(&id) else { return Vec::new() };
        if !session.has_output() {
            session.resume_monitors(core);
        }
        let output = session.take_output();
        self.copy_to_snoopers(&session, &output);
        self.sessions.insert(id, session);
        output
    }

    /// Whether there are bytes to be written.
    pub fn has_output(&self, id: ConnId) -> bool {
        self.sessions.get(&id).is_some_and(Session::has_output)
    }

    /// Why the connection must be closed once its output is written, if it must.
    pub fn is_closing(&self, id: ConnId) -> Option<&CloseReason> {
        self.sessions.get(&id)?.closing()
    }

    /// Forgets a connection; its bundles are discarded.
    pub fn close(&mut self, id: ConnId, core: &mut Ofproto) {
        if let Some(session) = self.sessions.remove(&id) {
            self.watch(session.bridge, &Monitors::default(), core);
        }
    }

    /// The bridge is gone: its connections are to be closed.
    pub fn remove_bridge(&mut self, bridge: BridgeId) {
        self.elections.remove(&bridge);
        for session in self.sessions.values_mut().filter(|session| session.bridge == bridge) {
            session.close(CloseReason::BridgeGone);
        }
    }

    /// A user wants a bridge's connections to end.
    pub fn hang_up(&mut self, bridge: BridgeId) {
        for session in self.sessions.values_mut().filter(|session| session.bridge == bridge) {
            session.close(CloseReason::Asked);
        }
    }

    /// How a connection stands.
    pub fn status(&self, id: ConnId) -> Option<ConnectionStatus> {
        self.sessions.get(&id).map(Session::status)
    }

    /// Whether some connection wants the packets that no flow matches: one of OpenFlow 1.0 that
    /// gets asynchronous messages does. For [`crate::ControllerState::wants_misses`].
    pub fn wants_misses(&self, bridge: BridgeId) -> bool {
        let mut sessions = self.sessions.values().filter(|session| session.bridge == bridge);
        sessions.any(Session::wants_misses)
    }

    /// Tells the connections what has happened on their bridges.
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
        self.sessions.values_mut().for_each(Session::send_updates);
    }

    /// Changes how a connection is made from now on. What its peer set up stays.
    pub fn reconfigure(&mut self, id: ConnId, settings: Settings) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.settings = Settings { versions: session.settings.versions, ..settings };
        }
    }

    /// A worker has answered with its statistics, and [`Ofproto::dump`] has them: requests that
    /// waited for them go on.
    pub fn dumped(&mut self, worker: WorkerId, switch: &mut Switch<'_>) {
        self.collects.answered(worker);
        self.deliver(switch.core, switch.now);
        let mut waiting = self.sessions.values().filter_map(|session| session.waiting.as_ref());
        if waiting.any(|waiting| self.collects.awaits(&waiting.ticket, worker)) {
            switch.core.collect(switch.out);
        }
        self.advance_waiting(switch);
    }

    /// What this connection wanted forgotten is: it goes on.
    pub fn flushed(&mut self, id: ConnId, switch: &mut Switch<'_>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.is_flushing = false;
        }
        self.advance(id, switch);
    }

    /// A worker was stopped and does not answer what it was asked.
    pub fn worker_gone(&mut self, worker: WorkerId, switch: &mut Switch<'_>) {
        self.collects.forget(worker);
        self.advance_waiting(switch);
    }

    /// Does what time asks for: echo requests to silent peers, statistics without further waiting,
    /// the end of forgotten bundles.
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

    /// Does what a peer asks, message by message, until it must wait.
    fn advance(&mut self, id: ConnId, switch: &mut Switch<'_>) {
        // The session is taken out meanwhile, as what it asks may change the others.
        let Some(mut session) = self.sessions.remove(&id) else { return };
        while let Some(bytes) = self.next_message(&mut session, switch) {
            self.copy_to_snoopers(&session, &bytes);
            self.handle(&mut session, &bytes, switch);
            let events = switch.core.take_events();
            self.tell(&events, switch.now);
            for event in &events {
                session.tell(event, true, switch.now);
            }
            session.send_updates();
        }
        self.sessions.insert(id, session);
    }

    fn next_message(&mut self, session: &mut Session, switch: &mut Switch<'_>) -> Option<Vec<u8>> {
        if let Some(waiting) = &session.waiting {
            let is_over = waiting.until <= switch.now;
            if !is_over && !self.collects.is_answered(&waiting.ticket, switch.core) {
                return None;
            }
        }
        if let Some(waiting) = session.waiting.take() {
            let reply = statistics::flows(session.bridge, &waiting.request, switch);
            session.reply(waiting.xid, &reply);
        }
        session.next_message()
    }
}
