//! The places in which a batch's packets stay while they are worked on, and what is noted of each.

use crate::translate::Tuple;
use crate::unified::{Found, NOT_FOUND};
use crate::visits::Tracking;
use crate::walks::{Hit, Passes};
use crate::way::Way;
use base::PortNo;
use base::limits::BATCH_SIZE;
use flow::{Frame, Headers};
use packet::{Batch, Packet};

/// What was noted of a packet on its whole walk.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    pub passes: Passes,
    pub tracking: Tracking,
    /// Addresses and ports behind connection tracking.
    pub tuple: Tuple,
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

    /// Notes that nothing can be said of others.
    pub fn spoil(&mut self) {
        self.tracking = Tracking::Unsteady;
    }

    /// Notes that the packet was made to forget what connection tracking said of it.
    pub fn cleared(&mut self) {
        if let Tracking::Same(visits) = &mut self.tracking {
            visits.clear();
        }
    }

    /// Notes what a visit to connection tracking said.
    pub fn tracked(&mut self, frame: &Frame) {
        self.tracking = self.tracking.and(frame, self.tuple);
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

    /// Gets packets that are still in their places ready for a walk: writes the rest of their keys,
    /// and wipes the trails where walks are noted.
    pub fn begin_walk(&mut self, is_noted: bool) {
        if is_noted {
            self.trails[..self.count].iter_mut().for_each(Trail::clear);
        }
        for (frame, headers) in self.frames.iter_mut().zip(&self.headers).take(self.count) {
            if !frame.packet.is_empty() && !headers.is_none() {
                headers.write_key(&mut frame.key);
            }
        }
    }
}
