//! The table at the end, with the spread over rounds, its chart, or the JSON object.

use super::LabArgs;
use super::chart::{self, Bar, Group};
use super::measure::{Measured, Traffic};
use load::provenance::Provenance;
use serde_json::{Value, json};
use std::path::Path;
use testbed::{Check, Screen, TestbedError};

/// One measurement.
#[derive(Debug)]
pub struct Round {
    /// Number of the round, from 1.
    pub round: u32,
    /// Name of the switch.
    pub name: &'static str,
    /// The result.
    pub measured: Measured,
}

/// All results.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The checks.
    pub checks: Vec<Check>,
    /// The measurements.
    pub rounds: Vec<Round>,
}

/// Returns the median, minimum and maximum.
fn spread(mut figures: Vec<f64>) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    let at = |index: usize| figures.get(index).copied().unwrap_or(0.0);
    (at(figures.len() / 2), at(0), at(figures.len().saturating_sub(1)))
}

impl Outcome {
    /// Returns whether every check passed and every measurement had answered requests. Failed requests are
    /// allowed.
    pub fn all_true(&self) -> bool {
        !self.rounds.is_empty() && self.failures().is_empty()
    }

    /// Returns the failed checks and the measurements without an answered request.
    fn failures(&self) -> Vec<String> {
        let checks = self.checks.iter().filter(|check| !check.is_true());
        let failed = checks.map(|check| check.name().to_owned());
        let silent = self.rounds.iter().filter(|round| round.measured.requests == 0).map(|it| {
            let traffic = it.measured.traffic.name();
            format!(
                "{traffic} traffic in round {} of {} (no request was answered)",
                it.round, it.name
            )
        });
        failed.chain(silent).collect()
    }

    /// Prints the table or the object.
    pub fn finish(&self, screen: &Screen, args: &LabArgs, provenance: &Provenance) {
        screen.title("In short: medians, and least to greatest of the rounds");
        for line in self.table() {
            screen.say(&line);
        }
        if args.offload {
            screen.say(
                "What XDP forwards takes the senders' processor time, which that of tidegate-xdp does not include.",
            );
        }
        if !self.all_true() {
            screen.problem(&format!("failed: {}", self.failures().join(", ")));
        }
        if args.json {
            println!("{}", self.to_json(args, provenance));
        }
    }

    fn figures(
        &self,
        name: &str,
        traffic: Traffic,
        figure: fn(&Measured) -> f64,
    ) -> (f64, f64, f64) {
        let rounds = self.rounds.iter();
        let chosen = rounds.filter(|it| it.name == name && it.measured.traffic == traffic);
        spread(chosen.map(|it| figure(&it.measured)).collect())
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for round in &self.rounds {
            if !names.contains(&round.name) {
                names.push(round.name);
            }
        }
        names
    }

    fn groups(&self) -> Vec<Group> {
        type Figure = (&'static str, Traffic, fn(&Measured) -> f64);
        let rows: [Figure; 6] = [
            ("packets per second, kept connections", Traffic::Kept, Measured::packet_rate),
            ("packets per second, Connection: Close", Traffic::Closed, Measured::packet_rate),
            ("connections per second, Connection: Close", Traffic::Closed, Measured::rate),
            ("requests per second, kept connections", Traffic::Kept, Measured::rate),
            ("connections per processor second", Traffic::Closed, Measured::efficiency),
            ("requests per processor second", Traffic::Kept, Measured::efficiency),
        ];
        let names = self.names();
        let group = |(title, traffic, figure)| {
            let bar = |&name| Bar { name, spread: self.figures(name, traffic, figure) };
            Group { title, bars: names.iter().map(bar).collect() }
        };
        rows.into_iter().map(group).collect()
    }

    fn table(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for Group { title, bars } in self.groups() {
            for Bar { name, spread: (median, least, greatest) } in bars {
                let spread = format!("{least:.0} to {greatest:.0}");
                lines.push(format!("{title:<42} {name:<12} {median:>9.0}   {spread}"));
            }
        }
        lines
    }

    /// Draws the chart into a file.
    pub fn draw(&self, file: &Path) -> Result<(), TestbedError> {
        let title = "Web traffic between three hypervisors: medians, least to greatest round";
        let drawing = chart::svg(title, &self.groups());
        let what = format!("write the drawing {}", file.display());
        std::fs::write(file, drawing).map_err(TestbedError::io(what))
    }

    fn to_json(&self, args: &LabArgs, provenance: &Provenance) -> Value {
        let checks: Vec<Value> = self
            .checks
            .iter()
            .map(|it| json!({ "name": it.name(), "ok": it.is_true(), "seen": it.text() }))
            .collect();
        let rounds: Vec<Value> = self
            .rounds
            .iter()
            .map(|it| json!({ "round": it.round, "switch": it.name, "measured": it.measured.to_json() }))
            .collect();
        let measured = json!({
            "ok": self.all_true(),
            "testbed": "akraino",
            "seconds": args.seconds,
            "connections": args.connections,
            "threads": args.threads,
            "guest_offloads": args.peer.is_none(),
            "checks": checks,
            "rounds": rounds,
        });
        provenance.stamp("lab", None, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::{Measured, Outcome, Round, Traffic, spread};
    use testbed::Check;

    fn round(number: u32, requests: u64) -> Round {
        let traffic = Traffic::Kept;
        let measured =
            Measured { traffic, requests, errors: 3, packets: 9, took_s: 1.0, processor_s: 1.0 };
        Round { round: number, name: "ovs", measured }
    }

    #[test]
    fn a_failed_check_or_a_measurement_without_answers_fails_the_lab() {
        let check = |is_true| Check::new("rules_read_back", is_true, String::new());
        let silent = "kept traffic in round 2 of ovs (no request was answered)";
        for (checks, requests, failures) in [
            (vec![check(true)], [7, 7], vec![]),
            (vec![check(true), check(false)], [7, 7], vec!["rules_read_back"]),
            (vec![check(false)], [7, 0], vec!["rules_read_back", silent]),
        ] {
            let outcome =
                Outcome { checks, rounds: vec![round(1, requests[0]), round(2, requests[1])] };
            assert_eq!(
                (outcome.failures(), outcome.all_true()),
                (failures.iter().map(ToString::to_string).collect(), failures.is_empty(),)
            );
        }
        assert!(!Outcome::default().all_true());
    }

    #[test]
    fn the_spread_is_around_the_median() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
        assert_eq!(spread(vec![5.0]), (5.0, 5.0, 5.0));
        assert_eq!(spread(Vec::new()), (0.0, 0.0, 0.0));
    }
}
