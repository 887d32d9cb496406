//! The packets and batches for measurements of connection tracking.

use ::conntrack::Tracker;
use base::{Instant, PortNo};
use flow::{CtAction, Field, Frame, FrameBatch, Headers};
use packet::Packet;
use wire::checksum::update_u32;

/// The packet of Open vSwitch's measurements, UDP 10.1.1.1:1 to 10.1.1.2:2 without payload
/// (ovs: `tests/test-conntrack.c`). Its IP checksum is right; UDP has none.
pub const TEMPLATE: [u8; 42] = [
    0x50, 0x54, 0x00, 0x00, 0x00, 0x0a, 0x50, 0x54, 0x00, 0x00, 0x00, 0x09, 0x08,
    0x00, // Ethernet
    0x45, 0x00, 0x00, 0x1c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x11, 0xa4, 0xcd, // IPv4
    0x0a, 0x01, 0x01, 0x01, 0x0a, 0x01, 0x01, 0x02, //
    0x00, 0x01, 0x00, 0x02, 0x00, 0x08, 0x00, 0x00, // UDP
];

/// Offsets into an Ethernet frame with an IPv4 header without options.
pub const IP_CHECKSUM: usize = 24;
/// The source address.
pub const IP_SOURCE: usize = 26;
/// The destination address.
pub const IP_DESTINATION: usize = 30;
/// The source port; the destination port follows it.
pub const L4_SOURCE: usize = 34;

/// Where the UDP checksum stands.
pub const UDP_CHECKSUM: usize = 40;

/// Connections that differ in nothing but the source port.
const PORTS: u32 = 1 << 15;
/// The network that [`set_connection`] takes sources from, 10.0.0.0.
const NETWORK: u32 = 0x0a00_0000;

/// Sets the ports of a packet like [`TEMPLATE`]. No checksum covers them.
pub fn set_ports(bytes: &mut [u8], source: u16, destination: u16) {
    put(bytes, L4_SOURCE, source.to_be_bytes());
    put(bytes, L4_SOURCE + 2, destination.to_be_bytes());
}

/// Changes a packet like [`TEMPLATE`] to connection `number`, each of which has a source address of its own
/// (up to 2^32), and updates the IP checksum.
pub fn set_connection(bytes: &mut [u8], number: u32) {
    let (address, port) = source(number);
    set_source(bytes, address.to_be_bytes());
    put(bytes, L4_SOURCE, port.to_be_bytes());
}

/// Sets the destination of a packet like [`TEMPLATE`], and updates the IP checksum.
pub fn set_destination(bytes: &mut [u8], address: [u8; 4]) {
    set_address(bytes, IP_DESTINATION, address);
}

/// The same with its source.
pub fn set_source(bytes: &mut [u8], address: [u8; 4]) {
    set_address(bytes, IP_SOURCE, address);
}

fn set_address(bytes: &mut [u8], at: usize, address: [u8; 4]) {
    let old = u32::from_be_bytes(take(bytes, at));
    let sum = u16::from_be_bytes(take(bytes, IP_CHECKSUM));
    let new = u32::from_be_bytes(address);
    put(bytes, IP_CHECKSUM, update_u32(sum, old, new).to_be_bytes());
    put(bytes, at, address);
}

/// Address and port of connection `number`.
fn source(number: u32) -> (u32, u16) {
    (NETWORK + number / PORTS, 1 + (number % PORTS) as u16)
}

/// The bytes at an offset, zero beyond the end.
pub fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Writes bytes at an offset, if there is room.
pub fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = value;
    }
}

/// A batch of packets that is tracked repeatedly. The offsets of headers are computed once, as in Open
/// vSwitch's benchmarks; the connection fields are cleared before each call.
#[derive(Debug)]
pub struct Lot {
    frames: FrameBatch,
}

impl Lot {
    /// Returns a batch of this many packets like [`TEMPLATE`]; at most a full batch.
    pub fn new(count: usize) -> Lot {
        Lot::of((0..count).map(|_| TEMPLATE.as_slice()))
    }

    /// Returns a batch of these packets; at most a full batch. An unparsable one is omitted; a test ensures
    /// that there are none.
    pub fn of<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Lot {
        let frames = frames.take(base::limits::BATCH_SIZE).map(Packet::from_bytes);
        Lot { frames: frames.filter_map(|it| Frame::parse(it, PortNo(1)).ok()).collect() }
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Changes the bytes of a packet, and parses its headers again.
    pub fn change(&mut self, index: usize, change: impl FnOnce(&mut [u8])) {
        let Some(frame) = self.frames.get_mut(index) else { return };
        let mut packet = frame.packet.take();
        change(packet.data_mut());
        match Frame::parse(packet, PortNo(1)) {
            Ok(parsed) => *frame = parsed,
            Err((packet, _)) => frame.packet = packet,
        }
    }

    /// Makes a packet like [`TEMPLATE`] one of connection `number`: see [`set_connection`].
    #[inline]
    pub fn set_connection(&mut self, index: usize, number: u32) {
        let Some(frame) = self.frames.get_mut(index) else { return };
        set_connection(frame.packet.data_mut(), number);
        let (address, port) = source(number);
        frame.key.set(Field::Ipv4Src, address.into());
        frame.key.set_tp_src(port);
    }

    /// Returns the packets, with cleared connection fields.
    #[inline]
    pub fn untracked(&mut self) -> &mut [Frame] {
        self.frames.iter_mut().for_each(Frame::clear_ct);
        &mut self.frames
    }
}

/// A frame that receives one packet after the other, as in a worker: the headers of each are parsed, and the
/// connection fields cleared.
pub struct Place {
    frame: Frame,
    headers: Headers,
}

impl Place {
    /// A frame without a packet.
    pub fn new() -> Place {
        Place { frame: Frame::empty(), headers: Headers::none() }
    }

    /// Parses a packet, tracks it, and takes it out again. Returns false if it is no Ethernet frame.
    #[inline]
    pub fn track(
        &mut self,
        packet: &mut Packet,
        tracker: &mut Tracker,
        now: Instant,
        action: &CtAction,
    ) -> bool {
        let Place { frame, headers } = self;
        std::mem::swap(&mut frame.packet, packet);
        let is_read = frame.read(PortNo(1), headers);
        if is_read {
            // Clear the connection fields of the previous packet; for a packet that is not ordinary, the full
            // parse writes the whole key.
            frame.key.clear_ct();
            if !headers.is_none() {
                headers.write_protocol(&mut frame.key);
            }
            tracker.execute(now, action, std::slice::from_mut(frame));
        }
        std::mem::swap(&mut frame.packet, packet);
        is_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::checksum::{Verdict, verify_ipv4_header};

    #[test]
    fn the_template_is_open_vswitchs() {
        assert_eq!(TEMPLATE[24..26], [0xa4, 0xcd]);
        let mut lot = Lot::new(32);
        assert_eq!(lot.len(), 32);
        for frame in lot.untracked() {
            assert_eq!(
                (frame.key.get(Field::Ipv4Src), frame.key.get(Field::Ipv4Dst)),
                (0x0a01_0101, 0x0a01_0102)
            );
            assert_eq!((frame.key.tp_src(), frame.key.tp_dst()), (1, 2));
            assert_eq!((frame.key.nw_proto(), frame.key.nw_ttl()), (17, 0));
            assert_eq!(frame.l4().map(<[u8]>::len), Some(8));
        }
    }

    #[test]
    fn key_and_bytes_change_together() {
        let mut lot = Lot::new(2);
        for number in [0, 70_000, u32::MAX] {
            lot.set_connection(1, number);
            let frame = &lot.untracked()[1];
            let fresh = Frame::parse(Packet::from_bytes(frame.packet.data()), PortNo(1)).unwrap();
            assert_eq!(frame.key, fresh.key, "{number}");
        }
    }

    #[test]
    fn every_connection_has_a_source_of_its_own_and_a_right_checksum() {
        let mut bytes = TEMPLATE;
        let mut seen = std::collections::HashSet::new();
        for number in (0..200_000).chain((u32::MAX - 3)..=u32::MAX) {
            set_connection(&mut bytes, number);
            assert!(seen.insert(bytes), "{number}");
            if number % 997 == 0 {
                assert_eq!(verify_ipv4_header(&bytes[14..34]), Verdict::Good, "{number}");
            }
        }
        set_ports(&mut bytes, 0x1234, 0x5678);
        assert_eq!(bytes[34..38], [0x12, 0x34, 0x56, 0x78]);
    }

    #[test]
    fn nothing_is_written_where_there_is_no_room() {
        let mut short = [7u8; 3];
        put(&mut short, 2, [1, 2]);
        put(&mut short, 9, [1]);
        assert_eq!((short, take::<2>(&short, 2), take::<2>(&short, 1)), ([7; 3], [0; 2], [7; 2]));
    }
}
