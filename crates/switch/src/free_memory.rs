//! When memory of flows that are gone is given back to the system.
//!
//! The allocator keeps what is freed. To give it back takes 0.1 ms per MB, in which threads that allocate wait. So it
//! is done while flows go, a part at a time, and once more when no more go.

/// Flows that go in one part; some 40 MB.
const PART: usize = 50_000;
/// Fewer flows are not worth it.
const LEAST: usize = 5000;

/// Counts the flows that are gone.
#[derive(Debug, Default)]
pub struct FreeMemory {
    /// The flows at the last look.
    flows: usize,
    /// How many were there since memory was given back, beyond those that are there now.
    gone: usize,
}

impl FreeMemory {
    /// Looks at the number of flows, periodically. Returns whether memory is to be given back now.
    pub fn is_due(&mut self, flows: usize) -> bool {
        let before = std::mem::replace(&mut self.flows, flows);
        // New flows use the memory again.
        self.gone = (self.gone + before).saturating_sub(flows);
        let is_over = flows >= before;
        let is_due = self.gone >= if is_over { LEAST } else { PART };
        if is_due {
            // While more go, the workers still free what was just counted.
            self.gone = if is_over { 0 } else { LEAST };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks at which memory is given back, by the numbers of flows.
    fn due(flows: &[usize]) -> Vec<usize> {
        let mut memory = FreeMemory::default();
        let all = flows.iter().enumerate();
        all.filter(|(_, flows)| memory.is_due(**flows)).map(|(at, _)| at).collect()
    }

    #[test]
    fn memory_goes_back_in_parts_and_in_the_end() {
        assert_eq!(due(&[0, 4000, 100, 100, 100]), [0; 0], "too few");
        assert_eq!(due(&[0, 40_000, 20_000, 0, 0, 0]), [4]);
        assert_eq!(due(&[0, 200_000, 130_000, 120_000, 60_000, 0, 0, 0]), [2, 4, 5, 6]);
        assert_eq!(due(&[100_000, 94_000, 100_000, 94_000, 99_000, 100_000]), [0; 0], "used again");
        assert_eq!(due(&[100_000, 60_000, 70_000, 70_000, 70_000]), [2], "some are used again");
        assert_eq!(due(&[900_000, 0, 0, 0]), [1, 2], "all at once");
    }
}
