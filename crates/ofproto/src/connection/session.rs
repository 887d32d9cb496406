//! One OpenFlow session: the agreed version, the peer's settings, and the output.

use super::ConnId;
use super::asynchronous::AsyncConfig;
use super::bundle::Bundles;
use super::input::Input;
use super::limiter::Limiter;
use super::monitors::Monitors;
use super::settings::{ConnectionKind, Settings};
use super::status::{CloseReason, ConnectionStatus};
use super::waiting::Waiting;
use crate::ids::BridgeId;
use crate::table_features::TableFeaturesChange;
use base::Instant;
use openflow::message::{Message, PacketInFormat, Role, Version};
use openflow::{DecodeOptions, EncodeOptions, ErrorCode, Header, OfError, encode};
use std::time::Duration;

/// With more output than this, requests wait until the peer has read some.
const OUTPUT_LIMIT: usize = 1 << 20;
/// With more unhandled input than this, no more is read.
const INPUT_LIMIT: usize = 1 << 18;
/// OpenFlow's default of `miss_send_len` (OFP_DEFAULT_MISS_SEND_LEN).
pub(super) const MISS_SEND_LEN: u16 = 128;
/// How long a peer without a probe interval may take to say hello.
const HELLO_TIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Session {
    pub id: ConnId,
    pub bridge: BridgeId,
    pub settings: Settings,
    pub role: Role,
    pub async_config: AsyncConfig,
    pub controller_id: u16,
    pub miss_send_len: u16,
    pub packet_in_format: PacketInFormat,
    /// NXT_FLOW_MOD_TABLE_ID is on.
    pub flow_mod_table_id: bool,
    /// OpenFlow 1.0 with NXM: flow-removed messages use Nicira's format.
    pub nicira: bool,
    pub bundles: Bundles,
    pub monitors: Monitors,
    pub waiting: Option<Waiting>,
    /// An incomplete change of table features, with its transaction id.
    pub table_features: Option<(u32, TableFeaturesChange)>,
    /// Flow monitors are told of changes when a request is done.
    pub is_told_later: bool,
    /// A connection flush of this session is running; later requests, barriers above all, wait for it.
    pub is_flushing: bool,
    version: Option<Version>,
    closing: Option<CloseReason>,
    input: Input,
    output: Vec<u8>,
    /// Number of asynchronous messages in the output.
    queued: usize,
    /// Packet-ins dropped by the rate limit, or because the peer reads too slowly.
    pub dropped: u64,
    /// Packet-ins delayed by the rate limit: those of flows, and those that no flow matched.
    pub limiters: [Option<Limiter>; 2],
    since: Instant,
    last_received: Instant,
    /// When the peer last took bytes.
    last_written: Instant,
    /// When the unanswered echo request was sent.
    probed: Option<Instant>,
    /// Messages in the output.
    pub unsent: u64,
}

impl Session {
    pub fn new(id: ConnId, bridge: BridgeId, settings: Settings, now: Instant) -> Self {
        let settings = Settings { versions: settings.versions & Settings::SPOKEN, ..settings };
        let miss_send_len = match settings.kind {
            ConnectionKind::Controller => MISS_SEND_LEN,
            ConnectionKind::Service | ConnectionKind::Snoop => 0,
        };
        let mut session = Session {
            id,
            bridge,
            settings,
            role: Role::Equal,
            async_config: AsyncConfig::NONE,
            controller_id: 0,
            miss_send_len,
            packet_in_format: PacketInFormat::Standard,
            flow_mod_table_id: false,
            nicira: false,
            bundles: Bundles::default(),
            monitors: Monitors::default(),
            waiting: None,
            table_features: None,
            is_told_later: false,
            is_flushing: false,
            version: None,
            closing: None,
            input: Input::default(),
            output: Vec::new(),
            queued: 0,
            dropped: 0,
            limiters: [None, None],
            since: now,
            last_received: now,
            last_written: now,
            probed: None,
            unsent: 0,
        };
        let spoken = Version::ALL.into_iter().filter(|v| settings.versions & (1 << *v as u8) != 0);
        let highest = spoken.max().unwrap_or(Version::V10);
        session.write(highest, id.0, &Message::Hello { versions: settings.versions });
        session
    }

    pub fn take_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.last_received = now;
        self.probed = None;
        let is_first = self.version.is_none() && self.input.pending() == 0;
        match bytes {
            // A hello of a future version. Without a bitmap it stands for all versions below, as a hello of
            // our highest version does.
            [version, 0, rest @ ..] if is_first && *version > Version::V15 as u8 => {
                self.input.push(&[Version::V15 as u8, 0]);
                self.input.push(rest);
            }
            _ => self.input.push(bytes),
        }
    }

    pub fn next_message(&mut self) -> Option<Vec<u8>> {
        if self.is_flushing || !self.has_room() {
            return None;
        }
        let message = self.input.next_message();
        self.or_close(message)
    }

    /// Whether requests are handled: not while much output waits.
    pub fn has_room(&self) -> bool {
        self.closing.is_none() && self.output.len() <= OUTPUT_LIMIT
    }

    /// Lets a message wait before all others.
    pub fn put_back(&mut self, message: Vec<u8>) {
        self.input.put_back(message);
    }

    /// The next echo request, while a request before it lasts. The messages before it wait.
    pub fn next_echo(&mut self) -> Option<Vec<u8>> {
        if !self.has_room() || self.version.is_none() {
            return None;
        }
        let message = self.input.next_echo();
        self.or_close(message)
    }

    fn or_close(&mut self, message: Result<Option<Vec<u8>>, OfError>) -> Option<Vec<u8>> {
        message.unwrap_or_else(|error| {
            self.close(CloseReason::NotOpenFlow(error));
            None
        })
    }

    /// The agreed version.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    pub fn agree(&mut self, version: Version) {
        self.version = Some(version);
        if self.settings.is_async {
            self.async_config = AsyncConfig::new(version);
        }
    }

    pub fn decode_options(&self) -> DecodeOptions {
        DecodeOptions { flow_mod_table_id: self.flow_mod_table_id }
    }

    /// Replies to a request in the agreed version.
    pub fn reply(&mut self, xid: u32, message: &Message) {
        if let Some(version) = self.version {
            self.write(version, xid, message);
        }
    }

    /// Replies in the message's own version: only echo replies, and errors with the same numbers in all versions.
    pub fn reply_to(&mut self, header: Header, message: &Message) {
        let start = self.output.len();
        self.write(self.version.unwrap_or(Version::V10), header.xid, message);
        if let Some(version) = self.output.get_mut(start) {
            *version = header.version;
        }
    }

    /// Sends an error message.
    pub fn refuse(&mut self, bytes: &[u8], error: &OfError) {
        let Some(header) = Header::read(bytes) else { return };
        let data = bytes.to_vec();
        self.reply_to(header, &Message::Error { code: error.code, data });
    }

    /// Sends an asynchronous message, unless too many wait already.
    pub fn send_async(&mut self, message: &Message) {
        let Some(version) = self.version else { return };
        if self.queued >= self.settings.queue {
            self.dropped += 1;
            return;
        }
        self.queued += 1;
        self.write(version, 0, message);
    }

    /// Writes a copy of another connection's message, unless the peer does not read.
    pub fn write_copy(&mut self, message: &[u8]) {
        if self.version.is_some() && self.closing.is_none() && self.output.len() <= OUTPUT_LIMIT {
            self.output.extend_from_slice(message);
        }
    }

    /// Writes a message. Returns its length.
    pub fn write(&mut self, version: Version, xid: u32, message: &Message) -> usize {
        let before = self.output.len();
        let options = EncodeOptions {
            flow_mod_table_id: self.flow_mod_table_id,
            packet_in_format: self.packet_in_format,
        };
        for bytes in encode(version, xid, message, &options) {
            self.output.extend_from_slice(&bytes);
            self.unsent += 1;
            coverage::count(coverage::Event::RconnQueued);
        }
        self.output.len() - before
    }

    /// Writes a part of a reply that others follow.
    pub fn reply_part(&mut self, xid: u32, message: &Message) -> usize {
        let (Some(version), start) = (self.version, self.output.len()) else { return 0 };
        self.write(version, xid, message);
        if let Some(written) = self.output.get_mut(start..) {
            openflow::set_more(written);
        }
        self.output.len() - start
    }

    pub fn wants_input(&self) -> bool {
        self.closing.is_none()
            && self.output.len() <= OUTPUT_LIMIT
            && self.input.pending() <= INPUT_LIMIT
    }

    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    pub fn is_idle(&self) -> bool {
        let waits = self.waiting.is_some() || self.is_flushing || self.has_requests();
        !waits && !self.has_output()
    }

    /// Whether a whole request is not handled yet.
    pub fn has_requests(&self) -> bool {
        self.input.has_message()
    }

    pub fn take_output(&mut self) -> Vec<u8> {
        self.queued = 0;
        self.monitors.written();
        std::mem::take(&mut self.output)
    }

    /// The peer took bytes, which shows that it is alive as received ones do (ovs: `lib/rconn.c`, `do_tx_work`).
    /// While it is not read from, its answer to a probe cannot arrive.
    pub fn note_written(&mut self, now: Instant) {
        self.last_written = now;
        if self.probed.is_some() && !self.wants_input() {
            self.probed = Some(now);
        }
    }

    pub fn close(&mut self, reason: CloseReason) {
        if self.closing.is_none() {
            self.closing = Some(reason);
            self.waiting = None;
        }
    }

    pub fn closing(&self) -> Option<&CloseReason> {
        self.closing.as_ref()
    }

    /// Returns an error for a secondary controller.
    pub fn may_change(&self) -> Result<(), OfError> {
        match self.role {
            Role::Secondary => {
                let reason = "a secondary controller may not change the switch";
                Err(OfError::new(ErrorCode::IsSecondary, reason))
            }
            _ => Ok(()),
        }
    }

    pub fn tick(&mut self, now: Instant) {
        if self.closing.is_some() {
            return;
        }
        self.send_limited(now);
        for (opening, error) in self.bundles.expire(now) {
            self.refuse(&opening, &error);
        }
        let after = self.settings.probe;
        let patience = after.unwrap_or(HELLO_TIME);
        match (self.version, self.probed, after) {
            (None, ..) if now - self.since >= patience => self.close(CloseReason::Silent(patience)),
            (Some(_), Some(at), _) if now - at >= patience => {
                self.close(CloseReason::Silent(patience));
            }
            // Copies are dropped while they fill the output, so a snooper that does not read has no use.
            (Some(_), None, None) if self.has_output() && now - self.last_active() >= patience => {
                self.close(CloseReason::Silent(patience));
            }
            (Some(version), None, Some(after)) if now - self.last_active() >= after => {
                self.probed = Some(now);
                self.write(version, 0, &Message::EchoRequest(Vec::new()));
            }
            _ => {}
        }
    }

    fn last_active(&self) -> Instant {
        self.last_received.max(self.last_written)
    }

    pub fn next_tick(&self) -> Option<Instant> {
        if self.closing.is_some() {
            return None;
        }
        let patience = self.settings.probe.unwrap_or(HELLO_TIME);
        let silence = match (self.version, self.probed) {
            (None, _) => Some(self.since + patience),
            (Some(_), Some(at)) => Some(at + patience),
            (Some(_), None) => self.settings.probe.map(|after| self.last_active() + after),
        };
        let waiting = self.waiting.as_ref().and_then(Waiting::until);
        [silence, waiting, self.bundles.next_expiry()].into_iter().flatten().min()
    }

    pub fn status(&self) -> ConnectionStatus {
        ConnectionStatus {
            bridge: self.bridge,
            kind: self.settings.kind,
            version: self.version.filter(|_| self.closing.is_none()),
            role: self.role,
            since: self.since,
            last_received: self.last_received,
            dropped: self.dropped,
        }
    }
}
