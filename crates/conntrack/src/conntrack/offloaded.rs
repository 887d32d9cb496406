//! Connections whose packets a device forwards (offload).
//!
//! Unless the device keeps the windows itself (`windows.rs`), it does not report sequence numbers, so
//! windows are not checked on such a connection from then on ([`State::LOOSE`]), as in Linux
//! (`IP_CT_TCP_FLAG_BE_LIBERAL`). The device never forwards FIN and RST, so states stay right.

use crate::connections::Connections;
use crate::conntrack::Conntrack;
use crate::management::settings::Settings;
use crate::protocols::query::Exchange;
use crate::protocols::tcp::TcpState;
use crate::record::{Kind, Record, State, next_ms, passed_ms};
use crate::timeout::Timeout;
use base::Instant;
use flow::{ConnectionRef, OffloadTraffic, Refusal};
use std::sync::Arc;
use std::time::Duration;

/// Access to offloaded connections at one time.
pub struct Offloaded<'a> {
    pub(super) connections: &'a Connections,
    pub(super) settings: Arc<Settings>,
    pub(super) now: Instant,
}

impl Conntrack {
    /// Calls `work` with access to offloaded connections.
    pub fn with_offloaded<T>(&self, now: Instant, work: impl FnOnce(&Offloaded<'_>) -> T) -> T {
        let settings = self.settings.get();
        // The guard of this context keeps records valid meanwhile.
        self.with_context(|connections, _, _| work(&Offloaded { connections, settings, now }))
    }
}

impl Offloaded<'_> {
    /// Returns the timeout of a connection that may be offloaded.
    ///
    /// # Errors
    /// The reason why the connection may not be offloaded.
    pub fn check(&self, connection: ConnectionRef) -> Result<Duration, Refusal> {
        let record = self.living(connection).ok_or(Refusal::Ended)?;
        let state = record.state();
        if state.has_helper() || state.is_expected() {
            return Err(Refusal::Helper);
        }
        let timeout = established(&record, state)?;
        let seconds = self.settings.policy(record.zone()).get(timeout);
        Ok(Duration::from_secs(seconds.into()))
    }

    /// Records that a device has begun to forward a connection's packets, without a look at TCP's windows.
    pub fn begin(&self, connection: ConnectionRef) {
        let Some(record) = self.living(connection) else { return };
        let state = record.state();
        let mut seen = state;
        while state.kind() == Kind::Tcp && !seen.has_any(State::LOOSE) {
            match record.replace_state(seen, seen.loose()) {
                Ok(()) => break,
                Err(changed) => seen = changed,
            }
        }
    }

    /// Counts packets that a device forwarded, and renews the deadline if there were any. Returns
    /// false if the connection has ended or flows can see a change: its rules must be removed.
    #[must_use]
    pub fn note(&self, connection: ConnectionRef, traffic: OffloadTraffic) -> bool {
        let Some(record) = self.living(connection) else { return false };
        let state = record.state();
        let Ok(timeout) = established(&record, state) else { return false };
        if traffic.packets == 0 {
            return true;
        }
        let seconds = self.settings.policy(record.zone()).get(timeout);
        let deadline = next_ms(self.now) + u64::from(seconds) * 1000;
        let life = record.life();
        if deadline > life.deadline_ms() {
            // A connection that ended meanwhile stays ended.
            let _ = record.set_deadline(life, deadline);
        }
        if self.settings.counts_traffic {
            let side = usize::from(connection.is_reply);
            record.count_more(side, traffic.packets, traffic.bytes);
        }
        true
    }

    /// The record, if the connection lives and nothing that flows can match on changed.
    pub(super) fn living(&self, connection: ConnectionRef) -> Option<Record<'_>> {
        let record = self.connections.record(connection.id);
        let life = record.life();
        // A connection of a flushed zone is in an index that is no longer the zone's.
        let is_there = record.state().header() == self.connections.zones.number(record.zone());
        let is_same = is_there && life.differs_from(connection.generation) == 0;
        (is_same && !life.is_over(passed_ms(self.now))).then_some(record)
    }
}

/// The timeout of an established connection: of TCP, one of which both sides are. Of one that was picked up in its
/// middle, a plain segment of the other side still changes the state.
fn established(record: &Record<'_>, state: State) -> Result<Timeout, Refusal> {
    let is_established = || {
        let peers = record.tcp();
        [peers.original.state, peers.reply.state] == [TcpState::Established; 2]
    };
    match state.kind() {
        Kind::Tcp if is_established() => Ok(Timeout::TcpEstablished),
        Kind::Other if state.exchange() == Exchange::Multiple => Ok(Timeout::UdpMultiple),
        Kind::Tcp | Kind::Other => Err(Refusal::NotEstablished),
        Kind::Icmp | Kind::Sctp => Err(Refusal::Protocol),
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
