//! Counters of a host.

use base::Histogram;

/// Everything that one host counted since it started. Connections are conserved: those opened (or
/// accepted) are completed, failed or still alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections that a client opened.
    pub opened: u64,
    /// Connections whose first packet a server accepted.
    pub accepted: u64,
    /// TCP connections whose handshake completed.
    pub established: u64,
    /// Connections that exchanged all their messages and closed in order.
    pub completed: u64,
    /// Connections that failed.
    pub failed: Failures,
    /// Connections that were not opened because the limit of connections alive was reached.
    pub at_limit: u64,
    /// Opens for which every combination of addresses and ports that was tried was in use.
    pub tuples_exhausted: u64,
    /// First packets that a server refused because its table was full.
    pub table_full: u64,
    /// Packets put into batches.
    pub tx_packets: u64,
    /// Bytes of those packets, from the Ethernet header, without FCS.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes of those packets.
    pub rx_bytes: u64,
    /// Packets that cannot be parsed: too short, or with contradictory lengths.
    pub rx_malformed: u64,
    /// Packets with a wrong checksum.
    pub rx_bad_checksum: u64,
    /// Foreign packets on the same wire: for addresses of neither side, of other protocols or another VLAN,
    /// and other hosts' ARP and ND messages.
    pub rx_foreign: u64,
    /// Packets for the other side: the device returned them.
    pub rx_returned: u64,
    /// Answers to foreign ARP and ND questions.
    pub tx_foreign: u64,
    /// TCP and UDP packets that belong to no connection.
    pub rx_no_connection: u64,
    /// TCP segments and UDP requests sent again.
    pub retransmitted: u64,
    /// SYN and SYN/ACK segments among them.
    pub retransmitted_syn: u64,
    /// Expirations of the retransmission timer.
    pub retransmission_timeouts: u64,
    /// Segments and datagrams without new data.
    pub rx_duplicate: u64,
    /// Segments that arrived before an earlier one.
    pub rx_out_of_order: u64,
    /// TCP segments that acknowledge unsent data, or lie outside the window.
    pub rx_unacceptable: u64,
    /// Payload bytes that arrived in order, each counted once.
    pub rx_payload_bytes: u64,
    /// Payload bytes that the peer acknowledged (TCP) or answered (UDP).
    pub acknowledged_bytes: u64,
    /// Pauses before messages that ended.
    pub pauses: u64,
    /// Pauses that lasted so much too long, because the host was not driven often enough, that the connection
    /// lived longer.
    pub pauses_overrun: u64,
    /// Answers (ARP, ND, resets) dropped because their queue was full.
    pub answers_dropped: u64,
    /// Time from SYN to SYN/ACK at a client.
    pub handshake_ns: Histogram,
    /// Time from a client's request, as passed to TCP or UDP, to its whole reply.
    pub reply_ns: Histogram,
}

/// Failed connections by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// The SYN was answered with RST.
    pub refused: u64,
    /// Reset by the peer or by the device, after the SYN was answered.
    pub reset: u64,
    /// No answer to the SYN.
    pub timed_out_opening: u64,
    /// No answer to data or FIN, or no message from the peer until the idle timeout.
    pub timed_out: u64,
    /// Closed by the peer before all messages were exchanged.
    pub closed_early: u64,
    /// Payload differs from what was sent.
    pub corrupted: u64,
    /// No answer to ARP or ND for the server's address.
    pub unresolved: u64,
    /// Ended by [`crate::Host::abort_all`].
    pub aborted: u64,
}

/// Subtracts each named counter.
macro_rules! difference {
    ($now:ident, $before:ident, $($name:ident),*; $($other:ident),*) => {
        Self {
            $($name: $now.$name.saturating_sub($before.$name),)*
            $($other: $now.$other.since(&$before.$other),)*
        }
    };
}

/// Adds each named counter.
macro_rules! sum {
    ($to:ident, $other:ident, $($name:ident),*;) => { $($to.$name += $other.$name;)* };
}

/// Calls one of these macros with every counter of [`Failures`].
macro_rules! of_failures {
    ($macro:ident, $one:ident, $other:ident) => {
        $macro!(
            $one, $other,
            refused, reset, timed_out_opening, timed_out, closed_early, corrupted, unresolved,
            aborted;
        )
    };
}

/// Calls one of these macros with every plain counter of [`Statistics`].
macro_rules! of_all {
    ($macro:ident, $one:ident, $other:ident; $($more:ident),*) => {
        $macro!(
            $one, $other,
            opened, accepted, established, completed, at_limit, tuples_exhausted, table_full,
            tx_packets, tx_bytes, rx_packets, rx_bytes, rx_malformed, rx_bad_checksum,
            rx_foreign, rx_returned, tx_foreign, rx_no_connection, retransmitted, retransmitted_syn,
            retransmission_timeouts, rx_duplicate, rx_out_of_order, rx_unacceptable,
            rx_payload_bytes, acknowledged_bytes, pauses, pauses_overrun, answers_dropped;
            $($more),*
        )
    };
}

impl Failures {
    /// Adds the counters of another host.
    pub fn add(&mut self, other: &Failures) {
        of_failures!(sum, self, other);
    }

    /// Returns the difference to `before`, an earlier state of these counters.
    #[must_use]
    pub fn since(&self, before: &Failures) -> Failures {
        of_failures!(difference, self, before)
    }

    /// Returns every kind with its name, zeros included.
    pub fn by_name(&self) -> [(&'static str, u64); 8] {
        [
            ("refused", self.refused),
            ("reset", self.reset),
            ("timed_out_opening", self.timed_out_opening),
            ("timed_out", self.timed_out),
            ("closed_early", self.closed_early),
            ("corrupted", self.corrupted),
            ("unresolved", self.unresolved),
            ("aborted", self.aborted),
        ]
    }

    /// Returns the sum of all kinds.
    pub fn total(&self) -> u64 {
        let Failures {
            refused,
            reset,
            timed_out_opening,
            timed_out,
            closed_early,
            corrupted,
            unresolved,
            aborted,
        } = *self;
        refused
            + reset
            + timed_out_opening
            + timed_out
            + closed_early
            + corrupted
            + unresolved
            + aborted
    }
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Completed,
    Refused,
    Reset,
    TimedOutOpening,
    TimedOut,
    ClosedEarly,
    Corrupted,
    Unresolved,
    Aborted,
}

impl Statistics {
    /// Returns the difference to `before`, an earlier state of these counters.
    #[must_use]
    pub fn since(&self, before: &Statistics) -> Statistics {
        of_all!(difference, self, before; failed, handshake_ns, reply_ns)
    }

    /// Adds the counters of another host of the same side.
    pub fn add(&mut self, other: &Statistics) {
        of_all!(sum, self, other;);
        self.failed.add(&other.failed);
        self.handshake_ns.merge(&other.handshake_ns);
        self.reply_ns.merge(&other.reply_ns);
    }

    /// Returns the packets sent to the other side.
    pub fn sent(&self) -> u64 {
        self.tx_packets - self.tx_foreign
    }

    /// Returns the packets received that belong to the generator.
    pub fn received(&self) -> u64 {
        self.rx_packets - self.rx_foreign
    }

    /// Returns every plain counter with its name.
    pub fn by_name(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("opened", self.opened),
            ("accepted", self.accepted),
            ("established", self.established),
            ("completed", self.completed),
            ("at_limit", self.at_limit),
            ("tuples_exhausted", self.tuples_exhausted),
            ("table_full", self.table_full),
            ("tx_packets", self.tx_packets),
            ("tx_bytes", self.tx_bytes),
            ("rx_packets", self.rx_packets),
            ("rx_bytes", self.rx_bytes),
            ("rx_malformed", self.rx_malformed),
            ("rx_bad_checksum", self.rx_bad_checksum),
            ("rx_foreign", self.rx_foreign),
            ("rx_returned", self.rx_returned),
            ("tx_foreign", self.tx_foreign),
            ("rx_no_connection", self.rx_no_connection),
            ("retransmitted", self.retransmitted),
            ("retransmitted_syn", self.retransmitted_syn),
            ("retransmission_timeouts", self.retransmission_timeouts),
            ("rx_duplicate", self.rx_duplicate),
            ("rx_out_of_order", self.rx_out_of_order),
            ("rx_unacceptable", self.rx_unacceptable),
            ("rx_payload_bytes", self.rx_payload_bytes),
            ("acknowledged_bytes", self.acknowledged_bytes),
            ("answers_dropped", self.answers_dropped),
        ]
    }

    pub(crate) fn count_end(&mut self, end: End) {
        let failed = &mut self.failed;
        *match end {
            End::Completed => &mut self.completed,
            End::Refused => &mut failed.refused,
            End::Reset => &mut failed.reset,
            End::TimedOutOpening => &mut failed.timed_out_opening,
            End::TimedOut => &mut failed.timed_out,
            End::ClosedEarly => &mut failed.closed_early,
            End::Corrupted => &mut failed.corrupted,
            End::Unresolved => &mut failed.unresolved,
            End::Aborted => &mut failed.aborted,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_can_be_taken_away_again() {
        let mut one = Statistics { opened: 3, tx_packets: 21, ..Statistics::default() };
        one.failed.reset = 2;
        one.handshake_ns.record(1000);
        let mut other = Statistics { opened: 4, rx_bytes: 7, ..Statistics::default() };
        other.failed.refused = 1;
        other.reply_ns.record(5000);
        let mut both = one.clone();
        both.add(&other);
        assert_eq!((both.opened, both.tx_packets, both.rx_bytes), (7, 21, 7));
        assert_eq!((both.failed.total(), both.handshake_ns.count()), (3, 1));
        assert_eq!(both.since(&other), one);
        // Every counter contributes.
        let all: u64 = both.by_name().iter().map(|(_, count)| count).sum();
        let parts = [&one, &other].map(|it| it.by_name().iter().map(|(_, n)| n).sum::<u64>());
        assert_eq!(all, parts[0] + parts[1]);
    }
}
