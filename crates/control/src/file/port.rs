//! The tables `[[bridge.port]]`.

use super::File;
use super::section::{Errors, Section, Span};
use crate::queues::affinity_from_text;
use crate::rows::mac_of_an_interface;
use crate::{Interface, InterfaceKind, Port};
use base::OfPort;
use flow::TunnelKind;
use ofproto::{PriorityTags, VlanMode};
use std::collections::BTreeMap;
use tunnel::{Parsed, TunnelConfig};
use wire::ethertype;

impl File {
    pub(super) fn port(
        &mut self,
        section: &mut Section<'_>,
        errors: &mut Errors<'_>,
        bridge: &str,
        numbers: &mut BTreeMap<u16, String>,
    ) -> Option<Port> {
        let named = section.required_string("name", errors);
        let name = named.as_ref().map_or("", |(name, _)| name);
        let options = section.string_map("options", errors);
        let kind = interface_kind(section, errors, name, bridge, &options);
        let ofport: Option<(u16, Span)> =
            section.integer_at("ofport", 1..=OfPort::MAX.0 - 1, errors);
        let mut interface = Interface::new(name, kind);
        interface.mac = section.parsed(
            "mac",
            "an Ethernet address of one interface",
            errors,
            mac_of_an_interface,
        );
        interface.mtu_request = section.integer("mtu", 68..=u16::MAX.into(), errors);
        interface.options = options;
        interface.rxq_affinity = section
            .parsed(
                "pmd_rxq_affinity",
                "a list of queues with their cores, such as \"0:3,1:7\"",
                errors,
                affinity_from_text,
            )
            .unwrap_or_default();
        interface.ofport_request = ofport.as_ref().map(|(number, _)| OfPort(*number));
        let vlan = vlan_mode(section, errors);
        let tags = [
            ("never", PriorityTags::Never),
            ("if-nonzero", PriorityTags::IfNonzero),
            ("always", PriorityTags::Always),
        ];
        let priority_tags = section.one_of("priority_tags", &tags, errors).unwrap_or_default();
        let protected = section.boolean("protected", errors).unwrap_or_default();

        let (name, span) = named?;
        if !matches!(interface.kind, InterfaceKind::Patch { .. }) {
            check_device_name(&name, &span, errors);
        }
        if let Some((other, _)) = self.ports.get(&name) {
            let words = format!("bridge \"{other}\" has a port \"{name}\" already; remove one");
            errors.add(span, words);
            return None;
        }
        if let Some((number, at)) = ofport
            && let Some(other) = numbers.insert(number, name.clone())
        {
            let words = format!("port \"{other}\" asks for number {number} too; change one");
            errors.add(at, words);
        }
        self.ports.insert(name, (bridge.to_owned(), span));
        Some(Port { vlan, priority_tags, protected, ..Port::new(interface) })
    }
}

/// Returns the interface kind, with the keys that depend on it.
fn interface_kind(
    section: &mut Section<'_>,
    errors: &mut Errors<'_>,
    name: &str,
    bridge: &str,
    options: &BTreeMap<String, String>,
) -> InterfaceKind {
    if name == bridge && !bridge.is_empty() {
        let own = "the port with the bridge's name is its own, LOCAL and internal; remove this";
        section.refuse("ofport", own, errors);
        section.refuse("peer", own, errors);
        section.one_of("type", &[("internal", ())], errors);
        return InterfaceKind::Internal;
    }
    let types = ["system", "internal", "tap", "patch", "afxdp", "pcap"].into_iter();
    let types = types.chain(["dpdk", "dpdkvhostuserclient", "dpdkvhostuser"]);
    let types = types.chain(TunnelKind::ALL.iter().map(|kind| kind.name()));
    let types: Vec<_> = types.map(|name| (name, name)).collect();
    let type_name = section.one_of("type", &types, errors);
    if type_name == Some("patch") {
        let peer = section.required_string("peer", errors);
        if let Some((peer, span)) = &peer
            && peer == name
        {
            let words = format!("patch \"{name}\" cannot be its own other end; name another port");
            errors.add(span.clone(), words);
        }
        return InterfaceKind::Patch { peer: peer.map(|(peer, _)| peer).unwrap_or_default() };
    }
    if let Some(kind) = type_name.and_then(TunnelKind::from_name) {
        return tunnel(section, errors, name, kind, options);
    }
    section.refuse("peer", "only a port of type \"patch\" has a peer; remove this", errors);
    match type_name {
        Some("internal") => InterfaceKind::Internal,
        Some("tap") => InterfaceKind::Tap,
        Some("afxdp") => InterfaceKind::Afxdp,
        Some("pcap") => InterfaceKind::Pcap,
        Some("dpdk") => InterfaceKind::Dpdk,
        Some("dpdkvhostuserclient") => InterfaceKind::DpdkVhostUserClient,
        Some("dpdkvhostuser") => InterfaceKind::DpdkVhostUser,
        _ => InterfaceKind::System,
    }
}

/// Returns a tunnel, all of whose options must be valid.
fn tunnel(
    section: &mut Section<'_>,
    errors: &mut Errors<'_>,
    name: &str,
    kind: TunnelKind,
    options: &BTreeMap<String, String>,
) -> InterfaceKind {
    let Parsed { config, warnings } = TunnelConfig::parse(kind, name, options);
    let wrong = config.as_ref().err().into_iter().chain(&warnings);
    wrong.for_each(|words| section.complain("options", words, errors));
    match config {
        Ok(config) => InterfaceKind::Tunnel(Box::new(config)),
        Err(error) => InterfaceKind::Refused { error },
    }
}

fn vlan_mode(section: &mut Section<'_>, errors: &mut Errors<'_>) -> VlanMode {
    let modes = ["access", "trunk", "native-tagged", "native-untagged", "dot1q-tunnel"];
    let mode = section.one_of("vlan_mode", &modes.map(|mode| (mode, mode)), errors);
    let tag = section.integer("tag", 0..=4095, errors);
    let trunks = section.integers("trunks", 0..=4095, errors);
    let cvlans = section.integers("cvlans", 0..=4095, errors);
    if mode.is_none() && tag.is_some() && !trunks.is_empty() {
        let words = "a port with a tag and no vlan_mode is an access port and has no trunks; \
                     add vlan_mode = \"native-untagged\" or remove one";
        section.refuse("trunks", words, errors);
    }
    VlanMode::from_columns(mode, tag, trunks, cvlans, ethertype::SERVICE_VLAN).unwrap_or_default()
}

/// The kernel's rule for names of network devices (Linux: `net/core/dev.c`, `dev_valid_name`).
pub(super) fn check_device_name(name: &str, span: &Span, errors: &mut Errors<'_>) {
    const MOST_BYTES: usize = 15;
    let is_bad = |c: char| c == '/' || c == ':' || c.is_whitespace();
    if name.len() > MOST_BYTES || matches!(name, "." | "..") || name.contains(is_bad) {
        let words = format!(
            "\"{name}\" cannot be the name of a device; use at most {MOST_BYTES} bytes without \
             spaces, slashes and colons"
        );
        errors.add(span.clone(), words);
    }
}
