//! A port without a device that plays one pcap file and records another.
//!
//! It allows measuring the datapath, or examining its treatment of a capture, without a driver, device or
//! privilege. The played file is kept in memory.

use crate::offload;
use crate::pcap::{Capture, PcapRx, PcapTx, Play};
use crate::queue::{PortError, RxQueue, TxCounters, TxQueue};
use packet::{Batch, Pool};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time since a fixed moment, for pacing and for the times of recorded frames.
pub type Clock = fn() -> Duration;

/// A port's configuration from its interface's `options`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PcapOptions {
    /// The file to play (`rx_pcap`).
    pub played: Option<PathBuf>,
    /// How often (`infinite_rx`, `rx_rounds`).
    pub play: Play,
    /// At which speed (`rx_pace`).
    pub pace: Pace,
    /// The file to record into (`tx_pcap`); without one, packets are only counted.
    pub recorded: Option<PathBuf>,
}

/// The speed of playing a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pace {
    /// As fast as frames are received.
    #[default]
    Full,
    /// At the frames' capture times; rounds follow each other immediately.
    Recorded,
    /// Whenever fewer frames than this are under way: were played and did not leave the switch through this
    /// port again. A sender that waits for its answers does so; rules send the frames back.
    Window(u32),
}

/// Time after which frames that have not come back count as lost, if none did meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// The counters of a port.
#[derive(Debug, Default)]
pub struct PcapCounters {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    tx_errors: AtomicU64,
}

/// The values of [`PcapCounters`] at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PcapCounts {
    /// Packets played.
    pub rx_packets: u64,
    /// Bytes played.
    pub rx_bytes: u64,
    /// Packets recorded, or dropped if there is no file.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets that could not be written or segmented.
    pub tx_errors: u64,
}

/// An open port.
#[derive(Clone)]
pub struct PcapPort {
    capture: Capture,
    options: PcapOptions,
    record: Option<Arc<Mutex<PcapTx<File>>>>,
    counters: Arc<PcapCounters>,
    clock: Clock,
}

impl PcapOptions {
    /// The names of the options.
    pub const NAMES: [&str; 5] = ["rx_pcap", "infinite_rx", "rx_rounds", "rx_pace", "tx_pcap"];

    /// Parses an interface's `options`.
    ///
    /// # Errors
    /// The invalid option, with its valid values.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Self, String> {
        if let Some(name) = options.keys().find(|name| !Self::NAMES.contains(&name.as_str())) {
            return Err(format!("options:{name} is unknown; there are {}", Self::NAMES.join(", ")));
        }
        let file = |name| options.get(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let endless = match options.get("infinite_rx").map(String::as_str) {
            None | Some("false" | "0") => false,
            Some("true" | "1") => true,
            Some(text) => return Err(wrong("infinite_rx", text, "true or false")),
        };
        let rounds = match options.get("rx_rounds") {
            None => None,
            Some(text) => {
                Some(text.parse().map_err(|_| wrong("rx_rounds", text, "a number of rounds"))?)
            }
        };
        let play = match (endless, rounds) {
            (true, Some(_)) => {
                return Err("options:infinite_rx and options:rx_rounds exclude each other; \
                            remove one"
                    .to_owned());
            }
            (true, None) => Play::Loop,
            (false, Some(rounds)) => Play::Rounds(rounds),
            (false, None) => Play::Once,
        };
        let pace = match options.get("rx_pace").map(String::as_str) {
            None | Some("full") => Pace::Full,
            Some("recorded") => Pace::Recorded,
            Some(text) => {
                let window = text.strip_prefix("window:").and_then(|frames| frames.parse().ok());
                let expected = "full, recorded or window:FRAMES";
                let frames = window.filter(|frames| *frames > 0);
                Pace::Window(frames.ok_or_else(|| wrong("rx_pace", text, expected))?)
            }
        };
        Ok(PcapOptions { played: file("rx_pcap"), play, pace, recorded: file("tx_pcap") })
    }
}

fn wrong(name: &str, text: &str, expected: &str) -> String {
    format!("options:{name} is \"{text}\"; it has to be {expected}")
}

impl PcapPort {
    /// Reads the file to play, and creates or truncates the one to record. `clock` returns the time since the
    /// Unix epoch.
    pub fn open(options: PcapOptions, clock: Clock) -> Result<PcapPort, PortError> {
        let capture = match &options.played {
            Some(path) => Capture::open(path)?,
            None => Capture::default(),
        };
        let record = match &options.recorded {
            Some(path) => Some(Arc::new(Mutex::new(PcapTx::create(path, clock)?))),
            None => None,
        };
        Ok(PcapPort { capture, options, record, counters: Arc::default(), clock })
    }

    /// Returns a receive queue at the start of the file. Each one plays the whole file.
    pub fn rx(&self) -> PcapPortRx {
        PcapPortRx {
            player: PcapRx::new(self.capture.clone(), self.options.play),
            pace: self.options.pace,
            round: None,
            answered: (0, Duration::ZERO),
            lost: 0,
            quiet: Duration::ZERO,
            counters: Arc::clone(&self.counters),
            clock: self.clock,
        }
    }

    /// Returns a transmit queue; all of them record into the same file.
    pub fn tx(&self) -> PcapPortTx {
        PcapPortTx { record: self.record.clone(), counters: Arc::clone(&self.counters) }
    }

    /// Returns the counters.
    pub fn counts(&self) -> PcapCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let PcapCounters { rx_packets, rx_bytes, tx_packets, tx_bytes, tx_errors } =
            &*self.counters;
        PcapCounts {
            rx_packets: read(rx_packets),
            rx_bytes: read(rx_bytes),
            tx_packets: read(tx_packets),
            tx_bytes: read(tx_bytes),
            tx_errors: read(tx_errors),
        }
    }
}

/// The receive queue of a [`PcapPort`].
pub struct PcapPortRx {
    player: PcapRx,
    pace: Pace,
    /// The current round and the time at which it began.
    round: Option<(u64, Duration)>,
    /// The number of frames sent when one last was, and that time.
    answered: (u64, Duration),
    /// Frames given up as lost.
    lost: u64,
    /// Time until the next frame.
    quiet: Duration,
    counters: Arc<PcapCounters>,
    clock: Clock,
}

impl PcapPortRx {
    /// Receives the frames that are due.
    fn receive_due(&mut self, pool: &mut Pool, batch: &mut Batch) {
        let now = (self.clock)();
        self.quiet = Duration::MAX;
        while let Some((round, at)) = self.player.next_frame() {
            let start = match self.round {
                Some((known, start)) if known == round => start,
                // A further round begins at the end of the previous one.
                _ => {
                    self.round = Some((round, now));
                    now
                }
            };
            let due = start + at;
            if due > now || batch.is_full() {
                self.quiet = due.saturating_sub(now);
                return;
            }
            self.player.receive_one(pool, batch);
        }
    }

    /// Receives frames until this many are in flight.
    fn receive_within(&mut self, window: u32, pool: &mut Pool, batch: &mut Batch) {
        let now = (self.clock)();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (played, sent) = (read(&self.counters.rx_packets), read(&self.counters.tx_packets));
        // Frames that come back after they were given up are no longer lost.
        self.lost = self.lost.min(played.saturating_sub(sent));
        let under_way = played.saturating_sub(sent + self.lost);
        if sent > self.answered.0 || under_way == 0 {
            self.answered = (sent, now);
        } else if now.saturating_sub(self.answered.1) >= ANSWER_TIMEOUT {
            self.lost += under_way;
            self.answered.1 = now;
        }
        let room = u64::from(window).saturating_sub(played.saturating_sub(sent + self.lost));
        for _ in 0..room {
            if batch.is_full() || self.player.next_frame().is_none() {
                break;
            }
            self.player.receive_one(pool, batch);
        }
        // A frame that comes back wakes no worker, so one that sleeps has to look.
        self.quiet = match self.player.next_frame() {
            Some(_) => Duration::from_micros(50),
            None => Duration::MAX,
        };
    }
}

impl RxQueue for PcapPortRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let before = batch.len();
        match self.pace {
            Pace::Full => {
                self.player.receive(pool, batch)?;
                self.quiet = self.player.quiet_for();
            }
            Pace::Recorded => self.receive_due(pool, batch),
            Pace::Window(frames) => self.receive_within(frames, pool, batch),
        }
        let bytes: usize = batch.iter().skip(before).map(packet::Packet::len).sum();
        self.counters.rx_packets.fetch_add((batch.len() - before) as u64, Ordering::Relaxed);
        self.counters.rx_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }

    fn quiet_for(&self) -> Duration {
        self.quiet
    }
}

/// A transmit queue of a [`PcapPort`].
pub struct PcapPortTx {
    record: Option<Arc<Mutex<PcapTx<File>>>>,
    counters: Arc<PcapCounters>,
}

impl TxQueue for PcapPortTx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let sent = match &self.record {
            // A panic while writing leaves at worst a truncated record.
            Some(file) => file.lock().unwrap_or_else(PoisonError::into_inner).send(pool, batch),
            None => forget(pool, batch),
        };
        self.counters.tx_packets.fetch_add(sent.packets, Ordering::Relaxed);
        self.counters.tx_bytes.fetch_add(sent.bytes, Ordering::Relaxed);
        self.counters.tx_errors.fetch_add(sent.errors, Ordering::Relaxed);
        sent
    }
}

/// Drops the batch and counts as a wire would: large packets by their segments.
fn forget(pool: &mut Pool, batch: &mut Batch) -> TxCounters {
    let mut counters = TxCounters::default();
    for packet in batch.drain(..) {
        if packet.offload.gso.is_none() {
            counters.packets += 1;
            counters.bytes += packet.len() as u64;
            pool.give(packet);
            continue;
        }
        let cut = offload::finish(packet, pool, |segment| {
            counters.packets += 1;
            counters.bytes += segment.len() as u64;
        });
        counters.errors += u64::from(!cut);
    }
    counters
}

#[cfg(test)]
mod tests;
