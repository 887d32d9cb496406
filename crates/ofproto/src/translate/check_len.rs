//! `check_pkt_larger`: the actions behind it are translated for long and for short packets (ovs:
//! `ofproto/ofproto-dpif-xlate.c`, `xlate_check_pkt_larger`).

use super::context::Context;
use super::fields::has_field;
use flow::{Action, CheckLen};
use openflow::Action as OfAction;
use openflow::action::Subfield;
use std::sync::Arc;

impl Context<'_> {
    /// Sets a bit if the packet is longer than `bytes`. Returns `true` if it has translated the rest of the
    /// list.
    pub fn check_len(&mut self, bytes: u16, target: Subfield, rest: &[OfAction]) -> bool {
        if !self.world.features.length_check {
            let is_larger = self.world.packet_len.is_some_and(|len| len > usize::from(bytes));
            self.set_larger(target, is_larger);
            self.is_slow = true;
            return false;
        }
        self.commit();
        let mirrored = self.mirrored;
        let greater = self.branch(target, true, rest);
        let mirrored = std::mem::replace(&mut self.mirrored, mirrored);
        let less_equal = self.branch(target, false, rest);
        self.mirrored |= mirrored;
        let check = CheckLen { bytes, greater: greater.into(), less_equal: less_equal.into() };
        self.actions.push(Action::CheckLen(Arc::new(check)));
        true
    }

    /// Sets the bit, if the packet has its field.
    fn set_larger(&mut self, target: Subfield, is_larger: bool) {
        if has_field(target.field, self.key, &mut self.mask) {
            self.look_at_part(target);
            self.write_part(target, u128::from(is_larger).into(), false);
        }
    }

    /// The datapath actions for long or short packets. Their changes end with the branch.
    fn branch(&mut self, target: Subfield, is_larger: bool, rest: &[OfAction]) -> Vec<Action> {
        let (key, base, varying) = (self.key.clone(), self.base.clone(), self.varying.clone());
        let (stack, action_set) = (self.stack.clone(), self.action_set.clone());
        let (conntracked, exit) = (self.conntracked, self.exit);
        let (told_tunnel, stack_varies) = (self.told_tunnel.clone(), self.stack_varies);
        let (was_mpls, under_labels) = (self.shims.was_mpls, self.shims.under_labels);
        let outer = std::mem::take(&mut self.actions);
        self.set_larger(target, is_larger);
        self.execute(rest, true);
        self.finish_pipeline();
        (*self.key, *self.base, *self.varying) = (key, base, varying);
        (self.stack, self.action_set) = (stack, action_set);
        (self.conntracked, self.exit) = (conntracked, exit);
        (self.shims.was_mpls, self.shims.under_labels) = (was_mpls, under_labels);
        (self.told_tunnel, self.stack_varies) = (told_tunnel, stack_varies);
        std::mem::replace(&mut self.actions, outer)
    }
}
