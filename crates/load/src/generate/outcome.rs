//! What `tidegate generate` says at its end.

use super::ceiling::{self, Ceiling};
use super::interrupt::INTERRUPTED;
use super::numbers::human;
use super::sides::Sides;
use super::{GenerateArgs, machine, result};
use crate::dut::Device;
use generator::search::{Allowance, Sample, Verdict, judge};
use generator::{Profile, Statistics};
use serde_json::json;
use std::process::ExitCode;
use testbed::Screen;

/// What was measured.
pub struct Measured<'a> {
    /// The figures.
    pub sample: &'a Sample,
    /// Whether somebody ended it before its time, so that there is no verdict.
    pub interrupted: bool,
}

/// What both hosts counted, where there is nothing better to say.
pub fn show_counters(sides: &Sides, screen: &Screen) {
    for (name, it) in [("client", sides.client_statistics()), ("server", sides.server_statistics())]
    {
        for (counter, count) in it.by_name().into_iter().filter(|(_, count)| *count > 0) {
            screen.say(&format!("{name} {counter}: {count}"));
        }
    }
}

/// Prints the result; returns the exit status.
pub fn show(
    args: &GenerateArgs,
    profile: &Profile,
    sides: &Sides,
    device: &mut dyn Device,
    ceiling: &Ceiling,
    measured: &Measured<'_>,
    screen: &Screen,
) -> ExitCode {
    let Measured { sample, interrupted } = *measured;
    let counted = sides.counted();
    let both = sides.client.is_some() && sides.server.is_some();
    let only = if sides.client.is_some() { &counted.client } else { &counted.server };
    let failed = if both { sample.failed.total() + sample.unfinished } else { only.failed.total() };
    let rate = sample.completed_per_second();
    let allowed = Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL };
    let broken = if both { sample.broken() } else { None };
    let verdict = judge(sample, &allowed);
    let has_verdict = both && !interrupted;
    if args.json {
        let mut object = result::sample_json(sample);
        if let Some(object) = object.as_object_mut() {
            let more = json!({
                "verb": "generate",
                "version": env!("CARGO_PKG_VERSION"),
                "profile": profile,
                "dut": device.describe(),
                "ceiling": ceiling.json(rate),
                "limited_by": ceiling.limited_by(rate),
                "interrupted": interrupted,
                "verdict": has_verdict.then(|| verdict.word()),
                "reasons": has_verdict.then(|| verdict.reasons().iter().map(ToString::to_string).collect::<Vec<_>>()),
                "client": sides.client.is_some().then(|| result::host_json(&counted.client)),
                "server": sides.server.is_some().then(|| result::host_json(&counted.server)),
                "seed": args.hosts.seed,
                "machine": machine::describe(),
            });
            object.extend(more.as_object().cloned().unwrap_or_default());
        }
        result::print(&format!("{object}\n"));
    } else {
        result::print(&format!("{}\n", text(sample, only, both, ceiling, &verdict)));
    }
    if interrupted {
        screen.problem("interrupted: these are the figures up to then, and no result");
        return ExitCode::from(INTERRUPTED);
    }
    if let Some(broken) = broken {
        screen.problem(&broken.to_string());
        return ExitCode::from(3);
    }
    ExitCode::from(u8::from(failed > 0))
}

fn text(
    sample: &Sample,
    only: &Statistics,
    both: bool,
    ceiling: &Ceiling,
    verdict: &Verdict,
) -> String {
    let mut lines = vec![result::flows_line(sample)];
    if both {
        lines.push(format!(
            "{} connections opened, {} completed, {} failed, {} did not end{}",
            sample.opened,
            sample.completed,
            sample.failed.total(),
            sample.unfinished,
            match sample.cut_short {
                0 => String::new(),
                cut => format!(", {cut} were cut short"),
            }
        ));
        lines.push(format!(
            "client to server: {} packets sent, {} received; server to client: {} sent, {} received",
            sample.forth.sent, sample.forth.received, sample.back.sent, sample.back.received
        ));
        lines.extend(result::error_lines(sample, verdict));
    } else {
        lines.push(format!(
            "{} opened, {} accepted, {} completed, {} failed; {} packets sent, {} received",
            only.opened,
            only.accepted,
            only.completed,
            only.failed.total(),
            only.tx_packets,
            only.rx_packets
        ));
        let kinds = only.failed.by_name().into_iter().filter(|(_, count)| *count > 0);
        lines.extend(kinds.map(|(kind, count)| format!("err connections {kind}: {count}")));
    }
    lines.extend(result::times_line("SYN to SYN/ACK", &only.handshake_ns));
    lines.extend(result::times_line("request to reply", &only.reply_ns));
    let rate = sample.completed_per_second();
    let near = ceiling.share(rate);
    lines.push(format!(
        "{:.0}% of the generator's own ceiling ({} connections/s, {} ports){}",
        100.0 * near,
        human(ceiling.connections_per_second),
        ceiling.ports,
        if near >= ceiling::SHARE { "; this is the generator's limit" } else { "" }
    ));
    lines.join("\n")
}
