//! Whether workers may notify the guests of a port themselves.
//!
//! To signal an eventfd the kernel calls all that watch it, and the other side may let thousands of epoll instances do
//! so: then a signal takes milliseconds, or a second. A worker signals only while slow ones take less than a twentieth of its
//! time; afterwards the thread of the port does it. Time alone does not tell, since the worker may have been
//! interrupted, and reading the processor time takes half as long as the signal: it begins with the first signal that
//! took long.

use base::Instant;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A signal that takes so long, interruptions included, is suspicious.
const SUSPICIOUS: Duration = Duration::from_micros(50);
/// A signal is slow if it takes so much processor time. Usually it takes a microsecond.
const SLOW: Duration = Duration::from_micros(20);
/// Processor time that slow signals may take at once, and the part of all time in the long run.
const AT_ONCE: Duration = Duration::from_millis(10);
const PART: u32 = 20;

/// Stages, in their order.
const TIMED: u8 = 0;
const MEASURED: u8 = 1;
const DEFERRED: u8 = 2;

/// The clocks that time is read from.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// A steady clock.
    pub now: fn() -> Instant,
    /// The processor time of the calling thread.
    pub thread_time: fn() -> Duration,
}

impl Clocks {
    /// Clocks that stand still, by which no signal is slow.
    pub const STILL: Clocks = Clocks { now: || Instant::ZERO, thread_time: || Duration::ZERO };
}

/// How long the signals of a port take. Its stage only rises.
#[derive(Debug)]
pub struct Pace {
    clocks: Clocks,
    stage: AtomicU8,
    spent: Mutex<Spent>,
}

/// The processor time of slow signals that is not made up for yet.
#[derive(Debug)]
struct Spent {
    time: Duration,
    at: Instant,
}

impl Pace {
    /// The pace of a port that was just opened.
    pub fn new(clocks: Clocks) -> Pace {
        let spent = Mutex::new(Spent { time: Duration::ZERO, at: Instant::ZERO });
        Pace { clocks, stage: AtomicU8::new(TIMED), spent }
    }

    /// Signals and returns true, or returns false, if another thread must do it.
    #[inline]
    pub fn run(&self, signal: impl FnOnce()) -> bool {
        let Clocks { now, thread_time } = self.clocks;
        match self.stage.load(Ordering::Relaxed) {
            TIMED => {
                let before = now();
                signal();
                if now() - before >= SUSPICIOUS {
                    self.stage.fetch_max(MEASURED, Ordering::Relaxed);
                }
            }
            MEASURED => {
                let before = thread_time();
                signal();
                let taken = thread_time().saturating_sub(before);
                if taken >= SLOW {
                    self.spend(taken);
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether another thread must signal.
    pub fn is_deferred(&self) -> bool {
        self.stage.load(Ordering::Relaxed) == DEFERRED
    }

    #[cold]
    fn spend(&self, taken: Duration) {
        let now = (self.clocks.now)();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.time = spent.time.saturating_sub((now - spent.at) / PART) + taken;
        spent.at = now;
        if spent.time > AT_ONCE {
            self.stage.fetch_max(DEFERRED, Ordering::Relaxed);
        }
    }
}
