//! Rows of `Port` and `Interface`.

use super::{Place, Reader, mac_of_an_interface};
use crate::queues::affinity_from_text;
use crate::{Hint, Interface, InterfaceKind, Port};
use base::OfPort;
use ofproto::{PriorityTags, VlanMode};
use ovsdb::Row;
use protocols::bfd;
use wire::ethertype;

impl Reader<'_> {
    /// Returns a port; `None` if all its interfaces belong to other ports.
    pub(super) fn port(&mut self, name: &str, row: &Row, bridge: &str) -> Option<Port> {
        let place = &Place { table: "Port", name, row };
        let mut interfaces = Vec::new();
        for uuid in row.uuids("interfaces") {
            let Some(interface) = self.row("Interface", uuid) else { continue };
            if !self.devices.insert(uuid) {
                self.warn(place, "interfaces", "belongs to another port already; ignored");
                continue;
            }
            interfaces.extend(self.interface(interface, bridge));
        }
        interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        if interfaces.len() > 1 {
            for member in &mut interfaces {
                let error = format!(
                    "could not add network device {} to ofproto (bonding is not supported)",
                    member.name
                );
                member.kind = InterfaceKind::Refused { error };
            }
        }
        if let Some(missing) = self.warn_of_ignored(place) {
            for member in &mut interfaces {
                let own = member.missing.take();
                member.missing =
                    Some(own.into_iter().chain([missing.clone()]).collect::<Vec<_>>().join("; "));
            }
        }
        let vlan = self.vlan_mode(place);
        let priority_tags = match row.map_str("other_config", "priority-tags") {
            Some("if-nonzero" | "true") => PriorityTags::IfNonzero,
            Some("always") => PriorityTags::Always,
            _ => PriorityTags::Never,
        };
        let protected = row.opt_bool("protected").unwrap_or_default();
        let name = name.to_owned();
        (!interfaces.is_empty()).then_some(Port {
            name,
            interfaces,
            vlan,
            priority_tags,
            protected,
        })
    }

    fn vlan_mode(&mut self, place: &Place<'_>) -> VlanMode {
        let row = place.row;
        let mode = row.str("vlan_mode");
        let tag = row.opt_i64("tag").and_then(|tag| u16::try_from(tag).ok()).filter(|t| *t < 4096);
        let (trunks, cvlans) = (vlans(row, "trunks"), vlans(row, "cvlans"));
        if mode.is_none() && tag.is_some() && !(trunks.is_empty() && cvlans.is_empty()) {
            self.warn(
                place,
                "trunks",
                "ignored, since a tag without vlan_mode makes it an access port",
            );
        }
        let ethertype = match row.map_str("other_config", "qinq-ethtype") {
            Some("802.1q") => ethertype::VLAN,
            _ => ethertype::SERVICE_VLAN,
        };
        VlanMode::from_columns(mode, tag, trunks, cvlans, ethertype).unwrap_or_else(|| {
            let words = format!("\"{}\" is unknown; taken as a trunk", mode.unwrap_or_default());
            self.warn(place, "vlan_mode", words);
            VlanMode::Trunk { trunks: vlans(row, "trunks") }
        })
    }

    fn interface(&mut self, row: &Row, bridge: &str) -> Option<Interface> {
        let name = row.str("name")?;
        let place = &Place { table: "Interface", name, row };
        // The bridge's own port is internal, whatever its row contains (ovs: vswitchd/bridge.c,
        // iface_get_type).
        let type_name = if name == bridge { "internal" } else { row.str("type").unwrap_or("") };
        let options = row.string_map("options");
        let warn = |words| self.warn(place, "options", words);
        let kind = InterfaceKind::from_type(type_name, name, &options, warn);
        let missing = self.warn_of_ignored(place);
        let port = |column| row.opt_i64(column).and_then(ordinary_port);
        let mut interface = Interface::new(name, kind);
        interface.missing = missing;
        interface.ofport_request = port("ofport_request").filter(|_| name != bridge);
        interface.ofport_hint = Hint(port("ofport").filter(|_| name != bridge));
        interface.mac = row.str("mac").and_then(|text| {
            let mac = mac_of_an_interface(text);
            if mac.is_none() {
                self.warn(
                    place,
                    "mac",
                    format!("\"{text}\" is not an Ethernet address of an interface; ignored"),
                );
            }
            mac
        });
        interface.mtu_request = row.opt_i64("mtu_request").and_then(|mtu| {
            let bytes = u32::try_from(mtu).ok();
            if bytes.is_none() {
                self.warn(place, "mtu_request", format!("{mtu} is no number of bytes; ignored"));
            }
            bytes
        });
        let warn = |key: &str, words| self.warn(place, format!("bfd:{key}"), words);
        interface.bfd = bfd::Config::parse(&row.string_map("bfd"), warn);
        interface.options = options;
        interface.rxq_affinity = self
            .parsed(
                place,
                "pmd-rxq-affinity",
                "a list of queues with their cores, such as \"0:3,1:7\"",
                affinity_from_text,
            )
            .unwrap_or_default();
        Some(interface)
    }
}

/// Returns the VLANs of a column in ascending order.
pub(super) fn vlans(row: &Row, column: &str) -> Vec<u16> {
    let vlans = row.get(column).map(|set| set.as_i64_set()).unwrap_or_default();
    vlans.into_iter().filter_map(|vlan| u16::try_from(vlan).ok()).collect()
}

/// Returns a port number, if it is valid for a port other than LOCAL.
fn ordinary_port(number: i64) -> Option<OfPort> {
    let port = OfPort(u16::try_from(number).ok()?);
    (port.is_real() && port != OfPort::LOCAL).then_some(port)
}
