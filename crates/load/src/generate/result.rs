//! Measured results as text and as JSON.

use super::numbers::human;
use generator::search::{Sample, Verdict, Window};
use generator::{Histogram, Statistics};
use serde_json::{Map, Value, json};
use std::io::Write;

/// Prints a result to standard output.
pub fn print(text: &str) {
    // A closed pipe (`| head`) is not an error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Returns the flows line of the original script.
pub fn flows_line(sample: &Sample) -> String {
    let it = &sample.window;
    let per_second = |count: u64| human(count as f64 / it.seconds.max(1e-9));
    let size = it.payload_bytes as f64 / it.client_packets.max(1) as f64;
    format!(
        "Flows: active {} ({}/s) TX: {}b/s ({}p/s) RX: {}b/s ({}p/s) Size: ~{size:.1}B",
        human(it.active as f64),
        per_second(it.opened),
        per_second(it.tx_bytes * 8),
        per_second(it.tx_packets),
        per_second(it.rx_bytes * 8),
        per_second(it.rx_packets),
    )
}

/// Returns the error lines of the original script, one per kind.
pub fn error_lines(sample: &Sample, verdict: &Verdict) -> Vec<String> {
    let lost = sample.forth.lost() + sample.back.lost();
    let mut lines = Vec::new();
    if lost > 0 {
        lines.push(format!(
            "err dropped: {} pkts ({}/s) ~ {:.4}%",
            human(lost as f64),
            human(lost as f64 / sample.window.seconds.max(1e-9)),
            100.0 * sample.loss_ratio()
        ));
    }
    for (kind, count) in sample.failed.by_name() {
        if count > 0 {
            let share = 100.0 * count as f64 / sample.opened.max(1) as f64;
            let kind = kind.replace('_', " ");
            lines.push(format!("err connections {kind}: {} ~ {share:.4}%", human(count as f64)));
        }
    }
    if sample.retransmitted > 0 {
        let sent = (sample.forth.sent + sample.back.sent).max(1);
        lines.push(format!(
            "err retransmitted: {} pkts ~ {:.4}%",
            human(sample.retransmitted as f64),
            100.0 * sample.retransmitted as f64 / sent as f64
        ));
    }
    use generator::search::Reason::{Failed, Lost};
    let told = |reason: &&generator::search::Reason| matches!(reason, Lost { .. } | Failed { .. });
    lines.extend(verdict.reasons().iter().filter(|r| !told(r)).map(|r| format!("err {r}")));
    lines
}

/// Returns one trial as JSON.
pub fn sample_json(sample: &Sample) -> Value {
    let it = &sample.window;
    json!({
        "offered": sample.offered,
        "connections_per_second": sample.opened_per_second(),
        "completed_per_second": sample.completed_per_second(),
        "active_flows": it.active,
        "seconds": it.seconds,
        "tx_packets_per_second": rate(it.tx_packets, it),
        "rx_packets_per_second": rate(it.rx_packets, it),
        "tx_bits_per_second": rate(it.tx_bytes * 8, it),
        "rx_bits_per_second": rate(it.rx_bytes * 8, it),
        "generator_busy": it.busy,
        "generator_behind": it.behind,
        "opened": sample.opened,
        "completed": sample.completed,
        "failed": named(&sample.failed.by_name()),
        "unfinished": sample.unfinished,
        "cut_short": sample.cut_short,
        "ended_early": sample.ended_early,
        "client_to_server": sample.forth,
        "server_to_client": sample.back,
        "loss_ratio": sample.loss_ratio(),
        "failure_ratio": sample.failure_ratio(),
        "retransmitted": sample.retransmitted,
        "duplicates": sample.duplicates,
        "garbage": sample.garbage,
        "foreign": sample.foreign,
        "no_connection": sample.no_connection,
        "missed_opens": sample.missed,
        "late_messages": sample.pauses_overrun,
        "at_limit": sample.at_limit,
        "tuples_exhausted": sample.tuples_exhausted,
        "server_full": sample.server_full,
        "port_errors": sample.port_errors,
        "port_drops": sample.port_drops,
        "longest_stall_us": sample.stall_ns as f64 / 1000.0,
        "table_before": sample.table_before,
        "table_full": sample.table_full,
        "handshake": histogram_json(&sample.handshake_ns),
        "reply": histogram_json(&sample.reply_ns),
    })
}

/// Returns rates and times of one host as JSON.
pub fn host_json(it: &Statistics) -> Value {
    json!({
        "counters": named(&it.by_name()),
        "failed": named(&it.failed.by_name()),
        "handshake": histogram_json(&it.handshake_ns),
        "reply": histogram_json(&it.reply_ns),
    })
}

/// Returns a histogram as JSON; null if it is empty.
pub fn histogram_json(it: &Histogram) -> Value {
    let us = |time: std::time::Duration| time.as_nanos() as f64 / 1000.0;
    let Some((min, max)) = it.extremes() else { return Value::Null };
    let at = |percent| it.percentile(percent).map(us);
    json!({
        "count": it.count(),
        "mean_us": it.mean().map(us),
        "min_us": us(min),
        "p50_us": at(50.0),
        "p99_us": at(99.0),
        "p999_us": at(99.9),
        "max_us": us(max),
        "buckets_us": it
            .buckets()
            .map(|(ns, count)| json!([ns as f64 / 1000.0, count]))
            .collect::<Vec<_>>(),
    })
}

/// Returns a line of text about times.
pub fn times_line(what: &str, it: &Histogram) -> Option<String> {
    let at = |percent| it.percentile(percent).unwrap_or_default();
    let (_, max) = it.extremes()?;
    Some(format!(
        "{what}: median {:?}, 99% {:?}, 99.9% {:?}, longest {max:?}",
        at(50.0),
        at(99.0),
        at(99.9)
    ))
}

fn named(counters: &[(&'static str, u64)]) -> Value {
    let all: Map<String, Value> =
        counters.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    Value::Object(all)
}

fn rate(count: u64, window: &Window) -> f64 {
    count as f64 / window.seconds.max(1e-9)
}
