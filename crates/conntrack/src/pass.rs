//! One `ct` action on one batch, with what the fast path and the slow path share: updates of connections, early
//! drop, and writing the results.

pub(crate) mod early_drop;
mod update;
mod write;

use crate::connections::{Connections, Found, ThreadContext};
use crate::management::settings::Settings;
use crate::record::{Life, Record, State, next_ms, passed_ms};
use crate::timeout::{Timeout, TimeoutPolicy};
use base::Instant;
use flow::{CtAction, Frame};
use table::{Guard, Index};

/// One `ct` action on one batch.
pub(crate) struct Pass<'a> {
    pub connections: &'a Connections,
    pub guard: &'a Guard<'a>,
    pub context: &'a mut ThreadContext,
    pub settings: &'a Settings,
    pub action: &'a CtAction,
    pub now: Instant,
    /// The current time in milliseconds, rounded down; `next_ms` is rounded up.
    pub now_ms: u64,
    next_ms: u64,
    /// State bits whose connections take the slow path.
    pub slow_path_bits: u64,
    /// The timeouts of the zone.
    pub policy: &'a TimeoutPolicy,
    /// The index of the zone's connections, if it has one.
    pub index: Option<&'a Index>,
}

impl<'a> Pass<'a> {
    pub fn new(
        connections: &'a Connections,
        guard: &'a Guard<'a>,
        context: &'a mut ThreadContext,
        settings: &'a Settings,
        action: &'a CtAction,
        now: Instant,
    ) -> Self {
        let zone = action.zone.0;
        Pass {
            connections,
            guard,
            context,
            settings,
            action,
            now,
            now_ms: passed_ms(now),
            next_ms: next_ms(now),
            slow_path_bits: State::slow_path_bits(action.nat.is_some()),
            policy: settings.policy(zone),
            index: connections.zones.get(guard, zone),
        }
    }

    /// Whether the packet passed this zone before, and so already has a state in it.
    #[inline(always)]
    pub fn was_tracked_here(&self, frame: &Frame) -> bool {
        !frame.key.ct_state().is_empty() && frame.key.ct_zone() == self.action.zone
    }

    /// Sets the connection's deadline to a full timeout from now.
    #[inline(always)]
    pub fn set_deadline(&self, record: &Record<'_>, found: Found, seen: Life, timeout: Timeout) {
        let deadline = self.deadline_ms(timeout);
        let before = record.set_deadline(seen, deadline);
        if before.is_some_and(|before| deadline < before) {
            self.connections.rearm_earlier(*record, found.id, deadline);
        }
    }

    /// The deadline of a timeout that starts now.
    #[inline(always)]
    pub fn deadline_ms(&self, timeout: Timeout) -> u64 {
        self.next_ms + u64::from(self.policy.get(timeout)) * 1000
    }

    #[inline(always)]
    pub fn count(&self, record: &Record<'_>, frame: &Frame, is_reply: bool) {
        if self.settings.counts_traffic {
            record.count(is_reply, frame.packet.len());
        }
    }
}
