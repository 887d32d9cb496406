//! The result of a search as text, as JSON and as an exit status.

use super::CpsNdrArgs;
use super::session::Told;
use crate::dut::profile::Profile;
use crate::error::LoadError;
use crate::generate::ceiling::{Ceiling, SHARE};
use crate::generate::numbers::human;
use crate::generate::result::sample_json;
use crate::trial::Plan;
use generator::search::{Answer, Ending, GoalResult, Reason, Sample};
use serde_json::{Value, json};

/// The result of a search.
pub struct Outcome<'a> {
    pub args: &'a CpsNdrArgs,
    pub profile: &'a generator::Profile,
    pub ceiling: &'a Ceiling,
    pub answer: Answer,
    pub goals: Option<Vec<GoalResult>>,
    pub samples: &'a [Told],
    pub dut: Value,
    pub table_seen: bool,
    pub interrupted: bool,
    /// The error that ended the search early.
    pub stopped: Option<&'a LoadError>,
    pub plan: &'a Plan,
    /// Where the device's busiest worker spends its time.
    pub worker: Option<&'a Profile>,
}

impl Outcome<'_> {
    /// Returns the last sample of the answer's rate that passed.
    fn sample(&self) -> Option<&Sample> {
        let rate = self.answer.rate?;
        let at = |told: &&Told| told.sample.offered == rate && told.verdict.passed();
        // With several loss ratios, the answer may have lost packets within its goal.
        let any = |told: &&Told| told.sample.offered == rate;
        let passed = self.samples.iter().rev().find(at);
        passed.or_else(|| self.samples.iter().rev().find(any)).map(|told| &told.sample)
    }

    fn rate(&self) -> Option<f64> {
        self.sample().map(Sample::opened_per_second)
    }

    /// Returns whether the limit of connections alive kept more from being opened.
    fn is_capped(&self) -> bool {
        let of_answer = |told: &&Told| self.answer.upper.is_none_or(|it| told.sample.offered == it);
        let at_limit = |reason: &Reason| matches!(reason, Reason::AtLimit(_));
        self.answer.stopped_by_generator
            && self
                .samples
                .iter()
                .filter(of_answer)
                .any(|told| told.verdict.reasons().iter().any(at_limit))
    }

    /// Returns what limits the answer: the device, the generator, or an option.
    pub fn limited_by(&self) -> Option<&'static str> {
        match self.answer.ending {
            Ending::Unfinished => return None,
            Ending::Range => return Some("range"),
            Ending::Iterations => return Some("iterations"),
            Ending::Found => {}
        }
        if self.is_capped() {
            return Some("max_flows");
        }
        if self.answer.stopped_by_generator {
            return Some("generator");
        }
        let (rate, sample) = (self.rate()?, self.sample()?);
        if self.ceiling.is_known() {
            return Some(self.ceiling.limited_by(rate));
        }
        Some(if sample.window.busy >= SHARE { "generator" } else { "dut" })
    }

    /// Returns the exit status: 0 with an answer, 1 if no rate passed, 3 if all samples were invalid, or the
    /// status of the error that ended the search.
    pub fn status(&self) -> u8 {
        if let Some(stopped) = self.stopped {
            return stopped.status();
        }
        if self.answer.rate.is_some() {
            return 0;
        }
        let said = self.samples.iter().any(|told| !told.verdict.is_invalid());
        if said && !self.answer.stopped_by_generator { 1 } else { 3 }
    }

    /// Returns the result as text.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        match (self.sample(), self.answer.rate) {
            (Some(sample), Some(_)) => lines.extend(self.answer_lines(sample)),
            _ if self.stopped.is_some() => {
                lines.push("stopped before any rate passed, by what is said below".to_owned());
            }
            _ if self.interrupted => lines.push("interrupted before any rate passed".to_owned()),
            _ if self.is_capped() => lines.push(
                "no answer: as many connections were alive as may be; raise --max-flows, or lower \
                 --max-cps"
                    .to_owned(),
            ),
            _ if self.status() == 3 => lines.push(
                "no answer: the generator did not do what was asked; lower --max-cps, or give it \
                 more of the machine"
                    .to_owned(),
            ),
            _ => lines.push(format!(
                "no rate passed, not even {} connections/s; lower --min-cps, or see the errors \
                 above",
                human(self.args.min_cps)
            )),
        }
        for goal in self.goals.iter().flatten() {
            lines.push(goal_line(goal));
        }
        lines.extend(self.worker.into_iter().flat_map(Profile::lines));
        lines.push(String::new());
        lines.join("\n")
    }

    fn answer_lines(&self, sample: &Sample) -> Vec<String> {
        let rate = sample.opened_per_second();
        let certainty = &self.answer.certainty;
        let above = match self.answer.upper {
            Some(upper) if self.is_capped() => {
                format!("{} makes more connections than may be alive", human(upper))
            }
            Some(upper) if self.answer.stopped_by_generator => {
                format!("the generator could not offer {}", human(upper))
            }
            Some(upper) => format!("{} did not pass", human(upper)),
            None if self.answer.ending == Ending::Range => {
                "nothing higher was asked for; raise --max-cps".to_owned()
            }
            None => "nothing higher was tried".to_owned(),
        };
        let sure = if certainty.confirmed { "confirmed" } else { "not confirmed" };
        let table = match (self.table_seen, sample.table_before) {
            (true, _) => "the device's table was seen empty before every sample",
            (false, None) => "the device's table cannot be seen",
            (false, Some(_)) => "the device's table was not always seen empty",
        };
        vec![
            format!(
                "{} connections/s ({rate:.0}), {} active, {} packets/s sent",
                human(rate),
                human(sample.window.active as f64),
                human(sample.window.tx_packets as f64 / sample.window.seconds.max(1e-9))
            ),
            format!(
                "passed {} of {} samples, {sure}; {above}{}",
                certainty.passed,
                certainty.trials,
                match (self.interrupted, self.stopped) {
                    (true, _) => "; interrupted",
                    (false, Some(_)) => "; stopped by what is said below",
                    (false, None) => "",
                }
            ),
            format!("{table}; lost {:.4}% of packets", 100.0 * sample.loss_ratio()),
            self.limit_line(sample, rate),
        ]
    }

    fn limit_line(&self, sample: &Sample, rate: f64) -> String {
        let by = match self.limited_by() {
            Some("dut") => "the device",
            Some("generator") => "the generator",
            Some("range") => "--max-cps",
            Some("iterations") => "--max-iterations",
            Some("max_flows") => "--max-flows",
            _ => "nothing yet, the search was not finished",
        };
        if !self.ceiling.is_known() {
            let busy = 100.0 * sample.window.busy;
            return format!("limited by {by}: the generator's cores were {busy:.0}% busy");
        }
        format!(
            "limited by {by}: {:.0}% of the generator's own ceiling of {} connections/s",
            100.0 * self.ceiling.share(rate),
            human(self.ceiling.connections_per_second)
        )
    }

    /// Returns the result as JSON, with every sample.
    pub fn json(&self) -> Value {
        let sample = self.sample();
        let window = sample.map(|sample| &sample.window);
        let certainty = &self.answer.certainty;
        json!({
            "connections_per_second": self.rate(),
            "active_flows": window.map(|it| it.active),
            "tx_packets_per_second": window.map(|it| it.tx_packets as f64 / it.seconds),
            "tx_bits_per_second": window.map(|it| it.tx_bytes as f64 * 8.0 / it.seconds),
            "limited_by": self.limited_by(),
            "loss_ratio": sample.map(Sample::loss_ratio),
            "timeouts": self.dut.get("timeouts_s"),
            "dut": self.dut,
            "answer": {
                "offered": self.answer.rate,
                "did_not_pass": self.answer.upper,
                "samples": certainty.trials,
                "passed": certainty.passed,
                "confirmed": certainty.confirmed,
                "table_seen_empty": self.table_seen,
            },
            "goals": self.goals.as_ref().map(|all| all.iter().map(goal_json).collect::<Vec<_>>()),
            "ceiling": self.rate().map(|rate| self.ceiling.json(rate)),
            "search": self.args.search.word(),
            "precision_percent": self.args.precision,
            "error_threshold_percent": self.args.error_threshold,
            "trial": {
                "ramp_s": self.plan.ramp.as_secs_f64(),
                "settle": {
                    "lifetime_s": self.plan.lifetime.as_secs_f64(),
                    "until_packets_change_below": 0.01,
                },
                "sample_s": self.plan.sample.as_secs_f64(),
                "drain_at_most_s": self.plan.drain.as_secs_f64(),
                "counted": "whole trial, from the first connection until nothing is on its way",
            },
            "profile": self.profile,
            "worker": self.worker.map(Profile::json),
            "interrupted": self.interrupted,
            "stopped": self.stopped.map(ToString::to_string),
            "exit_status": self.status(),
            "samples": self.samples.iter().map(told_json).collect::<Vec<_>>(),
        })
    }
}

fn told_json(told: &Told) -> Value {
    let mut all = sample_json(&told.sample);
    let reasons: Vec<_> = told.verdict.reasons().iter().map(ToString::to_string).collect();
    if let Some(all) = all.as_object_mut() {
        all.insert("iteration".to_owned(), json!(told.number));
        all.insert("purpose".to_owned(), json!(told.purpose.word()));
        all.insert("lower".to_owned(), json!(told.bounds.0));
        all.insert("upper".to_owned(), json!(told.bounds.1));
        all.insert("verdict".to_owned(), json!(told.verdict.word()));
        all.insert("reasons".to_owned(), json!(reasons));
    }
    all
}

fn goal_line(it: &GoalResult) -> String {
    let rate = |rate: Option<f64>| rate.map_or("none".to_owned(), human);
    format!(
        "loss up to {}%: lower bound {}, upper bound {}, conditional throughput {}{}",
        it.goal.loss_ratio * 100.0,
        rate(it.lower),
        rate(it.upper),
        rate(it.conditional_throughput),
        if it.is_regular() { "" } else { " (at an end of the range)" }
    )
}

fn goal_json(it: &GoalResult) -> Value {
    json!({
        "loss_ratio": it.goal.loss_ratio,
        "exceed_ratio": it.goal.exceed_ratio,
        "trials": it.goal.trials,
        "width": it.goal.width,
        "relevant_lower_bound": it.lower,
        "relevant_upper_bound": it.upper,
        "conditional_throughput": it.conditional_throughput,
        "regular": it.is_regular(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::unknown_ceiling;
    use super::super::tests::read;
    use super::*;
    use generator::search::{Next, Verdict};
    use std::time::Duration;

    /// Status, text and JSON of a search over a device with these verdicts per rate.
    fn told(of: impl Fn(f64) -> Verdict) -> (u8, String, Value) {
        stopped(of, 99, None)
    }

    /// The same for a search that this error ended after a number of samples.
    fn stopped(
        of: impl Fn(f64) -> Verdict,
        most: usize,
        by: Option<&LoadError>,
    ) -> (u8, String, Value) {
        told_of("-m 1k -M 16k --precision 10", of, most, by)
    }

    fn told_of(
        line: &str,
        of: impl Fn(f64) -> Verdict,
        most: usize,
        by: Option<&LoadError>,
    ) -> (u8, String, Value) {
        let args = read(line).unwrap();
        let mut chosen = args.search();
        let search = chosen.search();
        let mut samples = Vec::new();
        while let Next::Trial { rate, purpose } = search.next() {
            let verdict = of(rate);
            search.record(&verdict, 0.0);
            let mut sample = Sample { offered: rate, ..Sample::default() };
            (sample.window.opened, sample.window.seconds) = (rate as u64, 1.0);
            let number = samples.len() as u32 + 1;
            samples.push(Told { number, purpose, bounds: (1e3, 16e3), sample, verdict });
            if samples.len() >= most {
                break;
            }
        }
        let zero = Duration::ZERO;
        let plan = Plan {
            rate: None,
            ramp: zero,
            settle_window: zero,
            lifetime: zero,
            sample: zero,
            limits: None,
            drain: zero,
        };
        let outcome = Outcome {
            args: &args,
            profile: &generator::Profile::default(),
            ceiling: &unknown_ceiling(),
            answer: search.answer(),
            goals: None,
            samples: &samples,
            dut: Value::Null,
            table_seen: true,
            interrupted: false,
            stopped: by,
            plan: &plan,
            worker: None,
        };
        (outcome.status(), outcome.text(), outcome.json())
    }

    #[test]
    fn the_exit_status_says_what_was_found() {
        let lost = || Verdict::Fail(vec![Reason::TableFull(1)]);
        let late = || Verdict::Invalid(vec![Reason::PortErrors(1)]);
        let (status, text, json) = told(|rate| if rate <= 5000.0 { Verdict::Pass } else { lost() });
        let rate = json["connections_per_second"].as_f64().unwrap();
        assert!(status == 0 && (4500.0..=5000.0).contains(&rate), "{text}");
        assert_eq!((&json["exit_status"], &json["answer"]["confirmed"]), (&json!(0), &json!(true)));
        let (status, text, json) = told(|_| lost());
        assert!(status == 1 && text.contains("no rate passed, not even 1.0K"), "{text}");
        assert!(json["connections_per_second"].is_null() && json["exit_status"] == 1);
        let (status, text, json) = told(|_| late());
        assert!(status == 3 && text.contains("the generator did not do what was asked"), "{text}");
        assert!(json["connections_per_second"].is_null() && json["exit_status"] == 3);
        // A rate that the generator could not offer bounds the answer, and the text says so.
        let (status, text, json) = told(|rate| if rate <= 5000.0 { Verdict::Pass } else { late() });
        assert!(status == 0 && text.contains("the generator could not offer"), "{text}");
        assert_eq!(json["limited_by"], "generator");
    }

    #[test]
    fn what_was_asked_for_limits_an_answer_as_a_device_does() {
        let lost = || Verdict::Fail(vec![Reason::TableFull(1)]);
        let at_limit = || Verdict::Invalid(vec![Reason::AtLimit(5)]);
        let up_to = |rate, most, above: fn() -> Verdict| match rate <= most {
            true => Verdict::Pass,
            false => above(),
        };
        let limited = |line: &str, of: &dyn Fn(f64) -> Verdict| {
            let (status, text, json) = told_of(line, of, 99, None);
            (status, text, json["limited_by"].clone())
        };
        let line = "-m 1k -M 16k --precision 10";
        let (_, text, by) = limited(line, &|rate| up_to(rate, 5000.0, lost));
        assert!(by == "dut" && text.contains("limited by the device:"), "{text}");
        let (_, text, by) = limited(line, &|_| Verdict::Pass);
        assert!(by == "range" && text.contains("limited by --max-cps:"), "{text}");
        assert!(text.contains("nothing higher was asked for; raise --max-cps"), "{text}");
        for search in ["confirmed", "bisect", "mlr"] {
            let line = format!("{line} -i 4 --search {search}");
            let (_, text, by) = limited(&line, &|rate| up_to(rate, 5000.0, lost));
            assert!(by == "iterations", "{search}: {by} {text}");
            assert!(text.contains("limited by --max-iterations:"), "{search}: {text}");
        }
        // The summary names --max-flows as the limit, as the sample's line does, and not the generator.
        let (_, text, by) = limited(line, &|rate| up_to(rate, 5000.0, at_limit));
        assert!(by == "max_flows" && text.contains("limited by --max-flows:"), "{text}");
        assert!(text.contains("makes more connections than may be alive"), "{text}");
        let (status, text, _) = limited(line, &|_| at_limit());
        assert!(status == 3 && text.contains("raise --max-flows"), "{text}");
        assert!(!text.contains("generator"), "{text}");
        let (_, _, json) = told_of(line, |_| Verdict::Pass, 1, None);
        assert!(json["limited_by"].is_null(), "it was not finished");
    }

    #[test]
    fn what_stopped_a_search_is_its_status_and_said() {
        let gone = LoadError::Ended("the port is gone".to_owned());
        for (most, expect) in [(1, "; stopped by what"), (2, "; stopped by what")] {
            let (status, text, json) = stopped(|_| Verdict::Pass, most, Some(&gone));
            assert!(status == 3 && text.contains(expect), "{text}");
            assert!(text.contains("nothing higher was tried") && !text.contains("raise"), "{text}");
            assert_eq!(
                (&json["exit_status"], &json["stopped"]),
                (&json!(3), &json!("the port is gone"))
            );
            assert_eq!(json["samples"].as_array().unwrap().len(), most);
        }
        let lost = || Verdict::Fail(vec![Reason::TableFull(1)]);
        let (status, text, json) = stopped(|_| lost(), 1, Some(&gone));
        assert!(status == 3 && text.contains("stopped before any rate passed"), "{text}");
        assert!(json["connections_per_second"].is_null());
        // The highest rate of the range passed, so no rate above it is named.
        let (_, text, json) = told(|_| Verdict::Pass);
        assert!(text.contains("raise --max-cps") && json["stopped"].is_null(), "{text}");
    }
}
