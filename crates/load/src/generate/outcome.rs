//! The results that `tidegate generate` prints.

use super::ceiling::{self, Ceiling};
use super::interrupt::INTERRUPTED;
use super::numbers::human;
use super::{GenerateArgs, result};
use crate::dut::Device;
use crate::endpoints::Endpoints;
use crate::provenance::Provenance;
use generator::search::{Allowance, Sample, Verdict, judge, not_offered};
use generator::{Histogram, Profile, Statistics};
use serde_json::{Value, json};
use std::process::ExitCode;
use testbed::Screen;

/// Prints the counters of both hosts, for runs that failed.
pub fn show_counters(endpoints: &Endpoints, screen: &Screen) {
    for (name, it) in
        [("client", endpoints.client_statistics()), ("server", endpoints.server_statistics())]
    {
        for (counter, count) in it.by_name().into_iter().filter(|(_, count)| *count > 0) {
            screen.say(&format!("{name} {counter}: {count}"));
        }
    }
}

const MARK: &str = "interrupted: these are the figures up to then, and no result";

/// The measured results.
pub struct Outcome<'a> {
    pub args: &'a GenerateArgs,
    pub provenance: &'a Provenance,
    pub profile: &'a Profile,
    pub endpoints: &'a Endpoints,
    pub ceiling: &'a Ceiling,
    pub sample: &'a Sample,
    /// The user interrupted before the measurement ended.
    pub interrupted: bool,
}

impl Outcome<'_> {
    fn has_both(&self) -> bool {
        self.endpoints.client.is_some() && self.endpoints.server.is_some()
    }

    /// Returns the verdict on the device, or on the generator where it has only one side; `None`
    /// after an interrupt, and for a single side without faults.
    fn verdict(&self) -> Option<Verdict> {
        let allowed = Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL };
        if self.interrupted {
            return None;
        }
        if self.has_both() {
            return Some(judge(self.sample, &allowed));
        }
        let late = not_offered(self.sample, &allowed).filter(|_| self.endpoints.client.is_some());
        late.map(|late| Verdict::Invalid(vec![late]))
    }

    /// Returns what limits the rate: the requested rate, if it was carried.
    fn limited_by(&self, verdict: Option<&Verdict>) -> Option<&'static str> {
        let asked_for = self.sample.offered > 0.0 && verdict.is_some_and(Verdict::passed);
        match (self.interrupted, asked_for) {
            (true, _) => None,
            (_, true) => Some("range"),
            _ => Some(self.ceiling.limited_by(self.sample.completed_per_second())),
        }
    }

    /// Prints the results. Returns the exit status.
    pub fn show(&self, device: &mut dyn Device, screen: &Screen) -> ExitCode {
        let verdict = self.verdict();
        if self.args.json {
            result::print(&format!("{}\n", self.json(device, verdict.as_ref())));
            if self.interrupted {
                screen.problem(MARK);
            }
        } else {
            result::print(&format!("{}\n", self.text(verdict.as_ref())));
        }
        let broken = if self.has_both() { self.sample.broken() } else { None };
        if let Some(broken) = broken {
            screen.problem(&broken.to_string());
        }
        ExitCode::from(self.status(verdict.as_ref()))
    }

    fn status(&self, verdict: Option<&Verdict>) -> u8 {
        let both = self.has_both();
        if self.interrupted {
            return INTERRUPTED;
        }
        if both && self.sample.broken().is_some() {
            return 3;
        }
        match verdict.filter(|_| self.sample.offered > 0.0) {
            Some(Verdict::Invalid(_)) => 3,
            Some(Verdict::Fail(_)) => 1,
            Some(Verdict::Pass) => 0,
            None if both => u8::from(self.sample.failed.total() + self.sample.unfinished > 0),
            None => u8::from(self.only().failed.total() > 0),
        }
    }

    /// Returns the counters of the only side.
    fn only(&self) -> Statistics {
        let counted = self.endpoints.counted();
        if self.endpoints.client.is_some() { counted.client } else { counted.server }
    }

    fn json(&self, device: &mut dyn Device, verdict: Option<&Verdict>) -> Value {
        let Outcome { args, endpoints, sample, ceiling, .. } = self;
        let (rate, counted) = (sample.completed_per_second(), endpoints.counted());
        let reasons = |it: &Verdict| it.reasons().iter().map(ToString::to_string).collect();
        let reasons: Option<Vec<String>> = verdict.map(reasons);
        let mut object = result::sample_json(sample);
        let more = json!({
            "profile": self.profile,
            "dut": device.describe(),
            "ceiling": ceiling.json(rate),
            "limited_by": self.limited_by(verdict),
            "interrupted": self.interrupted,
            "verdict": verdict.map(Verdict::word),
            "reasons": reasons,
            "client": endpoints.client.is_some().then(|| result::host_json(&counted.client)),
            "server": endpoints.server.is_some().then(|| result::host_json(&counted.server)),
        });
        if let Some(object) = object.as_object_mut() {
            object.extend(more.as_object().cloned().unwrap_or_default());
        }
        self.provenance.stamp("generate", Some(args.hosts.seed), object)
    }

    fn text(&self, verdict: Option<&Verdict>) -> String {
        let sample = self.sample;
        let mut lines = Vec::new();
        if self.interrupted {
            lines.push(MARK.to_owned());
        }
        lines.push(result::flows_line(sample));
        if self.has_both() {
            lines.extend(self.both_lines());
            lines.extend(result::error_lines(sample, verdict.unwrap_or(&Verdict::Pass)));
            lines.extend(self.times(&sample.handshake_ns, &sample.reply_ns));
        } else {
            let only = self.only();
            lines.extend(one_side_lines(&only));
            let reasons = verdict.into_iter().flat_map(Verdict::reasons);
            lines.extend(reasons.map(|reason| format!("err {reason}")));
            lines.extend(self.times(&only.handshake_ns, &only.reply_ns));
        }
        lines.push(self.ceiling_line());
        lines.extend(verdict.and_then(|verdict| self.verdict_line(verdict)));
        lines.join("\n")
    }

    fn both_lines(&self) -> Vec<String> {
        let sample = self.sample;
        let mut lines = vec![
            format!(
                "{} connections opened, {} completed, {} failed, {} did not end{}",
                sample.opened,
                sample.completed,
                sample.failed.total(),
                sample.unfinished,
                match sample.cut_short {
                    0 => String::new(),
                    cut => format!(", {cut} were cut short"),
                }
            ),
            format!(
                "client to server: {} packets sent, {} received; server to client: {} sent, {} \
                 received",
                sample.forth.sent, sample.forth.received, sample.back.sent, sample.back.received
            ),
        ];
        if sample.foreign > 0 {
            lines.push(format!("{} packets of others on the same wires", sample.foreign));
        }
        lines
    }

    fn times(&self, handshake: &Histogram, reply: &Histogram) -> Vec<String> {
        let handshake = result::times_line("SYN to SYN/ACK", handshake);
        handshake.into_iter().chain(result::times_line("request to reply", reply)).collect()
    }

    fn ceiling_line(&self) -> String {
        let near = self.ceiling.share(self.sample.completed_per_second());
        format!(
            "{:.0}% of the generator's own ceiling ({} connections/s, {} ports){}",
            100.0 * near,
            human(self.ceiling.connections_per_second),
            self.ceiling.ports,
            if near >= ceiling::SHARE { "; this is the generator's limit" } else { "" }
        )
    }

    /// Returns whether the requested rate was carried; `None` if no rate was requested.
    fn verdict_line(&self, verdict: &Verdict) -> Option<String> {
        let rate = human(self.sample.offered);
        let said = match verdict {
            Verdict::Pass => "passed",
            Verdict::Fail(_) => "did not pass: see the errors above",
            Verdict::Invalid(_) => "INVALID: the errors above are the generator's",
        };
        (self.sample.offered > 0.0).then(|| format!("{rate} connections/s {said}"))
    }
}

fn one_side_lines(only: &Statistics) -> Vec<String> {
    let mut lines = vec![format!(
        "{} opened, {} accepted, {} completed, {} failed; {} packets sent, {} received",
        only.opened,
        only.accepted,
        only.completed,
        only.failed.total(),
        only.tx_packets,
        only.rx_packets
    )];
    let kinds = only.failed.by_name().into_iter().filter(|(_, count)| *count > 0);
    lines.extend(kinds.map(|(kind, count)| format!("err connections {kind}: {count}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::endpoints_of;
    use super::*;
    use crate::dut::memory_cable;
    use clap::Parser;
    use generator::search::{Direction, Window};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: GenerateArgs,
    }

    /// A sample of one thousand connections per second without any fault.
    fn clean() -> Sample {
        let packets = Direction { sent: 3500, received: 3500 };
        Sample {
            offered: 1000.0,
            window: Window { seconds: 1.0, opened: 1000, completed: 1000, ..Window::default() },
            opened: 1000,
            completed: 1000,
            forth: packets,
            back: packets,
            ..Sample::default()
        }
    }

    /// Status, text and JSON of such a sample after `change`.
    fn told(
        change: fn(&mut Sample),
        clients_alone: bool,
        interrupted: bool,
    ) -> (u8, String, Value) {
        let args = Line::parse_from(["generate"]).args;
        let profile = Profile::default();
        let cable = memory_cable(1);
        let (mut device, mut endpoints) =
            endpoints_of(&profile, &args.hosts, 10, true, cable).unwrap();
        if clients_alone {
            endpoints.server = None;
        }
        let mut sample = clean();
        change(&mut sample);
        let ceiling = Ceiling {
            connections_per_second: 1e6,
            packets_per_second: 7e6,
            packets_per_connection: 7.0,
            ports: "memory",
            workers: 1,
        };
        let (args, profile, endpoints) = (&args, &profile, &endpoints);
        let (ceiling, sample) = (&ceiling, &sample);
        let provenance = &Provenance::new("tidegate generate".to_owned(), "0", "0");
        let it = Outcome { args, provenance, profile, endpoints, ceiling, sample, interrupted };
        let verdict = it.verdict();
        let json = it.json(device.as_mut(), verdict.as_ref());
        (it.status(verdict.as_ref()), it.text(verdict.as_ref()), json)
    }

    type Case = (&'static str, fn(&mut Sample), bool, u8, &'static str, Option<&'static str>);

    #[test]
    fn a_rate_that_was_asked_for_has_a_verdict_and_a_status() {
        let late = |s: &mut Sample| {
            (s.window.opened, s.window.completed, s.opened, s.completed) = (400, 400, 400, 400);
        };
        let cases: &[Case] = &[
            ("carried", |_| (), false, 0, "1.0K connections/s passed", Some("range")),
            // No connection failed, and the rate did not pass all the same.
            ("lost", |s| s.back.received -= 9, false, 1, "/s did not pass", Some("dut")),
            ("behind", |s| s.window.completed = 800, false, 1, "/s did not pass", Some("dut")),
            ("too slow", late, false, 3, "/s INVALID", Some("dut")),
            ("clients alone, too slow", late, true, 3, "opened 400 connections", Some("dut")),
            // Without a rate, the only requirement is that no connection fails.
            ("no rate", |s| (s.offered, s.back.received) = (0.0, 99), false, 0, "", Some("dut")),
        ];
        for (name, change, clients_alone, expect, said, by) in cases {
            let (status, text, json) = told(*change, *clients_alone, false);
            assert!(status == *expect && text.contains(said), "{name}: {status} {text}");
            assert_eq!(json["limited_by"].as_str(), *by, "{name}");
            assert_eq!(json["interrupted"], false);
        }
    }

    #[test]
    fn what_was_interrupted_is_marked_and_no_result() {
        for clients_alone in [false, true] {
            let (status, text, json) = told(|_| (), clients_alone, true);
            assert!(status == 130 && text.starts_with("interrupted: "), "{text}");
            assert!(!text.contains("passed"), "{text}");
            assert_eq!((&json["interrupted"], &json["verdict"]), (&json!(true), &Value::Null));
            assert!(json["limited_by"].is_null());
        }
    }
}
