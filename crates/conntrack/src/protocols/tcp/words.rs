//! Both sides of a TCP connection as words of a record.

use super::{Ends, Peer, Scale, TcpPeers, TcpState};

impl TcpState {
    /// The state of this number; the last state for larger numbers.
    #[inline(always)]
    fn from_bits(bits: u8) -> TcpState {
        match bits {
            0 => TcpState::Closed,
            1 => TcpState::SynSent,
            2 => TcpState::Established,
            3 => TcpState::Closing,
            4 => TcpState::FinWait2,
            _ => TcpState::TimeWait,
        }
    }
}

impl TcpPeers {
    /// Both sides in three words: windows, scales and states; then for each direction what its
    /// packets change, the sender's `sent_end` and the receiver's `allowed_end`.
    #[inline(always)]
    pub fn words(&self) -> [u64; 3] {
        let side = |peer: &Peer| {
            let small = u32::from(peer.scale.0) << 8 | peer.state as u32;
            u32::from(peer.max_window) << 16 | small
        };
        let TcpPeers { original, reply } = self;
        [
            pair(side(original), side(reply)),
            pair(original.sent_end, reply.allowed_end),
            pair(reply.sent_end, original.allowed_end),
        ]
    }

    /// The reverse of [`TcpPeers::words`].
    #[inline(always)]
    pub fn from_words([sides, forward, backward]: [u64; 3]) -> TcpPeers {
        let side = |small: u32, sent_end, allowed_end| Peer {
            sent_end,
            allowed_end,
            max_window: (small >> 16) as u16,
            scale: Scale((small >> 8) as u8),
            state: TcpState::from_bits(small as u8),
        };
        TcpPeers {
            original: side((sides >> 32) as u32, (forward >> 32) as u32, backward as u32),
            reply: side(sides as u32, (backward >> 32) as u32, forward as u32),
        }
    }
}

impl Ends {
    /// Reads the words of [`TcpPeers::words`] as sender and receiver of a segment.
    #[inline(always)]
    pub fn from_words(words: [u64; 3], is_reply: bool) -> Ends {
        let TcpPeers { original: sender, reply: receiver } =
            TcpPeers::from_words(turned(words, is_reply));
        Ends { sender, receiver }
    }

    /// The reverse of [`Ends::from_words`].
    #[inline(always)]
    pub fn words(&self, is_reply: bool) -> [u64; 3] {
        let Ends { sender: original, receiver: reply } = *self;
        turned(TcpPeers { original, reply }.words(), is_reply)
    }
}

/// Swaps the two sides for a reply.
#[inline(always)]
fn turned([sides, forward, backward]: [u64; 3], is_reply: bool) -> [u64; 3] {
    match is_reply {
        false => [sides, forward, backward],
        true => [sides.rotate_left(32), backward, forward],
    }
}

#[inline(always)]
fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
