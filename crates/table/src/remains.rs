//! Large values that are freed a part at a time.
//!
//! To drop a large tree of shared nodes takes as long as all nodes that are no longer shared. A thread that must not
//! wait hands the tree over to [`Remains`] instead, and frees a bounded number of parts in each step.

use std::fmt;

/// A value that can be freed a part at a time.
pub trait Dissolve: Send {
    /// Frees parts, and counts them down in `left`. Large values that this frees for the first time go to `remains`.
    /// Nothing is left if `left` is not 0 afterwards.
    fn dissolve(&mut self, remains: &mut Remains, left: &mut usize);
}

/// Values that are being freed.
#[derive(Default)]
pub struct Remains {
    waiting: Vec<Box<dyn Dissolve>>,
}

impl Remains {
    /// Adds a value.
    pub fn add(&mut self, value: impl Dissolve + 'static) {
        self.waiting.push(Box::new(value));
    }

    /// Frees at most this many parts. Returns whether there are more.
    pub fn free_some(&mut self, mut parts: usize) -> bool {
        while parts > 0
            && let Some(mut value) = self.waiting.pop()
        {
            let at = self.waiting.len();
            value.dissolve(self, &mut parts);
            if parts == 0 {
                // It goes on after what it has left behind, so that few values wait at a time.
                self.waiting.insert(at, value);
            }
            parts = parts.saturating_sub(1);
        }
        !self.waiting.is_empty()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// A list of values that are dropped one by one.
impl<T: Send> Dissolve for Vec<T> {
    fn dissolve(&mut self, _: &mut Remains, left: &mut usize) {
        while *left > 0
            && let Some(value) = self.pop()
        {
            drop(value);
            *left -= 1;
        }
    }
}

impl fmt::Debug for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remains({})", self.waiting.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::HashTrie;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A value that counts itself down when it is dropped.
    struct Counted(Arc<AtomicUsize>);

    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::Relaxed);
            Counted(Arc::clone(&self.0))
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_trie_is_freed_in_steps_and_what_others_share_stays() {
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let count = Arc::new(AtomicUsize::new(0));
        let new = || {
            count.fetch_add(1, Ordering::Relaxed);
            Arc::new(Counted(Arc::clone(&count)))
        };
        let there = || count.load(Ordering::Relaxed);
        let mut trie = HashTrie::default();
        (0..20_000).for_each(|n| trie.insert(hash(n), (n, new())));
        let kept = trie.clone();
        (10_000..20_000).for_each(|n| drop(trie.remove(hash(n), |(it, _)| *it == n)));
        assert_eq!(there(), 20_000);
        let mut remains = Remains::default();
        kept.hand_over(&mut remains);
        let (mut before, mut steps) = (there(), 0);
        loop {
            let has_more = remains.free_some(100);
            assert!(before - there() <= 100 + 16, "{} values in one step", before - there());
            (before, steps) = (there(), steps + 1);
            if !has_more {
                break;
            }
        }
        assert!(steps > 90 && there() == 10_000, "{steps} steps, {} left", there());
        assert!((0..10_000).all(|n| trie.find(hash(n), |(it, _)| *it == n).is_some()));
        trie.hand_over(&mut remains);
        while remains.free_some(1) {}
        assert_eq!(there(), 0);
        assert!(remains.is_empty());
    }

    #[test]
    fn what_a_value_leaves_behind_is_freed_too() {
        struct Nested(usize, Arc<AtomicUsize>);
        impl Dissolve for Nested {
            fn dissolve(&mut self, remains: &mut Remains, left: &mut usize) {
                while *left > 0 && self.0 > 0 {
                    (self.0, *left) = (self.0 - 1, *left - 1);
                    self.1.fetch_add(1, Ordering::Relaxed);
                    remains.add(Nested(self.0, Arc::clone(&self.1)));
                }
            }
        }
        let freed = Arc::new(AtomicUsize::new(0));
        let mut remains = Remains::default();
        remains.add(Nested(6, Arc::clone(&freed)));
        let steps = Rc::new(std::iter::from_fn(|| remains.free_some(4).then_some(())).count());
        assert_eq!(freed.load(Ordering::Relaxed), 63);
        assert!(*steps >= 63 / 4);
    }
}
