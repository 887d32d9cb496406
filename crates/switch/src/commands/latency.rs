//! `tidegate/latency-show` and `tidegate/latency-clear`: latencies of upcalls.

use super::{Answer, add};
use crate::Switch;
use daemon::unixctl::Commands;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add(commands, "tidegate/latency-show", "[text|json]", 0..=1, show);
    add(commands, "tidegate/latency-clear", "", 0..=0, |switch, _| {
        switch.latency().clear();
        Ok(String::new())
    });
}

fn show(switch: &mut Switch, words: &[String]) -> Answer {
    let report = switch.latency().read();
    let lost = switch.totals().lost;
    match words.first().map(String::as_str) {
        None | Some("text") => Ok(format!("{}\nUpcalls refused: {lost}\n", report.text())),
        Some("json") => {
            let mut json = report.json();
            json["refused"] = lost.into();
            Ok(format!("{json}\n"))
        }
        Some(other) => Err(format!("\"{other}\" is no form of a report; say text or json\n")),
    }
}
