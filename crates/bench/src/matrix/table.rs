//! The table of the measured cells: the rate of each, the difference between the two switches, and the work
//! of the busiest worker.

use super::cell::{Cell, Version};
use crate::{BenchError, Outcome};
use load::generate::numbers::human;
use serde_json::{Value, json};
use std::path::Path;

/// The file of the table in the folder, for `tidegate report`.
pub const FILE: &str = "matrix.json";

/// The table of these cells, as far as they were measured.
pub fn table(all: &[Cell], folder: &Path) -> Result<Outcome, BenchError> {
    let heads = [
        "Cell",
        "Connections/s",
        "Active Flows",
        "Bandwidth",
        "Packet Rate",
        "Difference",
        "Limited by",
        "Busiest worker",
    ];
    let mut text = line(heads.map(str::to_owned));
    let (mut rows, mut found): (Vec<Value>, Vec<(Cell, f64)>) = (Vec::new(), Vec::new());
    for cell in all {
        let json = read(folder, cell)?;
        let number = |key: &str| json.as_ref()?.get(key)?.as_f64();
        let rate = number("connections_per_second");
        found.extend(rate.map(|rate| (*cell, rate)));
        // The ratio of ours to the peer, if both were measured with the same ports.
        let ours = Cell { version: Version::Tidegate, ..*cell };
        let ours = found.iter().find(|(of, _)| cell.version == Version::Ovs && *of == ours);
        let difference = rate.zip(ours).map(|(theirs, (_, ours))| 100.0 * (ours / theirs - 1.0));
        let shown = |key: &str| number(key).map_or("-".to_owned(), human);
        let missing = Value::Null;
        let json = json.as_ref().unwrap_or(&missing);
        text += &line([
            cell.name(),
            shown("connections_per_second"),
            shown("active_flows"),
            shown("tx_bits_per_second"),
            shown("tx_packets_per_second"),
            difference.map_or(String::new(), |d| format!("{d:+.0}%")),
            json["limited_by"].as_str().unwrap_or("-").to_owned(),
            match json.is_null() {
                true => "not measured yet".to_owned(),
                false if super::search::says_nothing(json) => "all samples invalid".to_owned(),
                false => worker(json),
            },
        ]);
        rows.push(json!({
            "cell": cell.name(),
            "measured": !json.is_null(),
            "workers": cell.layout.workers,
            "queues": cell.layout.queues,
            "version": json.pointer("/dut/version"),
            "connections_per_second": rate,
            "active_flows": number("active_flows"),
            "tx_bits_per_second": number("tx_bits_per_second"),
            "tx_packets_per_second": number("tx_packets_per_second"),
            "loss_ratio": number("loss_ratio"),
            "limited_by": json["limited_by"],
            "ours_over_theirs_percent": difference,
            "worker": json["worker"],
        }));
    }
    Ok(Outcome { text, json: json!({ "cells": rows }) })
}

fn line(cells: [String; 8]) -> String {
    let [cell, rate, active, bandwidth, packets, difference, by, worker] = cells;
    format!(
        "{cell:<32} | {rate:>13} | {active:>12} | {bandwidth:>9} | {packets:>11} | \
         {difference:>10} | {by:<10} | {worker}\n"
    )
}

/// Leaves the table in its folder.
pub fn keep(outcome: &Outcome, folder: &Path) -> Result<(), BenchError> {
    let file = folder.join(FILE);
    std::fs::write(&file, format!("{}\n", outcome.json))
        .map_err(|error| BenchError::WrongWork(format!("{}: {error}", file.display())))
}

/// The result of a cell; `None` if it was not measured yet.
pub fn read(folder: &Path, cell: &Cell) -> Result<Option<Value>, BenchError> {
    let file = super::file(folder, cell);
    let wrong = |why: String| BenchError::WrongWork(format!("{}: {why}", file.display()));
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(error.to_string()))
}

/// The largest shares of the time of the busiest worker, and its share for locks.
fn worker(json: &Value) -> String {
    let Some(parts) = json.pointer("/worker/parts").and_then(Value::as_array) else {
        return String::new();
    };
    let shown = |part: &Value| {
        let mark = if part["lock"] == true { "*" } else { "" };
        let name = part["name"].as_str().unwrap_or_default();
        format!("{mark}{name} {:.0}%", part["percent"].as_f64().unwrap_or(0.0))
    };
    let mut words: Vec<String> = parts.iter().take(3).map(shown).collect();
    let locks = json.pointer("/worker/locks_percent").and_then(Value::as_f64).unwrap_or(0.0);
    words.push(format!("*locks {locks:.1}%"));
    words.join(", ")
}
