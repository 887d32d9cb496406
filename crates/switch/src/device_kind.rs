//! The kinds of datapath ports.

use super::dummy::{self, Dummy};
use control::{Interface, InterfaceKind};
use flow::TunnelKind;
use port_vhost::VhostRole;

/// The kind of a datapath port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// An existing device (`type=system`).
    System,
    /// A device that the switch creates (`type=internal`).
    Internal,
    /// A TAP device shared with another program (`type=tap`).
    Tap,
    /// An existing device, through AF_XDP (`type=afxdp`).
    Afxdp,
    /// Pcap files without a device (`type=pcap`).
    Pcap,
    /// A DPDK device (`type=dpdk`).
    Dpdk,
    /// A guest behind vhost-user (`type=dpdkvhostuserclient`, `type=dpdkvhostuser`).
    Vhost(VhostRole),
    /// No device: commands inject frames (`type=dummy`).
    Dummy,
    /// The local port of a bridge of dummy ports.
    DummyInternal,
    /// As `Dummy`, with several queues.
    DummyPmd,
    /// The port of tunnels of one type.
    Tunnel(TunnelKind),
}

impl DeviceKind {
    /// Returns the kind of an interface; `None` for patches and tunnels.
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
            InterfaceKind::Dpdk => DeviceKind::Dpdk,
            InterfaceKind::DpdkVhostUserClient => DeviceKind::Vhost(VhostRole::Client),
            InterfaceKind::DpdkVhostUser => DeviceKind::Vhost(VhostRole::Server),
        }))
    }

    /// Returns the type in `dpctl/show`; `None` if it is omitted there.
    pub fn label(self) -> Option<&'static str> {
        match self {
            DeviceKind::System => None,
            // As in Open vSwitch, internal ports of the netdev datapath are TAP devices.
            DeviceKind::Internal | DeviceKind::Tap => Some("tap"),
            DeviceKind::Afxdp => Some("afxdp"),
            DeviceKind::Pcap => Some("pcap"),
            DeviceKind::Dpdk => Some("dpdk"),
            DeviceKind::Vhost(VhostRole::Client) => Some("dpdkvhostuserclient"),
            DeviceKind::Vhost(VhostRole::Server) => Some("dpdkvhostuser"),
            DeviceKind::Dummy => Some("dummy"),
            DeviceKind::DummyInternal => Some("dummy-internal"),
            DeviceKind::DummyPmd => Some("dummy-pmd"),
            DeviceKind::Tunnel(kind) => Some(kind.name()),
        }
    }

    /// Returns whether it has, or may have, a device of the system.
    pub fn is_of_system(self) -> bool {
        let is_other = self.has_no_kernel_device() || matches!(self, DeviceKind::Tunnel(_));
        !matches!(self, DeviceKind::Pcap) && !is_other && !self.is_dummy()
    }

    /// Returns whether its device is outside of the kernel.
    pub fn has_no_kernel_device(self) -> bool {
        matches!(self, DeviceKind::Dpdk | DeviceKind::Vhost(_))
    }

    /// Returns whether it is a dummy port.
    pub fn is_dummy(self) -> bool {
        matches!(self, DeviceKind::Dummy | DeviceKind::DummyInternal | DeviceKind::DummyPmd)
    }
}
