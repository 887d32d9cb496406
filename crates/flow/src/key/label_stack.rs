//! The MPLS label stack of a packet, and what lies in its place in others.

use super::FlowKey;
use crate::field::{Field, HEADER_FIELDS};
use wire::{LabelEntry, ethertype};

/// The number of label stack entries that a key has (ovs: `include/openvswitch/flow.h`,
/// `FLOW_MAX_MPLS_LABELS`).
pub const MPLS_LABELS: usize = 3;
/// The entries, the outermost first.
const ENTRIES: [Field; MPLS_LABELS] = [Field::MplsLse0, Field::MplsLse1, Field::MplsLse2];
/// The words that the label stack shares with neighbour discovery.
const SHARED: std::ops::Range<usize> = Field::NdTarget.word()..Field::NdTarget.word() + 2;
const _: () = assert!(Field::MplsLse0.word() == SHARED.start);
const _: () = assert!(Field::MplsLse2.word() + 1 == SHARED.end);

impl FlowKey {
    /// Whether the packet begins with an MPLS label stack behind its Ethernet header.
    pub fn is_mpls(&self) -> bool {
        ethertype::is_mpls(self.eth_type())
    }

    /// Whether the packet begins with an NSH header behind its Ethernet header.
    pub fn is_nsh(&self) -> bool {
        self.eth_type() == ethertype::NSH
    }

    /// The label stack, the outermost entry first: as much of it as a key has.
    pub fn label_stack(&self) -> [LabelEntry; MPLS_LABELS] {
        ENTRIES.map(|field| LabelEntry(self.get(field) as u32))
    }

    /// Stores [`Self::label_stack`].
    pub fn set_label_stack(&mut self, stack: &[LabelEntry; MPLS_LABELS]) {
        for (field, entry) in ENTRIES.into_iter().zip(stack) {
            self.set(field, entry.0.into());
        }
    }

    /// The number of label stack entries that the key has: up to the bottom of the stack, or all that are not
    /// zero if the stack is deeper (ovs: `lib/flow.c`, `flow_count_mpls_labels`). 0 for other packets.
    pub fn count_labels(&self) -> usize {
        if !self.is_mpls() {
            return 0;
        }
        let stack = self.label_stack();
        match stack.iter().position(|entry| entry.is_bottom()) {
            Some(bottom) => bottom + 1,
            None => stack.iter().filter(|entry| entry.0 != 0).count(),
        }
    }

    /// The words in the place of the label stack, whatever they are of.
    pub fn label_words(&self) -> [u64; 2] {
        [self.words[SHARED.start], self.words[SHARED.start + 1]]
    }

    /// Stores [`Self::label_words`].
    pub fn set_label_words(&mut self, words: [u64; 2]) {
        self.words[SHARED].copy_from_slice(&words);
    }

    /// Makes all fields of the packet's headers zero.
    pub fn clear_headers(&mut self) {
        self.words[HEADER_FIELDS].fill(0);
    }

    /// Takes over all fields of another packet's headers, and its packet type.
    pub fn copy_headers(&mut self, from: &FlowKey) {
        self.words[HEADER_FIELDS].copy_from_slice(&from.words[HEADER_FIELDS]);
    }

    /// Makes all fields of headers behind the VLAN tags zero.
    pub fn clear_network(&mut self) {
        self.words[Field::Ipv6Src.word()..HEADER_FIELDS.end].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_counted_up_to_the_bottom_of_the_stack() {
        let mut key = FlowKey::new();
        let bottom = LabelEntry::new(5, 0, true, 64);
        let outer = LabelEntry::new(6, 0, false, 64);
        let none = LabelEntry(0);
        for (stack, expect) in [
            ([bottom, none, none], 1),
            ([outer, bottom, none], 2),
            ([outer, outer, bottom], 3),
            ([outer, outer, outer], 3),
            ([outer, none, none], 1),
            ([bottom, bottom, none], 1),
        ] {
            key.set_label_stack(&stack);
            key.set_eth_type(ethertype::MPLS_MULTICAST);
            assert_eq!((key.count_labels(), key.label_stack()), (expect, stack));
            key.set_eth_type(ethertype::IPV6);
            assert_eq!(key.count_labels(), 0);
        }
    }
}
