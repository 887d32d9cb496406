//! Metrics in Open vSwitch's format (ovs: `lib/dpif-netdev-perf.c`, `pmd_perf_format_histograms` and related
//! functions).

use super::histogram::BINS;
use super::{Kept, Sample};
use std::fmt::Write;

/// Writes the histograms, and the means below them.
pub fn write_histograms(out: &mut String, kept: &Kept) {
    let columns = [
        &kept.cycles,
        &kept.packets,
        &kept.cycles_per_packet,
        &kept.packets_per_batch,
        &kept.queue_fill,
        &kept.upcalls,
        &kept.cycles_per_upcall,
    ];
    *out += "Histograms\n";
    write_heading(out, "max vhost qlen");
    for bin in 0..BINS {
        let cells = columns.map(|histogram| {
            let wall = match bin {
                31 => ">".to_owned(),
                _ => histogram.walls[bin].to_string(),
            };
            format!("{wall:<9} {:<11}", histogram.bins[bin])
        });
        write_row(out, &cells);
    }
    let totals = &kept.totals;
    if totals.iterations == 0 {
        return;
    }
    *out += &"-".repeat(154);
    *out += "\n";
    write_heading(out, "vhost qlen");
    let mean = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
    let whole = |part: u64, of: u64| part.checked_div(of).unwrap_or(0).to_string();
    let cells = [
        whole(totals.ns, totals.iterations),
        format!("{:.5}", mean(totals.packets, totals.iterations)),
        whole(totals.busy_ns, totals.packets),
        format!("{:.5}", mean(totals.packets, totals.batches)),
        format!("{:.5}", 0.0),
        format!("{:.5}", mean(totals.upcalls, totals.iterations)),
        "0".to_owned(),
    ];
    write_row(out, &cells.map(|cell| format!("{cell:<21}")));
}

fn write_heading(out: &mut String, fill: &str) {
    let names = ["cycles/it", "packets/it", "cycles/pkt", "pkts/batch", fill, "upcalls/it"];
    let names = names.iter().chain(&["cycles/upcall"]);
    write_row(out, &names.map(|name| format!("{name:<21}")).collect::<Vec<_>>());
}

fn write_row(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "   {}", cells.join("  "));
}

/// Writes the last `count` iterations, newest first.
pub fn write_iterations(out: &mut String, kept: &Kept, count: usize) {
    if count == 0 {
        return;
    }
    let [a, b, c, d] = ["packets", "cycles/pkt", "pkts/batch", "vhost qlen"];
    let _ = writeln!(
        out,
        "   {:<17}   {:<10}   {a:<10}   {b:<10}   {c:<10}   {d:<10}   {:<10}   {:<10}",
        "iter", "cycles", "upcalls", "cycles/upcall"
    );
    for iteration in kept.iterations.iter().rev().take(count) {
        let [cycles, batch] = quotients(iteration.ns, iteration);
        let _ = writeln!(
            out,
            "   {:<17}   {:<11}  {:<11}  {cycles:<11}  {batch:<11}  {:<11}  {:<11}  {:<11}",
            iteration.at, iteration.ns, iteration.packets, 0, iteration.upcalls, 0
        );
    }
}

/// Writes the last `count` milliseconds, newest first.
pub fn write_milliseconds(out: &mut String, kept: &Kept, count: usize) {
    if count == 0 {
        return;
    }
    let [a, b, c] = ["iterations", "cycles/it", "Kpps"];
    let [d, e, f] = ["cycles/pkt", "pkts/batch", "vhost qlen"];
    let _ = writeln!(
        out,
        "   {:<12}   {a:<10}   {b:<10}   {c:<10}   {d:<10}   {e:<10}   {f:<10}   {:<10}   {:<10}",
        "ms", "upcalls", "cycles/upcall"
    );
    for ms in kept.milliseconds.iter().rev().take(count) {
        let [cycles, batch] = quotients(ms.busy_ns, ms);
        let iteration_ns = ms.ns.checked_div(ms.iterations).unwrap_or(0);
        let _ = writeln!(
            out,
            "   {:<12}   {:<11}  {iteration_ns:<11}  {:<11}  {cycles:<11}  {batch:<11}  {:<11}  {:<11}  \
             {:<11}",
            ms.at, ms.iterations, ms.packets, 0, ms.upcalls, 0
        );
    }
}

/// Returns cycles per packet and packets per batch.
fn quotients(ns: u64, sample: &Sample) -> [u64; 2] {
    let batch = sample.packets.checked_div(sample.batches).unwrap_or(0);
    [ns.checked_div(sample.packets).unwrap_or(0), batch]
}
