//! A test of a benchmarking RFC on the page: its answers, every trial, latencies.

use super::page::{histogram, percent, settings_of, shown, table};
use super::plot::{Frame, Mark, escape};
use super::results::Stored;
use load::generate::numbers::human;
use serde_json::Value;

/// Keys of the result's settings.
const SETTINGS: [&str; 14] = [
    "range",
    "dut",
    "connections",
    "flows",
    "rate",
    "seconds",
    "rfc_seconds",
    "repeats",
    "rfc_repeats",
    "ip_version",
    "addresses",
    "validation_share",
    "timeouts_s",
    "rules",
];

/// The whole test.
pub fn section(stored: &Stored, index: usize) -> String {
    let test = stored.text("/test").unwrap_or_default();
    let unit = stored.text("/unit").unwrap_or_default();
    let mut text = format!(
        "<h2>RFC test: {} ({})</h2>\n<p>{}. Through: {}.</p>\n",
        escape(&stored.name),
        escape(test),
        escape(stored.text("/implements").unwrap_or_default()),
        escape(&stored.device()),
    );
    if let Some(why) = stored.text("/stopped") {
        text +=
            &format!("<p>It ended before its time, or without an answer: {}</p>\n", escape(why));
    }
    text += &answers(&stored.json, unit);
    let id = |part: &str| format!("rfc-{index}-{part}");
    for (at, size) in list(&stored.json, "frame_sizes").iter().enumerate() {
        let bytes = size["frame_bytes"].as_f64().unwrap_or_default();
        let what = format!("{}, frames of {bytes:.0} bytes", stored.name);
        text += &trials(size, &what, unit, &id(&format!("{at}")));
        for (search, found) in list(size, "searches").iter().enumerate() {
            let what = format!("{what}, search {}", search + 1);
            text += &trials(found, &what, unit, &id(&format!("{at}-{search}")));
        }
        text += &histogram(&size["latency"], &id(&format!("{at}-latency")), "Latency", &what);
    }
    for (key, what) in [
        ("", stored.name.clone()),
        ("/without_flood", format!("{}, without the flood", stored.name)),
        ("/under_flood", format!("{}, under the flood", stored.name)),
    ] {
        let found = stored.json.pointer(key).unwrap_or(&Value::Null);
        text += &trials(found, &what, unit, &id(&format!("trials{}", key.replace('/', "-"))));
    }
    text + &runs(&stored.json) + &settings_of(stored, &SETTINGS)
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

/// The answers, by frame size or single.
fn answers(json: &Value, unit: &str) -> String {
    let row = |name: String, it: &Value| {
        let number = |key: &str| shown(it[key].as_f64());
        let latency = |key: &str| it["latency"][key].as_f64();
        vec![
            name,
            number("answer"),
            number("did_not_pass"),
            it["limited_by"].as_str().unwrap_or("\u{2013}").to_owned(),
            latency("mean_us").map_or("\u{2013}".to_owned(), |us| format!("{us:.1}")),
            latency("p99_us").map_or("\u{2013}".to_owned(), |us| format!("{us:.1}")),
        ]
    };
    let sizes = list(json, "frame_sizes").iter().filter(|size| !size["answer"].is_null());
    let mut rows: Vec<Vec<String>> = sizes
        .map(|size| row(format!("{:.0} bytes", size["frame_bytes"].as_f64().unwrap_or(0.0)), size))
        .collect();
    if !json["answer"].is_null() {
        rows.push(row("the answer".to_owned(), json));
    }
    if rows.is_empty() {
        return String::new();
    }
    let mean = "Latency, mean, \u{b5}s";
    let heads = ["Of", "Passed", "Did not pass", "Limited by", mean, "Latency, 99%, \u{b5}s"];
    table(&format!("What was found, in {unit}"), &heads, &rows)
}

/// Every trial, as marks in order and as a table; for a loss curve, the losses.
fn trials(of: &Value, what: &str, unit: &str, id: &str) -> String {
    let all = list(of, "trials");
    if all.is_empty() {
        return String::new();
    }
    let word = |trial: &Value, key: &str| trial[key].as_str().unwrap_or_default().to_owned();
    let lost = |trial: &Value| trial["sample"]["loss_ratio"].as_f64();
    let value = |trial: &Value| trial["value"].as_f64().unwrap_or_default();
    let mark = |trial: &Value| match trial["verdict"].as_str() {
        Some("pass") => Mark::Up,
        Some("fail") => Mark::Down,
        _ => Mark::Square,
    };
    let is_curve = all.iter().all(|trial| trial["purpose"] == "loss");
    let passed = all.iter().filter(|trial| trial["verdict"] == "pass").count();
    let marks = "Triangles up passed, triangles down did not, squares are invalid.";
    let plot = if is_curve {
        let points: Vec<_> = all
            .iter()
            .rev()
            .map(|trial| (value(trial), 1e6 * lost(trial).unwrap_or_default(), mark(trial)))
            .collect();
        let said: Vec<String> = all
            .iter()
            .map(|trial| format!("{}: {}", human(value(trial)), percent(lost(trial))))
            .collect();
        Frame {
            id,
            title: &format!("Frames lost, {what}"),
            description: &format!("Lost by {unit}. {}. {marks}", said.join("; ")),
            x_name: unit,
            y_name: "frames lost of a million",
        }
        .points(&points, true)
    } else {
        let number = 1..=all.len();
        let points: Vec<_> =
            number.zip(all).map(|(at, trial)| (at as f64, value(trial), mark(trial))).collect();
        Frame {
            id,
            title: &format!("Trials of {what}"),
            description: &format!("{} trials, {passed} of them passed. {marks}", all.len()),
            x_name: "trial",
            y_name: unit,
        }
        .points(&points, true)
    };
    let rows: Vec<Vec<String>> = (1..=all.len())
        .zip(all)
        .map(|(at, trial)| {
            let reasons: Vec<&str> =
                list(trial, "reasons").iter().filter_map(Value::as_str).collect();
            vec![
                at.to_string(),
                word(trial, "purpose"),
                shown(Some(value(trial))),
                percent(lost(trial)),
                word(trial, "verdict"),
                reasons.join("; "),
            ]
        })
        .collect();
    let heads = ["Trial", "For", "Tried", "Lost", "Verdict", "Why"];
    plot + &table(&format!("Every trial of {what}"), &heads, &rows)
}

/// The runs of a tear-down test.
fn runs(json: &Value) -> String {
    let all = list(json, "runs");
    if all.is_empty() {
        return String::new();
    }
    let row = |(at, run): (usize, &Value)| {
        let number = |key: &str| shown(run[key].as_f64());
        let ms = |key: &str| format!("{:.3}", 1000.0 * run[key].as_f64().unwrap_or_default());
        let rate = number("connections_per_second");
        vec![at.to_string(), number("connections"), ms("full_s"), ms("empty_s"), rate]
    };
    let rows: Vec<_> = (1..=all.len()).zip(all).map(row).collect();
    let heads = ["Table", "Connections", "Full, ms", "Empty, ms", "Connections/s"];
    table("Tables that were torn down", &heads, &rows)
}
