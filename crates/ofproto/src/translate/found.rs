//! The result of a table lookup, its note in a trace, and its actions.

use super::context::{Context, Scope};
use super::learn::Pending;
use super::report::NoteKind;
use crate::hidden::FAIL_OPEN_PRIORITY;
use crate::ids::RuleId;
use base::OfPort;
use openflow::Action as OfAction;
use openflow::action::ToController;
use openflow::message::reason;
use std::sync::Arc;

/// The result of a table lookup.
pub(crate) enum Found {
    Rule(RuleId),
    /// A flow learned from this packet, by its index.
    Pending(usize),
    /// The bridge fails open.
    FailOpen,
    /// No flow, and the packet goes to the controller.
    MissToController,
    /// No flow.
    Miss,
    /// A fragment, which the bridge drops.
    Fragment,
}

impl Context<'_> {
    /// Notes the result; the actions are nested under it.
    pub fn report_found(&mut self, found: &Found) {
        let (table, bridge, names) = (self.table, self.bridge, self.names);
        let (rules, pending) = (self.world.rules, &self.pending);
        self.notes.enter(NoteKind::Table, || match found {
            Found::Pending(at) => {
                let flow = pending.get(*at).map(Pending::flow);
                let describe = |it| crate::describe::describe_flow(it, bridge, names);
                let flow = flow.map_or_else(String::new, describe);
                format!("{:2}. {flow}", table.0)
            }
            Found::Rule(id) => match rules.get(*id) {
                Some(rule) => {
                    let rule = crate::describe::describe_rule(rule, bridge, names);
                    format!("{:2}. {rule}", table.0)
                }
                None => format!("{:2}. No match.", table.0),
            },
            Found::FailOpen => format!("{:2}. priority {FAIL_OPEN_PRIORITY}", table.0),
            Found::MissToController => {
                format!("{:2}. No match, and a \"packet-in\" is called for.", table.0)
            }
            Found::Miss => format!("{:2}. No match.", table.0),
            Found::Fragment => format!(
                "{:2}. Packets are IP fragments and the fragment handling mode is \"drop\".",
                table.0
            ),
        });
    }

    /// Executes the actions of the result.
    pub fn execute_found(&mut self, found: &Found, scope: Scope, last: bool) {
        let actions: Arc<[OfAction]> = match found {
            Found::Rule(id) => {
                let Some(rule) = self.world.rules.get(*id) else { return };
                self.rules.push(*id);
                self.rule = Some(*id);
                self.cookie = rule.cookie;
                rule.actions.clone()
            }
            Found::Pending(at) => {
                let Some((cookie, actions)) = self.hit_pending(*at) else { return };
                (self.rule, self.cookie) = (None, cookie);
                actions
            }
            Found::FailOpen => [OfAction::Output { port: OfPort::NORMAL, max_len: 0 }].into(),
            Found::MissToController => {
                // The hidden flow of a miss has no cookie.
                (self.rule, self.cookie) = (None, 0);
                let reason = reason::IMPLICIT_MISS;
                [OfAction::Controller(ToController { reason, ..ToController::default() })].into()
            }
            Found::Miss | Found::Fragment => [].into(),
        };
        match scope {
            Scope::Direct => self.execute(&actions, last),
            Scope::Clone => self.execute_clone(&actions, last),
        }
    }
}
