//! A binary trie of prefixes, which tells how many bits of a value decide which prefixes it can
//! match.

use std::sync::Arc;
use table::{Dissolve, Remains};

/// Prefixes of up to 128 bits, each with the number of flows that have it. Values and prefixes lie
/// at the upper end of their 128 bits, whatever the width of the field.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrefixTrie {
    root: Edge,
}

/// The result of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TrieMatch {
    /// The number of bits read from the value: any value with the same bits has the same `lengths`.
    pub bits: u32,
    lengths: u128,
}

/// Clones of a trie share the nodes that neither of them changes.
type Edge = Option<Arc<Node>>;

#[derive(Clone, Debug)]
struct Node {
    /// The bits that this node adds to its parent's, at the upper end; the rest is zero.
    prefix: u128,
    /// The number of those bits; 0 only if the root must branch at the first bit.
    bits: u32,
    /// The number of flows with exactly the prefix that ends here.
    flows: u32,
    /// The children, by the next bit.
    edges: [Edge; 2],
}

impl TrieMatch {
    /// Whether a prefix of this length (1 to 128 bits) can match the value.
    pub fn has_length(&self, len: u32) -> bool {
        self.lengths >> (len - 1) & 1 != 0
    }
}

impl PrefixTrie {
    /// Adds a flow with the first `len` bits (1 to 128) of `value`.
    pub fn insert(&mut self, value: u128, len: u32) {
        insert(&mut self.root, keep_upper(value, len), len);
    }

    /// Removes a flow that was added with the same prefix.
    pub fn remove(&mut self, value: u128, len: u32) {
        remove(&mut self.root, keep_upper(value, len), len);
    }

    /// Looks up `value`, whose field is `width` bits wide. The bits read include the first one that
    /// differs, but none past a leaf (ovs: `lib/classifier.c`, `trie_lookup_value`).
    pub fn lookup(&self, value: u128, width: u32) -> TrieMatch {
        let mut found = TrieMatch { bits: 0, lengths: 0 };
        let mut edge = &self.root;
        let mut at_leaf = true;
        while let Some(node) = edge {
            let equal = (node.prefix ^ (value << found.bits)).leading_zeros().min(node.bits);
            found.bits += equal;
            if equal < node.bits {
                found.bits += 1;
                return found;
            }
            if node.flows > 0 {
                found.lengths |= 1 << (found.bits - 1);
            }
            if found.bits >= width {
                return found;
            }
            at_leaf = node.edges.iter().all(Option::is_none);
            edge = &node.edges[branch(value << found.bits)];
        }
        if !at_leaf {
            found.bits += 1;
        }
        found
    }
}

impl PrefixTrie {
    /// Frees the trie a part at a time.
    pub fn hand_over(self, remains: &mut Remains) {
        if let Some(root) = self.root.and_then(Arc::into_inner) {
            remains.add(Ended { nodes: vec![root] });
        }
    }
}

/// Nodes of which no other trie has a reference.
struct Ended {
    nodes: Vec<Node>,
}

impl Dissolve for Ended {
    fn dissolve(&mut self, _: &mut Remains, left: &mut usize) {
        while *left > 0
            && let Some(node) = self.nodes.pop()
        {
            *left -= 1;
            self.nodes.extend(node.edges.into_iter().flatten().filter_map(Arc::into_inner));
        }
    }
}

/// The first `len` bits of `value`, the others zero.
fn keep_upper(value: u128, len: u32) -> u128 {
    value & !u128::MAX.checked_shr(len).unwrap_or(0)
}

/// The child that the first bit selects.
fn branch(value: u128) -> usize {
    usize::from(value >> 127 != 0)
}

fn insert(edge: &mut Edge, prefix: u128, len: u32) {
    let Some(node) = edge else {
        *edge = Some(Arc::new(Node { prefix, bits: len, flows: 1, edges: [None, None] }));
        return;
    };
    let equal = (node.prefix ^ prefix).leading_zeros().min(node.bits).min(len);
    if equal < node.bits {
        // The prefix differs from the node's within it, or ends in it: a new parent takes the
        // common bits.
        let below = Arc::make_mut(node);
        below.prefix <<= equal;
        below.bits -= equal;
        let way = branch(below.prefix);
        let mut edges = [None, None];
        edges[way] = edge.take();
        if equal < len {
            insert(&mut edges[1 - way], prefix << equal, len - equal);
        }
        let prefix = keep_upper(prefix, equal);
        let flows = u32::from(equal == len);
        *edge = Some(Arc::new(Node { prefix, bits: equal, flows, edges }));
    } else if equal == len {
        Arc::make_mut(node).flows += 1;
    } else {
        let rest = prefix << equal;
        insert(&mut Arc::make_mut(node).edges[branch(rest)], rest, len - equal);
    }
}

fn remove(edge: &mut Edge, prefix: u128, len: u32) {
    let Some(node) = edge else { return };
    let node = Arc::make_mut(node);
    let equal = (node.prefix ^ prefix).leading_zeros().min(node.bits).min(len);
    if equal == node.bits {
        if equal == len {
            node.flows = node.flows.saturating_sub(1);
        } else {
            let rest = prefix << equal;
            remove(&mut node.edges[branch(rest)], rest, len - equal);
        }
    }
    if node.flows == 0 {
        drop_idle(edge);
    }
}

/// Joins a node without flows and its only child, or removes it if it has no child, so that the
/// trie has the same shape as after inserting its prefixes alone.
fn drop_idle(edge: &mut Edge) {
    let Some(node) = edge else { return };
    let node = Arc::make_mut(node);
    if node.edges.iter().all(Option::is_some) {
        return;
    }
    let [zero, one] = &mut node.edges;
    let mut only = zero.take().or_else(|| one.take());
    if let Some(child) = &mut only {
        let child = Arc::make_mut(child);
        child.prefix = node.prefix | child.prefix >> node.bits;
        child.bits += node.bits;
    }
    *edge = only;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix() -> impl Strategy<Value = (u128, u32)> {
        // A few bits at the top and at the bottom, so that prefixes often share a beginning.
        (0..8u128, 0..4u128, 1..=128u32)
            .prop_map(|(top, low, len)| (keep_upper(top << 125 | low, len), len))
    }

    #[test]
    fn bits_needed_are_those_up_to_the_first_difference() {
        let mut trie = PrefixTrie::default();
        let nothing = trie.lookup(7 << 96, 32);
        assert_eq!((nothing.bits, nothing.lengths), (0, 0));
        // 10.1.0.0/16 alone, then 10.1.2.0/24 below it.
        trie.insert(0x0a01_0000 << 96, 16);
        assert_eq!(trie.lookup(0x0b01_020f << 96, 32).bits, 8);
        assert_eq!(trie.lookup(0x0a01_020f << 96, 32).bits, 16);
        trie.insert(0x0a01_0200 << 96, 24);
        let found = trie.lookup(0x0a01_020f << 96, 32);
        assert!(found.has_length(16) && found.has_length(24) && !found.has_length(32));
        assert_eq!(found.bits, 24);
        let beside = trie.lookup(0x0a01_8000 << 96, 32);
        assert!(beside.has_length(16) && !beside.has_length(24));
        assert_eq!(beside.bits, 17);
        trie.remove(0x0a01_0000 << 96, 16);
        trie.remove(0x0a01_0200 << 96, 24);
        assert!(trie.root.is_none());
    }

    proptest! {
        #[test]
        fn lengths_are_those_of_a_scan_and_hold_for_all_values_with_the_same_bits(
            prefixes in prop::collection::vec((prefix(), any::<bool>()), 0..24),
            values in prop::collection::vec((prefix(), any::<u128>()), 1..8),
        ) {
            let mut trie = PrefixTrie::default();
            for ((value, len), _) in &prefixes {
                trie.insert(*value, *len);
            }
            for ((value, len), _) in prefixes.iter().filter(|(_, kept)| !kept) {
                trie.remove(*value, *len);
            }
            for ((value, _), noise) in values {
                let found = trie.lookup(value, 128);
                let other = keep_upper(value, found.bits)
                    | (noise & !keep_upper(u128::MAX, found.bits));
                for len in 1..=128 {
                    let expect = |value: u128| prefixes.iter().any(|&((prefix, plen), kept)| {
                        kept && plen == len && keep_upper(value, len) == prefix
                    });
                    prop_assert_eq!(found.has_length(len), expect(value));
                    prop_assert_eq!(found.has_length(len), expect(other));
                }
            }
        }
    }
}
