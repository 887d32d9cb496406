//! `tidegate/conntrack` and `tidegate/conntrack-events`, which `tidegate conntrack` uses: connections part by
//! part, with more details than Open vSwitch's dumps, and their events.

use super::{Answer, Work};
use crate::Switch;
use base::Instant;
use conntrack::text::Detail;
use conntrack::{Change, Conntrack, Cursor, Entry, Filter, Traffic, What};
use flow::{Tuple, TupleL4};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// Connections per answer, approximately; the next request continues after them.
const PAGE_ENTRIES: usize = 4096;
/// Recording of events stops if the client makes no request for this long.
const WATCH: Duration = Duration::from_secs(10);

/// `tidegate/conntrack text|json CURSOR [FILTER]...`: returns the next cursor (or `end`), then one line per
/// connection.
pub fn list(words: &[String]) -> Result<Work, String> {
    let (json, rest) = form(words)?;
    let (cursor, filters) = rest.split_first().ok_or("a cursor is missing; begin with 0:0")?;
    let mut filter = Filter::default();
    for text in filters {
        filter.add(text).map_err(|error| error.to_string())?;
    }
    let cursor = cursor.parse::<Cursor>().map_err(|error| error.to_string())?;
    Ok(Box::new(move |conntrack| Ok(part(conntrack, json, &filter, cursor))))
}

/// Returns the connections from `cursor` on, about [`PAGE_ENTRIES`].
fn part(conntrack: &Conntrack, json: bool, filter: &Filter, cursor: Cursor) -> String {
    let mut cursor = Some(cursor);
    let (now, mut lines, mut count) = (clock::now(), String::new(), 0);
    while let Some(at) = cursor
        && count < PAGE_ENTRIES
    {
        let page = conntrack.dump(now, filter, at);
        count += page.entries.len();
        for entry in &page.entries {
            // Writing to a string cannot fail.
            _ = if json {
                writeln!(lines, "{}", to_json(entry))
            } else {
                write_line(&mut lines, entry)
            };
        }
        cursor = page.next;
    }
    let next = cursor.map_or_else(|| "end".to_owned(), |cursor| cursor.to_string());
    format!("{next}\n{lines}")
}

/// `tidegate/conntrack-events text|json`: returns one line per event since the last call. The first call
/// starts recording.
pub fn events(switch: &mut Switch, words: &[String]) -> Answer {
    let (json, _) = form(words)?;
    switch.watch_connections(clock::now() + WATCH);
    let changes = switch.conntrack().events();
    let mut lines = String::new();
    if changes.lost > 0 {
        let lost = changes.lost;
        _ = match json {
            true => writeln!(lines, "{}", json!({"event": "lost", "count": lost})),
            false => writeln!(lines, "lost {lost} events: they came faster than they were fetched"),
        };
    }
    for change in &changes.changes {
        _ = if json {
            writeln!(lines, "{}", event(change))
        } else {
            write_event(&mut lines, change)
        };
    }
    Ok(lines)
}

/// `tidegate/conntrack-counters [on|off]`: whether packets and bytes of each connection are counted.
pub fn counters(switch: &mut Switch, words: &[String]) -> Answer {
    let conntrack = switch.conntrack();
    if let Some(counts) = on_or_off(words)? {
        conntrack.set_counts_traffic(counts);
    }
    Ok(format!("packets and bytes of connections: {}\n", said(conntrack.counts_traffic())))
}

/// `tidegate/conntrack-early-drop [on|off]`: whether early drop removes closed or unanswered connections from
/// a full table.
pub fn early_drop(switch: &mut Switch, words: &[String]) -> Answer {
    let conntrack = switch.conntrack();
    if let Some(early_drop) = on_or_off(words)? {
        conntrack.set_early_drop(early_drop);
    }
    Ok(format!("early drop: {}\n", said(conntrack.early_drop())))
}

fn on_or_off(words: &[String]) -> Result<Option<bool>, String> {
    match words.first().map(String::as_str) {
        None => Ok(None),
        Some("on") => Ok(Some(true)),
        Some("off") => Ok(Some(false)),
        Some(other) => Err(format!("{other}: say on or off (Invalid argument)")),
    }
}

fn said(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

impl Switch {
    /// Records connection events until then.
    fn watch_connections(&mut self, until: Instant) {
        if self.watched_until.replace(until).is_none() {
            self.conntrack().set_watched(true);
        }
    }

    /// Stops recording if its client makes no more requests.
    pub(crate) fn unwatch_connections(&mut self, now: Instant) {
        if self.watched_until.is_some_and(|until| now >= until) {
            self.watched_until = None;
            self.conntrack().set_watched(false);
        }
    }
}

fn form(words: &[String]) -> Result<(bool, &[String]), String> {
    match words.split_first() {
        Some((form, rest)) if form == "json" => Ok((true, rest)),
        Some((form, rest)) if form == "text" => Ok((false, rest)),
        _ => Err("say text or json first".to_owned()),
    }
}

fn write_line(out: &mut String, entry: &Entry) -> std::fmt::Result {
    let detail = Detail { more: false, statistics: true };
    let (forth, back) = (entry.original_traffic, entry.reply_traffic);
    writeln!(
        out,
        "{},packets={}/{},bytes={}/{},age={}",
        entry.display(detail),
        forth.packets,
        back.packets,
        forth.bytes,
        back.bytes,
        entry.age_s
    )
}

fn write_event(out: &mut String, change: &Change) -> std::fmt::Result {
    write!(out, "{}", change.what.name())?;
    if let What::Destroyed(why) = change.what {
        write!(out, " ({})", reason(why))?;
    }
    write!(out, " ")?;
    write_line(out, &change.entry)
}

fn event(change: &Change) -> Value {
    let mut value = json!({
        "event": change.what.name(),
        "at_ms": change.at.as_millis(),
        "connection": to_json(&change.entry),
    });
    if let (What::Destroyed(why), Some(fields)) = (change.what, value.as_object_mut()) {
        fields.insert("reason".to_owned(), reason(why).into());
    }
    value
}

/// Returns `expired` for `conntrack_expired`.
fn reason(why: conntrack::Event) -> &'static str {
    why.name().trim_start_matches("conntrack_")
}

pub(super) fn to_json(entry: &Entry) -> Value {
    json!({
        "zone": entry.zone.0,
        "protocol": entry.original.protocol,
        "original": tuple(&entry.original),
        "reply": tuple(&entry.reply),
        "state": state(entry),
        "mark": entry.mark,
        "label": format!("{:#x}", entry.label),
        "helper": entry.helper,
        "parent": entry.parent.as_ref().map(tuple),
        "timeout_s": entry.timeout_s,
        "age_s": entry.age_s,
        "original_traffic": traffic(entry.original_traffic),
        "reply_traffic": traffic(entry.reply_traffic),
    })
}

/// Returns the state, for protocols with states.
fn state(entry: &Entry) -> Option<String> {
    let tcp = entry.tcp.map(|tcp| tcp.state().to_string());
    tcp.or_else(|| entry.sctp.map(|sctp| sctp.state.to_string()))
}

fn tuple(tuple: &Tuple) -> Value {
    let Tuple { src, dst, .. } = tuple;
    match tuple.l4 {
        TupleL4::Ports { src: sport, dst: dport } => {
            json!({"src": src, "dst": dst, "sport": sport, "dport": dport})
        }
        TupleL4::Icmp { id, icmp_type, code } => {
            json!({"src": src, "dst": dst, "id": id, "type": icmp_type, "code": code})
        }
        TupleL4::None => json!({"src": src, "dst": dst}),
    }
}

fn traffic(traffic: Traffic) -> Value {
    json!({"packets": traffic.packets, "bytes": traffic.bytes})
}
