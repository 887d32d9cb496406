//! Fragments, which are tracked as whole datagrams.
//!
//! A fragment is held until its datagram is complete. The datagram is then tracked once, and its
//! fragments return in order, each with the state and NAT of the whole (ovs: `lib/ipf.c`). Held
//! fragments are bounded in number, size and time; at the maximum, the zone and host with the most
//! datagrams lose one ([`shares`]). A fragment that cannot be held goes on at once and is invalid.
//!
//! Differences from Open vSwitch 3.1:
//!
//! * An overlap between fragments of IPv6 gives up the whole datagram (RFC 5722 section 4), and a
//!   fragment that encloses another overlaps it too.
//! * One host's fragments do not exclude all others. Open vSwitch refuses all fragments while the
//!   maximum is held.
//! * Expired fragments are dropped. Open vSwitch sends them on with the next batch, which may be
//!   another flow's.

mod datagram;
mod piece;
mod shares;
mod status;
#[cfg(all(test, not(loom)))]
mod tests;
mod whole;

pub use status::{FragmentCounts, FragmentStatus, HeldDatagram};
pub use whole::Whole;

use base::{Instant, Zone};
use datagram::{Datagram, Outcome};
use flow::Frame;
use piece::{DatagramKey, Place};
use shares::{Serial, Shares};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time from a datagram's first fragment to its deadline.
const LIFETIME: Duration = Duration::from_secs(15);
/// The default maximum of held fragments, of all datagrams.
const FRAGMENTS_DEFAULT: u32 = 1000;
/// The largest value of [`Fragments::set_fragments_max`].
const FRAGMENTS_BOUND: u32 = 5000;
/// The smallest value of [`Fragments::set_min_bytes`].
const MIN_BYTES_BOUND: u32 = 400;

/// The IP version that a setting is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Settings and counts of one IP version.
#[derive(Clone, Copy, Debug)]
struct Family {
    enabled: bool,
    min_bytes: u32,
    counts: FragmentCounts,
}

/// Fragments that wait for the rest of their datagram. Any thread may use it.
#[derive(Debug)]
pub struct Fragments {
    held: Mutex<Held>,
    /// Whether any fragment is held; read without the lock.
    waiting: AtomicBool,
}

#[derive(Debug)]
struct Held {
    /// An ordered map, so that senders cannot choose keys that collide. It is always small.
    datagrams: BTreeMap<DatagramKey, Datagram>,
    /// The deadlines of all datagrams, soonest first.
    deadlines: BTreeMap<Serial, DatagramKey>,
    shares: Shares,
    serials: u64,
    fragments: u32,
    fragments_max: u32,
    v4: Family,
    v6: Family,
}

/// A setting out of bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{given} is out of bounds; {bound} is the limit")]
pub struct OutOfBounds {
    given: u32,
    bound: u32,
}

impl Fragments {
    /// No fragments, and Open vSwitch's limits.
    pub fn new() -> Self {
        let family = |min_bytes| Family { enabled: true, min_bytes, counts: Default::default() };
        let held = Held {
            datagrams: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            shares: Shares::default(),
            serials: 0,
            fragments: 0,
            fragments_max: FRAGMENTS_DEFAULT,
            v4: family(1200),
            v6: family(1280),
        };
        Fragments { held: Mutex::new(held), waiting: AtomicBool::new(false) }
    }

    /// Takes the fragments that can be held out of `frames`, which leaves empty packets, and
    /// returns the datagrams that they complete.
    #[must_use]
    pub fn hold(&self, now: Instant, zone: Zone, frames: &mut [Frame]) -> Vec<Whole> {
        if frames.iter().all(|frame| frame.key.nw_frag() == 0) {
            return Vec::new();
        }
        let mut held = self.lock();
        held.expire(now);
        let mut whole = Vec::new();
        for frame in frames.iter_mut() {
            if frame.key.nw_frag() != 0 && !frame.packet.is_empty() {
                whole.extend(held.add(now, zone, frame));
            }
        }
        self.waiting.store(!held.datagrams.is_empty(), Ordering::Relaxed);
        whole
    }

    /// Drops fragments at their deadline; call it a few times per second.
    pub fn tick(&self, now: Instant) {
        if self.waiting.load(Ordering::Relaxed) {
            let mut held = self.lock();
            held.expire(now);
            self.waiting.store(!held.datagrams.is_empty(), Ordering::Relaxed);
        }
    }

    /// Sets whether fragments of an IP version are held; otherwise they are invalid.
    pub fn set_enabled(&self, version: IpVersion, enabled: bool) {
        self.lock().family(version).enabled = enabled;
    }

    /// Sets the size in bytes, IP header included, below which a fragment that is not its
    /// datagram's last is invalid. Small fragments cost most and carry least, and text that ALGs
    /// read must not be cut.
    ///
    /// # Errors
    /// [`OutOfBounds`]: below 400.
    pub fn set_min_bytes(&self, version: IpVersion, bytes: u32) -> Result<(), OutOfBounds> {
        if bytes < MIN_BYTES_BOUND {
            return Err(OutOfBounds { given: bytes, bound: MIN_BYTES_BOUND });
        }
        self.lock().family(version).min_bytes = bytes;
        Ok(())
    }

    /// Sets the maximum number of held fragments, for both IP versions together.
    ///
    /// # Errors
    /// [`OutOfBounds`]: above 5000.
    pub fn set_fragments_max(&self, fragments: u32) -> Result<(), OutOfBounds> {
        if fragments > FRAGMENTS_BOUND {
            return Err(OutOfBounds { given: fragments, bound: FRAGMENTS_BOUND });
        }
        self.lock().fragments_max = fragments;
        Ok(())
    }

    /// The settings, counts and incomplete datagrams.
    pub fn status(&self) -> FragmentStatus {
        let held = self.lock();
        let of = |family: &Family| status::FamilyStatus {
            enabled: family.enabled,
            min_bytes: family.min_bytes,
            counts: family.counts,
        };
        FragmentStatus {
            fragments_max: held.fragments_max,
            fragments: held.fragments,
            v4: of(&held.v4),
            v6: of(&held.v6),
            datagrams: held.datagrams.iter().map(|(key, it)| it.describe(key)).collect(),
        }
    }

    /// A poisoned lock is ignored: the data is valid after each step.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Fragments {
    fn default() -> Self {
        Self::new()
    }
}

impl Held {
    fn family(&mut self, version: IpVersion) -> &mut Family {
        match version {
            IpVersion::V4 => &mut self.v4,
            IpVersion::V6 => &mut self.v6,
        }
    }

    /// Holds a fragment, or leaves it in the frame. Returns the datagram that it completes.
    fn add(&mut self, now: Instant, zone: Zone, frame: &mut Frame) -> Option<Whole> {
        let place = Place::read(frame, zone)?;
        let version = place.key.version();
        let family = self.family(version);
        if !family.enabled {
            return None;
        }
        if !place.is_last && place.ip_bytes < family.min_bytes as usize {
            family.counts.too_small += 1;
            return None;
        }
        let key = place.key;
        self.begin(now, key);
        if !self.make_room(&key) {
            return None;
        }
        let datagram = self.datagrams.get_mut(&key)?;
        let before = datagram.len();
        let outcome = datagram.add(place, frame);
        self.fragments = self.fragments + datagram.len() - before;
        let serial = datagram.serial();
        let counts = &mut self.family(version).counts;
        match outcome {
            Outcome::Held => counts.accepted += 1,
            Outcome::Overlaps { dropped } => {
                counts.overlapped += 1;
                counts.purged += u64::from(dropped);
            }
            Outcome::Refused => {}
            Outcome::Complete => {
                counts.accepted += 1;
                let datagram = self.remove(&key, serial)?;
                let fragments = u64::from(datagram.len());
                let whole = Whole::build(datagram.into_pieces());
                let counts = &mut self.family(version).counts;
                match whole.is_some() {
                    true => counts.completed += fragments,
                    false => counts.purged += fragments,
                }
                return whole;
            }
        }
        None
    }

    /// Begins a datagram unless it exists.
    fn begin(&mut self, now: Instant, key: DatagramKey) {
        if !self.datagrams.contains_key(&key) {
            self.serials += 1;
            let serial = (now + LIFETIME, self.serials);
            self.deadlines.insert(serial, key);
            self.shares.add(&key, serial);
            self.datagrams.insert(key, Datagram::new(serial));
        }
    }

    /// Makes room for one more fragment of datagram `of`. Returns false if that datagram itself is
    /// dropped. A dropped datagram is remembered without fragments; the number of those is bounded
    /// too.
    fn make_room(&mut self, of: &DatagramKey) -> bool {
        let max = self.fragments_max;
        while self.fragments >= max || self.datagrams.len() > max as usize {
            let Some(serial) = self.shares.first_to_go() else { return false };
            let Some(key) = self.deadlines.get(&serial).copied() else { return false };
            if key == *of {
                if self.datagrams.get(of).is_some_and(Datagram::is_new) {
                    self.remove(of, serial);
                }
                return false;
            }
            let fragments = self.remove(&key, serial).map_or(0, |datagram| datagram.len());
            self.family(key.version()).counts.evicted += u64::from(fragments);
        }
        true
    }

    fn remove(&mut self, key: &DatagramKey, serial: Serial) -> Option<Datagram> {
        self.deadlines.remove(&serial);
        self.shares.remove(key, serial);
        let datagram = self.datagrams.remove(key)?;
        self.fragments -= datagram.len();
        Some(datagram)
    }

    fn expire(&mut self, now: Instant) {
        while let Some((&serial, &key)) = self.deadlines.first_key_value()
            && serial.0 < now
        {
            let fragments = self.remove(&key, serial).map_or(0, |datagram| datagram.len());
            self.family(key.version()).counts.expired += u64::from(fragments);
        }
    }
}
