//! Parses the announcements of data connections in FTP's control connection, and writes them back
//! (RFC 959 section 4.1.2, RFC 2428).

use crate::key::Family;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Lengths of commands: three or four letters; extensions up to seven, digits included.
const COMMAND_LETTERS: std::ops::RangeInclusive<usize> = 3..=8;

/// The host that opens the data connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The server connects to the client's endpoint.
    Active,
    /// The client connects to the server's endpoint.
    Passive,
}

/// The syntax of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spelling {
    /// `10,0,0,1,195,80`: PORT and 227.
    Commas,
    /// `|2|fd00::1|6446|` with any delimiter: EPRT. Only what is between the inner ones changes.
    Delimited(u8),
    /// `|||6446|`: 229. The address is the control connection's.
    PortOnly,
}

/// An endpoint that a line announces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Announcement {
    pub mode: Mode,
    pub spelling: Spelling,
    /// Absent if it is the control connection's.
    pub address: Option<IpAddr>,
    pub port: u16,
    /// The position of the endpoint in the line.
    pub place: Range<usize>,
}

/// The meaning of a line for data connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// No announcement.
    Other,
    /// The announcement of an endpoint.
    Announces(Announcement),
    /// An announcement with an invalid endpoint.
    Broken,
}

/// Parses a line of the client, without its end.
pub(crate) fn command(line: &[u8], family: Family) -> Line {
    let (Some(verb), Some(b' ')) = (line.get(..4), line.get(4)) else { return Line::Other };
    let announced = if verb.eq_ignore_ascii_case(b"PORT") && family == Family::V4 {
        comma_endpoint(line, 5).map(|it| (it, Spelling::Commas))
    } else if verb.eq_ignore_ascii_case(b"EPRT") {
        delimited_endpoint(line, 5, family)
    } else {
        return Line::Other;
    };
    announcement(Mode::Active, announced)
}

/// Parses a line of the server, without its end.
pub(crate) fn reply(line: &[u8], family: Family) -> Line {
    let announced = match line.get(..4) {
        Some(b"227 ") if family == Family::V4 => {
            let digits = line[4..].iter().position(u8::is_ascii_digit);
            digits.and_then(|at| comma_endpoint(line, 4 + at)).map(|it| (it, Spelling::Commas))
        }
        Some(b"229 ") => passive_port(line).map(|it| (it, Spelling::PortOnly)),
        _ => return Line::Other,
    };
    announcement(Mode::Passive, announced)
}

/// Whether a line, perhaps cut at its end, may be a client's command. A line that cannot shows that
/// this is not FTP, such as a browser's request to another service on port 21.
pub(crate) fn may_be_command(line: &[u8]) -> bool {
    // Telnet's signals go before an urgent ABOR (RFC 959 section 4.1.3).
    if line.first() == Some(&0xff) {
        return true;
    }
    let letters = line.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    match line.get(letters) {
        Some(b' ' | b'\r' | b'\n') => COMMAND_LETTERS.contains(&letters),
        Some(_) => false,
        None => letters <= *COMMAND_LETTERS.end(),
    }
}

impl Announcement {
    /// The endpoint's text with another address and port.
    pub fn text(&self, address: IpAddr, port: u16) -> String {
        match (self.spelling, address) {
            (Spelling::Commas, IpAddr::V4(ip)) => {
                let [a, b, c, d] = ip.octets();
                let [high, low] = port.to_be_bytes();
                format!("{a},{b},{c},{d},{high},{low}")
            }
            (Spelling::Delimited(delimiter), _) => {
                format!("{address}{}{port}", char::from(delimiter))
            }
            _ => port.to_string(),
        }
    }
}

type Endpoint = (Option<IpAddr>, u16, Range<usize>);

fn announcement(mode: Mode, announced: Option<(Endpoint, Spelling)>) -> Line {
    match announced {
        Some(((address, port, place), spelling)) => {
            Line::Announces(Announcement { mode, spelling, address, port, place })
        }
        None => Line::Broken,
    }
}

/// `h1,h2,h3,h4,p1,p2` at `start`.
fn comma_endpoint(line: &[u8], start: usize) -> Option<Endpoint> {
    let mut numbers = [0u8; 6];
    let mut at = start;
    for (index, number) in numbers.iter_mut().enumerate() {
        if index > 0 {
            (line.get(at) == Some(&b',')).then_some(())?;
            at += 1;
        }
        let (value, digits) = decimal(line.get(at..)?, 3)?;
        *number = u8::try_from(value).ok()?;
        at += digits;
    }
    // The number must end here.
    (!line.get(at).is_some_and(|byte| byte.is_ascii_digit() || *byte == b',')).then_some(())?;
    let [a, b, c, d, high, low] = numbers;
    let address = Ipv4Addr::new(a, b, c, d).into();
    Some((Some(address), u16::from_be_bytes([high, low]), start..at))
}

/// `|1|10.0.0.1|6275|` or `|2|fd00::1|6275|` at `start`.
fn delimited_endpoint(line: &[u8], start: usize, family: Family) -> Option<(Endpoint, Spelling)> {
    let delimiter = *line.get(start)?;
    if !(33..=126).contains(&delimiter) || delimiter.is_ascii_alphanumeric() {
        return None;
    }
    let mut parts = line.get(start + 1..)?.split(|&byte| byte == delimiter);
    let kind = parts.next()?;
    let expected: &[u8] = if family == Family::V4 { b"1" } else { b"2" };
    (kind == expected).then_some(())?;
    let (host, port) = (parts.next()?, parts.next()?);
    // The port's closing delimiter must be there.
    parts.next()?;
    let host = std::str::from_utf8(host).ok()?;
    let address: IpAddr = match family {
        Family::V4 => host.parse::<Ipv4Addr>().ok()?.into(),
        Family::V6 => host.parse::<Ipv6Addr>().ok()?.into(),
    };
    let (value, digits) = decimal(port, 5)?;
    (digits == port.len()).then_some(())?;
    let from = start + 1 + kind.len() + 1;
    let place = from..from + host.len() + 1 + digits;
    let endpoint = (Some(address), u16::try_from(value).ok()?, place);
    Some((endpoint, Spelling::Delimited(delimiter)))
}

/// The port in `229 Entering Extended Passive Mode (|||6446|)`.
fn passive_port(line: &[u8]) -> Option<Endpoint> {
    let open = line.iter().position(|&byte| byte == b'(')?;
    let delimiter = *line.get(open + 1)?;
    let [second, third] = *line.get(open + 2..open + 4)?.first_chunk()?;
    (second == delimiter && third == delimiter && !delimiter.is_ascii_digit()).then_some(())?;
    let from = open + 4;
    let (value, digits) = decimal(line.get(from..)?, 5)?;
    (line.get(from + digits) == Some(&delimiter)).then_some(())?;
    Some((None, u16::try_from(value).ok()?, from..from + digits))
}

/// Returns a number of at most `most` digits and the number of digits.
fn decimal(text: &[u8], most: usize) -> Option<(u32, usize)> {
    let digits = text.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
    let value = text[..digits].iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    (digits > 0).then_some((value, digits))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str, family: Family) -> Line {
        match line.as_bytes().first().is_some_and(u8::is_ascii_digit) {
            true => reply(line.as_bytes(), family),
            false => command(line.as_bytes(), family),
        }
    }

    #[test]
    fn endpoints() {
        let (v4, v6) = (Family::V4, Family::V6);
        let good = [
            ("PORT 10,0,0,1,195,80", v4, Some("10.0.0.1"), 50000, "10,0,0,1,195,80"),
            ("port 10,0,0,1,4,0\r", v4, Some("10.0.0.1"), 1024, "10,0,0,1,4,0"),
            ("EPRT |1|10.0.0.1|5000|", v4, Some("10.0.0.1"), 5000, "10.0.0.1|5000"),
            ("eprt !2!fd00::1!5000!", v6, Some("fd00::1"), 5000, "fd00::1!5000"),
            (
                "227 Entering Passive Mode (10,0,0,2,195,80).",
                v4,
                Some("10.0.0.2"),
                50000,
                "10,0,0,2,195,80",
            ),
            ("227 10,0,0,2,195,80", v4, Some("10.0.0.2"), 50000, "10,0,0,2,195,80"),
            ("229 Entering Extended Passive Mode (|||6446|)", v6, None, 6446, "6446"),
            ("229 any words (!!!6446!)", v4, None, 6446, "6446"),
        ];
        for (line, family, address, port, place) in good {
            let Line::Announces(found) = read(line, family) else { panic!("{line}") };
            assert_eq!(found.address.map(|it| it.to_string()).as_deref(), address, "{line}");
            assert_eq!(found.port, port, "{line}");
            assert_eq!(&line[found.place.clone()], place, "{line}");
            let same = found.text(found.address.unwrap_or(IpAddr::from([0; 4])), port);
            assert_eq!(same, place, "{line}");
        }
    }

    #[test]
    fn broken_endpoints() {
        let (v4, v6) = (Family::V4, Family::V6);
        let broken = [
            ("PORT 10,0,0,1,195", v4),
            ("PORT 10,0,0,1,195,256", v4),
            ("PORT 10,0,0,1,195,8000", v4),
            ("PORT 10,0,0,1,195,80,1", v4),
            ("PORT  10,0,0,1,195,80", v4),
            ("PORT 10.0.0.1,195,80", v4),
            ("PORT 0010,0,0,1,195,80", v4),
            ("EPRT |1|10.0.0.1|65536|", v4),
            ("EPRT |1|10.0.0.1|50000", v4),
            ("EPRT |2|fd00::1|5000|", v4),
            ("EPRT |1|10.0.0.1|5000|", v6),
            ("EPRT |2|10.0.0.1|5000|", v6),
            ("EPRT |2|fd00::1%eth0|5000|", v6),
            ("EPRT 1110.0.0.11500001", v4),
            ("227 Entering Passive Mode", v4),
            ("229 Entering Extended Passive Mode (|10.0.0.1||6446|)", v4),
            ("229 Entering Extended Passive Mode (|||66000|)", v4),
            ("229 Entering Extended Passive Mode |||6446|", v4),
        ];
        for (line, family) in broken {
            assert_eq!(read(line, family), Line::Broken, "{line}");
        }
        for line in
            ["PORTS 1", "220 hello", "227-10,0,0,1,1,1", "", "PORT", "RETR PORT 1,2,3,4,5,6"]
        {
            assert_eq!(read(line, v4), Line::Other, "{line}");
        }
    }

    #[test]
    fn what_may_be_a_command() {
        for line in ["USER joe\r\n", "PWD\r\n", "ABOR", "XSHA256 f", "CD", "", "\u{00ff}ABOR\r\n"] {
            let bytes: Vec<u8> = line.chars().map(|letter| letter as u8).collect();
            assert!(may_be_command(&bytes), "{line}");
        }
        for line in
            ["Host: x\r\n", "\r\n", "Content-Length: 5", "CD \r\n", "SSH-2.0", "LONGCOMMAND "]
        {
            assert!(!may_be_command(line.as_bytes()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(a: [u8; 4], b: [u8; 16], port: u16, spelling in 0..3) {
            let (line, address, family) = match spelling {
                0 => ("PORT 1,2,3,4,5,6", IpAddr::from(a), Family::V4),
                1 => ("EPRT |1|1.2.3.4|5|", IpAddr::from(a), Family::V4),
                _ => ("EPRT |2|::1|5|", IpAddr::from(b), Family::V6),
            };
            let Line::Announces(found) = read(line, family) else { panic!() };
            let mut line = line.to_owned();
            line.replace_range(found.place.clone(), &found.text(address, port));
            let Line::Announces(again) = read(&line, family) else { panic!("{line}") };
            prop_assert_eq!((again.address, again.port), (Some(address), port));
        }

        #[test]
        fn no_line_breaks_it(line: Vec<u8>, verb in 0..5usize, v6: bool) {
            let verbs: [&[u8]; 5] = [b"PORT ", b"EPRT |", b"227 (", b"229 (|||", b""];
            let family = if v6 { Family::V6 } else { Family::V4 };
            let line = [verbs[verb], &line].concat();
            for read in [command(&line, family), reply(&line, family)] {
                if let Line::Announces(found) = read {
                    prop_assert!(found.place.end <= line.len());
                }
            }
            may_be_command(&line);
        }
    }
}
