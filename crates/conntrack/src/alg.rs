//! Application-layer gateways (ALGs): they read from FTP's and TFTP's control connections which
//! data connections will come, expect these, and rewrite endpoints in the text after NAT.
//!
//! Trusting text of a remote host is how firewalls get holes ("NAT slipstreaming"). So a
//! helper works only where the connection was committed with it; believes only whole lines, sent
//! in the right direction, within the windows, at the start of a segment that starts a line; only
//! endpoints of the two hosts of the connection itself, with ports of 1024 and up; a
//! server's port only if the client asked for one, and a client's port only until the server refuses
//! it; and nothing any more once the client has sent what no FTP client sends. Some servers connect
//! before they answer, so that a client's port cannot wait for their consent. Open vSwitch looks at the start of any segment (ovs: `lib/conntrack.c`,
//! `handle_ftp_ctl`).
//!
//! A connection's record has only a bit for a helper and one for an expected connection. All other state is
//! here, so that other connections pay nothing for it.

mod dialogue;
pub(crate) mod expectations;

pub(crate) mod ftp;
mod lines;
mod rewrite;
pub(crate) mod sequence;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use shared::SharedAlgs;

use crate::alg::expectations::{Expectation, Expectations};
use crate::counters::Event;
use crate::key::{Address, Key};
use crate::protocols::connection::Helper;
use crate::protocols::tcp::Segment;
use base::Instant;
use dialogue::{Answer, Dialogue};
use flow::{Frame, NatKind};
use ftp::{Announcement, Line, Mode};
use lines::Lines;
use rewrite::Rewrite;
use sequence::SeqSkew;
use std::collections::BTreeMap;
use table::Id;
use wire::{Tcp, Udp};

/// Data connections never go to ports below.
const PORT_MIN: u16 = 1024;
/// A segment with a larger payload is never rewritten: no line is so long, while reassembled
/// datagrams and segments before segmentation offload are longer.
const REWRITABLE_BYTES: usize = 300;
/// TFTP's requests (RFC 1350 section 5).
const TFTP_REQUESTS: [u16; 2] = [1, 2];

/// A connection as ALGs see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Connection {
    pub id: Id,
    pub original: Key,
    pub reply: Key,
    /// The side that NAT rewrites in the original direction.
    pub nat: Option<NatKind>,
    pub helper: Option<Helper>,
}

/// The state of the ALGs by connection number, since after a flush another connection may have the
/// tuple before all of the old one is gone.
#[derive(Debug, Default)]
pub(crate) struct Algs {
    pub expectations: Expectations,
    sessions: BTreeMap<Id, Session>,
    /// Expected connections, with the original direction of their parents.
    parents: BTreeMap<Id, Key>,
}

/// Whether a packet announced a connection.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announced(pub bool);

/// A control connection. Both directions, the original one first.
#[derive(Debug, Default)]
struct Session {
    lines: [Lines; 2],
    dialogue: Dialogue,
    skews: [SeqSkew; 2],
    rewrites: [Option<Rewrite>; 2],
    /// The client sent something that is not FTP.
    is_foreign: bool,
}

impl Algs {
    /// Returns the segment with the acknowledgement number that its receiver uses. Call it before
    /// the window check, for packets before NAT.
    pub fn unshift(&self, connection: Id, is_reply: bool, mut segment: Segment) -> Segment {
        if let Some(session) = self.sessions.get(&connection)
            && segment.acknowledges()
        {
            segment.ack = session.skews[usize::from(!is_reply)].back(segment.ack);
        }
        segment
    }

    /// The sequence number that the sender of a quoted segment uses; the quote has the rewritten
    /// one.
    pub fn unshift_quoted(&self, connection: Id, is_reply: bool, seq: u32) -> u32 {
        let skew = self.sessions.get(&connection).map(|it| it.skews[usize::from(is_reply)]);
        skew.unwrap_or_default().back(seq)
    }

    /// Reads a valid packet of a connection with a helper, before NAT.
    ///
    /// # Errors
    /// [`Event::HelperRefused`]: the announcement is not allowed, and the packet invalid.
    /// [`Event::HelperOff`]: the ALG ignores the connection from here on.
    pub fn observe(
        &mut self,
        connection: &Connection,
        is_reply: bool,
        l4: &[u8],
        now: Instant,
    ) -> Result<Announced, Event> {
        match connection.helper {
            Some(Helper::Ftp) => match Tcp::new_checked(l4) {
                Ok(tcp) if !tcp.payload().is_empty() => {
                    self.observe_ftp(connection, is_reply, tcp.seq(), tcp.payload(), now)
                }
                _ => Ok(Announced(false)),
            },
            Some(Helper::Tftp) => {
                let payload = Udp::new_checked(l4).map(|udp| udp.payload().first_chunk().copied());
                let opcode = payload.ok().flatten().map(u16::from_be_bytes);
                let asks = !is_reply && opcode.is_some_and(|it| TFTP_REQUESTS.contains(&it));
                if asks {
                    self.expect_tftp(connection, now);
                }
                Ok(Announced(asks))
            }
            None => Ok(Announced(false)),
        }
    }

    /// Sets the mark and label that the announced connection inherits. Call it after the packet
    /// that [`Algs::observe`] reported has set the connection's.
    pub fn bequeath(&mut self, parent: Id, mark: u32, label: u128) {
        self.expectations.set_inheritance(parent, mark, label);
    }

    /// Rewrites a packet after NAT: the announced endpoint, and sequence numbers that earlier
    /// rewrites moved. Call it once, when NAT rewrites the packet's addresses.
    pub fn apply(&self, connection: Id, is_reply: bool, frame: &mut Frame) {
        if let Some(session) = self.sessions.get(&connection) {
            let (forward, back) = (usize::from(is_reply), usize::from(!is_reply));
            let rewrite = session.rewrites[forward].as_ref();
            rewrite::apply(frame, rewrite, &session.skews[forward], &session.skews[back]);
        }
    }

    /// Remembers the parent of a connection that is being created.
    pub fn adopt(&mut self, child: Id, expectation: &Expectation) {
        self.parents.insert(child, expectation.parent);
    }

    /// The original direction of a connection's parent.
    pub fn parent_of(&self, child: Id) -> Option<&Key> {
        self.parents.get(&child)
    }

    /// Forgets a connection that had a helper or was expected.
    pub fn forget(&mut self, connection: Id) {
        self.sessions.remove(&connection);
        self.parents.remove(&connection);
        self.expectations.forget(connection);
    }

    fn observe_ftp(
        &mut self,
        connection: &Connection,
        is_reply: bool,
        seq: u32,
        payload: &[u8],
        now: Instant,
    ) -> Result<Announced, Event> {
        let session = self.sessions.entry(connection.id).or_default();
        let direction = usize::from(is_reply);
        let place = session.lines[direction].take(seq, payload);
        let starts_line = place.starts_line;
        if session.is_foreign {
            return Ok(Announced(false));
        }
        if !is_reply && !lines::all_may_be_commands(payload, starts_line) {
            session.is_foreign = true;
            self.expectations.forget(connection.id);
            return Err(Event::HelperOff);
        }
        let dialogue = &mut session.dialogue;
        let mut is_first = starts_line;
        if place.is_new && !is_reply {
            // Where it is unknown whether a line begins, one may: the server decides what it answers.
            let lines = lines::beginning(payload, starts_line || !place.follows);
            lines.for_each(|line| dialogue.command(line));
        } else if place.is_new {
            if !place.follows {
                dialogue.skip();
            }
            is_first &= dialogue.begins_reply();
            for line in lines::beginning(payload, starts_line) {
                match dialogue.reply(line) {
                    Answer::Other => {}
                    Answer::Accepts => self.expectations.accept(connection.id),
                    Answer::Refuses => self.expectations.refuse(connection.id),
                }
            }
        }
        let Some(line) = lines::first_whole(payload).filter(|_| is_first) else {
            return Ok(Announced(false));
        };
        let family = connection.original.family;
        let read = match is_reply {
            false => ftp::command(line, family),
            true => match ftp::reply(line, family) {
                Line::Announces(_) | Line::Broken if !dialogue.take_passive() => Line::Other,
                read => read,
            },
        };
        match read {
            Line::Other => Ok(Announced(false)),
            Line::Broken => Err(Event::HelperRefused),
            Line::Announces(announced) => {
                let rewrite = self.expect_ftp(connection, &announced, seq, payload, now)?;
                if let Some(rewrite) = rewrite
                    && let Some(session) = self.sessions.get_mut(&connection.id)
                {
                    session.skews[direction].add(seq, rewrite.grows_by());
                    session.rewrites[direction] = Some(rewrite);
                }
                Ok(Announced(true))
            }
        }
    }

    /// Expects an announced connection. Returns the rewrite of the announcement.
    fn expect_ftp(
        &mut self,
        connection: &Connection,
        announced: &Announcement,
        seq: u32,
        payload: &[u8],
        now: Instant,
    ) -> Result<Option<Rewrite>, Event> {
        let Connection { original, reply, .. } = connection;
        // The listener's address, its address as the other host sees it, and the host that opens
        // the connection.
        let (own, seen, opener) = match announced.mode {
            Mode::Active => (original.src, reply.dst, reply.src),
            Mode::Passive => (reply.src, original.dst, original.src),
        };
        let address = announced.address.map_or(own, Address::from);
        if (address != own && address != seen) || announced.port < PORT_MIN {
            return Err(Event::HelperRefused);
        }
        let key = Key { src: opener, dst: seen, l4: [0, announced.port], ..*original };
        let mut expectation = Expectation::new((connection.id, *original), key, now);
        expectation.is_agreed = announced.mode == Mode::Passive;
        inherit_nat(&mut expectation, connection, announced.mode, announced.port);
        if seen != own {
            let port = self.expectations.free_port(&key, connection.id, now);
            expectation.key.l4[1] = port.ok_or(Event::HelperRefused)?;
        }
        let port = expectation.key.l4[1];
        let old = payload.get(announced.place.clone()).unwrap_or_default();
        let text = announced.text(seen.ip(original.family), port);
        let is_rewritten = seen != own && text.as_bytes() != old;
        if is_rewritten && payload.len() > REWRITABLE_BYTES {
            return Err(Event::HelperRefused);
        }
        self.expectations.add(expectation);
        let rewrite = Rewrite { seq, at: announced.place.start, old: old.to_vec(), text };
        Ok(is_rewritten.then_some(rewrite))
    }

    /// The server answers a request from a port of its own, to the port that asked.
    fn expect_tftp(&mut self, connection: &Connection, now: Instant) {
        let Connection { original, reply, .. } = connection;
        let key = Key { src: reply.src, dst: reply.dst, l4: [0, reply.l4[1]], ..*original };
        let mut expectation = Expectation::new((connection.id, *original), key, now);
        inherit_nat(&mut expectation, connection, Mode::Active, original.l4[0]);
        self.expectations.add(expectation);
    }
}

/// An expected connection inherits its parent's NAT. Each host sees the address of the other that
/// it sees in the parent (ovs: `lib/conntrack.c`, `expectation_create`).
fn inherit_nat(expectation: &mut Expectation, parent: &Connection, mode: Mode, port: u16) {
    let Connection { original, reply, .. } = parent;
    let (kind, address) = match (mode, parent.nat) {
        (Mode::Active, Some(NatKind::Dst)) => (NatKind::Src, original.dst),
        (Mode::Active, _) => (NatKind::Dst, original.src),
        (Mode::Passive, Some(NatKind::Dst)) => (NatKind::Dst, reply.src),
        (Mode::Passive, _) => (NatKind::Src, reply.dst),
    };
    (expectation.kind, expectation.address, expectation.port) = (kind, address, port);
}
