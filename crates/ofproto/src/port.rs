//! Ports of a bridge.

use crate::carried::Carried;
use crate::vlan::{PriorityTags, VlanMode};
use base::{Instant, MacAddr, OfPort, PortNo};
use flow::TunnelSequence;
use openflow::message::{PortConfig, PortDesc};
use std::sync::Arc;
use tunnel::TunnelConfig;

/// What carries a port's packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortDevice {
    /// A port of the datapath.
    Datapath(PortNo),
    /// One end of a patch between two bridges.
    Patch {
        /// The name of the other end.
        peer: String,
    },
    /// A tunnel.
    Tunnel {
        /// The datapath's port that it shares with others of its kind.
        device: PortNo,
        /// As configured.
        config: Arc<TunnelConfig>,
    },
}

/// A port as it is configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortSpec {
    /// Its name, the same on all bridges.
    pub name: String,
    /// The number that was asked for (`ofport_request`).
    pub requested: Option<OfPort>,
    /// Ethernet address.
    pub mac: MacAddr,
    /// What carries its packets.
    pub device: PortDevice,
    /// Which VLANs it carries, and how.
    pub vlan: VlanMode,
    /// Whether packets of VLAN 0 are sent with a tag for their priority.
    pub priority_tags: PriorityTags,
    /// Not to forward between this and other protected ports.
    pub protected: bool,
    /// Administratively up.
    pub up: bool,
    /// The link is there.
    pub carrier: bool,
    /// Whether this is the bridge's own port, LOCAL.
    pub is_local: bool,
    /// Current features (OpenFlow 1.0's `OFPPF_*` bits).
    pub features: u32,
    /// Current speed in kilobits per second; 0 if unknown.
    pub speed_kbps: u32,
    /// The queues that its packets are sent through, where it has any to choose from.
    pub queues: Vec<u32>,
}

impl PortSpec {
    /// A trunk of all VLANs that is up and has nothing special.
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
            is_local: false,
            features: 0,
            speed_kbps: 0,
            queues: Vec::new(),
        }
    }

    /// Whether packets can be sent there.
    pub(crate) fn is_up(&self) -> bool {
        self.up && self.carrier
    }

    /// Whether packets come and go through the port as through another one. What only describes a port
    /// (its speed) is no part of any translation, and its link of few
    /// ([`Dependency::Link`](crate::revalidate::Dependency::Link)).
    pub(crate) fn forwards_like(&self, other: &PortSpec) -> bool {
        let PortSpec { name, requested, up, carrier, features, speed_kbps, .. } = other.clone();
        PortSpec { name, requested, up, carrier, features, speed_kbps, ..self.clone() } == *other
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
    /// A port of this name is there already.
    #[error("port {port}: the bridge has a port of this name; remove it first")]
    NameTaken {
        /// The port's name.
        port: String,
    },
    /// The device belongs to a port already.
    #[error("port {port}: datapath port {device} belongs to a port already")]
    DeviceTaken {
        /// The port's name.
        port: String,
        /// The datapath's port.
        device: PortNo,
    },
    /// Another tunnel takes the same packets.
    #[error(
        "port {port}: could not add network device {port} to ofproto (File exists): tunnel port {other} has \
         the same ends and key; change one"
    )]
    TunnelTaken {
        /// The port's name.
        port: String,
        /// The other's.
        other: String,
    },
    /// Another tunnel of the same UDP port receives other packets.
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
    /// What controllers set.
    pub config: PortConfig,
    /// When it was added.
    pub created: Instant,
    /// Packets and bytes that a patch port or tunnel received: it has no device that counts.
    pub patch_rx: Arc<Carried>,
    /// Packets and bytes that a patch port or tunnel sent.
    pub patch_tx: Arc<Carried>,
    /// The sequence numbers of a tunnel's packets. They continue when the tunnel is reconfigured.
    pub tunnel_sequence: TunnelSequence,
}

impl Port {
    /// Its own number in the datapath, none for a patch port or tunnel.
    pub fn datapath(&self) -> Option<PortNo> {
        match self.spec.device {
            PortDevice::Datapath(number) => Some(number),
            PortDevice::Patch { .. } | PortDevice::Tunnel { .. } => None,
        }
    }

    /// The number in the datapath that packets from the port have; tunnels share theirs.
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
            live: self.spec.carrier && self.spec.up,
            current: self.spec.features,
            speed_kbps: self.spec.speed_kbps,
        }
    }
}
