//! `dpctl/*` commands about connections (ovs: `lib/dpctl.c`, `dpctl.man`).

use super::{Answer, Arguments, Work, named};
use crate::Switch;
use base::Zone;
use conntrack::flush::{add_labels, add_mark, add_tuple};
use conntrack::text::{Detail, parse_zone_limit};
use conntrack::{Conntrack, CtFlush, Cursor, Direction, ExpectedCursor, Filter, Stats};
use daemon::unixctl::Reply;
use std::fmt::Write;
use std::sync::Arc;

/// Bytes of a dump that are generated at once.
const PART_BYTES: usize = 256 << 10;

/// `dpctl/dump-conntrack [-m] [-s] [dp] [zone=N]`, generated as it is read.
pub fn dump(switch: &mut Switch, words: &[String]) -> Reply {
    match dump_arguments(words) {
        Ok((detail, filter)) => {
            let conntrack = Arc::clone(switch.conntrack());
            Reply::parts(Dump { conntrack, detail, filter, cursor: Some(Cursor::default()) })
        }
        Err(text) => Reply::from(named("dpctl/dump-conntrack", Err(text))),
    }
}

fn dump_arguments(words: &[String]) -> Result<(Detail, Filter), String> {
    let mut arguments = Arguments::read(words)?;
    let more = arguments.flag("-m") | arguments.flag("--more");
    let statistics = arguments.flag("-s") | arguments.flag("--statistics");
    let detail = Detail { more, statistics };
    let filter = Filter { zone: arguments.zone()?, ..Filter::default() };
    arguments.end()?;
    Ok((detail, filter))
}

/// The rest of a dump.
struct Dump {
    conntrack: Arc<Conntrack>,
    detail: Detail,
    filter: Filter,
    cursor: Option<Cursor>,
}

impl Iterator for Dump {
    type Item = String;

    /// Returns the next part, of about [`PART_BYTES`].
    fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        while text.len() < PART_BYTES
            && let Some(cursor) = self.cursor
        {
            let page = self.conntrack.dump(clock::now(), &self.filter, cursor);
            self.cursor = page.next;
            for entry in page.entries {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}", entry.display(self.detail));
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

/// `dpctl/dump-conntrack-exp [dp] [zone=N]`, of Open vSwitch 3.2 and later, generated as it is read.
pub fn dump_expected(switch: &mut Switch, words: &[String]) -> Reply {
    let zone = Arguments::read(words).and_then(|mut arguments| {
        let zone = arguments.zone()?;
        arguments.end().map(|()| zone)
    });
    match zone {
        Ok(zone) => {
            let (conntrack, mut next) =
                (Arc::clone(switch.conntrack()), Some(ExpectedCursor::default()));
            Reply::parts(std::iter::from_fn(move || {
                let page = conntrack.expected(clock::now(), zone, next?);
                next = page.next;
                Some(page.connections.iter().map(|it| format!("{it}\n")).collect())
            }))
        }
        Err(text) => Reply::from(named("dpctl/dump-conntrack-exp", Err(text))),
    }
}

/// `dpctl/ct-stats-show [-m] [dp] [zone=N] [verbose]`; `verbose` is the old form of `-m` (ovs: `lib/dpctl.c`,
/// `dpctl_ct_stats_show`).
pub fn stats(words: &[String]) -> Result<Work, String> {
    let words: Vec<String> = words
        .iter()
        .map(|word| if word == "verbose" { "-m".to_owned() } else { word.clone() })
        .collect();
    let mut arguments = Arguments::read(&words)?;
    let more = arguments.flag("-m") | arguments.flag("--more");
    let filter = Filter { zone: arguments.zone()?, ..Filter::default() };
    arguments.end()?;
    Ok(Box::new(move |conntrack| {
        let stats: Stats = conntrack.stats(clock::now(), &filter);
        Ok(stats.display(more).to_string())
    }))
}

/// `dpctl/flush-conntrack [dp] [zone=N] [mark=X[/M]] [labels=Y[/N]] [ct-orig-tuple [ct-reply-tuple]]`; marks
/// and labels are of Open vSwitch 3.3 and later.
pub fn flush(words: &[String]) -> Result<Work, String> {
    let mut arguments = Arguments::read(words)?;
    let mut flush = CtFlush { zone: arguments.zone()?, ..CtFlush::default() };
    if let Some(text) = arguments.named("mark") {
        add_mark(&mut flush, &text).map_err(|error| invalid(&error))?;
    }
    if let Some(text) = arguments.named("labels") {
        add_labels(&mut flush, &text).map_err(|error| invalid(&error))?;
    }
    for direction in [Direction::Original, Direction::Reply] {
        if let Some(tuple) = arguments.next() {
            add_tuple(&mut flush, direction, &tuple).map_err(|error| invalid(&error))?;
        }
    }
    if arguments.next().is_some() {
        return Err(invalid(&"invalid arguments"));
    }
    arguments.end()?;
    Ok(Box::new(move |conntrack| match conntrack.flush(clock::now(), &flush) {
        Ok(_) => Ok(String::new()),
        Err(_) => Err("failed to flush conntrack (No such file or directory)".to_owned()),
    }))
}

/// `dpctl/ct-bkts [dp] [gt=N]`: all connections are in one bucket, as in Open vSwitch's userspace datapath
/// (ovs: `lib/conntrack.c`, `conntrack_dump_start`); a small bucket is shown as a dot.
pub fn buckets(words: &[String]) -> Result<Work, String> {
    let mut arguments = Arguments::read(words)?;
    let least = arguments.named("gt").map(|text| text.parse::<usize>());
    let least = least.transpose().map_err(|_| super::NO_DATAPATH)?.unwrap_or(0);
    arguments.end()?;
    Ok(Box::new(move |conntrack| {
        let count = conntrack.entries(clock::now(), &Filter::default()).count();
        let mut text = format!("Total Buckets: 1\nCurrent Connections: {count}\n\n");
        if count > 0 {
            let line = format!("+{}+{}+\n", "-".repeat(11), "-".repeat(41));
            let title = "|  Buckets  |         Connections per Buckets         |\n";
            let shown = if count > least { count.to_string() } else { ".".to_owned() };
            let _ = write!(text, "{line}{title}{line}   0..  7   | {shown:>5}\n\n");
        }
        Ok(text)
    }))
}

/// `dpctl/ct-get-nconns [dp]`
pub fn connections(switch: &mut Switch, words: &[String]) -> Answer {
    Arguments::read(words)?.end()?;
    Ok(format!("{}\n", switch.conntrack().connections()))
}

/// `dpctl/ct-get-maxconns [dp]`
pub fn get_maximum(switch: &mut Switch, words: &[String]) -> Answer {
    Arguments::read(words)?.end()?;
    Ok(format!("{}\n", switch.conntrack().connections_max()))
}

/// `dpctl/ct-set-maxconns [dp] maxconns`
pub fn set_maximum(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read(words)?;
    arguments.end_before(1)?;
    let number = arguments.next().and_then(|text| text.parse().ok());
    let maximum = number.ok_or("maxconns missing or malformed (Invalid argument)".to_owned())?;
    arguments.end()?;
    switch.conntrack().set_connections_max(maximum);
    Ok("setting maxconns successful".to_owned())
}

/// `dpctl/ct-set-limits [dp] [default=L] [zone=N,limit=L]...`
pub fn set_limits(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read(words)?;
    let mut limits = Vec::new();
    while let Some(word) = arguments.next() {
        match word.strip_prefix("default=") {
            Some(text) => {
                let limit = text.parse().map_err(|_| invalid(&"invalid default limit"))?;
                limits.push((None, limit));
            }
            None => {
                let (zone, limit) = parse_zone_limit(&word).map_err(|error| invalid(&error))?;
                limits.push((Some(zone), limit));
            }
        }
    }
    switch.refuse_database_limits(&limits)?;
    for (zone, limit) in limits {
        switch.conntrack().set_zone_limit(zone, limit);
    }
    Ok(String::new())
}

/// `dpctl/ct-del-limits [dp] zone=N1[,N2]...`
pub fn delete_limits(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read(words)?;
    for zone in zones(&arguments.next().unwrap_or_default())? {
        switch.conntrack().clear_zone_limit(zone);
    }
    arguments.end()?;
    Ok(String::new())
}

/// `dpctl/ct-get-limits [dp] [zone=N1[,N2]...]`
pub fn get_limits(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read(words)?;
    let asked = arguments.next().map(|word| zones(&word)).transpose()?.unwrap_or_default();
    arguments.end()?;
    Ok(format!("{}\n", switch.conntrack().zone_limits(&asked)))
}

/// `dpctl/ct-enable-tcp-seq-chk [dp]` and `dpctl/ct-disable-tcp-seq-chk [dp]`
pub fn set_sequence_check(switch: &mut Switch, words: &[String], check: bool) -> Answer {
    Arguments::read(words)?.end()?;
    switch.conntrack().set_check_tcp_windows(check);
    let done = if check { "enabling" } else { "disabling" };
    Ok(format!("{done} TCP sequence checking successful\n"))
}

/// `dpctl/ct-get-tcp-seq-chk [dp]`
pub fn get_sequence_check(switch: &mut Switch, words: &[String]) -> Answer {
    Arguments::read(words)?.end()?;
    let state = if switch.conntrack().checks_tcp_windows() { "enabled" } else { "disabled" };
    Ok(format!("TCP sequence checking: {state}\n"))
}

/// `zone=N1[,N2]...`
fn zones(word: &str) -> Result<Vec<Zone>, String> {
    let bad = || invalid(&format!("invalid argument {word}"));
    let list = word.strip_prefix("zone=").ok_or_else(bad)?;
    // Open vSwitch truncates a number that is too large, and so uses another zone.
    let bad_zone = |_| invalid(&"invalid zone");
    list.split(',').map(|zone| zone.parse().map(Zone).map_err(bad_zone)).collect()
}

/// Returns the error for an invalid argument, in `dpctl`'s words.
fn invalid(what: &dyn std::fmt::Display) -> String {
    format!("{what} (Invalid argument)\n")
}
