//! How the rate grows with the number of workers, and the profile of the busiest worker.

use super::page::table;
use super::plot::{Frame, Mark};
use super::results::Stored;
use load::generate::numbers::human;
use serde_json::Value;

/// Workers, and the rate with them.
type Point = (f64, f64, Mark);

/// The rate by number of workers, for results of one device that differ in it.
pub fn by_cores(all: &[&Stored]) -> String {
    let mut devices: Vec<(String, Vec<Point>)> = Vec::new();
    for it in all {
        let (Some(workers), Some(rate)) =
            (it.number("/dut/workers"), it.number("/connections_per_second"))
        else {
            continue;
        };
        let (device, point) = (it.setting(), (workers, rate, Mark::Dot));
        match devices.iter_mut().find(|(known, _)| *known == device) {
            Some((_, points)) => points.push(point),
            None => devices.push((device, vec![point])),
        }
    }
    let mut text = String::new();
    for (index, (device, mut points)) in devices.into_iter().enumerate() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.first().map(|p| p.0) == points.last().map(|p| p.0) {
            continue;
        }
        let said: Vec<String> =
            points.iter().map(|p| format!("{} workers: {}", p.0, human(p.1))).collect();
        text += &Frame {
            id: &format!("cores-{index}"),
            title: &format!("Connections per second, by cores: {device}"),
            description: &format!("Connections per second by workers. {}.", said.join("; ")),
            x_name: "workers",
            y_name: "connections/s",
        }
        .points(&points, true);
    }
    text
}

/// The profile of the device's busiest worker at the answer's rate.
pub fn worker(stored: &Stored) -> String {
    let parts = stored.json.pointer("/worker/parts").and_then(Value::as_array);
    let Some(parts) = parts.filter(|parts| !parts.is_empty()) else { return String::new() };
    let row = |part: &Value| {
        let text = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
        let share = part["percent"].as_f64().map_or(String::new(), |p| format!("{p:.1}%"));
        let lock = if part["lock"] == true { "yes" } else { "" };
        vec![text("name"), text("object"), share, lock.to_owned()]
    };
    let rows: Vec<_> = parts.iter().map(row).collect();
    let caption = format!(
        "Where the busiest worker's time goes: {} ({})",
        stored.text("/worker/worker").unwrap_or_default(),
        stored.text("/worker/source").unwrap_or_default()
    );
    table(&caption, &["Function", "Of", "Share", "Lock"], &rows)
}
