//! The states of TCP connections, as dumps name them.

use std::fmt;

/// Where one side of a connection is, in the order of a connection's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TcpState {
    /// Nothing was seen of this side.
    Closed,
    /// It sent something that is not acknowledged.
    SynSent,
    /// The other side acknowledged something.
    Established,
    /// It sent its FIN.
    Closing,
    /// Its FIN is acknowledged.
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

    /// The one state that a connection is shown in: its further side's, where a FIN acknowledged
    /// shows as `TIME_WAIT` (ovs: `lib/ct-dpif.c`, `coalesce_tcp_state`).
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
