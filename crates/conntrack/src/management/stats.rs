//! Numbers of connections by protocol and state.

use crate::protocols::connection::Protocol;
use crate::protocols::tcp::TcpState;
use crate::record::Record;
use wire::protocol;

/// Counts of connections by protocol, and of TCP's by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// All.
    pub total: u32,
    /// TCP.
    pub tcp: u32,
    /// TCP in each of [`TcpState::ALL`], as dumps show it.
    pub tcp_states: [u32; TcpState::ALL.len()],
    /// UDP.
    pub udp: u32,
    /// UDP-Lite.
    pub udplite: u32,
    /// SCTP.
    pub sctp: u32,
    /// ICMP.
    pub icmp: u32,
    /// ICMPv6.
    pub icmpv6: u32,
    /// DCCP.
    pub dccp: u32,
    /// IGMP.
    pub igmp: u32,
    /// All other protocols.
    pub other: u32,
}

impl Stats {
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        self.total += 1;
        if let Protocol::Tcp(peers) = &record.protocol() {
            let state = TcpState::of_connection(peers.original.state, peers.reply.state);
            self.tcp_states[state as usize] += 1;
        }
        *match record.original().protocol {
            protocol::ICMP => &mut self.icmp,
            protocol::IGMP => &mut self.igmp,
            protocol::TCP => &mut self.tcp,
            protocol::UDP => &mut self.udp,
            protocol::DCCP => &mut self.dccp,
            protocol::ICMPV6 => &mut self.icmpv6,
            protocol::SCTP => &mut self.sctp,
            protocol::UDPLITE => &mut self.udplite,
            _ => &mut self.other,
        } += 1;
    }
}
