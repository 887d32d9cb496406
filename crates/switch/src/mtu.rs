//! The MTU of internal devices: the smallest of the bridge's other ports, so that packets sent through them
//! fit into these (ovs: `ofproto/ofproto.c`, `update_mtu`).

use super::Switch;
use super::device_kind::DeviceKind;
use std::collections::BTreeMap;

/// The MTU in a bridge without other ports (ovs: `ETH_PAYLOAD_MAX`).
const ALONE: u32 = 1500;

/// A port's device.
struct Device {
    name: String,
    mtu: u32,
    /// Whether the switch sets its MTU: it is an internal device without a configured MTU.
    follows: bool,
}

impl Switch {
    /// Updates the MTU of such devices if a bridge's smallest MTU changed, and reduces larger ones. A smaller
    /// MTU that a user set is kept.
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
            if matches!(kind, DeviceKind::Pcap | DeviceKind::Tunnel(_))
                || kind.has_no_kernel_device()
            {
                continue;
            }
            let Ok(link) = self.devices.link(&name) else { continue };
            let is_made =
                matches!(kind, DeviceKind::Internal | DeviceKind::Tap | DeviceKind::DummyInternal);
            let is_named = self.devices.expect_named(&name).is_ok();
            let follows = is_made && is_named && asked.is_none();
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
