//! Rate limits of upcalls, for each port and class.

use base::{Instant, PortNo};
use flow::QueueClass;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::time::Duration;

/// The burst, as a time at the permitted rate.
const BURST: Duration = Duration::from_millis(100);

/// Maximum upcalls per second, per port and class; unlimited unless set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UpcallRates {
    /// For each port separately.
    pub every_port: BTreeMap<QueueClass, u32>,
    /// For one port, instead of those for every port.
    pub by_port: BTreeMap<(PortNo, QueueClass), u32>,
}

impl UpcallRates {
    /// Whether there are no limits.
    pub fn is_empty(&self) -> bool {
        self.every_port.is_empty() && self.by_port.is_empty()
    }

    fn of(&self, port: PortNo, class: QueueClass) -> Option<u32> {
        self.by_port.get(&(port, class)).or_else(|| self.every_port.get(&class)).copied()
    }
}

/// Lets upcalls in by their rates (generic cell rate algorithm, ITU-T I.371 annex A).
#[derive(Debug, Default)]
pub(super) struct RateLimiter {
    rates: UpcallRates,
    /// When the next upcall would arrive at exactly its rate.
    due: HashMap<(PortNo, QueueClass), Instant>,
}

impl RateLimiter {
    /// Replaces the rates. The state of a port and class whose rate is unchanged is kept.
    pub fn set_rates(&mut self, rates: UpcallRates) {
        let RateLimiter { rates: old, due } = self;
        due.retain(|(port, class), _| rates.of(*port, *class) == old.of(*port, *class));
        *old = rates;
    }

    /// Whether an upcall is within its rate; if so, it is counted.
    pub fn admits(&mut self, now: Instant, port: PortNo, class: QueueClass) -> bool {
        let Some(rate) = self.rates.of(port, class) else { return true };
        let due = self.due.entry((port, class)).or_insert(now);
        let at = (*due).max(now);
        if at - now >= BURST {
            return false;
        }
        *due = at + Duration::from_secs(1) / rate.max(1);
        true
    }

    pub fn remove_port(&mut self, port: PortNo) {
        self.due.retain(|(of, _), _| *of != port);
    }
}
