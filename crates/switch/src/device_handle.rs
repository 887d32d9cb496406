//! The open device of a datapath port, of any kind.

use super::device_kind::DeviceKind;
use super::dummy::wire::Connected;
use super::mac_address::random_mac;
use control::Interface;
use port::{PcapOptions, PcapPort, PortError, RxQueue, TxQueue};
use port_afxdp::{XdpOptions, XdpPort};
use port_dpdk::{DpdkConfig, DpdkPort};
use port_dummy::{DummyOptions, DummyPort};
use port_linux::{LinkInfo, PacketPort, TapKind, TapPort};
use port_vhost::{Clocks, VhostConfig, VhostPort};

/// The clocks by which a guest's port judges its notifications.
const CLOCKS: Clocks = Clocks { now: clock::now, thread_time: clock::thread_time };

/// An open device, of any kind.
pub enum Handle {
    Packet(PacketPort),
    Tap(TapPort),
    Xdp(XdpPort),
    /// With the link information that it reports.
    Pcap(PcapPort, Box<LinkInfo>),
    Dpdk(DpdkPort),
    Vhost(VhostPort),
    Dummy(Connected),
    /// A tunnel's port: packets pass through ports of the underlay.
    Tunnel,
    /// The device is gone. The port waits for another one.
    Gone,
}

/// The configuration of a port that is not one of the system, beyond its options.
pub enum DeviceConfig {
    /// Of a DPDK port.
    Dpdk(DpdkConfig),
    /// Of a guest's port, and what is called when the guest's state changes.
    Vhost(VhostConfig, Box<dyn Fn() + Send>),
}

/// All receive queues of a port.
pub type RxQueues = Vec<Box<dyn RxQueue>>;

impl Handle {
    /// Opens an interface. Also returns its receive queues. Only some kinds have a `config`.
    pub fn open(
        interface: &Interface,
        kind: DeviceKind,
        config: Option<DeviceConfig>,
        workers: usize,
    ) -> Result<(Handle, RxQueues), PortError> {
        let name = &interface.name;
        let invalid = |reason| PortError::Invalid { device: name.clone(), reason };
        Ok(match kind {
            DeviceKind::System => {
                let port = PacketPort::open(name)?;
                let rx = port.rx()?;
                (Handle::Packet(port), vec![Box::new(rx)])
            }
            DeviceKind::Internal | DeviceKind::Tap => {
                let own = kind == DeviceKind::Internal;
                let kind = if own { TapKind::Internal } else { TapKind::Tap };
                let port = TapPort::open(name, kind)?;
                let rx = port.rx()?;
                (Handle::Tap(port), vec![Box::new(rx)])
            }
            DeviceKind::Afxdp => {
                let options = XdpOptions::parse(&interface.options).map_err(invalid)?;
                let (port, queues) = XdpPort::open(name, options)?;
                log::info!(
                    target: "netdev_afxdp",
                    "{name}: {} XDP mode will be in use.", port.mode().name()
                );
                if let Some(unused) = port.unused_queues() {
                    log::warn!(
                        target: "netdev_afxdp",
                        "{name}: what arrives at {unused} of its receive queues goes to the \
                         system; raise options:n_rxq, or remove queues (ethtool -L)"
                    );
                }
                let boxed = |rx| Box::new(rx) as Box<dyn RxQueue>;
                (Handle::Xdp(port), queues.into_iter().map(boxed).collect())
            }
            DeviceKind::Pcap => {
                let options = PcapOptions::parse(&interface.options).map_err(invalid)?;
                let port = PcapPort::open(options, clock::since_epoch)?;
                let rx = port.rx();
                (Handle::Pcap(port, Box::new(link_of_files(interface))), vec![Box::new(rx)])
            }
            DeviceKind::Dpdk | DeviceKind::Vhost(_) => match config {
                Some(DeviceConfig::Dpdk(config)) => {
                    let port = DpdkPort::open_or_wait(name, &config, workers as u16)?;
                    let rx = dpdk_queues(&port)?;
                    (Handle::Dpdk(port), rx)
                }
                Some(DeviceConfig::Vhost(config, notify)) => {
                    let (port, queues) = VhostPort::open(name, config, CLOCKS, notify)?;
                    let boxed = |rx| Box::new(rx) as Box<dyn RxQueue>;
                    (Handle::Vhost(port), queues.into_iter().map(boxed).collect())
                }
                None => return Err(invalid("it has no configuration".to_owned())),
            },
            DeviceKind::Dummy | DeviceKind::DummyInternal | DeviceKind::DummyPmd => {
                let options = DummyOptions::parse(&interface.options, kind == DeviceKind::DummyPmd);
                for key in &options.unknown {
                    log::warn!(target: "netdev_dummy", "{name}: options:{key} has no effect");
                }
                let port = DummyPort::open(name, options, clock::since_epoch)?;
                let boxed = |rx| Box::new(rx) as Box<dyn RxQueue>;
                let rx = port.rx().into_iter().map(boxed).collect();
                (Handle::Dummy(Connected::new(name, port)), rx)
            }
            DeviceKind::Tunnel(_) => (Handle::Tunnel, Vec::new()),
        })
    }

    /// Returns a transmit queue for the worker with this number.
    pub fn tx(&self, worker: usize) -> Result<Box<dyn TxQueue>, PortError> {
        Ok(match self {
            Handle::Packet(packet) => Box::new(packet.tx()?),
            Handle::Tap(tap) => Box::new(tap.tx()?),
            Handle::Xdp(xdp) => Box::new(xdp.tx(worker)),
            Handle::Pcap(pcap, _) => Box::new(pcap.tx()),
            Handle::Dpdk(dpdk) => Box::new(dpdk.tx()?),
            Handle::Vhost(vhost) => Box::new(vhost.tx(worker)),
            Handle::Dummy(dummy) => Box::new(dummy.tx()),
            Handle::Tunnel | Handle::Gone => {
                let reason = "nothing is sent to a port without a device".to_owned();
                return Err(PortError::Invalid { device: "tunnel".to_owned(), reason });
            }
        })
    }
}

/// Returns all receive queues of a DPDK port, which must not be in use.
pub fn dpdk_queues(port: &DpdkPort) -> Result<RxQueues, PortError> {
    let queue = |number| Ok(Box::new(port.rx(number)?) as Box<dyn RxQueue>);
    (0..port.rx_queues()).map(queue).collect()
}

/// Returns the link of a port of files: it is always up, and accepts frames of every size.
fn link_of_files(interface: &Interface) -> LinkInfo {
    LinkInfo {
        name: interface.name.clone(),
        is_ethernet: true,
        mac: interface.mac.unwrap_or_else(random_mac),
        mtu: u16::MAX.into(),
        admin_up: true,
        carrier: true,
        ..LinkInfo::default()
    }
}
