//! The application on a connection: requests and replies, pauses, and the side that closes.

use super::{Settings, State, Tcp, Waiting};
use crate::pacer::Pacer;
use crate::profile::Close;
use crate::statistics::Statistics;

impl Settings {
    /// Returns when a server replies to a request that it has just read: one wait after its previous reply
    /// was due, but at least half a wait from now. Counting from now instead would make every delay
    /// permanent: replies that fell due while the generator was away for some milliseconds would go out
    /// together, cause requests together and stay together for the life of their connections, until bursts
    /// overflow queues. And a slow device would be offered less load than a fast one.
    ///
    /// With a configured rate, waits also vary by up to a fiftieth, according to `random`. Connections that are
    /// opened evenly would otherwise meet again and again: at 1,000 per second and 50 ms, every fiftieth
    /// connection at the same moment.
    ///
    /// `last` and `now` are in nanoseconds; `last` is 0 before the first reply.
    pub fn reply_at(&self, last: u64, now: u64, random: u32) -> u64 {
        let wait = self.server_wait_ns;
        let from = if last == 0 { now } else { last };
        let more = ((u128::from(wait / 25) * u128::from(random)) >> 32) as u64;
        let this_wait = if self.spreads_waits { wait - wait / 50 + more } else { wait };
        from.saturating_add(this_wait).max(now.saturating_add(wait / 2))
    }

    /// Counts a pause that was due to end at `due` and ends now. A server's reply may be late by half of its
    /// wait, because [`Settings::reply_at`] makes up for that.
    pub fn count_pause(&self, due: u64, now: u64, stats: &mut Statistics) {
        let made_up = Pacer::LATE_NS.max(self.server_wait_ns / 2);
        stats.pauses += 1;
        stats.pauses_overrun += u64::from(now.saturating_sub(due) > made_up);
    }
}

/// Returns pseudorandom bits for a message of the connection with the number `own`.
pub(crate) fn message_random(own: u32, message: u32) -> u32 {
    let mixed = (own ^ message.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
    (mixed ^ (mixed >> 15)).wrapping_mul(0xc2b2_ae35)
}

impl Tcp {
    /// The peer was active: restarts the idle timeout, unless a pause is under way.
    pub(super) fn wait_for_peer(&mut self, now: u64, set: &Settings) {
        if self.waiting == Waiting::Peer {
            self.wait_until = now.saturating_add(set.idle_ns);
        }
    }

    /// Returns the bytes of the peer's stream that arrived in order.
    fn heard(&self) -> u32 {
        self.expected.saturating_sub(1 + u32::from(self.flags.peer_fin))
    }

    /// Writes the next message, or closes, if the messages received call for it.
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
            // The peer has closed; whatever either side still waits for is lost.
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
                let random = message_random(self.initial_seq, self.messages);
                return self.pause(set.reply_at(self.asked_at, now, random));
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

    /// A wait of 50 ms: when the last reply was due, when the request was read (milliseconds), the random bits where
    /// waits vary, and when the reply is due (milliseconds).
    #[test]
    fn replies_keep_to_their_own_time() {
        let profile = Profile { server_wait_ms: 50, ..Profile::default() };
        let even = Settings::new(&profile);
        let spread = Settings::new(&Profile { connections_per_second: Some(1), ..profile });
        let cases = [
            ("the first one", 0, 1000, None, 1050),
            ("asked for at once", 1050, 1050, None, 1100),
            ("asked for by a slow network", 1050, 1070, None, 1100),
            ("read late, after a pause of the generator", 1050, 1075, None, 1100),
            ("read so late that its time is near", 1050, 1090, None, 1115),
            ("read after its time", 1050, 1300, None, 1325),
            ("the shortest", 1050, 1050, Some(0), 1099),
            ("the middle", 1050, 1050, Some(1 << 31), 1100),
            ("three quarters", 1050, 1050, Some(3 << 30), 1100),
            ("the longest", 1050, 1050, Some(u32::MAX), 1100),
            ("late all the same", 1050, 1300, Some(0), 1325),
        ];
        for (name, last, now, random, expect) in cases {
            let set = if random.is_some() { &spread } else { &even };
            let due = set.reply_at(last * 1_000_000, now * 1_000_000, random.unwrap_or(0));
            assert_eq!(due / 1_000_000, expect, "{name}");
        }
        let due = spread.reply_at(1_050_000_000, 1_050_000_000, 3 << 30);
        assert_eq!(due, 1_100_500_000, "half a millisecond more");
    }

    #[test]
    fn random_bits_are_uniform() {
        let mut counts = [0; 10];
        for (own, message) in (0..100).flat_map(|own| (0..100).map(move |message| (own, message))) {
            counts[((u64::from(message_random(own, message)) * 10) >> 32) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..=1200).contains(count)), "{counts:?}");
    }
}
