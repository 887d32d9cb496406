//! The application that talks over a connection: requests and replies, pauses, and who closes.

use super::{Settings, State, Tcp, Waiting};
use crate::profile::Close;
use crate::statistics::Statistics;

impl Settings {
    /// When a server replies to what it read now: as long after its last reply was due as it waits,
    /// but not sooner than after half of that. Counted from now on instead, whatever was late would
    /// stay late: all replies that fell due while the generator was away for some milliseconds would
    /// go out together, be asked about together, and go out together again for as long as their
    /// connections live, until with many such pauses they come in bursts that no queue holds. And a
    /// slow device would be offered less than a fast one.
    ///
    /// `last` and `now` are in nanoseconds; `last` is 0 before the first reply.
    pub fn reply_at(&self, last: u64, now: u64) -> u64 {
        let wait = self.server_wait_ns;
        let from = if last == 0 { now } else { last };
        from.saturating_add(wait).max(now.saturating_add(wait / 2))
    }
}

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
        if self.asked_at == 0 || self.heard() < self.messages * set.reply_bytes {
            return;
        }
        stats.reply_ns.record(now.saturating_sub(self.asked_at));
        self.asked_at = 0;
        if self.messages < set.messages {
            if set.think_ns > 0 {
                self.pause(now.saturating_add(set.think_ns))
            } else {
                self.write(now, set)
            }
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
                return self.pause(set.reply_at(self.asked_at, now));
            }
            self.write(now, set);
        }
    }

    fn pause(&mut self, until: u64) {
        self.waiting = Waiting::Pause;
        self.wait_until = until;
    }

    /// Writes the next message.
    pub(super) fn write(&mut self, now: u64, set: &Settings) {
        self.waiting = Waiting::Peer;
        self.wait_until = now.saturating_add(set.idle_ns);
        self.messages += 1;
        if self.flags.client {
            self.written += set.request_bytes;
            self.asked_at = now.max(1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    /// A wait of 50 ms: when the last reply was due and when the request was read, in milliseconds, and
    /// when the reply is due.
    #[test]
    fn replies_keep_to_their_own_time() {
        let profile = Profile { server_wait_ms: 50, ..Profile::default() };
        let set = Settings::new(&profile);
        let cases = [
            ("the first one", 0, 1000, 1050),
            ("asked for at once", 1050, 1050, 1100),
            ("asked for by a slow network", 1050, 1070, 1100),
            ("read late, after a pause of the generator", 1050, 1075, 1100),
            ("read so late that its time is near", 1050, 1090, 1115),
            ("read after its time", 1050, 1300, 1325),
        ];
        for (name, last, now, expect) in cases {
            let due = set.reply_at(last * 1_000_000, now * 1_000_000);
            assert_eq!(due, expect * 1_000_000, "{name}");
        }
    }
}
