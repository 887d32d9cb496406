//! Simulated devices under test, in a time that advances with each reading: the correct result of a
//! measurement is known beforehand.

use base::Instant;
use load::dut::Device;
use load::error::LoadError;
use load::link::Link;
use load::trial::Clock;
use packet::{Batch, Packet, Pool};
use port::{PortError, RxQueue, TxCounters, TxQueue};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The behaviour of a device.
#[derive(Clone, Debug)]
pub struct Script {
    /// One of this many frames is lost.
    pub drop_one_of: Option<u64>,
    /// Frames that it carries per second, both directions together; more are lost.
    pub most_per_second: Option<f64>,
    /// The latency of every frame.
    pub delay: Duration,
    /// The size of its table; `None` if it has none, and forwards everything.
    pub table: Option<usize>,
    /// Entries that it makes per second; the first frames of more are lost.
    pub entries_per_second: Option<f64>,
    /// It forwards first frames, and fails to make the entry of one of this many.
    pub forgets_one_of: Option<u64>,
    /// It reports the number of entries.
    pub shows_table: bool,
    /// How often each frame arrives.
    pub copies: usize,
    /// It returns frames to their sender.
    pub reflects: bool,
    /// It corrupts the checksum of every frame.
    pub spoils: bool,
    /// Its port disappears after this many frames.
    pub gone_after: Option<u64>,
}

impl Default for Script {
    fn default() -> Self {
        Script {
            drop_one_of: None,
            most_per_second: None,
            delay: Duration::ZERO,
            table: None,
            entries_per_second: None,
            forgets_one_of: None,
            shows_table: true,
            copies: 1,
            reflects: false,
            spoils: false,
            gone_after: None,
        }
    }
}

/// A clock that advances by this much with each reading.
#[derive(Clone)]
pub struct Steps {
    ns: Arc<AtomicU64>,
    step: Cell<u64>,
}

impl Steps {
    /// Time from 1 ns on.
    pub fn new(step: Duration) -> Steps {
        Steps { ns: Arc::new(AtomicU64::new(1)), step: Cell::new(step.as_nanos() as u64) }
    }
}

impl Clock for Steps {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.ns.fetch_add(self.step.get(), Ordering::Relaxed))
    }
}

/// A rate limit per second, with a burst of a hundredth of a second.
struct Bucket {
    per_second: f64,
    tokens: f64,
    at: u64,
}

impl Bucket {
    fn new(per_second: f64) -> Bucket {
        Bucket { per_second, tokens: per_second / 100.0, at: 0 }
    }

    fn take(&mut self, now: u64) -> bool {
        let more = now.saturating_sub(self.at) as f64 / 1e9 * self.per_second;
        self.at = now;
        self.tokens = (self.tokens + more).min(self.per_second / 100.0);
        let full = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(full));
        full
    }
}

struct Inner {
    script: Script,
    clock: Arc<AtomicU64>,
    seen: u64,
    entries_seen: u64,
    table: HashSet<Vec<u8>>,
    refused: u64,
    frames: Option<Bucket>,
    entries: Option<Bucket>,
    /// The frames in flight to the client and to the server, with their arrival times.
    waiting: [VecDeque<(u64, Packet)>; 2],
}

/// The device, and both of its ports.
#[derive(Clone)]
pub struct Scripted(Arc<Mutex<Inner>>);

impl Scripted {
    /// A device that follows this script.
    pub fn new(script: Script, clock: &Steps) -> Scripted {
        Scripted(Arc::new(Mutex::new(Inner {
            frames: script.most_per_second.map(Bucket::new),
            entries: script.entries_per_second.map(Bucket::new),
            script,
            clock: Arc::clone(&clock.ns),
            seen: 0,
            entries_seen: 0,
            table: HashSet::new(),
            refused: 0,
            waiting: [VecDeque::new(), VecDeque::new()],
        })))
    }

    /// Its ports, the client's first.
    pub fn links(&self) -> (Link, Link) {
        let link = |side| Link {
            rx: Box::new(Port { device: self.clone(), side }),
            tx: Box::new(Port { device: self.clone(), side }),
        };
        (link(0), link(1))
    }
}

struct Port {
    device: Scripted,
    side: usize,
}

impl RxQueue for Port {
    fn receive(&mut self, _pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let mut inner = self.device.0.lock().unwrap();
        if inner.script.gone_after.is_some_and(|most| inner.seen >= most) {
            return Err(PortError::Gone { device: "scripted0".to_owned() });
        }
        let now = inner.clock.load(Ordering::Relaxed);
        let waiting = &mut inner.waiting[self.side];
        while batch.remaining_capacity() > 0 && waiting.front().is_some_and(|(at, _)| *at <= now) {
            batch.extend(waiting.pop_front().map(|(_, packet)| packet));
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}

impl TxQueue for Port {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut inner = self.device.0.lock().unwrap();
        let mut counters = TxCounters::default();
        for mut packet in batch.drain(..) {
            counters.packets += 1;
            if inner.forwards(self.side, packet.data()) {
                if inner.script.spoils {
                    packet.data_mut()[36] ^= 0x55;
                }
                let at = inner.clock.load(Ordering::Relaxed);
                let at = at + inner.script.delay.as_nanos() as u64;
                let to = if inner.script.reflects { self.side } else { 1 - self.side };
                for _ in 0..inner.script.copies {
                    inner.waiting[to].push_back((at, packet.compact_copy()));
                }
            }
            pool.give(packet);
        }
        counters
    }
}

impl Inner {
    /// Returns whether a frame from this side is forwarded.
    fn forwards(&mut self, side: usize, frame: &[u8]) -> bool {
        let now = self.clock.load(Ordering::Relaxed);
        self.seen += 1;
        if self.script.drop_one_of.is_some_and(|n| self.seen.is_multiple_of(n)) {
            return false;
        }
        if self.frames.as_mut().is_some_and(|bucket| !bucket.take(now)) {
            return false;
        }
        let Some(room) = self.script.table else { return true };
        // Protocol, addresses and ports, as the client names them.
        let field = |range: std::ops::Range<usize>| frame.get(range).unwrap_or_default();
        let is_v6 = frame.get(12..14) == Some(&[0x86, 0xdd]);
        let (protocol, source, destination) = match is_v6 {
            false => (23..24, [26..30, 34..36], [30..34, 36..38]),
            true => (20..21, [22..38, 54..56], [38..54, 56..58]),
        };
        let (first, second) = if side == 0 { (source, destination) } else { (destination, source) };
        let key = first.into_iter().chain(second).flat_map(|range| field(range).to_vec());
        let key: Vec<u8> = key.chain(field(protocol).iter().copied()).collect();
        if self.table.contains(&key) {
            return true;
        }
        if side == 1 {
            return false;
        }
        if self.table.len() >= room {
            self.refused += 1;
            return false;
        }
        if self.entries.as_mut().is_some_and(|bucket| !bucket.take(now)) {
            return false;
        }
        self.entries_seen += 1;
        if !self.script.forgets_one_of.is_some_and(|n| self.entries_seen.is_multiple_of(n)) {
            self.table.insert(key);
        }
        true
    }
}

impl Device for Scripted {
    fn describe(&self) -> Value {
        json!({ "kind": "scripted" })
    }

    fn table(&mut self) -> Result<Option<u64>, LoadError> {
        let inner = self.0.lock().unwrap();
        Ok(inner.script.shows_table.then_some(inner.table.len() as u64))
    }

    fn refused(&mut self) -> u64 {
        self.0.lock().unwrap().refused
    }

    fn flush(&mut self) -> Result<(), LoadError> {
        let mut inner = self.0.lock().unwrap();
        // A thousand entries take it a millisecond.
        let ns = inner.table.len() as u64 * 1000;
        inner.clock.fetch_add(ns, Ordering::Relaxed);
        inner.table.clear();
        Ok(())
    }
}
