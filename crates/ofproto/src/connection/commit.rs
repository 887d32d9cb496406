//! Committing a bundle: all of it, or nothing.
//!
//! Its messages are carried out in bounded steps. Packets follow none of them before the last one is done; if one fails,
//! the others are undone. Only then are other connections told of the changes.

use super::Switch;
use super::bundle::{Bundle, Entry, refused};
use super::check;
use super::jobs::Progress;
use super::session::Session;
use crate::Outbox;
use crate::change::Change;
use crate::events::Event;
use crate::flow_mod::Transaction;
use crate::ids::BridgeId;
use openflow::message::{Message, Version};
use openflow::{ErrorCode, Header, OfError, decode};

/// OFPBF_ATOMIC.
const ATOMIC: u16 = 1;
/// OFPBCT_COMMIT_REPLY.
const COMMIT_REPLY: u16 = 5;
/// A message counts as so many steps, an event that is told as one.
const STEPS_OF_ENTRY: usize = 4;

/// A bundle that is being committed.
#[derive(Debug)]
pub(super) struct Commit {
    bridge: BridgeId,
    id: u32,
    flags: u16,
    version: Version,
    /// The messages that are left.
    entries: std::vec::IntoIter<Entry>,
    /// The one that is being carried out.
    current: Option<(Entry, Change)>,
    transaction: Option<Transaction>,
    /// Packets are sent only if everything succeeds.
    packets: Outbox,
    port_mods: Vec<(Message, Entry)>,
    /// Events of the changes, which are told at the end.
    events: Vec<Event>,
    failed: Option<(Entry, OfError)>,
    /// All is done, and packets may see it.
    is_published: bool,
}

impl Commit {
    pub fn new(id: u32, bundle: Bundle, session: &Session, switch: &mut Switch<'_>) -> Commit {
        Commit {
            bridge: session.bridge,
            id,
            flags: bundle.flags,
            version: session.version().unwrap_or(Version::V10),
            entries: bundle.entries.into_iter(),
            current: None,
            transaction: Some(switch.core.begin()),
            packets: Outbox::default(),
            port_mods: Vec::new(),
            events: Vec::new(),
            failed: None,
            is_published: false,
        }
    }

    pub fn is_published(&self) -> bool {
        self.is_published
    }

    /// Goes on until all steps are spent.
    pub fn go_on(
        &mut self,
        session: Option<&mut Session>,
        left: &mut usize,
        switch: &mut Switch<'_>,
    ) -> Progress {
        let before = switch.core.exchange_events(Vec::new());
        while *left > 0 && self.failed.is_none() && !self.is_published {
            self.carry_out_some(left, switch);
        }
        let events = switch.core.exchange_events(before);
        self.events.extend(events);
        if let Some((entry, error)) = self.failed.take() {
            if switch.core.rollback_some((*left).max(1)) {
                *left = 0;
                self.failed = Some((entry, error));
                return Progress::Goes;
            }
            if let Some(session) = session {
                session.refuse(&entry.bytes, &error);
            }
            switch.core.free_list(std::mem::take(&mut self.entries).collect::<Vec<_>>());
            let reason = format!("a message failed ({}); nothing is done", error.reason);
            let failed = ErrorCode::BundleMessageFailed;
            return Progress::Ended(Err(refused(failed, self.id, &reason)));
        }
        if !self.is_published {
            return Progress::Goes;
        }
        let told = (*left).min(self.events.len());
        *left -= told;
        let rest = self.events.split_off(told);
        let events = std::mem::replace(&mut self.events, rest);
        switch.core.add_events(events);
        if !self.events.is_empty() {
            return Progress::Goes;
        }
        self.change_ports(session, switch);
        let (bundle, control) = (self.id, COMMIT_REPLY);
        Progress::Ended(Ok(Some(Message::BundleControl { bundle, control, flags: 0 })))
    }

    /// Goes on with the current message, or with the next one. After the last one, the changes stay.
    fn carry_out_some(&mut self, left: &mut usize, switch: &mut Switch<'_>) {
        let done = match self.current.take() {
            Some((entry, mut change)) => match switch.core.change_on(&mut change, left, switch.now)
            {
                Ok(true) => Ok(Some((entry, change))),
                Ok(false) => Ok(None),
                Err(error) => Err((entry, error)),
            },
            None => match self.entries.next() {
                Some(entry) => self.begin(entry, switch),
                None => {
                    self.end(switch);
                    return;
                }
            },
        };
        *left = left.saturating_sub(STEPS_OF_ENTRY);
        match done {
            Ok(current) => self.current = current,
            Err(failed) => self.failed = Some(failed),
        }
    }

    /// Begins to carry out a message. Returns what is left to do.
    fn begin(
        &mut self,
        entry: Entry,
        switch: &mut Switch<'_>,
    ) -> Result<Option<(Entry, Change)>, (Entry, OfError)> {
        if let Some(header) = Header::read(&entry.bytes) {
            switch.core.set_request(header.xid);
        }
        let message = match decode(self.version, &entry.bytes, &entry.options) {
            Ok((_, Message::BundleAdd { message, .. })) => *message,
            Ok((_, other)) => other,
            Err(error) => return Err((entry, error)),
        };
        match self.carry_out(&message, switch) {
            Ok(Some(change)) => Ok(Some((entry, change))),
            Ok(None) => {
                if matches!(message, Message::PortMod { .. }) {
                    self.port_mods.push((message, entry));
                }
                Ok(None)
            }
            Err(error) => Err((entry, error)),
        }
    }

    fn carry_out(
        &mut self,
        message: &Message,
        switch: &mut Switch<'_>,
    ) -> Result<Option<Change>, OfError> {
        let (bridge, now) = (self.bridge, switch.now);
        match message {
            Message::FlowMod(flow_mod) => switch.core.begin_flow_mod(bridge, flow_mod, now),
            Message::GroupMod(group) => switch.core.begin_group_mod(bridge, group, now),
            Message::PacketOut(packet) => {
                switch.core.packet_out(bridge, packet, now, &mut self.packets).map(|()| None)
            }
            Message::PortMod { port, mac, .. } => {
                // Ports change one by one (ovs: `ofproto/ofproto.c`, `do_bundle_commit`).
                if self.flags & ATOMIC != 0 {
                    let reason = "port-mods can't be part of an atomic bundle";
                    return Err(OfError::new(ErrorCode::BundleMessageFailed, reason));
                }
                check::port_mod(bridge, *port, *mac, switch).map(|()| None)
            }
            other => check::bundled(other, Some(self.version)).map(|()| None),
        }
    }

    /// Keeps the changes, and sends the packets.
    fn end(&mut self, switch: &mut Switch<'_>) {
        self.transaction.take().into_iter().for_each(|it| switch.core.commit(it));
        switch.out.commands.append(&mut self.packets.commands);
        switch.out.conntrack_flush.append(&mut self.packets.conntrack_flush);
        self.is_published = true;
    }

    fn change_ports(&mut self, session: Option<&mut Session>, switch: &mut Switch<'_>) {
        let mut wrong = Vec::new();
        for (message, entry) in self.port_mods.drain(..) {
            // All checks were made above.
            if let Message::PortMod { port, mac, config, mask } = message {
                let (core, out) = (&mut *switch.core, &mut *switch.out);
                if let Err(error) = core.port_mod(self.bridge, port, mac, config, mask, out) {
                    wrong.push((entry, error));
                }
            }
        }
        if let Some(session) = session {
            wrong.iter().for_each(|(entry, error)| session.refuse(&entry.bytes, error));
        }
    }
}
