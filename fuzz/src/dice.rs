//! Small choices, repeatable by their seed.

/// A linear congruential generator: good enough to pick places.
pub struct Dice(u64);

impl Dice {
    /// Choices that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Dice(seed | 1)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        let state = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = state.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// One of these, if there is one.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { all.get(self.below(all.len())) }
    }
}

/// Numbers at which something may end.
pub const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "7",
    "64",
    "255",
    "256",
    "4095",
    "4096",
    "65535",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
];
