//! Finds the tunnel port of a received packet (ovs: `ofproto/tunnel.c`, `tnl_find`).

use crate::config::{Endpoint, Key, PacketType, TunnelConfig};
use base::PortNo;
use hashbrown::HashMap;
use std::net::IpAddr;

/// The outer header fields of a received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// The datapath port that received it.
    pub device: PortNo,
    /// The key, or 0 if there is none.
    pub key: u64,
    /// The remote address.
    pub source: Option<IpAddr>,
    /// The local address.
    pub destination: Option<IpAddr>,
    /// Whether the inner packet has an Ethernet header.
    pub is_frame: bool,
}

/// The packets that a port receives. Each port has another pattern.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Pattern {
    device: PortNo,
    /// `None` for any key (`key=flow`).
    key: Option<u64>,
    /// `None` for any address.
    remote: Option<IpAddr>,
    local: Local,
    packet_type: PacketType,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Local {
    Is(IpAddr),
    Any,
    Flow,
}

/// The tunnel ports. `P` identifies a port.
#[derive(Clone, Debug)]
pub struct Receivers<P> {
    ports: HashMap<Pattern, P>,
}

impl<P> Default for Receivers<P> {
    fn default() -> Self {
        Receivers { ports: HashMap::new() }
    }
}

impl<P: Copy + PartialEq> Receivers<P> {
    /// Adds a port.
    ///
    /// # Errors
    /// The port that already has the same pattern.
    pub fn add(&mut self, device: PortNo, config: &TunnelConfig, port: P) -> Result<(), P> {
        let pattern = Pattern::of(device, config);
        if let Some(other) = self.ports.get(&pattern) {
            return Err(*other);
        }
        self.ports.insert(pattern, port);
        Ok(())
    }

    /// Removes a port.
    pub fn remove(&mut self, port: P) {
        self.ports.retain(|_, other| *other != port);
    }

    /// Returns the port with the most specific pattern that matches the packet. A configured key has
    /// precedence over `key=flow`, then a remote address over any, then a local address over any.
    pub fn find(&self, packet: &Arrived) -> Option<P> {
        if self.ports.is_empty() {
            return None;
        }
        let legacy = if packet.is_frame { PacketType::LegacyL2 } else { PacketType::LegacyL3 };
        let locals = [packet.destination.map(Local::Is), Some(Local::Any), Some(Local::Flow)];
        for key in [Some(packet.key), None] {
            for remote in [packet.source, None] {
                for local in locals.into_iter().flatten() {
                    for packet_type in [legacy, PacketType::Aware] {
                        let device = packet.device;
                        let pattern = Pattern { device, key, remote, local, packet_type };
                        if let Some(port) = self.ports.get(&pattern) {
                            return Some(*port);
                        }
                    }
                }
            }
        }
        None
    }
}

impl Pattern {
    fn of(device: PortNo, config: &TunnelConfig) -> Pattern {
        let key = match config.in_key {
            Key::Flow => None,
            key => Some(key.value()),
        };
        let remote = match config.remote {
            Endpoint::Is(ip) => Some(ip),
            Endpoint::Any | Endpoint::Flow => None,
        };
        let local = match config.local {
            Endpoint::Is(ip) => Local::Is(ip),
            Endpoint::Any => Local::Any,
            Endpoint::Flow => Local::Flow,
        };
        Pattern { device, key, remote, local, packet_type: config.packet_type }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::TunnelKind;

    fn config(options: &str) -> TunnelConfig {
        let options = options.split_whitespace().filter_map(|it| it.split_once('='));
        let options = options.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        TunnelConfig::parse(TunnelKind::Vxlan, "t", &options).config.unwrap()
    }

    #[test]
    fn the_port_that_says_most_takes_a_packet() {
        let mut all = Receivers::default();
        let ports = [
            "remote_ip=flow key=flow",
            "remote_ip=1.1.1.1 key=flow",
            "remote_ip=1.1.1.1 key=5",
            "remote_ip=1.1.1.1 local_ip=2.2.2.2 key=5",
            "remote_ip=flow key=7",
            "remote_ip=flow local_ip=flow key=9",
        ];
        for (number, options) in ports.iter().enumerate() {
            assert_eq!(all.add(PortNo(4), &config(options), number), Ok(()));
        }
        assert_eq!(all.add(PortNo(4), &config(ports[2]), 9), Err(2));
        let packet = |key, source: &str, destination: &str| Arrived {
            device: PortNo(4),
            key,
            source: source.parse().ok(),
            destination: destination.parse().ok(),
            is_frame: true,
        };
        let check = |packet: Arrived, expect| assert_eq!(all.find(&packet), expect, "{packet:?}");
        check(packet(5, "1.1.1.1", "2.2.2.2"), Some(3));
        check(packet(5, "1.1.1.1", "2.2.2.3"), Some(2));
        check(packet(6, "1.1.1.1", "2.2.2.2"), Some(1));
        check(packet(6, "1.1.1.2", "2.2.2.2"), Some(0));
        check(packet(7, "1.1.1.1", "2.2.2.2"), Some(4));
        check(packet(9, "1.1.1.9", "2.2.2.2"), Some(5));
        check(Arrived { device: PortNo(5), ..packet(6, "1.1.1.1", "2.2.2.2") }, None);
        check(Arrived { is_frame: false, ..packet(6, "1.1.1.1", "2.2.2.2") }, None);
        all.remove(0);
        assert_eq!(all.find(&packet(6, "1.1.1.2", "2.2.2.2")), None);
    }
}
