//! The results of a test, as text and as JSON.

use super::TIMEOUT_S;
use super::bench::Bench;
use super::frames::Row;
use super::test::Test;
use crate::Outcome;
use serde_json::{Map, Value, json};

/// The results of a test.
#[derive(Debug, Default)]
pub struct Report {
    /// Lines of text.
    pub lines: Vec<String>,
    /// JSON values beyond those common to all tests.
    pub json: Map<String, Value>,
    /// Why it ended early or without an answer.
    pub stopped: Option<String>,
    rows: Vec<Value>,
}

impl Report {
    /// A report of one line.
    pub fn of(line: String, json: Value, stopped: Option<String>) -> Report {
        let json = json.as_object().cloned().unwrap_or_default();
        Report { lines: vec![line], json, stopped, rows: Vec::new() }
    }

    /// Adds the results of one frame size.
    pub fn row(&mut self, row: Row) {
        self.lines.push(row.text);
        self.rows.push(Value::Object(row.json));
    }

    /// The report as the program's output.
    pub fn outcome(mut self, bench: &mut Bench<'_>, test: Test) -> Outcome {
        let args = bench.args;
        self.lines.push(test.section().to_owned());
        if let Some(wanted) = test.trial_s().filter(|wanted| args.seconds < *wanted) {
            self.lines.push(format!(
                "trials of {} s; the RFC asks for {wanted} s in the final determination \
                 (--seconds {wanted})",
                args.seconds
            ));
        }
        if let Some(wanted) = test.repeats().filter(|wanted| args.repeats < *wanted) {
            self.lines.push(format!(
                "the RFC asks for {wanted} repetitions; there were {} (--repeats {wanted})",
                args.repeats
            ));
        }
        let text = format!("{}\n", self.lines.join("\n"));
        let mut all = json!({
            "test": test.name(),
            "implements": test.section(),
            "unit": test.unit(),
            "connections": args.connections,
            "flows": args.flows,
            "rate": args.rate,
            "seconds": args.seconds,
            "rfc_seconds": test.trial_s(),
            "repeats": args.repeats,
            "rfc_repeats": test.repeats(),
            "ip_version": if args.ipv6 { 6 } else { 4 },
            "addresses": args.addresses,
            "validation_share": args.validation_share,
            "range": [args.range().min, args.range().max],
            "timeouts_s": TIMEOUT_S,
            "stopped": self.stopped,
            "dut": bench.device.describe(),
        });
        if let Some(all) = all.as_object_mut() {
            if !self.rows.is_empty() {
                all.insert("frame_sizes".to_owned(), Value::Array(self.rows));
            }
            all.append(&mut self.json);
        }
        Outcome { text, json: all }
    }
}
