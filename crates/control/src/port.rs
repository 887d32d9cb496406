//! What a port of a bridge is to be: its interface, and the VLANs it carries.

use base::{MacAddr, OfPort};
use flow::TunnelKind;
use ofproto::{PriorityTags, VlanMode};
use std::collections::BTreeMap;
use tunnel::TunnelConfig;

/// A port of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name, unique in the switch.
    pub name: String,
    /// What packets come and go through. Always one, unless a database asks for a bond: then
    /// all of them are [`InterfaceKind::Refused`].
    pub interfaces: Vec<Interface>,
    /// Which VLANs it carries, and how.
    pub vlan: VlanMode,
    /// Whether packets that leave without a VLAN get a tag for their priority.
    pub priority_tags: PriorityTags,
    /// Protected ports do not forward to one another.
    pub protected: bool,
}

/// What the packets of a port come and go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, which is the device's where there is one.
    pub name: String,
    /// What it is.
    pub kind: InterfaceKind,
    /// The OpenFlow port number that is asked for.
    pub ofport_request: Option<OfPort>,
    /// The OpenFlow port number that it had last, which it keeps where that is free.
    pub ofport_hint: Hint<OfPort>,
    /// The Ethernet address to give to an internal interface.
    pub mac: Option<MacAddr>,
    /// The MTU to set on an internal interface, in bytes.
    pub mtu_request: Option<u32>,
    /// What else was said, such as "n_rxq".
    pub options: BTreeMap<String, String>,
    /// Receive queues that belong to a core (`other_config:pmd-rxq-affinity`), by number.
    pub rxq_affinity: BTreeMap<u16, u16>,
}

/// What an interface is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceKind {
    /// A network device of the system, such as one end of a veth pair.
    System,
    /// A device that the switch makes and the system uses.
    Internal,
    /// A TAP device that the switch makes and another program uses.
    Tap,
    /// A device of the system, through AF_XDP.
    Afxdp,
    /// Files of packets: one that is played, one that is recorded. There is no device.
    Pcap,
    /// A device of DPDK's.
    Dpdk,
    /// A guest, by a vhost-user socket of its own.
    DpdkVhostUserClient,
    /// A guest, by a vhost-user socket of the switch's.
    DpdkVhostUser,
    /// No device: frames are put in by command, for tests (`dummy`).
    Dummy,
    /// The same, polled (`dummy-pmd`).
    DummyPmd,
    /// One end of a patch between two bridges.
    Patch {
        /// The interface at the other end.
        peer: String,
    },
    /// A tunnel.
    Tunnel(Box<TunnelConfig>),
    /// It is not to be opened.
    Refused {
        /// Why, for the column `error`.
        error: String,
    },
}

/// A value that is worth knowing but makes no difference: all hints are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hint<T>(pub Option<T>);

/// The interface types of Open vSwitch that this switch has not, with what they are.
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

    /// The interface that is to be opened; None where it is refused.
    pub fn interface(&self) -> Option<&Interface> {
        match self.interfaces.as_slice() {
            [Interface { kind: InterfaceKind::Refused { .. }, .. }] => None,
            [interface] => Some(interface),
            _ => None,
        }
    }

    /// Whether `other` can become of this port without another interface being opened.
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
    /// An interface about which nothing else is said.
    pub fn new(name: &str, kind: InterfaceKind) -> Self {
        Interface {
            name: name.to_owned(),
            kind,
            ofport_request: None,
            ofport_hint: Hint(None),
            mac: None,
            mtu_request: None,
            options: BTreeMap::new(),
            rxq_affinity: BTreeMap::new(),
        }
    }

    /// Whether `old` can go on as this one. Options of a port that is opened by them make it
    /// another. A request for a number that is no longer made does
    /// not take the number away (ovs: `vswitchd/bridge.c`,
    /// `bridge_delete_or_reconfigure_ports`).
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
        // The MTU decides what buffers a DPDK port receives into.
        let options_stay = (!is_made_by_options || self.options == old.options)
            && (!is_of_dpdk || self.mtu_request == old.mtu_request);
        self.name == old.name && self.kind == old.kind && number_stays && options_stay
    }
}

impl InterfaceKind {
    /// What a type of Open vSwitch means, with the options that patches and tunnels have. Types that
    /// are not supported are refused in words; `warn` is told of options that are not understood.
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
            // Open vSwitch polls the second from its main thread; here any worker may sleep.
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
