//! Rows of words, all of one length, stored column by column in pieces: a search that looks at few columns
//! reads nothing else, and a new row never moves the others.

use std::ops::Range;
use table::free_piece;

/// The number of rows in a piece.
const PIECE: usize = 128;

/// Rows, numbered without gaps.
#[derive(Clone, Debug)]
pub struct Columns {
    /// The number of words in a row.
    width: usize,
    /// Each piece has its columns one after the other.
    pieces: Vec<Box<[u64]>>,
    len: usize,
}

/// A condition on a column: the value of some of its bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The column, counted from 0.
    pub column: usize,
    /// Its value.
    pub value: u64,
    /// The bits that are compared.
    pub bits: u64,
}

impl Columns {
    /// An empty table with rows of `width` words, at least one.
    pub fn new(width: usize) -> Columns {
        Columns { width: width.max(1), pieces: Vec::new(), len: 0 }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a word of a row, or `None` if the row or column does not exist.
    #[inline]
    pub fn get(&self, row: u32, column: usize) -> Option<u64> {
        let (row, piece) = (row as usize, self.pieces.get(row as usize / PIECE)?);
        let is_there = row < self.len && column < self.width;
        is_there.then(|| piece.get(column * PIECE + row % PIECE).copied()).flatten()
    }

    /// Adds a row and returns its number. Missing words are zero.
    pub fn push(&mut self, words: impl Iterator<Item = u64>) -> u32 {
        let (number, at) = (self.len / PIECE, self.len % PIECE);
        if number == self.pieces.len() {
            self.pieces.push(vec![0; self.width * PIECE].into());
        }
        let columns = self.pieces[number].chunks_exact_mut(PIECE);
        for (column, word) in columns.zip(words.chain(std::iter::repeat(0))) {
            column[at] = word;
        }
        self.len += 1;
        (self.len - 1) as u32
    }

    /// Removes a row. The last row takes its number.
    pub fn swap_remove(&mut self, row: u32) {
        let Some(last) = self.len.checked_sub(1).filter(|last| row as usize <= *last) else {
            return;
        };
        let [to, from] = [row as usize, last].map(|row| (row / PIECE, row % PIECE));
        for start in (0..self.width).map(|column| column * PIECE) {
            self.pieces[to.0][start + to.1] = self.pieces[from.0][start + from.1];
        }
        if from.1 == 0 {
            self.pieces.pop().into_iter().for_each(|piece| free_piece(piece.into_vec()));
        }
        self.len = last;
    }

    /// Frees the rows and returns their memory to the system.
    pub fn free(self) {
        self.pieces.into_iter().for_each(|piece| free_piece(piece.into_vec()));
    }

    /// Returns the bits of a column that all rows have, and those that any row has.
    pub fn bounds(&self, column: usize) -> (u64, u64) {
        let start = column.min(self.width - 1) * PIECE;
        let rows = |number: usize| PIECE.min(self.len - number * PIECE);
        let pieces = self.pieces.iter().enumerate();
        let words = pieces.flat_map(|(number, piece)| &piece[start..start + rows(number)]);
        words.fold((u64::MAX, 0), |(all, any), word| (all & word, any | word))
    }

    /// Returns the rows in a range that satisfy all conditions, in order.
    pub fn find(&self, rows: Range<usize>, wanted: &[Wanted]) -> Vec<u32> {
        let (start, end) = (rows.start.min(self.len), rows.end.min(self.len));
        let mut found = Vec::new();
        let wanted = self.rarest_first(start..end, wanted);
        let any = Wanted { column: 0, value: 0, bits: 0 };
        let (first, rest) = wanted.split_first().unwrap_or((&any, &[]));
        for (number, piece) in
            self.pieces.iter().enumerate().take(end.div_ceil(PIECE)).skip(start / PIECE)
        {
            let begin = number * PIECE;
            let within = start.max(begin) - begin..end.min(begin + PIECE) - begin;
            let column = &piece[first.column * PIECE..(first.column + 1) * PIECE][within.clone()];
            for (at, word) in within.zip(column) {
                let others = |it: &Wanted| it.is_in(piece[it.column * PIECE + at]);
                if first.is_in(*word) && rest.iter().all(others) {
                    found.push((begin + at) as u32);
                }
            }
        }
        found
    }

    /// Sorts the conditions by how few of some rows satisfy them, so that most rows fail the first.
    fn rarest_first(&self, rows: Range<usize>, wanted: &[Wanted]) -> Vec<Wanted> {
        let mut wanted = wanted.to_vec();
        wanted.retain(|it| it.column < self.width);
        if let Some(piece) = self.pieces.get(rows.start / PIECE).filter(|_| wanted.len() > 1) {
            let sample = rows.len().min(PIECE - rows.start % PIECE);
            let first = rows.start % PIECE;
            wanted.sort_by_cached_key(|it| {
                let column = &piece[it.column * PIECE..][first..first + sample];
                column.iter().filter(|word| it.is_in(**word)).count()
            });
        }
        wanted
    }
}

impl Wanted {
    #[inline]
    fn is_in(&self, word: u64) -> bool {
        (word ^ self.value) & self.bits == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: usize) -> [u64; 3] {
        [n as u64, n as u64 % 10, 7]
    }

    fn words(columns: &Columns, row: u32) -> Option<[u64; 3]> {
        let [a, b, c] = [0, 1, 2].map(|column| columns.get(row, column));
        Some([a?, b?, c?])
    }

    fn check(columns: &Columns, model: &[[u64; 3]]) {
        assert_eq!((columns.len(), words(columns, model.len() as u32)), (model.len(), None));
        assert!(model.iter().zip(0..).all(|(row, n)| words(columns, n) == Some(*row)));
        let want = |column, value, bits| Wanted { column, value, bits };
        let agrees = |it: &Wanted, word: u64| word & it.bits == it.value & it.bits;
        let searches: [&[Wanted]; 5] = [
            &[],
            &[want(2, 7, u64::MAX), want(1, 3, 0xf)],
            &[want(1, 3, 0xf), want(0, 3, 0x1f)],
            &[want(2, 6, 6)],
            &[want(0, 1, 1), want(2, 8, u64::MAX)],
        ];
        for column in 0..3 {
            let words = model.iter().map(|row| row[column]);
            let bounds = words.fold((u64::MAX, 0), |(all, any), word| (all & word, any | word));
            assert_eq!(columns.bounds(column), bounds);
        }
        for range in [0..model.len(), 5..300, PIECE..2 * PIECE, PIECE - 1..PIECE + 1, 9..9] {
            for wanted in searches {
                let rows = (range.start..range.end.min(model.len()))
                    .filter(|&n| wanted.iter().all(|it| agrees(it, model[n][it.column])));
                let rows: Vec<u32> = rows.map(|n| n as u32).collect();
                assert_eq!(columns.find(range.clone(), wanted), rows, "{range:?} {wanted:?}");
            }
        }
    }

    #[test]
    fn rows_keep_their_words_are_found_and_the_last_fills_holes() {
        let (mut columns, mut model) = (Columns::new(3), Vec::new());
        for n in 0..7 * PIECE / 2 {
            assert_eq!(columns.push(row(n).into_iter()), n as u32);
            model.push(row(n));
        }
        check(&columns, &model);
        let mut at = 0;
        while !model.is_empty() {
            at = (at * 31 + 17) % model.len();
            columns.swap_remove(at as u32);
            model.swap_remove(at);
            if model.len().is_multiple_of(37) || model.len() < 3 {
                check(&columns, &model);
            }
        }
        columns.swap_remove(0);
        assert!(columns.is_empty() && columns.pieces.is_empty());
        let mut columns = Columns::new(0);
        assert_eq!(columns.push([5, 6].into_iter()), 0, "too many words are left out");
        assert_eq!((columns.get(0, 0), columns.get(0, 1)), (Some(5), None));
    }
}
