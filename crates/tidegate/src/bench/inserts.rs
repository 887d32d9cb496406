//! New connections of one packet each, which all threads put into one zone.

use super::conntrack::{Run, Start, on_threads};
use super::packets::Lot;
use super::progress::Progress;
use super::{BenchError, Outcome, memory};
use crate::clock;
use ::conntrack::{Config, Conntrack, Tracker};
use flow::CtAction;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Connections that are made in all, at most: 16 GB of them.
const CONNECTIONS_MAX: u64 = 100_000_000;

/// What a run took.
#[derive(Clone, Copy, Debug)]
struct Made {
    run: Run,
    /// Processor time of all threads.
    worked: Duration,
}

impl Made {
    /// Processor time of a connection: where the machine has other work too, this is the figure that
    /// is not of that work.
    fn worked_ns(&self) -> f64 {
        self.worked.as_nanos() as f64 / self.run.packets as f64
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Threads.
    pub threads: u16,
    /// Connections of each thread, rounded up to whole batches.
    pub connections: u64,
    /// Packets a call.
    pub batch: usize,
}

/// Makes the connections: first one thread alone, then all of them, in a table of their own.
pub fn measure(asked: &Asked) -> Result<Outcome, BenchError> {
    asked.check()?;
    let bytes = memory::bytes_per_connection();
    let alone = Asked { threads: 1, ..*asked }.run()?;
    let together = if asked.threads == 1 { alone } else { asked.run()? };
    Ok(report(asked, &alone, &together, bytes))
}

impl Asked {
    /// Packets of each thread.
    fn packets(&self) -> u64 {
        self.connections.next_multiple_of(self.batch as u64)
    }

    /// Connections of all threads.
    fn total(&self) -> u64 {
        self.packets().saturating_mul(self.threads.into())
    }

    fn check(&self) -> Result<(), BenchError> {
        if self.total() <= CONNECTIONS_MAX {
            return Ok(());
        }
        let wrong = format!("{} connections are more than {CONNECTIONS_MAX}", self.total());
        Err(BenchError::WrongWork(wrong))
    }

    fn run(&self) -> Result<Made, BenchError> {
        let total = self.total();
        // Twice as many may be, so that none gives way to another.
        let connections_max = 2 * total as u32;
        let config = Config { connections_max, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), config));
        let progress = Progress::start("making connections", total);
        let worked_ns = AtomicU64::new(0);
        let run = on_threads(&conntrack, self.threads, |tracker, thread, start| {
            let (tracked, worked) = self.work(tracker, thread, start, &progress);
            worked_ns.fetch_add(worked.as_nanos() as u64, Ordering::Relaxed);
            tracked
        })?;
        drop(progress);
        let made = conntrack.connections();
        if u64::from(made) != total {
            let wrong = format!("there are {made} connections, not {total}");
            return Err(BenchError::WrongWork(wrong));
        }
        Ok(Made { run, worked: Duration::from_nanos(worked_ns.into_inner()) })
    }

    /// What one thread does: how many packets it tracks, and how long it has a processor for it.
    fn work(
        &self,
        tracker: &mut Tracker,
        thread: u16,
        start: &Start,
        seen: &Progress,
    ) -> (u64, Duration) {
        let action = CtAction { commit: true, ..CtAction::default() };
        let (mut lot, now) = (Lot::new(self.batch), clock::now());
        let mut number = (self.packets() * u64::from(thread)) as u32;
        let mut tracked = 0;
        start.wait();
        let begun = clock::thread_time();
        while tracked < self.packets() {
            for index in 0..lot.len() {
                lot.set_connection(index, number);
                number += 1;
            }
            tracker.execute(now, &action, lot.untracked());
            tracked += lot.len() as u64;
            if tracked.is_multiple_of(1 << 15) {
                seen.advance(1 << 15);
            }
        }
        (tracked, clock::thread_time() - begun)
    }
}

fn report(asked: &Asked, alone: &Made, together: &Made, bytes: Option<f64>) -> Outcome {
    let (worked_alone, worked) = (alone.worked_ns(), together.worked_ns());
    let (alone, together) = (alone.run, together.run);
    let (ns_alone, ns) = (alone.ns_per_packet(), together.ns_per_packet());
    let (rate, times) = (together.packets_per_second(), ns_alone / ns);
    let mut text = format!("conntrack:  {:5} ms\n", together.elapsed_ns / 1_000_000);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{ns:.1} ns a new connection, {ns_alone:.1} of one thread alone");
    let _ = writeln!(text, "{worked:.1} ns of processor time, {worked_alone:.1} of one alone");
    let _ = writeln!(
        text,
        "{:.2} million connections a second, {} threads into one zone, each {times:.2} times as fast \
         as one alone",
        rate / 1e6,
        asked.threads
    );
    let json = json!({
        "mode": "insert",
        "threads": asked.threads,
        "batch": asked.batch,
        "packets": together.packets,
        "connections": together.packets,
        "elapsed_ms": together.elapsed_ns as f64 / 1e6,
        "ns_per_packet": ns,
        "alone_ns_per_packet": ns_alone,
        "times_alone": times,
        "processor_ns_per_packet": worked,
        "alone_processor_ns_per_packet": worked_alone,
        "packets_per_second": rate,
        "bytes_per_connection": bytes,
        "connections_per_second": rate,
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_makes_connections_of_its_own() {
        for (threads, connections, batch, packets) in [(1, 64, 32, 64), (3, 100, 32, 384)] {
            let asked = Asked { threads, connections, batch };
            let Outcome { text, json } = measure(&asked).unwrap();
            assert!(text.starts_with("conntrack:  "), "{text}");
            assert_eq!(json["packets"], packets);
            for number in
                ["ns_per_packet", "alone_ns_per_packet", "times_alone", "processor_ns_per_packet"]
            {
                assert!(json[number].as_f64().unwrap() > 0.0, "{json}");
            }
        }
    }

    #[test]
    fn more_than_there_is_room_for_are_refused() {
        let asked = Asked { threads: 2, connections: CONNECTIONS_MAX, batch: 32 };
        assert!(measure(&asked).unwrap_err().to_string().contains("are more than"));
    }
}
