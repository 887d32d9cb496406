//! The nodes of a hash trie.

use super::{BITS, LEAF_MAX};
use std::sync::Arc;

/// A node. It is shared by all tries that have not changed it.
#[derive(Clone)]
pub(super) enum Node<T> {
    Leaf(Leaf<T>),
    Inner(Inner<T>),
}

/// Values by hash, in ascending order. A leaf has more than [`LEAF_MAX`] only if their hashes are equal.
#[derive(Clone)]
pub(super) struct Leaf<T> {
    pub hashes: Vec<u64>,
    pub values: Vec<T>,
}

/// Nodes by slot, the next bits of the hash. A leaf has the values of all slots from its own up to that of the next
/// child, so that leaves are well filled whatever the number of values. An inner node has values of its own slot only.
#[derive(Clone)]
pub(super) struct Inner<T> {
    /// The slots of the children, by bit.
    slots: u16,
    pub children: Vec<Arc<Node<T>>>,
}

/// The slot of a hash in nodes above the lower `shift` bits.
fn slot_of(hash: u64, shift: u32) -> u32 {
    (hash >> shift) as u32 % u16::BITS
}

impl<T> Node<T> {
    /// An inner node over this leaf, for slots above the lower `shift` bits.
    pub fn over(leaf: Leaf<T>, shift: u32) -> Node<T> {
        let slot = leaf.hashes.first().map_or(0, |&hash| slot_of(hash, shift));
        Node::Inner(Inner { slots: 1 << slot, children: vec![Arc::new(Node::Leaf(leaf))] })
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.values.is_empty(),
            Node::Inner(inner) => inner.children.is_empty(),
        }
    }
}

impl<T> Leaf<T> {
    pub fn new() -> Self {
        Leaf { hashes: Vec::new(), values: Vec::new() }
    }

    /// The place of a value.
    #[inline]
    pub fn position(&self, hash: u64, mut is_it: impl FnMut(&T) -> bool) -> Option<usize> {
        let first = self.hashes.iter().position(|&have| have == hash)?;
        let equal = self.hashes[first..].iter().zip(&self.values[first..]);
        let mut equal = equal.take_while(|(have, _)| **have == hash);
        equal.position(|(_, value)| is_it(value)).map(|at| first + at)
    }

    /// Whether the leaf must be divided before another value is added.
    pub fn is_full(&self) -> bool {
        self.hashes.len() >= LEAF_MAX && self.hashes.first() != self.hashes.last()
    }

    pub fn insert(&mut self, hash: u64, value: T) {
        /// So many values are added before a leaf's memory grows again.
        const MORE: usize = 4;
        if self.values.len() == self.values.capacity() {
            self.values.reserve_exact(MORE);
            self.hashes.reserve_exact(MORE);
        }
        let at = self.hashes.partition_point(|&have| have <= hash);
        self.hashes.insert(at, hash);
        self.values.insert(at, value);
    }

    fn remove(&mut self, at: usize) -> T {
        self.hashes.remove(at);
        self.values.remove(at)
    }

    /// Takes out the values from a place on.
    fn split_off(&mut self, at: usize) -> Leaf<T> {
        let upper = Leaf { hashes: self.hashes.split_off(at), values: self.values.split_off(at) };
        self.shrink();
        upper
    }

    fn shrink(&mut self) {
        self.hashes.shrink_to_fit();
        self.values.shrink_to_fit();
    }
}

impl<T> Inner<T> {
    /// The place of the child in which a hash of this slot is, if it is there.
    #[inline]
    fn at(&self, slot: u32) -> usize {
        let up_to = self.slots & (u16::MAX >> (u16::BITS - 1 - slot));
        (up_to.count_ones() as usize).saturating_sub(1)
    }

    /// The child in which a hash is, if it is there.
    #[inline]
    pub fn child(&self, hash: u64, shift: u32) -> Option<&Arc<Node<T>>> {
        self.children.get(self.at(slot_of(hash, shift)))
    }

    #[inline]
    pub fn child_mut(&mut self, hash: u64, shift: u32) -> Option<&mut Arc<Node<T>>> {
        let at = self.at(slot_of(hash, shift));
        self.children.get_mut(at)
    }

    /// The slot of the child in this place.
    fn slot(&self, at: usize) -> u32 {
        let mut slots = self.slots;
        (0..at).for_each(|_| slots &= slots.wrapping_sub(1));
        slots.trailing_zeros()
    }

    /// The values of the first leaf that has hashes from this one on, and their hashes.
    pub fn values_from(&self, from: u64, shift: u32) -> Option<(&[u64], &[T])> {
        let slot = slot_of(from, shift);
        (self.at(slot)..self.children.len()).find_map(|at| match &*self.children[at] {
            Node::Leaf(leaf) => leaf.values_from(from),
            Node::Inner(inner) => match self.slot(at).cmp(&slot) {
                std::cmp::Ordering::Less => None,
                std::cmp::Ordering::Equal => inner.values_from(from, shift - BITS),
                std::cmp::Ordering::Greater => inner.values_from(0, shift - BITS),
            },
        })
    }

    fn insert_child(&mut self, at: usize, slot: u32, child: Node<T>) {
        self.slots |= 1 << slot;
        self.children.reserve_exact(1);
        self.children.insert(at, Arc::new(child));
    }

    fn remove_child(&mut self, at: usize) -> Arc<Node<T>> {
        self.slots &= !(1 << self.slot(at));
        self.children.remove(at)
    }
}

impl<T> Leaf<T> {
    /// The values with hashes from this one on, and their hashes, if there are any.
    pub fn values_from(&self, from: u64) -> Option<(&[u64], &[T])> {
        let at = self.hashes.partition_point(|&have| have < from);
        (at < self.hashes.len()).then(|| (&self.hashes[at..], &self.values[at..]))
    }
}

/// Changes copy nodes that another trie shares.
impl<T: Clone> Inner<T> {
    /// The child to which a value is to be added: a leaf with room, or an inner node of the value's slot.
    pub fn child_with_room(&mut self, hash: u64, shift: u32) -> &mut Arc<Node<T>> {
        let slot = slot_of(hash, shift);
        loop {
            let at = self.at(slot);
            let own = self.slot(at);
            match &*self.children[at] {
                Node::Leaf(leaf) if leaf.is_full() => self.divide(at, shift),
                Node::Leaf(_) => {
                    if slot < own {
                        self.slots = self.slots & !(1 << own) | 1 << slot;
                    }
                    return &mut self.children[at];
                }
                Node::Inner(_) if slot == own => return &mut self.children[at],
                Node::Inner(_) => {
                    let leaf = Node::Leaf(Leaf::new());
                    self.insert_child(at + usize::from(slot > own), slot, leaf);
                }
            }
        }
    }

    /// Divides a full leaf in two, or puts it one level down if all its values are of one slot.
    fn divide(&mut self, at: usize, shift: u32) {
        let own = self.slot(at);
        let Node::Leaf(leaf) = Arc::make_mut(&mut self.children[at]) else { return };
        let slot = |hash: &u64| slot_of(*hash, shift);
        let (Some(first), Some(last)) = (leaf.hashes.first(), leaf.hashes.last()) else { return };
        let (first, last, middle) =
            (slot(first), slot(last), slot(&leaf.hashes[leaf.hashes.len() / 2]));
        if first == last {
            let leaf = std::mem::replace(leaf, Leaf::new());
            self.children[at] = Arc::new(Node::over(leaf, shift - BITS));
            self.slots = self.slots & !(1 << own) | 1 << first;
            return;
        }
        let middle = leaf.hashes.partition_point(|hash| slot(hash) < middle.max(first + 1));
        let slot = slot(&leaf.hashes[middle]);
        let upper = leaf.split_off(middle);
        self.insert_child(at + 1, slot, Node::Leaf(upper));
    }

    /// After a removal below this child: removes it if it is empty, and joins leaves with few values.
    fn tidy(&mut self, at: usize) {
        let few = match &*self.children[at] {
            child if child.is_empty() => {
                self.remove_child(at);
                return;
            }
            Node::Inner(inner) => {
                if let [only] = &inner.children[..]
                    && matches!(**only, Node::Leaf(_))
                {
                    self.children[at] = Arc::clone(only);
                }
                return;
            }
            Node::Leaf(leaf) => leaf.values.len() <= LEAF_MAX / 4,
        };
        let len = |at: usize| match self.children.get(at).map(|child| &**child) {
            Some(Node::Leaf(leaf)) => leaf.values.len(),
            _ => LEAF_MAX,
        };
        let fits = |at: usize| len(at) + len(at + 1) <= LEAF_MAX / 2;
        let joined = [Some(at), at.checked_sub(1)].into_iter().flatten().find(|&at| fits(at));
        let Some(at) = joined.filter(|_| few) else { return };
        let upper = Arc::unwrap_or_clone(self.remove_child(at + 1));
        if let (Node::Leaf(lower), Node::Leaf(upper)) =
            (Arc::make_mut(&mut self.children[at]), upper)
        {
            lower.hashes.extend(upper.hashes);
            lower.values.extend(upper.values);
            lower.shrink();
        }
    }
}

/// Removes the value with this hash for which `is_it` returns true, from a node above the lower `shift` bits.
pub(super) fn remove<T: Clone>(
    node: &mut Arc<Node<T>>,
    hash: u64,
    shift: u32,
    is_it: &impl Fn(&T) -> bool,
) -> Option<T> {
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => leaf.position(hash, is_it).map(|at| leaf.remove(at)),
        Node::Inner(inner) => {
            let shift = shift.checked_sub(BITS)?;
            let at = inner.at(slot_of(hash, shift));
            let removed = remove(inner.children.get_mut(at)?, hash, shift, is_it)?;
            inner.tidy(at);
            Some(removed)
        }
    }
}
