//! `learn(...)`: an action that adds a flow (ovs: `lib/learn.c`).

use super::{Action, SetForm, Subfield};
use crate::message::{FlowFlags, FlowMod, FlowModCommand};
use base::{OfPort, TableId};
use flow::{Field, Match};

/// Where a learned flow has bits from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LearnSource {
    /// The packet.
    Field(Subfield),
    /// The action itself.
    Value(u128),
}

/// One part of a learned flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LearnSpec {
    /// It matches these bits.
    Match {
        /// The bits.
        source: LearnSource,
        /// Where they are matched.
        target: Subfield,
    },
    /// It assigns these bits.
    Load {
        /// The bits.
        source: LearnSource,
        /// Where they are assigned.
        target: Subfield,
    },
    /// It outputs to the port whose number the packet has there.
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
    /// Its end is told to controllers.
    pub send_flow_rem: bool,
    /// Flows of this table and cookie go with the last flow that has such an action.
    pub delete_learned: bool,
    /// Nothing is learned where the table has so many flows of this cookie, if not 0.
    pub limit: u32,
    /// The bit that says whether there was room.
    pub result: Option<Subfield>,
    /// What it matches and does.
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
    /// The bits of the packet that are read.
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
    /// The request that adds the learned flow, or refreshes it; `read` gives bits of the packet
    /// (ovs: `lib/learn.c`, `learn_execute`).
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
                    let (value, mask) = (bits(source) << target.offset, target.mask());
                    let (field, form) = (target.field, SetForm::Load);
                    actions.push(Action::Set { field, value: value & mask, mask, form });
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

/// Makes a match demand these bits.
pub(crate) fn match_bits(matching: &mut Match, target: Subfield, bits: u128) {
    match target.field {
        // Ports in fields of 32 bits have the numbers of OpenFlow 1.1 and later.
        Field::InPortOxm => {
            let port = OfPort::from_wire32(bits as u32).unwrap_or(OfPort::NONE);
            matching.set_masked(Field::InPort, port.0.into(), Field::InPort.all_ones());
        }
        field => matching.set_masked(field, bits << target.offset, target.mask()),
    }
}

/// Output to a port of this number, where a learned flow may send to it.
fn output(number: u128) -> Option<Action> {
    let port = OfPort(u16::try_from(number).ok()?);
    let may = port.0 < OfPort::MAX.0
        || matches!(port, OfPort::IN_PORT | OfPort::FLOOD | OfPort::LOCAL | OfPort::ALL);
    may.then_some(Action::Output { port, max_len: 0 })
}
