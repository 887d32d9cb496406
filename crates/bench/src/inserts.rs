//! New connections, each of one packet, which all threads insert into one zone.

use super::flame::PerfArgs;
use super::packets::Lot;
use super::progress::Progress;
use super::rounds::{self, Rounds};
use super::threads::{Run, Start, Worked, on_threads};
use super::{BenchError, Outcome, memory};
use ::conntrack::{Config, Conntrack, CtFlush, Tracker};
use base::Zone;
use flow::CtAction;
use port_linux::affinity;
use serde_json::json;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

/// The maximum number of connections in total: 16 GB of them.
const CONNECTIONS_MAX: u64 = 100_000_000;

/// The work.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Threads.
    pub threads: u16,
    /// Connections of each thread, rounded up to whole batches.
    pub connections: u64,
    /// Packets per call.
    pub batch: usize,
    /// The number of rounds.
    pub rounds: u32,
}

/// Creates the connections: first all of them, then in each round each thread alone and all together, in an
/// emptied table. So the table is measured, and not how fast the system provides new memory.
pub fn measure(asked: &Asked, perf: &PerfArgs) -> Result<Outcome, BenchError> {
    asked.check()?;
    let bytes = memory::bytes_per_connection();
    // The limit is twice as high, so that there is no early drop.
    let config = Config { connections_max: 2 * asked.total() as u32, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), config));
    let cpus = affinity::allowed_cpus().unwrap_or_default();
    let fills = 1 + u64::from(asked.rounds) * 2;
    let progress = Progress::start("making connections", asked.total().saturating_mul(fills));
    let run = |numbers| asked.run(&conntrack, numbers, &cpus, &progress);
    let fresh = run(0..asked.threads)?;
    let looking = perf.start()?;
    let rounds = rounds::compare(asked.threads, asked.rounds, run)?;
    let seen = looking.stop("tidegate bench conntrack --insert")?;
    drop(progress);
    let mut outcome = report(asked, &fresh, &rounds, bytes);
    seen.add_to(&mut outcome);
    Ok(outcome)
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

    /// Fills the table, which is emptied first.
    fn run(
        &self,
        conntrack: &Arc<Conntrack>,
        numbers: Range<u16>,
        cpus: &[usize],
        seen: &Progress,
    ) -> Result<Run, BenchError> {
        // Only a flush of one tuple can find nothing.
        let _ = conntrack.flush(clock::now(), &CtFlush::zone(Zone::default()));
        while conntrack.drain() {}
        let total = self.packets() * numbers.len() as u64;
        let work =
            |tracker: &mut Tracker, thread, start: &Start| self.work(tracker, thread, start, seen);
        let run = on_threads(conntrack, numbers, cpus, work)?;
        let made = conntrack.connections();
        if u64::from(made) != total {
            let wrong = format!("there are {made} connections, not {total}");
            return Err(BenchError::WrongWork(wrong));
        }
        Ok(run)
    }

    /// What one thread does.
    fn work(&self, tracker: &mut Tracker, thread: u16, start: &Start, seen: &Progress) -> Worked {
        let action = CtAction { commit: true, ..CtAction::default() };
        let (mut lot, now) = (Lot::new(self.batch), clock::now());
        let mut number = (self.packets() * u64::from(thread)) as u32;
        let mut tracked = 0;
        let begun = start.wait();
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
        begun.ended(tracked)
    }
}

fn report(asked: &Asked, fresh: &Run, rounds: &Rounds, bytes: Option<f64>) -> Outcome {
    let together = &rounds.together;
    let (ns, rate) = (together.ns_per_packet(), together.packets_per_second());
    let mut text = format!("conntrack:  {:5} ms\n", together.elapsed_ns / 1_000_000);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{ns:.1} ns per new connection, {:.2} million per second, {} threads into one zone",
        rate / 1e6,
        asked.threads
    );
    text += &rounds.text();
    let fresh_ns = fresh.ns_per_packet();
    let _ = writeln!(text, "{fresh_ns:.1} ns in memory that was not used before");
    let json = json!({
        "mode": "insert",
        "threads": asked.threads,
        "batch": asked.batch,
        "packets": together.packets,
        "connections": together.packets,
        "elapsed_ms": together.elapsed_ns as f64 / 1e6,
        "ns_per_packet": ns,
        "processor_ns_per_packet": together.processor_ns_per_packet(),
        "fresh_ns_per_packet": fresh_ns,
        "rounds": rounds.json(),
        "packets_per_second": rate,
        "bytes_per_connection": bytes,
        "connections_per_second": rate,
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked { threads: 1, connections: 64, batch: 32, rounds: 1 };

    #[test]
    fn every_thread_makes_connections_of_its_own() {
        let cases = [
            (ASKED, 64),
            (Asked { threads: 3, connections: 100, ..ASKED }, 384),
            (Asked { threads: 2, rounds: 4, ..ASKED }, 512),
        ];
        for (asked, packets) in cases {
            let Outcome { text, json } = measure(&asked, &PerfArgs::default()).unwrap();
            assert!(text.starts_with("conntrack:  "), "{text}");
            assert_eq!(json["packets"], packets);
            assert_eq!(json["rounds"]["count"], asked.rounds);
            let times = &json["rounds"]["times_alone"]["median"];
            for number in [&json["ns_per_packet"], &json["processor_ns_per_packet"], times] {
                assert!(number.as_f64().unwrap() > 0.0, "{json}");
            }
        }
    }

    #[test]
    fn more_than_there_is_room_for_are_refused() {
        let asked = Asked { threads: 2, connections: CONNECTIONS_MAX, ..ASKED };
        assert!(
            measure(&asked, &PerfArgs::default())
                .unwrap_err()
                .to_string()
                .contains("are more than")
        );
    }
}
