//! Parsing of a datapath flow's key: `recirc_id(0),in_port(1),eth_type(0x0800),ipv4(proto=6)`.

use super::field::{CT_STATES, TCP_FLAGS};
use super::mpls::parse_stack;
use super::nsh;
use super::parentheses::{check_nesting, closing};
use crate::datapath_mask::datapath_mask;
use base::{MacAddr, PortNo};
use flow::{ETH_TYPE_NONE, FRAG_ANY, FRAG_LATER, Field, FlowKey, Mask, VLAN_PRESENT};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::ethertype;

/// A syntax error in a datapath flow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("syntax error at \"{at}\": {what}")]
pub struct ParseError {
    /// The text from the error on.
    pub at: String,
    /// The error.
    pub what: String,
}

pub(super) fn error<T>(at: &str, what: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError { at: at.to_owned(), what: what.into() })
}

/// Parses a flow: values and masks. `device` resolves port names.
pub fn parse_flow(
    text: &str,
    device: &dyn Fn(&str) -> Option<PortNo>,
) -> Result<(FlowKey, Mask), ParseError> {
    read_flow(text, Reader::new(device))
}

/// Parses the fields of a packet. The UDP ports of a tunnel's outer header, which no flow matches, may be among them.
pub fn parse_packet(
    text: &str,
    device: &dyn Fn(&str) -> Option<PortNo>,
) -> Result<FlowKey, ParseError> {
    let reader = Reader { takes_outer_ports: true, ..Reader::new(device) };
    Ok(read_flow(text, reader)?.0)
}

fn read_flow(text: &str, mut reader: Reader<'_>) -> Result<(FlowKey, Mask), ParseError> {
    check_nesting(text)?;
    reader.headers(text)?;
    if reader.key.eth_type() == 0 && !reader.mask.has(Field::EthType) {
        // A network header implies the Ethernet type.
        reader.key.set_eth_type(reader.network.unwrap_or(ETH_TYPE_NONE));
    }
    Ok((reader.key, reader.mask))
}

/// Parses a flow for installation in the datapath: the recirculation id is exact, and so is the presence of a
/// VLAN tag (ovs: `lib/odp-util.c`, `odp_flow_key_to_flow__`).
pub fn parse_megaflow(
    text: &str,
    device: &dyn Fn(&str) -> Option<PortNo>,
) -> Result<(FlowKey, Mask), ParseError> {
    let (key, mut mask) = parse_flow(text, device)?;
    mask.add(Field::RecircId);
    Ok((key, datapath_mask(&mask)))
}

/// Parses headers into a list of fields, each with its value and mask, in order.
pub(super) fn parse_fields(
    text: &str,
    device: &dyn Fn(&str) -> Option<PortNo>,
) -> Result<Vec<(Field, u128, u128)>, ParseError> {
    let mut reader = Reader::new(device);
    reader.headers(text)?;
    Ok(reader.fields)
}

pub(super) struct Reader<'a> {
    pub(super) key: FlowKey,
    pub(super) mask: Mask,
    /// The parsed fields.
    fields: Vec<(Field, u128, u128)>,
    /// The number of VLAN tags so far.
    tags: usize,
    /// The Ethernet type of the network header, if there is one.
    network: Option<u16>,
    /// Whether `tp_src` and `tp_dst` of `tunnel()` are skipped.
    takes_outer_ports: bool,
    device: &'a dyn Fn(&str) -> Option<PortNo>,
}

impl<'a> Reader<'a> {
    fn new(device: &'a dyn Fn(&str) -> Option<PortNo>) -> Self {
        let (key, mask, fields) = (FlowKey::new(), Mask::new(), Vec::new());
        Reader { key, mask, fields, tags: 0, network: None, takes_outer_ports: false, device }
    }

    /// Parses a sequence of `name(...)`.
    fn headers(&mut self, text: &str) -> Result<(), ParseError> {
        let mut rest = text.trim();
        // The identifier in a dump does not belong to the match.
        if let Some((_, behind)) = rest.strip_prefix("ufid:").and_then(|it| it.split_once(',')) {
            rest = behind.trim_start_matches([',', ' ']);
        }
        while !rest.is_empty() {
            let Some((name, behind)) = rest.split_once('(') else {
                return error(rest, "a header such as in_port(1) is missing its parenthesis");
            };
            let Some(end) = closing(behind) else {
                return error(rest, "the parenthesis is not closed");
            };
            self.header(name.trim(), &behind[..end])?;
            rest = behind[end + 1..].trim_start_matches([',', ' ']);
        }
        Ok(())
    }

    fn header(&mut self, name: &str, inside: &str) -> Result<(), ParseError> {
        use Field as F;
        self.network = match name {
            "ipv4" => Some(ethertype::IPV4),
            "ipv6" => Some(ethertype::IPV6),
            "arp" => Some(ethertype::ARP),
            "mpls" => Some(ethertype::MPLS),
            "nsh" => Some(ethertype::NSH),
            _ => self.network,
        };
        match name {
            "skb_priority" | "ufid" => Ok(()),
            "packet_type" => self.packet_type(inside),
            "skb_mark" => self.number(F::PktMark, inside),
            "ct_zone" => self.number(F::CtZone, inside),
            "ct_mark" => self.number(F::CtMark, inside),
            "ct_label" => self.number(F::CtLabel, inside),
            "recirc_id" => self.number(F::RecircId, inside),
            "dp_hash" => self.number(F::DpHash, inside),
            "ct_state" => self.flags(F::CtState, &CT_STATES, inside),
            "in_port" => match (self.device)(inside) {
                Some(port) => self.number(F::InPort, &port.to_string()),
                None => self.number(F::InPort, inside),
            },
            "eth_type" => self.eth_type(inside),
            "encap" => self.headers(inside),
            "tunnel" => self.tunnel(inside),
            "vlan" => self.vlan(inside),
            "mpls" => self.label_stack(inside),
            "tcp_flags" => self.flags(F::TcpFlags, &TCP_FLAGS, inside),
            _ => self.fields(name, inside),
        }
    }

    /// `ns=1,id=0x800` for packets in a tunnel without an Ethernet header.
    fn packet_type(&mut self, inside: &str) -> Result<(), ParseError> {
        let (space, id) = inside.split_once(",id=").unwrap_or((inside, "0"));
        match space.trim_start_matches("ns=") {
            "1" => {
                let kind = fitting(Field::PacketType, id, number(id)?)?;
                self.put(Field::PacketType, kind, 0xffff);
            }
            "0" => {}
            _ => return error(inside, "a packet type is ns=0,id=0 or ns=1,id=TYPE"),
        }
        Ok(())
    }

    fn label_stack(&mut self, inside: &str) -> Result<(), ParseError> {
        let fields = [Field::MplsLse0, Field::MplsLse1, Field::MplsLse2];
        for (field, (entry, mask)) in fields.into_iter().zip(parse_stack(inside)?) {
            self.put(field, entry.0.into(), mask.0.into());
        }
        Ok(())
    }

    /// `src=1.2.3.4/255.0.0.0,proto=6`
    pub(super) fn fields(&mut self, header: &str, inside: &str) -> Result<(), ParseError> {
        for part in inside.split(',').filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return error(part, format!("{header}() wants NAME=VALUE"));
            };
            if self.takes_outer_ports && header == "tunnel" && matches!(name, "tp_src" | "tp_dst") {
                fitting(Field::TpDst, value, number(value)?)?;
                continue;
            }
            let Some(field) = field_of(header, name) else {
                return error(part, format!("{header}() has no field {name}"));
            };
            match field {
                Field::NwFrag => self.frag(value)?,
                _ => self.value(field, value)?,
            }
        }
        Ok(())
    }

    fn frag(&mut self, value: &str) -> Result<(), ParseError> {
        let value = match value {
            "no" => 0,
            "first" => FRAG_ANY,
            "later" => FRAG_ANY | FRAG_LATER,
            _ => return error(value, "frag is no, first or later"),
        };
        self.put(Field::NwFrag, value.into(), (FRAG_ANY | FRAG_LATER).into());
        Ok(())
    }

    fn number(&mut self, field: Field, text: &str) -> Result<(), ParseError> {
        let (value, mask) = text.split_once('/').map_or((text, None), |(v, m)| (v, Some(m)));
        let mask = mask.map_or(Ok(field.all_ones()), number)?;
        self.put(field, fitting(field, value, number(value)?)?, mask);
        Ok(())
    }

    fn value(&mut self, field: Field, text: &str) -> Result<(), ParseError> {
        let (value, mask) = text.split_once('/').map_or((text, None), |(v, m)| (v, Some(m)));
        let mask = mask.map_or(Ok(field.all_ones()), address_or_number)?;
        self.put(field, fitting(field, value, address_or_number(value)?)?, mask);
        Ok(())
    }

    fn put(&mut self, field: Field, value: u128, mask: u128) {
        self.key.set(field, value);
        self.mask.add_bits(field, mask & field.all_ones());
        self.fields.push((field, value, mask & field.all_ones()));
    }

    /// `+new-est`, `new|trk` or a number with a mask.
    pub(super) fn flags(
        &mut self,
        field: Field,
        names: &[(u128, &str)],
        text: &str,
    ) -> Result<(), ParseError> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number(field, text);
        }
        if text.is_empty() {
            self.put(field, 0, field.all_ones());
            return Ok(());
        }
        let bit = |name: &str| match names.iter().find(|(_, other)| *other == name) {
            Some((bit, _)) => Ok(*bit),
            None => error(name, format!("is no flag of {}", field.name())),
        };
        let (mut value, mut mask) = (0, 0);
        if text.starts_with(['+', '-']) {
            let mut rest = text;
            while let Some(sign) = rest.chars().next() {
                let name = &rest[1..];
                let end = name.find(['+', '-']).unwrap_or(name.len());
                let bit = bit(&name[..end])?;
                mask |= bit;
                value |= if sign == '+' { bit } else { 0 };
                rest = &name[end..];
            }
        } else {
            for name in text.split('|') {
                value |= bit(name)?;
            }
            mask = field.all_ones();
        }
        self.put(field, value, mask);
        Ok(())
    }

    /// An Ethernet type; that of a VLAN tag is followed by the tag.
    fn eth_type(&mut self, text: &str) -> Result<(), ParseError> {
        let (value, mask) = text.split_once('/').map_or((text, None), |(v, m)| (v, Some(m)));
        let value = fitting(Field::EthType, value, number(value)?)?;
        let mask = mask.map_or(Ok(0xffff), number)?;
        match value {
            it if ethertype::is_vlan(it as u16) && self.tags < 2 => {
                let field = if self.tags == 0 { Field::VlanTpid } else { Field::VlanTpid1 };
                self.put(field, value, mask);
            }
            0 => self.put(Field::EthType, ETH_TYPE_NONE.into(), mask),
            _ => self.put(Field::EthType, value, mask),
        }
        Ok(())
    }

    fn vlan(&mut self, inside: &str) -> Result<(), ParseError> {
        let tci = if self.tags == 0 { Field::VlanTci } else { Field::VlanTci1 };
        self.tags += 1;
        let (mut value, mut mask) = (u128::from(VLAN_PRESENT), u128::from(VLAN_PRESENT));
        for part in inside.split(',').filter(|part| !part.is_empty()) {
            let (name, text) = part.split_once('=').unwrap_or((part, ""));
            let (shift, ones) = match name {
                "vid" => (0, 0xfff),
                "pcp" => (13, 7),
                _ => return error(part, "vlan() has vid and pcp"),
            };
            let (text, bits) = text.split_once('/').map_or((text, None), |(v, m)| (v, Some(m)));
            let bits = bits.map_or(Ok(ones), number)?;
            value |= (number(text)? & ones) << shift;
            mask |= (bits & ones) << shift;
        }
        self.put(tci, value, mask);
        Ok(())
    }
}

fn field_of(header: &str, name: &str) -> Option<Field> {
    use Field as F;
    if header == "nsh" {
        return nsh::FIELDS.iter().find(|(known, ..)| *known == name).map(|(_, field, _)| *field);
    }
    Some(match (header, name) {
        ("eth", "src") => F::EthSrc,
        ("eth", "dst") => F::EthDst,
        ("ipv4", "src") => F::Ipv4Src,
        ("ipv4", "dst") => F::Ipv4Dst,
        ("ipv4" | "ipv6", "proto") => F::NwProto,
        ("ipv4", "tos") | ("ipv6", "tclass") => F::NwTos,
        ("ipv4", "ttl") | ("ipv6", "hlimit") => F::NwTtl,
        ("ipv4" | "ipv6", "frag") => F::NwFrag,
        ("ipv6", "src") => F::Ipv6Src,
        ("ipv6", "dst") => F::Ipv6Dst,
        ("ipv6", "label") => F::Ipv6Label,
        ("tcp" | "udp" | "sctp", "src") => F::TpSrc,
        ("tcp" | "udp" | "sctp", "dst") => F::TpDst,
        ("icmp" | "icmpv6", "type") => F::TpSrc,
        ("icmp" | "icmpv6", "code") => F::TpDst,
        ("arp", "sip") => F::ArpSpa,
        ("arp", "tip") => F::ArpTpa,
        ("arp", "op") => F::ArpOp,
        ("arp", "sha") => F::ArpSha,
        ("arp", "tha") => F::ArpTha,
        ("nd", "target") => F::NdTarget,
        ("nd", "sll") => F::NdSll,
        ("nd_ext", "nd_reserved") => F::NdReserved,
        ("nd_ext", "nd_options_type") => F::NdOptionsType,
        ("nd", "tll") => F::NdTll,
        ("tunnel", "tun_id") => F::TunId,
        ("tunnel", "src" | "ipv6_src") => F::TunIpv6Src,
        ("tunnel", "dst" | "ipv6_dst") => F::TunIpv6Dst,
        ("tunnel", "tos") => F::TunTos,
        ("tunnel", "ttl") => F::TunTtl,
        ("gbp", "id") => F::TunGbpId,
        ("gbp", "flags") => F::TunGbpFlags,
        ("erspan", "ver") => F::TunErspanVer,
        ("erspan", "idx") => F::TunErspanIdx,
        ("erspan", "dir") => F::TunErspanDir,
        ("erspan", "hwid") => F::TunErspanHwid,
        ("gtpu", "flags") => F::TunGtpuFlags,
        ("gtpu", "msgtype") => F::TunGtpuMsgtype,
        ("ct_tuple4", "src") => F::CtNwSrc,
        ("ct_tuple4", "dst") => F::CtNwDst,
        ("ct_tuple6", "src") => F::CtIpv6Src,
        ("ct_tuple6", "dst") => F::CtIpv6Dst,
        ("ct_tuple4" | "ct_tuple6", "proto") => F::CtNwProto,
        ("ct_tuple4", "tp_src") | ("ct_tuple6", "src_port") => F::CtTpSrc,
        ("ct_tuple4", "tp_dst") | ("ct_tuple6", "dst_port") => F::CtTpDst,
        _ => return None,
    })
}

/// The value, if it fits the field.
fn fitting(field: Field, text: &str, value: u128) -> Result<u128, ParseError> {
    if value <= field.all_ones() { Ok(value) } else { error(text, "is too large for its field") }
}

pub(super) fn number(text: &str) -> Result<u128, ParseError> {
    let text = text.trim();
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.or_else(|_| error(text, "is no number"))
}

fn address_or_number(text: &str) -> Result<u128, ParseError> {
    if let Ok(mac) = text.parse::<MacAddr>() {
        return Ok(mac.to_u64().into());
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(u32::from(address).into());
    }
    if text.contains(':') {
        let address = text.parse::<Ipv6Addr>();
        return address.map(u128::from).or_else(|_| error(text, "is no address"));
    }
    number(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{PortNames, format_flow};

    #[test]
    fn what_was_printed_is_read() {
        let texts = [
            "ct_state(+new-est+trk),recirc_id(0x5),in_port(3),packet_type(ns=0,id=0),\
             eth_type(0x0800),ipv4(frag=no)",
            "ct_state(-trk),recirc_id(0),in_port(2),packet_type(ns=0,id=0),eth_type(0x0800),\
             ipv4(proto=6,frag=no),tcp(dst=32768/0x8000)",
            "ct_state(est|trk),ct_zone(0x5),ct_mark(0x1/0xf),ct_label(0x1),\
             ct_tuple4(src=10.0.0.0/255.0.0.0,proto=6,tp_dst=80),recirc_id(0x5),in_port(3),\
             packet_type(ns=0,id=0),eth_type(0x0800),ipv4(proto=6,frag=first),tcp_flags(+syn-ack)",
            "recirc_id(0),in_port(2),packet_type(ns=0,id=0),\
             eth(src=02:00:00:00:00:01,dst=ff:ff:ff:ff:ff:ff),eth_type(0x0806),\
             arp(sip=10.0.10.1,tip=10.0.10.2,op=1)",
            "recirc_id(0),in_port(3),packet_type(ns=0,id=0),eth_type(0x8100),\
             vlan(vid=10/0x0f,pcp=3),encap(eth_type(0x86dd),ipv6(dst=fd00::/ffff::,proto=58,\
             frag=no),icmpv6(type=135,code=0),nd(target=fd00::1,sll=02:00:00:00:00:01),\
             nd_ext(nd_reserved=0x20000000,nd_options_type=1))",
            "recirc_id(0),in_port(p9),packet_type(ns=0,id=0),eth_type(0/0xffff)",
            "tunnel(tun_id=0x7b,src=1.1.2.92,dst=1.1.2.88,tos=0x1,flags(-df-csum+key)),recirc_id(0),\
             in_port(5),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no)",
            "tunnel(tun_id=0x7b,ipv6_src=fd00::1,ipv6_dst=fd00::2,ttl=64,vxlan(gbp(id=512,flags=0x8)),\
             erspan(ver=2,idx=0,dir=1,hwid=0x7),flags(-df+csum+key)),recirc_id(0),in_port(5),\
             packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no)",
            "tunnel(src=1.1.2.92,dst=1.1.2.88,flags(-df-csum)),recirc_id(0),in_port(5),\
             packet_type(ns=1,id=0x800),eth_type(0x0800),ipv4(dst=10.0.0.1,frag=no)",
        ];
        let names = |port: PortNo| (port.0 == 9).then(|| "p9".to_owned());
        let names = PortNames { device: Some(&names), ..PortNames::default() };
        for text in texts {
            let device = |name: &str| (name == "p9").then_some(PortNo(9));
            let (key, mask) = parse_flow(text, &device).unwrap();
            let again = format_flow(&key, &mask, false, names);
            assert_eq!(again, text.replace("vid=10/0x0f", "vid=10/0xf"));
        }
    }

    #[test]
    fn a_network_header_tells_the_ethernet_type() {
        let cases = [
            ("ipv4(proto=1)", 0x0800),
            ("ipv6(proto=58)", 0x86dd),
            ("arp(op=1)", 0x0806),
            ("eth_type(0x1234),ipv4(proto=1)", 0x1234),
            ("in_port(1)", ETH_TYPE_NONE),
        ];
        for (text, eth_type) in cases {
            let (key, _) = parse_flow(text, &|_| None).unwrap();
            assert_eq!(key.eth_type(), eth_type, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("in_port", "a header such as in_port(1) is missing its parenthesis"),
            ("eth(src=1", "the parenthesis is not closed"),
            ("ufid:1, ipv4(foo=1)", "ipv4() has no field foo"),
            ("ipv4(foo=1)", "ipv4() has no field foo"),
            ("foo(bar=1)", "foo() has no field bar"),
            ("ct_state(+foo)", "is no flag of ct_state"),
            ("ct_state(-new?)", "is no flag of ct_state"),
            ("in_port(x)", "is no number"),
            ("ipv6(src=::g)", "is no address"),
            ("ipv4(frag=maybe)", "frag is no, first or later"),
            ("vlan(foo)", "vlan() has vid and pcp"),
            // Found by fuzzing: the upper bits were truncated.
            ("eth_type(0x10800)", "is too large for its field"),
            ("recirc_id(4294967296)", "is too large for its field"),
            ("tcp(dst=65536/0xffff)", "is too large for its field"),
            ("ipv4(src=02:00:00:00:00:01)", "is too large for its field"),
        ];
        for (text, expect) in cases {
            assert_eq!(parse_flow(text, &|_| None).unwrap_err().what, expect, "{text}");
        }
        let nested = "encap(".repeat(1_000_000) + &")".repeat(1_000_000);
        let error = parse_flow(&nested, &|_| None).unwrap_err();
        assert_eq!(error.what, "parentheses nest too deeply");
    }
}
