//! The claims of the demo, whether they were true, and the table at the end.

use std::process::ExitCode;

use serde_json::json;

use super::DemoArgs;
use super::load::Load;
use ::load::provenance::Provenance;
use testbed::{Check, Screen};

/// All claims of one demo.
#[derive(Debug)]
pub struct Report {
    checks: Vec<Check>,
    args: DemoArgs,
    provenance: Provenance,
}

impl Report {
    /// A report without claims.
    pub fn new(args: &DemoArgs, provenance: &Provenance) -> Report {
        Report { checks: Vec::new(), args: args.clone(), provenance: provenance.clone() }
    }

    /// Prints a claim and keeps it.
    pub fn checked(&mut self, screen: &Screen, check: Check) {
        screen.check(check.is_true(), check.text());
        self.checks.push(check);
    }

    /// Returns success only if every claim was true.
    pub fn exit_code(&self) -> ExitCode {
        if self.all_true() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Returns whether every claim so far was true.
    pub fn all_true(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(Check::is_true)
    }

    /// Prints the table, the top of the connection table and further commands; or the JSON object.
    ///
    /// Without `load`, an earlier check failed.
    pub fn finish(&self, screen: &Screen, load: Option<&Load>) {
        if let Some(load) = load {
            screen.title("In short");
            for (name, value) in rows(load) {
                screen.say(&format!("{name:<16} {value:>12}"));
            }
            screen.title("The top of `ovs-appctl dpctl/dump-conntrack`, while wrk was asking");
            screen.text(&load.connections.join("\n"));
        }
        screen.title("Where to look next");
        screen.text(NEXT);
        let wrong: Vec<&str> =
            self.checks.iter().filter(|c| !c.is_true()).map(Check::name).collect();
        if !wrong.is_empty() {
            screen.problem(&format!("not as claimed: {}", wrong.join(", ")));
        }
        if self.args.json {
            println!("{}", self.to_json(load));
        }
    }

    fn to_json(&self, load: Option<&Load>) -> serde_json::Value {
        let checks = self.checks.iter().map(|check| {
            (check.name().to_owned(), json!({ "ok": check.is_true(), "seen": check.text() }))
        });
        let measured = json!({
            "ok": self.all_true(),
            "seconds": self.args.seconds,
            "connections": self.args.connections,
            "offloads": self.args.offloads_stay_on(),
            "checks": serde_json::Value::Object(checks.collect()),
            "load": load.map(Load::to_json),
        });
        self.provenance.stamp("demo", None, measured)
    }
}

const NEXT: &str = "\
tidegate demo --shell                          the same, and then a shell inside, where:
  ovs-ofctl dump-flows br0                     the rules and what they counted
  ovs-appctl dpctl/dump-flows                  what the fast path made of them
  ovs-appctl ofproto/trace br0 in_port=client,tcp,nw_dst=10.0.0.2,tp_dst=80
                                               which way one packet goes, and why
  ip netns exec client curl http://10.0.0.2/   traffic of your own
";

fn rows(load: &Load) -> Vec<(String, String)> {
    let mut rows = vec![
        ("requests".to_owned(), load.wrk.requests.to_string()),
        ("errors".to_owned(), load.wrk.errors.to_string()),
        ("connections/s".to_owned(), format!("{:.0}", load.per_second(load.accepted))),
        ("packets/s".to_owned(), format!("{:.0}", load.per_second(load.packets))),
        ("drops".to_owned(), load.drops.to_string()),
    ];
    let latency = load.wrk.latency.iter();
    rows.extend(latency.map(|(name, value)| (format!("latency {name}"), value.clone())));
    rows
}
