//! `learn(...)`: an action that adds a flow (ovs: `lib/learn.c`).

use super::Subfield;
use base::{OfPort, TableId};
use flow::{Field, Match, OptionMatch, Wide};

/// The source of a learned flow's bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LearnSource {
    /// A field of the packet.
    Field(Subfield),
    /// A constant.
    Value(u128),
}

/// One element of a learned flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LearnSpec {
    /// It matches these bits.
    Match {
        /// The value.
        source: LearnSource,
        /// The bits that are matched.
        target: Subfield,
    },
    /// It assigns these bits.
    Load {
        /// The value.
        source: LearnSource,
        /// The bits that are assigned.
        target: Subfield,
    },
    /// It outputs to the port in this field of the packet.
    Output(Subfield),
}

/// `learn(...)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Learn {
    /// The learned flow's idle timeout.
    pub idle_timeout_s: u16,
    /// Its hard timeout.
    pub hard_timeout_s: u16,
    /// Its idle timeout after a FIN or RST, if not 0.
    pub fin_idle_timeout_s: u16,
    /// Its hard timeout after a FIN or RST, if not 0.
    pub fin_hard_timeout_s: u16,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its table.
    pub table: TableId,
    /// Send a flow-removed message for the learned flow.
    pub send_flow_rem: bool,
    /// Delete the flows with this table and cookie when the last flow with such an action is deleted.
    pub delete_learned: bool,
    /// Most flows in the table with this cookie; further ones are not learned. 0 is unlimited.
    pub limit: u32,
    /// The bit that receives whether the limit permitted the flow.
    pub result: Option<Subfield>,
    /// Its matches and actions.
    pub specs: Vec<LearnSpec>,
}

impl Default for Learn {
    fn default() -> Self {
        Learn {
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            fin_idle_timeout_s: 0,
            fin_hard_timeout_s: 0,
            priority: 0x8000,
            cookie: 0,
            table: TableId(1),
            send_flow_rem: false,
            delete_learned: false,
            limit: 0,
            result: None,
            specs: Vec::new(),
        }
    }
}

impl LearnSpec {
    /// Returns the bits of the packet that it reads, if any.
    pub fn read(&self) -> Option<Subfield> {
        match self {
            LearnSpec::Output(part) => Some(*part),
            LearnSpec::Match { source, .. } | LearnSpec::Load { source, .. } => match source {
                LearnSource::Field(part) => Some(*part),
                LearnSource::Value(_) => None,
            },
        }
    }
}

/// Sets these bits in a match.
pub(crate) fn match_bits(matching: &mut Match, target: Subfield, bits: u128) {
    match target.field {
        // 32-bit port fields have the port numbers of OpenFlow 1.1 and later.
        Field::InPortOxm => {
            let port = OfPort::from_wire32(bits as u32).unwrap_or(OfPort::NONE);
            matching.set_masked(Field::InPort, port.0.into(), Field::InPort.all_ones());
        }
        field => match field.tun_metadata_index() {
            Some(index) => {
                let mask = target.wide_mask();
                let value = Wide::from(bits).shift_left(target.offset);
                matching.set_option(OptionMatch::new(index, value, mask));
            }
            None => matching.set_masked(field, bits << target.offset, target.mask()),
        },
    }
}
