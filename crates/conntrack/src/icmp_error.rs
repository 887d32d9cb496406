//! Whether a packet that an ICMP error quotes can be its connection's: by the number in it that only
//! those on its way know (RFC 5927 section 4.1, RFC 9260 section 10). Open vSwitch 3.1 does not ask.

use crate::connection::Protocol;
use crate::sctp::Association;
use crate::tcp::{ACK_SLACK, Scale, TcpPeers, TcpState, at_or_after};

/// How much further on a sequence number may be: where in a line that a helper rewrote it lies is not
/// known.
const MOVED_MAX: u32 = 64;

/// Whether a packet with this `number`, a TCP sequence number or an SCTP verification tag, can be
/// one of the connection that ran in the reply direction or not.
pub(crate) fn may_be_of(protocol: &Protocol, number: u32, is_reply: bool) -> bool {
    match protocol {
        Protocol::Tcp(peers) => tcp_may_have_sent(peers, number, is_reply),
        Protocol::Sctp(association) => sctp_may_have_sent(association, number, is_reply),
        Protocol::Icmp(_) | Protocol::Other(_) => true,
    }
}

/// Whether a segment that began with `seq` may be on its way, or was lately: within what its sender
/// sent, and not further back than the receiver's window reaches and what may come again. All may be
/// of a connection that was picked up, whose windows are not known.
fn tcp_may_have_sent(peers: &TcpPeers, seq: u32, is_reply: bool) -> bool {
    let (sender, receiver) = match is_reply {
        false => (&peers.original, &peers.reply),
        true => (&peers.reply, &peers.original),
    };
    if sender.scale == Scale::UNKNOWN || sender.state == TcpState::Closed {
        return sender.scale == Scale::UNKNOWN;
    }
    let window = u32::from(receiver.max_window) << receiver.scale.shift();
    let reach = window.saturating_add(ACK_SLACK);
    at_or_after(sender.sent_end.wrapping_add(MOVED_MAX), seq)
        && at_or_after(seq, sender.sent_end.wrapping_sub(reach))
}

/// Before both sides' tags are known the packet may be an INIT, which has none.
fn sctp_may_have_sent(association: &Association, tag: u32, is_reply: bool) -> bool {
    let from = usize::from(is_reply);
    let is_beginning = association.tags.contains(&0);
    let known = [association.tags[from], association.pending[from]].contains(&tag);
    (known && tag != 0) || (tag == 0 && is_beginning)
}
