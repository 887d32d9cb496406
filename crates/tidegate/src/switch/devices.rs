//! The datapath's ports: which device is open under which number, and which worker receives it.

use super::worker_thread::{WorkerCommand, WorkerMode, WorkerThread};
use base::{PortNo, WorkerId};
use port::PortError;
use port_dpdk::{DpdkConfig, DpdkPort};
use port_linux::{LinkInfo, Links, PacketPort, TapKind, TapPort};
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
    /// A TAP device shared with somebody else (`type=tap`).
    Tap,
    /// A device of DPDK's (`type=dpdk`), or a guest behind vhost-user.
    Dpdk,
}

impl DeviceKind {
    /// The name as `dpctl/show` prints it, `None` for what it leaves out.
    pub fn label(self) -> Option<&'static str> {
        match self {
            DeviceKind::System => None,
            // The netdev datapath's internal ports are TAP devices, and Open vSwitch says so.
            DeviceKind::Internal | DeviceKind::Tap => Some("tap"),
            DeviceKind::Dpdk => Some("dpdk"),
        }
    }
}

enum Handle {
    Packet(PacketPort),
    Tap(TapPort),
    Dpdk(DpdkPort),
}

/// A port that is open.
pub struct OpenDevice {
    /// The device's name.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// The worker that receives from it, `None` once the device failed.
    pub worker: Option<WorkerId>,
    handle: Handle,
}

/// All open ports.
pub struct Devices {
    links: Links,
    open: BTreeMap<PortNo, OpenDevice>,
}

impl Devices {
    /// No ports yet, in the network namespace of the calling thread.
    pub fn new() -> Result<Self, PortError> {
        Ok(Devices { links: Links::open()?, open: BTreeMap::new() })
    }

    /// Opens a device under the lowest free number and hands its queues to the workers. Only
    /// DPDK's have a configuration.
    pub fn open(
        &mut self,
        name: &str,
        kind: DeviceKind,
        dpdk: Option<&DpdkConfig>,
        workers: &[WorkerThread],
    ) -> Result<PortNo, PortError> {
        let handle = match (kind, dpdk) {
            (DeviceKind::Dpdk, Some(config)) => {
                Handle::Dpdk(DpdkPort::open(name, config, workers.len() as u16)?)
            }
            (DeviceKind::System | DeviceKind::Dpdk, _) => Handle::Packet(PacketPort::open(name)?),
            (DeviceKind::Internal, _) => Handle::Tap(TapPort::open(name, TapKind::Internal)?),
            (DeviceKind::Tap, _) => Handle::Tap(TapPort::open(name, TapKind::Tap)?),
        };
        let number = (1..).map(PortNo).find(|n| !self.open.contains_key(n)).unwrap_or_default();
        let device = OpenDevice { name: name.to_owned(), kind, worker: None, handle };
        self.open.insert(number, device);
        match self.attach(number, workers) {
            Ok(()) => Ok(number),
            Err(error) => {
                self.open.remove(&number);
                Err(error)
            }
        }
    }

    /// Hands a port's queues to the workers: a transmit queue to each, the receive queue to the
    /// one that serves the fewest ports.
    fn attach(&mut self, number: PortNo, workers: &[WorkerThread]) -> Result<(), PortError> {
        let owner = self.least_loaded(workers);
        let Some(device) = self.open.get_mut(&number) else { return Ok(()) };
        if let Handle::Dpdk(dpdk) = &mut device.handle {
            dpdk.set_tx_queues(workers.len() as u16)?;
        }
        for worker in workers {
            let tx: Box<dyn port::TxQueue> = match &device.handle {
                Handle::Packet(packet) => Box::new(packet.tx()?),
                Handle::Tap(tap) => Box::new(tap.tx()?),
                Handle::Dpdk(dpdk) => Box::new(dpdk.tx()?),
            };
            worker.send(WorkerCommand::AddTx(number, tx));
        }
        if let Some(owner) = owner {
            let rx: Box<dyn port::RxQueue> = match &device.handle {
                Handle::Packet(packet) => Box::new(packet.rx()?),
                Handle::Tap(tap) => Box::new(tap.rx()?),
                Handle::Dpdk(dpdk) => Box::new(dpdk.rx(0)?),
            };
            device.worker = Some(owner.id);
            owner.send(WorkerCommand::AddRx(number, rx));
        }
        // Further queues go to the other workers in turn, from the owner on.
        if let (Handle::Dpdk(dpdk), Some(first)) = (&device.handle, owner) {
            let others = workers.iter().cycle().skip_while(|w| w.id != first.id).skip(1);
            for (queue, worker) in (1..dpdk.rx_queues()).zip(others) {
                worker.send(WorkerCommand::AddRx(number, Box::new(dpdk.rx(queue)?)));
            }
        }
        Ok(())
    }

    /// Hands every port to a new set of workers.
    pub fn attach_all(&mut self, workers: &[WorkerThread]) -> Vec<(PortNo, PortError)> {
        self.open.values_mut().for_each(|device| device.worker = None);
        let numbers: Vec<PortNo> = self.open.keys().copied().collect();
        let attached = numbers.into_iter().map(|n| (n, self.attach(n, workers)));
        attached.filter_map(|(n, result)| result.err().map(|error| (n, error))).collect()
    }

    /// Closes a port, and waits until its workers have. An internal device goes from the system
    /// where `remove` says so.
    pub fn close(&mut self, number: PortNo, remove: bool, workers: &[WorkerThread]) {
        let Some(device) = self.open.remove(&number) else { return };
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
            && let Err(error) = tap.remove()
        {
            log::warn!(target: "netdev_linux", "{error}");
        }
    }

    /// A port.
    pub fn get(&self, number: PortNo) -> Option<&OpenDevice> {
        self.open.get(&number)
    }

    /// All ports, by number.
    pub fn iter(&self) -> impl Iterator<Item = (PortNo, &OpenDevice)> {
        self.open.iter().map(|(number, device)| (*number, device))
    }

    /// The number of an open device.
    pub fn number_of(&self, name: &str) -> Option<PortNo> {
        self.open.iter().find(|(_, device)| device.name == name).map(|(number, _)| *number)
    }

    /// What the system says of a device; counters as the switch sees them, which for its own
    /// devices is the other way round from how the kernel does.
    pub fn link(&mut self, name: &str) -> Result<LinkInfo, PortError> {
        if let Some(dpdk) = self.dpdk(name) {
            return super::dpdk::link_info(name, dpdk);
        }
        let mut info = self.links.by_name(name)?;
        let own = self.open.values().any(|d| d.name == name && d.kind != DeviceKind::System);
        if own {
            info.statistics = info.statistics.seen_from_switch();
        }
        Ok(info)
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
        match self.dpdk(name) {
            Some(dpdk) => dpdk.set_up(up),
            None => self.links.set_up(name, up),
        }
    }

    /// A port's counters in OpenFlow's order; none where the device is gone.
    pub fn counters(&mut self, number: PortNo) -> [Option<u64>; 12] {
        let name = self.open.get(&number).map(|device| device.name.clone());
        let Some(link) = name.and_then(|name| self.link(&name).ok()) else { return [None; 12] };
        let s = link.statistics;
        [
            s.rx_packets,
            s.tx_packets,
            s.rx_bytes,
            s.tx_bytes,
            s.rx_dropped,
            s.tx_dropped,
            s.rx_errors,
            s.tx_errors,
            s.rx_frame_err,
            s.rx_over_err,
            s.rx_crc_err,
            s.collisions,
        ]
        .map(Some)
    }

    /// Sets a device's address, MTU, or brings it up.
    pub fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// The worker with the fewest ports; polling workers serve no port of these kinds while there
    /// is a sleeping one.
    fn least_loaded<'a>(&self, workers: &'a [WorkerThread]) -> Option<&'a WorkerThread> {
        let load = |w: &&WorkerThread| {
            let ports = self.open.values().filter(|d| d.worker == Some(w.id)).count();
            (w.mode != WorkerMode::Sleeping, ports)
        };
        workers.iter().min_by_key(load)
    }
}
