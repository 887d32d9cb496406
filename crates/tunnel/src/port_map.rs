//! The local endpoints of tunnels: finds the tunnel port that receives an outer packet to one of the system's
//! addresses (ovs: `lib/tnl-ports.c`).

use base::{MacAddr, PortNo};
use flow::{FRAG_ANY, FRAG_LATER, Field, FlowKey, Mask, TunnelEnd, TunnelKind, VLAN_PRESENT};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use wire::ethertype;

/// A device with IP addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalDevice {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
}

/// A datapath port that receives tunnel packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// The protocol.
    pub kind: TunnelKind,
    /// The UDP port, or 0 if the protocol is not UDP.
    pub udp_port: u16,
    /// The ends of the tunnels that share it. They are equal, except while one is being changed.
    pub tunnels: Vec<TunnelEnd>,
}

/// The local endpoints of tunnels.
#[derive(Clone, Debug, Default)]
pub struct PortMap {
    devices: BTreeMap<String, LocalDevice>,
    listeners: BTreeMap<PortNo, Listener>,
}

impl PortMap {
    /// Replaces the devices with addresses. Returns whether they changed.
    pub fn set_devices(&mut self, devices: BTreeMap<String, LocalDevice>) -> bool {
        let is_news = self.devices != devices;
        self.devices = devices;
        is_news
    }

    /// Adds a tunnel that uses this port.
    pub fn add(&mut self, port: PortNo, name: &str, end: TunnelEnd, udp_port: u16) {
        let name = name.to_owned();
        let new = Listener { name, kind: end.kind, udp_port, tunnels: Vec::new() };
        self.listeners.entry(port).or_insert(new).tunnels.push(end);
    }

    /// Removes a tunnel that used this port.
    pub fn remove(&mut self, port: PortNo, end: TunnelEnd) {
        let Some(listener) = self.listeners.get_mut(&port) else { return };
        if let Some(at) = listener.tunnels.iter().position(|it| *it == end) {
            listener.tunnels.remove(at);
        }
        if listener.tunnels.is_empty() {
            self.listeners.remove(&port);
        }
    }

    /// Returns whether a device has an address.
    pub fn has_address(&self, device: &str) -> bool {
        self.devices.get(device).is_some_and(|device| !device.addresses.is_empty())
    }

    /// Returns whether a device receives packets to an address: its own address, or the solicited-node
    /// multicast address of one (RFC 4291 section 2.7.1).
    pub fn is_address_of(&self, device: &str, ip: IpAddr) -> bool {
        const SOLICITED_NODE: u128 = 0xff02 << 112 | 0x1_ff00_0000;
        const LAST_BITS: u128 = 0xff_ffff;
        let is_it = |own: &IpAddr| match (own, ip) {
            _ if *own == ip => true,
            (IpAddr::V6(own), IpAddr::V6(ip)) => {
                ip.to_bits() == SOLICITED_NODE | (own.to_bits() & LAST_BITS)
            }
            _ => false,
        };
        self.devices.get(device).is_some_and(|device| device.addresses.iter().any(is_it))
    }

    /// Returns the tunnel port that receives an outer packet, and adds the fields that decided this to
    /// `mask`. Fragments and packets with a VLAN tag are not received.
    pub fn lookup(&self, key: &FlowKey, mask: &mut Mask) -> Option<(PortNo, TunnelEnd)> {
        if self.listeners.is_empty() {
            return None;
        }
        mask.add(Field::EthDst);
        mask.add_bits(Field::VlanTci, u128::from(VLAN_PRESENT));
        let mut devices = self.devices.values().filter(|it| it.mac == key.eth_dst()).peekable();
        devices.peek()?;
        let destination = match key.eth_type() {
            ethertype::IPV4 => {
                mask.add(Field::Ipv4Dst);
                IpAddr::V4(key.ipv4_dst())
            }
            ethertype::IPV6 => {
                mask.add(Field::Ipv6Dst);
                IpAddr::V6(key.ipv6_dst())
            }
            _ => return None,
        };
        if key.vlan_tci() != 0 || !devices.any(|it| it.addresses.contains(&destination)) {
            return None;
        }
        mask.add(Field::NwProto);
        mask.add_bits(Field::NwFrag, u128::from(FRAG_ANY | FRAG_LATER));
        if key.nw_frag() != 0 {
            return None;
        }
        let takes = |kind: TunnelKind| {
            kind.protocols().contains(&key.nw_proto())
                && (kind != TunnelKind::Srv6 || destination.is_ipv6())
        };
        let mut found = self.listeners.iter().filter(|(_, it)| takes(it.kind));
        if found.clone().any(|(_, it)| it.kind.is_udp()) {
            mask.add(Field::TpDst);
        }
        let found = found.find(|(_, it)| !it.kind.is_udp() || it.udp_port == key.tp_dst());
        found.and_then(|(port, it)| Some((*port, *it.tunnels.first()?)))
    }

    /// Returns the ports as `tnl/ports/show` prints them.
    pub fn show(&self) -> String {
        let mut text = "Listening ports:\n".to_owned();
        for (port, Listener { name, tunnels, kind, .. }) in &self.listeners {
            for _ in kind.protocols() {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{name} ({port}) ref_cnt={}", tunnels.len());
            }
        }
        text
    }

    /// Returns the packets that the ports receive: for each pattern, name and number of the port, key and
    /// mask.
    pub fn matches(&self) -> Vec<(&str, PortNo, FlowKey, Mask)> {
        let mut all = Vec::new();
        for (port, listener) in &self.listeners {
            let devices = self.devices.values();
            let ends = devices.flat_map(|it| it.addresses.iter().map(move |ip| (it.mac, *ip)));
            let is_end = |ip: IpAddr| ip.is_ipv6() || listener.kind != TunnelKind::Srv6;
            let protocols = listener.kind.protocols();
            let ends = ends.filter(|(_, ip)| is_end(*ip));
            for ((mac, ip), protocol) in
                ends.flat_map(|end| protocols.iter().map(move |protocol| (end, *protocol)))
            {
                let (mut key, mut mask) = (FlowKey::new(), Mask::new());
                let (kind, field, bits) = match ip {
                    IpAddr::V4(ip) => (ethertype::IPV4, Field::Ipv4Dst, u128::from(ip.to_bits())),
                    IpAddr::V6(ip) => (ethertype::IPV6, Field::Ipv6Dst, ip.to_bits()),
                };
                let mut set = |field: Field, value: u128| {
                    key.set(field, value);
                    mask.add(field);
                };
                set(Field::EthDst, mac.to_u64().into());
                set(Field::EthType, kind.into());
                set(field, bits);
                set(Field::NwProto, protocol.into());
                if listener.kind.is_udp() {
                    set(Field::TpDst, listener.udp_port.into());
                }
                mask.add_bits(Field::NwFrag, u128::from(FRAG_ANY | FRAG_LATER));
                all.push((listener.name.as_str(), *port, key, mask));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn map() -> PortMap {
        let mut map = PortMap::default();
        let addresses = vec![IpAddr::from([10, 0, 0, 1]), "fd00::1".parse().unwrap()];
        let device = LocalDevice { mac: MAC, addresses };
        assert!(map.set_devices([("br0".to_owned(), device)].into()));
        map.add(PortNo(5), "vxlan_sys_4789", TunnelKind::Vxlan.into(), 4789);
        map.add(PortNo(5), "vxlan_sys_4789", TunnelKind::Vxlan.into(), 4789);
        map.add(PortNo(6), "gre_sys", TunnelKind::Gre.into(), 0);
        map
    }

    fn packet(kind: u16, protocol: u8, port: u16) -> FlowKey {
        let mut key = FlowKey::new();
        key.set(Field::EthDst, MAC.to_u64().into());
        key.set_eth_type(kind);
        key.set_nw_proto(protocol);
        key.set_tp_dst(port);
        match kind {
            0x0800 => key.set(Field::Ipv4Dst, 0x0a00_0001),
            _ => key.set(Field::Ipv6Dst, 0xfd00 << 112 | 1),
        }
        key
    }

    fn check(map: &PortMap, key: &FlowKey, expect: Option<u32>) {
        let mut mask = Mask::new();
        let found = map.lookup(key, &mut mask).map(|(port, _)| port.0);
        assert_eq!(found, expect, "{key:?}");
        // Bits outside the mask make no difference.
        let again = map.lookup(&key.masked(&mask), &mut Mask::new()).map(|(port, _)| port.0);
        assert!(expect.is_none() || again.is_none() || again == expect);
    }

    #[test]
    fn outer_packets_to_own_addresses_are_taken() {
        let map = map();
        check(&map, &packet(0x0800, 17, 4789), Some(5));
        check(&map, &packet(0x86dd, 17, 4789), Some(5));
        check(&map, &packet(0x0800, 47, 0), Some(6));
        check(&map, &packet(0x0800, 17, 4790), None);
        check(&map, &packet(0x0800, 6, 4789), None);
        let mut with_srv6 = map.clone();
        with_srv6.add(PortNo(7), "srv6_sys", TunnelKind::Srv6.into(), 0);
        check(&with_srv6, &packet(0x86dd, 4, 0), Some(7));
        check(&with_srv6, &packet(0x86dd, 41, 0), Some(7));
        check(&with_srv6, &packet(0x0800, 4, 0), None);
        check(&with_srv6, &packet(0x86dd, 43, 0), None);
        let mut other = packet(0x0800, 17, 4789);
        other.set(Field::Ipv4Dst, 1);
        check(&map, &other, None);
        let mut fragment = packet(0x0800, 17, 4789);
        fragment.set_nw_frag(FRAG_ANY);
        check(&map, &fragment, None);
        let mut tagged = packet(0x0800, 17, 4789);
        tagged.set_vlan_tci(VLAN_PRESENT | 1);
        check(&map, &tagged, None);
    }

    #[test]
    fn a_port_goes_with_its_last_tunnel() {
        let mut map = map();
        let first = "Listening ports:\nvxlan_sys_4789 (5) ref_cnt=2\ngre_sys (6) ref_cnt=1\n";
        assert_eq!(map.show(), first);
        assert_eq!(map.matches().len(), 4);
        map.remove(PortNo(5), TunnelKind::Vxlan.into());
        check(&map, &packet(0x0800, 17, 4789), Some(5));
        map.remove(PortNo(5), TunnelKind::Vxlan.into());
        check(&map, &packet(0x0800, 17, 4789), None);
        assert!(map.has_address("br0") && !map.has_address("br1"));
        let is_own = |ip: &str| map.is_address_of("br0", ip.parse().unwrap());
        assert!(is_own("10.0.0.1") && is_own("fd00::1") && is_own("ff02::1:ff00:1"));
        assert!(!is_own("10.0.0.2") && !is_own("ff02::1:ff00:2") && !is_own("ff02::1"));
    }
}
