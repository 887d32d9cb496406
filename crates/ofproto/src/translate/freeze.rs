//! Freezing: translation stops and continues when the packet comes back from the datapath or from a
//! controller (ovs: `ofproto/ofproto-dpif-xlate.c`, "Freezing Translation").

use super::context::Context;
use super::report::NoteKind;
use crate::recirc::{Frozen, Rest};
use base::TableId;
use flow::{Action, ControllerAction, DropReason, Field, HashAlgorithm};
use openflow::Action as OfAction;
use openflow::action::{SetForm, ToController};

/// The reason for freezing.
#[derive(Clone, Debug)]
pub(crate) enum Why {
    /// The datapath's hash of the packet.
    Hash { algorithm: HashAlgorithm, basis: u32 },
    /// Another pass.
    Recirculate,
    /// The controller that the packet is sent to.
    Pause(ToController),
}

/// A freeze in progress.
#[derive(Clone, Debug)]
pub(crate) struct Freezing {
    why: Why,
    /// The remaining actions.
    rest: Vec<Rest>,
}

impl Context<'_> {
    /// Starts freezing; callers add their remaining actions with [`Self::freeze_rest`].
    pub fn freeze_for(&mut self, why: Why) {
        self.exit = true;
        self.freezing = Some(Freezing { why, rest: Vec::new() });
    }

    pub fn is_freezing(&self) -> bool {
        self.freezing.is_some()
    }

    /// Adds the remaining actions of a list, if translation is freezing. Instructions are stored as
    /// equivalent actions.
    pub fn freeze_rest(&mut self, actions: &[OfAction]) {
        let (table, cookie) = (self.table, self.cookie);
        let Some(freezing) = &mut self.freezing else { return };
        if actions.is_empty() {
            return;
        }
        let same = |rest: &&mut Rest| rest.table == table && rest.cookie == cookie;
        let place = match freezing.rest.last_mut().filter(same) {
            Some(rest) => &mut rest.actions,
            None => {
                freezing.rest.push(Rest { table, cookie, actions: Vec::new() });
                let Some(last) = freezing.rest.last_mut() else { return };
                &mut last.actions
            }
        };
        place.extend(actions.iter().filter_map(|action| match action {
            OfAction::GotoTable(table) => {
                let (in_port, with_ct_orig) = (None, false);
                Some(OfAction::Resubmit { in_port, table: Some(*table), with_ct_orig })
            }
            OfAction::WriteMetadata { value, mask } => Some(OfAction::Set {
                field: Field::Metadata,
                value: (*value).into(),
                mask: (*mask).into(),
                form: SetForm::SetField,
            }),
            OfAction::Note(_) | OfAction::Conjunction(_) => None,
            other => Some(other.clone()),
        }));
    }

    /// Executes the remaining actions.
    pub fn execute_rest(&mut self, rest: &[Rest]) {
        for (i, part) in rest.iter().enumerate() {
            if self.error.is_some() {
                return;
            }
            (self.table, self.cookie) = (part.table, part.cookie);
            if self.exit {
                self.freeze_rest(&part.actions);
            } else {
                self.execute(&part.actions, i + 1 == rest.len());
            }
        }
    }

    /// Completes a freeze: the packet goes to the datapath or the controller with the number of the frozen
    /// state.
    pub fn finish_freezing(&mut self) {
        let Some(Freezing { why, rest }) = self.freezing.take() else { return };
        self.commit();
        let mut state = self.freeze(TableId(0), Vec::new());
        state.rest = rest;
        if let Why::Pause(to) = &why {
            state.userdata.clone_from(&to.userdata);
        }
        let Some(id) = self.intern(state) else { return };
        match why {
            Why::Hash { algorithm, basis } => {
                self.actions.push(Action::Hash { algorithm, basis });
                self.actions.push(Action::Recirc(id));
            }
            Why::Recirculate => self.actions.push(Action::Recirc(id)),
            Why::Pause(to) => {
                let send = ControllerAction {
                    reason: to.reason,
                    recirc_id: id,
                    rule_cookie: self.cookie,
                    controller_id: to.controller_id,
                    max_len: to.max_len,
                    pauses: true,
                };
                self.push_to_controller(&to, send);
            }
        }
    }

    /// The number of a frozen state. If there are too many states, translation fails and the packet is
    /// dropped without a megaflow, so the next packet tries again.
    pub fn intern(&mut self, state: Frozen) -> Option<base::RecircId> {
        let id = self.world.recirc.intern(self.world.now, state);
        if id.is_none() {
            self.notes.add(NoteKind::Error, || "too many recirculation states".to_owned());
            (self.error, self.is_slow) = (Some(DropReason::RecircUnknown), true);
        }
        self.recircs.extend(id);
        id
    }

    /// Notes the resumed actions.
    pub fn report_rest(&mut self, rest: &[Rest]) {
        if rest.is_empty() {
            return;
        }
        self.notes.add(NoteKind::Thaw, || {
            let parts = rest.iter().map(|part| {
                let actions = openflow::text::format_actions(&part.actions, &flow::Match::any());
                format!("unroll_xlate(table={}, cookie={:#x}),{actions}", part.table, part.cookie)
            });
            format!("Restoring actions: {}", parts.collect::<Vec<_>>().join(","))
        });
    }
}
