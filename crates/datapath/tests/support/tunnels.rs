//! Packets in VXLAN tunnels, and the actions of flow tables with tunnels.

use base::{MacAddr, PortNo};
use flow::{Action, Field, FlowKey, Mask, TunnelKind, TunnelPush};
use std::net::IpAddr;
use std::sync::Arc;
use tunnel::{Outer, TunnelConfig};

/// The first tunnel port; there are two.
const PORT: u32 = 8;
const UDP_PORT: u16 = 4789;

/// Puts a packet into a tunnel. The numbers choose the VNI, the endpoints and the form of the outer headers.
pub fn wrap(inner: &[u8], choice: u32) -> Vec<u8> {
    let has_checksum = choice & 1 == 0;
    let header =
        header(choice >> 8 & 3, 2 + (choice >> 10 & 1) as u8, choice >> 1 & 7 == 0, has_checksum);
    let mut bytes = [&header, inner].concat();
    let source_port = 40_000 + (choice >> 12 & 3) as u16;
    tunnel::finish(
        &mut bytes,
        TunnelKind::Vxlan,
        source_port,
        &flow::TunnelSequence::default(),
        base::Instant::ZERO,
    )
    .expect("it is short");
    if choice >> 16 & 7 == 0 {
        bytes.extend([0; 3]);
    }
    bytes
}

/// Returns the inner packet of a packet that the switch encapsulated.
pub fn unwrap(bytes: &[u8]) -> Option<Vec<u8>> {
    let found = tunnel::decapsulate(TunnelKind::Vxlan, bytes, true).ok()?;
    let is_to = |at: usize| bytes.get(at..at + 2) == Some(&UDP_PORT.to_be_bytes());
    (is_to(36) || is_to(56)).then(|| bytes[found.header_len..found.end].to_vec())
}

fn header(vni: u32, end: u8, is_ipv6: bool, checksum: bool) -> Box<[u8]> {
    let options = [("remote_ip", "flow"), ("key", "flow")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let config = TunnelConfig::parse(TunnelKind::Vxlan, "t", &options).config.expect("valid");
    let ip = |last: u8| match is_ipv6 {
        true => IpAddr::from([0xfd00, 9, 0, 0, 0, 0, 0, u16::from(last)]),
        false => IpAddr::from([172, 16, 0, last]),
    };
    let outer = Outer {
        ethernet: (MacAddr([2, 0, 0, 0, 0, end]), MacAddr([2, 0, 0, 0, 0, 1])),
        source: ip(end),
        destination: ip(1),
        tos: 0,
        ttl: 64,
        dont_fragment: true,
        checksum,
        oam: false,
        key: vni.into(),
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    };
    tunnel::build(&config, &outer).expect("VXLAN can say that")
}

/// Returns whether the packet came out of a tunnel.
pub fn is_inside(key: &FlowKey) -> bool {
    key.in_port().0 >= PORT
}

/// Adds the fields that tables with tunnels match; `class` chooses among packets of a kind.
pub fn look(key: &FlowKey, class: u64, mask: &mut Mask) {
    if !is_inside(key) && key.recirc_id().0 == 0 && key.nw_proto() == 17 {
        mask.add(Field::TpDst);
    }
    for (i, field) in [Field::TunId, Field::TunIpv6Src, Field::TunTos].into_iter().enumerate() {
        if is_inside(key) && class >> (50 + i) & 1 == 0 {
            mask.add(field);
        }
    }
}

/// Returns the actions that decapsulate a packet that [`look`] recognised as a tunnel's.
pub fn opening(key: &FlowKey, choice: u64) -> Option<Vec<Action>> {
    let is_outer = key.nw_proto() == 17 && key.nw_frag() == 0 && key.tp_dst() == UDP_PORT;
    if is_inside(key) || key.recirc_id().0 != 0 || !is_outer {
        return None;
    }
    let port = PortNo(PORT + (choice >> 40 & 1) as u32);
    let pop = Action::TunnelPop { port, end: TunnelKind::Vxlan.into() };
    Some(match choice >> 41 & 7 {
        0 => vec![Action::Output(PortNo(5)), pop],
        1 => vec![Action::PushVlan { tpid: 0x8100, tci: 0x1005 }, pop],
        _ => vec![pop],
    })
}

/// Changes the actions of tables without tunnels to those with: some packets are encapsulated.
pub fn with_tunnels(mut actions: Vec<Action>, key: &FlowKey, choice: u64) -> Vec<Action> {
    for action in &mut actions {
        if let Action::Output(PortNo(port)) = action {
            *port = if *port >= PORT { *port & 3 } else { *port };
        }
    }
    let Some(Action::Output(_)) = actions.last() else { return actions };
    if !matches!(key.eth_type(), 0x800 | 0x86dd) || choice >> 44 & 3 != 0 {
        return actions;
    }
    let push = TunnelPush {
        port: PortNo(PORT),
        out_port: PortNo(4),
        kind: TunnelKind::Vxlan,
        strips_ethernet: false,
        source_ports: tunnel::SOURCE_PORTS,
        header: header(
            1 + (choice >> 46 & 1) as u32,
            2,
            choice >> 47 & 3 == 0,
            choice >> 49 & 1 == 0,
        ),
        frame_max: u32::MAX,
        answer: FlowKey::new(),
        copies_ecn: false,
        sequence: flow::TunnelSequence::default(),
    };
    actions.insert(actions.len() - 1, Action::TunnelPush(Arc::new(push)));
    actions
}
