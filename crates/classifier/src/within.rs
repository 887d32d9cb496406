//! The rules within a match, visited a part at a time.

use crate::rules::Classifier;
use crate::subtable::RuleRef;
use flow::Match;

/// A place between two rules of a [`Classifier`], which must not change meanwhile: use a clone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// The subtable's rank, and the hash in it from which to go on.
    rank: usize,
    hash: u64,
}

/// Where a visit stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visited {
    /// In the middle, since all steps are spent.
    Part,
    /// After the last rule of a mask. There may be other masks.
    Mask,
    /// After the last rule.
    All,
}

impl<R> Classifier<R> {
    /// Visits rules of [`Self::matching_within`] from a place on, until those of one mask are complete or all steps are
    /// spent. Each examined rule is a step.
    pub fn visit_within(
        &self,
        matching: &Match,
        place: &mut Place,
        left: &mut usize,
        mut visit: impl FnMut(RuleRef<'_, R>),
    ) -> Visited {
        while let Some(subtable) = self.at_rank(place.rank) {
            if *left == 0 {
                return Visited::Part;
            }
            if !matching.mask().is_within(subtable.mask()) {
                *left -= 1;
                place.rank += 1;
                continue;
            }
            loop {
                let next = subtable.part(place.hash, left, |rule| {
                    // The rule's mask has all bits of `matching`, so overlapping means that the values agree.
                    if rule.overlaps(matching) {
                        visit(rule);
                    }
                });
                let Some(next) = next else { break };
                place.hash = next;
                if *left == 0 {
                    return Visited::Part;
                }
            }
            *place = Place { rank: place.rank + 1, hash: 0 };
            return Visited::Mask;
        }
        Visited::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Field;

    #[test]
    fn parts_of_any_size_together_are_all_rules_within_the_match() {
        let mut all = Classifier::new();
        let tcp = Match::any().with(Field::EthType, 0x800).with(Field::NwProto, 6);
        for n in 0..3000u16 {
            let matching = match n % 3 {
                0 => tcp.clone().with(Field::TpDst, n.into()),
                1 => tcp.clone().with(Field::TpSrc, n.into()),
                _ => Match::any().with(Field::InPort, n.into()),
            };
            all.insert(&matching, n % 7, n);
        }
        for (matching, count) in [(&Match::any(), 3000), (&tcp, 2000)] {
            let whole: Vec<u16> = all.matching_within(matching).map(|it| *it.rule).collect();
            assert_eq!(whole.len(), count);
            for steps in [1, 7, 100, 100_000] {
                let (mut place, mut found, mut masks) = (Place::default(), Vec::new(), 0);
                loop {
                    let (mut left, before) = (steps, found.len());
                    let end = all
                        .visit_within(matching, &mut place, &mut left, |it| found.push(*it.rule));
                    // A step ends at the end of a leaf of the trie.
                    assert!(found.len() - before <= steps + 16);
                    masks += usize::from(end == Visited::Mask);
                    if end == Visited::All {
                        break;
                    }
                }
                assert_eq!((&found, masks), (&whole, count / 1000), "{steps} steps");
            }
        }
    }
}
