//! Control packets (RFC 5880 section 4.1) in UDP (RFC 5881).

use base::MacAddr;
use std::net::Ipv4Addr;
use wire::builder::Checksum;
use wire::{Ethernet, Ipv4, PacketBuilder, Udp, ethertype, protocol};

/// The destination port (RFC 5881 section 4).
pub const PORT: u16 = 3784;
/// The default destination address (ovs: `lib/packets.h`, `eth_addr_bfd`).
pub const DESTINATION_MAC: MacAddr = MacAddr([0x00, 0x23, 0x20, 0x00, 0x00, 0x01]);
/// The length of a packet without authentication.
pub const LENGTH: usize = 24;
/// The only version.
pub const VERSION: u8 = 1;
/// The TTL of all packets, so that those of other networks are recognized (RFC 5881 section 5).
pub const TTL: u8 = 255;
/// Internet control, the precedence of routing protocols.
const TOS: u8 = 0xc0;

/// The bits of a packet's second byte below the state.
pub mod flag {
    /// M: multipoint, which no packet has.
    pub const MULTIPOINT: u8 = 1;
    /// D: demand mode.
    pub const DEMAND: u8 = 2;
    /// A: authentication.
    pub const AUTH: u8 = 4;
    /// C: independent of the control plane.
    pub const CTL: u8 = 8;
    /// F: answers a poll.
    pub const FINAL: u8 = 16;
    /// P: asks for an answer.
    pub const POLL: u8 = 32;
    /// All of them.
    pub const ALL: u8 = 63;
}

/// The state of a session, in the order of the protocol's numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum State {
    /// Administratively down.
    #[default]
    AdminDown,
    /// Down.
    Down,
    /// The peer was heard.
    Init,
    /// Up.
    Up,
}

/// A control packet, with its fields as they are on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// The version.
    pub version: u8,
    /// The diagnostic.
    pub diagnostic: u8,
    /// The sender's state.
    pub state: State,
    /// The flags.
    pub flags: u8,
    /// The sender's detection multiplier.
    pub multiplier: u8,
    /// The length that the packet says it has.
    pub length: u8,
    /// The sender's discriminator.
    pub own: u32,
    /// The receiver's discriminator, or 0.
    pub other: u32,
    /// The sender's shortest interval between packets, in microseconds.
    pub min_tx_us: u32,
    /// The shortest interval between packets that it can receive, in microseconds.
    pub min_rx_us: u32,
    /// The same for echo packets.
    pub min_echo_rx_us: u32,
}

/// Why a frame is no control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotControl {
    /// It has no UDP payload.
    NoPayload,
    /// It comes from another network.
    Ttl,
    /// The payload has only so many bytes.
    Short(usize),
}

impl State {
    fn of(byte: u8) -> State {
        match byte >> 6 {
            0 => State::AdminDown,
            1 => State::Down,
            2 => State::Init,
            _ => State::Up,
        }
    }

    /// Returns the name in commands and in the database.
    pub fn name(self) -> &'static str {
        match self {
            State::AdminDown => "admin_down",
            State::Down => "down",
            State::Init => "init",
            State::Up => "up",
        }
    }
}

impl Control {
    /// Parses a payload of UDP.
    pub fn parse(payload: &[u8]) -> Result<Control, NotControl> {
        let Some(bytes) = payload.first_chunk::<LENGTH>() else {
            return Err(NotControl::Short(payload.len()));
        };
        let [first, second, multiplier, length, words @ ..] = bytes;
        let word = |number: usize| {
            let word = words.get(number * 4..).and_then(|rest| rest.first_chunk::<4>());
            word.map_or(0, |word| u32::from_be_bytes(*word))
        };
        Ok(Control {
            version: first >> 5,
            diagnostic: first & 0x1f,
            state: State::of(*second),
            flags: second & flag::ALL,
            multiplier: *multiplier,
            length: *length,
            own: word(0),
            other: word(1),
            min_tx_us: word(2),
            min_rx_us: word(3),
            min_echo_rx_us: word(4),
        })
    }

    /// Finds the packet in an Ethernet frame.
    pub fn in_frame(frame: &[u8]) -> Result<Control, NotControl> {
        let no_payload = |_| NotControl::NoPayload;
        let ethernet = Ethernet::new_checked(frame).map_err(no_payload)?;
        let (mut ether_type, mut rest) = (ethernet.ethertype(), ethernet.payload());
        while matches!(ether_type, ethertype::VLAN | ethertype::SERVICE_VLAN)
            && let Some((tag, after)) = rest.split_first_chunk::<4>()
        {
            (ether_type, rest) = (u16::from_be_bytes([tag[2], tag[3]]), after);
        }
        if ether_type != ethertype::IPV4 {
            return Err(NotControl::NoPayload);
        }
        let ip = Ipv4::new_checked(rest).map_err(no_payload)?;
        if ip.protocol() != protocol::UDP {
            return Err(NotControl::NoPayload);
        }
        let udp = Udp::new_checked(ip.payload()).map_err(no_payload)?;
        if ip.ttl() != TTL {
            return Err(NotControl::Ttl);
        }
        Control::parse(udp.payload())
    }

    /// Returns the payload of UDP.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = self.version << 5 | self.diagnostic & 0x1f;
        bytes[1] = (self.state as u8) << 6 | self.flags & flag::ALL;
        bytes[2] = self.multiplier;
        bytes[3] = self.length;
        let words = [self.own, self.other, self.min_tx_us, self.min_rx_us, self.min_echo_rx_us];
        for (place, word) in bytes[4..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Returns a frame with the packet. It has no UDP checksum, as Open vSwitch's.
    pub fn frame(&self, macs: [MacAddr; 2], ips: [Ipv4Addr; 2], source_port: u16) -> Vec<u8> {
        let [source, destination] = macs;
        PacketBuilder::eth(source, destination)
            .ipv4(ips[0], ips[1])
            .ttl(TTL)
            .tos(TOS)
            .checksum(Checksum::Zero)
            .udp(source_port, PORT)
            .payload(self.bytes())
            .build()
    }
}
