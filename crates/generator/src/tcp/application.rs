//! The application that talks over a connection: requests and replies, pauses, and who closes.

use super::{Settings, State, Tcp, Waiting};
use crate::profile::Close;
use crate::statistics::Statistics;

impl Tcp {
    /// The peer did something: it has the idle timeout once more, unless a pause is under way.
    pub(super) fn wait_for_peer(&mut self, now: u64, set: &Settings) {
        if self.waiting == Waiting::Peer {
            self.wait_until = now.saturating_add(set.idle_ns);
        }
    }

    /// Bytes of the peer's stream that are all there.
    fn heard(&self) -> u32 {
        self.expected.saturating_sub(1 + u32::from(self.flags.peer_fin))
    }

    /// Looks whether the messages that are there call for the next one, or for the end.
    pub(super) fn advance_application(&mut self, now: u64, set: &Settings, stats: &mut Statistics) {
        if self.state != State::Open || self.waiting == Waiting::Pause {
            return;
        }
        if self.flags.client {
            self.ask(now, set, stats)
        } else {
            self.answer(now, set)
        }
        if self.flags.peer_fin && !self.flags.fin_wanted {
            // The peer says no more; what it still waits for, or this side does, is lost.
            self.flags.closed_early = self.unfinished(set);
            self.flags.fin_wanted = self.waiting != Waiting::Pause;
        }
    }

    fn unfinished(&self, set: &Settings) -> bool {
        let (messages, theirs) =
            (set.messages, if self.flags.client { set.reply_bytes } else { set.request_bytes });
        self.messages < messages
            || u64::from(self.heard()) < u64::from(messages) * u64::from(theirs)
    }

    fn ask(&mut self, now: u64, set: &Settings, stats: &mut Statistics) {
        if self.messages == 0 {
            return self.write(now, set);
        }
        if self.request_at == 0 || self.heard() < self.messages * set.reply_bytes {
            return;
        }
        stats.reply_ns.record(now.saturating_sub(self.request_at));
        self.request_at = 0;
        if self.messages < set.messages {
            if set.think_ns > 0 { self.pause(now, set.think_ns) } else { self.write(now, set) }
        } else {
            match set.close {
                Close::ClientFin => self.close(),
                Close::ClientReset => self.flags.reset_wanted = true,
                Close::ServerFin => {}
            }
        }
    }

    fn answer(&mut self, now: u64, set: &Settings) {
        while self.messages < set.messages
            && self.heard() >= (self.messages + 1) * set.request_bytes
        {
            if set.server_wait_ns > 0 {
                return self.pause(now, set.server_wait_ns);
            }
            self.write(now, set);
        }
    }

    fn pause(&mut self, now: u64, ns: u64) {
        self.waiting = Waiting::Pause;
        self.wait_until = now.saturating_add(ns);
    }

    /// Writes the next message.
    pub(super) fn write(&mut self, now: u64, set: &Settings) {
        self.waiting = Waiting::Peer;
        self.wait_until = now.saturating_add(set.idle_ns);
        self.messages += 1;
        if self.flags.client {
            self.written += set.request_bytes;
            self.request_at = now.max(1);
        } else {
            self.written += set.reply_bytes;
            if self.messages == set.messages && set.close == Close::ServerFin {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.flags.fin_wanted = true;
        self.flags.closed_first = !self.flags.peer_fin;
    }
}
