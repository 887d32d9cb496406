//! Helpers of FTP and TFTP: the connections that a control connection announces (RFC 959, 2428, 1350).

use super::Known;
use super::reading::{self, Segment};
use conntrack::Event;
use flow::{NatKind, Tuple, TupleL4};
use std::net::IpAddr;

const LIFETIME_MS: u64 = 300_000;

/// An expected connection, from any source port.
#[derive(Clone, Debug)]
pub struct Expected {
    pub zone: u16,
    pub parent_id: u32,
    pub parent: Tuple,
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    port: u16,
    pub mark: u32,
    pub label: u128,
    /// It was announced by the current packet.
    pub is_fresh: bool,
    pub kind: NatKind,
    pub address: IpAddr,
    /// The destination port after NAT.
    pub real_port: u16,
    deadline_ms: u64,
    /// A server's port was asked for, or the server said 200 to a client's: no refusal ends it.
    pub is_agreed: bool,
}

impl Expected {
    pub fn is(&self, now_ms: u64, zone: u16, tuple: &Tuple) -> bool {
        let TupleL4::Ports { dst, .. } = tuple.l4 else { return false };
        self.zone == zone
            && self.lives(now_ms)
            && (self.src, self.dst, self.protocol, self.port)
                == (tuple.src, tuple.dst, tuple.protocol, dst)
    }

    pub fn lives(&self, now_ms: u64) -> bool {
        now_ms < self.deadline_ms
    }

    pub fn is_same_place(&self, it: &Expected) -> bool {
        let place = |it: &Expected| (it.zone, it.src, it.dst, it.protocol, it.port);
        place(self) == place(it)
    }
}

/// A control connection's text so far, per direction, the client's first.
#[derive(Clone, Default, Debug)]
pub struct Session {
    /// The next sequence number, and whether a line begins there.
    next: [Option<(u32, bool)>; 2],
    is_foreign: bool,
    /// The client waits for a 227 or 229.
    asked: bool,
    /// The code of the server's reply that goes on.
    goes_on: Option<String>,
    pub changes: [Vec<Change>; 2],
}

/// What a segment of a control connection brings.
pub enum News {
    Nothing,
    Expects(Expected),
    /// The server takes the client's port, or does not.
    Judges(bool),
}

/// A rewritten line.
#[derive(Clone, Debug)]
pub struct Change {
    pub seq: u32,
    pub at: usize,
    pub old: String,
    pub new: String,
}

impl Change {
    pub fn grows_by(&self) -> i32 {
        self.new.len() as i32 - self.old.len() as i32
    }
}

fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Session {
    /// The skew of a side's sequence numbers up to the last changed line, and behind it. Earlier data is not
    /// retransmitted (Linux: `nf_conntrack_seqadj.c`).
    fn moved(&self, from: usize) -> (i32, i32, u32) {
        let all: i32 = self.changes[from].iter().map(Change::grows_by).sum();
        let last = self.changes[from].last();
        (all - last.map_or(0, Change::grows_by), all, last.map_or(0, |it| it.seq))
    }

    /// The number that the other side sees for a side's `seq`.
    pub fn forward(&self, from: usize, seq: u32) -> u32 {
        let (before, behind, line) = self.moved(from);
        seq.wrapping_add_signed(if is_after(seq, line) { behind } else { before })
    }

    /// The reverse, for an acknowledgement of the side's data, if the segment has one.
    pub fn back(&self, from: usize, segment: &Segment) -> u32 {
        let (before, behind, line) = self.moved(from);
        let ack = segment.ack;
        if !segment.is_ack || (ack == 0 && segment.is_rst) {
            return ack;
        }
        let is_behind = is_after(ack.wrapping_add_signed(-before), line);
        ack.wrapping_add_signed(if is_behind { -behind } else { -before })
    }
}

/// An endpoint in a line: its address if it has one, its port, and its text.
struct Endpoint<'a> {
    address: Option<IpAddr>,
    port: u16,
    text: &'a str,
    /// The text with another address.
    spell: fn(IpAddr, u16, &str) -> String,
}

enum Line<'a> {
    Other,
    Names(Endpoint<'a>),
    Broken,
}

/// Handles a valid segment of an FTP control connection. `others` are expected by other connections.
pub fn ftp(
    known: &mut Known,
    from: usize,
    now_ms: u64,
    seq: u32,
    payload: &[u8],
    others: &[Expected],
) -> Result<News, Event> {
    let session = &mut known.session;
    let starts_line = session.next[from] == Some((seq, true));
    let follows = session.next[from].is_some_and(|(next, _)| next == seq);
    let is_old = session.next[from].is_some_and(|(next, _)| is_after(next, seq));
    if from == 1 && !follows && !is_old {
        session.goes_on = None;
    }
    if !is_old {
        let next = seq.wrapping_add(payload.len() as u32);
        session.next[from] = Some((next, payload.last() == Some(&b'\n')));
    }
    let text: String = payload.iter().map(|&byte| char::from(byte)).collect();
    if session.is_foreign {
        return Ok(News::Nothing);
    }
    let mut lines = text.split_inclusive('\n').skip(usize::from(!starts_line));
    if from == 0 && !lines.clone().all(may_be_command) {
        session.is_foreign = true;
        return Err(Event::HelperOff);
    }
    let goes_on = session.goes_on.is_some();
    let mut verdict = None;
    if !is_old && from == 0 {
        // The first line seen may be whole.
        session.asked |= lines.any(asks) || (!follows && asks(&text));
    } else if !is_old {
        for code in lines.filter_map(|line| ends(&mut session.goes_on, line)) {
            match code.as_str() {
                "200" => verdict = verdict.or(Some(true)),
                _ if code.starts_with(['4', '5']) => verdict = verdict.or(Some(false)),
                _ => {}
            }
        }
    }
    let nothing = verdict.map_or(News::Nothing, News::Judges);
    let first = text.split_once('\n').filter(|_| starts_line && !(from == 1 && goes_on));
    let Some((line, _)) = first else { return Ok(nothing) };
    let line = line.strip_suffix('\r').unwrap_or(line);
    let is_v4 = known.original.src.is_ipv4();
    let named = if from == 0 { command(line, is_v4) } else { reply(line, is_v4) };
    if from == 1 && !matches!(named, Line::Other) && !std::mem::take(&mut known.session.asked) {
        return Ok(nothing);
    }
    match named {
        Line::Other => Ok(nothing),
        Line::Broken => Err(Event::HelperRefused),
        Line::Names(endpoint) => {
            let at = endpoint.text.as_ptr() as usize - line.as_ptr() as usize;
            expect(known, from, now_ms, seq, at, &endpoint, others).map(News::Expects)
        }
    }
}

/// Whether a command asks for a port of the server.
fn asks(line: &str) -> bool {
    let end = line.find(|it: char| !it.is_ascii_alphabetic()).unwrap_or(line.len());
    ["PASV", "EPSV"].contains(&line[..end].to_ascii_uppercase().as_str())
}

/// The code of a reply that ends with this line.
fn ends(goes_on: &mut Option<String>, line: &str) -> Option<String> {
    let (code, rest) = line.split_at_checked(3)?;
    if !code.chars().all(|it| it.is_ascii_digit()) || goes_on.as_ref().is_some_and(|it| it != code)
    {
        return None;
    }
    match rest.chars().next()? {
        '-' => *goes_on = Some(code.to_owned()),
        ' ' | '\r' | '\n' => {
            *goes_on = None;
            return Some(code.to_owned());
        }
        _ => {}
    }
    None
}

fn may_be_command(line: &str) -> bool {
    let letters = line.chars().take_while(char::is_ascii_alphanumeric).count();
    line.starts_with('\u{ff}')
        || match line.chars().nth(letters) {
            Some(' ' | '\r' | '\n') => (3..=8).contains(&letters),
            Some(_) => false,
            None => letters <= 8,
        }
}

fn command(line: &str, is_v4: bool) -> Line<'_> {
    let Some((verb, rest)) = line.split_once(' ') else { return Line::Other };
    let endpoint = match verb.to_ascii_uppercase().as_str() {
        "PORT" if is_v4 => commas(rest),
        "EPRT" => delimited(rest, is_v4),
        _ => return Line::Other,
    };
    endpoint.map_or(Line::Broken, Line::Names)
}

fn reply(line: &str, is_v4: bool) -> Line<'_> {
    let endpoint = match line.split_once(' ') {
        Some(("227", rest)) if is_v4 => {
            rest.find(|letter: char| letter.is_ascii_digit()).and_then(|at| commas(&rest[at..]))
        }
        Some(("229", rest)) => port_only(rest),
        _ => return Line::Other,
    };
    endpoint.map_or(Line::Broken, Line::Names)
}

/// `10,0,0,1,195,80`, followed by any other character.
fn commas(rest: &str) -> Option<Endpoint<'_>> {
    let end = rest.find(|it: char| !it.is_ascii_digit() && it != ',').unwrap_or(rest.len());
    let text = &rest[..end];
    let short = text.split(',').all(|number| number.len() <= 3);
    let numbers: Option<Vec<u8>> = text.split(',').map(|number| number.parse().ok()).collect();
    let [a, b, c, d, high, low] = numbers.filter(|_| short)?[..] else { return None };
    let port = u16::from_be_bytes([high, low]);
    Some(Endpoint {
        address: Some(IpAddr::from([a, b, c, d])),
        port,
        text,
        spell: |address, port, _| {
            let [high, low] = port.to_be_bytes();
            format!("{},{high},{low}", address.to_string().replace('.', ","))
        },
    })
}

/// `|1|10.0.0.1|6275|` with any delimiter.
fn delimited(rest: &str, is_v4: bool) -> Option<Endpoint<'_>> {
    let delimiter = rest.chars().next().filter(char::is_ascii_punctuation)?;
    let parts: Vec<&str> = rest.split(delimiter).collect();
    let ["", kind, host, port, _, ..] = parts[..] else { return None };
    let address: IpAddr = host.parse().ok()?;
    if kind != (if is_v4 { "1" } else { "2" }) || address.is_ipv4() != is_v4 {
        return None;
    }
    let start = 1 + kind.len() + 1;
    Some(Endpoint {
        address: Some(address),
        port: number(port)?,
        text: &rest[start..start + host.len() + 1 + port.len()],
        spell: |address, port, old| {
            let delimiter =
                old.chars().find(|it| !it.is_ascii_alphanumeric() && *it != '.' && *it != ':');
            format!("{address}{}{port}", delimiter.expect("it was split there"))
        },
    })
}

/// `Entering Extended Passive Mode (|||6446|)`.
fn port_only(rest: &str) -> Option<Endpoint<'_>> {
    let (_, rest) = rest.split_once('(')?;
    let delimiter = rest.chars().next().filter(|it| !it.is_ascii_digit())?;
    let parts: Vec<&str> = rest.split(delimiter).collect();
    let ["", "", "", port, _, ..] = parts[..] else { return None };
    Some(Endpoint {
        address: None,
        port: number(port)?,
        text: port,
        spell: |_, port, _| port.to_string(),
    })
}

fn number(text: &str) -> Option<u16> {
    let is_number = text.len() <= 5 && text.chars().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn expect(
    known: &mut Known,
    from: usize,
    now_ms: u64,
    seq: u32,
    at: usize,
    endpoint: &Endpoint<'_>,
    others: &[Expected],
) -> Result<Expected, Event> {
    let Known { original, reply, .. } = *known;
    // The listener, its address as the other host sees it, and the host that connects.
    let (own, seen, opener) = match from {
        0 => (original.src, reply.dst, reply.src),
        _ => (reply.src, original.dst, original.src),
    };
    let address = endpoint.address.unwrap_or(own);
    if (address != own && address != seen) || endpoint.port < 1024 {
        return Err(Event::HelperRefused);
    }
    let (kind, real_address) = inherited(known, from == 0);
    let mut expected = Expected {
        zone: known.zone,
        parent_id: known.id,
        parent: original,
        src: opener,
        dst: seen,
        protocol: 6,
        port: endpoint.port,
        mark: 0,
        label: 0,
        is_fresh: true,
        kind,
        address: real_address,
        real_port: endpoint.port,
        deadline_ms: now_ms + LIFETIME_MS,
        is_agreed: from == 1,
    };
    if own == seen {
        return Ok(expected);
    }
    // Two hosts behind one address may announce the same port: 64 ports are tried.
    let last = endpoint.port.saturating_add(63);
    let is_taken = |it: &Expected| others.iter().any(|other| other.is_same_place(it));
    while is_taken(&expected) {
        if expected.port == last {
            return Err(Event::HelperRefused);
        }
        expected.port += 1;
    }
    let new = (endpoint.spell)(seen, expected.port, endpoint.text);
    if new != endpoint.text {
        let old = endpoint.text.to_owned();
        known.session.changes[from].push(Change { seq, at, old, new });
    }
    Ok(expected)
}

/// The inherited NAT: each host sees the other's address as in the announcing connection.
fn inherited(known: &Known, is_active: bool) -> (NatKind, IpAddr) {
    let Known { original, reply, .. } = known;
    match (is_active, known.nat == Some(NatKind::Dst)) {
        (true, true) => (NatKind::Src, original.dst),
        (true, false) => (NatKind::Dst, original.src),
        (false, true) => (NatKind::Dst, reply.src),
        (false, false) => (NatKind::Src, reply.dst),
    }
}

/// The reply to a request comes from another port of the server.
pub fn tftp(known: &Known, from: usize, now_ms: u64, payload: &[u8]) -> Option<Expected> {
    let Known { original, reply, .. } = *known;
    let is_request = from == 0 && matches!(payload, [0, 1 | 2, ..]);
    let (TupleL4::Ports { src, .. }, TupleL4::Ports { dst, .. }) = (original.l4, reply.l4) else {
        return None;
    };
    let (kind, address) = inherited(known, true);
    is_request.then_some(Expected {
        zone: known.zone,
        parent_id: known.id,
        parent: original,
        src: reply.src,
        dst: reply.dst,
        protocol: 17,
        port: dst,
        mark: 0,
        label: 0,
        is_fresh: true,
        kind,
        address,
        real_port: src,
        deadline_ms: now_ms + LIFETIME_MS,
        is_agreed: true,
    })
}

/// Replaces the line's text, and adjusts sequence numbers by the growth of lines.
pub fn rewrite(bytes: &mut Vec<u8>, ip: usize, session: &Session, from: usize, segment: &Segment) {
    let place = reading::place(bytes, ip, false).expect("it was read before");
    let payload = place.end - segment.len as usize;
    let change = session.changes[from].iter().rev().find(|it| it.seq == segment.seq);
    let change = change.filter(|it| bytes[payload + it.at..].starts_with(it.old.as_bytes()));
    if let Some(change) = change {
        let at = payload + change.at;
        bytes.splice(at..at + change.old.len(), change.new.bytes());
        let field = if bytes[ip] >> 4 == 4 { ip + 2 } else { ip + 4 };
        let len = reading::u16_at(bytes, field).wrapping_add_signed(change.grows_by() as i16);
        bytes[field..field + 2].copy_from_slice(&len.to_be_bytes());
    }
    let seq = session.forward(from, segment.seq);
    let ack = session.back(1 - from, segment);
    bytes[place.l4 + 4..place.l4 + 8].copy_from_slice(&seq.to_be_bytes());
    bytes[place.l4 + 8..place.l4 + 12].copy_from_slice(&ack.to_be_bytes());
}
