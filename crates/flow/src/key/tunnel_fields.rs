//! The tunnel that a packet came through, or shall leave by: the last words of its key.

use super::FlowKey;
use crate::field::{Field, TUNNEL_WORDS, WORDS};

impl FlowKey {
    /// Whether the packet came through a tunnel, or shall leave by one. The outer destination says so
    /// (ovs: `lib/packets.h`, `flow_tnl_dst_is_set`): in a packet's key no other field of a tunnel is
    /// set without it.
    #[inline]
    pub fn has_tunnel(&self) -> bool {
        let at = Field::TunIpv6Dst.word();
        self.words[at] | self.words[at + 1] != 0
    }

    /// Forgets the tunnel that the packet came through.
    #[inline]
    pub fn clear_tunnel(&mut self) {
        if self.has_tunnel() {
            self.words[TUNNEL_WORDS].fill(0);
        }
    }

    /// Takes over all that another key tells of a tunnel.
    pub fn copy_tunnel(&mut self, from: &FlowKey) {
        self.words[TUNNEL_WORDS].copy_from_slice(&from.words[TUNNEL_WORDS]);
    }

    /// Makes all fields of a packet's key zero.
    #[inline]
    pub fn clear(&mut self) {
        self.clear_tunnel();
        self.words[..TUNNEL_WORDS.start].fill(0);
    }

    /// The words of a packet's key that may not be zero: of a packet without a tunnel, all but the tunnel's.
    #[inline]
    pub fn words_in_use(&self) -> &[u64] {
        let end = if self.has_tunnel() { WORDS } else { TUNNEL_WORDS.start };
        &self.words[..end]
    }
}
