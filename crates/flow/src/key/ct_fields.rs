//! All that connection tracking says of a packet, written and forgotten at once: eight words of the
//! key.

use super::FlowKey;
use crate::ct_state::CtState;
use crate::field::{CT_WORDS, Field};
use base::Zone;

/// All that connection tracking says of a packet, as the key's words hold it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CtFields {
    /// What became of it.
    pub state: CtState,
    /// The zone that it was tracked in.
    pub zone: Zone,
    /// Its connection's mark.
    pub mark: u32,
    /// Its connection's label, the upper half first.
    pub label: [u64; 2],
    /// Source of the original direction, the upper half first; an IPv4 address in the low 32 bits.
    pub src: [u64; 2],
    /// Destination of the original direction.
    pub dst: [u64; 2],
    /// Source and destination port of the original direction, or type and code.
    pub ports: [u16; 2],
    /// Protocol of the original direction.
    pub protocol: u8,
}

/// Word and bit of [`FlowKey::ct_began`], among the connection's words and in no field's place.
const CT_BEGAN: (usize, u64) = (Field::CtNwProto.word(), 1);

impl FlowKey {
    /// Writes all that connection tracking says at once, and so over what it said before.
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

    /// Writes all that connection tracking said of another packet.
    #[inline]
    pub fn copy_ct(&mut self, from: &FlowKey) {
        self.words[CT_WORDS].copy_from_slice(&from.words[CT_WORDS]);
    }

    /// Whether the packet's last `ct` made the connection that the key names. It travels with the
    /// packet and is no field: nothing matches on it.
    pub fn ct_began(&self) -> bool {
        self.words[CT_BEGAN.0] & CT_BEGAN.1 != 0
    }

    /// Notes that a `ct` made the packet's connection; forgotten with all else that `ct` said.
    pub fn set_ct_began(&mut self) {
        self.words[CT_BEGAN.0] |= CT_BEGAN.1;
    }

    /// Forgets all that connection tracking said (`ct_clear`).
    #[inline]
    pub fn clear_ct(&mut self) {
        self.words[CT_WORDS].fill(0);
    }
}
