//! The connection fields of a packet, which connection tracking writes and clears together: eight words of
//! the key.

use super::FlowKey;
use crate::ct_state::CtState;
use crate::field::{CT_WORDS, Field};
use base::Zone;

/// The connection fields of a packet, in the form of the key's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CtFields {
    /// The connection state (`ct_state`).
    pub state: CtState,
    /// The zone in which the packet was tracked.
    pub zone: Zone,
    /// The connection's mark.
    pub mark: u32,
    /// The connection's label, the upper half first.
    pub label: [u64; 2],
    /// Source address of the original direction, the upper half first; an IPv4 address is in the low 32 bits.
    pub src: [u64; 2],
    /// Destination address of the original direction.
    pub dst: [u64; 2],
    /// Source and destination port of the original direction, or ICMP type and code.
    pub ports: [u16; 2],
    /// Protocol of the original direction.
    pub protocol: u8,
}

/// Word and bit of [`FlowKey::ct_began`]. The bit lies in the words of the connection fields, but belongs to
/// no field.
const CT_BEGAN: (usize, u64) = (Field::CtNwProto.word(), 1);

impl FlowKey {
    /// Writes all connection fields, which replaces the earlier ones.
    #[inline]
    pub fn set_ct(&mut self, ct: &CtFields) {
        let state = u64::from(ct.state.bits());
        let [source, destination] = ct.ports.map(u64::from);
        self.words[CT_WORDS].copy_from_slice(&[
            u64::from(ct.mark) << 32 | state << 16 | u64::from(ct.zone.0),
            ct.label[0],
            ct.label[1],
            source << 48 | destination << 32 | u64::from(ct.protocol) << 24,
            ct.src[0],
            ct.src[1],
            ct.dst[0],
            ct.dst[1],
        ]);
    }

    /// Copies the connection fields of another key.
    #[inline]
    pub fn copy_ct(&mut self, from: &FlowKey) {
        self.words[CT_WORDS].copy_from_slice(&from.words[CT_WORDS]);
    }

    /// Returns whether the packet's last `ct` created the connection that the key names. It is stored with
    /// the packet's key, but is no field: flows cannot match on it.
    pub fn ct_began(&self) -> bool {
        self.words[CT_BEGAN.0] & CT_BEGAN.1 != 0
    }

    /// Records that a `ct` created the packet's connection. Cleared together with the connection fields.
    pub fn set_ct_began(&mut self) {
        self.words[CT_BEGAN.0] |= CT_BEGAN.1;
    }

    /// Clears the connection fields (`ct_clear`).
    #[inline]
    pub fn clear_ct(&mut self) {
        self.words[CT_WORDS].fill(0);
    }
}
