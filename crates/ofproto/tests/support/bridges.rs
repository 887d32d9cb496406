//! Bridges as the tables of `testdata/ofproto/*.toml` describe them: ports, flows and learned addresses.

use base::{Instant, MacAddr, OfPort, PortNo};
use flow::TunnelKind;
use ofproto::{BridgeConfig, FailMode, Ofproto, PortDevice, PortSpec, PriorityTags, VlanMode};
use openflow::message::{FlowModCommand, TlvCommand, TlvMap};
use serde::Deserialize;
use std::sync::Arc;
use tunnel::TunnelConfig;
use wire::ethertype;

/// A bridge of a case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeCase {
    /// Its name.
    pub name: String,
    /// Flows in `ovs-ofctl`'s syntax, one per line; without them, a learning switch.
    flows: Option<String>,
    /// Its ports.
    pub port: Vec<PortCase>,
    /// `{class=0xffff,type=0,len=4}->tun_metadata0`
    #[serde(default)]
    tlv_map: Vec<String>,
    /// `VLAN MAC PORT`
    #[serde(default)]
    macs: Vec<String>,
}

/// A port of a case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortCase {
    name: String,
    /// The datapath's number; omitted for a patch port.
    pub device: Option<u32>,
    peer: Option<String>,
    /// Type and options of a tunnel whose datapath port is `device`: `geneve remote_ip=1.1.1.1`.
    tunnel: Option<String>,
    #[serde(default)]
    local: bool,
    /// `access 10`, `trunk 10,20`, `native-tagged 10 20`, `native-untagged 10 20`, `dot1q-tunnel 100`;
    /// without it, a trunk of all VLANs.
    vlan: Option<String>,
    #[serde(default)]
    priority_tags: bool,
}

fn vlan_mode(text: &str) -> VlanMode {
    let (mode, numbers) = text.split_once(' ').unwrap_or((text, ""));
    let numbers: Vec<u16> =
        numbers.split([' ', ',']).filter_map(|number| number.parse().ok()).collect();
    let (tag, rest) = match (mode, &numbers[..]) {
        ("trunk", all) => (None, all.to_vec()),
        (_, [tag, rest @ ..]) => (Some(*tag), rest.to_vec()),
        (_, []) => (None, Vec::new()),
    };
    VlanMode::from_columns(Some(mode), tag, rest.clone(), rest, ethertype::SERVICE_VLAN)
        .unwrap_or_else(|| panic!("no VLAN mode {text}"))
}

fn tunnel_config(name: &str, text: &str) -> TunnelConfig {
    let (kind, options) = text.split_once(' ').unwrap();
    let options = options.split(' ').map(|option| option.split_once('=').unwrap());
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    TunnelConfig::parse(TunnelKind::from_name(kind).unwrap(), name, &options).config.unwrap()
}

fn tlv_map(text: &str) -> TlvMap {
    let (option, index) = text.split_once("}->tun_metadata").unwrap();
    let number = |name: &str| {
        let value = option.split_once(name).unwrap().1.split(',').next().unwrap();
        match value.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16).unwrap(),
            None => value.parse().unwrap(),
        }
    };
    let (kind, len) = (number("type=") as u8, number("len=") as u8);
    TlvMap { class: number("class="), kind, len, index: index.parse().unwrap() }
}

impl BridgeCase {
    /// Adds the bridge with its ports, flows and addresses.
    pub fn add_to(&self, ofproto: &mut Ofproto, now: Instant) {
        let mut config = BridgeConfig::new(&self.name, MacAddr([2, 0, 0, 0, 9, 9]));
        if self.flows.is_some() {
            config.fail_mode = FailMode::Secure;
        }
        let id = ofproto.add_bridge(config, now);
        for port in &self.port {
            let device = match (port.device, &port.tunnel) {
                (Some(number), None) => PortDevice::Datapath(PortNo(number)),
                (Some(number), Some(tunnel)) => {
                    let config = Arc::new(tunnel_config(&port.name, tunnel));
                    PortDevice::Tunnel { device: PortNo(number), config }
                }
                (None, _) => PortDevice::Patch { peer: port.peer.clone().unwrap() },
            };
            let mut spec = PortSpec::new(&port.name, MacAddr([2, 0, 0, 0, 9, 8]), device);
            spec.is_local = port.local;
            spec.vlan = port.vlan.as_deref().map(vlan_mode).unwrap_or_default();
            if port.priority_tags {
                spec.priority_tags = PriorityTags::Always;
            }
            ofproto.add_port(id, spec, now).unwrap();
        }
        let maps: Vec<TlvMap> = self.tlv_map.iter().map(|map| tlv_map(map)).collect();
        ofproto.tlv_table_mod(id, TlvCommand::Add, &maps).unwrap();
        let flows = self.flows.iter().flat_map(|flows| flows.lines());
        for line in flows.filter(|line| !line.trim().is_empty()) {
            let ports = |name: &str| ofproto.port_number(id, name);
            let flow_mod = openflow::text::parse_flow(line, FlowModCommand::Add, &ports);
            let flow_mod = flow_mod.unwrap_or_else(|error| panic!("{line}: {error}"));
            ofproto.flow_mod(id, &flow_mod, now).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        for line in &self.macs {
            let words: Vec<&str> = line.split(' ').collect();
            let (vlan, port) = (words[0].parse().unwrap(), OfPort(words[2].parse().unwrap()));
            ofproto.learn_mac(id, vlan, words[1].parse().unwrap(), port, now);
        }
    }
}
