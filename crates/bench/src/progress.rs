//! Progress of a long measurement, on standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Progress is shown after this time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows progress, from the third second on: on a terminal by overwriting a line, elsewhere by a line now and
/// then. A separate thread does so, which sleeps nearly always.
#[derive(Debug)]
pub struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    what: String,
    total: u64,
    done: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// Starts a measurement with `total` parts.
    pub fn start(what: &str, total: u64) -> Progress {
        let shared = Arc::new(Shared {
            what: what.to_owned(),
            total,
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let watched = Arc::clone(&shared);
        // If the thread cannot start, there is no progress, but the work is the same.
        let thread = thread::Builder::new().spawn(move || watched.watch()).ok();
        Progress { shared, thread }
    }

    /// Records this many more finished parts. Call it rarely, since all threads write the same word.
    pub fn advance(&self, parts: u64) {
        self.shared.done.fetch_add(parts, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A watcher that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn watch(&self) {
        let (mut err, start) = (io::stderr(), Instant::now());
        let is_terminal = err.is_terminal();
        let pause = if is_terminal { Duration::from_millis(500) } else { Duration::from_secs(10) };
        let mut next = start + PATIENCE;
        let mut shown = false;
        while !self.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now < next {
                thread::park_timeout(next - now);
                continue;
            }
            next = now + pause;
            let line = line(&self.what, self.done.load(Ordering::Relaxed), self.total);
            // A closed output is no reason to stop measuring.
            let _ = match is_terminal {
                true => write!(err, "\r{line}\x1b[K").and_then(|()| err.flush()),
                false => writeln!(err, "{line}"),
            };
            shown = is_terminal;
        }
        if shown {
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }
}

fn line(what: &str, done: u64, total: u64) -> String {
    let percent = (done.min(total) * 100).checked_div(total).unwrap_or(100);
    format!("{what}: {percent}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_never_say_more_than_all() {
        let cases = [(0, 8, "0%"), (1, 8, "12%"), (8, 8, "100%"), (9, 8, "100%"), (0, 0, "100%")];
        for (done, total, percent) in cases {
            assert_eq!(line("looking up", done, total), format!("looking up: {percent}"));
        }
    }

    #[test]
    fn short_work_ends_at_once() {
        let start = Instant::now();
        let progress = Progress::start("x", 3);
        progress.advance(3);
        drop(progress);
        assert!(start.elapsed() < PATIENCE);
    }
}
