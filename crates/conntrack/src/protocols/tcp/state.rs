//! TCP states, with their names in dumps.

use std::fmt;

/// The state of one side, in the order of a connection's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TcpState {
    /// No packet of this side was seen.
    Closed,
    /// This side sent something that is not acknowledged.
    SynSent,
    /// The other side acknowledged something.
    Established,
    /// This side sent its FIN.
    Closing,
    /// This side's FIN is acknowledged.
    FinWait2,
    /// A RST ended the connection.
    TimeWait,
}

impl TcpState {
    /// All of them, in order.
    pub const ALL: [TcpState; 6] = [
        TcpState::Closed,
        TcpState::SynSent,
        TcpState::Established,
        TcpState::Closing,
        TcpState::FinWait2,
        TcpState::TimeWait,
    ];

    /// The connection's state: that of the side further on, with an acknowledged FIN as `TIME_WAIT`
    /// (ovs: `lib/ct-dpif.c`, `coalesce_tcp_state`).
    #[must_use]
    pub fn of_connection(original: TcpState, reply: TcpState) -> TcpState {
        match original.max(reply) {
            TcpState::FinWait2 => TcpState::TimeWait,
            state => state,
        }
    }

    /// The name in dumps.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TcpState::Closed => "CLOSED",
            TcpState::SynSent => "SYN_SENT",
            TcpState::Established => "ESTABLISHED",
            TcpState::Closing => "CLOSING",
            TcpState::FinWait2 => "FIN_WAIT_2",
            TcpState::TimeWait => "TIME_WAIT",
        }
    }
}

impl fmt::Display for TcpState {
    /// As [`TcpState::name`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
