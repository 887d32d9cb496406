//! The parts into which a worker with a unified cache splits a batch.

use datapath::Observer;

/// The parts of a batch.
#[derive(Default)]
pub struct Parts(pub Vec<usize>);

impl Observer for Parts {
    fn run(&mut self, packets: usize, is_hit: bool) {
        match is_hit {
            true => self.0.extend(std::iter::repeat_n(1, packets)),
            false => self.0.push(packets),
        }
    }
}
