//! Compares all threads together with each of them alone, in alternating rounds.
//!
//! The speed of a machine varies from second to second, and between its processors. So each alternative runs
//! for a short time, on the same processors, one directly after the other, and the median of many such rounds
//! counts.

use super::BenchError;
use super::summary::Summary;
use super::threads::Run;
use serde_json::{Value, json};
use std::fmt::Write;
use std::ops::Range;

/// The result of the rounds.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// The run of all threads together, over all rounds.
    pub together: Run,
    count: u32,
    /// Time per packet of a thread: alone, and with all the others.
    alone_ns: Summary,
    together_ns: Summary,
    /// The speed of a thread relative to itself alone, in each round.
    times: Summary,
    /// The same by processor time.
    processor_times: Summary,
}

/// Compares. `run` runs the threads with these numbers, which are less than `threads`.
pub fn compare(
    threads: u16,
    count: u32,
    mut run: impl FnMut(Range<u16>) -> Result<Run, BenchError>,
) -> Result<Rounds, BenchError> {
    let (mut alone_ns, mut together_ns) = (Vec::new(), Vec::new());
    let (mut times, mut processor_times) = (Vec::new(), Vec::new());
    let mut sum: Option<Run> = None;
    for _ in 0..count {
        let alone = (0..threads).map(|one| run(one..one + 1)).collect::<Result<Vec<Run>, _>>()?;
        let together = run(0..threads)?;
        sum = Some(sum.map_or(together, |sum| sum.and(&together)));
        let ns = |runs: &[Run], of: fn(&Run) -> u64| {
            let packets: u64 = runs.iter().map(|run| run.packets).sum();
            runs.iter().map(of).sum::<u64>() as f64 / packets as f64
        };
        let (own, processor) = (|run: &Run| run.own_ns, |run: &Run| run.processor_ns);
        alone_ns.push(ns(&alone, own));
        together_ns.push(ns(&[together], own));
        times.push(ns(&alone, own) / ns(&[together], own));
        processor_times.push(ns(&alone, processor) / ns(&[together], processor));
    }
    let none = || BenchError::WrongWork("there was no round".into());
    let of = |samples: &[f64]| Summary::of(samples).ok_or_else(none);
    Ok(Rounds {
        together: sum.ok_or_else(none)?,
        count,
        alone_ns: of(&alone_ns)?,
        together_ns: of(&together_ns)?,
        times: of(&times)?,
        processor_times: of(&processor_times)?,
    })
}

impl Rounds {
    /// The result as two lines of text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let Rounds { count, alone_ns, together_ns, times, processor_times, .. } = self;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{count} rounds: {:.1} ns per packet together, {:.1} alone (medians)",
            together_ns.median, alone_ns.median
        );
        let _ = writeln!(
            text,
            "each thread {:.2} times as fast as alone ({:.2} to {:.2}), by processor time {:.2} \
             ({:.2} to {:.2})",
            times.median,
            times.min,
            times.max,
            processor_times.median,
            processor_times.min,
            processor_times.max
        );
        text
    }

    /// The result as JSON.
    pub fn json(&self) -> Value {
        json!({
            "count": self.count,
            "alone_ns_per_packet": self.alone_ns,
            "together_ns_per_packet": self.together_ns,
            "times_alone": self.times,
            "processor_times_alone": self.processor_times,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_is_compared_with_itself() {
        // The second round is twice as slow; its first thread is three times as slow as its second one,
        // because of its processor.
        let mut asked = Vec::new();
        let rounds = compare(2, 2, |numbers| {
            let pace = if asked.len() < 3 { 10 } else { 20 };
            asked.push(numbers.clone());
            let packets = 100 * numbers.len() as u64;
            let waits = if numbers.len() == 2 { 2 } else { 1 };
            let own_ns = numbers.map(|n| [3, 1][usize::from(n)] * pace * 100 * waits).sum();
            Ok(Run { elapsed_ns: 1, packets, threads: 1, own_ns, processor_ns: own_ns / waits })
        })
        .unwrap();
        assert_eq!(asked, [0..1, 1..2, 0..2, 0..1, 1..2, 0..2]);
        assert_eq!((rounds.times.min, rounds.times.max), (0.5, 0.5));
        assert_eq!((rounds.processor_times.min, rounds.processor_times.max), (1.0, 1.0));
        assert_eq!((rounds.alone_ns.min, rounds.alone_ns.max), (20.0, 40.0));
        assert!(rounds.text().contains("each thread 0.50 times as fast as alone (0.50 to 0.50)"));
        assert_eq!((rounds.together.packets, rounds.together.elapsed_ns), (400, 2));
        assert_eq!(rounds.json()["together_ns_per_packet"]["max"], 80.0);
    }
}
