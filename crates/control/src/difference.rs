//! The changes that lead from one [`Desired`] to another.

use crate::{
    BridgeSettings, Desired, Interface, InterfaceKind, Port, SwitchOptions, TlsFiles, ZonePolicy,
};
use base::{OfPort, Zone};
use std::collections::{BTreeMap, BTreeSet};

/// One change of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Set the settings of the whole switch.
    SetOptions(SwitchOptions),
    /// Set the files for TLS.
    SetTls(Option<TlsFiles>),
    /// Set the limit of zones without a limit of their own.
    SetDefaultZoneLimit(Option<u32>),
    /// Replace a zone's policy.
    SetZone {
        /// The zone.
        zone: Zone,
        /// Its policy.
        policy: ZonePolicy,
    },
    /// Reset a zone to the defaults.
    RemoveZone(Zone),
    /// Close a port's interfaces and remove the port.
    RemovePort {
        /// The bridge.
        bridge: String,
        /// The port.
        port: String,
    },
    /// Remove a bridge, whose ports have been removed.
    RemoveBridge(String),
    /// Add a bridge without ports, not even LOCAL.
    AddBridge {
        /// Its name.
        bridge: String,
        /// Its settings.
        settings: BridgeSettings,
    },
    /// Change a bridge's settings.
    ConfigureBridge {
        /// Its name.
        bridge: String,
        /// All of its settings.
        settings: BridgeSettings,
    },
    /// Add a port and open its interfaces.
    AddPort {
        /// The bridge.
        bridge: String,
        /// The port.
        port: Port,
    },
    /// Change a port, whose interfaces stay open.
    ConfigurePort {
        /// The bridge.
        bridge: String,
        /// The port.
        port: Port,
    },
}

impl Change {
    /// Returns the name of the port that is added, if one is.
    pub fn added_port(&self) -> Option<String> {
        match self {
            Change::AddPort { port, .. } => Some(port.name.clone()),
            _ => None,
        }
    }
}

/// Returns the changes that lead from `old` to `new`; empty if they are equal.
///
/// They can be applied in order. Removals come first, so that devices and port numbers are free; bridges come
/// before ports, and ports in Open vSwitch's order: LOCAL, ports that request a number, other ports (ovs:
/// `vswitchd/bridge.c`, `bridge_add_ports`), and patches last, when both of their bridges exist.
#[must_use]
pub fn difference(old: &Desired, new: &Desired) -> Vec<Change> {
    let mut changes = Vec::new();
    let numbers = Numbers::of(old, new);
    removals(old, new, &numbers, &mut changes);
    if old.options != new.options {
        changes.push(Change::SetOptions(new.options.clone()));
    }
    if old.tls != new.tls {
        changes.push(Change::SetTls(new.tls.clone()));
    }
    zones(old, new, &mut changes);
    for (name, bridge) in &new.bridges {
        let (bridge, settings) = (name.clone(), &bridge.settings);
        match old.bridges.get(name) {
            None => changes.push(Change::AddBridge { bridge, settings: settings.clone() }),
            Some(before) if before.settings != *settings => {
                changes.push(Change::ConfigureBridge { bridge, settings: settings.clone() });
            }
            Some(_) => {}
        }
    }
    let mut ports: Vec<(&String, &Port)> = ports_of(new).collect();
    ports.sort_by_key(|(bridge, port)| order_of(bridge, port));
    // A port that stays releases its number before another one requests it.
    let mut added = Vec::new();
    for (bridge, port) in ports {
        let (before, bridge) = (port_of(old, bridge, &port.name), bridge.clone());
        match before {
            Some(before) if before.has_same_interfaces(port) && !numbers.moves(&bridge, port) => {
                if before != port {
                    changes.push(Change::ConfigurePort { bridge, port: port.clone() });
                }
            }
            _ => added.push(Change::AddPort { bridge, port: port.clone() }),
        }
    }
    changes.extend(added);
    changes
}

fn removals(old: &Desired, new: &Desired, numbers: &Numbers<'_>, changes: &mut Vec<Change>) {
    let stays = |(bridge, port): &(&String, &Port)| {
        let after = port_of(new, bridge, &port.name);
        let after = after.filter(|after| port.has_same_interfaces(after));
        after.is_some_and(|after| !numbers.moves(bridge, after))
    };
    let mut ports: Vec<_> = ports_of(old).filter(|port| !stays(port)).collect();
    ports.sort_by_key(|(bridge, port)| std::cmp::Reverse(order_of(bridge, port)));
    for (bridge, port) in ports {
        let (bridge, port) = (bridge.clone(), port.name.clone());
        changes.push(Change::RemovePort { bridge, port });
    }
    let gone = old.bridges.keys().filter(|name| !new.bridges.contains_key(*name));
    changes.extend(gone.cloned().map(Change::RemoveBridge));
}

/// The OpenFlow port numbers of a configuration, by bridge (ovs: `vswitchd/bridge.c`,
/// `bridge_delete_or_reconfigure_ports`).
struct Numbers<'a> {
    /// Numbers in use.
    taken: BTreeSet<(&'a str, OfPort)>,
    /// Numbers that their port loses, because it does not request them and another port does. A new port
    /// takes no number from another, nor does a port whose request is unchanged, so numbers change only with
    /// the configuration.
    lost: BTreeSet<(&'a str, OfPort)>,
}

impl<'a> Numbers<'a> {
    fn of(old: &Desired, new: &'a Desired) -> Self {
        let has_number = |(bridge, interface): (&'a str, &'a Interface)| {
            Some((bridge, interface.ofport_hint.0?, interface))
        };
        let before: BTreeMap<&str, Option<OfPort>> =
            interfaces_of(old).map(|(_, it)| (it.name.as_str(), it.ofport_request)).collect();
        let asks_anew = |it: &Interface| {
            before.get(it.name.as_str()).is_some_and(|before| *before != it.ofport_request)
        };
        let with_numbers: Vec<_> = interfaces_of(new).filter_map(has_number).collect();
        let holders: BTreeMap<_, _> =
            with_numbers.iter().map(|&(bridge, has, it)| ((bridge, has), it)).collect();
        let lost = with_numbers.iter().filter_map(|&(bridge, has, it)| {
            let wanted = it.ofport_request.filter(|wanted| *wanted != has)?;
            let holder = holders.get(&(bridge, wanted))?;
            let takes = holder.ofport_request != Some(wanted);
            (takes && (asks_anew(it) || asks_anew(holder))).then_some((bridge, wanted))
        });
        let lost = lost.collect();
        Numbers { lost, taken: holders.into_keys().collect() }
    }

    /// Returns whether a port gets another number: it loses its own, or the one that it requests is
    /// available.
    fn moves(&self, bridge: &str, port: &Port) -> bool {
        let can_have = |wanted: OfPort| {
            let place = (bridge, wanted);
            self.lost.contains(&place) || !self.taken.contains(&place)
        };
        port.interfaces.iter().any(|interface| {
            let Some(has) = interface.ofport_hint.0 else { return false };
            let wanted = interface.ofport_request.filter(|wanted| *wanted != has);
            self.lost.contains(&(bridge, has)) || wanted.is_some_and(can_have)
        })
    }
}

fn zones(old: &Desired, new: &Desired, changes: &mut Vec<Change>) {
    if old.default_zone_limit != new.default_zone_limit {
        changes.push(Change::SetDefaultZoneLimit(new.default_zone_limit));
    }
    let gone = old.zones.keys().filter(|zone| !new.zones.contains_key(zone));
    changes.extend(gone.copied().map(Change::RemoveZone));
    for (zone, policy) in &new.zones {
        if old.zones.get(zone) != Some(policy) {
            changes.push(Change::SetZone { zone: *zone, policy: policy.clone() });
        }
    }
}

/// Returns all ports with their bridges, both sorted by name.
fn ports_of(desired: &Desired) -> impl Iterator<Item = (&String, &Port)> {
    desired
        .bridges
        .iter()
        .flat_map(|(name, bridge)| bridge.ports.values().map(move |port| (name, port)))
}

/// Returns all interfaces with their bridges.
fn interfaces_of(desired: &Desired) -> impl Iterator<Item = (&str, &Interface)> {
    ports_of(desired)
        .flat_map(|(bridge, port)| port.interfaces.iter().map(move |it| (bridge.as_str(), it)))
}

fn port_of<'a>(desired: &'a Desired, bridge: &str, port: &str) -> Option<&'a Port> {
    desired.bridges.get(bridge)?.ports.get(port)
}

/// Returns a port's rank: ports with a lower rank are added first.
fn order_of(bridge: &str, port: &Port) -> u8 {
    let is_patch = |one: &Interface| matches!(one.kind, InterfaceKind::Patch { .. });
    match port.interfaces.first() {
        _ if port.name == bridge => 0,
        Some(one) if one.ofport_request.is_some() => 1,
        Some(one) if is_patch(one) => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests;
