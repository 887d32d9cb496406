//! Which part of an index or a map a hash belongs to.
//!
//! The largest part has twice the entries of the smallest, and the others lie evenly between. Parts double
//! their room as they fill; of equal parts all would do so within a few insertions of each other, and so
//! would those of every index that grows with it: a pause of the thread that inserts then.

/// Parts of an index or a map.
pub(crate) const PARTS: usize = 256;
/// Bits of a hash that choose the part.
pub(crate) const BITS: u32 = 12;

/// Slices of all hashes.
const SLICES: usize = 1 << BITS;

/// The part of each slice.
static PART_OF: [u8; SLICES] = assign();

/// The part of a hash's [`BITS`].
#[inline]
pub(crate) fn part_of(slice: usize) -> usize {
    PART_OF[slice % SLICES].into()
}

const fn assign() -> [u8; SLICES] {
    let (mut parts, mut part, mut slice) = ([0; SLICES], 0, 0);
    while slice < SLICES {
        if end_of(part) <= slice {
            part += 1;
        }
        parts[slice] = part as u8;
        slice += 1;
    }
    parts
}

/// Where a part's slices end: the width of parts grows evenly from two thirds of the mean to four thirds.
const fn end_of(part: usize) -> usize {
    let end = part + 1;
    SLICES * (2 * PARTS * end + end * end) / (3 * PARTS * PARTS)
}

const _: () = assert!(PARTS - 1 <= u8::MAX as usize && end_of(PARTS - 1) == SLICES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_part_is_twice_the_smallest_and_all_differ_evenly() {
        let mut widths = [0usize; PARTS];
        (0..SLICES).for_each(|slice| widths[part_of(slice)] += 1);
        assert!(widths.iter().all(|width| (10..=22).contains(width)), "{widths:?}");
        let quarter = |n: usize| widths[n * PARTS / 4..(n + 1) * PARTS / 4].iter().sum::<usize>();
        let quarters = [0, 1, 2, 3].map(quarter);
        assert!(quarters.is_sorted() && quarters[3] * 10 > quarters[0] * 16, "{quarters:?}");
        assert!((1..SLICES).all(|slice| part_of(slice) - part_of(slice - 1) <= 1));
    }
}
