//! What packets did that handlers answered: lists that the thread that owns the state applies.
//!
//! Packets that did the same are one entry, so that the lists stay short however many packets there are.

use crate::installed::Links;
use crate::translate::TunnelSender;
use base::Instant;
use flow::FlowStats;
use hashbrown::HashMap;
use std::sync::Arc;

/// Where there are more entries, handlers wait until they are applied.
const ENTRIES_MAX: usize = 32 * 1024;

/// Sums by what packets did.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    entries: Vec<(Arc<Links>, FlowStats)>,
    /// Places of entries by the address of what they stand for; the entry keeps it from being another's.
    place_of: HashMap<usize, usize>,
    /// Who sent outer packets to tunnels' ends, and when these arrived, in the order of arrival.
    senders: Vec<(TunnelSender, Instant)>,
    /// Some entry changes what translation reads, so that it is to be applied at once.
    is_urgent: bool,
}

impl Credits {
    /// Packets did this.
    pub fn add(&mut self, links: &Arc<Links>, more: &FlowStats) {
        let address = Arc::as_ptr(links).addr();
        let place = *self.place_of.entry(address).or_insert_with(|| {
            self.entries.push((Arc::clone(links), FlowStats::default()));
            self.entries.len() - 1
        });
        self.entries[place].1.add(more);
    }

    /// An outer packet arrived.
    pub fn add_sender(&mut self, sender: TunnelSender, received: Instant) {
        self.senders.push((sender, received));
    }

    /// They are to be applied at once.
    pub fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// Whether they are to be applied at once.
    pub fn is_urgent(&self) -> bool {
        self.is_urgent || self.is_full()
    }

    /// Whether handlers are to wait.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX || self.senders.len() >= ENTRIES_MAX
    }

    /// All entries; there are none then.
    pub fn take(&mut self) -> Vec<(Arc<Links>, FlowStats)> {
        self.is_urgent = false;
        self.place_of.clear();
        std::mem::take(&mut self.entries)
    }

    /// All senders; there are none then.
    pub fn take_senders(&mut self) -> Vec<(TunnelSender, Instant)> {
        std::mem::take(&mut self.senders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_did_the_same_are_one_entry() {
        let mut credits = Credits::default();
        let [a, b] = [(); 2].map(|()| Arc::new(Links::default()));
        let one = FlowStats { packets: 1, bytes: 60, ..FlowStats::default() };
        for links in [&a, &b, &a] {
            credits.add(links, &one);
        }
        let counts = |credits: &mut Credits| {
            credits.take().iter().map(|(_, sum)| (sum.packets, sum.bytes)).collect::<Vec<_>>()
        };
        credits.hurry();
        assert!(credits.is_urgent());
        assert_eq!(counts(&mut credits), [(2, 120), (1, 60)]);
        assert!(!credits.is_urgent() && counts(&mut credits).is_empty());
        credits.add(&a, &one);
        assert_eq!(counts(&mut credits), [(1, 60)]);
    }
}
