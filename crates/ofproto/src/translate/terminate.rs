//! The receiving end of tunnels: recognises outer packets on a port, and learns neighbours from others (ovs:
//! `ofproto/ofproto-dpif-xlate.c`, `terminate_native_tunnel`).

use super::context::Context;
use crate::effect::Effect;
use crate::ids::BridgeId;
use crate::port::Port;
use base::MacAddr;
use flow::{Action, Field};
use std::net::IpAddr;
use wire::{ethertype, icmpv6, protocol};

/// The sender of an outer packet at the end of a tunnel. The megaflow need not match its addresses, so this
/// applies to this packet only, not to later packets of the megaflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TunnelSender {
    pub bridge: BridgeId,
    pub ip: IpAddr,
    pub mac: MacAddr,
}

impl Context<'_> {
    /// The action that passes an outer packet to its tunnel port, if the port belongs to a local address.
    /// Learns neighbours from other packets.
    pub fn terminate(&mut self, port: &Port) -> Option<Action> {
        let underlay = self.world.underlay;
        if !underlay.ports.has_address(&port.spec.name) {
            return None;
        }
        let found = underlay.ports.lookup(self.key, &mut self.mask);
        let bridge = self.bridge.id;
        match found {
            Some((port, end)) => {
                let mac = self.key.eth_src();
                let ip = match self.key.eth_type() {
                    ethertype::IPV4 => IpAddr::V4(self.key.ipv4_src()),
                    _ => IpAddr::V6(self.key.ipv6_src()),
                };
                self.tunnel_sender = Some(TunnelSender { bridge, ip, mac });
                Some(Action::TunnelPop { port, end })
            }
            None => {
                self.look_at_ports();
                self.snoop();
                None
            }
        }
    }

    /// Learns from ARP replies, neighbour advertisements and gratuitous announcements (ovs:
    /// `lib/tnl-neigh-cache.c`, `tnl_neigh_snoop`).
    fn snoop(&mut self) {
        let seen = match self.key.eth_type() {
            ethertype::ARP => self.snoop_arp(),
            ethertype::IPV6 => self.snoop_nd(),
            _ => None,
        };
        if let Some((ip, mac)) = seen.filter(|(_, mac)| *mac != MacAddr::ZERO) {
            let bridge = self.bridge.id;
            self.effects.push(Effect::NeighbourSeen { bridge, ip, mac });
        }
    }

    fn snoop_arp(&mut self) -> Option<(IpAddr, MacAddr)> {
        for field in [Field::ArpOp, Field::ArpSpa, Field::ArpTpa] {
            self.mask.add(field);
        }
        let key = &self.key;
        let (sender, target) = (key.ipv4_src(), key.ipv4_dst());
        let is_announced = sender == target && key.eth_dst() == MacAddr::BROADCAST;
        let is_reply = key.get(Field::ArpOp) == 2 && self.is_own(IpAddr::V4(target));
        if !is_announced && !is_reply {
            return None;
        }
        self.mask.add(Field::EthDst);
        self.mask.add(Field::ArpSha);
        Some((sender.into(), MacAddr::from_u64(self.key.get(Field::ArpSha) as u64)))
    }

    fn snoop_nd(&mut self) -> Option<(IpAddr, MacAddr)> {
        if self.key.nw_proto() != protocol::ICMPV6 {
            return None;
        }
        self.mask.add(Field::NwProto);
        self.mask.add_bits(Field::TpSrc, 0xff);
        if self.key.tp_src() != icmpv6::NEIGHBOUR_ADVERT.into()
            || !self.is_own(IpAddr::V6(self.key.ipv6_dst()))
        {
            return None;
        }
        for field in [Field::Ipv6Src, Field::Ipv6Dst, Field::NdTarget, Field::ArpTha] {
            self.mask.add(field);
        }
        self.mask.add_bits(Field::TpDst, 0xff);
        let target = std::net::Ipv6Addr::from(self.key.get(Field::NdTarget));
        Some((target.into(), MacAddr::from_u64(self.key.get(Field::ArpTha) as u64)))
    }

    /// Whether some port of the bridge has the address.
    fn is_own(&self, ip: IpAddr) -> bool {
        let ports = &self.world.underlay.ports;
        self.bridge.ports().any(|port| ports.is_address_of(&port.spec.name, ip))
    }
}
