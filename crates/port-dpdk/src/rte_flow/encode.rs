//! Encodes items and actions into the shim's structures, in which headers are bytes as in packets.

use crate::ffi;
use crate::flow_rule::{
    Eth, FlowRule, Ipv4, Ipv6, Item, ObjectHandle, RuleAction, Spec, Tcp, Udp, VxlanEncap,
};
use std::ffi::c_void;
use std::net::Ipv4Addr;
use wire::vxlan;

// The shim's item numbers (csrc/shim.h).
const REPRESENTED_PORT: u32 = 0;
const ETH: u32 = 1;
const VLAN: u32 = 2;
const IPV4: u32 = 3;
const IPV6: u32 = 4;
const TCP: u32 = 5;
const UDP: u32 = 6;
const VXLAN: u32 = 7;
const INTEGRITY: u32 = 8;
const CONNTRACK: u32 = 9;
/// The shim's number of `INDIRECT`.
const INDIRECT: u32 = 23;

/// The lists that a [`ffi::Rule`] points to.
pub(super) struct Encoded {
    items: Vec<ffi::Item>,
    actions: Vec<ffi::Action>,
    /// The headers of an encapsulation.
    _encap: Vec<ffi::Item>,
    transfers: bool,
    group: u32,
    priority: u32,
}

impl Encoded {
    /// Encodes a rule. `object` resolves connection objects; returns `None` if the rule refers to one that is
    /// gone.
    pub fn of(
        rule: &FlowRule,
        object: impl Fn(ObjectHandle) -> Option<*mut c_void>,
    ) -> Option<Encoded> {
        let encap = rule.actions.iter().find_map(|action| match action {
            RuleAction::VxlanEncap(encap) => Some(encap_items(encap)),
            _ => None,
        });
        let encap = encap.unwrap_or_default();
        let mut actions: Vec<ffi::Action> =
            rule.actions.iter().map(|it| action(it, &encap)).collect();
        for (to, from) in actions.iter_mut().zip(&rule.actions) {
            if let RuleAction::Check(handle) = from {
                to.object = object(*handle)?;
            }
        }
        let items = rule.items.iter().map(item).collect();
        let FlowRule { group, priority, transfers, .. } = *rule;
        Some(Encoded { items, actions, _encap: encap, transfers, group, priority })
    }

    /// The rule, which points into this value.
    pub fn rule(&self) -> ffi::Rule {
        ffi::Rule {
            items: self.items.as_ptr(),
            actions: self.actions.as_ptr(),
            item_count: self.items.len() as u32,
            action_count: self.actions.len() as u32,
            transfers: self.transfers.into(),
            group: self.group,
            priority: self.priority,
            spare: 0,
        }
    }
}

/// Bytes padded with zeros.
fn padded(bytes: &[u8]) -> [u8; 44] {
    let mut out = [0; 44];
    out[..bytes.len()].copy_from_slice(bytes);
    out
}

fn item(from: &Item) -> ffi::Item {
    let plain = |kind, value: Vec<u8>, mask: Vec<u8>| {
        let (value, mask) = (padded(&value), padded(&mask));
        ffi::Item { kind, number: 0, mask_number: 0, value, mask }
    };
    match from {
        Item::RepresentedPort(port) => ffi::Item {
            number: (*port).into(),
            mask_number: u16::MAX.into(),
            ..plain(REPRESENTED_PORT, Vec::new(), Vec::new())
        },
        Item::Eth(Spec { value, mask }) => plain(ETH, eth(value), eth(mask)),
        Item::Vlan(Spec { value, mask }) => {
            plain(VLAN, value.tci.to_be_bytes().into(), mask.tci.to_be_bytes().into())
        }
        Item::Ipv4(Spec { value, mask }) => plain(IPV4, ipv4(value), ipv4(mask)),
        Item::Ipv6(Spec { value, mask }) => plain(IPV6, ipv6(value), ipv6(mask)),
        Item::Tcp(Spec { value, mask }) => plain(TCP, tcp(value), tcp(mask)),
        Item::Udp(Spec { value, mask }) => plain(UDP, udp(value), udp(mask)),
        Item::Vxlan { vni, compares_flags } => {
            let value = vxlan::VNI_ALONE | u64::from(*vni) << 8;
            let flags_mask = if *compares_flags { 0xff << 56 } else { 0 };
            let mask = vxlan::VNI_MASK | flags_mask;
            plain(VXLAN, value.to_be_bytes().into(), mask.to_be_bytes().into())
        }
        Item::Integrity { level, bits } => ffi::Item {
            number: *level,
            mask_number: *level,
            ..plain(INTEGRITY, bits.to_ne_bytes().into(), bits.to_ne_bytes().into())
        },
        Item::Connection(flags) => ffi::Item {
            number: *flags,
            mask_number: u32::MAX,
            ..plain(CONNTRACK, Vec::new(), Vec::new())
        },
    }
}

fn eth(from: &Eth) -> Vec<u8> {
    let mut bytes = [from.destination.0, from.source.0].concat();
    bytes.extend(from.ethertype.to_be_bytes());
    bytes.push(from.has_vlan.into());
    bytes
}

fn ipv4(from: &Ipv4) -> Vec<u8> {
    let [high, low] = from.fragment.to_be_bytes();
    let mut bytes = vec![0, from.tos, 0, 0, 0, 0, high, low, from.ttl, from.protocol, 0, 0];
    bytes.extend(from.source.octets());
    bytes.extend(from.destination.octets());
    bytes
}

fn ipv6(from: &Ipv6) -> Vec<u8> {
    let start = u32::from(from.class) << 20 | from.label;
    let mut bytes = start.to_be_bytes().to_vec();
    bytes.extend([0, 0, from.next_header, from.hop_limit]);
    bytes.extend(from.source.octets());
    bytes.extend(from.destination.octets());
    bytes.push(from.has_fragment.into());
    bytes
}

fn tcp(from: &Tcp) -> Vec<u8> {
    let ports = udp(&Udp { source: from.source, destination: from.destination });
    [&ports[..], &[0; 9], &[from.flags]].concat()
}

fn udp(from: &Udp) -> Vec<u8> {
    [from.source.to_be_bytes(), from.destination.to_be_bytes()].concat()
}

/// The headers of an encapsulation. Their masks mark the given fields; the device computes all others for
/// each packet.
fn encap_items(from: &VxlanEncap) -> Vec<ffi::Item> {
    let all = base::MacAddr::BROADCAST;
    let (destination, source) = (from.mac_destination, from.mac_source);
    let ethertype = wire::ethertype::IPV4;
    let eth = Spec {
        value: Eth { destination, source, ethertype, has_vlan: false },
        mask: Eth { destination: all, source: all, ethertype: u16::MAX, has_vlan: false },
    };
    let mask = Ipv4 {
        tos: u8::MAX,
        ttl: u8::MAX,
        protocol: u8::MAX,
        fragment: u16::MAX,
        source: Ipv4Addr::BROADCAST,
        destination: Ipv4Addr::BROADCAST,
    };
    let mut ip = item(&Item::Ipv4(Spec { value: from.ip, mask }));
    // Version and header length.
    (ip.value[0], ip.mask[0]) = (0x45, 0xff);
    let value = Udp { source: from.udp_source, destination: from.udp_destination };
    let mask = Udp { source: u16::MAX, destination: u16::MAX };
    let udp = item(&Item::Udp(Spec { value, mask }));
    let vxlan = item(&Item::Vxlan { vni: from.vni, compares_flags: true });
    vec![item(&Item::Eth(eth)), ip, udp, vxlan]
}

fn action(from: &RuleAction, encap: &[ffi::Item]) -> ffi::Action {
    let with = |kind: u32, number: u32, address: &[u8]| {
        let mut bytes = [0; 16];
        bytes[..address.len()].copy_from_slice(address);
        let (items, object) = (std::ptr::null(), std::ptr::null_mut());
        ffi::Action { items, kind, number, bytes, item_count: 0, spare: 0, object }
    };
    match from {
        RuleAction::Count => with(0, 0, &[]),
        RuleAction::Age { timeout_s } => with(1, *timeout_s, &[]),
        RuleAction::VxlanDecap => with(2, 0, &[]),
        RuleAction::VxlanEncap(_) => {
            ffi::Action { items: encap.as_ptr(), item_count: encap.len() as u32, ..with(3, 0, &[]) }
        }
        RuleAction::PopVlan => with(4, 0, &[]),
        RuleAction::PushVlan(tpid) => with(5, (*tpid).into(), &[]),
        RuleAction::SetVlanVid(vid) => with(6, (*vid).into(), &[]),
        RuleAction::SetVlanPcp(pcp) => with(7, (*pcp).into(), &[]),
        RuleAction::SetMacSource(mac) => with(8, 0, &mac.0),
        RuleAction::SetMacDestination(mac) => with(9, 0, &mac.0),
        RuleAction::SetIpv4Source(ip) => with(10, 0, &ip.octets()),
        RuleAction::SetIpv4Destination(ip) => with(11, 0, &ip.octets()),
        RuleAction::SetIpv6Source(ip) => with(12, 0, &ip.octets()),
        RuleAction::SetIpv6Destination(ip) => with(13, 0, &ip.octets()),
        RuleAction::SetPortSource(port) => with(14, (*port).into(), &[]),
        RuleAction::SetPortDestination(port) => with(15, (*port).into(), &[]),
        RuleAction::SetTtl(ttl) => with(16, (*ttl).into(), &[]),
        RuleAction::SetIpv4Dscp(dscp) => with(17, (*dscp).into(), &[]),
        RuleAction::SetIpv6Dscp(dscp) => with(18, (*dscp).into(), &[]),
        RuleAction::RepresentedPort(port) => with(19, (*port).into(), &[]),
        RuleAction::Drop => with(20, 0, &[]),
        RuleAction::Mark(mark) => with(21, *mark, &[]),
        RuleAction::Rss => with(22, 0, &[]),
        // The object supplies the pointer.
        RuleAction::Check(_) => with(INDIRECT, 0, &[]),
        RuleAction::Jump(group) => with(24, *group, &[]),
        RuleAction::PortRepresentor(port) => with(25, (*port).into(), &[]),
    }
}
