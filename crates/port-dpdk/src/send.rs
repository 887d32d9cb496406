//! Sending a burst per call: packets in DPDK's buffers are sent as they are, others are copied.

use crate::buffers::LENDER;
use crate::device::Device;
use crate::ffi::{self, BURST, Frame};
use crate::headers::Headers;
use packet::{Batch, Checksum, GsoKind, Packet, Pool};
use port::{TxCounters, TxQueue, offload};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A transmit queue of a DPDK port. Several may share one queue of the device under its lock.
#[derive(Debug)]
pub struct DpdkTx {
    device: Arc<Device>,
    queue: u16,
    /// Descriptions of a burst's packets for the device; reused, so that it need not be cleared.
    frames: Box<[Frame; BURST]>,
    /// Packets segmented or completed in software.
    pieces: Vec<Packet>,
}

// SAFETY: the pointers in `frames` are of use only within one call of `send_burst`, which fills
// them in.
unsafe impl Send for DpdkTx {}

impl DpdkTx {
    pub(crate) fn new(device: Arc<Device>, queue: u16) -> Self {
        let nothing = Frame {
            data: std::ptr::null(),
            head: std::ptr::null_mut(),
            len: 0,
            l2_bytes: 0,
            l3_bytes: 0,
            l4_bytes: 0,
            segment_bytes: 0,
            flags: 0,
        };
        DpdkTx { device, queue, frames: Box::new([nothing; BURST]), pieces: Vec::new() }
    }

    /// Sends up to a burst of packets as they are. DPDK takes back its own buffers; other packets are copied,
    /// and their buffers return to the pool.
    fn send_burst(
        &mut self,
        pool: &mut Pool,
        packets: impl Iterator<Item = Packet>,
        counters: &mut TxCounters,
    ) {
        let DpdkTx { device, queue, frames, .. } = self;
        let Some(lock) = device.tx_locks.get(usize::from(*queue)) else { return };
        let (mut count, mut copied) = (0, Batch::new());
        for (frame, packet) in frames.iter_mut().zip(packets) {
            count += 1;
            (frame.len, frame.flags) = (packet.len() as u32, 0);
            if packet.offload.gso.is_some() || packet.offload.checksum == Checksum::Partial {
                describe(&packet, frame);
            }
            match packet.into_head(&LENDER) {
                Ok(head) => frame.head = head.as_ptr().cast(),
                Err(packet) => {
                    (frame.head, frame.data) = (std::ptr::null_mut(), packet.data().as_ptr());
                    copied.push(packet);
                }
            }
        }
        let mut refused = 0;
        let turn = lock.take();
        // SAFETY: each frame is a buffer that was lent and is given back here, or points into a
        // packet in `copied`, whose bytes stay where they are when it moves and are copied before
        // the call returns; the lock gives this thread the queue; the device is open for as long
        // as this holds it, and its pool for ever.
        let sent = unsafe {
            ffi::tidegate_dpdk_send(
                device.port,
                *queue,
                device.buffers.as_ptr(),
                frames.as_ptr(),
                count,
                &raw mut refused,
            )
        };
        drop(turn);
        copied.drain(..).for_each(|packet| pool.give(packet));
        counters.packets += u64::from(sent);
        counters.bytes += frames.iter().take(sent.into()).map(|f| u64::from(f.len)).sum::<u64>();
        if sent < count {
            device.count_unsent(u64::from(count - sent), refused.into(), counters);
        }
    }

    /// Sends a batch whose packets are all in DPDK's buffers and need no work. Otherwise does nothing and
    /// returns `false`.
    fn send_kept(&mut self, batch: &mut Batch, counters: &mut TxCounters) -> bool {
        let (queue, device) = (self.queue, &self.device);
        let Some(lock) = device.tx_locks.get(usize::from(queue)) else { return false };
        let mut bytes = 0;
        for packet in batch.iter() {
            let is_plain =
                packet.offload.gso.is_none() && packet.offload.checksum != Checksum::Partial;
            if !packet.is_lent_by(&LENDER) || !is_plain || packet.len() > device.frame_max {
                return false;
            }
            bytes += packet.len() as u64;
        }
        let (count, mut unsent) = (batch.len() as u16, 0);
        let turn = lock.take();
        // SAFETY: a packet is a pointer to its head, and these are heads of buffers that were lent
        // and are given back here, for which the batch forgets them; the lock gives this thread the
        // queue; the device is open for as long as this holds it.
        let sent = unsafe {
            batch.set_len(0);
            ffi::tidegate_dpdk_send_kept(
                device.port,
                queue,
                batch.as_ptr().cast(),
                count,
                &raw mut unsent,
            )
        };
        drop(turn);
        counters.packets += u64::from(sent);
        counters.bytes += bytes - unsent;
        if sent < count {
            device.count_unsent(u64::from(count - sent), 0, counters);
        }
        true
    }

    /// Whether the device can send the packet as it is.
    #[inline]
    fn is_ready(&self, packet: &Packet) -> bool {
        let is_plain = packet.offload.checksum != Checksum::Partial;
        match packet.offload.gso {
            None if is_plain => packet.len() <= self.device.frame_max,
            None => {
                self.device.sends_checksums
                    && packet.len() <= self.device.frame_max
                    && Headers::of(packet.data()).is_some()
            }
            Some(gso) => {
                self.device.cuts_tcp
                    && gso.kind != GsoKind::UdpL4
                    && !is_plain
                    && Headers::of(packet.data()).is_some()
            }
        }
    }

    /// Sends packets that partly need work: what the device cannot do is done in software first.
    fn send_unready(&mut self, pool: &mut Pool, batch: &mut Batch, counters: &mut TxCounters) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let (most, mut refused) = (self.device.frame_max, 0);
        for packet in batch.drain(..) {
            if self.is_ready(&packet) {
                pieces.push(packet);
            } else if !offload::finish(packet, pool, |piece| pieces.push(piece)) {
                refused += 1;
            }
        }
        let is_short = |piece: &Packet| piece.offload.gso.is_some() || piece.len() <= most;
        for long in pieces.extract_if(.., |piece| !is_short(piece)) {
            refused += 1;
            pool.give(long);
        }
        while !pieces.is_empty() {
            let count = pieces.len().min(BURST);
            self.send_burst(pool, pieces.drain(..count), counters);
        }
        counters.errors += refused;
        self.device.tx_refused.fetch_add(refused, Ordering::Relaxed);
        self.pieces = pieces;
    }
}

impl TxQueue for DpdkTx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        if !self.device.admin_up.load(Ordering::Relaxed) {
            counters.dropped = batch.len() as u64;
        } else if self.send_kept(batch, &mut counters) {
            return counters;
        } else if batch.iter().all(|packet| self.is_ready(packet)) {
            self.send_burst(pool, batch.drain(..), &mut counters);
        } else {
            self.send_unready(pool, batch, &mut counters);
        }
        batch.drain(..).for_each(|packet| pool.give(packet));
        counters
    }
}

/// Describes the device's work on a packet.
fn describe(packet: &Packet, frame: &mut Frame) {
    // Packets without headers never get here.
    let Some(headers) = Headers::of(packet.data()) else { return };
    frame.l2_bytes = headers.l2_bytes;
    frame.l3_bytes = headers.l3_bytes;
    frame.l4_bytes = headers.l4_bytes;
    frame.flags = if headers.is_tcp { ffi::SEND_TCP } else { ffi::SEND_UDP };
    if headers.is_ipv6 {
        frame.flags |= ffi::SEND_IPV6;
    }
    frame.segment_bytes = 0;
    if let Some(gso) = packet.offload.gso {
        frame.segment_bytes = gso.segment_bytes;
        frame.flags |= ffi::SEND_CUT;
    }
}
