//! The fast path for packets that are tracked in two zones, and its preconditions.
//!
//! Such a packet belongs to a connection in each zone. It takes the fast path only if both
//! connections are unchanged, so both are checked before the first is updated.

use crate::connections::{Connections, ThreadContext};
use crate::fast_path::follow::{Follower, Unchanged, settle};
use crate::headers::fast_parse::Datagram;
use crate::headers::parsed::{self, Parsed, ParsedVisitor};
use flow::{ConnectionRef, Frame};

/// The connections in the two zones, and whether the packet passes each zone twice.
pub(crate) type Both = [(ConnectionRef, bool); 2];

impl Follower<'_> {
    /// Follows a packet that is tracked in two zones. Returns false, with nothing changed, if
    /// either needs the slow path.
    #[inline]
    pub fn follow_both(&self, both: Both, frame: &Frame, context: &mut ThreadContext) -> bool {
        let is_datagram =
            |(it, _): &(ConnectionRef, bool)| Connections::is_remembered_datagram(it.id);
        if both.iter().all(is_datagram)
            && let Some(parsed) = Datagram::of(frame)
        {
            let [first, second] = both.map(|(it, _)| self.view_for(it, &parsed));
            let (Some(first), Some(second)) = (first, second) else { return false };
            if self.is_over(&first) || self.is_over(&second) {
                return false;
            }
            return both.into_iter().zip([first, second]).all(|((connection, is_twice), seen)| {
                let acted = self.follow_datagram(connection, seen, parsed.len, frame).is_some();
                if acted && is_twice {
                    self.follow(connection, frame, context);
                }
                acted
            });
        }
        let acted = self.follow_both_others(both, frame, context).is_some();
        settle(context, acted);
        acted
    }

    /// [`Self::follow_both`] for all packets but UDP over IPv4 without options.
    #[inline(never)]
    fn follow_both_others(
        &self,
        both: Both,
        frame: &Frame,
        context: &mut ThreadContext,
    ) -> Option<()> {
        let [(first, _), (second, _)] = both;
        let unchanged = [self.unchanged(first)?, self.unchanged(second)?];
        let are_twice = both.map(|(_, is_twice)| is_twice);
        let pair = Pair { follower: self, unchanged, are_twice, frame, context };
        parsed::read(frame, Connections::is_v4(first.id), pair)
    }
}

/// Follows a packet on a connection in each of two zones.
struct Pair<'m, 'a> {
    follower: &'m Follower<'a>,
    unchanged: [Unchanged<'a>; 2],
    are_twice: [bool; 2],
    frame: &'m Frame,
    context: &'m mut ThreadContext,
}

impl ParsedVisitor for Pair<'_, '_> {
    fn visit(self, parsed: &impl Parsed) -> Option<()> {
        let Pair { follower, unchanged: [first, second], are_twice, frame, context } = self;
        let step = follower.judge(&first, parsed, context)?;
        let second_step = follower.judge(&second, parsed, context)?;
        follower.take(&first, &step, frame, context)?;
        follower.take(&second, &second_step, frame, context)?;
        for (of, _) in [first, second].iter().zip(are_twice).filter(|(_, is_twice)| *is_twice) {
            follower.follow_again(of.connection, parsed, frame, context);
        }
        Some(())
    }
}
