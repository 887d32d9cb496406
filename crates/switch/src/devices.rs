//! The datapath's ports: open devices by number. [`super::rxq`] assigns their receive queues to workers.

use super::device_handle::{DeviceConfig, Handle, dpdk_queues};
use super::device_kind::DeviceKind;
use super::device_place::Place;
use super::dummy::{self, Dummy};
use super::rxq_places::{RxqPlace, Rxqs};
use super::worker_messages::WorkerCommand;
use super::worker_ports::RxSlot;
use super::worker_thread::WorkerThread;
use base::PortNo;
use control::{Interface, InterfaceKind};
use flow::TunnelKind;
use port::{PcapOptions, PortError};
use port_afxdp::XdpOptions;
use port_dpdk::DpdkPort;
use port_linux::{Links, TapPort, numa};
use port_vhost::VhostPort;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

/// How long workers may take to close a port's queues.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// A port that is open.
pub struct OpenDevice {
    /// The device's name.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Its receive queues.
    pub queues: Vec<RxqPlace>,
    /// The number of the opening, by which events of a closed port are recognised.
    pub opening: u64,
    /// The NUMA node of its device.
    pub numa: u16,
    /// The index of its device, if it is one of the system.
    pub(super) ifindex: u32,
    /// Where its device is.
    pub(super) place: Place,
    pub(super) handle: Handle,
}

impl OpenDevice {
    /// Returns its type in `dpctl/show` and `dpif/show`; `None` if the former omits it.
    pub fn label(&self) -> Option<String> {
        let kind = self.kind.label()?;
        if matches!(self.kind, DeviceKind::Tunnel(_)) {
            return Some(format!("{kind}: packet_type=ptap"));
        }
        let queues = self.dummy().filter(|_| self.kind == DeviceKind::DummyPmd);
        Some(queues.map_or_else(
            || kind.to_owned(),
            |port| format!("{kind}: {}", dummy::describe_queues(port)),
        ))
    }

    /// Returns the dummy port, if it is one.
    pub fn dummy(&self) -> Option<&port_dummy::DummyPort> {
        if let Handle::Dummy(dummy) = &self.handle { Some(dummy) } else { None }
    }

    /// Adapts a device with one transmit queue per worker to the number of workers. This stops the device, so
    /// its receive queues are passed in and created again.
    fn rearrange(
        &mut self,
        number: PortNo,
        slots: &mut Vec<RxSlot>,
        workers: usize,
    ) -> Result<(), PortError> {
        let Handle::Dpdk(dpdk) = &mut self.handle else { return Ok(()) };
        slots.retain(|slot| slot.port != number);
        dpdk.set_tx_queues(workers as u16)?;
        let queues = (0..).zip(dpdk_queues(dpdk)?);
        slots.extend(queues.map(|(queue, rx)| RxSlot::new(number, self.opening, queue, rx)));
        Ok(())
    }
}

/// All open ports.
pub struct Devices {
    pub(super) links: Links,
    pub(super) open: BTreeMap<PortNo, OpenDevice>,
    pub(super) rxqs: Rxqs,
    /// Number of openings so far.
    openings: u64,
    /// Internal devices that are no longer used.
    doomed: Vec<TapPort>,
    /// Requested numbers of devices, by name.
    wishes: BTreeMap<String, PortNo>,
}

impl Devices {
    /// No ports, in the network namespace of the calling thread.
    pub fn new() -> Result<Self, PortError> {
        Ok(Devices {
            links: Links::open()?,
            open: BTreeMap::new(),
            rxqs: Rxqs::default(),
            openings: 0,
            doomed: Vec::new(),
            wishes: BTreeMap::new(),
        })
    }

    /// Opens a device under the lowest free number and assigns its queues to the workers. Only some
    /// kinds have a `config`.
    pub fn open(
        &mut self,
        interface: &Interface,
        kind: DeviceKind,
        config: Option<DeviceConfig>,
        workers: &[WorkerThread],
    ) -> Result<PortNo, PortError> {
        self.open_at(None, interface, kind, config, workers)
    }

    /// Opens a device under a given free number.
    pub fn open_at(
        &mut self,
        number: Option<PortNo>,
        interface: &Interface,
        kind: DeviceKind,
        config: Option<DeviceConfig>,
        workers: &[WorkerThread],
    ) -> Result<PortNo, PortError> {
        // The device may be one of those, by its name.
        self.remove_doomed();
        let (handle, rx) = Handle::open(interface, kind, config, workers.len())?;
        let by_name = kind.is_dummy().then(|| dummy::wanted_number(&interface.name)).flatten();
        let wanted = self.wishes.get(&interface.name).copied().or(by_name);
        let number = number.unwrap_or_else(|| self.free_number(wanted));
        send_through(&handle, number, workers)?;
        let name = interface.name.clone();
        let numa = match &handle {
            Handle::Dummy(dummy) => dummy.options().numa,
            _ if kind.is_of_system() => numa::of_device(&name),
            _ => 0,
        };
        let queues = vec![RxqPlace::default(); rx.len()];
        self.openings += 1;
        let opening = self.openings;
        let link = kind.is_of_system().then(|| self.links.by_name(&name).ok()).flatten();
        let ifindex = link.map_or(0, |link| link.ifindex);
        let place = Place::Named;
        let device = OpenDevice { name, kind, queues, opening, numa, ifindex, place, handle };
        self.open.insert(number, device);
        coverage::count(coverage::Event::PortAdd);
        self.pin(number, &interface.rxq_affinity);
        let slots =
            (0..).zip(rx).map(|(queue, rx)| RxSlot::new(number, opening, queue, rx)).collect();
        self.hand_out(slots, workers);
        Ok(number)
    }

    /// Gives a device that is opened later this number, if it is free.
    pub fn wish(&mut self, name: &str, number: PortNo) {
        self.wishes.insert(name.to_owned(), number);
    }

    /// Opens a tunnel's port, which has no queues, under the lowest free number.
    pub fn open_tunnel(&mut self, name: &str, kind: TunnelKind, dummy: Dummy) -> PortNo {
        let wanted = dummy.is_enabled().then(|| dummy::wanted_number(name)).flatten();
        let number = self.free_number(wanted);
        self.openings += 1;
        let device = OpenDevice {
            name: name.to_owned(),
            kind: DeviceKind::Tunnel(kind),
            queues: Vec::new(),
            opening: self.openings,
            numa: 0,
            ifindex: 0,
            place: Place::Named,
            handle: Handle::Tunnel,
        };
        self.open.insert(number, device);
        number
    }

    /// Returns `wanted` if it is free, or else the lowest free number.
    fn free_number(&self, wanted: Option<PortNo>) -> PortNo {
        let is_free = |number: &PortNo| number.0 > 0 && !self.open.contains_key(number);
        wanted.into_iter().chain((1..).map(PortNo)).find(is_free).unwrap_or_default()
    }

    /// Assigns the queues of every port to new workers, including the receive queues of the old workers.
    pub fn attach_all(
        &mut self,
        mut slots: Vec<RxSlot>,
        workers: &[WorkerThread],
    ) -> Vec<(PortNo, PortError)> {
        let mut failed = Vec::new();
        for (&number, device) in &mut self.open {
            let rearranged = device.rearrange(number, &mut slots, workers.len());
            let sent = rearranged.and_then(|()| send_through(&device.handle, number, workers));
            failed.extend(sent.err().map(|error| (number, error)));
        }
        let places = self.open.values_mut().flat_map(|device| &mut device.queues);
        places.for_each(|place| place.worker = None);
        self.hand_out_anew(slots, workers);
        failed
    }

    /// Closes a port, and waits until its workers have closed its queues. With `remove`, an internal device
    /// is removed from the system, at the latest by [`Self::remove_doomed`].
    pub fn close(&mut self, number: PortNo, remove: bool, workers: &[WorkerThread]) {
        let Some(device) = self.open.remove(&number) else { return };
        coverage::count(coverage::Event::PortDel);
        self.close_queues(number, &device.name, workers);
        if let (Handle::Tap(tap), true) = (device.handle, remove)
            && device.kind == DeviceKind::Internal
        {
            match device.place {
                Place::Named => self.doomed.push(tap),
                _ => remove_tap(tap),
            }
        }
    }

    /// Closes a port's queues, and waits until its workers have.
    pub(super) fn close_queues(&mut self, number: PortNo, name: &str, workers: &[WorkerThread]) {
        self.rxqs.forget(number);
        let (done, closed) = mpsc::channel();
        for worker in workers {
            worker.send(WorkerCommand::RemovePort(number, done.clone()));
        }
        drop(done);
        // No message is sent: the channel closes when the last worker is done.
        if closed.recv_timeout(CLOSE_TIME) == Err(mpsc::RecvTimeoutError::Timeout) {
            log::warn!(target: "dpif_netdev", "{name}: a worker is slow to close it");
        }
    }

    /// Removes the devices of closed internal ports together: removing each separately would block the
    /// control thread for 20 ms.
    pub fn remove_doomed(&mut self) {
        let doomed = std::mem::take(&mut self.doomed);
        let names: Vec<&str> = doomed.iter().map(TapPort::device).collect();
        if names.len() > 1 && self.links.remove_all(&names).is_ok() {
            return;
        }
        doomed.into_iter().for_each(remove_tap);
    }

    /// Returns a port.
    pub fn get(&self, number: PortNo) -> Option<&OpenDevice> {
        self.open.get(&number)
    }

    /// Returns whether a port is still open since this opening.
    pub fn is_open(&self, number: PortNo, opening: u64) -> bool {
        self.open.get(&number).is_some_and(|device| device.opening == opening)
    }

    /// Returns whether a port must be reopened because of its device's MTU.
    pub fn is_outgrown(&self, number: PortNo, mtu: u32) -> bool {
        let handle = self.open.get(&number).map(|device| &device.handle);
        matches!(handle, Some(Handle::Xdp(xdp)) if mtu > xdp.mtu_max())
    }

    /// Returns a port for changes.
    pub(super) fn get_mut(&mut self, number: PortNo) -> Option<&mut OpenDevice> {
        self.open.get_mut(&number)
    }

    /// Returns all ports, by number.
    pub fn iter(&self) -> impl Iterator<Item = (PortNo, &OpenDevice)> {
        self.open.iter().map(|(number, device)| (*number, device))
    }

    /// Returns the number of an open device.
    pub fn number_of(&self, name: &str) -> Option<PortNo> {
        self.open.iter().find(|(_, device)| device.name == name).map(|(number, _)| *number)
    }

    /// Returns the DPDK port with this name, if it is one.
    pub fn dpdk(&self, name: &str) -> Option<&DpdkPort> {
        self.open.values().find_map(|device| match &device.handle {
            Handle::Dpdk(dpdk) if device.name == name => Some(dpdk),
            _ => None,
        })
    }

    /// Returns the guest's port with this name, if it is one.
    pub fn vhost(&self, name: &str) -> Option<&VhostPort> {
        self.open.values().find_map(|device| match &device.handle {
            Handle::Vhost(vhost) if device.name == name => Some(vhost),
            _ => None,
        })
    }

    /// Brings a device up or down.
    pub fn set_up(&mut self, name: &str, up: bool) -> Result<(), PortError> {
        if let Some(vhost) = self.vhost(name) {
            vhost.set_up(up);
            return Ok(());
        }
        match (self.dpdk(name), self.dummy(name)) {
            (Some(dpdk), _) => dpdk.set_up(up),
            (_, Some(dummy)) => {
                dummy.set_up(up);
                Ok(())
            }
            _ => {
                self.expect_named(name)?;
                self.links.set_up(name, up)
            }
        }
    }
}

/// Returns the invalid options of a bridge's interfaces.
pub fn check_options(bridge: &control::Bridge) -> Vec<String> {
    let interfaces = bridge.ports.values().flat_map(|port| &port.interfaces);
    let wrong = |interface: &Interface| {
        let options = &interface.options;
        let reason = match interface.kind {
            InterfaceKind::Afxdp => XdpOptions::parse(options).err(),
            InterfaceKind::Pcap => PcapOptions::parse(options).err(),
            _ => None,
        };
        reason.map(|reason| format!("port \"{}\": {reason}", interface.name))
    };
    interfaces.filter_map(wrong).collect()
}

/// Gives every worker a transmit queue.
fn send_through(
    handle: &Handle,
    number: PortNo,
    workers: &[WorkerThread],
) -> Result<(), PortError> {
    // Nothing is sent to a port without a device.
    let workers = if matches!(handle, Handle::Tunnel | Handle::Gone) { &[] } else { workers };
    for (index, worker) in workers.iter().enumerate() {
        worker.send(WorkerCommand::AddTx(number, handle.tx(index)?));
    }
    Ok(())
}

/// Removes the device of a closed internal port.
fn remove_tap(tap: TapPort) {
    if let Err(error) = tap.remove() {
        log::warn!(target: "netdev_linux", "{error}");
    }
}
