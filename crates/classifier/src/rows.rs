//! Rows of words, all of one length, in pieces: a new row never moves the others.

use std::ops::Range;
use table::free_piece;

/// The number of rows in a piece.
const PIECE: usize = 512;

/// Rows, numbered without gaps.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The number of words in a row.
    stride: usize,
    pieces: Vec<Vec<u64>>,
    len: usize,
}

impl Rows {
    /// An empty table with rows of `stride` words, at least one.
    pub fn new(stride: usize) -> Rows {
        Rows { stride: stride.max(1), pieces: Vec::new(), len: 0 }
    }

    /// The number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the words of a row, or `None` if it does not exist.
    #[inline]
    pub fn get(&self, row: u32) -> Option<&[u64]> {
        let start = row as usize % PIECE * self.stride;
        self.pieces.get(row as usize / PIECE)?.get(start..start + self.stride)
    }

    /// Adds a row and returns its number. Missing words are zero.
    pub fn push(&mut self, words: impl Iterator<Item = u64>) -> u32 {
        let number = self.len / PIECE;
        if number == self.pieces.len() {
            // The first piece grows as needed, since a table may stay small.
            let capacity = if number > 0 { PIECE * self.stride } else { 0 };
            self.pieces.push(Vec::with_capacity(capacity));
        }
        let piece = &mut self.pieces[number];
        piece.extend(words.take(self.stride));
        self.len += 1;
        piece.resize((self.len - number * PIECE) * self.stride, 0);
        (self.len - 1) as u32
    }

    /// Removes a row. The last row takes its number.
    pub fn swap_remove(&mut self, row: u32) {
        let Some(last) = self.len.checked_sub(1).filter(|last| row as usize <= *last) else {
            return;
        };
        let [to, from] = [row as usize, last].map(|row| (row / PIECE, row % PIECE * self.stride));
        for word in 0..self.stride {
            self.pieces[to.0][to.1 + word] = self.pieces[from.0][from.1 + word];
        }
        self.pieces[from.0].truncate(from.1);
        if from.1 == 0 && from.0 > 0 {
            self.pieces.pop().into_iter().for_each(free_piece);
        }
        self.len = last;
    }

    /// The words of some rows, one row after the other.
    pub fn range(&self, rows: Range<usize>) -> impl Iterator<Item = &[u64]> {
        let rows = rows.start.min(self.len)..rows.end.min(self.len);
        let pieces = rows.start / PIECE..rows.end.div_ceil(PIECE);
        pieces.flat_map(move |number| {
            let first = number * PIECE;
            let start = rows.start.max(first) - first;
            let end = rows.end.min(first + PIECE) - first;
            self.pieces[number][start * self.stride..end * self.stride].chunks_exact(self.stride)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: usize) -> [u64; 3] {
        [n as u64, 7 * n as u64, !(n as u64)]
    }

    #[test]
    fn rows_keep_their_words_and_the_last_fills_holes() {
        let (mut rows, mut model) = (Rows::new(3), Vec::new());
        let check = |rows: &Rows, model: &[[u64; 3]]| {
            assert_eq!(rows.len(), model.len());
            assert!(model.iter().zip(0..).all(|(words, n)| rows.get(n) == Some(&words[..])));
            assert_eq!(rows.get(model.len() as u32), None);
            for range in [0..model.len(), 5..600, PIECE..2 * PIECE, PIECE - 1..PIECE + 1, 9..3000] {
                let end = range.end.min(model.len());
                let start = range.start.min(end);
                let found: Vec<&[u64]> = rows.range(range).collect();
                assert_eq!(found, model[start..end].iter().map(|it| &it[..]).collect::<Vec<_>>());
            }
        };
        for n in 0..5 * PIECE / 2 {
            assert_eq!(rows.push(row(n).into_iter()), n as u32);
            model.push(row(n));
        }
        check(&rows, &model);
        let mut at = 0;
        while !model.is_empty() {
            at = (at * 31 + 17) % model.len();
            rows.swap_remove(at as u32);
            model.swap_remove(at);
            if model.len().is_multiple_of(197) || model.len() < 3 {
                check(&rows, &model);
            }
        }
        rows.swap_remove(0);
        assert!(rows.is_empty() && rows.pieces.len() == 1);
        assert_eq!(Rows::new(0).push([5, 6].into_iter()), 0, "too many words are left out");
        assert_eq!(rows.push([5].into_iter()), 0);
        assert_eq!(rows.get(0), Some(&[5, 0, 0][..]), "missing words are zero");
    }
}
