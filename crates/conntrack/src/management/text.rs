//! The texts of `ovs-appctl dpctl/dump-conntrack`, `dump-conntrack-exp`, `ct-stats-show` and `ct-get-limits`
//! (ovs: `lib/ct-dpif.c`, `lib/dpctl.c`).

use crate::alg::expectations::ExpectedConnection;
use crate::error::Error;
use crate::management::entry::{Entry, SctpEntry, TcpEntry, TcpSide};
use crate::management::limit::ZoneLimits;
use crate::management::stats::Stats;
use crate::protocols::tcp::TcpState;
use base::Zone;
use flow::{Masked, Tuple, TupleL4};
use std::fmt;

/// The options of `dump-conntrack`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Detail {
    /// `-m`: identifiers, flags and both sides' states.
    pub more: bool,
    /// `-s`: the time left in seconds.
    pub statistics: bool,
}

impl Entry {
    /// The entry with more detail than its plain [`Display`](fmt::Display).
    pub fn display(&self, detail: Detail) -> impl fmt::Display + '_ {
        fmt::from_fn(move |f| write_entry(f, self, detail))
    }
}

impl fmt::Display for Entry {
    /// One line of `dump-conntrack`, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_entry(f, self, Detail::default())
    }
}

impl fmt::Display for ExpectedConnection {
    /// One line of `dump-conntrack-exp`, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_protocol(f, &self.original)?;
        write!(f, ",orig=({})", tuple(&self.original))?;
        if self.zone.0 != 0 {
            write!(f, ",zone={}", self.zone.0)?;
        }
        write_mark_and_label(f, self.mark, self.label)?;
        write!(f, ",parent=({})", tuple(&self.parent))
    }
}

fn write_protocol(f: &mut fmt::Formatter<'_>, tuple: &Tuple) -> fmt::Result {
    match tuple.protocol_name() {
        Some(name) => f.write_str(name),
        None => write!(f, "{}", tuple.protocol),
    }
}

fn write_mark_and_label(f: &mut fmt::Formatter<'_>, mark: u32, label: u128) -> fmt::Result {
    if mark != 0 {
        write!(f, ",mark={mark}")?;
    }
    match label {
        0 => Ok(()),
        label => write!(f, ",labels={label:#x}"),
    }
}

fn write_entry(f: &mut fmt::Formatter<'_>, entry: &Entry, detail: Detail) -> fmt::Result {
    write_protocol(f, &entry.original)?;
    write!(f, ",orig=({}),reply=({})", tuple(&entry.original), tuple(&entry.reply))?;
    // Open vSwitch's userspace tracking gives connections no identifiers and no status.
    if detail.more {
        f.write_str(",id=0")?;
    }
    if entry.zone.0 != 0 {
        write!(f, ",zone={}", entry.zone.0)?;
    }
    if detail.more {
        f.write_str(",status=0")?;
    }
    if detail.statistics {
        write!(f, ",timeout={}", entry.timeout_s)?;
    }
    write_mark_and_label(f, entry.mark, entry.label)?;
    match &entry.tcp {
        Some(tcp) if detail.more => write_tcp(f, tcp)?,
        Some(tcp) => write!(f, ",protoinfo=(state={})", tcp.state())?,
        None => {}
    }
    if let Some(SctpEntry { state, tag_original, tag_reply }) = &entry.sctp {
        let tags = format_args!("vtag_orig={tag_original},vtag_reply={tag_reply}");
        write!(f, ",protoinfo=(state={state},{tags})")?;
    }
    if let Some(helper) = entry.helper {
        write!(f, ",helper={helper}")?;
    }
    match &entry.parent {
        Some(parent) if detail.more => write!(f, ",parent=({})", tuple(parent)),
        _ => Ok(()),
    }
}

/// Protocols without ports are shown with ports of 0.
fn tuple(tuple: &Tuple) -> Tuple {
    let l4 = match tuple.l4 {
        TupleL4::None => TupleL4::Ports { src: 0, dst: 0 },
        l4 => l4,
    };
    Tuple { l4, ..*tuple }
}

fn write_tcp(f: &mut fmt::Formatter<'_>, tcp: &TcpEntry) -> fmt::Result {
    let TcpEntry { original, reply } = tcp;
    write!(f, ",protoinfo=(state_orig={},state_reply={}", original.state, reply.state)?;
    if original.window_scale != 0 || reply.window_scale != 0 {
        let (original, reply) = (original.window_scale, reply.window_scale);
        write!(f, ",wscale_orig={original},wscale_reply={reply}")?;
    }
    let flags = |side: &TcpSide| match (side.scaling_known, side.is_liberal) {
        (true, true) => "WINDOW_SCALE|BE_LIBERAL",
        (true, false) => "WINDOW_SCALE",
        (false, true) => "BE_LIBERAL",
        (false, false) => "0",
    };
    write!(f, ",flags_orig={},flags_reply={})", flags(original), flags(reply))
}

impl Stats {
    /// The text of `ct-stats-show`, with TCP's states for `-m`; every line ends.
    pub fn display(&self, more: bool) -> impl fmt::Display + '_ {
        fmt::from_fn(move |f| write_stats(f, self, more))
    }
}

fn write_stats(f: &mut fmt::Formatter<'_>, stats: &Stats, more: bool) -> fmt::Result {
    writeln!(f, "Connections Stats:\n    Total: {}", stats.total)?;
    if stats.tcp != 0 {
        writeln!(f, "  TCP: {}", stats.tcp)?;
        if more {
            writeln!(f, "    Conn per TCP states:")?;
            let states = TcpState::ALL.iter().zip(stats.tcp_states);
            for (state, count) in states.filter(|&(_, count)| count != 0) {
                writeln!(f, "\t  [{state}]={count}")?;
            }
        }
    }
    let rows = [
        ("UDP", stats.udp),
        ("UDPLITE", stats.udplite),
        ("SCTP", stats.sctp),
        ("ICMP", stats.icmp),
        ("DCCP", stats.dccp),
        ("IGMP", stats.igmp),
        // Open vSwitch counts ICMPv6 and shows no line of it.
        ("Other", stats.other),
    ];
    for (name, count) in rows.into_iter().filter(|&(_, count)| count != 0) {
        writeln!(f, "  {name}: {count}")?;
    }
    Ok(())
}

impl fmt::Display for ZoneLimits {
    /// The text of `ct-get-limits`, without the last line's end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "default limit={}", self.default_limit)?;
        for row in &self.zones {
            write!(f, "\nzone={},limit={},count={}", row.zone.0, row.limit, row.count)?;
        }
        Ok(())
    }
}

/// Reads `zone=1,limit=5`, as `ct-set-limits` takes it.
///
/// # Errors
/// The errors of [`Error`] for limits, in Open vSwitch's words.
pub fn parse_zone_limit(text: &str) -> Result<(Zone, u32), Error> {
    let (mut zone, mut limit) = (None, None);
    for (key, value) in fields(text) {
        let bad = || Error::BadValue { key: key.to_owned() };
        match (key, value) {
            (_, "") => return Err(Error::MissingValue { key: key.to_owned() }),
            ("zone", value) => zone = Some(Zone(number(value).ok_or_else(bad)?)),
            ("limit", value) => limit = Some(number(value).ok_or_else(bad)?),
            _ => return Err(Error::UnknownLimitField { key: key.to_owned() }),
        }
    }
    zone.zip(limit).ok_or(Error::IncompleteLimit)
}

/// Splits a text into `key=value` pairs; a missing value is empty.
pub(crate) fn fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = text.split([',', ' ', '\t', '\r', '\n']).filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, "")))
}

/// `0x5/0xff`, or `5` for all bits; numbers as [`number`] reads them.
pub(crate) fn masked(text: &str) -> Option<Masked<u128>> {
    match text.split_once('/') {
        Some((value, mask)) => Some(Masked { value: wide(value)?, mask: wide(mask)? }),
        None => Some(Masked { value: wide(text)?, mask: u128::MAX }),
    }
}

/// A number as C's `strtol` with base 0 reads it: decimal, `0x` or a leading `0`.
pub(crate) fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    T::try_from(u64::try_from(wide(text)?).ok()?).ok()
}

fn wide(text: &str) -> Option<u128> {
    let (digits, radix) = match text.strip_prefix('0') {
        None => (text, 10),
        Some("") => return Some(0),
        Some(rest) => match rest.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16),
            None => (rest, 8),
        },
    };
    // `from_str_radix` would accept a sign.
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    if is_number { u128::from_str_radix(digits, radix).ok() } else { None }
}

#[cfg(all(test, not(loom)))]
mod tests;
