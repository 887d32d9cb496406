//! The MTU of the devices that the switch makes: the smallest of the bridge's other ports, so that what
//! the system sends through them fits all of these (ovs: `ofproto/ofproto.c`, `update_mtu`).

use super::Switch;
use super::devices::DeviceKind;
use std::collections::BTreeMap;

/// That of a bridge without other ports (ovs: `ETH_PAYLOAD_MAX`).
const ALONE: u32 = 1500;

/// A port's device.
struct Device {
    name: String,
    mtu: u32,
    /// The switch chooses its MTU: it made the device, and none is asked for.
    follows: bool,
}

impl Switch {
    /// Gives the devices that follow theirs where a bridge's smallest MTU changed, and lowers those
    /// that are larger. One that a user made smaller by hand stays so.
    pub fn follow_mtus(&mut self) {
        let mut bridges: BTreeMap<String, Vec<Device>> = BTreeMap::new();
        let names: Vec<String> = self.configured.interfaces.keys().cloned().collect();
        for name in names {
            let Some(running) = self.configured.interfaces.get(&name) else { continue };
            let (bridge, asked) = (running.bridge.clone(), running.interface.mtu_request);
            let Some(handle) = running.device.and_then(|number| self.devices.get(number)) else {
                continue;
            };
            let kind = handle.kind;
            if matches!(kind, DeviceKind::Pcap | DeviceKind::Dpdk | DeviceKind::Tunnel(_)) {
                continue;
            }
            let Ok(link) = self.devices.link(&name) else { continue };
            let is_made =
                matches!(kind, DeviceKind::Internal | DeviceKind::Tap | DeviceKind::DummyInternal);
            let follows = is_made && asked.is_none();
            bridges.entry(bridge).or_default().push(Device { name, mtu: link.mtu, follows });
        }
        for (bridge, devices) in bridges {
            let others = devices.iter().filter(|device| !device.follows);
            let least = others.map(|device| device.mtu).min().unwrap_or(ALONE);
            let before = self.configured.mtus.insert(bridge, least).unwrap_or(ALONE);
            for Device { name, mtu, .. } in devices.iter().filter(|device| device.follows) {
                let is_wrong = if before == least { *mtu > least } else { *mtu != least };
                if is_wrong && let Err(error) = self.devices.set_mtu(name, least) {
                    log::warn!(target: "bridge", "{error}");
                }
            }
        }
    }
}
