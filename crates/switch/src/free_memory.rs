//! When memory of flows that are gone is given back to the system.
//!
//! The allocator keeps what is freed, or gives back at once all that has come together above what is in use: some
//! hundred MB, if flows went in the order in which they came. Each MB takes 0.1 ms, in which threads that allocate
//! wait. So memory is given back while flows go, a part at a time, and once more when no more go.

/// Flows that go in one part; some 10 MB, hence a millisecond or two.
const PART: usize = 16 * 1024;
/// Fewer flows are not worth it.
const LEAST: usize = 5000;

/// Counts the flows that are gone.
#[derive(Debug, Default)]
pub struct FreeMemory {
    /// The flows at the last look.
    flows: usize,
    /// The same at the last periodic one.
    at_tick: usize,
    /// How many were there since memory was given back, beyond those that are there now.
    gone: usize,
}

impl FreeMemory {
    /// Looks at the number of flows, after each step in which flows may go. Returns whether memory is to be given back
    /// now.
    pub fn is_due(&mut self, flows: usize) -> bool {
        let before = std::mem::replace(&mut self.flows, flows);
        // New flows use the memory again.
        self.gone = (self.gone + before).saturating_sub(flows);
        let is_due = self.gone >= PART;
        if is_due {
            // While more go, the workers still free what was just counted.
            self.gone = LEAST;
        }
        is_due
    }

    /// The same, periodically: what is left is given back when no more flows go.
    pub fn tick(&mut self, flows: usize) -> bool {
        let is_over = flows >= std::mem::replace(&mut self.at_tick, flows);
        let is_due = self.is_due(flows);
        if is_over && (is_due || self.gone >= LEAST) {
            self.gone = 0;
            return true;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks at which memory is given back, by the numbers of flows.
    fn due(flows: &[usize], look: impl Fn(&mut FreeMemory, usize) -> bool) -> Vec<usize> {
        let mut memory = FreeMemory::default();
        let all = flows.iter().enumerate();
        all.filter(|(_, flows)| look(&mut memory, **flows)).map(|(at, _)| at).collect()
    }

    #[test]
    fn memory_goes_back_in_parts_and_in_the_end() {
        let check = |flows: &[usize], expect: &[usize], about: &str| {
            assert_eq!(due(flows, FreeMemory::tick), expect, "{about}");
        };
        check(&[0, 4000, 100, 100, 100], &[], "too few");
        check(&[0, 12_000, 6000, 0, 0, 0], &[4], "one part");
        check(&[0, 60_000, 43_000, 42_000, 20_000, 0, 0, 0], &[2, 4, 5, 6], "parts");
        check(&[100_000, 94_000, 100_000, 94_000, 99_000, 100_000], &[], "used again");
        check(&[100_000, 80_000, 90_000, 90_000, 90_000], &[1], "some are used again");
        check(&[900_000, 0, 0, 0], &[1, 2], "all at once");
    }

    /// However many flows go, and however the periodic looks lie among the steps: between two times that memory is
    /// given back, at most a part and a step of them go.
    #[test]
    fn no_part_is_larger_for_more_flows() {
        const STEP: usize = 128;
        for (count, tick_every) in [(1_000_000, 7), (1_000_000, 100_000), (10_000_000, 1000)] {
            let (mut memory, mut gone, mut parts) = (FreeMemory::default(), 0, 0);
            assert!(!memory.tick(count));
            for step in 1..=count.div_ceil(STEP) {
                let flows = count.saturating_sub(step * STEP);
                gone += STEP;
                assert!(gone <= PART + STEP, "{gone} of {count}");
                if memory.is_due(flows) || step % tick_every == 0 && memory.tick(flows) {
                    (gone, parts) = (0, parts + 1);
                }
            }
            assert!(parts >= count / (PART + STEP), "{parts} parts of {count}");
            assert!(memory.tick(0) | memory.tick(0) && !memory.tick(0), "the rest");
        }
    }
}
