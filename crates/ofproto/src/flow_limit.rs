//! How many megaflows the datapath may have just now: at most what is configured, and no more than
//! there is time to look at once a second (ovs: `ofproto/ofproto-dpif-upcall.c`, `udpif_revalidator`).

/// Megaflows that are allowed at first.
const AT_FIRST: usize = 10_000;
/// However slow dumps are, so many are allowed.
const AT_LEAST: usize = 1000;
/// How much the limit grows after a dump that was fast. Open vSwitch adds half of it, twice a second.
const STEP: usize = 2000;

/// The limit, which follows how long dumps take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowLimit {
    current: usize,
    maximum: usize,
}

impl FlowLimit {
    /// The limit to begin with.
    pub fn new(maximum: usize) -> Self {
        FlowLimit { current: maximum.min(AT_FIRST), maximum }
    }

    /// How many megaflows there may be.
    pub fn current(self) -> usize {
        self.current
    }

    /// Sets the most that the limit may grow to.
    pub fn set_maximum(&mut self, maximum: usize) {
        *self = FlowLimit { current: self.current.max(AT_LEAST).min(maximum), maximum };
    }

    /// Sets the limit of now, whatever dumps took.
    pub fn set_current(&mut self, current: usize) {
        self.current = current;
    }

    /// A dump of so many flows took so long.
    pub fn adapt(&mut self, flows: usize, dump_ms: u64) {
        let dump_ms = usize::try_from(dump_ms.max(1)).unwrap_or(usize::MAX);
        let next = match dump_ms {
            2001.. => self.current / (dump_ms / 1000),
            1301.. => self.current * 3 / 4,
            ..1000 if self.current < flows.saturating_mul(1000) / dump_ms => self.current + STEP,
            _ => self.current,
        };
        self.current = next.max(AT_LEAST).min(self.maximum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_how_long_dumps_take() {
        let mut limit = FlowLimit::new(200_000);
        let mut after = |flows, dump_ms| {
            limit.adapt(flows, dump_ms);
            limit.current()
        };
        // Few flows say nothing of what many would take.
        assert_eq!(after(9, 1), 10_000);
        assert_eq!(after(11, 0), 12_000);
        assert_eq!(after(100_000, 500), 14_000);
        assert_eq!(after(100_000, 1100), 14_000);
        assert_eq!(after(100_000, 1400), 10_500);
        assert_eq!(after(100_000, 3500), 3500);
        assert_eq!(after(100_000, 60_000), 1000);
        for _ in 0..200 {
            after(100_000, 10);
        }
        assert_eq!(after(100_000, 10), 200_000);
        limit.set_maximum(50);
        assert_eq!((limit.current(), FlowLimit::new(50).current()), (50, 50));
        limit.set_maximum(5000);
        assert_eq!(limit.current(), 1000);
    }
}
