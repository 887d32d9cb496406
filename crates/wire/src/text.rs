//! A short text form of packets, for test data and messages.
//!
//! ```text
//! SRC[:PORT]>DST[:PORT] WHAT [OPTION]... [(QUOTED PACKET)]
//!
//! 10.0.0.1:1000>10.0.0.2:80 S seq=100 win=1024 wscale=7
//! [fe80::1]:1000>[fe80::2]:53 udp len=20 vlan=5
//! 10.0.0.9>10.0.0.1 icmp-unreach(1) (10.0.0.1:1000>10.0.0.2:53 udp len=20)
//! ```
//!
//! | WHAT | packet | its options |
//! |---|---|---|
//! | letters of `SFRPUEWA`, `.` for `A`, or `-` | TCP with these flags | `seq= ack= win= mss= wscale= sack len= data=` |
//! | `udp` | UDP | `len= data=` |
//! | `sctp` | SCTP | `tag= len= chunks=` (`init/TAG`, `cookie-echo`, `abort!` with its flag, by commas) |
//! | `icmp-echo`, `icmp-reply` | echo, ICMP or ICMPv6 by the addresses | `id= seq= len=` |
//! | `icmp-unreach(CODE)`, `icmp-exceeded(CODE)`, `icmp-error(TYPE,CODE)` | an error | `mtu=`, and the quoted packet |
//! | `nd-solicit`, `nd-advert` | neighbour discovery | `target=[IP]` (else DST, SRC) |
//! | `arp-request`, `arp-reply` | ARP | |
//! | `ip` | any IP packet | `proto=N len=N` |
//!
//! All IP packets take `ttl=`, `tos=`, `ipid=`, `csum=full|partial|zero|bad` and
//! `frag=first|later|last|OFFSET[+]` (bytes; `+` for more to follow; `later` is `1480+`, `last`
//! is `2960`). A fragment after the first has `len` bytes and no transport header. All frames take
//! `eth=SRC>DST`, `vlan=VID[/PRIORITY]`, and `svlan=` for a service tag outside those. Without
//! `eth`, each address is 02:00:00:00:00:XX with the last octet of the IP address. Payloads are
//! the bytes 0, 1, 2 and so on, or those of `data=`, where `%20` and the like stand for characters that are
//! not graphic, parentheses and percent signs. Numbers may be hexadecimal with `0x`.

mod parse;
mod print;
#[cfg(test)]
mod tests;
mod word;

pub use parse::{parse, parse_ip};
pub use print::describe;

use std::net::IpAddr;

use crate::Sctp;
use crate::sctp::chunk;
use base::MacAddr;

/// An error in a text, and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {what}")]
pub struct TextError {
    /// The position in bytes, starting with 1.
    pub column: usize,
    /// The error, and what is expected instead.
    pub what: String,
}

/// Returns the default Ethernet address of `ip` in the text form.
pub fn default_mac(ip: IpAddr) -> MacAddr {
    let last = match ip {
        IpAddr::V4(ip) => ip.to_bits() as u8,
        IpAddr::V6(ip) => ip.to_bits() as u8,
    };
    MacAddr([2, 0, 0, 0, 0, last])
}

/// The chunks that `chunks=` names.
const CHUNKS: [(&str, u8); 13] = [
    ("data", chunk::DATA),
    ("init", chunk::INIT),
    ("init-ack", chunk::INIT_ACK),
    ("sack", chunk::SACK),
    ("heartbeat", chunk::HEARTBEAT),
    ("heartbeat-ack", chunk::HEARTBEAT_ACK),
    ("abort", chunk::ABORT),
    ("shutdown", chunk::SHUTDOWN),
    ("shutdown-ack", chunk::SHUTDOWN_ACK),
    ("error", chunk::ERROR),
    ("cookie-echo", chunk::COOKIE_ECHO),
    ("cookie-ack", chunk::COOKIE_ACK),
    ("shutdown-complete", chunk::SHUTDOWN_COMPLETE),
];

/// Returns the SCTP chunks that `text` names, or `None` for an unknown name. Each chunk has its minimum
/// length and contains zeros, except for the tag of INIT and INIT ACK.
fn chunks(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for name in text.split(',') {
        let (name, flags) = name.strip_suffix('!').map_or((name, 0), |name| (name, 1));
        let (name, tag) = name.split_once('/').unwrap_or((name, "0"));
        let tag: u32 = tag.parse().ok()?;
        let kind = CHUNKS.iter().find(|(known, _)| *known == name)?.1;
        let length: u16 = match kind {
            chunk::INIT | chunk::INIT_ACK => 20,
            chunk::DATA | chunk::SACK => 16,
            chunk::SHUTDOWN => 8,
            _ => 4,
        };
        bytes.extend([kind, flags]);
        bytes.extend(length.to_be_bytes());
        let mut value = vec![0; usize::from(length) - 4];
        if let Some(place) = value.first_chunk_mut::<4>().filter(|_| length == 20) {
            *place = tag.to_be_bytes();
        }
        bytes.extend(value);
    }
    Some(bytes)
}

/// Returns `payload` in the form of `chunks=`, or `None` if that form does not produce these bytes.
fn named_chunks(sctp: &Sctp<&[u8]>) -> Option<String> {
    let mut names = Vec::new();
    for chunk in sctp.chunks() {
        let chunk = chunk?;
        let name = CHUNKS.iter().find(|(_, kind)| *kind == chunk.kind)?.0;
        let tag = match (chunk.kind, chunk.value.first_chunk()) {
            (chunk::INIT | chunk::INIT_ACK, Some(&tag)) => format!("/{}", u32::from_be_bytes(tag)),
            _ => String::new(),
        };
        names.push(format!("{name}{tag}{}", if chunk.flags == 1 { "!" } else { "" }));
    }
    let text = names.join(",");
    (chunks(&text).as_deref() == Some(sctp.payload())).then_some(text)
}

/// Returns `payload` in the form of `data=`, or `None` if `len=` describes it or it is not text.
fn spelled(payload: &[u8]) -> Option<String> {
    if payload.is_empty() || payload == self::payload(payload.len() as u16) {
        return None;
    }
    payload.is_ascii().then(|| {
        let letters = payload.iter().map(|byte| match byte {
            b'%' | b'(' | b')' => format!("%{byte:02x}"),
            _ if byte.is_ascii_graphic() => char::from(*byte).to_string(),
            _ => format!("%{byte:02x}"),
        });
        letters.collect()
    })
}

/// Returns the bytes of `data=`, or `None` for a percent sign without two digits after it.
fn unspelled(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((before, behind)) = rest.split_once('%') {
        bytes.extend(before.as_bytes());
        bytes.push(u8::from_str_radix(behind.get(..2)?, 16).ok()?);
        rest = behind.get(2..)?;
    }
    bytes.extend(rest.as_bytes());
    Some(bytes)
}

/// Returns the payload of `len=`.
fn payload(len: u16) -> Vec<u8> {
    (0..len).map(|at| at as u8).collect()
}
