//! Latencies as text, in the terms of reports about Open vSwitch's slow path: K-2-OVS is the way to a
//! handler, OVS-2-K the way back.

use super::{Report, Spread, Stage, Stages};
use flow::UpcallClass;
use std::fmt::Write;

/// Longest bar of a histogram, in characters.
const BAR: u64 = 50;
/// Width of the line below a table's heading.
const LINE: usize = 118;
/// Names of the classes.
const TITLES: [(Option<UpcallClass>, &str); 5] = [
    (None, "All packets"),
    (Some(UpcallClass::Arp), "ARP packets"),
    (Some(UpcallClass::Ipv4), "IPv4 packets"),
    (Some(UpcallClass::Ipv6), "IPv6 packets"),
    (Some(UpcallClass::Other), "Other packets"),
];

impl Report {
    /// Returns the whole report. Classes without packets are omitted, except those that every report
    /// contains.
    pub fn text(&self) -> String {
        let mut text = String::from("Latency of upcalls, in microseconds\n");
        for (class, title) in TITLES {
            let stages = self.stages(class, None);
            let is_wanted = matches!(class, None | Some(UpcallClass::Arp | UpcallClass::Ipv4));
            if is_wanted || stages.of(Stage::Total).count() > 0 {
                write_class(&mut text, title, &stages, is_wanted);
            }
        }
        self.write_handlers(&mut text);
        self.write_batches(&mut text);
        text
    }

    fn write_handlers(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nRound trips by handler (microseconds):");
        write_heading(text, "Handler:");
        for handler in 0..self.handlers.len() {
            for (class, title) in TITLES {
                let stages = self.stages(class, Some(handler));
                if stages.of(Stage::Total).count() > 0 {
                    let name = format!("{handler} {title}");
                    write_row(text, &name, stages.of(Stage::Total));
                }
            }
        }
        let _ = writeln!(text, "{}", "-".repeat(LINE));
    }

    fn write_batches(&self, text: &mut String) {
        let sizes = self.batch_sizes();
        let it = sizes.summary_plain();
        let _ = writeln!(
            text,
            "\nbase-2 logarithmic histogram of upcall batch size (upcalls taken at once)\n\
             n_upcalls stats: Number of samples={} min={} max={} avg={:.1}",
            it.count, it.min, it.max, it.average
        );
        write_octaves(text, &sizes);
    }
}

fn write_class(text: &mut String, title: &str, stages: &Stages, with_histograms: bool) {
    let _ = writeln!(text, "\n{title} (microseconds):");
    write_heading(text, "Time:");
    for stage in Stage::ALL {
        write_row(text, label(stage), stages.of(stage));
    }
    let _ = writeln!(text, "{}", "-".repeat(LINE));
    if !with_histograms {
        return;
    }
    for (stage, what) in [
        (Stage::Total, "round trip times"),
        (Stage::ToHandler, "worker to handler times"),
        (Stage::FromHandler, "handler to worker times"),
    ] {
        let _ = writeln!(text, "base-2 logarithmic histogram of {what} (microseconds)");
        write_octaves(text, stages.of(stage));
        text.push('\n');
    }
}

fn label(stage: Stage) -> &'static str {
    match stage {
        Stage::Total => "RTT",
        Stage::ToHandler => "K-2-OVS",
        Stage::FromHandler => "OVS-2-K",
        Stage::Queueing => "received-queued",
        Stage::Waiting => "queued-taken",
        Stage::Translating => "taken-translated",
        Stage::Installing => "translated-installed",
    }
}

fn write_heading(text: &mut String, first: &str) {
    let _ = write!(text, "{first:<22}");
    for name in ["COUNT", "MIN", "MAX", "AVERAGE", "50th", "90th", "99th"] {
        let _ = write!(text, "{name:<13}");
    }
    let _ = writeln!(text, "99.9th\n{}", "-".repeat(LINE));
}

fn write_row(text: &mut String, name: &str, spread: &Spread) {
    let it = spread.summary_us();
    let [p50, p90, p99, p999] = it.percentiles;
    let _ = write!(text, "{name:<22}{:<13}", it.count);
    for us in [it.min, it.max, it.average, p50, p90, p99] {
        let _ = write!(text, "{us:<13.1}");
    }
    let _ = writeln!(text, "{p999:.1}");
}

fn write_octaves(text: &mut String, spread: &Spread) {
    let _ = writeln!(text, "value |{} count", "-".repeat(BAR as usize));
    let most = spread.octaves().map(|(_, count)| count).max().unwrap_or(0).max(1);
    for (lower, count) in spread.octaves() {
        let bar = "@".repeat((count * BAR / most) as usize);
        let _ = writeln!(text, "{lower:>5} |{bar:<50} {count}");
    }
}
