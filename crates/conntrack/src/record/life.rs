//! A connection's deadline and generation, in one word.

/// A connection's deadline and generation.
///
/// 40 bits of milliseconds, which last 34 years, and 24 bits of generation. A record that is free,
/// or about to be, has the deadline 0, so that one comparison finds both dead and expired ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Life(pub(super) u64);

impl Life {
    const GENERATION_BITS: u32 = 24;
    const GENERATION: u64 = (1 << Self::GENERATION_BITS) - 1;
    /// The maximum difference between the clocks of two threads' batches, in milliseconds.
    const MOMENT_MS: u64 = 10;
    const DEADLINE_MAX: u64 = (1 << 40) - 1;

    pub fn new(generation: u32, deadline_ms: u64) -> Life {
        let deadline = deadline_ms.clamp(1, Self::DEADLINE_MAX);
        Life(deadline << Self::GENERATION_BITS | u64::from(generation) & Self::GENERATION)
    }

    #[inline]
    pub fn deadline_ms(self) -> u64 {
        self.0 >> Self::GENERATION_BITS
    }

    #[inline]
    pub fn generation(self) -> u32 {
        (self.0 & Self::GENERATION) as u32
    }

    /// Whether the deadline is this one, or at most [`MOMENT_MS`] later.
    #[inline(always)]
    pub fn is_about(self, deadline_ms: u64) -> bool {
        self.deadline_ms().wrapping_sub(deadline_ms) <= Self::MOMENT_MS
    }

    /// Zero if the generation is this one.
    #[inline(always)]
    pub fn differs_from(self, generation: u32) -> u64 {
        (self.0 ^ u64::from(generation)) & Self::GENERATION
    }

    /// Whether the connection has ended or expired.
    #[inline]
    pub fn is_over(self, now_ms: u64) -> bool {
        self.deadline_ms() <= now_ms
    }

    pub fn is_dead(self) -> bool {
        self.deadline_ms() == 0
    }

    #[must_use]
    pub(super) fn dead(self) -> Life {
        Life(self.aged().0 & Self::GENERATION)
    }

    /// The same deadline with the next generation.
    #[must_use]
    pub(super) fn aged(self) -> Life {
        let next = self.0.wrapping_add(1) & Self::GENERATION;
        Life(self.0 & !Self::GENERATION | next)
    }
}
