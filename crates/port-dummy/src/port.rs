//! The port: receive queues that commands fill, and transmit queues that record.

use crate::{DummyOptions, Wire};
use base::MacAddr;
use packet::{Batch, Packet, Pool};
use port::pcap_port::Clock;
use port::{PcapTx, PortError, RxQueue, TxCounters, TxQueue};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most frames in a queue (ovs: `lib/netdev-dummy.c`, `NETDEV_DUMMY_MAX_QUEUE`).
const WAITING_MAX: usize = 100;
const ETHERNET_HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
/// Addresses of all ports of a process count up from here, so that tests know them. Open vSwitch gives the
/// first one, 0, to an internal port of the datapath.
const FIRST_ADDRESS: u32 = 0xaa55_0001;
static NEXT_ADDRESS: AtomicU32 = AtomicU32::new(FIRST_ADDRESS);

/// An open port.
#[derive(Clone)]
pub struct DummyPort {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    options: DummyOptions,
    mac: Mutex<MacAddr>,
    mtu: AtomicU32,
    is_up: AtomicBool,
    queues: Vec<Queue>,
    received: Option<Record>,
    sent: Option<Record>,
    sinks: Mutex<Vec<Sink>>,
    /// Whether the port that it connects to is connected.
    is_connected: AtomicBool,
    counters: Counters,
    clock: Clock,
}

/// Takes a copy of every sent frame, and returns whether it wants more.
pub type Sink = Box<dyn Fn(&[u8]) -> bool + Send>;

type Record = Arc<Mutex<PcapTx<File>>>;

struct Queue {
    frames: Mutex<VecDeque<Vec<u8>>>,
    /// Readable while frames wait.
    waiting: OwnedFd,
}

#[derive(Default)]
struct Counters {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
}

/// Counters since the port was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DummyCounts {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

impl DummyPort {
    /// Opens the port. `clock` returns the time since the Unix epoch for recordings; existing recordings are
    /// continued.
    ///
    /// # Errors
    /// A recording cannot be opened.
    pub fn open(name: &str, options: DummyOptions, clock: Clock) -> Result<DummyPort, PortError> {
        let failed = |what, source| PortError::System { device: name.to_owned(), what, source };
        let queues = (0..options.rx_queues)
            .map(|_| {
                let waiting = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
                Ok(Queue { frames: Mutex::default(), waiting })
            })
            .collect::<std::io::Result<_>>()
            .map_err(|source| failed("make a queue", source))?;
        let record = |path: &Path| recording(path, clock).map(|pcap| Arc::new(Mutex::new(pcap)));
        let both = options.received.is_some() && options.received == options.sent;
        let sent = options.sent.as_deref().map(record).transpose();
        let sent = sent.map_err(|source| failed("record what is sent", source))?;
        let received = match both {
            true => sent.clone(),
            false => options
                .received
                .as_deref()
                .map(record)
                .transpose()
                .map_err(|source| failed("record what is received", source))?,
        };
        let number = NEXT_ADDRESS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let [a, b, c, d] = number;
        let shared = Shared {
            name: name.to_owned(),
            options,
            mac: Mutex::new(MacAddr([0xaa, 0x55, a, b, c, d])),
            mtu: AtomicU32::new(1500),
            is_up: AtomicBool::new(true),
            queues,
            received,
            sent,
            sinks: Mutex::default(),
            is_connected: AtomicBool::new(false),
            counters: Counters::default(),
            clock,
        };
        Ok(DummyPort { shared: Arc::new(shared) })
    }

    /// Starts recordings again whose files were removed, as Open vSwitch does at each configuration (ovs:
    /// `lib/netdev-dummy.c`, `netdev_dummy_set_config`).
    ///
    /// # Errors
    /// A recording cannot be opened.
    pub fn record_again(&self) -> Result<(), PortError> {
        let Shared { name, options, received, sent, clock, .. } = &*self.shared;
        for (path, record) in [(&options.received, received), (&options.sent, sent)] {
            if let (Some(path), Some(record)) = (path, record)
                && !path.exists()
            {
                let pcap = recording(path, *clock).map_err(|source| PortError::System {
                    device: name.clone(),
                    what: "record again",
                    source,
                })?;
                *lock(record) = pcap;
            }
        }
        Ok(())
    }

    /// Returns its receive queues.
    #[must_use]
    pub fn rx(&self) -> Vec<DummyRx> {
        let queue = |number| DummyRx { shared: Arc::clone(&self.shared), number };
        (0..self.shared.queues.len()).map(queue).collect()
    }

    /// Returns a transmit queue.
    #[must_use]
    pub fn tx(&self) -> DummyTx {
        DummyTx { shared: Arc::clone(&self.shared) }
    }

    /// Receives a frame. Returns false if the queue does not exist or is full.
    pub fn receive(&self, queue: u16, frame: Vec<u8>) -> bool {
        let Some(queue) = self.shared.queues.get(usize::from(queue)) else { return false };
        if let Some(record) = &self.shared.received {
            // A full disk loses the recording, not the frame.
            let _ = lock(record).record_now(&frame);
        }
        let mut frames = lock(&queue.frames);
        if frames.len() >= WAITING_MAX {
            return false;
        }
        frames.push_back(frame);
        // It cannot overflow: at most a hundred frames wait.
        let _ = rustix::io::write(&queue.waiting, &1_u64.to_ne_bytes());
        true
    }

    /// Passes a copy of every frame sent from now on to `sink`.
    pub fn attach(&self, sink: Sink) {
        lock(&self.shared.sinks).push(sink);
    }

    /// Sets whether the port that this one connects to is connected.
    pub fn set_connected(&self, is_connected: bool) {
        self.shared.is_connected.store(is_connected, Ordering::Relaxed);
    }

    /// Returns whether the port that this one connects to is connected; `None` for a port that listens.
    #[must_use]
    pub fn is_connected(&self) -> Option<bool> {
        match self.shared.options.wire {
            Wire::Connects(_) => Some(self.shared.is_connected.load(Ordering::Relaxed)),
            _ => None,
        }
    }

    /// Returns the number of receive queues.
    #[must_use]
    pub fn rx_queues(&self) -> u16 {
        self.shared.options.rx_queues
    }

    /// Returns its configuration.
    #[must_use]
    pub fn options(&self) -> &DummyOptions {
        &self.shared.options
    }

    /// Returns its Ethernet address.
    #[must_use]
    pub fn mac(&self) -> MacAddr {
        *lock(&self.shared.mac)
    }

    /// Sets its Ethernet address.
    pub fn set_mac(&self, mac: MacAddr) {
        *lock(&self.shared.mac) = mac;
    }

    /// Returns its MTU, without the Ethernet header.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.shared.mtu.load(Ordering::Relaxed)
    }

    /// Sets its MTU.
    pub fn set_mtu(&self, mtu: u32) {
        self.shared.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Returns whether it is administratively up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.shared.is_up.load(Ordering::Relaxed)
    }

    /// Sets it up or down.
    pub fn set_up(&self, is_up: bool) {
        self.shared.is_up.store(is_up, Ordering::Relaxed);
    }

    /// Returns its counters.
    #[must_use]
    pub fn counts(&self) -> DummyCounts {
        let counters = &self.shared.counters;
        DummyCounts {
            rx_packets: counters.rx_packets.load(Ordering::Relaxed),
            rx_bytes: counters.rx_bytes.load(Ordering::Relaxed),
            tx_packets: counters.tx_packets.load(Ordering::Relaxed),
            tx_bytes: counters.tx_bytes.load(Ordering::Relaxed),
        }
    }
}

/// A receive queue.
pub struct DummyRx {
    shared: Arc<Shared>,
    number: usize,
}

impl RxQueue for DummyRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let queue = &self.shared.queues[self.number];
        let mut frames = lock(&queue.frames);
        let room = batch.remaining_capacity().min(frames.len());
        let counters = &self.shared.counters;
        for frame in frames.drain(..room) {
            counters.rx_packets.fetch_add(1, Ordering::Relaxed);
            counters.rx_bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
            let mut packet = pool.take_for(frame.len());
            packet.receive_copy(&frame);
            batch.push(packet);
        }
        if frames.is_empty() {
            let mut count = [0; 8];
            // A failed read means that it was reset before.
            let _ = rustix::io::read(&queue.waiting, &mut count);
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        Some(self.shared.queues[self.number].waiting.as_raw_fd())
    }
}

/// A transmit queue.
pub struct DummyTx {
    shared: Arc<Shared>,
}

impl DummyTx {
    fn send_one(&self, packet: &Packet) -> Result<usize, ()> {
        let frame = packet.data();
        let header = frame.get(..ETHERNET_HEADER_BYTES).ok_or(())?;
        let tag = if header[12..] == [0x81, 0] { TAG_BYTES } else { 0 };
        let max = self.shared.mtu.load(Ordering::Relaxed) as usize + ETHERNET_HEADER_BYTES + tag;
        if frame.len() > max {
            return Err(());
        }
        if let Some(record) = &self.shared.sent {
            let _ = lock(record).record_now(frame);
        }
        lock(&self.shared.sinks).retain(|sink| sink(frame));
        Ok(frame.len())
    }
}

impl TxQueue for DummyTx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut sent = TxCounters::default();
        for packet in batch.drain(..) {
            match self.send_one(&packet) {
                Ok(bytes) => {
                    sent.packets += 1;
                    sent.bytes += bytes as u64;
                }
                Err(()) => sent.errors += 1,
            }
            pool.give(packet);
        }
        self.shared.counters.tx_packets.fetch_add(sent.packets, Ordering::Relaxed);
        self.shared.counters.tx_bytes.fetch_add(sent.bytes, Ordering::Relaxed);
        sent
    }
}

impl std::fmt::Debug for DummyPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DummyPort").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

/// Starts a recording, or continues one; only the beginning of the file has the header.
fn recording(path: &Path, clock: Clock) -> std::io::Result<PcapTx<File>> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let is_new = file.metadata()?.len() == 0;
    Ok(if is_new { PcapTx::new(file, clock)? } else { PcapTx::more(file, clock) })
}

/// Every critical section leaves consistent data, so a poisoned lock may be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::pcap::Capture;
    use std::time::Duration;

    fn open(folder: &std::path::Path) -> DummyPort {
        let options = DummyOptions {
            received: Some(folder.join("both.pcap")),
            sent: Some(folder.join("both.pcap")),
            rx_queues: 2,
            tx_queues: 1,
            numa: 0,
            ifindex: None,
            wire: Wire::None,
            unknown: Vec::new(),
        };
        DummyPort::open("p1", options, || Duration::from_secs(5)).unwrap()
    }

    #[test]
    fn frames_go_in_by_queue_and_both_ways_are_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let (mut pool, mut batch) = (Pool::new(4), Batch::new());
        let port = open(folder.path());
        assert!(port.receive(1, vec![1; 60]) && !port.receive(2, vec![2; 60]));
        let mut queues = port.rx();
        queues[0].receive(&mut pool, &mut batch).unwrap();
        assert!(batch.is_empty());
        queues[1].receive(&mut pool, &mut batch).unwrap();
        assert_eq!(batch.len(), 1);
        let sent = port.tx().send(&mut pool, &mut batch);
        assert_eq!((sent.packets, sent.bytes, port.counts().rx_bytes), (1, 60, 60));
        // Longer than the MTU allows.
        port.set_mtu(40);
        assert!(port.receive(0, vec![0; 60]));
        queues[0].receive(&mut pool, &mut batch).unwrap();
        assert_eq!(port.tx().send(&mut pool, &mut batch).errors, 1);
        // Opening it again continues the same file.
        open(folder.path()).receive(0, vec![3; 60]);
        let recorded = Capture::open(&folder.path().join("both.pcap")).unwrap();
        let first = |index| recorded.frame(index).map(|(_, bytes)| bytes[0]);
        assert_eq!([0, 1, 2, 3, 4].map(first), [Some(1), Some(1), Some(0), Some(3), None]);
    }

    #[test]
    fn recordings_that_were_removed_begin_anew() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("both.pcap");
        let port = open(folder.path());
        let frames = |first| {
            port.record_again().unwrap();
            assert!(port.receive(0, vec![first; 60]));
            let recorded = Capture::open(&file).unwrap();
            let first = |index| recorded.frame(index).map(|(_, bytes)| bytes[0]);
            [0, 1, 2].into_iter().map_while(first).collect::<Vec<u8>>()
        };
        assert_eq!(frames(1), [1]);
        assert_eq!(frames(2), [1, 2]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(frames(3), [3]);
    }

    #[test]
    fn what_is_sent_goes_to_sinks_for_as_long_as_they_want_it() {
        let folder = tempfile::tempdir().unwrap();
        let (mut pool, mut batch) = (Pool::new(4), Batch::new());
        let port = open(folder.path());
        let (sender, received) = std::sync::mpsc::channel();
        port.attach(Box::new(move |frame| sender.send(frame[0]).is_ok_and(|()| frame[0] != 2)));
        for first in [1, 2, 3] {
            assert!(port.receive(0, vec![first; 60]));
            port.rx()[0].receive(&mut pool, &mut batch).unwrap();
            assert_eq!(port.tx().send(&mut pool, &mut batch).packets, 1);
        }
        assert_eq!(received.iter().collect::<Vec<u8>>(), [1, 2]);
        assert_eq!(port.is_connected(), None);
    }

    #[test]
    fn a_full_queue_drops() {
        let folder = tempfile::tempdir().unwrap();
        let port = open(folder.path());
        let taken = (0..=WAITING_MAX).filter(|_| port.receive(0, vec![0; 60])).count();
        assert_eq!(taken, WAITING_MAX);
    }
}
