//! The queues of a port, as workers use them.

use crate::counters::{Burst, Losses};
use crate::fault::{Fault, RingFault};
use crate::header;
use crate::ring::BURST_DESCRIPTORS;
use crate::shared::{Shared, Slot};
use ::port::vnet::Backlog;
use ::port::{PortError, RxQueue, TxCounters, TxQueue, offload};
use packet::{Batch, Packet, Pool};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A receive queue: the rings of every pair whose number leaves this remainder.
#[derive(Debug)]
pub struct VhostRx {
    shared: Arc<Shared>,
    queue: usize,
    /// The number of queues of the port.
    queues: usize,
    /// The pair that is looked at first, so that each gets its turn.
    first: usize,
    backlog: Backlog,
}

/// A transmit queue. Queues may share a ring of the guest, which has a lock.
#[derive(Debug)]
pub struct VhostTx {
    shared: Arc<Shared>,
    queue: usize,
    retries: u16,
    /// Packets segmented or completed in software.
    pieces: Vec<Packet>,
}

impl VhostRx {
    pub(crate) fn new(shared: Arc<Shared>, queue: usize, queues: usize) -> VhostRx {
        VhostRx { shared, queue, queues, first: queue, backlog: Backlog::default() }
    }

    /// Returns the number of descriptors that were read.
    fn receive_from(
        &mut self,
        ring: usize,
        slot: &Slot,
        pool: &mut Pool,
        batch: &mut Batch,
    ) -> usize {
        // The lock is taken only while the ring starts or stops.
        let Some(mut guard) = slot.try_lock() else { return 0 };
        let Some(live) = guard.as_mut().filter(|ring| ring.is_enabled()) else { return 0 };
        let mut burst = Burst::default();
        let result = live.receive(pool, batch, &mut self.backlog, &mut burst);
        slot.counters.add(&burst);
        match result {
            Ok(got) => {
                Losses::add(&self.shared.losses.rx_errors, got.errors);
                got.descriptors
            }
            Err(fault) => {
                *guard = None;
                drop(guard);
                report(&self.shared, ring, fault);
                0
            }
        }
    }
}

impl RxQueue for VhostRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let (shared, before) = (Arc::clone(&self.shared), batch.len());
        let pairs = shared.pairs();
        self.backlog.continue_with(pool, batch);
        let mut pair = if self.first < pairs { self.first } else { self.queue };
        let last = pair;
        self.first = pair + self.queues;
        let mut descriptors = 0;
        while pair < pairs && !batch.is_full() && descriptors < BURST_DESCRIPTORS {
            let ring = 2 * pair + 1;
            if let Some(slot) = shared.rings.get(ring) {
                descriptors += self.receive_from(ring, slot, pool, batch);
            }
            pair = if pair + self.queues < pairs { pair + self.queues } else { self.queue };
            if pair == last {
                break;
            }
        }
        if self.queue == 0
            && !batch.is_full()
            && let Some(mac) = self.shared.take_announced()
        {
            batch.push(announcement(mac));
        }
        if !self.shared.admin_up.load(Ordering::Relaxed) {
            batch.drain(before..).for_each(|packet| pool.give(packet));
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}

impl VhostTx {
    pub(crate) fn new(shared: Arc<Shared>, queue: usize, retries: u16) -> VhostTx {
        VhostTx { shared, queue, retries, pieces: Vec::new() }
    }

    /// Whether the guest takes the packet as it is.
    #[inline]
    fn is_ready(&self, features: u64, packet: &Packet) -> bool {
        header::is_taken(features, &packet.offload)
            && !offload::exceeds(packet, self.shared.frame_max)
    }

    /// Completes in software what the guest does not take, and drops what is too long.
    fn prepare(
        &mut self,
        features: u64,
        pool: &mut Pool,
        batch: &mut Batch,
        counters: &mut TxCounters,
    ) -> Vec<Packet> {
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut refused = 0;
        for packet in batch.drain(..) {
            if header::is_taken(features, &packet.offload) {
                pieces.push(packet);
            } else if !offload::finish(packet, pool, |piece| pieces.push(piece)) {
                refused += 1;
            }
        }
        let most = self.shared.frame_max;
        let is_long = |piece: &Packet| offload::exceeds(piece, most);
        let mut long = 0;
        for piece in pieces.extract_if(.., |piece| is_long(piece)) {
            long += 1;
            pool.give(piece);
        }
        counters.errors += refused + long;
        Losses::add(&self.shared.losses.tx_errors, refused);
        Losses::add(&self.shared.losses.tx_mtu_exceeded, long);
        pieces
    }

    /// Sends packets through the ring. Those that remain are lost.
    fn send_through(
        &self,
        (ring, slot): (usize, &Slot),
        features: u64,
        packets: &[Packet],
        counters: &mut TxCounters,
    ) {
        let mut guard = slot.lock();
        // Another guest may have come meanwhile, with other features.
        let live = guard.as_mut().filter(|ring| ring.is_enabled() && ring.features() == features);
        let Some(live) = live else {
            counters.dropped += packets.len() as u64;
            return;
        };
        let (mut burst, mut rest, mut too_long, mut retries) = (Burst::default(), packets, 0, 0);
        let fault = loop {
            let sent = match live.send(rest, &mut burst) {
                Ok(sent) => sent,
                Err(fault) => break Some(fault),
            };
            too_long += sent.too_long;
            rest = rest.get(sent.count..).unwrap_or_default();
            // As in Open vSwitch, only a guest that takes something gets more time.
            let has_taken = sent.count as u64 > sent.too_long;
            if rest.is_empty() || !has_taken || retries == self.retries {
                break None;
            }
            retries += 1;
        };
        slot.counters.add(&burst);
        if let Some(fault) = fault {
            *guard = None;
            drop(guard);
            report(&self.shared, ring, fault);
        }
        counters.packets += burst.packets();
        counters.bytes += burst.bytes();
        counters.errors += too_long;
        let unsent = packets.len() as u64 - burst.packets() - too_long;
        counters.dropped += unsent;
        Losses::add(&self.shared.losses.tx_errors, too_long);
        Losses::add(&self.shared.losses.tx_retries, retries.into());
        Losses::add(&self.shared.losses.tx_dropped, unsent);
    }
}

impl TxQueue for VhostTx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        let shared = Arc::clone(&self.shared);
        let found = shared.ring_for(self.queue).filter(|_| shared.admin_up.load(Ordering::Relaxed));
        let Some(found) = found else {
            // Not a failure of the guest: it is not there.
            counters.dropped = batch.len() as u64;
            batch.drain(..).for_each(|packet| pool.give(packet));
            return counters;
        };
        let features = shared.features.load(Ordering::Relaxed);
        if batch.iter().all(|packet| self.is_ready(features, packet)) {
            self.send_through(found, features, batch, &mut counters);
        } else {
            let mut pieces = self.prepare(features, pool, batch, &mut counters);
            self.send_through(found, features, &pieces, &mut counters);
            pieces.drain(..).for_each(|piece| pool.give(piece));
            self.pieces = pieces;
        }
        batch.drain(..).for_each(|packet| pool.give(packet));
        counters
    }
}

/// Reports a fault of a ring.
#[cold]
fn report(shared: &Shared, ring: usize, fault: RingFault) {
    shared.report(Fault::of_ring(ring as u16, fault));
}

/// A reverse ARP request of a station that moved, from which the network learns where it is (RFC 903).
fn announcement(mac: [u8; 6]) -> Packet {
    let mut frame = [0; 60];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&mac);
    // Ethernet type, hardware and protocol types, their lengths, "request reverse".
    frame[12..22].copy_from_slice(&[0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]);
    frame[22..28].copy_from_slice(&mac);
    frame[32..38].copy_from_slice(&mac);
    Packet::from_bytes(&frame)
}
