//! A ring that is in use: packets between it and a worker.

use crate::areas::{Areas, View};
use crate::chain::{Access, Cursor, DESCRIPTORS_MAX, Segments, Taken};
use crate::counters::Burst;
use crate::fault::RingFault;
use crate::format::Format;
use crate::header::{self, HEADER_MAX};
use crate::memory::GuestMemory;
use crate::{doorbell::Doorbell, feature};
use ::port::vnet::{Backlog, Received};
use base::limits::FRAME_BYTES;
use packet::{Batch, Offload, Packet, Pool};
use std::sync::Arc;

/// Shortest frame: an Ethernet header.
const FRAME_LEAST: u64 = 14;
/// Descriptors that are read in one burst. Only a guest with useless descriptors needs more.
pub const BURST_DESCRIPTORS: usize = 4096;
/// Bytes that are copied in one burst, after which it ends: as much as four packets of 64 KiB.
const BURST_BYTES: usize = 256 << 10;
/// Buffers of one packet.
const BUFFERS_MAX: usize = 1024;

/// A ring in use.
#[derive(Debug)]
pub struct Ring {
    format: Format,
    areas: Areas,
    memory: Arc<GuestMemory>,
    call: Option<Arc<Doorbell>>,
    /// Whether packets pass. A disabled ring keeps its position.
    is_enabled: bool,
    features: u64,
    segments: Segments,
    taken: Vec<Taken>,
}

/// The result of receiving.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Got {
    /// Invalid frames.
    pub errors: u64,
    /// Descriptors that were read.
    pub descriptors: usize,
}

/// The result of sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Packets that were handled: the guest has them, or they do not fit into any of its buffers.
    pub count: usize,
    /// Of these, packets that do not fit.
    pub too_long: u64,
}

enum Put {
    Done,
    Full,
    TooLong,
}

impl Ring {
    /// A ring at these places. It goes on where the guest's memory or the base says.
    pub fn new(
        features: u64,
        size: u16,
        base: u32,
        areas: Areas,
        memory: Arc<GuestMemory>,
    ) -> Result<Ring, RingFault> {
        let mut format = Format::new(features, size, base)?;
        format.resume(&areas.view(&memory)?)?;
        let mut ring = Ring {
            format,
            areas,
            memory,
            call: None,
            is_enabled: false,
            features,
            segments: Segments::default(),
            taken: Vec::new(),
        };
        ring.ask_for_kicks(false)?;
        Ok(ring)
    }

    /// Whether packets pass.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Lets packets pass or not.
    pub fn set_enabled(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
    }

    /// Sets where the guest is notified.
    pub fn set_call(&mut self, call: Option<Arc<Doorbell>>) {
        self.call = call;
        self.format.forget_signalled();
    }

    /// Replaces the memory, with the places of the ring in it.
    pub fn set_memory(&mut self, memory: Arc<GuestMemory>, areas: Areas) {
        (self.memory, self.areas) = (memory, areas);
    }

    /// The base for the front-end.
    pub fn base(&self) -> u32 {
        self.format.base()
    }

    /// The guest's features.
    pub fn features(&self) -> u64 {
        self.features
    }

    /// Tells the guest whether to notify of new entries.
    pub fn ask_for_kicks(&mut self, asks: bool) -> Result<(), RingFault> {
        let Ring { format, memory, areas, .. } = self;
        format.ask_for_kicks(&areas.view(memory)?, memory, areas, asks)
    }

    /// Receives what the guest sent. A frame that becomes several may fill the batch, and is then continued from
    /// `backlog`.
    pub fn receive(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        backlog: &mut Backlog,
        burst: &mut Burst,
    ) -> Result<Got, RingFault> {
        let Ring { format, areas, memory, segments, features, .. } = self;
        if memory.is_torn() {
            return Err(RingFault::Torn);
        }
        let view = areas.view(memory)?;
        let (mut got, mut bytes, mut has_used) = (Got::default(), 0, false);
        while !batch.is_full() && got.descriptors < BURST_DESCRIPTORS && bytes < BURST_BYTES {
            segments.clear();
            let Some(taken) = format.take(&view, memory, Access::Read, segments)? else { break };
            has_used = true;
            got.descriptors += usize::from(taken.descriptors);
            match copy_frame(*features, memory, segments, taken.bytes, pool) {
                Some((packet, received)) => {
                    bytes += packet.len();
                    burst.count(packet.data());
                    backlog.receive(packet, received, batch);
                    backlog.continue_with(pool, batch);
                }
                None => got.errors += 1,
            }
            format.put_used(&view, memory, areas, (&taken, 0))?;
        }
        if has_used {
            let is_wanted = format.publish(&view, memory, areas)?;
            self.notify(is_wanted, burst);
        }
        Ok(got)
    }

    /// Sends packets in order, until the guest has no room.
    pub fn send(&mut self, packets: &[Packet], burst: &mut Burst) -> Result<Sent, RingFault> {
        let memory = Arc::clone(&self.memory);
        if memory.is_torn() {
            return Err(RingFault::Torn);
        }
        let view = self.areas.view(&memory)?;
        let (mut sent, mut descriptors, mut has_used) = (Sent::default(), 0, false);
        for packet in packets {
            if descriptors >= BURST_DESCRIPTORS {
                break;
            }
            match self.put(&view, &memory, packet, &mut descriptors)? {
                Put::Done => {
                    has_used = true;
                    burst.count(packet.data());
                }
                Put::TooLong => sent.too_long += 1,
                Put::Full => break,
            }
            sent.count += 1;
        }
        if has_used {
            let is_wanted = self.format.publish(&view, &memory, &self.areas)?;
            self.notify(is_wanted, burst);
        }
        Ok(sent)
    }

    /// Copies one packet into the guest's next buffers.
    fn put(
        &mut self,
        view: &View<'_>,
        memory: &GuestMemory,
        packet: &Packet,
        descriptors: &mut usize,
    ) -> Result<Put, RingFault> {
        let Ring { format, areas, segments, taken, features, .. } = self;
        let header_bytes = header::length(*features);
        let total = (header_bytes + packet.len()) as u64;
        let most = if *features & feature::MRG_RXBUF != 0 { BUFFERS_MAX } else { 1 };
        let position = format.position();
        let (mut room, mut read) = (0, 0);
        segments.clear();
        taken.clear();
        while room < total {
            if taken.len() == most || segments.is_full() || read >= DESCRIPTORS_MAX {
                format.rewind(position);
                return Ok(Put::TooLong);
            }
            let Some(next) = format.take(view, memory, Access::Write, segments)? else {
                format.rewind(position);
                return Ok(Put::Full);
            };
            read += usize::from(next.descriptors);
            *descriptors += usize::from(next.descriptors);
            room += next.bytes;
            taken.push(next);
        }
        let header = header::encode(*features, packet, taken.len() as u16);
        let mut cursor = Cursor::new(memory, segments);
        // There is room for both.
        if !cursor.write(&header[..header_bytes]) || !cursor.write(packet.data()) {
            return Err(RingFault::Place);
        }
        let mut left = total;
        for taken in taken.iter() {
            let written = left.min(taken.bytes);
            left -= written;
            format.put_used(view, memory, areas, (taken, written as u32))?;
        }
        Ok(Put::Done)
    }

    #[inline]
    fn notify(&self, is_wanted: bool, burst: &mut Burst) {
        let Some(call) = &self.call else { return };
        burst.count_notification(is_wanted);
        if is_wanted {
            call.ring();
        }
    }
}

/// Copies a frame into a packet of its own, and only then reads it. Returns `None` for an invalid one.
#[inline]
fn copy_frame(
    features: u64,
    memory: &GuestMemory,
    segments: &Segments,
    total: u64,
    pool: &mut Pool,
) -> Option<(Packet, Received)> {
    let header_bytes = header::length(features);
    let bytes = total.checked_sub(header_bytes as u64)?;
    if !(FRAME_LEAST..=FRAME_BYTES as u64).contains(&bytes) {
        return None;
    }
    let mut cursor = Cursor::new(memory, segments);
    let mut header = [0; HEADER_MAX];
    let mut packet = pool.take_for(bytes as usize);
    let area = packet.receive_area().get_mut(..bytes as usize);
    let is_copied =
        cursor.read(&mut header[..header_bytes]) && area.is_some_and(|area| cursor.read(area));
    if is_copied {
        packet.set_received(bytes as usize, Offload::default());
        if !header::may_leave_work(features) {
            return Some((packet, Received::Whole));
        }
        if let Some(received) = header::decode(&header, &mut packet) {
            return Some((packet, received));
        }
    }
    pool.give(packet);
    None
}
