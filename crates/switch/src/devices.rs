//! The datapath's ports: which device is open under which number. Which worker receives from it
//! is told in [`super::rxq`].

use super::device_handle::{Handle, dpdk_queues};
use super::dummy::{self, Dummy};
use super::rxq::{RxqPlace, Rxqs};
use super::worker_ports::RxSlot;
use super::worker_thread::{WorkerCommand, WorkerThread};
use base::PortNo;
use control::{Interface, InterfaceKind};
use flow::TunnelKind;
use port::{PcapOptions, PortError};
use port_afxdp::XdpOptions;
use port_dpdk::{DpdkConfig, DpdkPort};
use port_linux::{Links, TapPort, numa};
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

/// How long workers are given to close a port's queues.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// What a datapath port is to be made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// A device that is there (`type=system`).
    System,
    /// A device of the switch's own (`type=internal`).
    Internal,
    /// A TAP device shared with another program (`type=tap`).
    Tap,
    /// A device that is there, through AF_XDP (`type=afxdp`).
    Afxdp,
    /// No device, but files (`type=pcap`).
    Pcap,
    /// A device of DPDK's (`type=dpdk`), or a guest behind vhost-user.
    Dpdk,
    /// No device: frames are put in by command (`type=dummy`).
    Dummy,
    /// The local port of a bridge of such ports.
    DummyInternal,
    /// The same, with several queues.
    DummyPmd,
    /// The end of tunnels of one kind.
    Tunnel(TunnelKind),
}

impl DeviceKind {
    /// What the port of an interface is to be made of; `None` for patches and the ends of tunnels.
    ///
    /// # Errors
    /// The interface is refused, in the words that `ovs-vsctl` shows.
    pub fn of(
        interface: &Interface,
        is_local: bool,
        dummy: Dummy,
    ) -> Result<Option<DeviceKind>, String> {
        Ok(Some(match &interface.kind {
            InterfaceKind::Refused { error } => return Err(error.clone()),
            InterfaceKind::Patch { .. } | InterfaceKind::Tunnel(_) => return Ok(None),
            InterfaceKind::Dummy | InterfaceKind::DummyPmd if !dummy.is_enabled() => {
                return Err(dummy::refusal(&interface.name));
            }
            InterfaceKind::Dummy if is_local => DeviceKind::DummyInternal,
            InterfaceKind::Dummy => DeviceKind::Dummy,
            InterfaceKind::DummyPmd => DeviceKind::DummyPmd,
            InterfaceKind::System if dummy.replaces_system() => DeviceKind::Dummy,
            InterfaceKind::Internal if dummy.is_enabled() => DeviceKind::DummyInternal,
            _ if dummy.replaces_all() => DeviceKind::Dummy,
            InterfaceKind::System => DeviceKind::System,
            InterfaceKind::Internal => DeviceKind::Internal,
            InterfaceKind::Tap => DeviceKind::Tap,
            InterfaceKind::Afxdp => DeviceKind::Afxdp,
            InterfaceKind::Pcap => DeviceKind::Pcap,
            InterfaceKind::Dpdk
            | InterfaceKind::DpdkVhostUserClient
            | InterfaceKind::DpdkVhostUser => DeviceKind::Dpdk,
        }))
    }

    /// The name as `dpctl/show` prints it, `None` for what it leaves out.
    pub fn label(self) -> Option<&'static str> {
        match self {
            DeviceKind::System => None,
            // The netdev datapath's internal ports are TAP devices, and Open vSwitch says so.
            DeviceKind::Internal | DeviceKind::Tap => Some("tap"),
            DeviceKind::Afxdp => Some("afxdp"),
            DeviceKind::Pcap => Some("pcap"),
            DeviceKind::Dpdk => Some("dpdk"),
            DeviceKind::Dummy => Some("dummy"),
            DeviceKind::DummyInternal => Some("dummy-internal"),
            DeviceKind::DummyPmd => Some("dummy-pmd"),
            DeviceKind::Tunnel(kind) => Some(kind.name()),
        }
    }

    /// Whether the system has a device for it, or can have.
    pub fn is_of_system(self) -> bool {
        !matches!(self, DeviceKind::Pcap | DeviceKind::Dpdk | DeviceKind::Tunnel(_))
            && !self.is_dummy()
    }

    /// Whether it is a port for tests.
    pub fn is_dummy(self) -> bool {
        matches!(self, DeviceKind::Dummy | DeviceKind::DummyInternal | DeviceKind::DummyPmd)
    }
}

/// A port that is open.
pub struct OpenDevice {
    /// The device's name.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Its receive queues.
    pub queues: Vec<RxqPlace>,
    /// Counts up, so that what is told of a port that was closed is not taken for another's.
    pub opening: u64,
    /// The node of memory of its device.
    pub numa: u16,
    pub(super) handle: Handle,
}

impl OpenDevice {
    /// How `dpctl/show` and `dpif/show` call it, `None` for what the first leaves out.
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

    /// The port for tests, if it is one.
    pub fn dummy(&self) -> Option<&port_dummy::DummyPort> {
        if let Handle::Dummy(dummy) = &self.handle { Some(dummy) } else { None }
    }

    /// Gives a device that has a transmit queue for each worker as many as there are now. It stands
    /// still for that, so its receive queues are handed in and taken anew.
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
    /// How many ports have been opened.
    openings: u64,
    /// Devices of our own that are not used any more.
    doomed: Vec<TapPort>,
    /// Numbers that devices are to have, by name.
    wishes: BTreeMap<String, PortNo>,
}

impl Devices {
    /// No ports yet, in the network namespace of the calling thread.
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

    /// Opens a device under the lowest free number and hands its queues to the workers. Only
    /// DPDK's have a configuration.
    pub fn open(
        &mut self,
        interface: &Interface,
        kind: DeviceKind,
        dpdk: Option<&DpdkConfig>,
        workers: &[WorkerThread],
    ) -> Result<PortNo, PortError> {
        self.open_at(None, interface, kind, dpdk, workers)
    }

    /// The same under a number that no port has.
    pub fn open_at(
        &mut self,
        number: Option<PortNo>,
        interface: &Interface,
        kind: DeviceKind,
        dpdk: Option<&DpdkConfig>,
        workers: &[WorkerThread],
    ) -> Result<PortNo, PortError> {
        // It may be one of those, by its name.
        self.remove_doomed();
        let (handle, rx) = Handle::open(interface, kind, dpdk, workers.len())?;
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
        self.open.insert(number, OpenDevice { name, kind, queues, opening, numa, handle });
        self.pin(number, &interface.rxq_affinity);
        let slots =
            (0..).zip(rx).map(|(queue, rx)| RxSlot::new(number, opening, queue, rx)).collect();
        self.hand_out(slots, workers);
        Ok(number)
    }

    /// Has a device that is opened from now on have this number, where that is free.
    pub fn wish(&mut self, name: &str, number: PortNo) {
        self.wishes.insert(name.to_owned(), number);
    }

    /// Opens the end of tunnels, which has no queues, under the lowest free number.
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
            handle: Handle::Tunnel,
        };
        self.open.insert(number, device);
        number
    }

    /// The number that is wanted, or else the lowest, that no port has.
    fn free_number(&self, wanted: Option<PortNo>) -> PortNo {
        let is_free = |number: &PortNo| number.0 > 0 && !self.open.contains_key(number);
        wanted.into_iter().chain((1..).map(PortNo)).find(is_free).unwrap_or_default()
    }

    /// Hands every port to a new set of workers, with the receive queues that the old ones had.
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

    /// Closes a port, and waits until its workers have. An internal device goes from the system
    /// where `remove` says so, at the latest with [`Self::remove_doomed`].
    pub fn close(&mut self, number: PortNo, remove: bool, workers: &[WorkerThread]) {
        let Some(device) = self.open.remove(&number) else { return };
        self.rxqs.forget(number);
        let (done, closed) = mpsc::channel();
        for worker in workers {
            worker.send(WorkerCommand::RemovePort(number, done.clone()));
        }
        drop(done);
        // Nothing is ever sent: the channel ends when the last worker is through.
        if closed.recv_timeout(CLOSE_TIME) == Err(mpsc::RecvTimeoutError::Timeout) {
            log::warn!(target: "dpif_netdev", "{}: a worker is slow to close it", device.name);
        }
        if let (Handle::Tap(tap), true) = (device.handle, remove)
            && device.kind == DeviceKind::Internal
        {
            self.doomed.push(tap);
        }
    }

    /// Takes the devices of closed internal ports from the system, all at once: each by itself would
    /// keep the control thread for 20 ms.
    pub fn remove_doomed(&mut self) {
        let doomed = std::mem::take(&mut self.doomed);
        let names: Vec<&str> = doomed.iter().map(TapPort::device).collect();
        if names.len() > 1 && self.links.remove_all(&names).is_ok() {
            return;
        }
        for tap in doomed {
            if let Err(error) = tap.remove() {
                log::warn!(target: "netdev_linux", "{error}");
            }
        }
    }

    /// A port.
    pub fn get(&self, number: PortNo) -> Option<&OpenDevice> {
        self.open.get(&number)
    }

    /// Whether a port is still the one that was opened so.
    pub fn is_open(&self, number: PortNo, opening: u64) -> bool {
        self.open.get(&number).is_some_and(|device| device.opening == opening)
    }

    /// Whether a port has to be opened anew for its device's MTU.
    pub fn is_outgrown(&self, number: PortNo, mtu: u32) -> bool {
        let handle = self.open.get(&number).map(|device| &device.handle);
        matches!(handle, Some(Handle::Xdp(xdp)) if mtu > xdp.mtu_max())
    }

    /// A port, to be changed.
    pub(super) fn get_mut(&mut self, number: PortNo) -> Option<&mut OpenDevice> {
        self.open.get_mut(&number)
    }

    /// All ports, by number.
    pub fn iter(&self) -> impl Iterator<Item = (PortNo, &OpenDevice)> {
        self.open.iter().map(|(number, device)| (*number, device))
    }

    /// The number of an open device.
    pub fn number_of(&self, name: &str) -> Option<PortNo> {
        self.open.iter().find(|(_, device)| device.name == name).map(|(number, _)| *number)
    }

    /// The DPDK port of that name, if it is one.
    pub fn dpdk(&self, name: &str) -> Option<&DpdkPort> {
        self.open.values().find_map(|device| match &device.handle {
            Handle::Dpdk(dpdk) if device.name == name => Some(dpdk),
            _ => None,
        })
    }

    /// Brings a device up or down.
    pub fn set_up(&mut self, name: &str, up: bool) -> Result<(), PortError> {
        match (self.dpdk(name), self.dummy(name)) {
            (Some(dpdk), _) => dpdk.set_up(up),
            (_, Some(dummy)) => {
                dummy.set_up(up);
                Ok(())
            }
            _ => self.links.set_up(name, up),
        }
    }
}

/// What is wrong with the options of a bridge's interfaces.
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
    // Nothing is sent to the end of a tunnel.
    let workers = if matches!(handle, Handle::Tunnel) { &[] } else { workers };
    for (index, worker) in workers.iter().enumerate() {
        worker.send(WorkerCommand::AddTx(number, handle.tx(index)?));
    }
    Ok(())
}
