//! Ports of a bridge.

use crate::carried::Carried;
use crate::vlan::{PriorityTags, VlanMode};
use base::{Instant, MacAddr, OfPort, PortNo};
use flow::{MonitorId, TunnelSequence};
use openflow::message::{PortConfig, PortDesc};
use protocols::bfd;
use std::sync::Arc;
use tunnel::TunnelConfig;

/// The datapath's number for "no port".
pub(crate) const NO_DEVICE: PortNo = PortNo(u32::MAX);

/// The device behind a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortDevice {
    /// A port of the datapath.
    Datapath(PortNo),
    /// One end of a patch between two bridges.
    Patch {
        /// The name of the peer port.
        peer: String,
    },
    /// A tunnel.
    Tunnel {
        /// The datapath port that it shares with other tunnels of its kind.
        device: PortNo,
        /// As configured.
        config: Arc<TunnelConfig>,
    },
}

/// The protocols of a port whose frames go to state machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Monitored {
    /// The number of its state machines.
    pub id: MonitorId,
    /// Which packets are BFD's, if it is enabled.
    pub bfd: Option<bfd::Filter>,
}

/// The configuration of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortSpec {
    /// Its name, the same on all bridges.
    pub name: String,
    /// The requested number (`ofport_request`).
    pub requested: Option<OfPort>,
    /// Ethernet address.
    pub mac: MacAddr,
    /// The device behind it.
    pub device: PortDevice,
    /// Its VLANs.
    pub vlan: VlanMode,
    /// Whether packets of VLAN 0 leave with a priority tag.
    pub priority_tags: PriorityTags,
    /// Whether it is protected: protected ports do not forward to each other.
    pub protected: bool,
    /// Administratively up.
    pub up: bool,
    /// The link is up.
    pub carrier: bool,
    /// The port may be used, as the protocols that monitor it say.
    pub alive: bool,
    /// These protocols, if there are any.
    pub monitor: Option<Monitored>,
    /// Whether this is the bridge's own port, LOCAL.
    pub is_local: bool,
    /// Current features (OpenFlow 1.0's `OFPPF_*` bits).
    pub features: u32,
    /// Current speed in kilobits per second; 0 if unknown.
    pub speed_kbps: u32,
    /// The queues to choose from, if any.
    pub queues: Vec<u32>,
}

impl PortSpec {
    /// A trunk of all VLANs that is up, with the defaults.
    pub fn new(name: impl Into<String>, mac: MacAddr, device: PortDevice) -> Self {
        PortSpec {
            name: name.into(),
            requested: None,
            mac,
            device,
            vlan: VlanMode::default(),
            priority_tags: PriorityTags::Never,
            protected: false,
            up: true,
            carrier: true,
            alive: true,
            monitor: None,
            is_local: false,
            features: 0,
            speed_kbps: 0,
            queues: Vec::new(),
        }
    }

    /// Whether groups and bundles choose it.
    pub(crate) fn is_up(&self) -> bool {
        self.up && self.carrier && self.alive
    }

    /// Whether packets are handled as with the other configuration. Descriptive fields such as the speed
    /// affect no translation, and the link state affects few
    /// ([`Dependency::Link`](crate::dependency::Dependency::Link)).
    pub(crate) fn forwards_like(&self, other: &PortSpec) -> bool {
        let PortSpec { name, requested, up, carrier, alive, features, speed_kbps, .. } =
            other.clone();
        PortSpec { name, requested, up, carrier, alive, features, speed_kbps, ..self.clone() }
            == *other
    }
}

/// Why a port was not added.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PortRefused {
    /// There is no such bridge.
    #[error("port {port}: its bridge is gone; add the bridge first")]
    NoBridge {
        /// The port's name.
        port: String,
    },
    /// A port of this name exists already.
    #[error("port {port}: the bridge has a port of this name; remove it first")]
    NameTaken {
        /// The port's name.
        port: String,
    },
    /// The device is used by another port.
    #[error("port {port}: datapath port {device} belongs to a port already")]
    DeviceTaken {
        /// The port's name.
        port: String,
        /// The datapath's port.
        device: PortNo,
    },
    /// Another tunnel receives the same packets.
    #[error(
        "port {port}: could not add network device {port} to ofproto (File exists): tunnel port {other} has \
         the same ends and key; change one"
    )]
    TunnelTaken {
        /// The port's name.
        port: String,
        /// The other tunnel's name.
        other: String,
    },
    /// Another tunnel on the same UDP port has different options for received packets.
    #[error("port {port}: could not set configuration (File exists)")]
    TunnelsDiffer {
        /// The port's name.
        port: String,
    },
    /// All numbers are taken.
    #[error("port {port}: the bridge has no free OpenFlow port number left")]
    NoNumber {
        /// The port's name.
        port: String,
    },
}

/// A port of a bridge.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its OpenFlow number.
    pub number: OfPort,
    /// As configured.
    pub spec: PortSpec,
    /// The bits that controllers set.
    pub config: PortConfig,
    /// When it was added.
    pub created: Instant,
    /// Packets and bytes received by a patch port or tunnel, which has no device that counts them.
    pub patch_rx: Arc<Carried>,
    /// Packets and bytes sent by a patch port or tunnel.
    pub patch_tx: Arc<Carried>,
    /// The sequence numbers of a tunnel's packets. They continue when the tunnel is reconfigured.
    pub tunnel_sequence: TunnelSequence,
}

impl Port {
    /// Its own datapath port; `None` for a patch port or tunnel.
    pub fn datapath(&self) -> Option<PortNo> {
        match self.spec.device {
            PortDevice::Datapath(number) => Some(number),
            PortDevice::Patch { .. } | PortDevice::Tunnel { .. } => None,
        }
    }

    /// The datapath port number of packets from it; tunnels share one.
    pub fn source(&self) -> Option<PortNo> {
        match self.spec.device {
            PortDevice::Datapath(number) | PortDevice::Tunnel { device: number, .. } => {
                Some(number)
            }
            PortDevice::Patch { .. } => None,
        }
    }

    /// Whether the bridge floods to it (ovs: `ofproto/ofproto-dpif-xlate.c`,
    /// `xlate_normal_flood`).
    pub fn floods(&self) -> bool {
        !self.config.contains(PortConfig::NO_FLOOD)
    }

    /// The port as OpenFlow describes it.
    pub fn describe(&self) -> PortDesc {
        let mut config = self.config;
        config.set(PortConfig::PORT_DOWN, !self.spec.up);
        PortDesc {
            port: self.number,
            mac: self.spec.mac,
            name: self.spec.name.clone(),
            config,
            link_down: !self.spec.carrier,
            live: self.spec.is_up(),
            current: self.spec.features,
            speed_kbps: self.spec.speed_kbps,
        }
    }
}
