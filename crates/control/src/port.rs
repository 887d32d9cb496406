//! The desired configuration of a port: its interface, and the VLANs that it carries.

use base::{MacAddr, OfPort};
use flow::TunnelKind;
use ofproto::{PriorityTags, VlanMode};
use protocols::bfd;
use std::collections::BTreeMap;
use tunnel::TunnelConfig;

/// A port of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name, unique in the switch.
    pub name: String,
    /// Its interfaces. There is exactly one, unless the database requests a bond: then all of them are
    /// [`InterfaceKind::Refused`].
    pub interfaces: Vec<Interface>,
    /// Its VLAN configuration.
    pub vlan: VlanMode,
    /// Whether packets sent without a VLAN get a priority tag.
    pub priority_tags: PriorityTags,
    /// Protected ports do not forward packets to each other.
    pub protected: bool,
}

/// An interface of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, which is also the device's, if there is one.
    pub name: String,
    /// Its kind.
    pub kind: InterfaceKind,
    /// Settings that have no effect, and without which traffic may stop, with the reasons.
    pub missing: Option<String>,
    /// The requested OpenFlow port number.
    pub ofport_request: Option<OfPort>,
    /// Its previous OpenFlow port number, which it keeps if possible.
    pub ofport_hint: Hint<OfPort>,
    /// The Ethernet address to set on an internal interface.
    pub mac: Option<MacAddr>,
    /// The MTU to set on an internal interface, in bytes.
    pub mtu_request: Option<u32>,
    /// BFD, if it is enabled.
    pub bfd: Option<bfd::Config>,
    /// Further options, such as "n_rxq".
    pub options: BTreeMap<String, String>,
    /// Pinned receive queues and their cores (`other_config:pmd-rxq-affinity`), by queue number.
    pub rxq_affinity: BTreeMap<u16, u16>,
}

/// The kind of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceKind {
    /// A network device of the system, such as one end of a veth pair.
    System,
    /// A device that the switch creates and the system uses.
    Internal,
    /// A TAP device that the switch creates and another program uses.
    Tap,
    /// A network device of the system, through AF_XDP.
    Afxdp,
    /// Pcap files, one to play and one to record, without a device.
    Pcap,
    /// A DPDK device.
    Dpdk,
    /// A guest, through a vhost-user socket that the guest's side creates.
    DpdkVhostUserClient,
    /// A guest, through a vhost-user socket that the switch creates.
    DpdkVhostUser,
    /// No device: commands inject frames, for tests (`dummy`).
    Dummy,
    /// As `Dummy`, but polled (`dummy-pmd`).
    DummyPmd,
    /// One end of a patch between two bridges.
    Patch {
        /// The other end's interface.
        peer: String,
    },
    /// A tunnel.
    Tunnel(Box<TunnelConfig>),
    /// It is not opened.
    Refused {
        /// The reason, for the column `error`.
        error: String,
    },
}

/// A value that comparisons ignore: all hints are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hint<T>(pub Option<T>);

/// Interface types of Open vSwitch that this switch does not support, with descriptions.
const UNSUPPORTED_TYPES: [(&str, &str); 5] = [
    ("dpdkr", "DPDK ring ports"),
    ("lisp", "LISP tunnels"),
    ("srv6", "SRv6 tunnels"),
    ("stt", "STT tunnels"),
    ("xfrmi", "IPsec interfaces"),
];

impl Port {
    /// A trunk of all VLANs with one interface.
    pub fn new(interface: Interface) -> Self {
        Port {
            name: interface.name.clone(),
            interfaces: vec![interface],
            vlan: VlanMode::default(),
            priority_tags: PriorityTags::default(),
            protected: false,
        }
    }

    /// Returns the interface to open; `None` if it is refused.
    pub fn interface(&self) -> Option<&Interface> {
        match self.interfaces.as_slice() {
            [Interface { kind: InterfaceKind::Refused { .. }, .. }] => None,
            [interface] => Some(interface),
            _ => None,
        }
    }

    /// Returns whether `other` can replace this port without opening an interface.
    pub(crate) fn has_same_interfaces(&self, other: &Port) -> bool {
        self.interfaces.len() == other.interfaces.len()
            && self
                .interfaces
                .iter()
                .zip(&other.interfaces)
                .all(|(old, new)| new.is_same_device(old))
    }
}

impl Interface {
    /// An interface with default settings.
    pub fn new(name: &str, kind: InterfaceKind) -> Self {
        Interface {
            name: name.to_owned(),
            kind,
            missing: None,
            ofport_request: None,
            ofport_hint: Hint(None),
            mac: None,
            mtu_request: None,
            bfd: None,
            options: BTreeMap::new(),
            rxq_affinity: BTreeMap::new(),
        }
    }

    /// Returns whether `old` can continue as this interface. A changed option of a port that is opened by its
    /// options requires a new one. Withdrawing the request for a number does not change the number (ovs:
    /// `vswitchd/bridge.c`, `bridge_delete_or_reconfigure_ports`).
    fn is_same_device(&self, old: &Interface) -> bool {
        let number_stays =
            self.ofport_request.is_none() || self.ofport_request == old.ofport_request;
        let is_of_dpdk = matches!(
            self.kind,
            InterfaceKind::Dpdk | InterfaceKind::DpdkVhostUserClient | InterfaceKind::DpdkVhostUser
        );
        let is_made_by_options = is_of_dpdk
            || matches!(
                self.kind,
                InterfaceKind::Afxdp
                    | InterfaceKind::Pcap
                    | InterfaceKind::Dummy
                    | InterfaceKind::DummyPmd
            );
        // The MTU determines the size of a DPDK port's receive buffers.
        let options_stay = (!is_made_by_options || self.options == old.options)
            && (!is_of_dpdk || self.mtu_request == old.mtu_request);
        self.name == old.name && self.kind == old.kind && number_stays && options_stay
    }
}

impl InterfaceKind {
    /// Returns the kind for a type of Open vSwitch, with the options of patches and tunnels. Unsupported
    /// types are [`InterfaceKind::Refused`]; `warn` is called with each unknown option.
    pub fn from_type(
        type_name: &str,
        name: &str,
        options: &BTreeMap<String, String>,
        mut warn: impl FnMut(String),
    ) -> Self {
        let refuse = |error: String| InterfaceKind::Refused { error };
        if let Some(kind) = TunnelKind::from_name(type_name) {
            let parsed = TunnelConfig::parse(kind, name, options);
            parsed.warnings.into_iter().for_each(&mut warn);
            return match parsed.config {
                Ok(config) => InterfaceKind::Tunnel(Box::new(config)),
                Err(error) => refuse(error),
            };
        }
        let peer = options.get("peer").map(String::as_str);
        match type_name {
            "" | "system" => InterfaceKind::System,
            "internal" => InterfaceKind::Internal,
            "tap" => InterfaceKind::Tap,
            // Open vSwitch polls the second kind in its main thread; here any worker may sleep.
            "afxdp" | "afxdp-nonpmd" => InterfaceKind::Afxdp,
            "pcap" => InterfaceKind::Pcap,
            "dummy" | "dummy-internal" => InterfaceKind::Dummy,
            "dummy-pmd" => InterfaceKind::DummyPmd,
            "dpdk" => InterfaceKind::Dpdk,
            "dpdkvhostuserclient" => InterfaceKind::DpdkVhostUserClient,
            "dpdkvhostuser" => InterfaceKind::DpdkVhostUser,
            "patch" => match peer {
                None | Some("") => {
                    refuse(format!("{name}: patch type requires valid 'peer' argument"))
                }
                Some(peer) if peer == name => {
                    refuse(format!("{name}: patch peer must not be self"))
                }
                Some(peer) => InterfaceKind::Patch { peer: peer.to_owned() },
            },
            other => {
                let known = UNSUPPORTED_TYPES.iter().find(|(listed, _)| *listed == other);
                let why = match known {
                    Some((_, what)) => {
                        format!("\"{other}\" is not supported: this switch has no {what}")
                    }
                    None => format!("\"{other}\" is unknown"),
                };
                refuse(format!("could not open network device {name} (interface type {why})"))
            }
        }
    }
}

impl<T> PartialEq for Hint<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Hint<T> {}

#[cfg(test)]
mod tests;
