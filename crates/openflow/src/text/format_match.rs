//! Matches as text (ovs: `lib/match.c`, `match_format`).

use super::value::{TCP_FLAGS, TUNNEL_FLAGS, ct_state_names};
use crate::message::FlowMod;
use crate::oxm::{Proto, is_tunnel_ipv4};
use base::{MacAddr, OfPort};
use flow::{Field, Match, OptionMatch, Wide};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{ethertype, protocol};

/// Formats a match as `ovs-ofctl dump-flows` prints it. A priority comes first, unless it is the default of
/// 32768; `None` omits it.
pub fn format_match(matching: &Match, priority: Option<u16>) -> String {
    let mut out = Writer { parts: Vec::new(), matching, proto: Proto::of(matching) };
    if let Some(priority) = priority.filter(|&priority| priority != FlowMod::DEFAULT_PRIORITY) {
        out.parts.push(format!("priority={priority}"));
    }
    out.metadata();
    out.connection();
    out.packet_type();
    let (named_type, named_proto) = out.protocol();
    out.registers();
    out.link(named_type);
    out.network(named_proto);
    out.transport();
    out.parts.join(",")
}

struct Writer<'a> {
    parts: Vec<String>,
    matching: &'a Match,
    proto: Proto,
}

/// Formats `0x1` or `0x1/0x3`; zero without `0x`, as C does.
fn hex(value: u128, mask: u128, ones: u128) -> String {
    let value = if value == 0 { "0".to_owned() } else { format!("{value:#x}") };
    if mask == ones { value } else { format!("{value}/{mask:#x}") }
}

/// Formats an IPv4 address, with its prefix length or mask unless it is exact.
pub(super) fn ipv4(value: u128, mask: u128) -> String {
    let (address, mask) = (Ipv4Addr::from(value as u32), mask as u32);
    match mask.leading_ones() {
        32 => address.to_string(),
        len if mask.count_ones() == len => format!("{address}/{len}"),
        _ => format!("{address}/{}", Ipv4Addr::from(mask)),
    }
}

/// Formats an IPv6 address in the same way.
pub(super) fn ipv6(value: u128, mask: u128) -> String {
    let address = Ipv6Addr::from(value);
    match mask.leading_ones() {
        128 => address.to_string(),
        len if mask.count_ones() == len => format!("{address}/{len}"),
        _ => format!("{address}/{}", Ipv6Addr::from(mask)),
    }
}

/// Formats an Ethernet address, with its mask unless it is exact.
pub(super) fn mac(value: u128, mask: u128) -> String {
    let address = MacAddr::from_u64(value as u64);
    if mask == 0xffff_ffff_ffff {
        return address.to_string();
    }
    format!("{address}/{}", MacAddr::from_u64(mask as u64))
}

/// Formats `+a-b`, or `a|b` if the match is exact.
pub(super) fn flags(value: u128, mask: u128, ones: u128, names: &[&str]) -> String {
    let each = names.iter().enumerate().map(|(i, name)| (1u128 << i, *name));
    if mask == ones {
        let set: Vec<&str> =
            each.filter(|(bit, _)| value & bit != 0).map(|(_, name)| name).collect();
        return if set.is_empty() { "0".to_owned() } else { set.join("|") };
    }
    each.filter(|(bit, _)| mask & bit != 0)
        .map(|(bit, name)| format!("{}{name}", if value & bit != 0 { '+' } else { '-' }))
        .collect()
}

/// Formats a match on a tunnel option: its value, `=NP` if it is not present, or only the field's name (ovs:
/// `lib/tun-metadata.c`, `tun_metadata_match_format`).
fn option(option: &OptionMatch) -> String {
    let OptionMatch { index, is_absent, value, mask, .. } = option;
    let wide = |value: &Wide| if value.is_zero() { "0".to_owned() } else { format!("{value:#x}") };
    match *mask {
        _ if *is_absent => format!("tun_metadata{index}=NP"),
        Wide::ZERO => format!("tun_metadata{index}"),
        Wide::ONES => format!("tun_metadata{index}={}", wide(value)),
        _ => format!("tun_metadata{index}={}/{}", wide(value), wide(mask)),
    }
}

impl Writer<'_> {
    fn value(&self, field: Field) -> u128 {
        self.matching.key().get(field)
    }

    fn mask(&self, field: Field) -> u128 {
        self.matching.mask().get(field)
    }

    /// Writes a field, if the match contains it.
    fn put(&mut self, field: Field, name: &str, text: impl FnOnce(u128, u128) -> String) {
        let mask = self.mask(field);
        if mask != 0 {
            let text = text(self.value(field), mask);
            self.parts.push(format!("{name}={text}"));
        }
    }

    fn hex(&mut self, field: Field) {
        self.put(field, field.name(), |value, mask| hex(value, mask, field.all_ones()));
    }

    fn metadata(&mut self) {
        for field in [Field::PktMark, Field::RecircId, Field::DpHash] {
            self.hex(field);
        }
        self.put(Field::ConjId, "conj_id", |value, _| value.to_string());
        self.put(Field::ActsetOutput, "actset_output", |value, _| OfPort(value as u16).to_string());
    }

    fn connection(&mut self) {
        self.put(Field::CtState, "ct_state", |value, mask| {
            flags(value, mask & 0xff, 0xff, &ct_state_names())
        });
        self.put(Field::CtZone, "ct_zone", |value, mask| match mask {
            0xffff => value.to_string(),
            _ => hex(value, mask, 0xffff),
        });
        self.hex(Field::CtMark);
        self.hex(Field::CtLabel);
        if self.proto.eth_type == ethertype::IPV6 {
            self.put(Field::CtIpv6Src, "ct_ipv6_src", ipv6);
            self.put(Field::CtIpv6Dst, "ct_ipv6_dst", ipv6);
        } else {
            self.put(Field::CtNwSrc, "ct_nw_src", ipv4);
            self.put(Field::CtNwDst, "ct_nw_dst", ipv4);
        }
        if self.mask(Field::CtNwProto) != 0 {
            self.put(Field::CtNwProto, "ct_nw_proto", |value, _| value.to_string());
            self.port(Field::CtTpSrc, "ct_tp_src");
            self.port(Field::CtTpDst, "ct_tp_dst");
        }
    }

    /// Writes the packet type, except for Ethernet frames, which are the default.
    fn packet_type(&mut self) {
        let ethertype = self.value(Field::PacketType);
        if ethertype != 0 {
            self.parts.push(format!("packet_type=(1,{ethertype:#x})"));
        }
    }

    /// Writes a port: decimal if it is exact, otherwise hexadecimal with its mask.
    fn port(&mut self, field: Field, name: &str) {
        self.put(field, name, |value, mask| match mask {
            0xffff => value.to_string(),
            _ => format!("{value:#x}/{mask:#x}"),
        });
    }

    /// Writes the protocol's short name. Returns whether it implies the Ethernet type and the IP protocol.
    fn protocol(&mut self) -> (bool, bool) {
        if self.mask(Field::EthType) == 0 {
            return (false, false);
        }
        let exact = self.mask(Field::NwProto) != 0;
        let (v6, proto) = (self.proto.eth_type == ethertype::IPV6, self.proto.nw_proto);
        let known = match (proto, v6) {
            _ if !exact || !self.proto.is_ip() => None,
            (protocol::ICMP, false) => Some("icmp"),
            (protocol::ICMPV6, true) => Some("icmp6"),
            (protocol::TCP, false) => Some("tcp"),
            (protocol::TCP, true) => Some("tcp6"),
            (protocol::UDP, false) => Some("udp"),
            (protocol::UDP, true) => Some("udp6"),
            (protocol::SCTP, false) => Some("sctp"),
            (protocol::SCTP, true) => Some("sctp6"),
            _ => None,
        };
        let name = known.or(match self.proto.eth_type {
            ethertype::IPV4 => Some("ip"),
            ethertype::IPV6 => Some("ipv6"),
            ethertype::ARP => Some("arp"),
            ethertype::RARP => Some("rarp"),
            ethertype::MPLS => Some("mpls"),
            ethertype::MPLS_MULTICAST => Some("mplsm"),
            _ => None,
        });
        self.parts.extend(name.map(str::to_owned));
        (name.is_some(), known.is_some())
    }

    fn registers(&mut self) {
        for n in 0..16 {
            if let Some(field) = Field::reg(n) {
                self.hex(field);
            }
        }
        self.tunnel();
        self.hex(Field::Metadata);
    }

    fn tunnel(&mut self) {
        self.hex(Field::TunId);
        for (wide, narrow, v4, v6) in [
            (Field::TunIpv6Src, Field::TunSrc, "tun_src", "tun_ipv6_src"),
            (Field::TunIpv6Dst, Field::TunDst, "tun_dst", "tun_ipv6_dst"),
        ] {
            match is_tunnel_ipv4(self.value(wide), self.mask(wide)) {
                true => self.put(narrow, v4, ipv4),
                false => self.put(wide, v6, ipv6),
            }
        }
        for (field, name, is_decimal) in [
            (Field::TunGbpId, "tun_gbp_id", true),
            (Field::TunGbpFlags, "tun_gbp_flags", false),
            // In hexadecimal, without `0x` where that makes no difference (ovs: `lib/match.c`,
            // `format_flow_tunnel`).
            (Field::TunTos, "tun_tos", self.value(Field::TunTos) < 10),
            (Field::TunTtl, "tun_ttl", true),
            (Field::TunErspanVer, "tun_erspan_ver", true),
            (Field::TunErspanIdx, "tun_erspan_idx", false),
            (Field::TunErspanDir, "tun_erspan_dir", true),
            (Field::TunErspanHwid, "tun_erspan_hwid", false),
            (Field::TunGtpuFlags, "gtpu_flags", false),
            (Field::TunGtpuMsgtype, "gtpu_msgtype", true),
        ] {
            let ones = field.all_ones();
            self.put(field, name, |value, mask| match mask == ones && is_decimal {
                true => value.to_string(),
                false => hex(value, mask, ones),
            });
        }
        self.put(Field::TunFlags, "tun_flags", |value, mask| {
            flags(value, mask & 0xf, 0xf, &TUNNEL_FLAGS)
        });
        self.parts.extend(self.matching.options().iter().map(option));
    }

    fn link(&mut self, named_type: bool) {
        self.put(Field::InPort, "in_port", |value, _| OfPort(value as u16).to_string());
        self.vlan(Field::VlanTci, "");
        if self.mask(Field::VlanTci) != 0 {
            self.vlan(Field::VlanTci1, "1");
        }
        self.put(Field::EthSrc, "dl_src", mac);
        self.put(Field::EthDst, "dl_dst", mac);
        if !named_type {
            self.put(Field::EthType, "dl_type", |value, _| format!("0x{value:04x}"));
        }
    }

    fn vlan(&mut self, field: Field, suffix: &str) {
        let (tci, mask) = (self.value(field), self.mask(field));
        if mask == 0 {
            return;
        }
        let (vid, pcp) = (mask & 0xfff, mask & 0xe000);
        let present = mask & tci & 0x1000 != 0;
        if present && matches!(vid, 0 | 0xfff) && matches!(pcp, 0 | 0xe000) && vid | pcp != 0 {
            if vid != 0 {
                self.parts.push(format!("dl_vlan{suffix}={}", tci & 0xfff));
            }
            if pcp != 0 {
                self.parts.push(format!("dl_vlan_pcp{suffix}={}", tci >> 13));
            }
        } else if mask == 0xffff {
            self.parts.push(format!("vlan_tci{suffix}=0x{tci:04x}"));
        } else {
            self.parts.push(format!("vlan_tci{suffix}=0x{tci:04x}/0x{mask:04x}"));
        }
    }

    fn network(&mut self, named_proto: bool) {
        let arp = self.proto.is_arp();
        if self.proto.eth_type == ethertype::IPV6 {
            self.put(Field::Ipv6Src, "ipv6_src", ipv6);
            self.put(Field::Ipv6Dst, "ipv6_dst", ipv6);
            self.put(Field::Ipv6Label, "ipv6_label", |value, mask| match mask {
                0xfffff => format!("0x{value:05x}"),
                _ => format!("0x{value:05x}/0x{mask:05x}"),
            });
        } else if self.proto.is_nsh() {
            self.service_chain();
        } else {
            self.put(Field::Ipv4Src, if arp { "arp_spa" } else { "nw_src" }, ipv4);
            self.put(Field::Ipv4Dst, if arp { "arp_tpa" } else { "nw_dst" }, ipv4);
        }
        if !named_proto {
            let name = if arp { "arp_op" } else { "nw_proto" };
            self.put(Field::NwProto, name, |value, _| value.to_string());
        }
        if arp {
            self.put(Field::ArpSha, "arp_sha", mac);
            self.put(Field::ArpTha, "arp_tha", mac);
        }
        self.put(Field::IpDscp, "nw_tos", |value, _| (value << 2).to_string());
        self.put(Field::IpEcn, "nw_ecn", |value, _| value.to_string());
        self.put(Field::NwTtl, "nw_ttl", |value, _| value.to_string());
        if self.proto.is_mpls() {
            self.labels();
        }
        self.put(Field::NwFrag, "nw_frag", |value, mask| {
            match (mask & 3, value & 3) {
                (3, 1) => "first",
                (3, 3) => "later",
                (1, 1) => "yes",
                (1, _) | (3, 0) => "no",
                (2, 2) => "later",
                (2, _) => "not_later",
                _ => "<error>",
            }
            .to_owned()
        });
    }

    fn labels(&mut self) {
        for field in [Field::MplsLabel, Field::MplsTc, Field::MplsTtl, Field::MplsBos] {
            self.put(field, field.name(), |value, _| value.to_string());
        }
        for field in [Field::MplsLse1, Field::MplsLse2] {
            self.put(field, field.name(), |value, mask| match mask {
                0xffff_ffff => value.to_string(),
                _ => format!("0x{value:08x}/0x{mask:08x}"),
            });
        }
    }

    fn service_chain(&mut self) {
        for field in [Field::NshFlags, Field::NshTtl, Field::NshMdtype, Field::NshNp] {
            self.decimal(field);
        }
        self.zero_as_hex(Field::NshSpi);
        self.decimal(Field::NshSi);
        if self.mask(Field::NshMdtype) == 0xff && self.value(Field::NshMdtype) == 1 {
            for field in [Field::NshC1, Field::NshC2, Field::NshC3, Field::NshC4] {
                self.zero_as_hex(field);
            }
        }
    }

    /// Writes a field: decimal if it is exact, otherwise hexadecimal with its mask.
    fn decimal(&mut self, field: Field) {
        let ones = field.all_ones();
        self.put(field, field.name(), |value, mask| match mask == ones {
            true => value.to_string(),
            false => format!("{value:#04x}/{mask:#04x}"),
        });
    }

    /// Writes a field in hexadecimal, also 0.
    fn zero_as_hex(&mut self, field: Field) {
        let ones = field.all_ones();
        self.put(field, field.name(), |value, mask| match mask == ones {
            true => format!("{value:#x}"),
            false => format!("{value:#x}/{mask:#x}"),
        });
    }

    fn transport(&mut self) {
        let icmp6 = self.proto.is_icmp6();
        let icmp = icmp6 || self.proto.is_icmp4();
        let (src, dst) = if icmp { ("icmp_type", "icmp_code") } else { ("tp_src", "tp_dst") };
        if icmp {
            // The upper byte is always zero and may be missing in the mask.
            self.put(Field::IcmpType, src, |value, _| value.to_string());
            self.put(Field::IcmpCode, dst, |value, _| value.to_string());
        } else {
            self.port(Field::TpSrc, src);
            self.port(Field::TpDst, dst);
        }
        if icmp6 {
            self.put(Field::NdTarget, "nd_target", ipv6);
            self.put(Field::NdSll, "nd_sll", mac);
            self.put(Field::NdTll, "nd_tll", mac);
            self.put(Field::NdReserved, "nd_reserved", |value, _| value.to_string());
            self.put(Field::NdOptionsType, "nd_options_type", |value, _| value.to_string());
        }
        if self.proto.is_ip() && self.proto.nw_proto == protocol::TCP {
            self.put(Field::TcpFlags, "tcp_flags", |value, mask| {
                flags(value, mask, 0xfff, &TCP_FLAGS)
            });
        }
    }
}
