//! The processor time of one thread, whatever other programs do.

use base::Instant;
use std::time::Duration;

/// The clock of a thread as if it had a processor to itself: its processor time, plus the idle time that it
/// skipped. Time taken by other programs does not count.
pub struct OwnTime {
    began: Duration,
    skipped: Duration,
}

/// The start time: not zero, which means "never" in some fields.
const BEGIN: Duration = Duration::from_secs(1);

impl OwnTime {
    /// Starts a clock for the calling thread.
    pub fn start() -> OwnTime {
        OwnTime { began: clock::thread_time(), skipped: BEGIN }
    }

    /// Returns the current time. Only the thread that started the clock may call it.
    pub fn now(&self) -> Instant {
        let passed = clock::thread_time().saturating_sub(self.began) + self.skipped;
        Instant::from_nanos(passed.as_nanos() as u64)
    }

    /// Runs work of another thread of the switch, which takes no time on this clock.
    pub fn beside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = clock::thread_time();
        let done = work();
        self.began += clock::thread_time().saturating_sub(begun);
        done
    }

    /// Advances the clock to `then`, which may be in the past.
    pub fn skip_to(&mut self, then: Instant) {
        self.skipped += then - self.now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_none_of_it_and_skipping_does() {
        let mut time = OwnTime::start();
        let begun = time.now();
        std::thread::sleep(Duration::from_millis(100));
        assert!(time.now() - begun < Duration::from_millis(50));
        time.skip_to(begun + Duration::from_secs(5));
        assert!(time.now() - begun >= Duration::from_secs(5));
        let now = time.now();
        time.skip_to(begun);
        assert!(time.now() - now < Duration::from_secs(1), "there is no way back");
        let (now, spent) = (time.now(), clock::thread_time());
        time.beside(|| while clock::thread_time() - spent < Duration::from_millis(50) {});
        assert!(time.now() - now < Duration::from_millis(40), "another thread's work takes none");
    }
}
