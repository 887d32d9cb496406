//! The effects of packets that handlers answered, collected for the thread that owns the state.
//!
//! Packets with the same effects share an entry, so the lists stay short.

use crate::links::Links;
use crate::translate::TunnelSender;
use base::Instant;
use flow::FlowStats;
use hashbrown::HashMap;
use std::sync::Arc;

/// With more entries, handlers wait until they are applied.
const ENTRIES_MAX: usize = 32 * 1024;

/// Packet counts by effects.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    entries: Vec<(Arc<Links>, FlowStats)>,
    /// Entry numbers by the address of their links. The entry holds the `Arc`, so the address stays unique.
    place_of: HashMap<usize, usize>,
    /// Senders of outer packets that arrived at tunnel ends, with the times, in order of arrival.
    senders: Vec<(TunnelSender, Instant)>,
    /// Some entry changes what translation reads, so it is to be applied at once.
    is_urgent: bool,
}

impl Credits {
    /// Adds packets with these effects.
    pub fn add(&mut self, links: &Arc<Links>, more: &FlowStats) {
        let address = Arc::as_ptr(links).addr();
        let place = *self.place_of.entry(address).or_insert_with(|| {
            self.entries.push((Arc::clone(links), FlowStats::default()));
            self.entries.len() - 1
        });
        self.entries[place].1.add(more);
    }

    /// Adds the sender of an outer packet.
    pub fn add_sender(&mut self, sender: TunnelSender, received: Instant) {
        self.senders.push((sender, received));
    }

    /// Requests that the entries are applied at once.
    pub fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// Whether the entries are to be applied at once.
    pub fn is_urgent(&self) -> bool {
        self.is_urgent || self.is_full()
    }

    /// Whether handlers have to wait.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX || self.senders.len() >= ENTRIES_MAX
    }

    /// Takes all entries.
    pub fn take(&mut self) -> Vec<(Arc<Links>, FlowStats)> {
        self.is_urgent = false;
        self.place_of.clear();
        std::mem::take(&mut self.entries)
    }

    /// Takes all senders.
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
