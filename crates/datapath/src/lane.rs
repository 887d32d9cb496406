//! The places in which a batch's packets stay while they are worked on, and what is noted of each.

use crate::unified::{Found, Known, Translation};
use crate::walks::{Hit, Passes};
use arrayvec::ArrayVec;
use base::PortNo;
use base::limits::BATCH_SIZE;
use flow::{ConnectionRef, FlowKey, Frame, Headers};
use packet::{Batch, Packet};

/// What was noted of a packet on its whole walk.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    pub passes: Passes,
    pub tracking: Tracking,
    /// Addresses and ports behind connection tracking.
    pub tuple: Translation,
}

/// What connection tracking said of a packet each time that it was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tracking {
    /// It was not there.
    Untracked,
    /// The same each time.
    Same(ConnectionRef),
    /// Nothing that can be remembered.
    Unsteady,
}

/// A batch at work. Kept from batch to batch, so that nothing is allocated or moved.
#[derive(Default)]
pub(crate) struct Lane {
    pub frames: Vec<Frame>,
    pub headers: Vec<Headers>,
    pub trails: Vec<Trail>,
    pub found: Found,
    pub known: ArrayVec<Option<Known>, BATCH_SIZE>,
    /// Places in use.
    pub count: usize,
}

impl Trail {
    pub const fn new() -> Self {
        Trail {
            passes: Passes::new_const(),
            tracking: Tracking::Untracked,
            tuple: Translation { addresses: [0; 4], ports: 0 },
        }
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
        self.tracking = match (self.tracking, frame.connection) {
            (Tracking::Untracked, Some(connection)) => Tracking::Same(connection),
            (Tracking::Same(before), Some(connection)) if before == connection => self.tracking,
            _ => Tracking::Unsteady,
        };
        self.tuple = tuple(&frame.key);
    }
}

impl Lane {
    /// A lane with room for a batch.
    pub fn new() -> Self {
        Lane {
            frames: std::iter::repeat_with(Frame::empty).take(BATCH_SIZE).collect(),
            headers: vec![Headers::none(); BATCH_SIZE],
            trails: vec![Trail::new(); BATCH_SIZE],
            found: Found::new(),
            known: ArrayVec::new(),
            count: 0,
        }
    }

    /// Puts packets into their places and reads their headers. Gives those to `refuse` that have
    /// none.
    pub fn read(&mut self, in_port: PortNo, batch: &mut Batch, mut refuse: impl FnMut(Packet)) {
        let Lane { frames, headers, trails, .. } = self;
        let mut count = 0;
        for packet in batch.drain(..) {
            let frame = &mut frames[count];
            frame.packet = packet;
            if frame.read(in_port, &mut headers[count]) {
                trails[count].clear();
                count += 1;
            } else {
                refuse(frame.packet.take());
            }
        }
        self.count = count;
    }
}

/// What connection tracking changed of a packet's addresses and ports; `None` for nothing.
pub(crate) fn tuple_change(headers: &Headers, behind: &Translation) -> Option<Translation> {
    let mut key = FlowKey::new();
    headers.write_key(&mut key);
    (tuple(&key) != *behind).then_some(*behind)
}

/// Addresses and ports of a key.
fn tuple(key: &FlowKey) -> Translation {
    let words = key.words();
    let addresses = [words[12], words[13], words[14], words[15]];
    Translation { addresses, ports: (words[17] >> 32) as u32 }
}
