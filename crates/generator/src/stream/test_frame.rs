//! The frames of stateless tests: UDP over IPv4 (RFC 2544 appendix C.2.6.4), of an exact size,
//! each with a signature, a number and the time at which it was sent.

use crate::address::Address;
use crate::checksum::Sum;
use crate::frame::{ETHERTYPE_IPV4, ETHERTYPE_VLAN, PROTOCOL_UDP};
use base::MacAddr;
use packet::{Offload, Packet};

/// Both ends of a test flow, as the sender's frames name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FourTuple {
    pub source: [u8; 4],
    pub destination: [u8; 4],
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

    /// Of addresses that were read from a frame; none: they are not IPv4.
    pub fn read(source: Address, destination: Address, ports: (u16, u16)) -> Option<FourTuple> {
        Some(FourTuple {
            source: source.as_v4()?,
            destination: destination.as_v4()?,
            source_port: ports.0,
            destination_port: ports.1,
        })
    }
}

/// What a test frame says of itself. It takes just the payload that the smallest frame has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label {
    /// The phase of a trial that it belongs to, and in its last bit the direction.
    pub phase: u16,
    /// Its number in this phase and direction, counted from 0.
    pub number: u64,
    /// When it was sent.
    pub sent_ns: u64,
}

/// What the payload starts with.
const SIGNATURE: u16 = 0x7447;
/// Bytes of the label.
const LABEL: usize = 18;
/// The frame check sequence, which sizes of frames include and buffers do not.
const FCS: usize = 4;
/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;

impl Label {
    fn bytes(&self) -> [u8; LABEL] {
        let mut bytes = [0; LABEL];
        bytes[0..2].copy_from_slice(&SIGNATURE.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.phase.to_be_bytes());
        // 48 bits of number last for years.
        bytes[4..10].copy_from_slice(&self.number.to_be_bytes()[2..]);
        bytes[10..18].copy_from_slice(&self.sent_ns.to_be_bytes());
        bytes
    }

    /// Reads the label of a payload; none: it is no test frame.
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

/// A frame of which only addresses, ports and label are still open.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Where the IPv4 header starts.
    ip: usize,
    /// Of the IPv4 header without its addresses.
    ip_sum: Sum,
    /// Of the UDP length twice, protocol and padding: all that no frame changes.
    udp_sum: Sum,
}

impl Template {
    /// A frame of `size` bytes on the wire, its FCS counted and a VLAN tag not; sizes below 64 are
    /// taken for 64.
    pub fn new(size: u16, mac: MacAddr, to: MacAddr, vlan: Option<u16>) -> Template {
        let payload = usize::from(size).saturating_sub(FCS + HEADERS).max(LABEL);
        let udp = 8 + payload as u16;
        let mut bytes = Vec::with_capacity(HEADERS + 4 + payload);
        bytes.extend_from_slice(&to.0);
        bytes.extend_from_slice(&mac.0);
        if let Some(vlan) = vlan {
            bytes.extend_from_slice(&ETHERTYPE_VLAN.to_be_bytes());
            bytes.extend_from_slice(&(vlan & 0xfff).to_be_bytes());
        }
        bytes.extend_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
        let ip = bytes.len();
        let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, PROTOCOL_UDP, 0, 0];
        header[2..4].copy_from_slice(&(20 + udp).to_be_bytes());
        bytes.extend_from_slice(&header);
        // Addresses, ports.
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(&udp.to_be_bytes());
        bytes.extend_from_slice(&[0; 2 + LABEL]);
        // Each byte counts up, as RFC 2544 appendix C.2.6.4 has it.
        let padding: Vec<u8> = (0..payload - LABEL).map(|at| at as u8).collect();
        bytes.extend_from_slice(&padding);
        let udp_sum =
            Sum::default().number(udp).number(udp).number(PROTOCOL_UDP.into()).bytes(&padding);
        Template { bytes, ip, ip_sum: Sum::default().bytes(&header), udp_sum }
    }

    /// Frames go there from now on.
    pub fn set_destination(&mut self, to: MacAddr) {
        if let Some(start) = self.bytes.first_chunk_mut::<6>() {
            *start = to.0;
        }
    }

    /// Writes a frame of this flow.
    pub fn write(&self, packet: &mut Packet, flow: &FourTuple, label: &Label) {
        let mut ends = [0; 12];
        ends[0..4].copy_from_slice(&flow.source);
        ends[4..8].copy_from_slice(&flow.destination);
        ends[8..10].copy_from_slice(&flow.source_port.to_be_bytes());
        ends[10..12].copy_from_slice(&flow.destination_port.to_be_bytes());
        let label = label.bytes();
        let ip_checksum = self.ip_sum.bytes(&ends[..8]).finish();
        // The padding starts at an even offset behind the label, so its sum stands as it is. 0
        // would mean "none" (RFC 768).
        let udp_checksum = match self.udp_sum.bytes(&ends).bytes(&label).finish() {
            0 => 0xffff,
            sum => sum,
        };
        let area = packet.receive_area();
        let length = self.bytes.len();
        let Some(area) = area.get_mut(..length) else { return };
        area.copy_from_slice(&self.bytes);
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(to) = area.get_mut(self.ip + at..self.ip + at + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        };
        put(10, &ip_checksum.to_be_bytes());
        put(12, &ends);
        put(26, &udp_checksum.to_be_bytes());
        put(28, &label);
        packet.set_received(length, Offload::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_in::{self, Content};
    use packet::Pool;

    #[test]
    fn frames_have_their_size_and_are_read_back() {
        let flow = FourTuple {
            source: [198, 18, 0, 2],
            destination: [198, 19, 0, 2],
            source_port: 49_999,
            destination_port: 7,
        };
        let (mac, to) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let mut pool = Pool::new(4);
        for (size, vlan, bytes) in
            [(64, None, 60), (65, None, 61), (1518, None, 1514), (512, Some(7), 512), (1, None, 60)]
        {
            for number in [0, 1, 77, 0x0000_ffff_ffff_ffff] {
                let label = Label { phase: 0x8001, number, sent_ns: number * 3 };
                let mut packet = pool.take();
                Template::new(size, mac, to, vlan).write(&mut packet, &flow, &label);
                assert_eq!(packet.len(), bytes, "size {size}");
                let arrived = frame_in::read(packet.data(), vlan, true).unwrap();
                let Content::Udp(datagram) = arrived.content else { panic!("{arrived:?}") };
                assert_eq!(Label::read(datagram.payload), Some(label));
                let ports = (datagram.source_port, datagram.destination_port);
                let read = FourTuple::read(arrived.source, arrived.destination, ports);
                assert_eq!(read, Some(flow));
                assert_eq!(flow.reversed().reversed(), flow);
                pool.give(packet);
            }
        }
        assert_eq!(Label::read(&[0; 18]), None);
        assert_eq!(Label::read(&[0x74, 0x47]), None);
    }
}
