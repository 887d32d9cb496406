//! The published table on the page, as `tidegate bench matrix` leaves it in its folder.

use super::page::{settings_of, shown, table};
use super::plot::escape;
use super::results::Stored;
use serde_json::Value;

/// The whole table.
pub fn section(stored: &Stored) -> String {
    let none = Vec::new();
    let cells = stored.json["cells"].as_array().unwrap_or(&none);
    let rows: Vec<Vec<String>> = cells
        .iter()
        .map(|cell| {
            let word = |key: &str| cell[key].as_str().unwrap_or("\u{2013}").to_owned();
            let number = |key: &str| shown(cell[key].as_f64());
            let difference = cell["ours_over_theirs_percent"].as_f64();
            vec![
                word("cell"),
                word("version"),
                number("connections_per_second"),
                number("active_flows"),
                number("tx_bits_per_second"),
                number("tx_packets_per_second"),
                difference.map_or(String::new(), |percent| format!("{percent:+.0}%")),
                word("limited_by"),
                busiest(cell),
            ]
        })
        .collect();
    let heads = [
        "Cell",
        "Version",
        "Connections/s",
        "Active flows",
        "Bits/s",
        "Packets/s",
        "Ours over theirs",
        "Limited by",
        "The busiest worker, locks marked *",
    ];
    let missing = cells.iter().filter(|cell| cell["measured"] == false).count();
    let rest = match missing {
        0 => String::new(),
        n => format!("<p>{n} cells are not measured yet.</p>\n"),
    };
    let caption = "By profile, tracking, workers and queues, switch and ports";
    format!(
        "<h2>The published table: {}</h2>\n{}{rest}{}",
        escape(&stored.name),
        table(caption, &heads, &rows),
        settings_of(stored, &[])
    )
}

fn busiest(cell: &Value) -> String {
    let parts = cell.pointer("/worker/parts").and_then(Value::as_array);
    let part = |part: &Value| {
        let mark = if part["lock"] == true { "*" } else { "" };
        let (name, share) = (part["name"].as_str(), part["percent"].as_f64());
        format!("{mark}{} {:.0}%", name.unwrap_or_default(), share.unwrap_or_default())
    };
    parts.map_or(String::new(), |all| all.iter().take(3).map(part).collect::<Vec<_>>().join(", "))
}
