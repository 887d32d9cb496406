//! Waiting offers and installed rules.

use super::Changes;
use super::pairs::Checked;
use base::{Instant, PortNo, WorkerId};
use conntrack::Conntrack;
use flow::{ConnectionRef, FlowId, OffloadOffer, OffloadRule, OffloadTunnel, Refusal};
use std::time::Duration;

/// An installed rule.
#[derive(Debug)]
pub(super) struct Held {
    pub worker: WorkerId,
    pub flows: Vec<FlowId>,
    pub connections: Vec<ConnectionRef>,
    pub ports: Vec<PortNo>,
    pub tcp_flags: u16,
    /// The tunnel that its packets come out of. Its headers are credited to the first flow.
    pub tunnel: Option<OffloadTunnel>,
    /// The mark that the device sets on packets that it does not forward.
    pub mark: Option<u32>,
    /// Set if the device checks the windows of its connection.
    pub checked: Option<Checked>,
}

/// A waiting offer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub since: Instant,
    /// Number of commands that the worker had received.
    pub seen: u64,
    pub offer: OffloadOffer,
    /// The device does not check its connection's windows.
    pub is_alone: bool,
}

impl Held {
    /// Returns whether packets get the mark of an offered rule, if they get any.
    pub fn has_mark_of(&self, rule: &OffloadRule) -> bool {
        self.mark.is_none_or(|mark| rule.mark == Some(mark))
    }
}

impl Waiting {
    /// Returns the idle time of an offer that may be installed.
    pub fn check(
        &self,
        conntrack: &Conntrack,
        now: Instant,
        changes: &Changes,
    ) -> Result<Duration, Refusal> {
        if !changes.are_none_since(self.seen, &self.offer) {
            return Err(Refusal::FlowChanged);
        }
        check(conntrack, now, &self.offer.rule)
    }
}

/// Checks a rule's connections. Returns the idle time after which the first of them expires.
fn check(conntrack: &Conntrack, now: Instant, rule: &OffloadRule) -> Result<Duration, Refusal> {
    conntrack.with_offloaded(now, |it| {
        let mut idle = Duration::MAX;
        for connection in rule.connections() {
            idle = idle.min(it.check(connection)?);
        }
        Ok(idle)
    })
}
