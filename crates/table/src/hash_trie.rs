//! A persistent hash trie: a clone costs one reference count and shares all that neither side
//! changes.
//!
//! The upper bits of a value's hash lead to its leaf. A change copies the leaf and the nodes above
//! it if another trie shares them, so that its cost does not depend on the number of values.

use crate::remains::{Dissolve, Remains};
use std::fmt;
use std::sync::Arc;

/// The number of hash bits that choose a child, and the number of children.
const BITS: u32 = 4;
const CHILDREN: usize = 1 << BITS;
/// The number of values from which a leaf is split.
const LEAF_MAX: usize = 16;

/// Values by hash. The caller supplies hash and comparison, as with `hashbrown::HashTable`.
pub struct HashTrie<T> {
    root: Edge<T>,
    len: usize,
}

type Edge<T> = Option<Arc<Node<T>>>;

#[derive(Clone)]
enum Node<T> {
    Leaf(Vec<(u64, T)>),
    Inner(Box<[Edge<T>; CHILDREN]>),
}

impl<T> Default for HashTrie<T> {
    fn default() -> Self {
        HashTrie { root: None, len: 0 }
    }
}

/// A clone shares all nodes.
impl<T> Clone for HashTrie<T> {
    fn clone(&self) -> Self {
        HashTrie { root: self.root.clone(), len: self.len }
    }
}

impl<T: fmt::Debug> fmt::Debug for HashTrie<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T> HashTrie<T> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the trie has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value with this hash for which `is_it` returns true.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        let (mut edge, mut shift) = (&self.root, u64::BITS);
        loop {
            match &**edge.as_ref()? {
                Node::Leaf(values) => {
                    let found = values.iter().find(|(have, value)| *have == hash && is_it(value));
                    return found.map(|(_, value)| value);
                }
                Node::Inner(children) => {
                    shift -= BITS;
                    edge = &children[child(hash, shift)];
                }
            }
        }
    }

    /// All values in the order of their hashes; values in one leaf are in any order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { nodes: self.root.as_deref().into_iter().collect(), leaf: [].iter() }
    }
}

impl<T: Clone> HashTrie<T> {
    /// Adds a value, even if there is an equal one.
    pub fn insert(&mut self, hash: u64, value: T) {
        self.len += 1;
        let (mut edge, mut shift) = (&mut self.root, u64::BITS);
        loop {
            let node = edge.get_or_insert_with(|| Arc::new(Node::Leaf(Vec::new())));
            let node = Arc::make_mut(node);
            if let Node::Leaf(values) = node
                && values.len() >= LEAF_MAX
                && shift > 0
            {
                *node = split(std::mem::take(values), shift - BITS);
            }
            match node {
                Node::Leaf(values) => return values.push((hash, value)),
                Node::Inner(children) => {
                    shift -= BITS;
                    edge = &mut children[child(hash, shift)];
                }
            }
        }
    }

    /// [`Self::find`] for changing the value.
    pub fn find_mut(&mut self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&mut T> {
        // A missing value must not cause copies.
        self.find(hash, &is_it)?;
        let (mut edge, mut shift) = (&mut self.root, u64::BITS);
        loop {
            match Arc::make_mut(edge.as_mut()?) {
                Node::Leaf(values) => {
                    let found =
                        values.iter_mut().find(|(have, value)| *have == hash && is_it(value));
                    return found.map(|(_, value)| value);
                }
                Node::Inner(children) => {
                    shift -= BITS;
                    edge = &mut children[child(hash, shift)];
                }
            }
        }
    }

    /// Removes the value with this hash for which `is_it` returns true.
    pub fn remove(&mut self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<T> {
        self.find(hash, &is_it)?;
        let removed = remove(&mut self.root, hash, u64::BITS, &is_it);
        self.len -= usize::from(removed.is_some());
        removed
    }
}

fn child(hash: u64, shift: u32) -> usize {
    (hash >> shift) as usize % CHILDREN
}

fn split<T: Clone>(values: Vec<(u64, T)>, shift: u32) -> Node<T> {
    let mut leaves: [Vec<(u64, T)>; CHILDREN] = Default::default();
    for (hash, value) in values {
        leaves[child(hash, shift)].push((hash, value));
    }
    let edge = |leaf: Vec<(u64, T)>| (!leaf.is_empty()).then(|| Arc::new(Node::Leaf(leaf)));
    Node::Inner(Box::new(leaves.map(edge)))
}

/// A node is removed with its last value.
fn remove<T: Clone>(
    edge: &mut Edge<T>,
    hash: u64,
    shift: u32,
    is_it: &impl Fn(&T) -> bool,
) -> Option<T> {
    let (removed, is_empty) = match Arc::make_mut(edge.as_mut()?) {
        Node::Leaf(values) => {
            let at = values.iter().position(|(have, value)| *have == hash && is_it(value))?;
            (values.swap_remove(at).1, values.is_empty())
        }
        Node::Inner(children) => {
            let shift = shift - BITS;
            let removed = remove(&mut children[child(hash, shift)], hash, shift, is_it)?;
            (removed, children.iter().all(Option::is_none))
        }
    };
    if is_empty {
        *edge = None;
    }
    Some(removed)
}

/// See [`HashTrie::iter`].
pub struct Iter<'a, T> {
    /// The nodes to visit, the next one last.
    nodes: Vec<&'a Node<T>>,
    leaf: std::slice::Iter<'a, (u64, T)>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some((_, value)) = self.leaf.next() {
                return Some(value);
            }
            match self.nodes.pop()? {
                Node::Leaf(values) => self.leaf = values.iter(),
                Node::Inner(children) => {
                    self.nodes.extend(children.iter().rev().filter_map(Option::as_deref));
                }
            }
        }
    }
}

impl<T: Send + Sync + 'static> HashTrie<T> {
    /// Frees the trie a part at a time.
    pub fn hand_over(self, remains: &mut Remains) {
        if let Some(root) = self.root.and_then(Arc::into_inner) {
            remains.add(Ended { nodes: vec![root] });
        }
    }
}

/// Nodes of which no other trie has a reference.
struct Ended<T> {
    nodes: Vec<Node<T>>,
}

impl<T: Send + Sync> Dissolve for Ended<T> {
    fn dissolve(&mut self, _: &mut Remains, left: &mut usize) {
        while *left > 0
            && let Some(node) = self.nodes.pop()
        {
            let parts = match node {
                Node::Leaf(values) => values.len(),
                Node::Inner(children) => {
                    self.nodes.extend(children.into_iter().flatten().filter_map(Arc::into_inner));
                    1
                }
            };
            *left = left.saturating_sub(parts);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
