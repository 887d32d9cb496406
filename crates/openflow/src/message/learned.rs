//! The flow-mods of `learn`.

use super::{FlowFlags, FlowMod, FlowModCommand};
use crate::action::{Action, Learn, LearnSource, LearnSpec, SetForm, Subfield, match_bits};
use base::OfPort;
use flow::Match;

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

/// Returns the output to a port with this number, if a learned flow may use it.
fn output(number: u128) -> Option<Action> {
    let port = OfPort(u16::try_from(number).ok()?);
    let may = port.0 < OfPort::MAX.0
        || matches!(port, OfPort::IN_PORT | OfPort::FLOOD | OfPort::LOCAL | OfPort::ALL);
    may.then_some(Action::Output { port, max_len: 0 })
}
