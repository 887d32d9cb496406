//! The number of rules of a subtable per priority.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts by priority, as a tree of two levels with one byte each, so that a change copies at most
/// two short lists that a clone shares.
#[derive(Clone, Debug, Default)]
pub(crate) struct Priorities {
    by_upper: Arc<BTreeMap<u8, Arc<BTreeMap<u8, usize>>>>,
}

impl Priorities {
    /// The highest priority, 0 without rules.
    pub fn max(&self) -> u16 {
        let last = self.by_upper.last_key_value();
        let last = last.and_then(|(upper, by_lower)| Some((upper, by_lower.last_key_value()?.0)));
        last.map_or(0, |(upper, lower)| u16::from_be_bytes([*upper, *lower]))
    }

    /// Adds a rule of this priority.
    pub fn add(&mut self, priority: u16) {
        let [upper, lower] = priority.to_be_bytes();
        let by_lower = Arc::make_mut(&mut self.by_upper).entry(upper).or_default();
        *Arc::make_mut(by_lower).entry(lower).or_default() += 1;
    }

    /// Removes a rule of this priority.
    pub fn remove(&mut self, priority: u16) {
        let [upper, lower] = priority.to_be_bytes();
        let by_upper = Arc::make_mut(&mut self.by_upper);
        let Some(by_lower) = by_upper.get_mut(&upper) else { return };
        let counts = Arc::make_mut(by_lower);
        if let Some(count) = counts.get_mut(&lower) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&lower);
            }
        }
        if counts.is_empty() {
            by_upper.remove(&upper);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_is_known_as_rules_come_and_go() {
        let mut all = Priorities::default();
        assert_eq!(all.max(), 0);
        [7, 0x0107, 0x0107, 0x0102].into_iter().for_each(|priority| all.add(priority));
        let before = all.clone();
        for (gone, expect) in [(0x0107, 0x0107), (0x0107, 0x0102), (0x0102, 7), (7, 0)] {
            all.remove(gone);
            assert_eq!(all.max(), expect);
        }
        assert_eq!(before.max(), 0x0107);
    }
}
