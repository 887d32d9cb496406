//! The transport layer of the builder.

use super::IpBuilder;
use crate::numbers::protocol;
use crate::tcp::{self, TcpFlags};
use crate::{octets, udp};

/// A TCP segment. The defaults are the flag ACK and a window of 65,535.
#[derive(Debug, Clone)]
#[must_use]
pub struct TcpBuilder {
    ip: IpBuilder,
    ports: (u16, u16),
    flags: TcpFlags,
    seq: u32,
    ack: u32,
    window: u16,
    mss: Option<u16>,
    wscale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<(u32, u32)>,
    payload: Vec<u8>,
}

impl TcpBuilder {
    pub(super) fn new(ip: IpBuilder, ports: (u16, u16)) -> Self {
        TcpBuilder {
            ip,
            ports,
            flags: TcpFlags::ACK,
            seq: 0,
            ack: 0,
            window: 65_535,
            mss: None,
            wscale: None,
            sack_permitted: false,
            timestamps: None,
            payload: Vec::new(),
        }
    }

    /// The control bits.
    pub fn flags(mut self, flags: TcpFlags) -> Self {
        self.flags = flags;
        self
    }

    /// The sequence number.
    pub fn seq(mut self, seq: u32) -> Self {
        self.seq = seq;
        self
    }

    /// The acknowledgement number.
    pub fn ack(mut self, ack: u32) -> Self {
        self.ack = ack;
        self
    }

    /// The window, unscaled.
    pub fn window(mut self, window: u16) -> Self {
        self.window = window;
        self
    }

    /// The maximum segment size option.
    pub fn mss(mut self, mss: u16) -> Self {
        self.mss = Some(mss);
        self
    }

    /// The window scale option.
    pub fn wscale(mut self, shift: u8) -> Self {
        self.wscale = Some(shift);
        self
    }

    /// The "SACK permitted" option.
    pub fn sack_permitted(mut self) -> Self {
        self.sack_permitted = true;
        self
    }

    /// The timestamps option.
    pub fn timestamps(mut self, value: u32, echo: u32) -> Self {
        self.timestamps = Some((value, echo));
        self
    }

    /// The data, truncated if the packet would exceed 65,535 bytes.
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Returns the packet.
    #[must_use]
    pub fn build(self) -> Vec<u8> {
        let options = self.options();
        let words = (tcp::HEADER_LEN + options.len()) / 4;
        let mut segment = Vec::with_capacity(words * 4 + self.payload.len());
        segment.extend(self.ports.0.to_be_bytes());
        segment.extend(self.ports.1.to_be_bytes());
        segment.extend(self.seq.to_be_bytes());
        segment.extend(self.ack.to_be_bytes());
        let bits = self.flags.0 & TcpFlags::MASK;
        segment.extend(((words as u16) << 12 | bits).to_be_bytes());
        segment.extend(self.window.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend(options);
        segment.extend(self.payload);
        self.ip.build(protocol::TCP, segment)
    }

    /// Returns the options, at most 20 bytes. No-operation options before them pad them to whole words.
    fn options(&self) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some(mss) = self.mss {
            options.extend([2, 4]);
            options.extend(mss.to_be_bytes());
        }
        if self.sack_permitted {
            options.extend([4, 2]);
        }
        if let Some((value, echo)) = self.timestamps {
            options.extend([8, 10]);
            options.extend(value.to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        if let Some(shift) = self.wscale {
            options.extend([3, 3, shift]);
        }
        let padding = options.len().next_multiple_of(4) - options.len();
        options.splice(0..0, std::iter::repeat_n(1, padding));
        options
    }
}

/// A UDP datagram, an SCTP packet or an ICMP message.
#[derive(Debug, Clone)]
#[must_use]
pub struct TransportBuilder {
    ip: IpBuilder,
    protocol: u8,
    header: Vec<u8>,
    payload: Vec<u8>,
}

impl TransportBuilder {
    pub(super) fn new(ip: IpBuilder, protocol: u8, header: Vec<u8>) -> Self {
        TransportBuilder { ip, protocol, header, payload: Vec::new() }
    }

    /// Time to live or hop limit. Overrides the default of the message (255 in neighbour discovery).
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ip.ttl = ttl;
        self
    }

    /// The data; cut where the packet would pass 65,535 bytes.
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// The packet.
    #[must_use]
    pub fn build(self) -> Vec<u8> {
        let mut segment = self.header;
        segment.extend(self.payload);
        segment.truncate(self.ip.room());
        if self.protocol == protocol::UDP {
            let len = segment.len() as u16;
            octets::put_u16(&mut segment, udp::field::LENGTH, len);
        }
        self.ip.build(self.protocol, segment)
    }
}
