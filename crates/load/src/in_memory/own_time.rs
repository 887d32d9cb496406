//! Time as one thread has it, whatever else the machine does.

use base::Instant;
use std::time::Duration;

/// The time of a thread that has a processor to itself: what it had of one, and what it skipped because
/// it had nothing to do. Other programs take none of it.
pub struct OwnTime {
    began: Duration,
    skipped: Duration,
}

/// When it begins: not at zero, which says "never" in places.
const BEGIN: Duration = Duration::from_secs(1);

impl OwnTime {
    /// Begins now, for the calling thread.
    pub fn start() -> OwnTime {
        OwnTime { began: clock::thread_time(), skipped: BEGIN }
    }

    /// The time now, for the thread that began it.
    pub fn now(&self) -> Instant {
        let passed = clock::thread_time().saturating_sub(self.began) + self.skipped;
        Instant::from_nanos(passed.as_nanos() as u64)
    }

    /// Does what another thread does in a switch: it takes none of this time.
    pub fn beside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = clock::thread_time();
        let done = work();
        self.began += clock::thread_time().saturating_sub(begun);
        done
    }

    /// Lets the time until then pass, which may be over already.
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
