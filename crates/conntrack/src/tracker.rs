//! The part of connection tracking that each thread has for itself.

use crate::connections::ThreadContext;
use crate::conntrack::Conntrack;
use crate::error::Error;
use crate::fast_path::follow::Follower;
use crate::management::entry::Entry;
use crate::management::settings::SettingsCopy;
use crate::pass::Pass;
use base::Instant;
use base::limits::BATCH_SIZE;
use flow::{ConnectionRef, CtAction, Frame};
use std::sync::Arc;
use table::{Guard, Reader, TICK};

/// One thread's access to all connections. All threads see its changes at once.
pub struct Tracker {
    conntrack: Arc<Conntrack>,
    reader: Reader,
    context: ThreadContext,
    settings: SettingsCopy,
    /// The next tick of this thread's timing wheel; nothing expires before it.
    next_look: Instant,
}

const _: () = {
    const fn can_move<T: Send>() {}
    can_move::<Tracker>();
};

impl Conntrack {
    /// Registers a thread that tracks packets.
    ///
    /// # Errors
    /// [`Error::TooManyTrackers`]: the maximum is reached.
    pub fn tracker(self: &Arc<Self>) -> Result<Tracker, Error> {
        let (reader, context) = self.join().ok_or(Error::TooManyTrackers)?;
        let (conntrack, settings) = (Arc::clone(self), self.settings.copy());
        Ok(Tracker { conntrack, reader, context, settings, next_look: Instant::ZERO })
    }
}

impl Tracker {
    /// The connections.
    pub fn conntrack(&self) -> &Arc<Conntrack> {
        &self.conntrack
    }

    /// Tracks packets in the action's zone: writes the connection fields of their keys, and
    /// rewrites addresses in keys and bytes where the action asks for NAT. Skips frames whose
    /// packet was taken. Fragments are invalid, unless they went through
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

    /// [`Tracker::execute`] for frames that may include fragments. A held fragment leaves an empty
    /// packet in its place. Returns the fragments of completed datagrams, tracked and in order;
    /// they follow behind `frames`.
    pub fn execute_reassembling(
        &mut self,
        now: Instant,
        action: &CtAction,
        frames: &mut [Frame],
    ) -> Vec<Frame> {
        let whole = self.conntrack().fragments().hold(now, action.zone, frames);
        self.execute(now, action, frames);
        let mut released = Vec::new();
        for mut whole in whole {
            self.execute(now, action, std::slice::from_mut(whole.frame_mut()));
            released.extend(whole.into_fragments());
        }
        released
    }

    /// Takes a guard for following packets of known connections; one guard serves a batch.
    pub fn guard(&mut self) -> FollowGuard<'_> {
        let Tracker { conntrack, reader, context, settings, .. } = self;
        conntrack.settings.refresh(settings);
        let (connections, settings) = (&conntrack.connections, &*settings.settings);
        context.is_watched = settings.is_watched;
        let follower = Follower::new(connections, settings);
        FollowGuard { follower, context, _guard: reader.enter() }
    }

    /// Removes expired connections that this thread began. Examines at most `budget` of them, or
    /// eight times as many when a whole tick of the wheel did not fit. A thread that calls this in
    /// every iteration keeps its own wheel up to date in small steps, and reuses records while they
    /// are in its cache. [`Conntrack::tick`] takes over the wheel after two seconds without a call.
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

    /// Returns the connection as dumps show it, or `None` if it ended or anything that flows can
    /// match on changed since.
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
    /// Prefetches a connection's record.
    #[inline]
    pub fn prefetch(&self, connection: ConnectionRef) {
        self.follower.connections.fetch_remembered(connection.id);
    }

    /// Follows a packet of a connection that an earlier packet of the same tuple found. Returns
    /// true if every flow sees the packet as it saw the one that `connection` was remembered of
    /// (same state, zone, mark, label and NAT): the connection was updated, and the key's
    /// connection fields need not be written. Returns false, with nothing changed, if the packet
    /// must take the slow path.
    #[inline]
    pub fn follow_known(&mut self, now: Instant, connection: ConnectionRef, frame: &Frame) -> bool {
        let FollowGuard { follower, context, .. } = self;
        follower.set(now, context);
        follower.follow(connection, frame, context).is_some()
    }

    /// Whether the connection lives and nothing that flows can match on changed.
    #[inline]
    pub fn is_unchanged(&self, connection: ConnectionRef) -> bool {
        let record = self.follower.connections.record(connection.id);
        record.life().differs_from(connection.generation) == 0
    }

    /// Follows a packet that is tracked in two zones, as [`Self::follow_known`] does, in both zones
    /// or in neither. The flag beside each connection tells whether the packet passes its zone
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
