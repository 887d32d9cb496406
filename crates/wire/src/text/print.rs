//! Prints the text form.

use std::fmt::Write;
use std::net::IpAddr;

use base::MacAddr;

use super::default_mac;
use crate::checksum::Verdict;
use crate::error::Malformed;
use crate::fragment::Fragment;
use crate::numbers::{ethertype, protocol};
use crate::tcp::TcpOption;
use crate::upper::{Addresses, UpperLayer};
use crate::{Arp, Ethernet, Icmp, Icmpv6, Ipv4, Ipv6, Sctp, Tcp, Udp, Vlan, arp, icmp, icmpv6};

/// Describes `frame` in the form of [`crate::text`].
///
/// For a packet that [`crate::text::parse()`] built, the text parses to the same bytes. For other packets, it
/// omits what the form cannot express (payloads, IPv4 options). Frames that are neither ARP nor IP are
/// described in words.
///
/// # Errors
/// A header is truncated or has a wrong length.
pub fn describe(frame: &[u8]) -> Result<String, Malformed> {
    let eth = Ethernet::new_checked(frame)?;
    let macs = (eth.source(), eth.destination());
    let (mut kind, mut rest, mut tags) = (eth.ethertype(), eth.payload(), String::new());
    while ethertype::is_vlan(kind) {
        let tag = Vlan::new_checked(rest)?;
        let name = if kind == ethertype::VLAN { "vlan" } else { "svlan" };
        add(&mut tags, format_args!(" {name}={}", tag.tci().vid()));
        if tag.tci().pcp() > 0 {
            add(&mut tags, format_args!("/{}", tag.tci().pcp()));
        }
        kind = tag.ethertype();
        rest = rest.get(crate::vlan::HEADER_LEN..).unwrap_or(&[]);
    }
    let (mut text, implied) = match kind {
        ethertype::ARP => arp(rest)?,
        ethertype::IPV4 | ethertype::IPV6 => {
            let upper = UpperLayer::find(rest)?;
            let (from, to) = ends(&upper.addresses);
            (ip(rest, &upper)?, (default_mac(from), default_mac(to)))
        }
        other => {
            let text = format!("type {other:#06x} with {} bytes", rest.len());
            (text, (MacAddr::ZERO, MacAddr::ZERO))
        }
    };
    if macs != implied {
        add(&mut text, format_args!(" eth={}>{}", macs.0, macs.1));
    }
    text.push_str(&tags);
    Ok(text)
}

/// Writing to a `String` cannot fail.
fn add(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}

/// Adds an option unless it has its default value.
fn add_unless(text: &mut String, name: &str, value: u32, usual: u32) {
    if value != usual {
        add(text, format_args!(" {name}={value}"));
    }
}

fn arp(bytes: &[u8]) -> Result<(String, (MacAddr, MacAddr)), Malformed> {
    let arp = Arp::new_checked(bytes)?;
    let (from, to) = (arp.sender_ip(), arp.target_ip());
    let sender = default_mac(from.into());
    Ok(match arp.operation() {
        arp::REQUEST => (format!("{from}>{to} arp-request"), (sender, MacAddr::BROADCAST)),
        arp::REPLY => (format!("{from}>{to} arp-reply"), (sender, default_mac(to.into()))),
        other => (format!("{from}>{to} arp operation {other}"), (sender, MacAddr::BROADCAST)),
    })
}

fn ends(addresses: &Addresses) -> (IpAddr, IpAddr) {
    match *addresses {
        Addresses::V4 { source, destination } => (source.into(), destination.into()),
        Addresses::V6 { source, destination } => (source.into(), destination.into()),
    }
}

fn ip(packet: &[u8], upper: &UpperLayer) -> Result<String, Malformed> {
    let (from, to) = ends(&upper.addresses);
    let ports = upper.ports(packet).filter(|_| is_spelled(upper));
    let mut text = endpoint(from, ports.map(|ports| ports.0));
    text.push('>');
    text.push_str(&endpoint(to, ports.map(|ports| ports.1)));
    let usual_ttl = transport(&mut text, packet, upper)?;
    match upper.addresses {
        Addresses::V4 { .. } => {
            let ip = Ipv4::new_quoted(packet)?;
            add_unless(&mut text, "ttl", ip.ttl().into(), usual_ttl);
            add_unless(&mut text, "tos", ip.tos().into(), 0);
            add_unless(&mut text, "ipid", ip.id().into(), 0);
            fragment(&mut text, ip.fragment_offset(), ip.more_fragments());
        }
        Addresses::V6 { .. } => {
            let ip = Ipv6::new_quoted(packet)?;
            add_unless(&mut text, "ttl", ip.hop_limit().into(), usual_ttl);
            add_unless(&mut text, "tos", ip.traffic_class().into(), 0);
            if let Some(header) = ip.extensions()?.fragment_header {
                add_unless(&mut text, "ipid", header.id, 0);
                fragment(&mut text, header.offset, header.more);
            }
        }
    }
    checksum(&mut text, packet, upper);
    Ok(text)
}

/// Returns whether the form can express the packet's transport header.
fn is_spelled(upper: &UpperLayer) -> bool {
    let spelled = matches!(upper.protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
    spelled && upper.fragment.has_transport_header()
}

fn endpoint(ip: IpAddr, port: Option<u16>) -> String {
    let ip = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
    port.map_or(ip.clone(), |port| format!("{ip}:{port}"))
}

fn fragment(text: &mut String, offset: usize, more: bool) {
    match (offset, more) {
        (0, false) => {}
        (0, true) => text.push_str(" frag=first"),
        (1480, true) => text.push_str(" frag=later"),
        (2960, false) => text.push_str(" frag=last"),
        _ => add(text, format_args!(" frag={offset}{}", if more { "+" } else { "" })),
    }
}

fn checksum(text: &mut String, packet: &[u8], upper: &UpperLayer) {
    if upper.protocol == protocol::SCTP && upper.verify(packet) == Verdict::Bad {
        let crc = Sctp::new_checked(upper.segment(packet)).map_or(0, |sctp| sctp.checksum());
        text.push_str(if crc == 0 { " csum=zero" } else { " csum=bad" });
    }
    let Some(at) = upper.checksum_at() else { return };
    let found = crate::octets::u16_at(packet, at);
    let pseudo = match upper.protocol {
        protocol::ICMP => 0,
        other => upper.addresses.pseudo_sum(other, upper.segment(packet).len()),
    };
    match upper.verify(packet) {
        Verdict::Good => {}
        Verdict::Absent if upper.fragment != Fragment::None => {}
        _ if found == 0 => text.push_str(" csum=zero"),
        _ if found == pseudo => text.push_str(" csum=partial"),
        _ => text.push_str(" csum=bad"),
    }
}

/// Adds WHAT and its options. Returns the default time to live of such a packet.
fn transport(text: &mut String, packet: &[u8], upper: &UpperLayer) -> Result<u32, Malformed> {
    let segment = upper.segment(packet);
    let v4 = matches!(upper.addresses, Addresses::V4 { .. });
    match upper.protocol {
        _ if !upper.fragment.has_transport_header() => raw(text, packet, upper)?,
        protocol::TCP => tcp(text, &Tcp::new_checked(segment)?),
        protocol::UDP => {
            text.push_str(" udp");
            // The length field of the first fragment is that of the whole datagram.
            let len = match upper.fragment {
                Fragment::None => Udp::new_checked(segment)?.payload().len(),
                _ => segment.len().saturating_sub(crate::udp::HEADER_LEN),
            };
            payload(text, segment.get(crate::udp::HEADER_LEN..).unwrap_or_default(), len);
        }
        protocol::SCTP => {
            let view = Sctp::new_checked(segment)?;
            text.push_str(" sctp");
            add_unless(text, "tag", view.verification_tag(), 0);
            match super::named_chunks(&view) {
                Some(chunks) if !chunks.is_empty() => add(text, format_args!(" chunks={chunks}")),
                _ => add_unless(text, "len", view.payload().len() as u32, 0),
            }
        }
        protocol::ICMP if v4 => {
            let view = Icmp::new_checked(segment)?;
            let name = match (view.icmp_type(), view.code()) {
                (icmp::ECHO_REQUEST, 0) => Some("icmp-echo"),
                (icmp::ECHO_REPLY, 0) => Some("icmp-reply"),
                _ => None,
            };
            icmp(text, name, &view, view.is_error());
        }
        protocol::ICMPV6 if !v4 => {
            let view = Icmpv6::new_checked(segment)?;
            let name = match (view.icmp_type(), view.code()) {
                (icmpv6::ECHO_REQUEST, 0) => Some("icmp-echo"),
                (icmpv6::ECHO_REPLY, 0) => Some("icmp-reply"),
                (icmpv6::NEIGHBOUR_SOLICIT, 0) => Some("nd-solicit"),
                (icmpv6::NEIGHBOUR_ADVERT, 0) => Some("nd-advert"),
                _ => None,
            };
            if let (Some(name), Some(target)) = (name, view.nd_target()) {
                add(text, format_args!(" {name} target=[{target}]"));
                return Ok(255);
            }
            // ICMP and ICMPv6 have the same layout.
            icmp(text, name, &Icmp::new_checked(segment)?, view.is_error());
        }
        _ => raw(text, packet, upper)?,
    }
    Ok(64)
}

fn raw(text: &mut String, packet: &[u8], upper: &UpperLayer) -> Result<(), Malformed> {
    let fragment_header = match upper.addresses {
        Addresses::V4 { .. } => None,
        Addresses::V6 { .. } => Ipv6::new_quoted(packet)?.extensions()?.fragment_header,
    };
    let later = fragment_header.filter(|_| upper.fragment == Fragment::Later);
    let protocol = later.map_or(upper.protocol, |header| header.next_header);
    add(text, format_args!(" ip proto={protocol}"));
    add_unless(text, "len", upper.segment(packet).len() as u32, 0);
    Ok(())
}

fn tcp(text: &mut String, tcp: &Tcp<&[u8]>) {
    add(text, format_args!(" {}", tcp.flags()));
    add_unless(text, "seq", tcp.seq(), 0);
    add_unless(text, "ack", tcp.ack(), 0);
    add_unless(text, "win", tcp.window().into(), 65_535);
    for option in tcp.options() {
        match option {
            TcpOption::MaxSegmentSize(mss) => add(text, format_args!(" mss={mss}")),
            TcpOption::WindowScale(shift) => add(text, format_args!(" wscale={shift}")),
            TcpOption::SackPermitted => text.push_str(" sack"),
            _ => {}
        }
    }
    payload(text, tcp.payload(), tcp.payload().len());
}

/// Adds `data=` for a payload that is text, or `len=` for any other payload.
fn payload(text: &mut String, payload: &[u8], len: usize) {
    match super::spelled(payload) {
        Some(data) => add(text, format_args!(" data={data}")),
        None => add_unless(text, "len", len as u32, 0),
    }
}

fn icmp(text: &mut String, name: Option<&str>, view: &Icmp<&[u8]>, is_error: bool) {
    if let Some(name) = name {
        add(text, format_args!(" {name}"));
        add_unless(text, "id", view.echo_id().into(), 0);
        add_unless(text, "seq", view.echo_seq().into(), 0);
        add_unless(text, "len", view.payload().len() as u32, 0);
        return;
    }
    add(text, format_args!(" icmp-error({},{})", view.icmp_type(), view.code()));
    add_unless(text, "mtu", view.rest(), 0);
    let quote = view.payload();
    let inner = UpperLayer::find_quoted(quote).ok().filter(|_| is_error);
    // Only one level is printed: hosts send no errors about errors (RFC 1122 section 3.2.2), and forged ones
    // could nest without limit.
    match inner {
        Some(upper) if !matches!(upper.protocol, protocol::ICMP | protocol::ICMPV6) => {
            let inside = ip(quote, &upper).unwrap_or_else(|_| cut(&upper, quote));
            add(text, format_args!(" ({inside})"));
        }
        Some(upper) => match echo(quote, &upper) {
            Some(inside) => add(text, format_args!(" ({inside})")),
            None => add(text, format_args!(" ({})", cut(&upper, quote))),
        },
        None => {}
    }
}

/// A quoted echo message.
fn echo(quote: &[u8], upper: &UpperLayer) -> Option<String> {
    let icmp_type = *upper.segment(quote).first()?;
    let is_echo = icmp::has_id(icmp_type) || icmpv6::has_id(icmp_type);
    is_echo.then(|| ip(quote, upper).ok()).flatten()
}

/// A quoted packet with a truncated transport header: addresses, ports and protocol.
fn cut(upper: &UpperLayer, quote: &[u8]) -> String {
    let (from, to) = ends(&upper.addresses);
    let ports = upper.ports(quote);
    let (from, to) = (endpoint(from, ports.map(|p| p.0)), endpoint(to, ports.map(|p| p.1)));
    let len = upper.segment(quote).len();
    format!("{from}>{to} ip proto={} len={len}", upper.protocol)
}
