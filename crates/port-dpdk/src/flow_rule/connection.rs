//! Connection objects of `rte_flow` (DPDK's programmer's guide, "Generic flow API", "Action: `CONNTRACK`"; the fields
//! are `rte_flow.h`'s `struct rte_flow_action_conntrack`).

use std::fmt;

/// The handle of an installed connection object; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectHandle(pub u64);

/// The state of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum ConnectionState {
    /// The SYN was answered.
    SynReceived,
    /// The handshake is complete.
    #[default]
    Established,
    /// One side sent its FIN.
    FinWait,
    /// The FIN was acknowledged.
    CloseWait,
    /// The other side sent its FIN as well.
    LastAck,
    /// Both FINs are acknowledged.
    TimeWait,
}

impl ConnectionState {
    /// All states, by number.
    pub const ALL: [ConnectionState; 6] = [
        ConnectionState::SynReceived,
        ConnectionState::Established,
        ConnectionState::FinWait,
        ConnectionState::CloseWait,
        ConnectionState::LastAck,
        ConnectionState::TimeWait,
    ];
}

/// One direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpDirection {
    /// The shift of its windows; 15 without scaling.
    pub scale: u8,
    /// It sent a FIN.
    pub close_initiated: bool,
    /// It received an acknowledgement.
    pub last_ack_seen: bool,
    /// Some of its data is not acknowledged.
    pub data_unacked: bool,
    /// The highest sequence number that it sent, plus one.
    pub sent_end: u32,
    /// The highest sequence number that it may send, plus one.
    pub reply_end: u32,
    /// The largest window that it announced, in bytes.
    pub max_win: u32,
    /// The highest acknowledgement that it sent.
    pub max_ack: u32,
}

/// The state of a connection in a device, which checks segments against it and updates it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionObject {
    /// The device checks segments. It clears this after an invalid one.
    pub enable: bool,
    /// The connection has had an acknowledgement after its handshake.
    pub live_connection: bool,
    /// Selective acknowledgements are permitted.
    pub selective_ack: bool,
    /// A challenge acknowledgement passed (RFC 5961).
    pub challenge_ack_passed: bool,
    /// The last packet was of the original direction.
    pub last_direction: bool,
    /// Segments outside the windows are valid.
    pub liberal_mode: bool,
    /// The state of the connection.
    pub state: ConnectionState,
    /// The shift of the largest window.
    pub max_ack_window: u8,
    /// Maximum number of retransmissions of a segment.
    pub retransmission_limit: u8,
    /// The original direction.
    pub original: TcpDirection,
    /// The reply direction.
    pub reply: TcpDirection,
    /// The window of the last packet, before scaling.
    pub last_window: u16,
    /// The flags of the last packet: 1 SYN, 2 SYN with ACK, 4 FIN, 8 ACK, 16 RST.
    pub last_index: u8,
    /// Sequence number of the last packet.
    pub last_seq: u32,
    /// Acknowledgement of the last packet.
    pub last_ack: u32,
    /// The sequence number behind the last packet.
    pub last_end: u32,
}

impl fmt::Display for ConnectionObject {
    /// The `dpdk-testpmd` commands that set the state for the next object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bit = u8::from;
        let (state, last) = (self.state as u8, bit(self.last_direction));
        writeln!(
            f,
            "set conntrack com peer 0 is_orig 1 enable {} live {} sack {} cack {} last_dir {last} liberal {} state \
             {state} max_ack_win {} r_lim {} last_win {} last_seq {} last_ack {} last_end {} last_index {:#x}",
            bit(self.enable),
            bit(self.live_connection),
            bit(self.selective_ack),
            bit(self.challenge_ack_passed),
            bit(self.liberal_mode),
            self.max_ack_window,
            self.retransmission_limit,
            self.last_window,
            self.last_seq,
            self.last_ack,
            self.last_end,
            self.last_index,
        )?;
        writeln!(f, "set conntrack orig {}", self.original)?;
        write!(f, "set conntrack rply {}", self.reply)
    }
}

impl fmt::Display for TcpDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "scale {} fin {} acked {} unack_data {} sent_end {} reply_end {} max_win {} max_ack {}",
            self.scale,
            u8::from(self.close_initiated),
            u8::from(self.last_ack_seen),
            u8::from(self.data_unacked),
            self.sent_end,
            self.reply_end,
            self.max_win,
            self.max_ack
        )
    }
}
