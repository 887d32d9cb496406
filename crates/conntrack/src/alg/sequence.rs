//! Sequence numbers of a connection after a rewrite changed the length of a line: numbers after the
//! line are moved forward, and acknowledgements of them back.

/// The skew of one direction's sequence numbers. All numbers are the sender's, except
/// acknowledgements, which come from the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SeqSkew {
    /// The beginning of the last rewritten line: `after` is the skew behind it, `before` the skew
    /// up to it, for retransmissions.
    at: u32,
    before: i32,
    after: i32,
}

impl SeqSkew {
    /// A line that begins at `seq` grew by `by` bytes.
    pub fn add(&mut self, seq: u32, by: i32) {
        *self = SeqSkew { at: seq, before: self.after, after: self.after.wrapping_add(by) };
    }

    /// Whether the skew is zero.
    pub fn is_none(&self) -> bool {
        self.before == 0 && self.after == 0
    }

    /// The number that the receiver sees for the sender's `seq`.
    pub fn forward(&self, seq: u32) -> u32 {
        let by = if is_after(seq, self.at) { self.after } else { self.before };
        seq.wrapping_add_signed(by)
    }

    /// The sender's number for the receiver's acknowledgement.
    pub fn back(&self, ack: u32) -> u32 {
        let by = match is_after(ack.wrapping_add_signed(self.before.wrapping_neg()), self.at) {
            true => self.after,
            false => self.before,
        };
        ack.wrapping_add_signed(by.wrapping_neg())
    }
}

/// Whether `a` is after `b` in the number space (RFC 9293 section 3.4).
pub(crate) fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn acknowledgements_come_back_as_they_went(
            start: u32, by in -30..30i32, again in -30..30i32, on in 1..5000u32, line in 60..90u32,
        ) {
            let mut skew = SeqSkew::default();
            skew.add(start, by);
            let second = start.wrapping_add(line + on);
            skew.add(second, again);
            // Ends of segments behind the second line, and up to its start.
            for seq in [second.wrapping_add(line), second.wrapping_add(line + on)] {
                prop_assert_eq!(skew.back(skew.forward(seq)), seq);
                prop_assert_eq!(skew.forward(seq), seq.wrapping_add_signed(by + again));
            }
            for seq in [second, second.wrapping_sub(1)] {
                prop_assert_eq!(skew.back(skew.forward(seq)), seq);
                prop_assert_eq!(skew.forward(seq), seq.wrapping_add_signed(by));
            }
        }
    }

    #[test]
    fn nothing_is_moved_at_first() {
        let skew = SeqSkew::default();
        assert!(skew.is_none());
        assert_eq!((skew.forward(7), skew.back(7)), (7, 7));
    }
}
