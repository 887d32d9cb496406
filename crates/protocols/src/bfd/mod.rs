//! Bidirectional Forwarding Detection (RFC 5880, RFC 5881), as Open vSwitch has it (ovs: `lib/bfd.c`): asynchronous
//! mode, without authentication and echo packets.

mod config;
mod packet;
mod receive;
#[cfg(test)]
mod tests;
mod text;
mod timers;

pub use config::{Config, Filter};
pub use packet::{Control, DESTINATION_MAC, LENGTH, NotControl, PORT, State, TTL, flag};

use crate::line::{Line, Lines};
use base::{Instant, MacAddr};
use log::Level;
use packet::VERSION;
use std::time::Duration;

/// Diagnostics (RFC 5880 section 4.1). A peer may send other numbers.
mod diagnostic {
    pub const NONE: u8 = 0;
    pub const EXPIRED: u8 = 1;
    pub const REMOTE_DOWN: u8 = 3;
    pub const PATH_DOWN: u8 = 5;
    pub const CONCATENATED_PATH_DOWN: u8 = 6;
    pub const REVERSE_CONCATENATED_PATH_DOWN: u8 = 8;
}

/// The shortest interval of a session that is not up (RFC 5880 section 6.8.3).
const SLOW_MS: u32 = 1000;
/// The first source port, and how many follow (RFC 5881 section 4).
const SOURCE_PORT_MIN: u16 = 49152;
const SOURCE_PORTS: u32 = 16384;

/// What is unique to a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The discriminator, which is not 0.
    pub discriminator: u32,
    /// The number of the session, from which the source port follows.
    pub number: u32,
    /// The seed of its random numbers.
    pub seed: u64,
}

/// What the peer said last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Remote {
    state: State,
    diagnostic: u8,
    flags: u8,
    discriminator: u32,
    multiplier: u8,
    min_tx_ms: u32,
    min_rx_ms: u32,
}

/// A session.
#[derive(Debug)]
pub struct Bfd {
    name: String,
    config: Config,
    discriminator: u32,
    source_port: u16,
    random: fastrand::Rng,
    state: State,
    diagnostic: u8,
    /// The flags of the packets that are sent.
    flags: u8,
    remote: Remote,
    /// The intervals in effect, and those that a poll sequence negotiates.
    min_tx_ms: u32,
    min_rx_ms: u32,
    polled_tx_ms: u32,
    polled_rx_ms: u32,
    last_tx: Instant,
    /// When the next packet is to be sent; [`Instant::ZERO`] is at once.
    next_tx: Instant,
    /// When the peer is down unless it is heard.
    detect: Instant,
    forwarding: bool,
    /// What `bfd/set-forwarding` set.
    forced: Option<bool>,
    flap_count: u64,
    /// Until when received packets make the port forward, and until when they do without a control packet.
    received_until: Instant,
    control_until: Instant,
    /// The packets that the port has received.
    received: u64,
    ran: Instant,
    is_in_decay: bool,
    decay_at: Instant,
    /// The packets that the port, and of these the session, received before the decay interval.
    decay_received: u64,
    decay_controls: u64,
    is_changed: bool,
    lines: Lines,
}

/// A frame to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The Ethernet frame.
    pub bytes: Vec<u8>,
    /// Whether a tunnel sets its OAM flag.
    pub oam: bool,
}

impl Bfd {
    /// A session that is down, on the port with this name.
    pub fn new(now: Instant, name: &str, identity: Identity, config: Config) -> Bfd {
        let remote = Remote { state: State::Down, min_rx_ms: 1, ..Remote::default() };
        let mut bfd = Bfd {
            name: name.to_owned(),
            discriminator: identity.discriminator,
            source_port: SOURCE_PORT_MIN + (identity.number % SOURCE_PORTS) as u16,
            random: fastrand::Rng::with_seed(identity.seed),
            state: State::Down,
            diagnostic: diagnostic::NONE,
            flags: 0,
            remote,
            min_tx_ms: config.min_tx_ms,
            min_rx_ms: config.min_rx_ms,
            polled_tx_ms: 0,
            polled_rx_ms: 0,
            last_tx: Instant::ZERO,
            next_tx: Instant::ZERO,
            detect: Instant::ZERO,
            forwarding: false,
            forced: None,
            flap_count: 0,
            received_until: Instant::ZERO,
            control_until: Instant::ZERO,
            received: 0,
            ran: Instant::ZERO,
            is_in_decay: false,
            decay_at: Instant::ZERO,
            decay_received: 0,
            decay_controls: 0,
            is_changed: true,
            lines: Lines::default(),
            config,
        };
        bfd.begin_decay(now);
        if bfd.config.cpath_down {
            bfd.set_state(now, State::Down, diagnostic::NONE);
        }
        bfd
    }

    /// Changes the settings.
    pub fn configure(&mut self, now: Instant, config: Config) {
        let old = std::mem::replace(&mut self.config, config);
        let Config { min_tx_ms, min_rx_ms, decay_min_rx_ms, .. } = self.config;
        let (is_up, polls) = (self.state == State::Up, self.is_polling());
        let mut asks = false;
        // A shorter interval between the own packets needs no consent, nor does a longer one between the peer's
        // (RFC 5880 section 6.8.3).
        if old.min_tx_ms != min_tx_ms {
            if !is_up || !polls && min_tx_ms < self.min_tx_ms {
                self.min_tx_ms = min_tx_ms;
            }
            asks = true;
        }
        if old.min_rx_ms != min_rx_ms {
            if !is_up || !polls && min_rx_ms > self.min_rx_ms {
                self.min_rx_ms = min_rx_ms;
            }
            asks = true;
        }
        if old.decay_min_rx_ms != decay_min_rx_ms || old.min_rx_ms != min_rx_ms {
            self.is_in_decay = false;
            self.begin_decay(now);
            asks = true;
        }
        if old.cpath_down != self.config.cpath_down {
            self.set_state(now, self.state, diagnostic::NONE);
            asks = true;
        }
        if old.forwarding_if_rx != self.config.forwarding_if_rx {
            self.received_until = Instant::ZERO;
        }
        let is_other = old.forwarding_if_rx != self.config.forwarding_if_rx
            || old.multiplier != self.config.multiplier;
        if is_other && self.config.forwarding_if_rx && is_up {
            self.note_received(now);
        }
        if asks {
            self.poll_peer();
        }
        self.update_forwarding(now);
    }

    /// Whether the port may forward packets.
    pub fn is_forwarding(&self) -> bool {
        self.forced.unwrap_or(self.forwarding)
    }

    /// Makes the port forward or not whatever the session says, or ends that.
    pub fn set_forwarding(&mut self, now: Instant, forced: Option<bool>) {
        self.forced = forced;
        self.is_changed = true;
        self.update_forwarding(now);
    }

    /// The session's discriminator.
    pub fn discriminator(&self) -> u32 {
        self.discriminator
    }

    /// The session's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the status changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Takes what the log should say.
    pub fn take_lines(&mut self) -> Vec<Line> {
        self.lines.take()
    }

    /// Returns the packet to send, if one is due, for a port with this address.
    pub fn send(&mut self, now: Instant, mac: MacAddr) -> Option<Frame> {
        if self.flags & flag::FINAL == 0 && now < self.next_tx {
            return None;
        }
        self.tell_delay(now);
        let (min_tx_ms, min_rx_ms) = match self.is_polling() {
            true => (self.polled_tx_ms, self.polled_rx_ms),
            false => (self.own_min_tx_ms(), self.min_rx_ms),
        };
        let control = Control {
            version: VERSION,
            diagnostic: self.diagnostic,
            state: self.state,
            flags: self.flags,
            multiplier: self.config.multiplier,
            length: LENGTH as u8,
            own: self.discriminator,
            other: self.remote.discriminator,
            min_tx_us: min_tx_ms.saturating_mul(1000),
            min_rx_us: min_rx_ms.saturating_mul(1000),
            min_echo_rx_us: 0,
        };
        self.flags &= !flag::FINAL;
        self.last_tx = now;
        self.set_next_tx();
        let source = self.config.local_source.unwrap_or(mac);
        let destination = self.config.local_destination.unwrap_or(DESTINATION_MAC);
        let ips = [self.config.source, self.config.destination];
        let bytes = control.frame([source, destination], ips, self.source_port);
        Some(Frame { bytes, oam: self.config.oam })
    }

    fn set_state(&mut self, now: Instant, state: State, diagnostic: u8) {
        let diagnostic = match self.config.cpath_down {
            true => diagnostic::CONCATENATED_PATH_DOWN,
            false => diagnostic,
        };
        if self.state == state && self.diagnostic == diagnostic {
            return;
        }
        let before = (self.state, self.diagnostic);
        self.lines.add(Level::Info, || text::state_change(&self.name, before, (state, diagnostic)));
        (self.state, self.diagnostic) = (state, diagnostic);
        if state <= State::Down {
            let multiplier = self.remote.multiplier;
            self.remote =
                Remote { state: State::Down, min_rx_ms: 1, multiplier, ..Remote::default() };
            if self.is_in_decay {
                self.min_rx_ms = self.config.min_rx_ms;
                self.is_in_decay = false;
            }
        }
        if state == State::Up && self.config.decay_min_rx_ms > 0 {
            self.begin_decay(now);
        }
        self.is_changed = true;
    }

    /// Updates whether the port forwards, and counts changes.
    fn update_forwarding(&mut self, now: Instant) {
        let is_receiving =
            self.config.forwarding_if_rx && self.received_until > now && self.control_until > now;
        let is_path_down = matches!(
            self.remote.diagnostic,
            diagnostic::PATH_DOWN
                | diagnostic::CONCATENATED_PATH_DOWN
                | diagnostic::REVERSE_CONCATENATED_PATH_DOWN
        );
        let forwarding = (self.state == State::Up || is_receiving) && !is_path_down;
        if self.forced.is_none() && forwarding != self.forwarding {
            self.forwarding = forwarding;
            self.flap_count += 1;
            self.is_changed = true;
        }
    }

    /// Reports the number of packets that the port has received.
    pub fn count(&mut self, now: Instant, received: u64) {
        if received < self.received {
            // The counter belongs to another device.
            self.received = received;
            self.begin_decay(now);
        } else if received > self.received {
            self.received = received;
            if self.config.forwarding_if_rx {
                self.update_forwarding(now);
                self.note_received(now);
                self.update_forwarding(now);
            }
        }
    }

    /// Whether [`Self::count`] must be called now and then.
    pub fn needs_count(&self) -> bool {
        self.config.needs_count()
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
