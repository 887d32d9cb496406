//! The traffic for measurements of the datapath: one packet and its reply per connection.

use super::packets;
use super::tunnel::Tunnel;
use base::MacAddr;
use port::PortError;
use port::pcap::{Capture, PcapTx};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::builder::PacketBuilder;

/// The first client address; each connection has its own.
const CLIENTS: u32 = 0x1000_0000;
const SERVER: Ipv4Addr = Ipv4Addr::new(48, 0, 0, 1);
const SERVER_PORT: u16 = 8080;
const CLIENT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// Bytes of a frame without its UDP payload.
const AROUND_PAYLOAD: usize = 42;
/// The shortest frame on a wire, without FCS.
pub const FRAME_BYTES: usize = 60;

/// Seed of the source ports.
pub const SEED: u64 = 1;

/// The packets that the two ports receive repeatedly.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// From the clients.
    pub forward: Capture,
    /// From the servers.
    pub reverse: Capture,
}

impl Traffic {
    /// UDP packets of this size without UDP checksum, one per connection and direction, starting with client
    /// `first`; those of the servers are encapsulated if a tunnel is given. The source ports are
    /// pseudo-random, the same in each run.
    pub fn generate(
        first: u32,
        connections: u32,
        frame_bytes: usize,
        tunnel: Option<Tunnel>,
    ) -> Result<Traffic, PortError> {
        let payload = vec![b'x'; frame_bytes.saturating_sub(AROUND_PAYLOAD)];
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut forward = Vec::with_capacity(connections as usize);
        for number in first..first + connections {
            let client = Ipv4Addr::from(CLIENTS + number);
            let port = 1024 + random.u16(..60_000);
            let there = PacketBuilder::eth(CLIENT_MAC, SERVER_MAC)
                .ipv4(client, SERVER)
                .udp(port, SERVER_PORT)
                .payload(payload.as_slice())
                .build();
            forward.push(without_checksum(there));
        }
        let back = |frame: &Vec<u8>| match tunnel {
            Some(tunnel) => tunnel.wrap(&answer(frame)),
            None => answer(frame),
        };
        let reverse: Vec<_> = forward.iter().map(back).collect();
        Ok(Traffic { forward: capture(&forward)?, reverse: capture(&reverse)? })
    }
}

/// Removes the UDP checksum, so that only IP's is verified.
fn without_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    packets::put(&mut frame, packets::UDP_CHECKSUM, [0, 0]);
    frame
}

/// The reply to a UDP packet: swapped addresses and ports, which change no checksum.
pub fn answer(frame: &[u8]) -> Vec<u8> {
    let mut back = frame.to_vec();
    for (a, b, len) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        if frame.len() >= b + len {
            back[a..a + len].copy_from_slice(&frame[b..b + len]);
            back[b..b + len].copy_from_slice(&frame[a..a + len]);
        }
    }
    back
}

/// Frames as a capture for a port to play.
pub fn capture(frames: &[Vec<u8>]) -> Result<Capture, PortError> {
    let invalid = |reason: String| PortError::Invalid { device: "the traffic".into(), reason };
    let mut bytes = Vec::new();
    let mut file =
        PcapTx::new(&mut bytes, || Duration::ZERO).map_err(|error| invalid(error.to_string()))?;
    for frame in frames {
        file.record(Duration::ZERO, frame).map_err(|error| invalid(error.to_string()))?;
    }
    // Flushes its buffer.
    drop(file);
    Capture::parse(bytes).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::checksum::{Verdict, verify_ipv4_header};

    #[test]
    fn each_connection_has_a_packet_and_its_answer() {
        let Traffic { forward, reverse } = Traffic::generate(0, 300, FRAME_BYTES, None).unwrap();
        assert_eq!((forward.len(), reverse.len()), (300, 300));
        let mut clients = std::collections::HashSet::new();
        for index in 0..300 {
            let (there, back) = (forward.frame(index).unwrap().1, reverse.frame(index).unwrap().1);
            for frame in [there, back] {
                assert_eq!((frame.len(), &frame[40..42]), (60, &[0, 0][..]));
                assert_eq!(verify_ipv4_header(&frame[14..34]), Verdict::Good);
            }
            assert_eq!(there[22..24], [64, 17], "TTL and protocol");
            assert_eq!((&there[26..30], &there[30..34]), (&back[30..34], &back[26..30]));
            assert_eq!((&there[34..36], &there[36..38]), (&back[36..38], &back[34..36]));
            assert_eq!((&there[..6], &there[6..12]), (&back[6..12], &back[..6]));
            assert!(clients.insert(there[26..30].to_vec()));
        }
    }

    #[test]
    fn short_frames_have_short_answers() {
        for len in [0, 5, 12, 13, 33, 34, 37, 60] {
            assert_eq!(answer(&vec![7; len]).len(), len);
        }
    }
}
