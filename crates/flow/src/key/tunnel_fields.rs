//! The tunnel that a packet came through, or shall leave by: the last words of its key.

use super::{FlowKey, Mask};
use crate::field::{Field, TUNNEL_WORDS, WORDS};

/// The first word of the slots of tunnel options.
const SLOTS: usize = Field::TunSlots0.word();

macro_rules! slots {
    ($name:ident) => {
        impl $name {
            /// The values of some slots of tunnel options, from the lowest on: bit `n` chooses slot `n`.
            pub(crate) fn option_slots(&self, slots: u64) -> impl Iterator<Item = u32> {
                each(slots).map(|slot| (self.words[SLOTS + slot / 2] >> shift(slot)) as u32)
            }

            /// Stores the values of some slots.
            pub(crate) fn set_option_slots(
                &mut self,
                slots: u64,
                values: impl Iterator<Item = u32>,
            ) {
                for (slot, value) in each(slots).zip(values) {
                    let word = &mut self.words[SLOTS + slot / 2];
                    let kept = *word & !(0xffff_ffff << shift(slot));
                    *word = kept | u64::from(value) << shift(slot);
                }
            }
        }
    };
}

slots!(FlowKey);
slots!(Mask);

impl Mask {
    /// Makes nothing of the tunnel matter.
    pub fn clear_tunnel(&mut self) {
        self.words[TUNNEL_WORDS].fill(0);
    }
}

/// The numbers of the bits that are set.
fn each(mut slots: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = slots.trailing_zeros() as usize;
        (slots != 0).then(|| {
            slots &= slots - 1;
            slot
        })
    })
}

/// A word holds two slots, the lower one in its upper half.
fn shift(slot: usize) -> u32 {
    if slot.is_multiple_of(2) { 32 } else { 0 }
}

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
