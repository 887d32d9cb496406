//! Parses the text form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::MacAddr;

use super::word::{Word, words};
use super::{TextError, default_mac, payload};
use crate::builder::{Checksum, IpBuilder, PacketBuilder, TransportBuilder};
use crate::numbers::{ethertype, protocol};
use crate::tcp::TcpFlags;
use crate::vlan::Tci;
use crate::{icmp, icmpv6};

/// The maximum nesting of ICMP errors.
const MAX_DEPTH: usize = 4;

/// Returns the frame that `text` describes in the form of [`crate::text`].
///
/// # Errors
/// The first error, with its column.
pub fn parse(text: &str) -> Result<Vec<u8>, TextError> {
    Packet::read(text, 0, 0)?.frame()
}

/// Returns the IP packet that `text` describes, without an Ethernet header.
///
/// # Errors
/// As [`parse`]; also ARP and options of the Ethernet header.
pub fn parse_ip(text: &str) -> Result<Vec<u8>, TextError> {
    Packet::read(text, 0, 0)?.bare()
}

#[derive(Debug, Clone, Copy)]
struct Endpoint<'a> {
    word: Word<'a>,
    ip: IpAddr,
    port: Option<u16>,
}

impl<'a> Endpoint<'a> {
    fn read(word: Word<'a>) -> Result<Self, TextError> {
        let bracketed = Word { at: word.at + 1, text: word.text.strip_prefix('[').unwrap_or("") };
        if let Some((address, rest)) = bracketed.split(']') {
            let ip: Ipv6Addr = address.parse("an IPv6 address")?;
            let port = match rest.split(':') {
                Some((before, port)) if before.text.is_empty() => Some(port.u16()?),
                _ if rest.text.is_empty() => None,
                _ => return Err(rest.error("only ':PORT' may follow ']'")),
            };
            return Ok(Endpoint { word, ip: ip.into(), port });
        }
        let (address, port) = match word.split(':') {
            Some((address, port)) => (address, Some(port)),
            None => (word, None),
        };
        let ip: Ipv4Addr = address.parse("an IPv4 address, or an IPv6 address in brackets")?;
        Ok(Endpoint { word, ip: ip.into(), port: port.map(Word::u16).transpose()? })
    }

    fn needs_port(&self) -> Result<u16, TextError> {
        self.port
            .ok_or_else(|| self.word.error("a port must follow the address, as in 10.0.0.1:80"))
    }
}

/// A packet whose options are not interpreted yet.
#[derive(Debug)]
struct Packet<'a> {
    source: Endpoint<'a>,
    destination: Endpoint<'a>,
    what: Word<'a>,
    options: Vec<(Word<'a>, Word<'a>)>,
    quoted: Option<Word<'a>>,
    depth: usize,
}

impl<'a> Packet<'a> {
    fn read(text: &'a str, offset: usize, depth: usize) -> Result<Self, TextError> {
        let all = Word { at: offset, text };
        if depth > MAX_DEPTH {
            return Err(all.error(format!("packets quote packets more than {MAX_DEPTH} deep")));
        }
        let mut words = words(text, offset)?.into_iter();
        let ends = words.next().ok_or_else(|| all.error("a packet must start with SRC>DST"))?;
        let (source, destination) =
            ends.split('>').ok_or_else(|| ends.error("'SRC>DST' lacks its '>'"))?;
        let what = words.next().ok_or_else(|| {
            Word { at: offset + text.len(), text }.error("what kind of packet? 'S' or 'udp', say")
        })?;
        let (mut options, mut quoted) = (Vec::new(), None);
        for word in words {
            match word.text.strip_prefix('(') {
                Some(_) if quoted.is_none() => quoted = Some(word),
                Some(_) => return Err(word.error("a packet quotes one packet")),
                // An option without a value has the whole word as its key.
                None => options.push(word.split('=').unwrap_or((word, Word { text: "", ..word }))),
            }
        }
        let (source, destination) = (Endpoint::read(source)?, Endpoint::read(destination)?);
        if source.ip.is_ipv4() != destination.ip.is_ipv4() {
            return Err(ends.error("source and destination must be of one IP version"));
        }
        Ok(Packet { source, destination, what, options, quoted, depth })
    }

    fn take(&mut self, key: &str) -> Option<Word<'a>> {
        let at = self.options.iter().position(|(name, _)| name.text == key)?;
        Some(self.options.remove(at).1)
    }

    fn take_u16(&mut self, key: &str) -> Result<Option<u16>, TextError> {
        self.take(key).map(Word::u16).transpose()
    }

    fn take_u32(&mut self, key: &str) -> Result<Option<u32>, TextError> {
        self.take(key).map(|word| word.number(u32::MAX)).transpose()
    }

    fn take_payload(&mut self) -> Result<Vec<u8>, TextError> {
        if let Some(word) = self.take("data") {
            let data = super::unspelled(word.text);
            return data.ok_or_else(|| word.error("'%' needs two hexadecimal digits"));
        }
        Ok(payload(self.take_u16("len")?.unwrap_or(0)))
    }

    fn frame(mut self) -> Result<Vec<u8>, TextError> {
        let (source, destination) = (self.source.ip, self.destination.ip);
        let is_request = self.what.text == "arp-request";
        let mut macs = (default_mac(source), default_mac(destination));
        if is_request {
            macs.1 = MacAddr::BROADCAST;
        }
        if let Some(eth) = self.take("eth") {
            let (src, dst) =
                eth.split('>').ok_or_else(|| eth.error("'eth=SRC>DST' lacks its '>'"))?;
            macs = (src.parse("an Ethernet address")?, dst.parse("an Ethernet address")?);
        }
        let mut start = PacketBuilder::eth(macs.0, macs.1);
        for (key, tpid) in [("svlan", ethertype::SERVICE_VLAN), ("vlan", ethertype::VLAN)] {
            while let Some(word) = self.take(key) {
                let (vid, pcp) = match word.split('/') {
                    Some((vid, pcp)) => (vid, pcp.number(7)? as u8),
                    None => (word, 0),
                };
                start = start.tag(tpid, Tci::new(vid.number(4095)? as u16, pcp));
            }
        }
        if !is_request && self.what.text != "arp-reply" {
            return self.ip(start);
        }
        self.done()?;
        match (source, destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) if is_request => Ok(start.arp_request(from, to)),
            (IpAddr::V4(from), IpAddr::V4(to)) => Ok(start.arp_reply(from, to)),
            _ => Err(self.what.error("ARP is for IPv4; IPv6 has nd-solicit and nd-advert")),
        }
    }

    fn bare(self) -> Result<Vec<u8>, TextError> {
        if self.what.text.starts_with("arp-") {
            return Err(self.what.error("ARP is no IP packet"));
        }
        self.ip(PacketBuilder::bare())
    }

    fn ip(mut self, start: PacketBuilder) -> Result<Vec<u8>, TextError> {
        let mut ip = match (self.source.ip, self.destination.ip) {
            (IpAddr::V4(from), IpAddr::V4(to)) => start.ipv4(from, to),
            (IpAddr::V6(from), IpAddr::V6(to)) => start.ipv6(from, to),
            _ => return Err(self.what.error("source and destination must be of one IP version")),
        };
        let ttl = self.take("ttl").map(Word::u8).transpose()?;
        if let Some(tos) = self.take("tos") {
            ip = ip.tos(tos.u8()?);
        }
        if let Some(id) = self.take_u32("ipid")? {
            ip = ip.id(id);
        }
        if let Some(word) = self.take("csum") {
            ip = ip.checksum(checksum(word)?);
        }
        if let Some(word) = self.take("frag") {
            let (offset, more) = fragment(word)?;
            ip = ip.fragment(offset, more);
            if offset > 0 {
                return self.later_fragment(with_ttl(ip, ttl));
            }
        }
        if let Some(flags) = tcp_flags(self.what.text) {
            return self.tcp(with_ttl(ip, ttl), flags);
        }
        if self.what.text == "ip" {
            return self.raw(with_ttl(ip, ttl));
        }
        let mut built = self.transport(ip)?;
        if let Some(ttl) = ttl {
            built = built.ttl(ttl);
        }
        self.done()?;
        Ok(built.build())
    }

    fn later_fragment(mut self, ip: IpBuilder) -> Result<Vec<u8>, TextError> {
        let v4 = self.source.ip.is_ipv4();
        let protocol = match self.what.text {
            "ip" => return self.raw(ip),
            "udp" => protocol::UDP,
            "sctp" => protocol::SCTP,
            "icmp-echo" | "icmp-reply" if v4 => protocol::ICMP,
            "icmp-echo" | "icmp-reply" => protocol::ICMPV6,
            what if tcp_flags(what).is_some() => protocol::TCP,
            _ => return Err(self.what.error("later fragments: TCP, udp, sctp, icmp-echo or ip")),
        };
        let body = self.take_payload()?;
        self.done()?;
        Ok(ip.raw(protocol, &body))
    }

    fn raw(mut self, ip: IpBuilder) -> Result<Vec<u8>, TextError> {
        let protocol = self.take("proto").ok_or_else(|| self.what.error("'ip' needs proto=N"))?;
        let body = self.take_payload()?;
        self.done()?;
        Ok(ip.raw(protocol.u8()?, &body))
    }

    fn tcp(mut self, ip: IpBuilder, flags: TcpFlags) -> Result<Vec<u8>, TextError> {
        let (from, to) = (self.source.needs_port()?, self.destination.needs_port()?);
        let mut tcp = ip.tcp(from, to).flags(flags).payload(self.take_payload()?);
        tcp = tcp.seq(self.take_u32("seq")?.unwrap_or(0)).ack(self.take_u32("ack")?.unwrap_or(0));
        if let Some(window) = self.take_u16("win")? {
            tcp = tcp.window(window);
        }
        if let Some(mss) = self.take_u16("mss")? {
            tcp = tcp.mss(mss);
        }
        if let Some(shift) = self.take("wscale") {
            tcp = tcp.wscale(shift.u8()?);
        }
        if self.take("sack").is_some() {
            tcp = tcp.sack_permitted();
        }
        self.done()?;
        Ok(tcp.build())
    }

    fn transport(&mut self, ip: IpBuilder) -> Result<TransportBuilder, TextError> {
        if let Some(error) = self.icmp_error(&ip)? {
            return Ok(error);
        }
        match self.what.text {
            "udp" => {
                let (from, to) = (self.source.needs_port()?, self.destination.needs_port()?);
                Ok(ip.udp(from, to).payload(self.take_payload()?))
            }
            "sctp" => {
                let (from, to) = (self.source.needs_port()?, self.destination.needs_port()?);
                let tag = self.take_u32("tag")?.unwrap_or(0);
                let chunks = self.take("chunks").map(|word| {
                    let unknown = || word.error("no such chunks; 'init/7' or 'data,sack', say");
                    super::chunks(word.text).ok_or_else(unknown)
                });
                let payload = chunks.transpose()?.map_or_else(|| self.take_payload(), Ok)?;
                Ok(ip.sctp(from, to, tag).payload(payload))
            }
            "icmp-echo" | "icmp-reply" => {
                let id = self.take_u16("id")?.unwrap_or(0);
                let seq = self.take_u16("seq")?.unwrap_or(0);
                let is_request = self.what.text == "icmp-echo";
                let echo =
                    if is_request { ip.echo_request(id, seq) } else { ip.echo_reply(id, seq) };
                Ok(echo.payload(self.take_payload()?))
            }
            "nd-solicit" | "nd-advert" => {
                let is_solicit = self.what.text == "nd-solicit";
                let about = if is_solicit { self.destination } else { self.source };
                let about = self.take("target").map(Endpoint::read).transpose()?.unwrap_or(about);
                let IpAddr::V6(target) = about.ip else {
                    return Err(about.word.error("neighbour discovery is for IPv6"));
                };
                if self.source.ip.is_ipv4() {
                    return Err(self.what.error("neighbour discovery is for IPv6; IPv4 has ARP"));
                }
                Ok(if is_solicit {
                    ip.neighbour_solicit(target)
                } else {
                    ip.neighbour_advert(target)
                })
            }
            other => Err(self.what.error(format!(
                "'{other}' is no kind of packet: TCP flags like 'S', udp, sctp, ip, icmp-echo, \
                 icmp-reply, icmp-unreach(CODE), icmp-exceeded(CODE), icmp-error(TYPE,CODE), \
                 nd-solicit, nd-advert, arp-request or arp-reply"
            ))),
        }
    }

    /// Returns an ICMP error, if WHAT is one.
    fn icmp_error(&mut self, ip: &IpBuilder) -> Result<Option<TransportBuilder>, TextError> {
        let Some((name, arguments)) = self.what.split('(') else { return Ok(None) };
        let arguments = Word { text: arguments.text.strip_suffix(')').unwrap_or(""), ..arguments };
        let v4 = self.source.ip.is_ipv4();
        let (icmp_type, code) = match name.text {
            "icmp-unreach" if v4 => (icmp::UNREACHABLE, arguments.u8()?),
            "icmp-unreach" => (icmpv6::UNREACHABLE, arguments.u8()?),
            "icmp-exceeded" if v4 => (icmp::TIME_EXCEEDED, arguments.u8()?),
            "icmp-exceeded" => (icmpv6::TIME_EXCEEDED, arguments.u8()?),
            "icmp-error" => {
                let (kind, code) = arguments
                    .split(',')
                    .ok_or_else(|| arguments.error("icmp-error takes (TYPE,CODE)"))?;
                (kind.u8()?, code.u8()?)
            }
            _ => return Ok(None),
        };
        let quoted = self.quoted.take().ok_or_else(|| {
            self.what.error("an ICMP error needs the packet it is about, in parentheses")
        })?;
        let inside = quoted.text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let inside = inside.ok_or_else(|| quoted.error("')' must end the quoted packet"))?;
        let inner = Packet::read(inside, quoted.at + 1, self.depth + 1)?.bare()?;
        let rest = self.take_u32("mtu")?.unwrap_or(0);
        Ok(Some(ip.clone().icmp_error(icmp_type, code, rest, &inner)))
    }

    /// Fails if an option is left, since packets of this kind do not have it.
    fn done(&self) -> Result<(), TextError> {
        if let Some((name, _)) = self.options.first() {
            let what = self.what.text;
            return Err(name.error(format!("'{what}' has no option '{}' (again)", name.text)));
        }
        match self.quoted {
            Some(word) => Err(word.error("only ICMP errors quote a packet")),
            None => Ok(()),
        }
    }
}

fn with_ttl(ip: IpBuilder, ttl: Option<u8>) -> IpBuilder {
    match ttl {
        Some(ttl) => ip.ttl(ttl),
        None => ip,
    }
}

/// Returns the flags, if `what` consists of their letters.
fn tcp_flags(what: &str) -> Option<TcpFlags> {
    if what == "-" {
        return Some(TcpFlags::NONE);
    }
    what.chars().try_fold(TcpFlags::NONE, |flags, c| {
        let c = if c == '.' { 'A' } else { c };
        let found = TcpFlags::LETTERS.iter().find(|(_, letter)| *letter == c)?;
        Some(flags | found.0)
    })
}

fn checksum(word: Word<'_>) -> Result<Checksum, TextError> {
    match word.text {
        "full" => Ok(Checksum::Full),
        "partial" => Ok(Checksum::Partial),
        "zero" => Ok(Checksum::Zero),
        "bad" => Ok(Checksum::Bad),
        _ => Err(word.error("csum is full, partial, zero or bad")),
    }
}

/// Returns the offset in bytes, and the "more fragments" flag.
fn fragment(word: Word<'_>) -> Result<(u16, bool), TextError> {
    match word.text {
        "first" => return Ok((0, true)),
        "later" => return Ok((1480, true)),
        "last" => return Ok((2960, false)),
        _ => {}
    }
    let (number, more) = match word.text.strip_suffix('+') {
        Some(text) => (Word { text, ..word }, true),
        None => (word, false),
    };
    let offset = number.u16()?;
    if offset % 8 != 0 {
        return Err(word.error("a fragment's offset is a multiple of 8"));
    }
    Ok((offset, more))
}
