//! Parses the options of tunnel ports (ovs: `lib/netdev-vport.c`, `set_tunnel_config`).

use crate::config::{
    Checksum, Endpoint, FlowLabel, FlowOr, Inherit, Key, PacketType, SEGMENTS_MAX, TunnelConfig,
};
use flow::TunnelKind;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// The result of parsing options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// The configuration, or the error message.
    pub config: Result<TunnelConfig, String>,
    /// One message per option that is invalid and therefore ignored.
    pub warnings: Vec<String>,
}

/// Options of another program (ovs-monitor-ipsec).
const OF_OTHERS: [&str; 3] = ["remote_cert", "remote_name", "psk"];

/// The DSCP bits of a TOS.
const DSCP: u8 = 0xfc;

struct Parser<'a> {
    name: &'a str,
    config: TunnelConfig,
    warnings: Vec<String>,
}

impl TunnelConfig {
    /// Parses the options of a tunnel port. `name` appears in messages.
    pub fn parse(kind: TunnelKind, name: &str, options: &BTreeMap<String, String>) -> Parsed {
        let mut parser = Parser { name, config: TunnelConfig::new(kind), warnings: Vec::new() };
        let done = parser.read(options);
        let Parser { config, warnings, .. } = parser;
        Parsed { config: done.map(|()| config), warnings }
    }
}

impl Parser<'_> {
    fn read(&mut self, options: &BTreeMap<String, String>) -> Result<(), String> {
        for (option, value) in options {
            self.option(option, value)?;
        }
        self.packet_type(options.get("packet_type").map(String::as_str))?;
        self.check_ends()?;
        self.config.in_key = self.key(options, "in_key");
        self.config.out_key = self.key(options, "out_key");
        Ok(())
    }

    fn option(&mut self, option: &str, value: &str) -> Result<(), String> {
        let kind = self.config.kind;
        let is_gre = kind.protocol() == wire::protocol::GRE;
        let has_checksum = is_gre || matches!(kind, TunnelKind::Geneve | TunnelKind::Vxlan);
        match option {
            "remote_ip" => {
                self.config.remote = self.endpoint(option, value);
                if let Endpoint::Is(ip) = self.config.remote
                    && ip.is_multicast()
                {
                    let name = self.name;
                    return Err(format!("{name}: multicast remote_ip={value} not allowed"));
                }
            }
            "local_ip" => self.config.local = self.endpoint(option, value),
            "tos" if value == "inherit" => self.config.tos = Inherit::Packet(0),
            "tos" => match number(value).filter(|tos| tos & !u32::from(DSCP) == 0) {
                Some(tos) => self.config.tos = Inherit::Is(tos as u8),
                None => self.warn(format!("invalid TOS {value}")),
            },
            "ttl" if value == "inherit" => {
                self.config.ttl = Inherit::Packet(crate::config::DEFAULT_TTL);
            }
            "ttl" => match value.parse::<u8>() {
                Ok(ttl @ 1..) => self.config.ttl = Inherit::Is(ttl),
                _ => self.warn(format!("invalid TTL {value}; 1 to 255, or \"inherit\"")),
            },
            "dst_port" if kind.is_udp() => match value.parse::<u16>() {
                Ok(port @ 1..) => self.config.udp_port = port,
                _ => self.warn(format!("invalid dst_port {value}; 1 to 65535")),
            },
            "csum" if has_checksum => {
                self.config.checksum = match value {
                    "true" => Checksum::On,
                    "false" => Checksum::Off,
                    _ => Checksum::Usual,
                }
            }
            "seq" if is_gre => self.config.sequence = value == "true",
            "df_default" => self.config.dont_fragment = value != "false",
            "exts" if kind == TunnelKind::Vxlan => self.extensions(value),
            "egress_pkt_mark" => match number(value) {
                Some(mark) => self.config.egress_mark = Some(mark),
                None => self.warn(format!("invalid egress_pkt_mark {value}")),
            },
            "erspan_ver" | "erspan_idx" | "erspan_dir" | "erspan_hwid" if is_gre => {
                self.erspan(option, value)?;
            }
            "payload_type" if kind == TunnelKind::Bareudp => self.payload(value)?,
            "srv6_segs" if kind == TunnelKind::Srv6 => self.segments(value)?,
            "srv6_flowlabel" if kind == TunnelKind::Srv6 => match value {
                "copy" => self.config.flow_label = FlowLabel::Copy,
                "zero" => self.config.flow_label = FlowLabel::Zero,
                "compute" => self.config.flow_label = FlowLabel::Compute,
                _ => {
                    let name = self.name;
                    return Err(format!("{name}: invalid srv6_flowlabel: {value}"));
                }
            },
            "key" | "in_key" | "out_key" | "packet_type" => {}
            _ if OF_OTHERS.contains(&option) => {}
            _ => self.warn(format!("unknown {} argument '{option}'", kind.name())),
        }
        Ok(())
    }

    fn endpoint(&mut self, option: &str, value: &str) -> Endpoint {
        if value == "flow" {
            return Endpoint::Flow;
        }
        match value.parse::<IpAddr>() {
            Ok(ip) => Endpoint::Is(ip),
            Err(_) => {
                let kind = self.config.kind.name();
                self.warn(format!("bad {kind} '{option}'"));
                Endpoint::Any
            }
        }
    }

    fn extensions(&mut self, value: &str) {
        for extension in value.split(',').filter(|it| !it.is_empty()) {
            match extension {
                "gbp" => self.config.group_policy = true,
                "gpe" => self.config.generic_protocol = true,
                other => self.warn(format!("unknown extension '{other}'")),
            }
        }
    }

    fn erspan(&mut self, option: &str, value: &str) -> Result<(), String> {
        let erspan = &mut self.config.erspan;
        if value == "flow" {
            match option {
                "erspan_ver" => {
                    erspan.version = FlowOr::Flow;
                    (erspan.index, erspan.direction) = (FlowOr::Flow, FlowOr::Flow);
                    erspan.hardware = FlowOr::Flow;
                }
                "erspan_idx" => erspan.index = FlowOr::Flow,
                "erspan_dir" => erspan.direction = FlowOr::Flow,
                _ => erspan.hardware = FlowOr::Flow,
            }
            return Ok(());
        }
        let hexadecimal = value.strip_prefix("0x").unwrap_or(value);
        let hexadecimal = u32::from_str_radix(hexadecimal, 16).ok();
        let (decimal, name) = (value.parse::<u8>().ok(), self.name);
        match option {
            "erspan_ver" => {
                let version = decimal.filter(|it| matches!(it, 1 | 2));
                let wrong = || format!("{name}: invalid erspan version: {value}");
                erspan.version = FlowOr::Is(version.ok_or_else(wrong)?);
            }
            "erspan_idx" => {
                let index = hexadecimal.filter(|it| *it <= wire::erspan::INDEX_MAX);
                let wrong = || format!("{name}: invalid erspan index: {value}");
                erspan.index = FlowOr::Is(index.ok_or_else(wrong)?);
            }
            "erspan_dir" => {
                let direction = decimal.filter(|it| *it <= 1);
                let wrong = || format!("{name}: invalid erspan direction: {value}");
                erspan.direction = FlowOr::Is(direction.ok_or_else(wrong)?);
            }
            _ => {
                let most = u32::from(wire::erspan::HARDWARE_MAX);
                let hardware = hexadecimal.filter(|it| *it <= most);
                let wrong = || format!("{name}: invalid erspan hardware ID: {value}");
                erspan.hardware = FlowOr::Is(hardware.ok_or_else(wrong)? as u8);
            }
        }
        Ok(())
    }

    fn payload(&mut self, value: &str) -> Result<(), String> {
        self.config.payload_type = match value {
            "ip" => wire::ethertype::IPV4,
            "mpls" => wire::ethertype::MPLS,
            _ => number(value)
                .and_then(|it| u16::try_from(it).ok())
                .ok_or_else(|| format!("{}: invalid payload_type {value}", self.name))?,
        };
        Ok(())
    }

    /// Parses the segments. The first one must be the remote end; [`build`](crate::build) checks that, since
    /// flows may set the remote end.
    fn segments(&mut self, value: &str) -> Result<(), String> {
        let segments: Option<Vec<Ipv6Addr>> =
            value.split(',').filter(|it| !it.is_empty()).map(|it| it.parse().ok()).collect();
        let segments = segments.filter(|segments| segments.len() <= SEGMENTS_MAX);
        let (name, kind) = (self.name, self.config.kind.name());
        self.config.segments = segments.ok_or_else(|| format!("{name}: bad {kind} 'srv6_segs'"))?;
        Ok(())
    }

    fn packet_type(&mut self, value: Option<&str>) -> Result<(), String> {
        let (name, config) = (self.name, &mut self.config);
        let what = match (config.kind, config.generic_protocol) {
            (TunnelKind::Vxlan, true) => "VXLAN-GPE",
            (TunnelKind::Vxlan, false) => "VXLAN (without GPE)",
            (kind, _) => kind.name(),
        };
        let refused = |mode, layer| {
            Err(format!(
                "{name}: {mode} configured on {what} tunnel that cannot carry {layer} traffic"
            ))
        };
        config.packet_type = match value {
            None => return Ok(()),
            Some("legacy_l2") if !config.carries_frames() => return refused("legacy_l2", "L2"),
            Some("legacy_l3") if !config.carries_packets() => return refused("legacy_l3", "L3"),
            Some("legacy_l2") => PacketType::LegacyL2,
            Some("legacy_l3") => PacketType::LegacyL3,
            Some("ptap") => PacketType::Aware,
            Some(other) => return Err(format!("{name}: unknown packet_type '{other}'")),
        };
        Ok(())
    }

    fn check_ends(&self) -> Result<(), String> {
        let (name, kind) = (self.name, self.config.kind.name());
        match (self.config.remote, self.config.local) {
            (Endpoint::Any, _) => {
                Err(format!("{name}: {kind} type requires valid 'remote_ip' argument"))
            }
            (Endpoint::Is(_), Endpoint::Flow) => {
                Err(format!("{name}: {kind} type requires 'remote_ip=flow' with 'local_ip=flow'"))
            }
            (Endpoint::Is(remote), Endpoint::Is(local)) if remote.is_ipv4() != local.is_ipv4() => {
                Err(format!(
                    "{name}: 'remote_ip' and 'local_ip' has to be of the same address family"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the key of `option`, or else that of `key` (ovs: `parse_key`).
    fn key(&mut self, options: &BTreeMap<String, String>, option: &str) -> Key {
        let Some(value) = options.get(option).or_else(|| options.get("key")) else {
            return Key::Absent;
        };
        if value == "flow" {
            return Key::Flow;
        }
        match number64(value) {
            Some(key) => Key::Is(key),
            None => {
                self.warn(format!("invalid {option} {value}; a number or \"flow\""));
                Key::Is(0)
            }
        }
    }

    fn warn(&mut self, words: String) {
        let warning = format!("{}: {words}", self.name);
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

fn number64(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn number(text: &str) -> Option<u32> {
    u32::try_from(number64(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: &str, options: &str) -> Parsed {
        let options = options.split_whitespace().filter_map(|it| it.split_once('='));
        let options = options.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        TunnelConfig::parse(TunnelKind::from_name(kind).unwrap(), "t", &options)
    }

    fn check(kind: &str, options: &str, expect: Result<&str, &str>, warnings: &[&str]) {
        let parsed = parse(kind, options);
        let found = parsed.config.map(|config| config.describe_options());
        let expect = expect.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(found, expect, "{kind} {options}");
        assert_eq!(parsed.warnings, warnings, "{kind} {options}");
    }

    #[test]
    fn options_are_read_as_by_open_vswitch() {
        let vxlan = |options, expect| check("vxlan", options, Ok(expect), &[]);
        vxlan("remote_ip=1.1.2.92 key=123", "key=123, remote_ip=1.1.2.92");
        vxlan(
            "remote_ip=1.1.2.93 out_key=flow csum=true",
            "csum=true, out_key=flow, remote_ip=1.1.2.93",
        );
        vxlan("remote_ip=1.1.2.93 csum=false", "csum=false, remote_ip=1.1.2.93");
        vxlan("remote_ip=flow key=flow local_ip=flow", "key=flow, local_ip=flow, remote_ip=flow");
        vxlan(
            "remote_ip=fd00::1 dst_port=4790 tos=0x20",
            "dst_port=4790, remote_ip=fd00::1, tos=0x20",
        );
        vxlan("remote_ip=1.1.1.1 exts=gbp ttl=inherit", "remote_ip=1.1.1.1, ttl=inherit");
        vxlan("remote_ip=1.1.1.1 in_key=0x10 psk=x", "in_key=16, remote_ip=1.1.1.1");
        let erspan = "remote_ip=1.1.2.92 key=567 erspan_ver=2 erspan_dir=1 erspan_hwid=0x7";
        let shown = "erspan_dir=1, erspan_hwid=0x7, erspan_ver=2, key=567, remote_ip=1.1.2.92";
        check("erspan", erspan, Ok(shown), &[]);
        let erspan = |options, expect| check("erspan", options, Ok(expect), &[]);
        erspan(
            "remote_ip=1.1.1.1 erspan_ver=1 erspan_idx=0x0 erspan_hwid=1",
            "erspan_idx=0x0, erspan_ver=1, remote_ip=1.1.1.1",
        );
        erspan(
            "remote_ip=1.1.1.1 erspan_ver=2 erspan_dir=flow",
            "erspan_dir=flow, erspan_hwid=0x0, erspan_ver=2, remote_ip=1.1.1.1",
        );
        erspan(
            "remote_ip=1.1.1.1 erspan_ver=flow",
            "erspan_dir=flow, erspan_hwid=flow, erspan_idx=flow, erspan_ver=flow, remote_ip=1.1.1.1",
        );
        let gre = "key=456, packet_type=legacy_l3, remote_ip=1.1.2.92";
        check("gre", "remote_ip=1.1.2.92 key=456 packet_type=legacy_l3", Ok(gre), &[]);
    }

    #[test]
    fn segments_and_flow_labels_are_read() {
        let segs = "remote_ip=fc00::1 srv6_segs=fc00::1,fc00::2";
        check("srv6", segs, Ok("remote_ip=fc00::1, srv6_segs=fc00::1,fc00::2"), &[]);
        check("srv6", "remote_ip=fc00::1 srv6_flowlabel=copy", Ok("remote_ip=fc00::1"), &[]);
        let zero = "remote_ip=fc00::1 srv6_flowlabel=zero";
        check("srv6", zero, Ok("remote_ip=fc00::1, srv6_flowlabel=zero"), &[]);
        let refused = |options: &str, why| check("srv6", options, Err(why), &[]);
        refused("remote_ip=fc00::1 srv6_segs=fc00::1,x", "t: bad srv6 'srv6_segs'");
        let many = ["::1"; 7].join(",");
        refused(&format!("remote_ip=fc00::1 srv6_segs={many}"), "t: bad srv6 'srv6_segs'");
        refused("remote_ip=fc00::1 srv6_flowlabel=x", "t: invalid srv6_flowlabel: x");
        let l2 = "t: legacy_l2 configured on srv6 tunnel that cannot carry L2 traffic";
        refused("remote_ip=fc00::1 packet_type=legacy_l2", l2);
        check(
            "vxlan",
            "remote_ip=1.1.1.1 srv6_segs=::1",
            Ok("remote_ip=1.1.1.1"),
            &["t: unknown vxlan argument 'srv6_segs'"],
        );
    }

    #[test]
    fn what_cannot_be_is_refused_or_told() {
        let refused = |options, why| check("vxlan", options, Err(why), &[]);
        refused("key=1", "t: vxlan type requires valid 'remote_ip' argument");
        refused("remote_ip=224.0.0.1", "t: multicast remote_ip=224.0.0.1 not allowed");
        let flow = "t: vxlan type requires 'remote_ip=flow' with 'local_ip=flow'";
        refused("remote_ip=1.1.1.1 local_ip=flow", flow);
        let family = "t: 'remote_ip' and 'local_ip' has to be of the same address family";
        refused("remote_ip=1.1.1.1 local_ip=::1", family);
        let l3 =
            "t: legacy_l3 configured on VXLAN (without GPE) tunnel that cannot carry L3 traffic";
        refused("remote_ip=1.1.1.1 packet_type=legacy_l3", l3);
        let told = |options, warning| {
            check("vxlan", options, Ok("remote_ip=1.1.1.1"), &[warning]);
        };
        told("remote_ip=1.1.1.1 flags=0", "t: unknown vxlan argument 'flags'");
        told("remote_ip=1.1.1.1 tos=3", "t: invalid TOS 3");
        told("remote_ip=1.1.1.1 local_ip=x", "t: bad vxlan 'local_ip'");
        told("remote_ip=1.1.1.1 exts=abc", "t: unknown extension 'abc'");
        told("remote_ip=1.1.1.1 dst_port=0", "t: invalid dst_port 0; 1 to 65535");
    }
}
