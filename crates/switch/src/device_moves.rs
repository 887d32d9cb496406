//! Ports whose devices are renamed, moved and removed while the switch runs: the ports stay (ovs: `lib/netdev-linux.c`,
//! `netdev_linux_update__`).

use super::device_handle::Handle;
use super::device_kind::DeviceKind;
use super::device_place::Place;
use super::devices::Devices;
use super::worker_thread::WorkerThread;
use base::PortNo;
use port::PortError;
use port_linux::{LinkInfo, TapPlace, TapPort};

impl Devices {
    /// Returns where a port's device is.
    pub fn place(&self, number: PortNo) -> Option<Place> {
        self.open.get(&number).map(|device| device.place)
    }

    /// Returns an error if the device of a port with this name is not here under this name: what is done by name would
    /// then concern another device.
    pub(super) fn expect_named(&self, name: &str) -> Result<(), PortError> {
        let open = self.open.values().find(|device| device.name == name);
        match open.map(|device| device.place) {
            None | Some(Place::Named) => Ok(()),
            Some(_) => Err(PortError::Gone { device: name.to_owned() }),
        }
    }

    /// Returns the name of the port whose device has this index under another name.
    pub fn renamed(&self, ifindex: u32) -> Option<&str> {
        let mut renamed = self.open.values().filter(|device| device.place == Place::Renamed);
        renamed.find(|device| device.ifindex == ifindex).map(|device| device.name.as_str())
    }

    /// Records that the device with this index has lost the port's name.
    pub fn rename(&mut self, number: PortNo, ifindex: u32) {
        if let Some(device) = self.open.get_mut(&number).filter(|it| it.ifindex == ifindex) {
            device.place = Place::Renamed;
        }
    }

    /// Records that a port's device with this index, or with any, has left. Returns whether that concerns the port.
    pub fn leave(
        &mut self,
        number: PortNo,
        ifindex: Option<u32>,
        workers: &[WorkerThread],
    ) -> bool {
        let Some(device) = self.open.get_mut(&number) else { return false };
        if !device.kind.is_of_system() || ifindex.is_some_and(|it| it != device.ifindex) {
            return false;
        }
        if let Handle::Tap(tap) = &device.handle
            && place_of(tap) != TapPlace::Removed
        {
            device.place = Place::Elsewhere;
            keep(device.kind, tap, false);
            return true;
        }
        device.place = Place::Gone;
        device.handle = Handle::Gone;
        device.queues.clear();
        let name = device.name.clone();
        self.close_queues(number, &name, workers);
        true
    }

    /// Records a device that is here under the name of a port, or under another one. Returns whether the port has to
    /// be opened again, for that device.
    pub fn arrive(&mut self, number: PortNo, link: &LinkInfo) -> bool {
        let Some(device) = self.open.get_mut(&number) else { return false };
        let is_named = device.name == link.name;
        match &device.handle {
            // An announcement from before the device left may be late.
            Handle::Gone => {
                is_named
                    && matches!(device.kind, DeviceKind::System | DeviceKind::Afxdp)
                    && self.links.by_name(&link.name).is_ok()
            }
            Handle::Tap(_) | Handle::Packet(_) | Handle::Xdp(_)
                if device.ifindex == link.ifindex && device.place != Place::Elsewhere =>
            {
                device.place = if is_named { Place::Named } else { Place::Renamed };
                false
            }
            Handle::Tap(tap) => {
                if is_named && place_of(tap) == TapPlace::Here(link.name.clone()) {
                    (device.place, device.ifindex) = (Place::Named, link.ifindex);
                    keep(device.kind, tap, true);
                }
                false
            }
            // Another device has taken the name of one that was renamed.
            Handle::Packet(_) | Handle::Xdp(_) => is_named,
            _ => false,
        }
    }
}

/// Returns where a TAP device is. If the kernel does not tell, announcements of the port's name count.
fn place_of(tap: &TapPort) -> TapPlace {
    tap.place().unwrap_or_else(|error| {
        log::warn!(target: "netdev_linux", "{error}");
        TapPlace::Here(tap.device().to_owned())
    })
}

/// An internal device outlives the switch in the switch's own network namespace. In another one, where the next switch
/// does not find it, it ends with the switch, as in Open vSwitch.
fn keep(kind: DeviceKind, tap: &TapPort, keeps: bool) {
    if kind == DeviceKind::Internal
        && let Err(error) = tap.keep(keeps)
    {
        log::warn!(target: "netdev_linux", "{error}");
    }
}
