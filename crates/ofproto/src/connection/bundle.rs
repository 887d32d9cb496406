//! Bundles: messages that are carried out together or not at all (OpenFlow 1.4.0, section 7.3.9).

use super::commit::Commit;
use super::jobs::Kind;
use super::request::Done;
use super::session::Session;
use super::{Switch, check};
use base::{Instant, limits};
use openflow::message::Message;
use openflow::{DecodeOptions, ErrorCode, OfError};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum bytes in the bundles of one connection.
const BUNDLED_BYTES: usize = 128 << 20;
/// Maximum bytes in the bundles of all connections.
const BUNDLED_BYTES_OF_ALL: usize = 256 << 20;
/// Memory of a bundled message besides its own bytes: the entry and the allocator's overhead.
const ENTRY_BYTES: usize = size_of::<Entry>() + 16;
/// Memory of a bundle without messages, besides the one that opened it: its places in both maps, which are at least
/// half full.
const BUNDLE_BYTES: usize = 2 * (size_of::<(u32, Bundle)>() + size_of::<(Instant, u32)>()) + 32;
/// The most bundles that expire in one step.
const EXPIRED_AT_ONCE: usize = 256;

/// OFPBCT_*: requests; the reply to each is one more.
const OPEN: u16 = 0;
const CLOSE: u16 = 2;
const COMMIT: u16 = 4;
const DISCARD: u16 = 6;

/// The bundles of a connection.
#[derive(Debug)]
pub(super) struct Bundles {
    open: BTreeMap<u32, Bundle>,
    /// When each was used last.
    used: BTreeSet<(Instant, u32)>,
    /// Bytes in all bundles.
    bytes: usize,
    /// A bundle unused for this long is discarded, in seconds.
    idle_s: u32,
    /// Bytes in the bundles of other connections.
    pub others_bytes: usize,
}

#[derive(Debug)]
pub(super) struct Bundle {
    pub flags: u16,
    is_closed: bool,
    used: Instant,
    /// The message that opened it, which the error on expiry quotes.
    opening: Vec<u8>,
    pub entries: Vec<Entry>,
    /// Its bytes, with those of all entries.
    bytes: usize,
}

/// A bundled message, kept encoded: that takes a fifth of the memory of a decoded one.
#[derive(Debug)]
pub(super) struct Entry {
    /// The bundle-add message, which an error quotes.
    pub bytes: Box<[u8]>,
    /// How it was decoded.
    pub options: DecodeOptions,
}

impl Default for Bundles {
    fn default() -> Self {
        let idle_s = limits::BUNDLE_IDLE_TIMEOUT_S;
        let (open, used) = (BTreeMap::new(), BTreeSet::new());
        Bundles { open, used, bytes: 0, idle_s, others_bytes: 0 }
    }
}

impl Bundles {
    fn open(&mut self, id: u32, flags: u16, bytes: &[u8], now: Instant) -> Result<(), OfError> {
        if self.remove(id).is_some() {
            return Err(refused(ErrorCode::BundleBadId, id, "is open already; it is discarded"));
        }
        let size = bytes.len() + BUNDLE_BYTES;
        self.check_room(id, ErrorCode::BundleOutOfBundles, size)?;
        let (opening, entries) = (bytes.to_vec(), Vec::new());
        let bundle = Bundle { flags, is_closed: false, used: now, opening, entries, bytes: size };
        self.open.insert(id, bundle);
        self.used.insert((now, id));
        self.bytes += size;
        Ok(())
    }

    /// Takes a bundle out.
    fn remove(&mut self, id: u32) -> Option<Bundle> {
        let bundle = self.open.remove(&id)?;
        self.used.remove(&(bundle.used, id));
        self.bytes -= bundle.bytes;
        Some(bundle)
    }

    /// Refuses `more` bytes if the bundles would hold too many.
    fn check_room(&self, id: u32, code: ErrorCode, more: usize) -> Result<(), OfError> {
        let of_connection = self.bytes + more;
        let (whose, limit) = if of_connection > BUNDLED_BYTES {
            ("the connection's", BUNDLED_BYTES)
        } else if of_connection + self.others_bytes > BUNDLED_BYTES_OF_ALL {
            ("all connections'", BUNDLED_BYTES_OF_ALL)
        } else {
            return Ok(());
        };
        let what = format!("is discarded: {whose} bundles would hold more than {limit} bytes");
        let error = refused(code, id, &what);
        log::warn!("{}", error.reason);
        Err(error)
    }

    fn add(&mut self, id: u32, flags: u16, entry: Entry, now: Instant) -> Result<(), OfError> {
        let bytes = entry.bytes.len() + ENTRY_BYTES;
        let room = self.check_room(id, ErrorCode::BundleMessageTooMany, bytes);
        let added = room.and_then(|()| {
            // A bundle-add message may open a bundle, too.
            if !self.open.contains_key(&id) {
                self.open(id, flags, &entry.bytes, now)?;
            }
            self.use_open(id, flags, now)
        });
        match added {
            Ok(bundle) => {
                bundle.bytes += bytes;
                bundle.entries.push(entry);
                self.bytes += bytes;
                Ok(())
            }
            Err(error) => {
                self.remove(id);
                Err(error)
            }
        }
    }

    fn close(&mut self, id: u32, flags: u16, now: Instant) -> Result<(), OfError> {
        match self.use_open(id, flags, now) {
            Ok(bundle) => {
                bundle.is_closed = true;
                Ok(())
            }
            Err(error) => {
                self.remove(id);
                Err(error)
            }
        }
    }

    /// Returns a bundle that is still open, with these flags, for change.
    fn use_open(&mut self, id: u32, flags: u16, now: Instant) -> Result<&mut Bundle, OfError> {
        let bundle = self.open.get_mut(&id).ok_or_else(|| unknown(id))?;
        bundle.check(id, flags)?;
        self.used.remove(&(bundle.used, id));
        self.used.insert((now, id));
        bundle.used = now;
        Ok(bundle)
    }

    /// Discards bundles that were unused for too long, a bounded number. Returns their opening messages, to be
    /// refused.
    pub fn expire(&mut self, now: Instant) -> Vec<(Vec<u8>, OfError)> {
        let idle = self.idle_time();
        let over = self.used.iter().take_while(|(used, _)| *used + idle <= now);
        let over: Vec<u32> = over.take(EXPIRED_AT_ONCE).map(|(_, id)| *id).collect();
        let words = format!("was not used for {} seconds", self.idle_s);
        let error = |id| refused(ErrorCode::BundleTimeout, id, &words);
        over.into_iter().filter_map(|id| Some((self.remove(id)?.opening, error(id)))).collect()
    }

    /// When the next bundle expires.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.used.first().map(|(used, _)| *used + self.idle_time())
    }

    fn idle_time(&self) -> Duration {
        Duration::from_secs(self.idle_s.into())
    }

    /// Bytes in all bundles.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Bundle {
    fn check(&self, id: u32, flags: u16) -> Result<(), OfError> {
        if self.is_closed {
            return Err(refused(ErrorCode::BundleClosed, id, "is closed; it is discarded"));
        }
        if self.flags != flags {
            return Err(refused(ErrorCode::BundleBadFlags, id, "was opened with other flags"));
        }
        Ok(())
    }
}

impl Session {
    /// Opens, closes or discards a bundle, or takes one out to be committed.
    pub fn bundle_control(
        &mut self,
        id: u32,
        control: u16,
        flags: u16,
        bytes: &[u8],
        switch: &mut Switch<'_>,
    ) -> Result<Done, OfError> {
        self.may_change()?;
        self.bundles.idle_s = switch.core.config().bundle_idle_timeout_s;
        match control {
            OPEN => self.bundles.open(id, flags, bytes, switch.now)?,
            CLOSE => self.bundles.close(id, flags, switch.now)?,
            COMMIT => {
                let commit = self.commit(id, flags, switch)?;
                return Ok(Done::Begun(Kind::Commit(Box::new(commit))));
            }
            DISCARD => drop(self.bundles.remove(id).ok_or_else(|| unknown(id))?),
            _ => {
                return Err(refused(ErrorCode::BundleBadType, id, "can't be controlled like that"));
            }
        }
        let control = control + 1;
        Ok(Done::Answered(Some(Message::BundleControl { bundle: id, control, flags: 0 })))
    }

    /// Adds a message to a bundle. `xids` are those of the bundle-add message and of the inner message, which
    /// must be equal.
    pub fn bundle_add(
        &mut self,
        id: u32,
        flags: u16,
        xids: (u32, u32),
        message: &Message,
        bytes: &[u8],
        switch: &Switch<'_>,
    ) -> Result<(), OfError> {
        self.may_change()?;
        self.bundles.idle_s = switch.core.config().bundle_idle_timeout_s;
        if xids.0 != xids.1 {
            let code = ErrorCode::BundleMessageBadXid;
            return Err(refused(code, id, "is given a message of another transaction"));
        }
        check::bundled(message, self.version())?;
        let entry = Entry { bytes: bytes.into(), options: self.decode_options() };
        self.bundles.add(id, flags, entry, switch.now)
    }

    /// Takes a bundle out, to be committed.
    fn commit(&mut self, id: u32, flags: u16, switch: &mut Switch<'_>) -> Result<Commit, OfError> {
        let bundle = self.bundles.remove(id).ok_or_else(|| unknown(id))?;
        if bundle.flags != flags {
            return Err(refused(ErrorCode::BundleBadFlags, id, "was opened with other flags"));
        }
        Ok(Commit::new(id, bundle, self, switch))
    }
}

pub(super) fn refused(code: ErrorCode, id: u32, what: &str) -> OfError {
    OfError::new(code, format!("bundle {id:#x} {what}"))
}

fn unknown(id: u32) -> OfError {
    refused(ErrorCode::BundleBadId, id, "is not open")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_bounds_how_many_bundles_are_open() {
        let mut bundles = Bundles::default();
        let now = Instant::from_millis(5);
        let opening = vec![0; 1000];
        let mut open = |id| bundles.open(id, 0, &opening, now).map_err(|error| error.code);
        let refused = (0..1_000_000).find(|&id| open(id).is_err()).unwrap();
        assert!((100_000..134_218).contains(&refused), "{refused}");
        assert_eq!(open(refused), Err(ErrorCode::BundleOutOfBundles));
        assert!(bundles.bytes() <= BUNDLED_BYTES);
        for id in 0..refused {
            assert!(bundles.remove(id).is_some());
        }
        assert_eq!((bundles.bytes(), bundles.next_expiry()), (0, None));
    }
}
