//! The lookahead for packets that are tracked in two zones: what must be sure before one is followed.
//!
//! A packet that is tracked in two zones is of a connection in each. It takes its short way only where
//! both go on as they are known, and the first must not be told of it before that is sure.
//!
//! Known packets of a batch are followed before those that walk. Where these may need room, a
//! connection that may have to give way must be told of its packets in their turn.

use crate::connections::{Connections, ThreadContext};
use crate::early_drop::reserve;
use crate::fast_parse::Datagram;
use crate::follow::{Follower, Unchanged, settle};
use crate::parsed::{self, Parsed, ParsedVisitor};
use crate::record::Kind;
use crate::tcp::TcpState;
use base::limits::BATCH_SIZE;
use flow::{ConnectionRef, Frame};

/// Connections of two zones, and whether a packet acts on each twice.
pub(crate) type Both = [(ConnectionRef, bool); 2];

/// More connections than a batch begins, also where packets are copied and each begins some.
const BEGUN_MAX: u32 = 8 * BATCH_SIZE as u32;

impl Follower<'_> {
    /// Whether connections may have to give way to new ones of this batch.
    pub fn may_make_room(&self, context: &ThreadContext) -> bool {
        let is_short = || self.is_table_short() || !self.settings.limits.is_none();
        self.settings.makes_room && (context.left_in_reserve.is_some() || is_short())
    }

    fn is_table_short(&self) -> bool {
        let quota = &self.connections.quota;
        quota.is_short_of(reserve(quota.max()) + BEGUN_MAX)
    }

    /// Whether a connection may have to give way where others do, or may once it was told of a packet
    /// that changes no more than its times and windows.
    #[inline(never)]
    pub fn may_give_way(&self, connection: ConnectionRef, context: &ThreadContext) -> bool {
        let record = self.connections.record(connection.id);
        let state = record.state();
        let stays = match state.kind() {
            Kind::Tcp => {
                let peers = record.tcp();
                [peers.original.state, peers.reply.state] == [TcpState::Established; 2]
            }
            Kind::Icmp | Kind::Other | Kind::Sctp => false,
        };
        let is_zone_short = || self.is_zone_short(record.zone(), state.header());
        !stays && (context.left_in_reserve.is_some() || self.is_table_short() || is_zone_short())
    }

    fn is_zone_short(&self, zone: u16, header: u32) -> bool {
        let Some(limit) = self.settings.limits.of(zone) else { return false };
        let index = self.connections.zones.index(header);
        index.is_none_or(|index| index.connections().saturating_add(BEGUN_MAX) >= limit)
    }

    /// Follows a packet that is tracked in two zones, if it goes the same way in both; says of each
    /// connection whether the packet acts on it twice. False did nothing.
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

    /// The same of all but UDP over IPv4 without options.
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

/// Follows a packet that is of a connection in each of two zones.
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
