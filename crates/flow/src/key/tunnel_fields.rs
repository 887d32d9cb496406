//! The tunnel fields: the last words of the key. They describe the tunnel through which the packet was
//! received or is sent.

use super::{FlowKey, Mask};
use crate::field::{Field, TUNNEL_WORDS, WORDS};

/// The first word of the slots of tunnel options.
const SLOTS: usize = Field::TunSlots0.word();

macro_rules! slots {
    ($name:ident) => {
        impl $name {
            /// Returns the values of the option slots in `slots`, lowest first. Bit `n` stands for slot `n`.
            pub(crate) fn option_slots(&self, slots: u64) -> impl Iterator<Item = u32> {
                each(slots).map(|slot| (self.words[SLOTS + slot / 2] >> shift(slot)) as u32)
            }

            /// Stores the values of the option slots in `slots`, lowest first.
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
    /// Wildcards all tunnel fields.
    pub fn clear_tunnel(&mut self) {
        self.words[TUNNEL_WORDS].fill(0);
    }
}

/// Returns the numbers of the bits that are set, lowest first.
fn each(mut slots: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = slots.trailing_zeros() as usize;
        (slots != 0).then(|| {
            slots &= slots - 1;
            slot
        })
    })
}

/// Returns the position of a slot in its word. A word contains two slots, the even one in the upper half.
fn shift(slot: usize) -> u32 {
    if slot.is_multiple_of(2) { 32 } else { 0 }
}

impl FlowKey {
    /// Returns whether the packet was received or is sent through a tunnel. The outer destination address is
    /// then set (ovs: `lib/packets.h`, `flow_tnl_dst_is_set`); without it, a packet's key has no other tunnel
    /// field.
    #[inline]
    pub fn has_tunnel(&self) -> bool {
        let at = Field::TunIpv6Dst.word();
        self.words[at] | self.words[at + 1] != 0
    }

    /// Clears the tunnel fields of a packet's key.
    #[inline]
    pub fn clear_tunnel(&mut self) {
        if self.has_tunnel() {
            self.words[TUNNEL_WORDS].fill(0);
        }
    }

    /// Clears the tunnel fields of a key that actions may have changed: any of them may be set.
    pub fn clear_set_tunnel(&mut self) {
        self.words[TUNNEL_WORDS].fill(0);
    }

    /// Copies the tunnel fields of another key.
    pub fn copy_tunnel(&mut self, from: &FlowKey) {
        self.words[TUNNEL_WORDS].copy_from_slice(&from.words[TUNNEL_WORDS]);
    }

    /// Sets all fields of a packet's key to zero.
    #[inline]
    pub fn clear(&mut self) {
        self.clear_tunnel();
        self.words[..TUNNEL_WORDS.start].fill(0);
    }

    /// Returns the words of a packet's key that can be non-zero: all of them, or without a tunnel those
    /// before the tunnel fields.
    #[inline]
    pub fn words_in_use(&self) -> &[u64] {
        let end = if self.has_tunnel() { WORDS } else { TUNNEL_WORDS.start };
        &self.words[..end]
    }
}
