//! What the thread of a port's socket and the workers share.

use crate::counters::{Losses, RingCounters};
use crate::fault::Fault;
use crate::ring::Ring;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of pairs of rings of a guest (DPDK: `VHOST_MAX_QUEUE_PAIRS`).
pub const PAIRS_MAX: usize = 128;
/// In [`Shared::rarp`]: there is an address.
const HAS_ADDRESS: u64 = 1 << 63;

/// A ring, while it is in use. A worker holds the lock for each of its bursts, so no two locks share a cache line,
/// nor a pair of lines that a processor fetches together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Slot {
    ring: Mutex<Option<Box<Ring>>>,
    /// Its counters, which outlive the guest.
    pub counters: RingCounters,
}

/// What is known of the guest, for `Interface.status`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Whether its front-end is connected.
    pub is_connected: bool,
    /// The negotiated features.
    pub features: u64,
    /// Its MTU, if its front-end told one.
    pub mtu: Option<u16>,
    /// The NUMA node of its memory, if it is known.
    pub numa: Option<u16>,
    /// The sizes of its rings.
    pub ring_sizes: Vec<u16>,
    /// What it or the last guest did wrong, until a guest does better.
    pub fault: Option<Fault>,
    /// Why no front-end can be at the socket's path.
    pub problem: Option<String>,
}

/// State of a port.
#[derive(Debug)]
pub struct Shared {
    /// Rings by number: the guest receives from even ones and sends to odd ones.
    pub rings: Box<[Slot]>,
    /// Pairs up to the last that has a ring in use.
    pairs: AtomicUsize,
    /// The pairs from which the guest receives.
    open: [AtomicU16; PAIRS_MAX],
    open_count: AtomicUsize,
    /// The guest's features.
    pub features: AtomicU64,
    /// Whether packets can pass.
    pub link_up: AtomicBool,
    /// Whether they may.
    pub admin_up: AtomicBool,
    /// Longest frame to the guest, in bytes.
    pub frame_max: usize,
    /// Lost packets.
    pub losses: Losses,
    /// An address that the network is to learn.
    rarp: AtomicU64,
    /// Whether the status changed and its reader has not looked yet.
    pub has_news: AtomicBool,
    /// Status of the guest.
    status: Mutex<Status>,
    /// A fault that a worker found.
    found: Mutex<Option<Fault>>,
    /// Wakes the thread of the socket.
    wake: OwnedFd,
}

impl Slot {
    /// The ring. It is consistent after every statement, so a poisoned lock may be used.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Option<Box<Ring>>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ring, unless another thread has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Option<Box<Ring>>>> {
        match self.ring.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

impl Shared {
    /// The state of a port without a guest.
    ///
    /// # Errors
    /// There is no further descriptor.
    pub fn new(frame_max: usize) -> io::Result<Shared> {
        Ok(Shared {
            rings: (0..2 * PAIRS_MAX).map(|_| Slot::default()).collect(),
            pairs: AtomicUsize::new(0),
            open: [const { AtomicU16::new(0) }; PAIRS_MAX],
            open_count: AtomicUsize::new(0),
            features: AtomicU64::new(0),
            link_up: AtomicBool::new(false),
            admin_up: AtomicBool::new(true),
            frame_max,
            losses: Losses::default(),
            rarp: AtomicU64::new(0),
            has_news: AtomicBool::new(false),
            status: Mutex::new(Status::default()),
            found: Mutex::new(None),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Number of pairs that a worker looks at.
    #[inline]
    pub fn pairs(&self) -> usize {
        self.pairs.load(Ordering::Acquire)
    }

    /// The ring through which a worker's queue sends, with its number; `None` without one. Queues beyond those
    /// of the guest share them.
    #[inline]
    pub fn ring_for(&self, queue: usize) -> Option<(usize, &Slot)> {
        let count = self.open_count.load(Ordering::Acquire);
        let place = queue.checked_rem(count)?;
        let ring = 2 * usize::from(self.open.get(place)?.load(Ordering::Relaxed));
        Some((ring, self.rings.get(ring)?))
    }

    /// Publishes which rings are in use. Returns whether the link changed.
    pub fn look_at_rings(&self) -> bool {
        let is_open = |slot: &Slot| slot.lock().as_ref().is_some_and(|ring| ring.is_enabled());
        let (mut pairs, mut open, mut is_up) = (0, 0, false);
        for (number, pair) in self.rings.chunks(2).enumerate() {
            let [receives, sends] = pair else { continue };
            let (receives, sends) = (is_open(receives), is_open(sends));
            if receives && let Some(place) = self.open.get(open) {
                place.store(number as u16, Ordering::Relaxed);
                open += 1;
            }
            if receives || sends {
                pairs = number + 1;
            }
            is_up |= receives && sends;
        }
        self.pairs.store(pairs, Ordering::Release);
        self.open_count.store(open, Ordering::Release);
        self.link_up.swap(is_up, Ordering::AcqRel) != is_up
    }

    /// The status, for reading and changing.
    pub fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a fault of a ring. The ring must be out of use already.
    #[cold]
    pub fn report(&self, fault: Fault) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get_or_insert(fault);
        drop(found);
        self.wake();
    }

    /// Takes the fault that a worker found.
    pub fn take_fault(&self) -> Option<Fault> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Wakes the thread of the socket.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// The descriptor by which it is woken.
    pub fn wake_fd(&self) -> &OwnedFd {
        &self.wake
    }

    /// Lets the network learn an address.
    pub fn announce(&self, mac: [u8; 6]) {
        let [a, b, c, d, e, f] = mac;
        let bits = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        self.rarp.store(bits | HAS_ADDRESS, Ordering::Relaxed);
    }

    /// Takes the address that the network is to learn.
    #[inline]
    pub fn take_announced(&self) -> Option<[u8; 6]> {
        if self.rarp.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let bits = self.rarp.swap(0, Ordering::Relaxed);
        let [mac @ .., _, _] = bits.to_le_bytes();
        (bits != 0).then_some(mac)
    }
}
