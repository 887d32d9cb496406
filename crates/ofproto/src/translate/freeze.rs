//! Translation that stops in the middle, to go on when the packet comes back from the datapath or
//! from a controller (ovs: `ofproto/ofproto-dpif-xlate.c`, "Freezing Translation").

use super::context::Context;
use super::report::NoteKind;
use crate::recirc::{Frozen, Rest};
use base::TableId;
use flow::{Action, ControllerAction, DropReason, Field, HashAlgorithm};
use openflow::Action as OfAction;
use openflow::action::{SetForm, ToController};

/// What translation waits for.
#[derive(Clone, Debug)]
pub(crate) enum Why {
    /// The datapath's hash of the packet.
    Hash { algorithm: HashAlgorithm, basis: u32 },
    /// Nothing but another pass.
    Recirculate,
    /// The controller that the packet is sent to.
    Pause(ToController),
}

/// Translation that is about to stop.
#[derive(Clone, Debug)]
pub(crate) struct Freezing {
    why: Why,
    /// What is left to do afterwards.
    rest: Vec<Rest>,
}

impl Context<'_> {
    /// Stops here; the callers leave in [`Self::freeze_rest`] what they would have done next.
    pub fn freeze_for(&mut self, why: Why) {
        self.exit = true;
        self.freezing = Some(Freezing { why, rest: Vec::new() });
    }

    pub fn is_freezing(&self) -> bool {
        self.freezing.is_some()
    }

    /// Keeps the actions that are left of a list, if translation is to go on with them. Instructions
    /// are kept as the actions that do the same.
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

    /// Goes on with what was left.
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

    /// Stops, if that is due: the packet goes where it comes back from, under the number of what is
    /// left to do.
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
            Why::Pause(to) => self.actions.push(Action::Controller(ControllerAction {
                reason: to.reason,
                recirc_id: id,
                rule_cookie: self.cookie,
                controller_id: to.controller_id,
                max_len: to.max_len,
                pauses: true,
            })),
        }
    }

    /// The number of a frozen state, which the steps name. Where no more states are kept, translation fails
    /// and the packet is dropped; no flow is installed, so that the next packet has another chance.
    pub fn intern(&mut self, state: Frozen) -> Option<base::RecircId> {
        let id = self.world.recirc.intern(self.world.now, state);
        if id.is_none() {
            self.notes.add(NoteKind::Error, || "too many recirculation states".to_owned());
            (self.error, self.is_slow) = (Some(DropReason::RecircUnknown), true);
        }
        self.recircs.extend(id);
        id
    }

    /// Tells what is taken up again.
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
