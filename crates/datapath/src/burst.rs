//! A burst: the packets of a batch with their headers, cache entries and path traces.

use crate::ct_passes::Tracking;
use crate::flow_paths::{Hit, Passes};
use crate::nat_rewrite::Tuple;
use crate::outer::Seen;
use crate::outside::Outside;
use crate::path_id::PathId;
use crate::unified::{Found, NOT_FOUND};
use base::PortNo;
use base::limits::BATCH_SIZE;
use flow::{Frame, Headers};
use packet::{Batch, Packet};
use std::ops::Range;

/// The trace of a packet's flow path, for cache insertion.
#[derive(Clone, Debug)]
pub(crate) struct PathTrace {
    pub passes: Passes,
    pub tracking: Tracking,
    /// Addresses and ports after the last pass through connection tracking.
    pub tuple: Tuple,
    /// The outer packet, where the first pass decapsulated it.
    pub seen: Option<Seen>,
    /// The headers behind the tunnel's.
    pub inner: Headers,
}

/// The batch that a worker processes. Reused for every batch, so that nothing is allocated or moved.
pub(crate) struct Burst {
    pub frames: [Frame; BATCH_SIZE],
    pub headers: [Headers; BATCH_SIZE],
    pub traces: [PathTrace; BATCH_SIZE],
    /// The packets' entries in the unified cache.
    pub found: Found,
    /// The flow paths of packets that hit the cache; none for those that walk.
    pub path_ids: [PathId; BATCH_SIZE],
    /// The outer packets of those decapsulated before the lookup ([`crate::inside`]), and a bitmap of these
    /// packets.
    pub outside: [Outside; BATCH_SIZE],
    pub opened: u32,
    /// The port that the batch was received on.
    pub in_port: PortNo,
    /// Some entries have a NAT rewrite.
    pub has_nat: bool,
    /// Places in use.
    pub count: usize,
}

impl PathTrace {
    pub const fn new() -> Self {
        PathTrace {
            passes: Passes::new_const(),
            tracking: Tracking::Untracked,
            tuple: Tuple::NONE,
            seen: None,
            inner: Headers::none(),
        }
    }

    fn clear(&mut self) {
        self.passes.clear();
        self.tracking = Tracking::Untracked;
        self.seen = None;
    }

    /// Notes the flow that the packet hit.
    pub fn hit(&mut self, hit: Hit) {
        if self.passes.try_push(hit).is_err() {
            self.tracking = Tracking::Uncacheable;
        }
    }

    /// Notes that the packet's path cannot be cached.
    pub fn set_uncacheable(&mut self) {
        self.tracking = Tracking::Uncacheable;
    }

    /// Notes that the packet was decapsulated. Its path can be cached only if that is its first pass and
    /// the inner packet is an ordinary one.
    #[inline(never)]
    pub fn opened(&mut self, frame: &Frame, seen: Option<Seen>) {
        let is_first = self.passes.len() == 1 && self.seen.is_none();
        let mut inner = Headers::none();
        if is_first && seen.is_some() && inner.read(frame.packet.data(), PortNo(0)).is_some() {
            (self.seen, self.inner) = (seen, inner);
        } else {
            self.set_uncacheable();
        }
    }

    /// Notes a `ct_clear`.
    pub fn cleared(&mut self) {
        if let Tracking::Same(ct_passes) = &mut self.tracking {
            ct_passes.clear();
        }
    }

    /// Notes the result of a pass through connection tracking.
    pub fn tracked(&mut self, frame: &Frame) {
        self.tracking = self.tracking.and(frame, self.tuple);
        self.tuple = Tuple::of(&frame.key);
    }
}

impl Burst {
    /// An empty burst.
    pub fn new() -> Self {
        Burst {
            frames: std::array::from_fn(|_| Frame::empty()),
            headers: [Headers::none(); BATCH_SIZE],
            traces: std::array::from_fn(|_| PathTrace::new()),
            found: [NOT_FOUND; BATCH_SIZE],
            path_ids: [PathId::NONE; BATCH_SIZE],
            outside: [Outside::NONE; BATCH_SIZE],
            opened: 0,
            in_port: PortNo(0),
            has_nat: false,
            count: 0,
        }
    }

    /// Takes the packets of a batch and reads their headers. Packets without a whole Ethernet header go
    /// to `refuse`; their places stay empty.
    pub fn read(&mut self, in_port: PortNo, batch: &mut Batch, mut refuse: impl FnMut(Packet)) {
        let places = self.frames.iter_mut().zip(&mut self.headers);
        (self.count, self.in_port) = (batch.len(), in_port);
        for (packet, (frame, headers)) in batch.drain(..).zip(places) {
            frame.packet = packet;
            if !frame.read(in_port, headers) {
                refuse(frame.packet.take());
            }
        }
    }

    /// Prepares packets for a walk over the flow table: writes their keys and, if the batch is traced,
    /// clears the traces.
    pub fn begin_walk(&mut self, packets: Range<usize>, is_traced: bool) {
        if is_traced {
            self.traces[packets.clone()].iter_mut().for_each(PathTrace::clear);
        }
        let frames = &mut self.frames[packets.clone()];
        for (frame, headers) in frames.iter_mut().zip(&self.headers[packets]) {
            frame.received = None;
            if !frame.packet.is_empty() && !headers.is_none() {
                headers.write_key(&mut frame.key);
            }
        }
    }
}

/// The frames that still have a packet; dropped ones have none.
pub(crate) fn present(frames: &mut [Frame]) -> impl Iterator<Item = &mut Frame> {
    frames.iter_mut().filter(|frame| !frame.packet.is_empty())
}
