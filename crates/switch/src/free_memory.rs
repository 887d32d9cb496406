//! When memory of flows that are gone is given back to the system.
//!
//! The pieces of large tables go back as they are freed (`table::free_piece`). The allocator keeps the rest. To give it
//! back takes 0.6 µs for each gap between what is in use, in which threads that allocate wait; so it is done once, when
//! no more flows go.

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
        let is_due = flows >= before && self.gone >= LEAST;
        if is_due {
            self.gone = 0;
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
    fn memory_goes_back_in_the_end() {
        assert_eq!(due(&[0, 4000, 100, 100, 100]), [0; 0], "too few");
        assert_eq!(due(&[0, 40_000, 20_000, 0, 0, 0]), [4]);
        assert_eq!(due(&[0, 900_000, 830_000, 120_000, 60_000, 0, 0, 0]), [6]);
        assert_eq!(due(&[100_000, 94_000, 100_000, 94_000, 99_000, 100_000]), [0; 0], "used again");
        assert_eq!(due(&[100_000, 60_000, 70_000, 70_000, 70_000]), [2], "some are used again");
        assert_eq!(due(&[900_000, 0, 0, 0]), [2], "all at once");
    }
}
