//! The tunnel for measurements of the datapath, with outer headers as another hypervisor makes them.

use super::packets;
use base::MacAddr;
use clap::ValueEnum;
use flow::TunnelKind;
use load::in_memory::tunnel::{FAR, KEY, NEAR};
use std::net::Ipv4Addr;
use wire::builder::PacketBuilder;

/// Bytes in front of the inner frame: Ethernet, IPv4, UDP and the tunnel's header.
pub const OUTER_BYTES: usize = 50;

/// The tunnel's protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Tunnel {
    /// VXLAN over IPv4
    Vxlan,
    /// Geneve over IPv4, without options
    Geneve,
}

impl Tunnel {
    /// The kind for the switch.
    pub fn kind(self) -> TunnelKind {
        match self {
            Tunnel::Vxlan => TunnelKind::Vxlan,
            Tunnel::Geneve => TunnelKind::Geneve,
        }
    }

    /// The interface type.
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// A frame as the other end sends it: without UDP checksum, and with a source port derived from the inner
    /// ports, so that connections differ in it as on a real underlay.
    pub fn wrap(self, inner: &[u8]) -> Vec<u8> {
        let header = match self {
            Tunnel::Vxlan => wire::vxlan::header(wire::vxlan::FLAG_VNI, KEY),
            Tunnel::Geneve => {
                wire::geneve::header(0, wire::ethertype::TRANSPARENT_ETHERNET, KEY, 0)
            }
        };
        let udp_port = match self {
            Tunnel::Vxlan => wire::vxlan::PORT,
            Tunnel::Geneve => wire::geneve::PORT,
        };
        let inner_port = inner.get(36..38).map_or(0, |it| u16::from_be_bytes([it[0], it[1]]));
        let (from, to): ((MacAddr, Ipv4Addr), (MacAddr, Ipv4Addr)) = (FAR, NEAR);
        let mut frame = PacketBuilder::eth(from.0, to.0)
            .ipv4(from.1, to.1)
            .udp(32_768 + inner_port % 28_000, udp_port)
            .payload([&header[..], inner].concat())
            .build();
        packets::put(&mut frame, packets::UDP_CHECKSUM, [0, 0]);
        frame
    }

    /// The inner frame.
    pub fn unwrap(self, frame: &[u8]) -> &[u8] {
        frame.get(OUTER_BYTES..).unwrap_or_default()
    }
}
