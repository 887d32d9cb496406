//! Packets: UDP over IPv4, each with a unique number in its payload.

use base::MacAddr;
use fastrand::Rng;
use packet::Packet;
use std::fmt::{self, Display, Formatter};

/// The fields of a packet that rules match. Packets with the same fields belong to one flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Header {
    /// The OpenFlow port that it comes in on.
    pub port: u8,
    /// Last octet of the source address.
    pub src: u8,
    /// Last octet of the destination address.
    pub dst: u8,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Type of service, without ECN.
    pub tos: u8,
}

/// The offset of the type of service in a frame.
const TOS_AT: usize = 15;
/// The number of digits of a packet's number, which are the last bytes of its frame.
const DIGITS: usize = 8;

impl Header {
    /// The limit of the last octets of addresses.
    pub const HOSTS: u8 = 8;
    /// The last octet of the address that NAT gives to sources. No host has it.
    pub const NAT_HOST: u8 = 100;

    /// A packet from a random host to another on a random port.
    pub fn random(rng: &mut Rng, ports: u8) -> Header {
        let src = rng.u8(..Header::HOSTS);
        Header {
            port: rng.u8(1..=ports),
            src,
            dst: (src + rng.u8(1..Header::HOSTS)) % Header::HOSTS,
            sport: Header::random_sport(rng),
            dport: Header::random_dport(rng),
            tos: Header::random_tos(rng),
        }
    }

    pub(crate) fn random_sport(rng: &mut Rng) -> u16 {
        1024 + rng.u16(0..1024)
    }

    pub(crate) fn random_dport(rng: &mut Rng) -> u16 {
        [53, 80, 443][rng.usize(0..3)]
    }

    pub(crate) fn random_tos(rng: &mut Rng) -> u8 {
        [0, 0, 32, 64][rng.usize(0..4)]
    }

    /// Returns the header of the reply that comes in on this port.
    #[must_use]
    pub fn reply(&self, port: u8) -> Header {
        let Header { src, dst, sport, dport, tos, .. } = *self;
        Header { port, src: dst, dst: src, sport: dport, dport: sport, tos }
    }

    /// Returns the packet with this number.
    pub fn packet(&self, number: u32) -> Packet {
        let text = format!(
            "10.0.0.{}:{}>10.0.0.{}:{} udp tos={} data={number:0DIGITS$} eth={}>{}",
            self.src,
            self.sport,
            self.dst,
            self.dport,
            self.tos,
            mac(self.src),
            mac(self.dst)
        );
        let frame = wire::text::parse(&text).unwrap_or_default();
        Packet::from_bytes(&frame)
    }
}

fn mac(host: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, host])
}

/// Returns the number and the type of service of a packet.
pub fn read(packet: &Packet) -> Option<(u32, u8)> {
    let data = packet.data();
    let digits = data.get(data.len().checked_sub(DIGITS)?..)?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number, *data.get(TOS_AT)?))
}

/// Returns the number and the header of a packet that comes in on a port.
pub fn parse(packet: &Packet, port: Option<u8>) -> Option<(u32, Header)> {
    let (number, tos) = read(packet)?;
    let data = packet.data();
    let word = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
    let (src, dst) = (*data.get(29)?, *data.get(33)?);
    Some((number, Header { port: port?, src, dst, sport: word(34)?, dport: word(36)?, tos }))
}

impl Display for Header {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Header { port, src, dst, sport, dport, tos } = self;
        write!(f, "port {port}: 10.0.0.{src}:{sport}>10.0.0.{dst}:{dport} tos={tos}")
    }
}
