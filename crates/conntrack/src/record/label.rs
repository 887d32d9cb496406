//! A connection's label. It is two words, so a lock guards it: a bit of the state is set while a
//! thread writes it.

use super::{LABEL, Record, STATE, State};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use table::atomic::pause;

impl Record<'_> {
    /// The label, the upper half first.
    pub fn label(&self) -> [u64; 2] {
        self.label_in(self.state())
    }

    /// The label, given the record's state, which tells whether there is one: most connections have
    /// none, and their packets need not fetch the words.
    #[inline(always)]
    pub fn label_in(&self, state: State) -> [u64; 2] {
        if state.is_labelled() { self.whole_label() } else { [0; 2] }
    }

    /// Reads both halves as one writer left them: the generation did not change between.
    #[inline(never)]
    fn whole_label(&self) -> [u64; 2] {
        let state = || State(self.common[STATE].load(Acquire));
        let mut iteration = 0;
        loop {
            let life = self.life();
            let label = LABEL.map(|at| self.common[at].load(Acquire));
            if !state().is_label_busy() && self.life().differs_from(life.generation()) == 0 {
                return label;
            }
            pause(&mut iteration);
        }
    }

    /// Changes bits of the label, and begins a generation. Returns whether any changed.
    pub fn set_label(&self, value: u128, mask: u128) -> bool {
        self.lock_label();
        let halves = |bits: u128| [(bits >> 64) as u64, bits as u64];
        let before = LABEL.map(|at| self.common[at].load(Relaxed));
        let ([high, low], [high_mask, low_mask]) = (halves(value), halves(mask));
        let after =
            [high & high_mask | before[0] & !high_mask, low & low_mask | before[1] & !low_mask];
        let changed = after != before;
        if changed {
            LABEL
                .into_iter()
                .zip(after)
                .for_each(|(at, half)| self.common[at].store(half, Release));
            // While the lock is held: a reader sees either the lock or the new generation.
            self.age();
            self.common[STATE].fetch_or(State::LABELLED, Relaxed);
        }
        self.common[STATE].fetch_and(!State::LABEL_BUSY, Release);
        changed
    }

    fn lock_label(&self) {
        let mut iteration = 0;
        while State(self.common[STATE].fetch_or(State::LABEL_BUSY, AcqRel)).is_label_busy() {
            pause(&mut iteration);
        }
    }
}
