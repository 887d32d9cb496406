//! The common parts of all tests: the device, its two ports, the search over trials, and the cleanup between
//! them.

use super::RfcArgs;
use generator::search::{
    Answer, Broken, Confirmed, Ending, Next, Precision, Range, Search, Verdict,
};
use load::dut::Device;
use load::error::LoadError;
use load::generate::numbers::human;
use load::link::Link;
use load::trial::Clock;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// Time to wait after the end; RFC 2544 section 23 requires 2 s for frames in flight.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// A running test.
pub struct Bench<'a> {
    /// The options.
    pub args: &'a RfcArgs,
    /// The clock.
    pub clock: &'a dyn Clock,
    /// Whether the user asked to end.
    pub interrupted: &'a dyn Fn() -> bool,
    /// The device under test.
    pub device: Box<dyn Device>,
    /// Its ports, while no trial uses them.
    pub links: Option<(Link, Link)>,
    /// Whether the generator's own ceiling is measured too.
    pub with_ceiling: bool,
    /// The number of the last phase of test frames.
    pub phase: u16,
}

/// The result of a trial.
pub struct Trial {
    /// Whether the device carried it.
    pub verdict: Verdict,
    /// The larger of the loss shares.
    pub loss: f64,
    /// The fault that ends the test, if any.
    pub broken: Option<Broken>,
    /// The trial for programs.
    pub json: Value,
}

/// The result of a search.
pub struct Found {
    /// The answer.
    pub answer: Answer,
    /// Every trial.
    pub trials: Vec<Value>,
    /// Why it ended early.
    pub stopped: Option<String>,
}

impl Found {
    /// What limits the answer; `None` if the search was not finished.
    pub fn limited_by(&self) -> Option<&'static str> {
        Some(match self.answer.ending {
            Ending::Unfinished => return None,
            Ending::Range => "range",
            Ending::Iterations => "iterations",
            Ending::Found if self.answer.stopped_by_generator => "generator",
            Ending::Found => "dut",
        })
    }

    /// The answer in words.
    pub fn text(&self, unit: &str, lowest: f64) -> String {
        let Some(value) = self.answer.rate else {
            let last =
                self.trials.last().map_or(String::new(), |trial| trial["reasons"].to_string());
            return format!("not even {} {unit} passed: {last}", human(lowest));
        };
        let certainty = self.answer.certainty;
        let above = match self.answer.upper {
            Some(upper) if self.answer.stopped_by_generator => {
                format!("the generator could not offer {}", human(upper))
            }
            Some(upper) => format!("{} did not pass", human(upper)),
            None if self.answer.ending == Ending::Range => {
                "nothing higher was asked for".to_owned()
            }
            None => "nothing higher was tried".to_owned(),
        };
        format!(
            "{} {unit} ({value:.0}), passed {} of {} trials; {above}",
            human(value),
            certainty.passed,
            certainty.trials
        )
    }

    /// The answer for programs.
    pub fn json(&self) -> Value {
        let certainty = self.answer.certainty;
        json!({
            "answer": self.answer.rate,
            "did_not_pass": self.answer.upper,
            "limited_by": self.limited_by(),
            "confirmed": certainty.confirmed,
            "passed": certainty.passed,
            "of_trials": certainty.trials,
            "trials": self.trials,
        })
    }
}

impl Bench<'_> {
    /// Searches this range by trials.
    pub fn search(
        &mut self,
        range: Range,
        relative: f64,
        unit: &str,
        trial: &mut dyn FnMut(&mut Self, f64) -> Result<Trial, LoadError>,
    ) -> Result<Found, LoadError> {
        let precision = Precision { relative, max_iterations: None, loss: 0.0 };
        let mut search = Confirmed::new(range, precision);
        let mut found = Found { answer: search.answer(), trials: Vec::new(), stopped: None };
        while let Next::Trial { rate, purpose } = search.next() {
            let said = match trial(self, rate) {
                Ok(said) => said,
                // Results so far are kept.
                Err(error) if !found.trials.is_empty() => {
                    found.stopped = Some(error.to_string());
                    break;
                }
                Err(error) => return Err(error),
            };
            if (self.interrupted)() {
                // It was interrupted, and its result would be worse.
                found.stopped = Some("interrupted".to_owned());
                break;
            }
            eprintln!("{} {unit}: {}", human(rate), said.verdict.word());
            search.record(&said.verdict, said.loss);
            found.trials.push(told(rate, purpose.word(), &said));
            if let Some(broken) = said.broken {
                found.stopped = Some(broken.to_string());
                break;
            }
        }
        found.answer = search.answer();
        Ok(found)
    }

    /// The requested range, or the test's own.
    pub fn range(&self) -> Range {
        self.args.range()
    }

    /// Returns the precision of answers.
    pub fn precision(&self) -> f64 {
        self.args.precision / 100.0
    }

    /// Returns the duration of a trial.
    pub fn seconds(&self) -> Duration {
        Duration::from_secs_f64(self.args.seconds)
    }

    /// Makes the device delete all connections, and checks it if possible.
    pub fn clean(&mut self) -> Result<(), LoadError> {
        self.device.check()?;
        self.device.flush()?;
        self.reset_command()?;
        let start = self.clock.now();
        while self.device.table()?.is_some_and(|left| left > 0) {
            if self.clock.now() - start > self.device.linger() + PATIENCE {
                break;
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn reset_command(&mut self) -> Result<(), LoadError> {
        let Some(command) = &self.args.reset_command else { return Ok(()) };
        let ended = match Command::new("sh").args(["-c", command]).status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(LoadError::Ended(format!("--reset-command `{command}` failed ({ended})")))
    }
}

/// A trial as JSON.
pub fn told(value: f64, purpose: &str, trial: &Trial) -> Value {
    let reasons: Vec<_> = trial.verdict.reasons().iter().map(ToString::to_string).collect();
    json!({
        "value": value,
        "purpose": purpose,
        "verdict": trial.verdict.word(),
        "reasons": reasons,
        "sample": trial.json,
    })
}
