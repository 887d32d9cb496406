//! Whether packets come to connection tracking otherwise than they came in.

use crate::flow_kind::is_tuple;
use base::Zone;
use flow::Action;

/// Which of the flows that a worker ever had give packets other addresses or ports before they are
/// tracked, so that a connection's packets may come in with some that are not its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rewrites {
    /// None.
    Nowhere,
    /// Those that translate in this zone.
    In(Zone),
    /// Some in several zones, or by their own steps.
    Everywhere,
}

impl Rewrites {
    /// With a flow of these steps.
    #[must_use]
    pub fn with(self, actions: &[Action]) -> Rewrites {
        let mut rewrites = self;
        visit(actions, &mut |action| match action {
            Action::Ct(ct) if ct.nat.is_some() => rewrites = rewrites.and_in(ct.zone),
            _ => {}
        });
        let (mut sets, mut goes_on) = (false, false);
        visit(actions, &mut |action| match action {
            Action::Set(set) => sets |= is_tuple(set.field),
            Action::TunnelPush(_) => sets = true,
            // Packets that are taken out of a tunnel are known by what was inside.
            Action::Ct(_) | Action::Recirc(_) | Action::TunnelPop { .. } => goes_on |= sets,
            _ => {}
        });
        if goes_on { Rewrites::Everywhere } else { rewrites }
    }

    fn and_in(self, zone: Zone) -> Rewrites {
        match self {
            Rewrites::Nowhere => Rewrites::In(zone),
            Rewrites::In(other) if other == zone => self,
            _ => Rewrites::Everywhere,
        }
    }

    /// Whether packets may come to a connection of this zone otherwise than they came in. Within a
    /// zone, translation never makes packets of one connection another one's.
    pub fn reach(self, zone: Zone) -> bool {
        match self {
            Rewrites::Nowhere => false,
            Rewrites::In(other) => other != zone,
            Rewrites::Everywhere => true,
        }
    }
}

/// Whether steps take packets out of a tunnel.
pub(crate) fn opens_tunnels(actions: &[Action]) -> bool {
    let mut opens = false;
    visit(actions, &mut |action| opens |= matches!(action, Action::TunnelPop { .. }));
    opens
}

/// Shows all steps, also those on copies.
fn visit(actions: &[Action], see: &mut impl FnMut(&Action)) {
    for action in actions {
        see(action);
        match action {
            Action::Clone(actions) | Action::CloneCut { actions, .. } => visit(actions, see),
            Action::CheckLen(check) => {
                visit(&check.greater, see);
                visit(&check.less_equal, see);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::RecircId;
    use flow::{CtAction, Field, Nat, SetField};
    use std::sync::Arc;

    fn ct(zone: u16, nat: Option<Nat>) -> Action {
        Action::Ct(Box::new(CtAction { zone: Zone(zone), nat, ..CtAction::default() }))
    }

    fn check(flows: &[&[Action]], expect: Rewrites) {
        let all = flows.iter().fold(Rewrites::Nowhere, |all, actions| all.with(actions));
        assert_eq!(all, expect, "{flows:?}");
    }

    #[test]
    fn translation_reaches_all_zones_but_its_own() {
        let again = Action::Recirc(RecircId(1));
        let set = |field| Action::Set(SetField { field, value: 1, mask: 1 });
        let [look, restore] = [None, Some(Nat::Restore)].map(|nat| [ct(1, nat), again.clone()]);
        let elsewhere = [ct(2, Some(Nat::Restore))];
        check(&[&look], Rewrites::Nowhere);
        check(&[&look, &restore], Rewrites::In(Zone(1)));
        check(&[&elsewhere, &restore], Rewrites::Everywhere);
        check(&[&[Action::Clone(Arc::new(restore))]], Rewrites::In(Zone(1)));
        check(&[&[set(Field::Ipv4Dst)], &[set(Field::NwTtl), again.clone()]], Rewrites::Nowhere);
        check(&[&[set(Field::TpDst), again.clone()]], Rewrites::Everywhere);
        check(&[&[Action::Clone(Arc::new([set(Field::Ipv6Src), again]))]], Rewrites::Everywhere);
        let reached = [Rewrites::Nowhere, Rewrites::In(Zone(1)), Rewrites::Everywhere]
            .map(|it| [1, 2].map(|zone| it.reach(Zone(zone))));
        assert_eq!(reached, [[false, false], [false, true], [true, true]]);
    }
}
