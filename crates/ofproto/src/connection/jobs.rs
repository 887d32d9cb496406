//! Requests that last over several steps, so that other connections are answered in between: changes of many flows,
//! bundles, dumps of flows.
//!
//! One change at a time: until it is complete, requests of other connections that change the bridges wait, so that a
//! bundle is carried out as a whole, and its end may undo it. Everything else goes on. Dumps read a snapshot. While a
//! connection's request lasts or waits, its later requests wait, too, except for echo requests, which only ask whether
//! the switch is alive.

use super::commit::Commit;
use super::dumps::Dump;
use super::session::Session;
use super::{ConnId, Connections, Switch};
use crate::change::{Change, STEPS_AT_ONCE};
use openflow::message::{Message, Version};
use openflow::{DecodeOptions, OfError, decode};

/// Steps of a connection's requests that are carried out at once.
pub(super) const STEPS_OF_REQUESTS: usize = 2 * STEPS_AT_ONCE;
/// A message counts as so many steps.
const STEPS_OF_MESSAGE: usize = 4;

/// A request that is being carried out. It goes on without its connection if it changes flows.
#[derive(Debug)]
pub(super) struct Job {
    pub xid: u32,
    /// The request, which an error quotes.
    pub request: Vec<u8>,
    pub kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// A flow-mod, a group-mod or a meter-mod.
    Change(Box<Change>),
    Commit(Box<Commit>),
    Dump(Box<Dump>),
}

/// Whether a job ended.
#[expect(clippy::large_enum_variant, reason = "it is returned and taken apart at once")]
pub(super) enum Progress {
    Goes,
    /// With this reply, if it has one.
    Ended(Result<Option<Message>, OfError>),
}

impl Job {
    pub fn changes_flows(&self) -> bool {
        matches!(self.kind, Kind::Change(_) | Kind::Commit(_))
    }
}

impl Connections {
    /// Whether requests can go on, by [`Self::go_on`].
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.jobs.iter().any(|(id, job)| self.can_go_on(*id, job))
    }

    /// Continues one of the requests by a bounded step. Returns whether there is more to do; then call this again soon,
    /// after other work.
    pub fn go_on(&mut self, switch: &mut Switch<'_>) -> bool {
        self.deliver(switch.core, switch.now);
        if let Some(id) = self.next_of_all() {
            self.turn = id;
            if self.jobs.contains_key(&id) {
                self.go_on_with(id, switch);
            } else {
                self.ready.remove(&id);
                self.advance(id, switch);
            }
        }
        self.has_work()
    }

    /// The connection that [`Self::go_on`] continued. It may be read from again.
    pub fn went_on(&self) -> ConnId {
        self.turn
    }

    /// The next connection in turn that can go on.
    fn next_of_all(&self) -> Option<ConnId> {
        let jobs = self.jobs.iter().filter(|(id, job)| self.can_go_on(**id, job));
        let mut all = jobs.map(|(id, _)| *id).chain(self.ready.iter().copied());
        let (mut next, mut first) = (None, None);
        for id in all.by_ref() {
            first = Some(first.map_or(id, |it: ConnId| it.min(id)));
            if id > self.turn {
                next = Some(next.map_or(id, |it: ConnId| it.min(id)));
            }
        }
        next.or(first)
    }

    /// A dump waits while much output does.
    fn can_go_on(&self, id: ConnId, job: &Job) -> bool {
        job.changes_flows() || self.sessions.get(&id).is_some_and(Session::has_room)
    }

    /// Begins a request that may last.
    pub(super) fn begin(&mut self, id: ConnId, job: Job) {
        if job.changes_flows() {
            self.changing = Some(id);
        }
        self.jobs.insert(id, job);
    }

    fn go_on_with(&mut self, id: ConnId, switch: &mut Switch<'_>) {
        let mut session = self.sessions.remove(&id);
        let mut left = STEPS_AT_ONCE;
        let has_ended = self.step(id, session.as_mut(), &mut left, switch);
        if let Some(session) = session {
            self.sessions.insert(id, session);
        }
        if has_ended {
            self.ready.insert(id);
        }
    }

    /// Continues a connection's job until it ends or all steps are spent. The session is out of its map meanwhile.
    /// Returns whether the job ended.
    pub(super) fn step(
        &mut self,
        id: ConnId,
        mut session: Option<&mut Session>,
        left: &mut usize,
        switch: &mut Switch<'_>,
    ) -> bool {
        let Some(mut job) = self.jobs.remove(&id) else { return true };
        let xid = job.xid;
        let progress = match &mut job.kind {
            Kind::Change(change) => {
                switch.core.set_request(xid);
                match switch.core.change_on(change, left, switch.now) {
                    Ok(true) => Progress::Goes,
                    Ok(false) => Progress::Ended(Ok(None)),
                    Err(error) => Progress::Ended(Err(error)),
                }
            }
            Kind::Commit(commit) => commit.go_on(session.as_deref_mut(), left, switch),
            Kind::Dump(dump) => dump.go_on(session.as_deref_mut(), xid, left, switch),
        };
        let changes_flows = job.changes_flows();
        if changes_flows {
            // Nothing is published before the end, unless a step makes that end.
            let is_held = matches!(progress, Progress::Goes) && !job.is_published();
            switch.core.hold(is_held);
        }
        let is_over = matches!(progress, Progress::Ended(_));
        self.tell_all(session.as_deref_mut(), is_over, switch);
        match progress {
            Progress::Goes => {
                self.jobs.insert(id, job);
                false
            }
            Progress::Ended(answer) => {
                if changes_flows {
                    self.changing = None;
                    self.ready.extend(self.waiting.drain(..));
                }
                if let Some(session) = session {
                    session.is_told_later = false;
                    session.answer(xid, &job.request, answer, switch);
                    session.send_updates(true);
                }
                true
            }
        }
    }

    /// Tells of the events so far, which a request has caused that may be over; they are its own connection's.
    pub(super) fn tell_all(
        &mut self,
        own: Option<&mut Session>,
        is_over: bool,
        switch: &mut Switch<'_>,
    ) {
        let events = switch.core.take_events();
        self.tell(&events, switch.now);
        if let Some(session) = own {
            for event in &events {
                session.tell(event, true, switch.now);
            }
            session.send_updates(is_over);
        }
    }

    /// Whether a message has to wait for the change of another connection.
    pub(super) fn must_wait(&mut self, session: &Session, bytes: &[u8]) -> bool {
        if self.changing.is_none_or(|other| other == session.id) {
            return false;
        }
        let version = session.version();
        let must_wait = version
            .is_some_and(|version| changes_bridges(version, bytes, &session.decode_options()));
        if must_wait && !self.waiting.contains(&session.id) {
            self.waiting.push(session.id);
        }
        must_wait
    }

    /// A connection ended. What changes flows goes on.
    pub(super) fn end_job(&mut self, id: ConnId, core: &mut crate::Ofproto) {
        self.ready.remove(&id);
        self.waiting.retain(|waiting| *waiting != id);
        if self.jobs.get(&id).is_some_and(|job| !job.changes_flows())
            && let Some(Job { kind: Kind::Dump(dump), .. }) = self.jobs.remove(&id)
        {
            dump.hand_over(core);
        }
    }

    /// Counts a handled message. Returns whether the connection's turn is over.
    pub(super) fn is_turn_over(&mut self, session: &Session, left: &mut usize) -> bool {
        *left = left.saturating_sub(STEPS_OF_MESSAGE);
        let is_over = *left == 0;
        if is_over && session.has_requests() {
            self.ready.insert(session.id);
        }
        is_over
    }
}

impl Job {
    /// Whether packets may see what it did, and only its telling is left.
    fn is_published(&self) -> bool {
        match &self.kind {
            Kind::Commit(commit) => commit.is_published(),
            Kind::Change(_) | Kind::Dump(_) => false,
        }
    }
}

/// Whether a message changes the bridges, or sends a packet through them.
fn changes_bridges(version: Version, bytes: &[u8], options: &DecodeOptions) -> bool {
    let Ok((_, message)) = decode(version, bytes, options) else { return false };
    matches!(
        message,
        Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::TableMod(_)
            | Message::PortMod { .. }
            | Message::TlvTableMod { .. }
            | Message::PacketOut(_)
            | Message::Resume(_)
            | Message::BundleControl { .. }
            | Message::StatsRequest(openflow::message::StatsRequest::TableFeatures { .. })
    )
}
