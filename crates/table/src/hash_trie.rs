//! A persistent hash trie: a clone costs one reference count and shares all that neither side
//! changes.
//!
//! The upper bits of a value's hash lead to its leaf. A change copies the leaf and the nodes above
//! it if another trie shares them, so that its cost does not depend on the number of values.

mod node;

use crate::remains::{Dissolve, Remains};
use node::{Leaf, Node};
use std::fmt;
use std::sync::Arc;

/// The number of hash bits that choose a child.
const BITS: u32 = 4;
/// The number of values from which a leaf is divided.
const LEAF_MAX: usize = 16;

/// Values by hash. The caller supplies hash and comparison, as with `hashbrown::HashTable`.
pub struct HashTrie<T> {
    root: Option<Arc<Node<T>>>,
    len: usize,
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
    pub fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        let (mut node, mut shift) = (self.root.as_ref()?, u64::BITS);
        loop {
            match &**node {
                Node::Leaf(leaf) => return leaf.values.get(leaf.position(hash, is_it)?),
                Node::Inner(inner) => {
                    shift -= BITS;
                    node = inner.child(hash, shift)?;
                }
            }
        }
    }

    /// All values in the order of their hashes.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { nodes: self.root.as_deref().into_iter().collect(), leaf: [].iter() }
    }

    /// Some of the values with hashes from this one on, in their order, and the hash from which to go on. All values of
    /// one hash come together. None if there are no more.
    pub fn part(&self, from: u64) -> (&[T], Option<u64>) {
        let found = match self.root.as_deref() {
            None => None,
            Some(Node::Leaf(leaf)) => leaf.values_from(from),
            Some(Node::Inner(inner)) => inner.values_from(from, u64::BITS - BITS),
        };
        let (hashes, values) = found.unwrap_or_default();
        (values, hashes.last().and_then(|last| last.checked_add(1)))
    }
}

impl<T: Clone> HashTrie<T> {
    /// Adds a value, even if there is an equal one.
    pub fn insert(&mut self, hash: u64, value: T) {
        self.len += 1;
        let mut shift = u64::BITS;
        let mut node = self.root_with_room();
        loop {
            match Arc::make_mut(node) {
                Node::Leaf(leaf) => return leaf.insert(hash, value),
                Node::Inner(inner) => {
                    shift -= BITS;
                    node = inner.child_with_room(hash, shift);
                }
            }
        }
    }

    /// [`Self::find`] for changing the value.
    pub fn find_mut(&mut self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&mut T> {
        // A missing value must not cause copies.
        self.find(hash, &is_it)?;
        let (mut node, mut shift) = (self.root.as_mut()?, u64::BITS);
        loop {
            match Arc::make_mut(node) {
                Node::Leaf(leaf) => {
                    let at = leaf.position(hash, is_it)?;
                    return leaf.values.get_mut(at);
                }
                Node::Inner(inner) => {
                    shift -= BITS;
                    node = inner.child_mut(hash, shift)?;
                }
            }
        }
    }

    /// Removes the value with this hash for which `is_it` returns true.
    pub fn remove(&mut self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<T> {
        self.find(hash, &is_it)?;
        let root = self.root.as_mut()?;
        let removed = node::remove(root, hash, u64::BITS, &is_it);
        self.len -= usize::from(removed.is_some());
        if root.is_empty() {
            self.root = None;
        }
        removed
    }

    /// The root: a leaf with room, or an inner node.
    fn root_with_room(&mut self) -> &mut Arc<Node<T>> {
        let root = self.root.get_or_insert_with(|| Arc::new(Node::Leaf(Leaf::new())));
        if let Node::Leaf(leaf) = &**root
            && leaf.is_full()
        {
            *root = Arc::new(Node::over(leaf.clone(), u64::BITS - BITS));
        }
        root
    }
}

/// See [`HashTrie::iter`].
pub struct Iter<'a, T> {
    /// The nodes to visit, the next one last.
    nodes: Vec<&'a Node<T>>,
    leaf: std::slice::Iter<'a, T>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(value) = self.leaf.next() {
                return Some(value);
            }
            match self.nodes.pop()? {
                Node::Leaf(leaf) => self.leaf = leaf.values.iter(),
                Node::Inner(inner) => {
                    self.nodes.extend(inner.children.iter().rev().map(|child| &**child));
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
                Node::Leaf(leaf) => leaf.values.len(),
                Node::Inner(inner) => {
                    self.nodes.extend(inner.children.into_iter().filter_map(Arc::into_inner));
                    1
                }
            };
            *left = left.saturating_sub(parts);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
