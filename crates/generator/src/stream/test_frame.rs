//! The frames of stateless tests: UDP over IPv4 (RFC 2544 appendix C.2.6.4) or IPv6 (RFC 5180), of an exact
//! size, each with a signature, a number and its sending time.

use super::StationConfig;
use crate::address::Address;
use crate::checksum::Sum;
use crate::frame::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, PROTOCOL_UDP};
use base::MacAddr;
use packet::{Offload, Packet};

/// Both ends of a test flow, as the sender's frames name them. Both addresses have the same version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FourTuple {
    pub source: Address,
    pub destination: Address,
    pub source_port: u16,
    pub destination_port: u16,
}

impl FourTuple {
    /// The same flow as the other end's frames name it.
    pub fn reversed(self) -> FourTuple {
        FourTuple {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    /// Returns whether the flow is IPv6.
    pub fn is_v6(&self) -> bool {
        self.source.as_v4().is_none()
    }
}

/// The label of a test frame. It fills exactly the payload of the smallest frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label {
    /// Phase of the trial; the lowest bit is the direction.
    pub phase: u16,
    /// Number in this phase and direction, from 0.
    pub number: u64,
    /// Sending time, in nanoseconds.
    pub sent_ns: u64,
}

/// What the payload starts with.
const SIGNATURE: u16 = 0x7447;
/// Bytes of the label.
const LABEL: usize = 18;
/// Bytes of the frame check sequence, which frame sizes include and buffers do not.
const FCS: usize = 4;
/// An Ethernet header.
const ETHERNET: usize = 14;
/// A UDP header.
const UDP: usize = 8;

impl Label {
    fn bytes(&self) -> [u8; LABEL] {
        let mut bytes = [0; LABEL];
        bytes[0..2].copy_from_slice(&SIGNATURE.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.phase.to_be_bytes());
        // 48 bits suffice for years of frames.
        bytes[4..10].copy_from_slice(&self.number.to_be_bytes()[2..]);
        bytes[10..18].copy_from_slice(&self.sent_ns.to_be_bytes());
        bytes
    }

    /// Reads the label of a payload; `None` where it is not a test frame.
    pub fn read(payload: &[u8]) -> Option<Label> {
        let bytes = payload.first_chunk::<LABEL>()?;
        if bytes[0..2] != SIGNATURE.to_be_bytes() {
            return None;
        }
        let mut number = [0; 8];
        number[2..].copy_from_slice(&bytes[4..10]);
        let mut sent_ns = [0; 8];
        sent_ns.copy_from_slice(&bytes[10..18]);
        Some(Label {
            phase: u16::from_be_bytes([bytes[2], bytes[3]]),
            number: u64::from_be_bytes(number),
            sent_ns: u64::from_be_bytes(sent_ns),
        })
    }
}

/// A frame in which only addresses, ports and label are missing.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Offset of the addresses; ports, UDP length, UDP checksum and label follow them.
    addresses: usize,
    version: Version,
    /// Sum of the UDP length (twice), protocol and padding: the part that is the same in every frame.
    udp_sum: Sum,
}

#[derive(Clone, Debug)]
enum Version {
    /// The sum of the IPv4 header without its addresses.
    V4(Sum),
    V6,
}

impl Template {
    /// A frame of the configured size, FCS included and VLAN tag not. Sizes that are too small for the label
    /// are raised to the smallest possible one.
    pub fn new(config: &StationConfig) -> Template {
        let is_v6 = config.network.is_v6;
        let (ethertype, ip) = if is_v6 { (ETHERTYPE_IPV6, 40) } else { (ETHERTYPE_IPV4, 20) };
        let headers = ETHERNET + ip + UDP;
        let payload = usize::from(config.frame_bytes).saturating_sub(FCS + headers).max(LABEL);
        let udp = (UDP + payload) as u16;
        let mut bytes = Vec::with_capacity(headers + 4 + payload);
        bytes.extend_from_slice(&config.to.0);
        bytes.extend_from_slice(&config.mac.0);
        if let Some(vlan) = config.vlan {
            bytes.extend_from_slice(&ETHERTYPE_VLAN.to_be_bytes());
            bytes.extend_from_slice(&(vlan & 0xfff).to_be_bytes());
        }
        bytes.extend_from_slice(&ethertype.to_be_bytes());
        let version = if is_v6 {
            let mut header = [0x60, 0, 0, 0, 0, 0, PROTOCOL_UDP, 64];
            header[4..6].copy_from_slice(&udp.to_be_bytes());
            bytes.extend_from_slice(&header);
            Version::V6
        } else {
            let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, PROTOCOL_UDP, 0, 0];
            header[2..4].copy_from_slice(&(20 + udp).to_be_bytes());
            bytes.extend_from_slice(&header);
            Version::V4(Sum::default().bytes(&header))
        };
        let addresses = bytes.len();
        // Addresses, ports.
        bytes.resize(addresses + if is_v6 { 36 } else { 12 }, 0);
        bytes.extend_from_slice(&udp.to_be_bytes());
        bytes.extend_from_slice(&[0; 2 + LABEL]);
        // Bytes count up (RFC 2544 appendix C.2.6.4).
        let padding: Vec<u8> = (0..payload - LABEL).map(|at| at as u8).collect();
        bytes.extend_from_slice(&padding);
        let udp_sum =
            Sum::default().number(udp).number(udp).number(PROTOCOL_UDP.into()).bytes(&padding);
        Template { bytes, addresses, version, udp_sum }
    }

    /// Sets the destination MAC address of further frames.
    pub fn set_destination(&mut self, to: MacAddr) {
        if let Some(start) = self.bytes.first_chunk_mut::<6>() {
            *start = to.0;
        }
    }

    /// Writes a frame of this flow.
    pub fn write(&self, packet: &mut Packet, flow: &FourTuple, label: &Label) {
        let mut ends = [0; 36];
        // The last four bytes of a mapped address are the IPv4 address.
        let (size, from) = if let Version::V4(_) = self.version { (4, 12) } else { (16, 0) };
        ends[..size].copy_from_slice(&flow.source.0[from..]);
        ends[size..2 * size].copy_from_slice(&flow.destination.0[from..]);
        ends[2 * size..2 * size + 2].copy_from_slice(&flow.source_port.to_be_bytes());
        ends[2 * size + 2..2 * size + 4].copy_from_slice(&flow.destination_port.to_be_bytes());
        let ends = &ends[..2 * size + 4];
        let label = label.bytes();
        // The padding starts at an even offset after the label, so its sum can be added unchanged. In UDP 0
        // means "no checksum" (RFC 768).
        let udp_checksum = match self.udp_sum.bytes(ends).bytes(&label).finish() {
            0 => 0xffff,
            sum => sum,
        };
        let area = packet.receive_area();
        let length = self.bytes.len();
        let Some(area) = area.get_mut(..length) else { return };
        area.copy_from_slice(&self.bytes);
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(to) = area.get_mut(at..at + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        };
        if let Version::V4(sum) = self.version {
            put(self.addresses - 2, &sum.bytes(&ends[..8]).finish().to_be_bytes());
        }
        put(self.addresses, ends);
        // The UDP checksum follows ports and length.
        let checksum = self.addresses + ends.len() + 2;
        put(checksum, &udp_checksum.to_be_bytes());
        put(checksum + 2, &label);
        packet.set_received(length, Offload::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_in::{self, Content};
    use crate::stream::Network;
    use packet::Pool;

    #[test]
    fn frames_have_their_size_and_are_read_back() {
        let mut pool = Pool::new(4);
        // Version, frame size, VLAN, and the expected bytes without FCS.
        let cases = [
            (4, 64, None, 60),
            (4, 65, None, 61),
            (4, 1518, None, 1514),
            (4, 512, Some(7), 512),
            (4, 1, None, 60),
            (6, 84, None, 80),
            (6, 85, None, 81),
            (6, 1518, None, 1514),
            (6, 512, Some(7), 512),
            (6, 64, None, 80),
        ];
        for (version, frame_bytes, vlan, bytes) in cases {
            let network = Network { is_v6: version == 6, addresses: 1 };
            let config = StationConfig {
                mac: MacAddr([2, 0, 0, 0, 0, 1]),
                to: MacAddr([2, 0, 0, 0, 0, 2]),
                vlan,
                frame_bytes,
                network,
                seed: 1,
            };
            let flow = FourTuple {
                source: network.initiators().get(0),
                destination: network.responders().get(0),
                source_port: 49_999,
                destination_port: 7,
            };
            for number in [0, 1, 77, 0x0000_ffff_ffff_ffff] {
                let label = Label { phase: 0x8001, number, sent_ns: number * 3 };
                let mut packet = pool.take();
                Template::new(&config).write(&mut packet, &flow, &label);
                assert_eq!(packet.len(), bytes, "IPv{version}, size {frame_bytes}");
                let arrived = frame_in::read(packet.data(), vlan, true).unwrap();
                let Content::Udp(datagram) = arrived.content else { panic!("{arrived:?}") };
                assert_eq!(Label::read(datagram.payload), Some(label));
                let read = FourTuple {
                    source: arrived.source,
                    destination: arrived.destination,
                    source_port: datagram.source_port,
                    destination_port: datagram.destination_port,
                };
                assert_eq!(read, flow);
                assert_eq!(flow.reversed().reversed(), flow);
                assert_eq!(flow.is_v6(), version == 6);
                pool.give(packet);
            }
        }
        assert_eq!(Label::read(&[0; 18]), None);
        assert_eq!(Label::read(&[0x74, 0x47]), None);
    }
}
