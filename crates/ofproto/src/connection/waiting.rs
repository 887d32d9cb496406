//! Requests that wait: for statistics of the workers, or for messages about removed flows.

use super::collect::{Collects, Ticket};
use super::session::Session;
use super::{ConnId, Connections, Switch};
use base::{Instant, WorkerId};
use openflow::message::{Message, StatsRequest};

/// A request that waits. Later requests of its connection wait behind it.
#[derive(Debug)]
pub(super) struct Waiting {
    pub xid: u32,
    pub awaits: Awaits,
}

/// What a request waits for.
#[derive(Debug)]
pub(super) enum Awaits {
    /// A statistics request waits for the workers.
    Statistics {
        request: Box<StatsRequest>,
        ticket: Ticket,
        /// After this time the reply is sent with what is known, without the missing answers.
        until: Instant,
    },
    /// A barrier waits for the messages about removed flows, up to this one.
    Removals(u64),
}

impl Waiting {
    /// When it goes on without what it waits for.
    pub fn until(&self) -> Option<Instant> {
        match self.awaits {
            Awaits::Statistics { until, .. } => Some(until),
            // Removed flows do not wait for ever.
            Awaits::Removals(_) => None,
        }
    }

    /// Whether an answer of this worker is outstanding.
    pub fn awaits(&self, worker: WorkerId, collects: &Collects) -> bool {
        match &self.awaits {
            Awaits::Statistics { ticket, .. } => collects.awaits(ticket, worker),
            Awaits::Removals(_) => false,
        }
    }

    fn is_over(&self, collects: &Collects, switch: &Switch<'_>) -> bool {
        match &self.awaits {
            Awaits::Statistics { ticket, until, .. } => {
                *until <= switch.now || collects.is_answered(ticket, switch.core)
            }
            Awaits::Removals(last) => switch.core.is_removal_told(*last),
        }
    }
}

impl Connections {
    /// Replies to the request that waits, if its time has come. Returns whether later ones still wait behind it.
    pub(super) fn wait(&mut self, session: &mut Session, switch: &mut Switch<'_>) -> bool {
        let Some(waiting) = &session.waiting else { return false };
        if !waiting.is_over(&self.collects, switch) {
            return true;
        }
        if let Some(Waiting { xid, awaits }) = session.waiting.take() {
            match awaits {
                Awaits::Statistics { request, .. } => {
                    self.begin_reply(session, xid, &request, switch);
                }
                Awaits::Removals(_) => session.reply(xid, &Message::BarrierReply),
            }
        }
        false
    }

    /// Goes on with requests behind barriers that no message about a removed flow has to precede any more. Events must
    /// have been delivered. Returns whether there were any; then [`Ofproto::go_on`](crate::Ofproto::go_on) must follow.
    pub fn pass_barriers(&mut self, switch: &mut Switch<'_>) -> bool {
        let is_past = |session: &&Session| match &session.waiting {
            Some(Waiting { awaits: Awaits::Removals(last), .. }) => {
                switch.core.is_removal_told(*last)
            }
            _ => false,
        };
        let past = self.sessions.values().filter(is_past);
        let ids: Vec<ConnId> = past.map(|session| session.id).collect();
        ids.iter().for_each(|&id| self.advance(id, switch));
        !ids.is_empty()
    }
}

impl Session {
    /// The reply to a barrier, unless messages about removed flows have to precede it. In Open vSwitch they may follow
    /// (`ofproto/ofproto.c`, `rule_destroy_cb`).
    pub fn barrier(&mut self, xid: u32, switch: &Switch<'_>) -> Option<Message> {
        let last = switch.core.last_removal(self.bridge);
        if switch.core.is_removal_told(last) {
            return Some(Message::BarrierReply);
        }
        self.waiting = Some(Waiting { xid, awaits: Awaits::Removals(last) });
        None
    }
}
