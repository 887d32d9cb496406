//! The key and mask of a datapath flow as text.

use super::field::{CT_STATES, Fields, Number, TCP_FLAGS, all_flags, hex, masked_flags};
use super::{PortNames, mpls, nsh};
use flow::{ETH_TYPE_NONE, FRAG_LATER, Field, FlowKey, Mask, VLAN_PRESENT};
use std::net::IpAddr;
use wire::{ethertype, icmpv6, protocol};

/// The headers of a flow as text: `recirc_id(0),in_port(2),packet_type(ns=0,id=0),...`. With `verbose`,
/// fields without mask bits are included, with their masks; `key` then is the whole key of a packet of the
/// flow.
pub fn format_flow(key: &FlowKey, mask: &Mask, verbose: bool, names: PortNames<'_>) -> String {
    let mut out = Headers { key, mask, verbose, parts: Vec::new() };
    out.metadata(names);
    out.ethernet();
    out.parts.join(",")
}

/// A packet's whole key.
pub fn format_packet(key: &FlowKey, names: PortNames<'_>) -> String {
    let mut mask = Mask::new();
    Field::BASIC.iter().for_each(|&field| mask.add(field));
    format_flow(key, &mask, true, names)
}

struct Headers<'a> {
    key: &'a FlowKey,
    mask: &'a Mask,
    verbose: bool,
    parts: Vec<String>,
}

impl Headers<'_> {
    fn metadata(&mut self, names: PortNames<'_>) {
        // This attribute has no field, and no packet has it. It is exact if everything is.
        const ALL: [Field; 5] =
            [Field::PktMark, Field::CtMark, Field::CtLabel, Field::DpHash, Field::EthSrc];
        if ALL.into_iter().all(|field| self.mask.is_exact(field)) {
            self.parts.push("skb_priority(0)".to_owned());
        } else if self.verbose {
            self.parts.push("skb_priority(0/0)".to_owned());
        }
        self.tunnel();
        self.whole("skb_mark", Field::PktMark);
        self.ct_state();
        self.whole("ct_zone", Field::CtZone);
        self.whole("ct_mark", Field::CtMark);
        self.whole("ct_label", Field::CtLabel);
        self.ct_tuple();
        self.whole("recirc_id", Field::RecircId);
        self.whole("dp_hash", Field::DpHash);
        let in_port = self.mask.get(Field::InPort);
        if self.mask.is_exact(Field::InPort) {
            self.parts.push(format!("in_port({})", names.device(self.key.in_port())));
        } else if in_port != 0 || self.verbose {
            self.parts.push(format!("in_port({}/{})", self.key.in_port(), hex(in_port)));
        }
        self.parts.push(match self.key.get(Field::PacketType) {
            0 => "packet_type(ns=0,id=0)".to_owned(),
            kind => format!("packet_type(ns=1,id={})", hex(kind)),
        });
    }

    /// A header that consists of one number.
    fn whole(&mut self, name: &str, field: Field) {
        let (value, mask) = (hex(self.key.get(field)), self.mask.get(field));
        if self.mask.is_exact(field) {
            self.parts.push(format!("{name}({value})"));
        } else if mask != 0 || self.verbose {
            self.parts.push(format!("{name}({value}/{})", hex(mask)));
        }
    }

    fn tunnel(&mut self) {
        if !self.key.has_tunnel() {
            return;
        }
        let mut fields = Fields::new(self.key, self.mask, self.verbose);
        fields.tunnel();
        self.header("tunnel", fields.out);
    }

    fn ct_state(&mut self) {
        // The mask of a flow covers only named bits; a packet's key is exact in all.
        let exact = self.mask.is_exact(Field::CtState);
        let mask = self.mask.get(Field::CtState) & 0xff;
        let value = self.key.get(Field::CtState);
        if self.verbose {
            let suffix = if exact { String::new() } else { format!("/{}", hex(mask)) };
            self.parts.push(format!("ct_state({}{suffix})", hex(value)));
        } else if exact {
            self.parts.push(format!("ct_state({})", all_flags(value, &CT_STATES)));
        } else if mask != 0 {
            self.parts.push(format!("ct_state({})", masked_flags(value, mask, &CT_STATES)));
        }
    }

    fn ct_tuple(&mut self) {
        let is_v4 = self.key.eth_type() == ethertype::IPV4;
        if self.key.ct_nw_proto() == 0 || !self.key.is_ip() {
            return;
        }
        let mut fields = Fields::new(self.key, self.mask, self.verbose);
        if is_v4 {
            fields.ipv4("src", Field::CtNwSrc);
            fields.ipv4("dst", Field::CtNwDst);
        } else {
            fields.ipv6("src", Field::CtIpv6Src);
            fields.ipv6("dst", Field::CtIpv6Dst);
        }
        fields.number("proto", Field::CtNwProto, Number::Decimal);
        let (src, dst) = if is_v4 { ("tp_src", "tp_dst") } else { ("src_port", "dst_port") };
        fields.number(src, Field::CtTpSrc, Number::Decimal);
        fields.number(dst, Field::CtTpDst, Number::Decimal);
        self.header(if is_v4 { "ct_tuple4" } else { "ct_tuple6" }, fields.out);
    }

    /// A header with its fields, if it has any.
    fn header(&mut self, name: &str, fields: String) {
        if !fields.is_empty() {
            self.parts.push(format!("{name}({fields})"));
        }
    }

    fn ethernet(&mut self) {
        if self.key.get(Field::PacketType) == 0 {
            let mut fields = Fields::new(self.key, self.mask, self.verbose);
            fields.mac("src", Field::EthSrc);
            fields.mac("dst", Field::EthDst);
            self.header("eth", fields.out);
        }
        let outer = (self.key.vlan_tpid(), Field::VlanTci);
        let inner = (self.key.vlan_tpid1(), Field::VlanTci1);
        let tags = [outer, inner]
            .into_iter()
            .filter(|(_, tci)| self.key.get(*tci) as u16 & VLAN_PRESENT != 0);
        let tags: Vec<(u16, Field)> = tags.collect();
        self.tags_and_rest(&tags);
    }

    /// The part behind a tag is written inside `encap(...)`.
    fn tags_and_rest(&mut self, tags: &[(u16, Field)]) {
        let Some(((tpid, tci), rest)) = tags.split_first() else {
            self.rest();
            return;
        };
        self.parts.push(format!("eth_type(0x{tpid:04x})"));
        let (value, mask) = (self.key.get(*tci) as u16, self.mask.get(*tci) as u16);
        let mut parts = Vec::new();
        // Parts without mask bits are written if non-zero (ovs: `lib/odp-util.c`, `format_vlan_tci`).
        let mut part = |name: &str, value: u16, mask: u16, all: u16, verbose: bool| {
            if mask == all {
                parts.push(format!("{name}={value}"));
            } else if mask | value != 0 || verbose {
                parts.push(format!("{name}={value}/0x{mask:x}"));
            }
        };
        part("vid", value & 0xfff, mask & 0xfff, 0xfff, self.verbose);
        part("pcp", value >> 13, mask >> 13, 7, self.verbose);
        // A second tag of which only the presence matters is not printed, since Open vSwitch does not match
        // it.
        if *tci == Field::VlanTci || mask & !VLAN_PRESENT != 0 || self.verbose {
            self.parts.push(format!("vlan({})", parts.join(",")));
        }
        let mut inside =
            Headers { key: self.key, mask: self.mask, verbose: self.verbose, parts: Vec::new() };
        inside.tags_and_rest(rest);
        self.parts.push(format!("encap({})", inside.parts.join(",")));
    }

    fn rest(&mut self) {
        let eth_type = self.key.eth_type();
        if eth_type == ETH_TYPE_NONE {
            self.parts.push("eth_type(0/0xffff)".to_owned());
        } else if self.mask.is_exact(Field::EthType) {
            self.parts.push(format!("eth_type(0x{eth_type:04x})"));
        } else if self.verbose {
            let mask = self.mask.get(Field::EthType);
            self.parts.push(format!("eth_type(0x{eth_type:04x}/0x{mask:04x})"));
        }
        let mut fields = Fields::new(self.key, self.mask, self.verbose);
        match eth_type {
            ethertype::IPV4 => {
                fields.ipv4("src", Field::Ipv4Src);
                fields.ipv4("dst", Field::Ipv4Dst);
                fields.number("proto", Field::NwProto, Number::Decimal);
                fields.number("tos", Field::NwTos, Number::Hex);
                fields.number("ttl", Field::NwTtl, Number::Decimal);
                fields.frag();
                self.header("ipv4", fields.out);
            }
            ethertype::IPV6 => {
                fields.ipv6("src", Field::Ipv6Src);
                fields.ipv6("dst", Field::Ipv6Dst);
                fields.number("label", Field::Ipv6Label, Number::Hex);
                fields.number("proto", Field::NwProto, Number::Decimal);
                fields.number("tclass", Field::NwTos, Number::Hex);
                fields.number("hlimit", Field::NwTtl, Number::Decimal);
                fields.frag();
                self.header("ipv6", fields.out);
            }
            ethertype::ARP | ethertype::RARP => {
                fields.ipv4("sip", Field::ArpSpa);
                fields.ipv4("tip", Field::ArpTpa);
                fields.number("op", Field::ArpOp, Number::Decimal);
                fields.mac("sha", Field::ArpSha);
                fields.mac("tha", Field::ArpTha);
                self.header("arp", fields.out);
            }
            ethertype::MPLS | ethertype::MPLS_MULTICAST => {
                self.header("mpls", mpls::format_stack(self.key, self.mask, self.verbose));
            }
            ethertype::NSH => self.header("nsh", nsh::format_fields(self.key, self.mask)),
            _ => {}
        }
        if self.key.is_ip() && self.key.nw_frag() & FRAG_LATER == 0 {
            self.transport();
        }
    }

    fn transport(&mut self) {
        let mut fields = Fields::new(self.key, self.mask, self.verbose);
        let proto = self.key.nw_proto();
        match (proto, self.key.eth_type()) {
            (protocol::TCP | protocol::UDP | protocol::SCTP, _) => {
                fields.number("src", Field::TpSrc, Number::Decimal);
                fields.number("dst", Field::TpDst, Number::Decimal);
                self.header(port_header(proto), fields.out);
            }
            (protocol::ICMP, ethertype::IPV4) | (protocol::ICMPV6, ethertype::IPV6) => {
                fields.number("type", Field::IcmpType, Number::Decimal);
                fields.number("code", Field::IcmpCode, Number::Decimal);
                self.header(if proto == protocol::ICMP { "icmp" } else { "icmpv6" }, fields.out);
                let types = [icmpv6::NEIGHBOUR_SOLICIT, icmpv6::NEIGHBOUR_ADVERT];
                let is_nd = types.map(u16::from).contains(&self.key.tp_src());
                if proto == protocol::ICMPV6 && is_nd && self.key.tp_dst() == 0 {
                    let mut fields = Fields::new(self.key, self.mask, self.verbose);
                    fields.ipv6("target", Field::NdTarget);
                    fields.mac("sll", Field::NdSll);
                    fields.mac("tll", Field::NdTll);
                    self.header("nd", fields.out);
                    // Open vSwitch's userspace datapath matches on these without printing them.
                    let mut fields = Fields::new(self.key, self.mask, false);
                    fields.nd_extensions();
                    self.header("nd_ext", fields.out);
                }
            }
            _ => {}
        }
        let mask = self.mask.get(Field::TcpFlags);
        if proto == protocol::TCP && (mask != 0 || self.verbose) {
            let value = self.key.get(Field::TcpFlags);
            let text = if self.mask.is_exact(Field::TcpFlags) {
                all_flags(value, &TCP_FLAGS)
            } else {
                masked_flags(value, mask, &TCP_FLAGS)
            };
            self.parts.push(format!("tcp_flags({text})"));
        }
    }
}

/// The name of the header with the ports.
pub(super) fn port_header(proto: u8) -> &'static str {
    match proto {
        protocol::UDP => "udp",
        protocol::SCTP => "sctp",
        _ => "tcp",
    }
}

/// An address and a port: IPv6 is in brackets.
pub(super) fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}
