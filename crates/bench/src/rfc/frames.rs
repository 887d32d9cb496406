//! RFC 2544's throughput, latency and frame loss, either with flows that the device forwards statelessly or,
//! as phase 2 of RFC 9693, with connections established by phase 1. Back-to-back frames are in
//! [`super::burst`].

use super::bench::{Bench, Trial, told};
use super::outcome::Report;
use super::stations::{Phase, Stations, ceiling};
use super::test::Test;
use generator::Histogram;
use generator::search::{Allowance, FrameSample, Reason, Verdict, judge_frames};
use load::error::LoadError;
use load::generate::ceiling::SHARE;
use load::generate::numbers::human;
use load::generate::result::histogram_json;
use load::link::Link;
use serde_json::{Value, json};
use std::time::Duration;

/// Bit rates count frames with FCS, without preambles and gaps.
const BITS_A_BYTE: f64 = 8.0;
/// Steps of the loss curve, in shares of the highest rate (RFC 2544 section 26.3: at most 10%).
const STEPS: u32 = 10;

/// Runs the test at every frame size.
pub fn run(bench: &mut Bench<'_>, test: Test) -> Result<Report, LoadError> {
    let mut report = Report::default();
    for size in bench.args.frame_sizes(test) {
        eprintln!("frames of {size} bytes ...");
        let cleaned = if report.lines.is_empty() { Ok(()) } else { bench.clean() };
        let mut row = match cleaned.and_then(|()| one_size(bench, test, size)) {
            Ok(row) => row,
            // Results of other sizes are kept.
            Err(error) if !report.lines.is_empty() => {
                report.stopped = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error),
        };
        report.stopped = row.stopped.take();
        report.row(row);
        if report.stopped.is_some() {
            break;
        }
    }
    Ok(report)
}

fn one_size(bench: &mut Bench<'_>, test: Test, size: u16) -> Result<Row, LoadError> {
    let own = ceiling(bench, size)?;
    let links = bench.links.take();
    let links = links.ok_or_else(|| LoadError::Ended("the ports are gone".to_owned()))?;
    let mut course = Course::new(links, bench, test, size);
    let row = match test {
        Test::FrameLoss | Test::StatefulFrameLoss => course.loss(bench),
        Test::Latency | Test::StatefulLatency => course.latency(bench),
        Test::BackToBack => course.back_to_back(bench),
        _ => course.throughput(bench).map(|found| found.row),
    };
    bench.links = Some(course.stations.into_links());
    let mut row = row?;
    if let Some(own) = own {
        row.add("generator_ceiling", json!(own));
        // A search that ended at the end of its range has no upper bound.
        let by = row.json.get("limited_by").and_then(Value::as_str).unwrap_or("dut");
        if by == "dut" && row.rate.is_some_and(|rate| rate >= SHARE * own) {
            row.add("limited_by", json!("generator"));
            row.text.push_str("; this is the generator's limit");
        }
    }
    Ok(row)
}

/// The test at one frame size.
pub struct Course {
    /// Which test.
    pub test: Test,
    /// Bytes of each frame, including FCS.
    pub frame_bytes: u16,
    /// Both ends.
    pub stations: Stations,
    /// The device is known to have every flow.
    filled: bool,
}

/// The results of one frame size.
#[derive(Debug, Default)]
pub struct Row {
    /// As text.
    pub text: String,
    /// As JSON.
    pub json: serde_json::Map<String, Value>,
    /// The rate in the row.
    pub rate: Option<f64>,
    /// Why it ended early.
    pub stopped: Option<String>,
}

impl Row {
    /// Adds or replaces a JSON value.
    pub fn add(&mut self, name: &str, value: Value) {
        self.json.insert(name.to_owned(), value);
    }
}

struct Throughput {
    row: Row,
    latency: Histogram,
}

impl Course {
    fn new(links: (Link, Link), bench: &mut Bench<'_>, test: Test, frame_bytes: u16) -> Course {
        let flows = if test.is_stateless() { bench.args.flows } else { bench.args.connections };
        let stations = Stations::new(links, bench, flows as u32, frame_bytes);
        Course { test, frame_bytes, stations, filled: false }
    }

    /// Makes the device and the responder learn every flow, by phase 1 (for stateless forwarding these are
    /// the learning frames of RFC 2544 section 23).
    fn fill(&mut self, bench: &mut Bench<'_>) -> Result<Option<Reason>, LoadError> {
        let of = u64::from(self.stations.flows());
        let held = bench.device.table()?;
        if self.filled && held.is_some_and(|held| held >= of || self.test.is_stateless()) {
            return Ok(None);
        }
        self.stations.run(bench.clock, bench.interrupted, Phase::Fill, Some(bench.args.rate))?;
        let arrived = self.stations.known();
        let held = bench.device.table()?.filter(|_| !self.test.is_stateless());
        self.filled = arrived >= of && held.is_none_or(|held| held >= of);
        let arrived = held.map_or(arrived, |held| held.min(arrived));
        Ok((!self.filled).then_some(Reason::NotFilled { arrived, of }))
    }

    /// One trial of phase 2.
    fn trial(
        &mut self,
        bench: &mut Bench<'_>,
        rate: f64,
    ) -> Result<(FrameSample, Trial), LoadError> {
        let frames = (rate * bench.seconds().as_secs_f64()).round().max(1.0) as u64;
        self.exchange(bench, frames, Some(rate))
    }

    /// Sends this many frames in each direction, at this rate or, without one, at full speed.
    pub fn exchange(
        &mut self,
        bench: &mut Bench<'_>,
        frames: u64,
        rate: Option<f64>,
    ) -> Result<(FrameSample, Trial), LoadError> {
        let empty = self.fill(bench)?;
        let refused = bench.device.refused();
        let phase = Phase::Exchange { frames };
        let mut sample = self.stations.run(bench.clock, bench.interrupted, phase, rate)?;
        sample.table_full = bench.device.refused() - refused;
        bench.device.check()?;
        let allowed = Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL };
        let verdict = match empty {
            // A device that forwards nothing has another fault than lost flows.
            Some(reason) if sample.broken().is_none() => Verdict::Invalid(vec![reason]),
            _ => judge_frames(&sample, &allowed),
        };
        let trial = Trial {
            verdict,
            loss: sample.worst_loss_ratio(),
            broken: sample.broken(),
            json: sample_json(&sample),
        };
        Ok((sample, trial))
    }

    fn throughput(&mut self, bench: &mut Bench<'_>) -> Result<Throughput, LoadError> {
        let (range, precision, unit) = (bench.range(), bench.precision(), self.test.unit());
        let mut latency = Histogram::default();
        let found = bench.search(range, precision, unit, &mut |bench, rate| {
            let (sample, trial) = self.trial(bench, rate)?;
            if trial.verdict.passed() {
                latency = sample.latency_ns;
            }
            Ok(trial)
        })?;
        let mut row = Row { rate: found.answer.rate, ..Row::default() };
        row.text = format!("{:>5} bytes: {}", self.frame_bytes, found.text(unit, range.min));
        if let Some(rate) = row.rate {
            let mbits = rate * f64::from(self.frame_bytes) * BITS_A_BYTE / 1e6;
            row.text.push_str(&format!("; {mbits:.1} Mbit/s"));
            row.add("megabits_per_second", json!(mbits));
        } else {
            row.stopped = Some(found.text(unit, range.min));
        }
        row.add("frame_bytes", json!(self.frame_bytes));
        row.json.extend(found.json().as_object().cloned().unwrap_or_default());
        row.stopped = found.stopped.or(row.stopped);
        Ok(Throughput { row, latency })
    }

    fn latency(&mut self, bench: &mut Bench<'_>) -> Result<Row, LoadError> {
        let mut row = match bench.args.at {
            Some(rate) => {
                let (sample, trial) = self.trial(bench, rate)?;
                let mut row = Row { rate: Some(rate), ..Row::default() };
                row.add("frame_bytes", json!(self.frame_bytes));
                let passed = trial.verdict.passed() && !(bench.interrupted)();
                // There is no answer at a rate that was not sent, or that the device does not carry.
                row.add("answer", json!(passed.then_some(rate)));
                row.add("trials", json!([told(rate, "latency", &trial)]));
                row.stopped = match (bench.interrupted)() {
                    true => Some("interrupted".to_owned()),
                    false => (!passed).then(|| did_not_pass(rate, &trial.verdict)),
                };
                Throughput { row, latency: sample.latency_ns }
            }
            None => self.throughput(bench)?,
        };
        let means = self.again(bench, &mut row);
        let found = &mut row.row;
        if means.len() > 1 {
            found.add("latency_means_us", json!(means));
            found.add("latency_mean_us", json!(means.iter().sum::<f64>() / means.len() as f64));
        }
        let rate = found.rate.map_or("none".to_owned(), human);
        found.text = format!(
            "{:>5} bytes at {rate} frames/s{}: {}{}",
            self.frame_bytes,
            if found.stopped.is_some() { " (did not pass)" } else { "" },
            latency_text(&row.latency),
            if means.len() > 1 { format!("; {} trials", means.len()) } else { String::new() }
        );
        found.add("latency", histogram_json(&row.latency));
        Ok(row.row)
    }

    /// Repeats the latency measurement at the rate found. Returns the mean of each trial, in microseconds.
    fn again(&mut self, bench: &mut Bench<'_>, found: &mut Throughput) -> Vec<f64> {
        let us = |it: &Histogram| it.mean().map(|mean| mean.as_secs_f64() * 1e6);
        let mut means: Vec<f64> = us(&found.latency).into_iter().collect();
        let Some(rate) = found.row.rate.filter(|_| found.row.stopped.is_none()) else {
            return means;
        };
        let mut again = Vec::new();
        for _ in 1..bench.args.repeats {
            let ended = match self.trial(bench, rate) {
                Ok(_) if (bench.interrupted)() => Err("interrupted".to_owned()),
                Ok(both) => Ok(both),
                Err(error) => Err(error.to_string()),
            };
            let (sample, trial) = match ended {
                Ok(both) => both,
                Err(why) => {
                    found.row.stopped = Some(why);
                    break;
                }
            };
            again.push(told(rate, "latency", &trial));
            if trial.verdict.is_invalid() {
                continue;
            }
            means.extend(us(&sample.latency_ns));
            found.latency.merge(&sample.latency_ns);
        }
        found.row.add("repeated", json!(again));
        means
    }

    /// Tries rates from the highest down, until two in a row lose nothing.
    fn loss(&mut self, bench: &mut Bench<'_>) -> Result<Row, LoadError> {
        let range = bench.range();
        let mut row = Row::default();
        let (mut points, mut texts, mut clean) = (Vec::new(), Vec::new(), 0);
        for step in (1..=STEPS).rev() {
            let rate = range.max * f64::from(step) / f64::from(STEPS);
            let (sample, trial) = match self.trial(bench, rate) {
                Ok(both) => both,
                Err(error) if !points.is_empty() => {
                    row.stopped = Some(error.to_string());
                    break;
                }
                Err(error) => return Err(error),
            };
            if (bench.interrupted)() {
                row.stopped = Some("interrupted".to_owned());
                break;
            }
            let percent = 100.0 * sample.loss_ratio();
            let word = trial.verdict.word();
            eprintln!("{} {}: {percent:.4}% lost, {word}", human(rate), self.test.unit());
            points.push(told(rate, "loss", &trial));
            let invalid = if trial.verdict.is_invalid() { " (invalid)" } else { "" };
            texts.push(format!("{}: {percent:.4}%{invalid}", human(rate)));
            if let Some(broken) = trial.broken {
                row.stopped = Some(broken.to_string());
                break;
            }
            clean = if trial.verdict.passed() { clean + 1 } else { 0 };
            if clean == 2 {
                break;
            }
        }
        let said = points.iter().any(|point| point["verdict"] != "invalid");
        if row.stopped.is_none() && !said {
            row.stopped = Some("no step says anything of the device; give a lower -M".to_owned());
        }
        row.text = format!("{:>5} bytes: lost {}", self.frame_bytes, texts.join(", "));
        row.add("frame_bytes", json!(self.frame_bytes));
        row.add("trials", json!(points));
        Ok(row)
    }
}

fn did_not_pass(rate: f64, verdict: &Verdict) -> String {
    let reasons: Vec<_> = verdict.reasons().iter().map(Reason::to_string).collect();
    format!("{} frames/s did not pass: {}", human(rate), reasons.join("; "))
}

/// A trial of frames as JSON.
pub fn sample_json(sample: &FrameSample) -> Value {
    json!({
        "offered": sample.offered,
        "seconds": sample.seconds,
        "due_seconds": sample.due_seconds,
        "forth": sample.forth,
        "back": sample.back,
        "loss_ratio": sample.loss_ratio(),
        "duplicates": sample.duplicates,
        "returned": sample.returned,
        "garbage": sample.garbage,
        "foreign": sample.foreign,
        "missed": sample.missed,
        "port_errors": sample.port_errors,
        "port_drops": sample.port_drops,
        "longest_stall_us": sample.stall_ns as f64 / 1000.0,
        "table_before": sample.table_before,
        "table_full": sample.table_full,
        "latency": histogram_json(&sample.latency_ns),
    })
}

fn latency_text(it: &Histogram) -> String {
    let us = |time: Option<Duration>| time.map_or(0.0, |time| time.as_nanos() as f64 / 1000.0);
    let Some((min, max)) = it.extremes() else { return "no frame arrived".to_owned() };
    format!(
        "mean {:.1} us, min {:.1}, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} us",
        us(it.mean()),
        us(Some(min)),
        us(it.percentile(50.0)),
        us(it.percentile(99.0)),
        us(it.percentile(99.9)),
        us(Some(max))
    )
}
