//! Checks that an ICMP error quotes a packet of the connection, by a number that only hosts on its
//! path know (RFC 5927 section 4.1, RFC 9260 section 10). Open vSwitch 3.1 does not check this.

use crate::protocols::connection::Protocol;
use crate::protocols::sctp::Association;
use crate::protocols::tcp::{ACK_SLACK, Scale, TcpPeers, TcpState, at_or_after};

/// How far a sequence number may exceed the window: an ALG may have moved it, and where the
/// rewritten line begins is unknown.
const MOVED_MAX: u32 = 64;

/// Whether the connection can have sent a packet with this `number`, a TCP sequence number or an
/// SCTP verification tag, in this direction.
pub(crate) fn may_be_of(protocol: &Protocol, number: u32, is_reply: bool) -> bool {
    match protocol {
        Protocol::Tcp(peers) => tcp_may_have_sent(peers, number, is_reply),
        Protocol::Sctp(association) => sctp_may_have_sent(association, number, is_reply),
        Protocol::Icmp(_) | Protocol::Other(_) => true,
    }
}

/// Whether a segment that begins at `seq` may be in flight, or was recently: not beyond what its
/// sender sent, and not further back than the receiver's window and retransmissions reach. True for
/// every segment of a picked-up connection, whose windows are unknown.
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

/// Before both tags are known, the packet may be an INIT, which has the tag 0.
fn sctp_may_have_sent(association: &Association, tag: u32, is_reply: bool) -> bool {
    let from = usize::from(is_reply);
    let is_beginning = association.tags.contains(&0);
    let known = [association.tags[from], association.pending[from]].contains(&tag);
    (known && tag != 0) || (tag == 0 && is_beginning)
}
