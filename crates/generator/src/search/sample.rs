//! The result of one trial in plain numbers, which the driver of the hosts fills in.

use crate::statistics::{Failures, Statistics};
use base::Histogram;
use serde::Serialize;

/// Packets of one direction over a whole trial, from the first connection until no packet is under way, so
/// that a packet that was sent and did not arrive is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Direction {
    /// Packets that one host wanted to send.
    pub sent: u64,
    /// Packets that the other host received.
    pub received: u64,
}

impl Direction {
    /// Returns the number of packets that did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// The part of a trial at the full rate, from which rates are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Window {
    /// Length in seconds.
    pub seconds: f64,
    /// Connections opened in the window.
    pub opened: u64,
    /// Connections completed in the window.
    pub completed: u64,
    /// Connections alive at a client at the end of the window.
    pub active: u64,
    /// Packets sent by both hosts.
    pub tx_packets: u64,
    /// Bytes sent by both hosts.
    pub tx_bytes: u64,
    /// Packets received by both hosts.
    pub rx_packets: u64,
    /// Bytes received by both hosts.
    pub rx_bytes: u64,
    /// Payload bytes that a client sent and received.
    pub payload_bytes: u64,
    /// Packets that the client sent and received.
    pub client_packets: u64,
    /// Share of the time in which the generator was busy, 0 to 1: iterations that moved at least one packet.
    /// It does not show how many more packets an iteration could have moved.
    pub busy: f64,
    /// Share of the time in which the generator left packets unreceived or unsent because it could do no
    /// more, 0 to 1; `None` where unknown.
    pub behind: Option<f64>,
}

/// One trial of one rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Requested rate, in connections per second.
    pub offered: f64,
    /// The window from which rates are computed.
    pub window: Window,
    /// Connections opened. This and all following fields cover the whole trial.
    pub opened: u64,
    /// Connections completed.
    pub completed: u64,
    /// Connections that failed, as counted by the client.
    pub failed: Failures,
    /// Connections that had not ended when the wait for them was over.
    pub unfinished: u64,
    /// Connections that the generator itself ended, because the trial had failed or was interrupted.
    pub cut_short: u64,
    /// The trial was ended early because its verdict could not change.
    pub ended_early: bool,
    /// Opens that the generator was too late for.
    pub missed: u64,
    /// Pauses before messages that ended.
    pub pauses: u64,
    /// Pauses that ended so late that their connections lived longer.
    pub pauses_overrun: u64,
    /// Opens that were refused because the limit of connections was reached.
    pub at_limit: u64,
    /// Opens that found no free combination of addresses and ports.
    pub tuples_exhausted: u64,
    /// First packets for which the generator's server had no free connection.
    pub server_full: u64,
    /// Packets that the generator's own ports rejected.
    pub port_errors: u64,
    /// Packets that the device did not take from the generator's ports; they count as lost.
    pub port_drops: u64,
    /// Longest time in which the generator polled no port, in nanoseconds.
    pub stall_ns: u64,
    /// Packets that the queues in front of the generator hold during a stall; `None` where unknown.
    pub queue_packets: Option<u64>,
    /// From the client to the server.
    pub forth: Direction,
    /// From the server to the client.
    pub back: Direction,
    /// Packets that both hosts sent again.
    pub retransmitted: u64,
    /// Packets without new data, at both hosts.
    pub duplicates: u64,
    /// Packets that cannot be read or have wrong checksums.
    pub garbage: u64,
    /// Packets for the servers that the client received.
    pub client_returned: u64,
    /// Packets for the clients that the server received.
    pub server_returned: u64,
    /// Packets of other senders on the wires of both sides, not counted elsewhere.
    pub foreign: u64,
    /// Packets that belong to no connection.
    pub no_connection: u64,
    /// Connections in the device's table before the trial; `None` where it cannot be read.
    pub table_before: Option<u64>,
    /// Connections that the device refused because its table was full.
    pub table_full: u64,
    /// A device that forwards nothing has failed, and is not reported as unconnected.
    pub nothing_is_loss: bool,
    /// Time from SYN to SYN/ACK.
    pub handshake_ns: Histogram,
    /// Time from request to reply.
    pub reply_ns: Histogram,
}

impl Sample {
    /// Adds what both hosts counted in the whole trial.
    pub fn count(&mut self, client: &Statistics, server: &Statistics, alive: usize, missed: u64) {
        self.opened = client.opened;
        self.completed = client.completed;
        self.failed = client.failed;
        self.cut_short = std::mem::take(&mut self.failed.aborted);
        self.unfinished = alive as u64;
        self.missed = missed;
        self.pauses = client.pauses + server.pauses;
        self.pauses_overrun = client.pauses_overrun + server.pauses_overrun;
        self.at_limit = client.at_limit;
        self.tuples_exhausted = client.tuples_exhausted;
        self.server_full = server.table_full;
        self.forth = Direction { sent: client.sent(), received: server.received() };
        self.back = Direction { sent: server.sent(), received: client.received() };
        self.retransmitted = client.retransmitted + server.retransmitted;
        self.duplicates = client.rx_duplicate + server.rx_duplicate;
        self.garbage = client.rx_malformed
            + client.rx_bad_checksum
            + server.rx_malformed
            + server.rx_bad_checksum;
        self.client_returned = client.rx_returned;
        self.server_returned = server.rx_returned;
        self.foreign = client.rx_foreign + server.rx_foreign;
        self.no_connection = client.rx_no_connection + server.rx_no_connection;
        self.handshake_ns = client.handshake_ns.clone();
        self.reply_ns = client.reply_ns.clone();
    }

    /// Returns the connections opened per second of the window.
    pub fn opened_per_second(&self) -> f64 {
        per_second(self.window.opened, self.window.seconds)
    }

    /// Returns the connections completed per second of the window.
    pub fn completed_per_second(&self) -> f64 {
        per_second(self.window.completed, self.window.seconds)
    }

    /// Returns the packets per second that each side receives when nothing is lost. A generator that stalls
    /// may receive fewer.
    pub(super) fn due_per_second_and_side(&self) -> f64 {
        let sent = self.forth.sent.max(self.back.sent);
        self.offered * sent as f64 / self.opened.max(1) as f64
    }

    /// Returns the share of packets lost in both directions together, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        ratio(self.forth.lost() + self.back.lost(), self.forth.sent + self.back.sent)
    }

    /// Returns the share of opened connections that failed, 0 to 1.
    pub fn failure_ratio(&self) -> f64 {
        ratio(self.failed.total() + self.unfinished, self.opened)
    }

    /// Returns the fault of a device with which no search can go on.
    pub fn broken(&self) -> Option<Broken> {
        let (forth, back) = (self.forth, self.back);
        // A few packets are not enough to judge.
        if forth.sent < 10 {
            return None;
        }
        let most = |part: u64, of: u64| part * 2 > of && part > 5;
        let received = forth.received + back.received;
        if most(self.client_returned, forth.sent) || most(self.server_returned, back.sent.max(10)) {
            return Some(Broken::WrongSide);
        }
        if most(self.garbage, received) {
            return Some(Broken::Garbage);
        }
        if received == 0 {
            return (!self.nothing_is_loss).then_some(Broken::Nothing);
        }
        if self.nothing_is_loss && back.received == 0 {
            return None;
        }
        if back.received == 0 && self.completed == 0 && forth.received > 0 && back.sent > 0 {
            return Some(Broken::NothingBack);
        }
        if received * 2 >= (forth.sent + back.sent) * 3 {
            return Some(Broken::Twice);
        }
        (self.failed.unresolved > 0 && self.completed == 0).then_some(Broken::Unresolved)
    }
}

/// A fault of the device that makes every rate fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Nothing arrives.
    #[error(
        "the device forwards nothing: not one packet came back; check that both ports are up and \
         joined to it, and that its rules let the clients' addresses through"
    )]
    Nothing,
    /// Nothing arrives from the servers.
    #[error(
        "the device forwards nothing from the servers to the clients; check its rules for answers \
         (with connection tracking: +est)"
    )]
    NothingBack,
    /// More packets arrive than were sent.
    #[error(
        "the device forwards packets twice: more arrived than was sent; look for a loop, or for \
         both ports in one broadcast domain"
    )]
    Twice,
    /// A host's packets come back to it.
    #[error(
        "the device sends packets back to the side that they came from; check which of its ports \
         is the clients', and that none is a hub or a loop"
    )]
    WrongSide,
    /// Most packets cannot be parsed.
    #[error(
        "the device answers garbage: most packets that arrive cannot be read or have wrong \
         checksums; switch its checksum offloads off"
    )]
    Garbage,
    /// No answer to ARP or neighbour discovery.
    #[error(
        "no host answers for the servers' addresses (ARP, ND); name the next hop's Ethernet \
         address with --gateway, or let the device forward ARP and ND"
    )]
    Unresolved,
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn ratio(part: u64, of: u64) -> f64 {
    if of > 0 { part as f64 / of as f64 } else { 0.0 }
}
