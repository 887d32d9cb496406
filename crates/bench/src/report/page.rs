//! The HTML page: all results, in tables and plots.

use super::matrix;
use super::plot::{Frame, Mark, escape};
use super::results::{Kind, Results, Stored};
use super::rfc;
use super::workers::{by_cores, worker};
use load::generate::numbers::human;
use serde_json::Value;
use std::fmt::Write;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#1a1a1a;background:#fff}\
h1,h2,h3{line-height:1.2}h2{margin-top:2.5rem;border-bottom:1px solid #999}\
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}\
caption{text-align:left;font-weight:600;padding:.3rem 0}\
th,td{border:1px solid #999;padding:.25rem .6rem;text-align:right}\
th[scope=row],td.text{text-align:left}td.text{overflow-wrap:anywhere}thead th{background:#eee}\
figure{margin:1rem 0}svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif}\
figcaption{color:#444}.axis,.line{fill:none;stroke:#333}.grid{stroke:#ddd}\
.bar{fill:#2b5d8a}.up{fill:#1b6e2f}.down{fill:#b3261e}.square{fill:#8a6100}.dot{fill:#2b5d8a}\
pre{white-space:pre-wrap;background:#f4f4f4;padding:.5rem}\
@media print{body{margin:0;max-width:none;font-size:11pt}\
figure,table{break-inside:avoid}h2,h3{break-after:avoid}details{display:block}}";

/// The whole page.
pub fn html(results: &Results) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Tidegate: what was measured</title><style>{STYLE}</style></head>\n<body><main>\
         <h1>What was measured</h1>\n"
    );
    page.push_str(&origins(results));
    for stored in results.of(Kind::Matrix) {
        page.push_str(&matrix::section(stored));
    }
    page.push_str(&rates(results));
    for (index, stored) in results.of(Kind::CpsNdr).enumerate() {
        page.push_str(&search(stored, index));
    }
    for (index, stored) in results.of(Kind::Generate).enumerate() {
        page.push_str(&generated(stored, index));
    }
    for stored in results.of(Kind::SelfTest) {
        page.push_str(&self_test(stored));
    }
    for (index, stored) in results.of(Kind::Rfc).enumerate() {
        page.push_str(&rfc::section(stored, index));
    }
    for stored in results.of(Kind::Bench) {
        page.push_str(&bench(stored));
    }
    page.push_str("</main></body></html>\n");
    page
}

/// A table with a caption, column heads and rows; the first cell of a row is its head.
pub fn table(caption: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("<table><caption>{}</caption><thead><tr>", escape(caption));
    for head in heads {
        // Writing to a string cannot fail.
        let _ = write!(text, "<th scope=\"col\">{}</th>", escape(head));
    }
    text.push_str("</tr></thead><tbody>");
    for row in rows {
        text.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            // Numbers are aligned right, words left.
            let is_words = cell.chars().filter(char::is_ascii_alphabetic).count() > 3;
            let cell = escape(cell);
            let _ = match (index, is_words) {
                (0, _) => write!(text, "<th scope=\"row\">{cell}</th>"),
                (_, true) => write!(text, "<td class=\"text\">{cell}</td>"),
                (_, false) => write!(text, "<td>{cell}</td>"),
            };
        }
        text.push_str("</tr>");
    }
    text + "</tbody></table>\n"
}

/// A count, or a dash if there is none.
pub fn shown(number: Option<f64>) -> String {
    number.map_or("\u{2013}".to_owned(), human)
}

/// A percentage, or a dash if there is none.
pub fn percent(share: Option<f64>) -> String {
    share.map_or("\u{2013}".to_owned(), |share| format!("{:.4}%", share * 100.0))
}

/// The provenance of each result.
fn origins(results: &Results) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for stored in &results.all {
        let text = |key: &str| stored.text(&format!("/provenance/{key}")).unwrap_or("").to_owned();
        let number = |key: &str| stored.number(&format!("/provenance/{key}"));
        if stored.json.get("provenance").is_none() {
            continue;
        }
        let built = text("commit");
        let (commit, changes) = built.split_once(' ').unwrap_or((&built, ""));
        let commit: String = commit.chars().take(12).collect();
        let program = format!("{} ({commit} {changes}", text("version"));
        rows.push(vec![
            stored.name.clone(),
            text("date"),
            text("machine/cpu"),
            shown(number("machine/cores")),
            text("machine/kernel"),
            number("machine/load_average").map_or(String::new(), |load| format!("{load:.2}")),
            format!("{})", program.trim_end()),
            number("seed").map_or(String::new(), |seed| format!("{seed:.0}")),
        ]);
    }
    if rows.is_empty() {
        return String::new();
    }
    let heads =
        ["Result", "Date", "Processor", "Cores", "Kernel", "Load at its end", "Tidegate", "Seed"];
    format!(
        "<h2>Machine and versions</h2>\n{}",
        table("Where each result comes from", &heads, &rows)
    )
}

fn rates(results: &Results) -> String {
    let all: Vec<&Stored> = results.of(Kind::CpsNdr).collect();
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|it| {
            vec![
                it.name.clone(),
                it.device(),
                shown(it.number("/connections_per_second")),
                shown(it.number("/active_flows")),
                shown(it.number("/tx_bits_per_second")),
                shown(it.number("/tx_packets_per_second")),
                percent(it.number("/loss_ratio")),
                it.text("/limited_by").unwrap_or("\u{2013}").to_owned(),
            ]
        })
        .collect();
    let heads = [
        "Result",
        "Device",
        "Connections/s",
        "Active flows",
        "Bits/s",
        "Packets/s",
        "Lost",
        "Limited by",
    ];
    let caption = "The highest rate of new connections that passed";
    let mut text = format!("<h2>Connection rates</h2>\n{}", table(caption, &heads, &rows));
    let bars: Vec<(String, f64)> = all
        .iter()
        .filter_map(|it| Some((it.name.clone(), it.number("/connections_per_second")?)))
        .collect();
    if !bars.is_empty() {
        let said: Vec<String> =
            bars.iter().map(|(name, rate)| format!("{name}: {}", human(*rate))).collect();
        text += &Frame {
            id: "rates",
            title: "Connections per second, by result",
            description: &format!("Connections per second. {}.", said.join("; ")),
            x_name: "result",
            y_name: "connections/s",
        }
        .bars(&bars);
    }
    text + &by_cores(&all)
}

fn search(stored: &Stored, index: usize) -> String {
    let name = escape(&stored.name);
    let mut text = format!("<h2>Search: {name}</h2>\n<p>{}</p>\n", escape(&in_words(stored)));
    let none = Vec::new();
    let samples = stored.json.get("samples").and_then(Value::as_array).unwrap_or(&none);
    let number = |sample: &Value, key: &str| sample.get(key).and_then(Value::as_f64);
    let word = |sample: &Value, key: &str| {
        sample.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut points = Vec::new();
    let mut rows = Vec::new();
    for sample in samples {
        let verdict = word(sample, "verdict");
        let mark = match verdict.as_str() {
            "pass" => Mark::Up,
            "fail" => Mark::Down,
            _ => Mark::Square,
        };
        let iteration = number(sample, "iteration").unwrap_or_default();
        points.push((iteration, number(sample, "offered").unwrap_or_default(), mark));
        rows.push(vec![
            format!("{iteration}"),
            word(sample, "purpose"),
            shown(number(sample, "offered")),
            shown(number(sample, "connections_per_second")),
            shown(number(sample, "active_flows")),
            percent(number(sample, "loss_ratio")),
            percent(number(sample, "failure_ratio")),
            verdict,
        ]);
    }
    if !points.is_empty() {
        let passed = points.iter().filter(|p| p.2 == Mark::Up).count();
        text += &Frame {
            id: &format!("search-{index}"),
            title: &format!("Search history of {}", stored.name),
            description: &format!(
                "{} samples, {passed} of them passed. Triangles up passed, triangles down did \
                 not, squares are invalid.",
                points.len()
            ),
            x_name: "sample",
            y_name: "connections/s offered",
        }
        .points(&points, true);
        let heads = [
            "Sample",
            "For",
            "Offered",
            "Opened/s",
            "Active",
            "Packets lost",
            "Connections failed",
            "Verdict",
        ];
        text += &table("Every sample", &heads, &rows);
    }
    let answer = stored.number("/answer/offered");
    let at_answer = |s: &&Value| number(s, "offered") == answer && word(s, "verdict") == "pass";
    if let Some(sample) = samples.iter().rev().find(at_answer) {
        text += &latencies(sample, &format!("search-{index}"), &stored.name);
    }
    text + &worker(stored) + &settings(stored)
}

fn in_words(stored: &Stored) -> String {
    let confirmed = stored.json.pointer("/answer/confirmed").and_then(Value::as_bool);
    match stored.number("/connections_per_second") {
        Some(rate) => format!(
            "{}: {} connections per second passed {} of {} samples{}; limited by {}.",
            stored.device(),
            human(rate),
            shown(stored.number("/answer/passed")),
            shown(stored.number("/answer/samples")),
            if confirmed == Some(true) { ", confirmed" } else { ", not confirmed" },
            match stored.text("/limited_by") {
                Some("generator") => "the generator",
                Some("range") => "the range that was searched",
                Some("iterations") => "the number of samples",
                Some("max_flows") => "how many connections may be alive",
                Some(_) => "the device",
                None => "nothing yet: the search was not finished",
            },
        ),
        None => format!("{}: no rate passed.", stored.device()),
    }
}

/// Both histograms of a sample.
fn latencies(sample: &Value, id: &str, name: &str) -> String {
    let mut text = String::new();
    for (key, what) in [("handshake", "SYN to SYN/ACK"), ("reply", "Request to reply")] {
        text += &histogram(&sample[key], &format!("{id}-{key}"), what, name);
    }
    text
}

/// A histogram of times, if there is one.
pub fn histogram(it: &Value, id: &str, what: &str, name: &str) -> String {
    let us = |key: &str| it[key].as_f64().unwrap_or_default();
    let pair = |pair: &Value| Some((pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?));
    let buckets: Vec<(f64, f64)> =
        it["buckets_us"].as_array().into_iter().flatten().filter_map(pair).collect();
    if buckets.is_empty() {
        return String::new();
    }
    Frame {
        id,
        title: &format!("{what}, {name}"),
        description: &format!(
            "{what}: half within {:.0} \u{b5}s, 99% within {:.0} \u{b5}s, 99.9% within {:.0} \
             \u{b5}s, the longest {:.0} \u{b5}s.",
            us("p50_us"),
            us("p99_us"),
            us("p999_us"),
            us("max_us")
        ),
        x_name: "microseconds (logarithmic)",
        y_name: "how many",
    }
    .histogram(&buckets)
}

fn generated(stored: &Stored, index: usize) -> String {
    let rows = [
        ("Connections opened per second", shown(stored.number("/connections_per_second"))),
        ("Connections completed per second", shown(stored.number("/completed_per_second"))),
        ("Active flows", shown(stored.number("/active_flows"))),
        ("Packets sent per second", shown(stored.number("/tx_packets_per_second"))),
        ("Packets lost", percent(stored.number("/loss_ratio"))),
        ("Connections failed", percent(stored.number("/failure_ratio"))),
        ("Share of the generator's ceiling", percent(stored.number("/ceiling/share"))),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    let device = stored.device();
    format!(
        "<h2>Load: {}</h2>\n{}{}{}",
        escape(&stored.name),
        table(&format!("Through: {device}"), &["What", "Measured"], &rows),
        latencies(&stored.json, &format!("load-{index}"), &stored.name),
        settings(stored)
    )
}

fn self_test(stored: &Stored) -> String {
    let none = Vec::new();
    let all = stored.json.get("rows").and_then(Value::as_array).unwrap_or(&none);
    let row = |it: &Value| {
        let number = |key: &str| shown(it.get(key).and_then(Value::as_f64));
        vec![
            it.get("profile").and_then(Value::as_str).unwrap_or_default().to_owned(),
            number("connections_per_second"),
            number("active_flows"),
            number("bits_per_second"),
            number("packets_per_second"),
        ]
    };
    let heads = ["Type", "Connections/s", "Active flows", "Bits/s", "Packets/s"];
    let rows: Vec<_> = all.iter().map(row).collect();
    let name = escape(&stored.name);
    format!(
        "<h2>The generator alone: {name}</h2>\n{}{}",
        table("Calibration", &heads, &rows),
        settings_of(stored, &[])
    )
}

/// The plain numbers of any other benchmark.
fn bench(stored: &Stored) -> String {
    let Some(object) = stored.json.as_object() else { return String::new() };
    let rows: Vec<Vec<String>> = object
        .iter()
        .filter_map(|(key, value)| {
            let text = match value {
                Value::Number(number) => number.as_f64().map(|n| {
                    if n.fract() == 0.0 { format!("{n:.0}") } else { format!("{n:.2}") }
                })?,
                Value::String(text) => text.clone(),
                Value::Bool(yes) => yes.to_string(),
                _ => return None,
            };
            Some(vec![key.replace('_', " "), text])
        })
        .collect();
    let name = escape(&stored.name);
    format!(
        "<h2>Benchmark: {name}</h2>\n{}{}",
        table("Measured", &["What", "Measured"], &rows),
        settings_of(stored, &[])
    )
}

fn settings(stored: &Stored) -> String {
    let keys =
        ["dut", "profile", "trial", "search", "precision_percent", "error_threshold_percent"];
    settings_of(stored, &keys)
}

/// How to repeat the measurement: its command line, and these settings. Collapsed until a reader opens it.
pub fn settings_of(stored: &Stored, keys: &[&str]) -> String {
    let command = stored.text("/provenance/command").map(|command| format!("$ {command}"));
    let mut lines: Vec<String> = command.into_iter().collect();
    for key in keys {
        if let Some(value) = stored.json.get(*key) {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            lines.push(format!("{key}: {text}"));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let text = escape(&lines.join("\n"));
    format!("<details><summary>Settings</summary><pre>{text}</pre></details>\n")
}
