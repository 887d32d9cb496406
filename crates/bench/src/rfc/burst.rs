//! RFC 2544's back-to-back frames: the longest burst at full speed that the device forwards without loss.

use super::bench::{Bench, Trial};
use super::frames::{Course, Row};
use generator::search::{Broken, Reason, Verdict};
use load::error::LoadError;
use load::generate::numbers::human;
use serde_json::json;
use std::time::Duration;

/// Pause between bursts, in which the device empties its queues and resets its rate limits.
const REST: Duration = Duration::from_millis(100);
/// A longer pause splits a burst in two: the device had time to empty its queues.
const PAUSE: Duration = Duration::from_millis(1);

impl Course {
    /// Repeats the search for the longest burst; the mean is the answer.
    pub fn back_to_back(&mut self, bench: &mut Bench<'_>) -> Result<Row, LoadError> {
        let (range, precision, unit) = (bench.range(), bench.precision(), self.test.unit());
        let mut row = Row::default();
        let (mut bursts, mut searches, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..bench.args.repeats {
            let found = bench.search(range, precision, unit, &mut |bench, burst| {
                let (trial, rate) = self.burst(bench, burst)?;
                rates.extend(trial.verdict.passed().then_some(rate));
                Ok(trial)
            });
            let found = match found {
                Ok(found) => found,
                // Results of completed searches are kept.
                Err(error) if !searches.is_empty() => {
                    row.stopped = Some(error.to_string());
                    break;
                }
                Err(error) => return Err(error),
            };
            let none = || found.text(unit, range.min);
            row.stopped = found.stopped.clone().or_else(|| found.answer.rate.is_none().then(none));
            bursts.extend(found.answer.rate.map(f64::round));
            searches.push(found);
            if row.stopped.is_some() {
                break;
            }
        }
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
        let (burst, rate) = (mean(&bursts), mean(&rates));
        row.text = match (searches.last(), bursts.is_empty()) {
            (Some(last), false) => format!(
                "{:>5} bytes: {} frames ({burst:.0}) back to back at {} frames/s: {:.3} ms; mean \
                 of {}, the last: {}",
                self.frame_bytes,
                human(burst),
                human(rate),
                1000.0 * burst / rate.max(1e-9),
                bursts.len(),
                last.text(unit, range.min)
            ),
            (last, _) => {
                let why = last.map_or(String::new(), |last| last.text(unit, range.min));
                format!("{:>5} bytes: {why}", self.frame_bytes)
            }
        };
        row.add("frame_bytes", json!(self.frame_bytes));
        row.add("answer", json!((!bursts.is_empty()).then_some(burst)));
        row.add("bursts", json!(bursts));
        row.add("frames_per_second", json!((!rates.is_empty()).then_some(rate)));
        row.add("limited_by", json!(searches.last().map(|last| last.limited_by())));
        row.add("searches", json!(searches.iter().map(|found| found.json()).collect::<Vec<_>>()));
        Ok(row)
    }

    /// Sends one burst in each direction. Also returns its rate.
    fn burst(&mut self, bench: &mut Bench<'_>, burst: f64) -> Result<(Trial, f64), LoadError> {
        let frames = burst.round().max(1.0) as u64;
        let start = bench.clock.now();
        while bench.clock.now() - start < REST && !(bench.interrupted)() {
            // Yielding the core now might delay the burst.
            std::hint::spin_loop();
        }
        let (sample, mut trial) = self.exchange(bench, frames, bench.args.at)?;
        let one_way = matches!(trial.broken, Some(Broken::Nothing | Broken::NothingBack));
        if one_way && burst > bench.range().min {
            // A burst that is far too long may leave no room for the other direction.
            trial.broken = None;
            let (way, it) = ("back", sample.back);
            trial.verdict =
                Verdict::Fail(vec![Reason::Lost { way, lost: it.lost(), sent: it.sent }]);
        }
        let pause = self.stations.pause();
        if trial.verdict.passed() && pause > PAUSE {
            let ms = pause.as_secs_f64() * 1000.0;
            trial.verdict = Verdict::Invalid(vec![Reason::BurstPaused { ms }]);
        }
        let rate = frames as f64 / sample.seconds.max(1e-9);
        Ok((trial, rate))
    }
}
