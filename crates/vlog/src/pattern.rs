//! Patterns: the format of a log line (ovs-appctl(8), "vlog/set PATTERN").

use super::calendar::Date;
use super::level::{Level, PerDestination};
use std::fmt::Write;

/// Open vSwitch's default patterns (ovs: include/openvswitch/vlog.h).
pub const DEFAULTS: PerDestination<&str> = PerDestination {
    syslog: "ovs|%05N|%c%T|%p|%m",
    console: "%D{%Y-%m-%dT%H:%M:%SZ}|%05N|%c%T|%p|%m",
    file: "%D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m",
};

/// The RFC 5424 format for `--syslog-target`; the text follows the byte order mark.
pub const RFC_5424: &str = "<%B>1 %D{%Y-%m-%dT%H:%M:%S.###Z} %E %A %P %c - \u{feff}%m";

/// The date format of a pattern that gives none.
const DEFAULT_DATE: &str = "%Y-%m-%d %H:%M:%S.###";

/// Maximum field width. Only a mistyped pattern exceeds it.
const MAX_WIDTH: usize = 1024;

/// One message with the values that a pattern can show.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// The module that logged it.
    pub module: &'a str,
    /// Its level.
    pub level: Level,
    /// Its text.
    pub text: &'a str,
    /// Its number within its thread, from 1.
    pub number: u32,
    /// The thread's name; empty for the main thread.
    pub subprogram: &'a str,
    /// The program's name.
    pub program: &'a str,
    /// The host's name.
    pub host: &'a str,
    /// Milliseconds since the start of 1970.
    pub unix_ms: i64,
    /// Offset of local time to UTC, in seconds.
    pub utc_offset_s: i32,
    /// Milliseconds since the program started.
    pub running_ms: u64,
    /// The syslog facility, already shifted.
    pub facility: u8,
}

/// Appends `message` to `out` in the format `pattern`, without a newline.
pub fn format(pattern: &str, message: &Message<'_>, out: &mut String) {
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = field(&rest[at + 1..], message, out);
    }
    out.push_str(rest);
}

/// Appends the field whose specification, without its percent sign, `spec` begins with. Returns the rest of
/// the pattern.
fn field<'p>(spec: &'p str, message: &Message<'_>, out: &mut String) -> &'p str {
    let (left, spec) = spec.strip_prefix('-').map_or((false, spec), |rest| (true, rest));
    let (pad, spec) = spec.strip_prefix('0').map_or((' ', spec), |rest| ('0', rest));
    let digits = spec.len() - spec.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (width, spec) = spec.split_at(digits);
    let width = match width {
        "" => 0,
        width => width.parse().unwrap_or(MAX_WIDTH).min(MAX_WIDTH),
    };
    let mut chars = spec.chars();
    let Some(conversion) = chars.next() else { return "" };
    let (argument, rest) = braces(conversion, chars.as_str());

    let start = out.len();
    convert(conversion, argument, message, out);
    // The width counts bytes, as Open vSwitch's does.
    let missing = width.saturating_sub(out.len() - start);
    if missing > 0 {
        let at = if left { out.len() } else { start };
        out.insert_str(at, &String::from(pad).repeat(missing));
    }
    rest
}

/// Returns the argument in braces of the conversions that take one, and the rest.
fn braces(conversion: char, rest: &str) -> (Option<&str>, &str) {
    match rest.strip_prefix('{') {
        Some(inside) if matches!(conversion, 'c' | 'd' | 'D') => match inside.split_once('}') {
            Some((argument, rest)) => (Some(argument), rest),
            None => (Some(inside), ""),
        },
        _ => (None, rest),
    }
}

fn convert(conversion: char, argument: Option<&str>, message: &Message<'_>, out: &mut String) {
    let date = |offset_s| Date::new(message.unix_ms, offset_s);
    // Writing to a String cannot fail.
    let _ = match conversion {
        'A' => write!(out, "{}", message.program),
        'B' => write!(out, "{}", message.facility | message.level.syslog_severity()),
        'c' => write!(out, "{}", message.module),
        'd' => {
            return date(message.utc_offset_s).format(argument.unwrap_or(DEFAULT_DATE), out);
        }
        'D' => return date(0).format(argument.unwrap_or(DEFAULT_DATE), out),
        'E' => write!(out, "{}", message.host),
        'm' => write!(out, "{}", message.text.trim_end_matches('\n')),
        'N' => write!(out, "{}", message.number),
        'n' => writeln!(out),
        'p' => write!(out, "{}", message.level.name()),
        'P' => write!(out, "{}", std::process::id()),
        'r' => write!(out, "{}", message.running_ms),
        't' if message.subprogram.is_empty() => write!(out, "main"),
        't' => write!(out, "{}", message.subprogram),
        'T' if message.subprogram.is_empty() => Ok(()),
        'T' => write!(out, "({})", message.subprogram),
        other => write!(out, "{other}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: Message<'static> = Message {
        module: "bridge",
        level: Level::Warn,
        text: "port é is gone\n\n",
        number: 7,
        subprogram: "",
        program: "ovs-vswitchd",
        host: "tide",
        unix_ms: 1_795_266_658_035,
        utc_offset_s: 3600,
        running_ms: 1234,
        facility: 16 << 3,
    };

    fn check(pattern: &str, expect: &str) {
        let mut out = String::new();
        format(pattern, &MESSAGE, &mut out);
        assert_eq!(out, expect, "{pattern}");
    }

    #[test]
    fn patterns_print_what_open_vswitch_prints() {
        check(DEFAULTS.file, "2026-11-21T13:10:58.035Z|00007|bridge|WARN|port é is gone");
        check(DEFAULTS.console, "2026-11-21T13:10:58Z|00007|bridge|WARN|port é is gone");
        check(DEFAULTS.syslog, "ovs|00007|bridge|WARN|port é is gone");
        check("%d{%H}|%D{%H}|%d", "14|13|2026-11-21 14:10:58.035");
        check("[%8p][%-8p][%08N]", "[    WARN][WARN    ][00000007]");
        check("%A %E %B %r %t%T%n%%%q", "ovs-vswitchd tide 132 1234 main\n%q");
        check("%c{ignored}!", "bridge!");
        check("%", "");
        check("%-0", "");
        check("%D{%H", "13");
        check("é%é", "éé");
        check("%9999999999999999999999c", &format!("{:>1024}", "bridge"));
    }

    #[test]
    fn threads_have_their_names_in_brackets() {
        let message = Message { subprogram: "handler1", ..MESSAGE };
        let mut out = String::new();
        format("%c%T %t", &message, &mut out);
        assert_eq!(out, "bridge(handler1) handler1");
    }
}
