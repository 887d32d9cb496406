//! Packet and byte counters, one word per direction that almost every packet updates alone.
//!
//! A packet costs one store to the line with its connection's key, life and state. The high parts
//! of the counters are in the record's second line, which is written once in eight million packets
//! or half a terabyte:
//!
//! ```text
//!  63                  24 23                    0
//! +----------------------+-----------------------+
//! | bytes, low 40 bits   | packets, low 24 bits  |   lately, first line
//! +----------------------+-----------------------+
//! | packets >> 23, 25 bits | bytes >> 39, 17 bits | birth, 22 bits |   in all, second line
//! ```
//!
//! The lowest bit of each high part is also the upper bit of its low part. So the two words may be
//! read, and even written, a moment apart: of all numbers with these low bits, the one closest to
//! the high part is the count.

use super::{Birth, Record};
use base::Instant;
use base::limits::TRACKING_THREADS;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Positions of the words.
const LATELY: [usize; 2] = [2, 3];
const IN_ALL: [usize; 2] = [9, 10];

const PACKETS_LOW: u32 = 24;
const BYTES_LOW: u32 = 40;
/// Bits of the low parts whose change must be carried into the high part.
const TURNS: u64 = 1 << (PACKETS_LOW - 1) | 1 << (PACKETS_LOW + BYTES_LOW - 1);
const PACKETS_HIGH: u32 = 25;
const BYTES_HIGH: u32 = 17;
const PACKETS_BITS: u32 = PACKETS_LOW - 1 + PACKETS_HIGH;
const BYTES_BITS: u32 = BYTES_LOW - 1 + BYTES_HIGH;

/// Half of a birth is beside each high part.
const BIRTH_BITS: u32 = 64 - PACKETS_HIGH - BYTES_HIGH;
/// Bits for a thread's shard.
const SHARD_BITS: u32 = 12;
const _: () = assert!(TRACKING_THREADS <= 1 << SHARD_BITS);
/// The unit of start times is 2^6 ms, which lasts for 8 years.
const START_SHIFT: u32 = 6;
const START_BITS: u32 = 2 * BIRTH_BITS - SHARD_BITS;
const _: () = assert!(START_BITS == 32);

impl Record<'_> {
    /// Counts a packet. If two threads count packets of one direction at the same time, one may be
    /// lost.
    #[inline(always)]
    pub fn count(&self, is_reply: bool, bytes: usize) {
        let side = usize::from(is_reply);
        let before = self.common[LATELY[side]].load(Relaxed);
        let after = before.wrapping_add((bytes as u64) << PACKETS_LOW).wrapping_add(1);
        if (before ^ after) & TURNS == 0 {
            self.common[LATELY[side]].store(after, Relaxed);
        } else {
            self.count_turn(side, bytes as u64);
        }
    }

    /// [`Self::count`] where the high part changes.
    #[cold]
    #[inline(never)]
    fn count_turn(self, side: usize, bytes: u64) {
        self.count_more(side, 1, bytes);
    }

    /// Counts packets of the original (0) or reply direction (1).
    pub fn count_more(self, side: usize, packets: u64, bytes: u64) {
        let (before, sum) = self.counts(side);
        let (packets, sum) = (before + packets, sum + bytes);
        let low = sum << PACKETS_LOW | packets & ((1 << PACKETS_LOW) - 1);
        let high = packets >> (PACKETS_LOW - 1) << BYTES_HIGH
            | sum >> (BYTES_LOW - 1) & ((1 << BYTES_HIGH) - 1);
        let birth = self.common[IN_ALL[side]].load(Relaxed) & ((1 << BIRTH_BITS) - 1);
        // A reader that sees the new high part must see the new low part: an old one would be far
        // from it.
        self.common[LATELY[side]].store(low, Relaxed);
        self.common[IN_ALL[side]].store(high << BIRTH_BITS | birth, Release);
    }

    /// Packets and bytes of the original (0) or reply direction (1).
    pub fn counts(&self, index: usize) -> (u64, u64) {
        let high = self.common[IN_ALL[index]].load(Acquire) >> BIRTH_BITS;
        let low = self.common[LATELY[index]].load(Relaxed);
        let packets = complete(high >> BYTES_HIGH, low, PACKETS_LOW);
        let bytes = complete(high & ((1 << BYTES_HIGH) - 1), low >> PACKETS_LOW, BYTES_LOW);
        (packets & ((1 << PACKETS_BITS) - 1), bytes & ((1 << BYTES_BITS) - 1))
    }

    /// The properties that do not change while the connection lives.
    pub fn birth(&self) -> Birth {
        let half = |at: usize| self.common[at].load(Relaxed) & ((1 << BIRTH_BITS) - 1);
        let birth = half(IN_ALL[0]) << BIRTH_BITS | half(IN_ALL[1]);
        let shard = (birth & ((1 << SHARD_BITS) - 1)) as u16;
        Birth { shard, start: Instant::from_millis(birth >> SHARD_BITS << START_SHIFT) }
    }

    /// Resets the counters and stores the birth.
    pub(super) fn begin_traffic(&self, birth: Birth) {
        let units = birth.start.as_millis() >> START_SHIFT & ((1 << START_BITS) - 1);
        let birth = units << SHARD_BITS | u64::from(birth.shard) & ((1 << SHARD_BITS) - 1);
        let halves = [birth >> BIRTH_BITS, birth & ((1 << BIRTH_BITS) - 1)];
        for side in 0..2 {
            self.common[LATELY[side]].store(0, Relaxed);
            self.common[IN_ALL[side]].store(halves[side], Relaxed);
        }
    }
}

/// Combines `low`, the lowest `bits` of a number, and `high`, all but its lowest `bits - 1`, which
/// may be slightly older. Two threads that count at once may set the low part back a little behind
/// the high one; it is never ahead by more than one carry and the few packets during it.
fn complete(high: u64, low: u64, bits: u32) -> u64 {
    let least = (high << (bits - 1)).wrapping_sub(1 << (bits - 2));
    least.wrapping_add(low.wrapping_sub(least) & ((1 << bits) - 1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::record::WORDS_V4;
    use proptest::prelude::*;
    use table::atomic::AtomicU64;

    /// A record with these counts in both directions.
    fn with_record(packets: u64, bytes: u64, check: impl FnOnce(Record<'_>)) {
        let words: [AtomicU64; WORDS_V4] = std::array::from_fn(|_| AtomicU64::new(u64::MAX));
        let record = Record::v4(&words);
        record.begin_traffic(Birth { shard: 77, start: Instant::from_millis(64 * 12_345) });
        for side in 0..2 {
            record.count_turn(side, bytes);
            let low = bytes << PACKETS_LOW | packets & ((1 << PACKETS_LOW) - 1);
            record.common[LATELY[side]].store(low, Relaxed);
            let birth = record.common[IN_ALL[side]].load(Relaxed) & ((1 << BIRTH_BITS) - 1);
            let high = packets >> (PACKETS_LOW - 1) << BYTES_HIGH | bytes >> (BYTES_LOW - 1);
            record.common[IN_ALL[side]].store(high << BIRTH_BITS | birth, Relaxed);
        }
        check(record);
    }

    /// Numbers near a carry of the low part.
    fn near(bits: u32, turns: std::ops::Range<u64>) -> impl Strategy<Value = u64> {
        (turns, 0..100u64)
            .prop_map(move |(turn, before)| (turn << (bits - 1)).saturating_sub(before))
    }

    proptest! {
        #[test]
        fn nothing_is_lost_where_a_part_turns(
            packets in near(PACKETS_LOW, 0..1 << 20), bytes in near(BYTES_LOW, 0..1 << 16),
            counted in proptest::collection::vec((any::<bool>(), 0..1u64 << 38), 0..200),
        ) {
            with_record(packets, bytes, |record| {
                let mut sums = [(packets, bytes); 2];
                for (is_reply, bytes) in counted {
                    record.count(is_reply, bytes as usize);
                    let sum = &mut sums[usize::from(is_reply)];
                    *sum = (sum.0 + 1, sum.1 + bytes);
                    assert_eq!([record.counts(0), record.counts(1)], sums);
                }
                let Birth { shard, start } = record.birth();
                assert_eq!((shard, start.as_millis()), (77, 64 * 12_345));
            });
        }

        /// A thread that was delayed stores its count long after others.
        #[test]
        fn who_comes_late_takes_back_no_more_than_was_counted_meanwhile(
            packets in near(PACKETS_LOW, 1..100), bytes in near(BYTES_LOW, 1..100),
            meanwhile in 1..200u64, after in 0..200u64,
        ) {
            with_record(packets, bytes, |record| {
                let late = record.common[LATELY[0]].load(Relaxed);
                (0..meanwhile).for_each(|_| record.count(false, 1500));
                record.common[LATELY[0]].store(late, Relaxed);
                (0..after).for_each(|_| record.count(false, 1500));
                assert_eq!(record.counts(0), (packets + after, bytes + 1500 * after));
            });
        }
    }
}
