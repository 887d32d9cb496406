//! A queue in pieces: growing moves nothing, and the memory of removed values is returned.

use std::collections::VecDeque;

/// The number of values in a piece.
const PIECE: usize = 1024;

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    /// The pieces, none of them empty.
    pieces: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { pieces: VecDeque::new(), len: 0 }
    }
}

impl<T> Queue<T> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a value at the end.
    pub fn push(&mut self, value: T) {
        self.len += 1;
        if let Some(piece) = self.pieces.back_mut().filter(|piece| piece.len() < PIECE) {
            piece.push_back(value);
        } else {
            // The first piece grows as needed, since a queue may stay short.
            let capacity = if self.pieces.is_empty() { 1 } else { PIECE };
            let mut piece = VecDeque::with_capacity(capacity);
            piece.push_back(value);
            self.pieces.push_back(piece);
        }
    }

    /// The oldest value.
    pub fn front(&self) -> Option<&T> {
        self.pieces.front()?.front()
    }

    /// Removes the oldest value.
    pub fn pop(&mut self) -> Option<T> {
        let piece = self.pieces.front_mut()?;
        let value = piece.pop_front()?;
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        self.len -= 1;
        Some(value)
    }

    /// Moves all values of another queue to the end of this one.
    pub fn append(&mut self, other: &mut Queue<T>) {
        self.pieces.append(&mut other.pieces);
        self.len += std::mem::take(&mut other.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_their_order_also_of_appended_queues() {
        let (mut queue, mut other) = (Queue::default(), Queue::default());
        (0..10).for_each(|n| queue.push(n));
        (10..3000).for_each(|n| other.push(n));
        assert_eq!((queue.pieces.len(), other.pieces.len()), (1, 2990_usize.div_ceil(PIECE)));
        queue.append(&mut other);
        assert_eq!((queue.len(), other.len(), other.pop()), (3000, 0, None));
        (3000..3010).for_each(|n| queue.push(n));
        for n in 0..3010 {
            assert_eq!((queue.front(), queue.len()), (Some(&n), 3010 - n));
            assert_eq!(queue.pop(), Some(n));
        }
        assert!(queue.is_empty() && queue.pieces.is_empty());
        assert_eq!((queue.pop(), queue.front()), (None, None));
    }
}
