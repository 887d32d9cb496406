//! `learn(...)`: an action that adds a flow (ovs: `lib/learn.c`).

use super::{Action, SetForm, Subfield};
use crate::message::{FlowFlags, FlowMod, FlowModCommand};
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

impl Learn {
    /// Returns the flow-mod that adds or refreshes the learned flow; `read` returns bits of the packet (ovs:
    /// `lib/learn.c`, `learn_execute`).
    pub fn flow_mod(&self, read: impl Fn(Subfield) -> u128) -> FlowMod {
        let bits = |source: LearnSource| match source {
            LearnSource::Field(part) => read(part),
            LearnSource::Value(value) => value,
        };
        let (mut matching, mut actions) = (Match::any(), Vec::new());
        if self.fin_idle_timeout_s != 0 || self.fin_hard_timeout_s != 0 {
            let (idle_s, hard_s) = (self.fin_idle_timeout_s, self.fin_hard_timeout_s);
            actions.push(Action::FinTimeout { idle_s, hard_s });
        }
        for spec in &self.specs {
            match *spec {
                LearnSpec::Match { source, target } => {
                    match_bits(&mut matching, target, bits(source));
                }
                LearnSpec::Load { source, target } => {
                    actions.push(Action::assign(target, bits(source).into(), SetForm::Load));
                }
                LearnSpec::Output(part) => actions.extend(output(read(part))),
            }
        }
        let flags = if self.send_flow_rem { FlowFlags::SEND_FLOW_REM } else { FlowFlags::empty() };
        FlowMod {
            command: FlowModCommand::ModifyStrict,
            matching,
            priority: self.priority,
            new_cookie: self.cookie,
            modify_cookie: self.cookie != u64::MAX,
            table: Some(self.table),
            idle_timeout_s: self.idle_timeout_s,
            hard_timeout_s: self.hard_timeout_s,
            flags,
            actions,
            ..FlowMod::default()
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

/// Returns the output to a port with this number, if a learned flow may use it.
fn output(number: u128) -> Option<Action> {
    let port = OfPort(u16::try_from(number).ok()?);
    let may = port.0 < OfPort::MAX.0
        || matches!(port, OfPort::IN_PORT | OfPort::FLOOD | OfPort::LOCAL | OfPort::ALL);
    may.then_some(Action::Output { port, max_len: 0 })
}
