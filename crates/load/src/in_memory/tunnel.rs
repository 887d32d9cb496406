//! A switch in memory whose second port is behind a tunnel: flows name the tunnel instead of the port, and
//! outer packets pass through a separate underlay bridge, as in a hypervisor.

use super::switch::{Parts, add_flows};
use super::{InMemoryError, PORTS, Switch};
use ::conntrack::Conntrack;
use ::datapath::Answers;
use base::{Instant, MacAddr, PortNo, WorkerId};
use flow::TunnelKind;
use ofproto::{BridgeConfig, BridgeId, FailMode, Ofproto, PortDevice, PortSpec};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tunnel::{SystemRoute, SystemRoutes, SystemRouting, TABLE_MAIN, TunnelConfig};

/// MAC and IP address of this end of the tunnel.
pub const NEAR: (MacAddr, Ipv4Addr) = (MacAddr([2, 0, 0, 9, 0, 1]), Ipv4Addr::new(10, 9, 0, 1));
/// MAC and IP address of the other end.
pub const FAR: (MacAddr, Ipv4Addr) = (MacAddr([2, 0, 0, 9, 0, 2]), Ipv4Addr::new(10, 9, 0, 2));
/// The tunnel's key.
pub const KEY: u32 = 101;
/// The underlay bridge, whose local port has the address.
const UNDERLAY: &str = "br-phy";
/// Datapath port numbers of the underlay bridge and of the tunnels.
const UNDERLAY_PORT: PortNo = PortNo(1001);
const TUNNEL_PORT: PortNo = PortNo(1002);
/// The flows of the underlay bridge.
const UNDERLAY_FLOWS: &str = "in_port=p1 actions=LOCAL\nin_port=LOCAL actions=output:p1";

impl Switch {
    /// As [`Switch::sharing`], but `p1` in the flows is a tunnel of this kind, whose outer packets leave and
    /// arrive on the second port.
    pub fn with_tunnel(
        kind: TunnelKind,
        flows: &str,
        worker: WorkerId,
        conntrack: Arc<Conntrack>,
    ) -> Result<Switch, InMemoryError> {
        let now = clock::now();
        let mut core = underlay(now)?;
        let [(guest, port), (wire, _)] = PORTS;
        let bridge = inner_bridge(&mut core, &[(guest, port)], now)?;
        add_tunnel(&mut core, bridge, ("t0", kind, &KEY.to_string()), now)?;
        add_flows(&mut core, bridge, flows, now, &|name| if name == wire { "t0" } else { name })?;
        Switch::of(Answers::Owner, Parts { core, bridge, worker, conntrack })
    }
}

fn refused(reason: impl std::fmt::Display) -> InMemoryError {
    InMemoryError::Port(reason.to_string())
}

fn add_bridge(core: &mut Ofproto, name: &str, mac: MacAddr, now: Instant) -> BridgeId {
    let mut config = BridgeConfig::new(name, mac);
    config.fail_mode = FailMode::Secure;
    core.add_bridge(config, now)
}

/// The underlay bridge with this end's address, the second port, a route and a neighbour.
fn underlay(now: Instant) -> Result<Ofproto, InMemoryError> {
    let mut core = Ofproto::new(ofproto::Config::default());
    let bridge = add_bridge(&mut core, UNDERLAY, NEAR.0, now);
    let (wire, wire_port) = PORTS[1];
    let own = PortSpec::new(UNDERLAY, NEAR.0, PortDevice::Datapath(UNDERLAY_PORT));
    core.add_port(bridge, PortSpec { is_local: true, ..own }, now).map_err(refused)?;
    let wire = PortSpec::new(wire, mac_of(wire_port), PortDevice::Datapath(wire_port));
    core.add_port(bridge, wire, now).map_err(refused)?;
    let near = IpAddr::V4(NEAR.1);
    let route = SystemRoute {
        table: TABLE_MAIN,
        metric: 0,
        prefix: IpAddr::from([10, 9, 0, 0]),
        len: 24,
        device: UNDERLAY.to_owned(),
        gateway: None,
        source: Some(near),
        mtu: None,
    };
    let addresses = BTreeMap::from([(UNDERLAY.to_owned(), vec![(near, 24)])]);
    let macs = BTreeMap::from([(UNDERLAY.to_owned(), NEAR.0)]);
    let routing = SystemRouting { routes: vec![route], addresses, ..SystemRouting::default() };
    core.set_routing(Arc::new(SystemRoutes::new(routing)), macs);
    core.learn_neighbour(now, UNDERLAY, FAR.1.into(), FAR.0);
    add_flows(&mut core, bridge, UNDERLAY_FLOWS, now, &|name| name)?;
    Ok(core)
}

fn inner_bridge(
    core: &mut Ofproto,
    guests: &[(&str, PortNo)],
    now: Instant,
) -> Result<BridgeId, InMemoryError> {
    let bridge = add_bridge(core, "br0", MacAddr([2, 0, 0, 0, 0, 0xb0]), now);
    for &(name, port) in guests {
        let spec = PortSpec::new(name, mac_of(port), PortDevice::Datapath(port));
        core.add_port(bridge, spec, now).map_err(refused)?;
    }
    Ok(bridge)
}

/// Adds a tunnel port with this name, kind and key.
fn add_tunnel(
    core: &mut Ofproto,
    bridge: BridgeId,
    (name, kind, key): (&str, TunnelKind, &str),
    now: Instant,
) -> Result<(), InMemoryError> {
    let options = [("remote_ip", FAR.1.to_string()), ("key", key.to_owned())];
    let options = options.map(|(name, value)| (name.to_owned(), value)).into();
    let config = TunnelConfig::parse(kind, name, &options).config.map_err(refused)?;
    let (device_name, udp_port) = (config.device_name(), config.udp_port);
    let device = PortDevice::Tunnel { device: TUNNEL_PORT, config: Arc::new(config) };
    core.add_port(bridge, PortSpec::new(name, mac_of(TUNNEL_PORT), device), now)
        .map_err(refused)?;
    core.add_tunnel_end(TUNNEL_PORT, &device_name, kind.into(), udp_port);
    Ok(())
}

fn mac_of(port: PortNo) -> MacAddr {
    let [_, _, high, low] = port.0.to_be_bytes();
    MacAddr([2, 0, 0, high, low, 0xb0])
}

#[cfg(test)]
mod tests;
