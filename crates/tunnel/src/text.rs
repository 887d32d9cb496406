//! Prints tunnel ports for `dpif/show` and `ofproto/list-tunnels`.

use crate::config::default_udp_port;
use crate::config::{
    Checksum, DEFAULT_TTL, Endpoint, Erspan, FlowLabel, FlowOr, Inherit, Key, PacketType,
    TunnelConfig,
};
use base::PortNo;
use flow::TunnelKind;
use std::fmt::Write;

impl TunnelConfig {
    /// Returns the options of this configuration as `dpif/show` prints them (ovs: `lib/netdev-vport.c`,
    /// `get_tunnel_config`).
    pub fn describe_options(&self) -> String {
        let mut options: Vec<(&str, String)> = Vec::new();
        let mut add = |name, value: Option<String>| {
            options.extend(value.map(|value| (name, value)));
        };
        add("remote_ip", describe_end(self.remote));
        add("local_ip", describe_end(self.local));
        let (in_key, out_key) = (describe_key(self.in_key), describe_key(self.out_key));
        if in_key == out_key {
            add("key", in_key);
        } else {
            add("in_key", in_key);
            add("out_key", out_key);
        }
        add(
            "ttl",
            match self.ttl {
                Inherit::Packet(_) => Some("inherit".to_owned()),
                Inherit::Is(ttl) => (ttl != DEFAULT_TTL).then(|| ttl.to_string()),
            },
        );
        add(
            "tos",
            match self.tos {
                Inherit::Packet(_) => Some("inherit".to_owned()),
                Inherit::Is(tos) => (tos != 0).then(|| format!("{tos:#x}")),
            },
        );
        let has_own_port = self.udp_port != default_udp_port(self.kind);
        add("dst_port", has_own_port.then(|| self.udp_port.to_string()));
        add(
            "csum",
            match self.checksum {
                Checksum::Usual => None,
                Checksum::On => Some("true".to_owned()),
                Checksum::Off => Some("false".to_owned()),
            },
        );
        add("seq", self.sequence.then(|| "true".to_owned()));
        add("df_default", (!self.dont_fragment).then(|| "false".to_owned()));
        add("egress_pkt_mark", self.egress_mark.map(|mark| mark.to_string()));
        self.add_packet_type(&mut add);
        let segments: Vec<String> = self.segments.iter().map(|it| it.to_string()).collect();
        add("srv6_segs", (!segments.is_empty()).then(|| segments.join(",")));
        add(
            "srv6_flowlabel",
            match self.flow_label {
                FlowLabel::Copy => None,
                FlowLabel::Zero => Some("zero".to_owned()),
                FlowLabel::Compute => Some("compute".to_owned()),
            },
        );
        self.add_erspan(&mut add);
        options.sort();
        let options: Vec<String> =
            options.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        options.join(", ")
    }

    fn add_packet_type(&self, add: &mut impl FnMut(&'static str, Option<String>)) {
        let is_default = self.packet_type == TunnelConfig::new(self.kind).packet_type;
        let name = match self.packet_type {
            PacketType::LegacyL2 => "legacy_l2",
            PacketType::LegacyL3 => "legacy_l3",
            PacketType::Aware => "ptap",
        };
        add("packet_type", (!is_default).then(|| name.to_owned()));
        if self.kind == TunnelKind::Bareudp {
            add(
                "payload_type",
                Some(match self.payload_type {
                    wire::ethertype::IPV4 => "ip".to_owned(),
                    wire::ethertype::MPLS => "mpls".to_owned(),
                    other => format!("{other:#x}"),
                }),
            );
        }
    }

    /// Adds the options of the ERSPAN version.
    fn add_erspan(&self, add: &mut impl FnMut(&'static str, Option<String>)) {
        if !matches!(self.kind, TunnelKind::Erspan | TunnelKind::Ip6Erspan) {
            return;
        }
        let Erspan { version, index, direction, hardware } = self.erspan;
        let told = |value: FlowOr<u32>, is_hexadecimal| {
            Some(match value {
                FlowOr::Flow => "flow".to_owned(),
                FlowOr::Is(value) if is_hexadecimal => format!("{value:#x}"),
                FlowOr::Is(value) => value.to_string(),
            })
        };
        let is_or_flow = |number| matches!(version, FlowOr::Flow) || version == FlowOr::Is(number);
        add("erspan_ver", told(version.map(u32::from), false));
        add("erspan_idx", told(index, true).filter(|_| is_or_flow(1)));
        add("erspan_dir", told(direction.map(u32::from), false).filter(|_| is_or_flow(2)));
        add("erspan_hwid", told(hardware.map(u32::from), true).filter(|_| is_or_flow(2)));
    }

    /// Returns the pattern of the packets that the port receives (ovs: `ofproto/tunnel.c`, `tnl_match_fmt`).
    pub(crate) fn describe_match(&self, device: PortNo) -> String {
        let local = match self.local {
            Endpoint::Is(ip) => ip.to_string(),
            _ => "::".to_owned(),
        };
        let mut text = match (self.remote, self.local) {
            (Endpoint::Is(remote), _) => format!("{local}->{remote}"),
            (_, Endpoint::Flow) => "flow->flow".to_owned(),
            _ => format!("{local}->flow"),
        };
        // Writing to a string does not fail.
        let _ = match self.in_key {
            Key::Flow => write!(text, ", key=flow"),
            key => write!(text, ", key={}", hexadecimal(key.value())),
        };
        let mode = match self.packet_type {
            PacketType::LegacyL2 => "legacy_l2",
            PacketType::LegacyL3 => "legacy_l3",
            PacketType::Aware => "ptap",
        };
        let _ = write!(text, ", {mode}, dp port={device}");
        text
    }

    /// Returns the port's line of `ofproto/list-tunnels` (ovs: `ofproto/tunnel.c`, `tnl_port_format`).
    pub fn describe(&self, name: &str, device: PortNo) -> String {
        let kind = self.kind.name();
        let mut text = format!("port {device}: {name} ({kind}: {}", self.describe_match(device));
        if self.out_key != self.in_key {
            text += ", out_key=";
            text += &match self.out_key {
                Key::Absent => "none".to_owned(),
                Key::Flow => "flow".to_owned(),
                Key::Is(key) => hexadecimal(key),
            };
        }
        let _ = match self.ttl {
            Inherit::Packet(_) => write!(text, ", ttl=inherit"),
            Inherit::Is(ttl) => write!(text, ", ttl={ttl}"),
        };
        match self.tos {
            Inherit::Packet(_) => text += ", tos=inherit",
            Inherit::Is(0) => {}
            Inherit::Is(tos) => text += &format!(", tos={tos:#x}"),
        }
        if !self.dont_fragment {
            text += ", df=false";
        }
        match self.checksum {
            Checksum::Usual => {}
            Checksum::On => text += ", csum=true",
            Checksum::Off => text += ", csum=false",
        }
        text + ")"
    }
}

/// Formats as `%#x` of C, which prints 0 without a prefix.
fn hexadecimal(value: u64) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

fn describe_end(end: Endpoint) -> Option<String> {
    match end {
        Endpoint::Any => None,
        Endpoint::Flow => Some("flow".to_owned()),
        Endpoint::Is(ip) => Some(ip.to_string()),
    }
}

fn describe_key(key: Key) -> Option<String> {
    match key {
        Key::Absent => None,
        Key::Flow => Some("flow".to_owned()),
        Key::Is(key) => Some(key.to_string()),
    }
}
