//! Bundles: messages that are carried out together or not at all (OpenFlow 1.4.0, section 7.3.9).

use super::session::Session;
use super::{Switch, check};
use crate::Outbox;
use base::{Instant, limits};
use openflow::message::{Message, Version};
use openflow::{DecodeOptions, ErrorCode, Header, OfError, decode};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of open bundles per connection.
const BUNDLES: usize = 64;
/// Maximum bytes in the bundles of one connection.
const BUNDLED_BYTES: usize = 128 << 20;
/// Maximum bytes in the bundles of all connections.
const BUNDLED_BYTES_OF_ALL: usize = 256 << 20;
/// Memory of a bundled message besides its own bytes: the entry and the allocator's overhead.
const ENTRY_BYTES: usize = size_of::<Entry>() + 16;

/// OFPBF_ATOMIC.
const ATOMIC: u16 = 1;
/// OFPBCT_*: requests; the reply to each is one more.
const OPEN: u16 = 0;
const CLOSE: u16 = 2;
const COMMIT: u16 = 4;
const DISCARD: u16 = 6;

/// The bundles of a connection.
#[derive(Debug)]
pub(super) struct Bundles {
    open: BTreeMap<u32, Bundle>,
    /// A bundle unused for this long is discarded, in seconds.
    idle_s: u32,
    /// Bytes in the bundles of other connections.
    pub others_bytes: usize,
}

#[derive(Debug)]
struct Bundle {
    flags: u16,
    is_closed: bool,
    used: Instant,
    /// The message that opened it, which the error on expiry quotes.
    opening: Vec<u8>,
    entries: Vec<Entry>,
    /// Bytes of all entries, with their overhead.
    bytes: usize,
}

/// A bundled message, kept encoded: that takes a fifth of the memory of a decoded one.
#[derive(Debug)]
struct Entry {
    /// The bundle-add message, which an error quotes.
    bytes: Box<[u8]>,
    /// How it was decoded.
    options: DecodeOptions,
}

impl Default for Bundles {
    fn default() -> Self {
        let idle_s = limits::BUNDLE_IDLE_TIMEOUT_S;
        Bundles { open: BTreeMap::new(), idle_s, others_bytes: 0 }
    }
}

impl Bundles {
    fn open(&mut self, id: u32, flags: u16, bytes: &[u8], now: Instant) -> Result<(), OfError> {
        if self.open.remove(&id).is_some() {
            return Err(refused(ErrorCode::BundleBadId, id, "is open already; it is discarded"));
        }
        if self.open.len() >= BUNDLES {
            return Err(refused(ErrorCode::BundleOutOfBundles, id, "is one too many"));
        }
        let opening = bytes.to_vec();
        let entries = Vec::new();
        let bundle = Bundle { flags, is_closed: false, used: now, opening, entries, bytes: 0 };
        self.open.insert(id, bundle);
        Ok(())
    }

    fn add(&mut self, id: u32, flags: u16, entry: Entry, now: Instant) -> Result<(), OfError> {
        let bytes = entry.bytes.len() + ENTRY_BYTES;
        let of_connection = self.bytes() + bytes;
        let too_many = |whose: &str, limit: usize| {
            let what = format!("is discarded: {whose} bundles would hold more than {limit} bytes");
            refused(ErrorCode::BundleMessageTooMany, id, &what)
        };
        let error = if of_connection > BUNDLED_BYTES {
            too_many("the connection's", BUNDLED_BYTES)
        } else if of_connection + self.others_bytes > BUNDLED_BYTES_OF_ALL {
            too_many("all connections'", BUNDLED_BYTES_OF_ALL)
        } else {
            return self.add_within_limits(id, flags, entry, bytes, now);
        };
        self.open.remove(&id);
        log::warn!("{}", error.reason);
        Err(error)
    }

    fn add_within_limits(
        &mut self,
        id: u32,
        flags: u16,
        entry: Entry,
        bytes: usize,
        now: Instant,
    ) -> Result<(), OfError> {
        // A bundle-add message may open a bundle, too.
        if !self.open.contains_key(&id) {
            self.open(id, flags, &entry.bytes, now)?;
        }
        let Some(bundle) = self.open.get_mut(&id) else { return Err(unknown(id)) };
        if let Err(error) = bundle.check(id, flags) {
            self.open.remove(&id);
            return Err(error);
        }
        bundle.used = now;
        bundle.bytes += bytes;
        bundle.entries.push(entry);
        Ok(())
    }

    fn close(&mut self, id: u32, flags: u16, now: Instant) -> Result<(), OfError> {
        let Some(bundle) = self.open.get_mut(&id) else { return Err(unknown(id)) };
        if let Err(error) = bundle.check(id, flags) {
            self.open.remove(&id);
            return Err(error);
        }
        bundle.used = now;
        bundle.is_closed = true;
        Ok(())
    }

    /// Discards bundles that were unused for too long. Returns their opening messages, to be refused.
    pub fn expire(&mut self, now: Instant) -> Vec<(Vec<u8>, OfError)> {
        let idle = self.idle_time();
        let is_over = |_: &u32, bundle: &mut Bundle| bundle.used + idle <= now;
        let over = self.open.extract_if(.., is_over);
        let words = format!("was not used for {} seconds", self.idle_s);
        let error = |id| refused(ErrorCode::BundleTimeout, id, &words);
        over.map(|(id, bundle)| (bundle.opening, error(id))).collect()
    }

    /// When the next bundle expires.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.open.values().map(|bundle| bundle.used + self.idle_time()).min()
    }

    fn idle_time(&self) -> Duration {
        Duration::from_secs(self.idle_s.into())
    }

    /// Bytes in all bundles.
    pub fn bytes(&self) -> usize {
        self.open.values().map(|bundle| bundle.bytes).sum()
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
    /// Opens, closes, commits or discards a bundle.
    pub fn bundle_control(
        &mut self,
        id: u32,
        control: u16,
        flags: u16,
        bytes: &[u8],
        switch: &mut Switch<'_>,
    ) -> Result<Message, OfError> {
        self.may_change()?;
        self.bundles.idle_s = switch.core.config().bundle_idle_timeout_s;
        match control {
            OPEN => self.bundles.open(id, flags, bytes, switch.now)?,
            CLOSE => self.bundles.close(id, flags, switch.now)?,
            COMMIT => {
                let bundle = self.bundles.open.remove(&id).ok_or_else(|| unknown(id))?;
                self.commit(id, bundle, flags, switch)?;
            }
            DISCARD => drop(self.bundles.open.remove(&id).ok_or_else(|| unknown(id))?),
            _ => {
                return Err(refused(ErrorCode::BundleBadType, id, "can't be controlled like that"));
            }
        }
        Ok(Message::BundleControl { bundle: id, control: control + 1, flags: 0 })
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

    /// Commits a bundle: all of it, or nothing. The message that failed is refused first, then the commit.
    fn commit(
        &mut self,
        id: u32,
        bundle: Bundle,
        flags: u16,
        switch: &mut Switch<'_>,
    ) -> Result<(), OfError> {
        if bundle.flags != flags {
            return Err(refused(ErrorCode::BundleBadFlags, id, "was opened with other flags"));
        }
        let transaction = switch.core.begin();
        // Packets are sent only if everything succeeds.
        let mut packets = Outbox::default();
        let mut port_mods = Vec::new();
        for entry in &bundle.entries {
            let message = self.read(entry);
            if let Some(header) = Header::read(&entry.bytes) {
                switch.core.set_request(header.xid);
            }
            let done = message.and_then(|message| {
                self.carry_out(&message, flags, switch, &mut packets)?;
                if matches!(message, Message::PortMod { .. }) {
                    port_mods.push((message, entry));
                }
                Ok(())
            });
            if let Err(error) = done {
                switch.core.rollback(transaction);
                self.refuse(&entry.bytes, &error);
                let reason = format!("a message failed ({}); nothing is done", error.reason);
                return Err(refused(ErrorCode::BundleMessageFailed, id, &reason));
            }
        }
        switch.core.commit(transaction);
        switch.out.commands.append(&mut packets.commands);
        switch.out.conntrack_flush.append(&mut packets.conntrack_flush);
        for (message, entry) in port_mods {
            // All checks were made above.
            if let Message::PortMod { port, mac, config, mask } = message {
                let (core, out) = (&mut *switch.core, &mut *switch.out);
                if let Err(error) = core.port_mod(self.bridge, port, mac, config, mask, out) {
                    self.refuse(&entry.bytes, &error);
                }
            }
        }
        Ok(())
    }

    /// Decodes an entry's message.
    fn read(&self, entry: &Entry) -> Result<Message, OfError> {
        let version = self.version().unwrap_or(Version::V10);
        match decode(version, &entry.bytes, &entry.options)?.1 {
            Message::BundleAdd { message, .. } => Ok(*message),
            other => Ok(other),
        }
    }

    fn carry_out(
        &self,
        message: &Message,
        flags: u16,
        switch: &mut Switch<'_>,
        packets: &mut Outbox,
    ) -> Result<(), OfError> {
        match message {
            Message::FlowMod(flow_mod) => switch.core.flow_mod(self.bridge, flow_mod, switch.now),
            Message::GroupMod(group) => switch.core.group_mod(self.bridge, group, switch.now),
            Message::PacketOut(packet) => {
                switch.core.packet_out(self.bridge, packet, switch.now, packets)
            }
            Message::PortMod { port, mac, .. } => {
                // Ports change one by one (ovs: `ofproto/ofproto.c`, `do_bundle_commit`).
                if flags & ATOMIC != 0 {
                    let reason = "port-mods can't be part of an atomic bundle";
                    return Err(OfError::new(ErrorCode::BundleMessageFailed, reason));
                }
                check::port_mod(self.bridge, *port, *mac, switch)
            }
            other => check::bundled(other, self.version()),
        }
    }
}

fn refused(code: ErrorCode, id: u32, what: &str) -> OfError {
    OfError::new(code, format!("bundle {id:#x} {what}"))
}

fn unknown(id: u32) -> OfError {
    refused(ErrorCode::BundleBadId, id, "is not open")
}
