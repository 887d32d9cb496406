//! What a thread tracks its packets with.

use crate::connections::ThreadContext;
use crate::conntrack::Conntrack;
use crate::entry::Entry;
use crate::follow::Follower;
use crate::settings::SettingsCopy;
use crate::track::Pass;
use base::Instant;
use base::limits::BATCH_SIZE;
use flow::{ConnectionRef, CtAction, Frame};
use std::sync::Arc;
use table::{Guard, Reader, TICK};

/// One thread's access to all connections. Its changes are visible to all others at once.
pub struct Tracker {
    conntrack: Arc<Conntrack>,
    reader: Reader,
    context: ThreadContext,
    settings: SettingsCopy,
    /// The tick of this thread's wheel before which nothing more is due.
    next_look: Instant,
}

const _: () = {
    const fn can_move<T: Send>() {}
    can_move::<Tracker>();
};

impl Tracker {
    pub(crate) fn new(conntrack: Arc<Conntrack>, reader: Reader, context: ThreadContext) -> Self {
        let settings = conntrack.settings.copy();
        Tracker { conntrack, reader, context, settings, next_look: Instant::ZERO }
    }

    /// The connections.
    pub fn conntrack(&self) -> &Arc<Conntrack> {
        &self.conntrack
    }

    /// Tracks packets in the action's zone: writes the connection fields of their keys, and
    /// translates addresses in keys and bytes where the action asks for it. Frames whose packet is
    /// gone are passed over; fragments are invalid, unless they went through
    /// [`Tracker::execute_reassembling`].
    pub fn execute(&mut self, now: Instant, action: &CtAction, frames: &mut [Frame]) {
        let Tracker { conntrack, reader, context, settings, .. } = self;
        conntrack.settings.refresh(settings);
        (context.now, context.is_watched) = (now, settings.settings.is_watched);
        let guard = reader.enter();
        for batch in frames.chunks_mut(BATCH_SIZE) {
            let connections = &conntrack.connections;
            Pass::new(connections, &guard, context, &settings.settings, action, now).track(batch);
        }
        conntrack.connections.publish(context);
    }

    /// Takes a guard under which packets of connections that are known are followed; one guard serves a
    /// batch.
    pub fn guard(&mut self) -> FollowGuard<'_> {
        let Tracker { conntrack, reader, context, settings, .. } = self;
        conntrack.settings.refresh(settings);
        let (connections, settings) = (&conntrack.connections, &*settings.settings);
        context.is_watched = settings.is_watched;
        let follower = Follower::new(connections, settings);
        FollowGuard { follower, context, _guard: reader.enter() }
    }

    /// Forgets connections that this thread began and whose time ran out, looking at no more than
    /// `budget` of them; at eight times as many where a whole tick of the wheel was not enough. A
    /// thread that calls this in every turn of its loop keeps its own wheel in order, in
    /// steps so small that no packet waits for them, and gives the records out again while they are
    /// in its cache; [`Conntrack::tick`] leaves that wheel alone until two seconds pass without a
    /// call.
    pub fn expire(&mut self, now: Instant, budget: usize) {
        if now < self.next_look {
            return;
        }
        let budget = if now < self.next_look + TICK { budget } else { budget.saturating_mul(8) };
        let Tracker { conntrack, reader, context, settings, next_look } = self;
        conntrack.settings.refresh(settings);
        (context.now, context.is_watched) = (now, settings.settings.is_watched);
        let guard = reader.enter();
        let expiry = conntrack.connections.expire_own(&guard, context, now, budget);
        conntrack.connections.publish(context);
        if !expiry.is_behind {
            let tick_ns = TICK.as_nanos() as u64;
            *next_look = Instant::from_nanos((now.as_nanos() / tick_ns + 1) * tick_ns);
        }
    }

    /// The connection as dumps show it, if it lives and nothing that flows can see of it changed
    /// since.
    pub fn entry(&mut self, now: Instant, connection: ConnectionRef) -> Option<Entry> {
        let connections = &self.conntrack.connections;
        let _guard = self.reader.enter();
        let record = connections.record(connection.id);
        let is_same = record.life().generation() == connection.generation;
        Entry::new(&record, None, now).filter(|_| is_same)
    }

    /// [`FollowGuard::follow_known`] for one packet.
    pub fn follow_known(&mut self, now: Instant, connection: ConnectionRef, frame: &Frame) -> bool {
        self.guard().follow_known(now, connection, frame)
    }
}

/// Follows the packets of a batch under one guard.
pub struct FollowGuard<'a> {
    follower: Follower<'a>,
    context: &'a mut ThreadContext,
    _guard: Guard<'a>,
}

impl FollowGuard<'_> {
    /// Brings a connection's record nearer, which will be asked for soon.
    #[inline]
    pub fn prefetch(&self, connection: ConnectionRef) {
        self.follower.connections.fetch_remembered(connection.id);
    }

    /// Follows a packet of a connection that is known from earlier packets of the same tuple. True:
    /// the packet is exactly like the one that `connection` was remembered of, for every flow (same
    /// state, zone, mark, label and translation); its connection was told of it, and its key's
    /// connection fields need not be written. False: nothing was done, and the packet must take
    /// the slow path.
    #[inline]
    pub fn follow_known(&mut self, now: Instant, connection: ConnectionRef, frame: &Frame) -> bool {
        let FollowGuard { follower, context, .. } = self;
        follower.set(now, context);
        follower.follow(connection, frame, context).is_some()
    }

    /// Whether flows see of a connection what they saw, if it lives.
    #[inline]
    pub fn is_unchanged(&self, connection: ConnectionRef) -> bool {
        let record = self.follower.connections.record(connection.id);
        record.life().differs_from(connection.generation) == 0
    }

    /// Follows a packet that is tracked in two zones, and is of a known connection in each, as
    /// [`Self::follow_known`] does: in both, or in none. Says of each whether the packet acts on it
    /// twice.
    #[inline]
    pub fn follow_both(
        &mut self,
        now: Instant,
        both: [(ConnectionRef, bool); 2],
        frame: &Frame,
    ) -> bool {
        let FollowGuard { follower, context, .. } = self;
        follower.set(now, context);
        follower.follow_both(both, frame, context)
    }
}

impl Drop for FollowGuard<'_> {
    fn drop(&mut self) {
        self.follower.connections.publish(self.context);
    }
}
