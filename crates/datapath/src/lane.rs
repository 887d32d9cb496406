//! The places in which a batch's packets stay while they are worked on, and what is noted of each.

use crate::translate::{Translation, Tuple};
use crate::unified::{Found, NOT_FOUND};
use crate::walks::{Hit, Passes};
use crate::way::Way;
use base::PortNo;
use base::limits::BATCH_SIZE;
use flow::{ConnectionRef, CtState, FlowKey, Frame, Headers};
use packet::{Batch, Packet};

/// What was noted of a packet on its whole walk.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    pub passes: Passes,
    pub tracking: Tracking,
    /// Addresses and ports behind connection tracking.
    pub tuple: Tuple,
}

/// What connection tracking said of a packet each time that it was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tracking {
    /// It was not there.
    Untracked,
    /// The same each time.
    Same(Visits),
    /// Nothing that can be remembered.
    Unsteady,
}

/// The visits of a packet to connection tracking, all of which found the same connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Visits {
    pub connection: ConnectionRef,
    /// How many of them acted on the connection. A packet of an established connection acts once
    /// however often it comes by; one of a new connection each time.
    pub acting: u8,
    /// The last one said that the connection is new.
    is_new: bool,
}

/// A batch at work. Kept from batch to batch, so that nothing is allocated or moved.
pub(crate) struct Lane {
    pub frames: [Frame; BATCH_SIZE],
    pub headers: [Headers; BATCH_SIZE],
    pub trails: [Trail; BATCH_SIZE],
    /// What the unified cache knows.
    pub found: Found,
    /// Which way packets go that go as others did before them.
    pub ways: [Way; BATCH_SIZE],
    /// Places in use.
    pub count: usize,
}

impl Trail {
    pub const fn new() -> Self {
        Trail { passes: Passes::new_const(), tracking: Tracking::Untracked, tuple: Tuple::NONE }
    }

    fn clear(&mut self) {
        self.passes.clear();
        self.tracking = Tracking::Untracked;
    }

    /// Notes the flow that the packet hit.
    pub fn hit(&mut self, hit: Hit) {
        if self.passes.try_push(hit).is_err() {
            self.tracking = Tracking::Unsteady;
        }
    }

    /// Notes what a visit to connection tracking said.
    pub fn tracked(&mut self, frame: &Frame) {
        let is_new = frame.key.ct_state().contains(CtState::NEW);
        self.tracking = match (self.tracking, frame.connection) {
            (Tracking::Untracked, Some(connection)) => {
                Tracking::Same(Visits { connection, acting: 1, is_new })
            }
            (Tracking::Same(before), Some(connection)) if before.connection == connection => {
                let acting = before.acting + u8::from(before.is_new);
                Tracking::Same(Visits { connection, acting, is_new })
            }
            _ => Tracking::Unsteady,
        };
        self.tuple = Tuple::of(&frame.key);
    }
}

impl Lane {
    /// A lane with room for a batch.
    pub fn new() -> Self {
        Lane {
            frames: std::array::from_fn(|_| Frame::empty()),
            headers: [Headers::none(); BATCH_SIZE],
            trails: std::array::from_fn(|_| Trail::new()),
            found: [NOT_FOUND; BATCH_SIZE],
            ways: [Way::NONE; BATCH_SIZE],
            count: 0,
        }
    }

    /// Puts packets into their places and reads their headers. Gives those to `refuse` that have
    /// none; their places stay empty.
    pub fn read(&mut self, in_port: PortNo, batch: &mut Batch, mut refuse: impl FnMut(Packet)) {
        let Lane { frames, headers, .. } = self;
        let count = batch.len().min(BATCH_SIZE);
        for i in 0..count {
            let frame = &mut frames[i];
            frame.packet = batch[i].take();
            if !frame.read(in_port, &mut headers[i]) {
                refuse(frame.packet.take());
            }
        }
        self.count = count;
        batch.clear();
    }

    /// Gets packets that are still in their places ready for a walk: writes the rest of their keys.
    pub fn begin_walk(&mut self) {
        self.trails[..self.count].iter_mut().for_each(Trail::clear);
        for (frame, headers) in self.frames.iter_mut().zip(&self.headers).take(self.count) {
            if !frame.packet.is_empty() && !headers.is_none() {
                headers.write_key(&mut frame.key);
            }
        }
    }
}

/// What connection tracking changed of a packet's addresses and ports; `None` for nothing.
pub(crate) fn tuple_change(headers: &Headers, behind: &Tuple) -> Option<Translation> {
    let mut key = FlowKey::new();
    headers.write_key(&mut key);
    (Tuple::of(&key) != *behind).then(|| Translation::new(headers, behind))
}
