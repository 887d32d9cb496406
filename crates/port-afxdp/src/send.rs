//! The sending half of a queue, which several workers may share.

use crate::socket::{Socket, TxRings, tx_frames};
use packet::{Batch, Checksum, Packet, Pool};
use port::{TxCounters, TxQueue, offload};
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{SendFlags, send};
use std::sync::{Arc, Mutex, PoisonError};

/// Most system calls in a row while the kernel makes progress: it sends 32 frames per call.
const CALLS_MAX: usize = 64;

/// Minimum frame length.
const ETHERNET_HEADER_BYTES: usize = 14;

/// Rings and free frames of a queue.
#[derive(Debug)]
pub(crate) struct TxHalf {
    socket: Arc<Socket>,
    rings: TxRings,
    free: Vec<u64>,
    /// Whether the kernel reports that it needs to be called.
    need_wakeup: bool,
    /// Whether the kernel took no frame although it was called for this batch: further calls for each packet
    /// would not help.
    is_stuck: bool,
}

impl TxHalf {
    pub(crate) fn new(socket: Arc<Socket>, rings: TxRings, need_wakeup: bool) -> Self {
        TxHalf { free: tx_frames(&socket.umem), socket, rings, need_wakeup, is_stuck: false }
    }

    /// Adds one frame without offload to the ring.
    fn put(&mut self, frame: &[u8], counters: &mut TxCounters) {
        let most = self.socket.umem.chunk_bytes() as usize;
        // The kernel would keep the buffer of a frame that it considers too short.
        if frame.len() < ETHERNET_HEADER_BYTES || frame.len() > most {
            counters.errors += 1;
            return;
        }
        if self.free.is_empty() && !self.is_stuck {
            self.flush();
            self.is_stuck = self.free.is_empty();
        }
        let Some(address) = self.free.pop() else {
            counters.dropped += 1;
            return;
        };
        // SAFETY: free frames were never sent or have been returned, and this one was just taken from them.
        let fits = unsafe { self.socket.umem.write(address, frame) };
        let options = XdpDescOptions::empty();
        let descriptor = XdpDesc { addr: address, len: frame.len() as u32, options };
        // The ring has an entry for every frame.
        if fits && self.rings.send.push(descriptor) {
            counters.packets += 1;
            counters.bytes += frame.len() as u64;
        } else {
            self.free.push(address);
            counters.errors += 1;
        }
    }

    /// Makes the kernel send, and collects the frames that it has sent.
    fn flush(&mut self) {
        self.rings.send.submit();
        for _ in 0..CALLS_MAX {
            let is_called_for = !self.need_wakeup || self.rings.send.needs_wakeup();
            let before = self.rings.send.waiting();
            if before == 0 || !is_called_for {
                break;
            }
            let result = send(&self.socket.fd, &[], SendFlags::DONTWAIT);
            let has_moved = self.rings.send.waiting() < before;
            // Another call helps if the kernel sent only its share, or if the device's queue was full a
            // moment ago, but not if the device is down or removed.
            match result {
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) | Ok(_) if has_moved => {}
                _ => break,
            }
        }
        while let Some(address) = self.rings.completed.pop() {
            self.free.push(address);
        }
        self.rings.completed.release();
    }
}

/// A transmit queue of an [`crate::XdpPort`].
#[derive(Debug)]
pub struct XdpTx {
    half: Arc<Mutex<TxHalf>>,
    /// Frames made from the current packet; kept to reuse the memory.
    finished: Vec<Packet>,
}

impl XdpTx {
    pub(crate) fn new(half: Arc<Mutex<TxHalf>>) -> Self {
        XdpTx { half, finished: Vec::new() }
    }
}

impl TxQueue for XdpTx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        // A panic here leaves at worst frames that are not sent.
        let mut half = self.half.lock().unwrap_or_else(PoisonError::into_inner);
        half.is_stuck = false;
        for packet in batch.drain(..) {
            if needs_nothing(&packet) {
                half.put(packet.data(), &mut counters);
                pool.give(packet);
                continue;
            }
            // AF_XDP frames carry no checksum or segmentation metadata, so both are completed here.
            let cut = offload::finish(packet, pool, |frame| self.finished.push(frame));
            counters.errors += u64::from(!cut);
            for frame in self.finished.drain(..) {
                half.put(frame.data(), &mut counters);
                pool.give(frame);
            }
        }
        half.flush();
        counters
    }
}

fn needs_nothing(packet: &Packet) -> bool {
    let offload = &packet.offload;
    offload.gso.is_none() && offload.checksum != Checksum::Partial
}
