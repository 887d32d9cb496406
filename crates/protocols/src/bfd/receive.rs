//! What a session does with a packet of its peer (RFC 5880 section 6.8.6).

use super::packet::VERSION;
use super::{Bfd, Control, LENGTH, NotControl, State, diagnostic, flag, ms, text};
use base::Instant;
use log::Level;

impl Bfd {
    /// Processes a received Ethernet frame. Returns whether it was accepted.
    pub fn receive(&mut self, now: Instant, frame: &[u8]) -> bool {
        let control = Control::in_frame(frame);
        if control == Err(NotControl::NoPayload) {
            return false;
        }
        self.decay_controls += 1;
        self.update_forwarding(now);
        let is_accepted = match control {
            Ok(control) => match self.refusal(&control) {
                None => {
                    self.accept(now, &control);
                    true
                }
                Some(words) => {
                    self.tell(Level::Warn, &control, words);
                    false
                }
            },
            Err(NotControl::Short(bytes)) => {
                let name = &self.name;
                self.lines.add(Level::Info, || {
                    format!(
                        "{name}: Received too-short BFD control message (only {bytes} bytes long, at least \
                         {LENGTH} required)."
                    )
                });
                false
            }
            Err(NotControl::Ttl | NotControl::NoPayload) => false,
        };
        self.update_forwarding(now);
        is_accepted
    }

    /// Why a packet is discarded.
    fn refusal(&self, control: &Control) -> Option<&'static str> {
        match control {
            _ if control.version != VERSION => Some("Incorrect version"),
            _ if control.flags & flag::AUTH != 0 => {
                Some("Authenticated control message with authentication disabled")
            }
            _ if usize::from(control.length) < LENGTH => Some("Unexpected length"),
            _ if control.multiplier == 0 => Some("Zero multiplier"),
            _ if control.flags & flag::MULTIPOINT != 0 => Some("Unsupported multipoint flag"),
            _ if control.own == 0 => Some("NULL my_disc"),
            _ if control.other == 0 && control.state > State::Down => Some("Null your_disc"),
            _ if control.other != 0 && control.other != self.discriminator => {
                Some("Incorrect your_disc")
            }
            _ => None,
        }
    }

    fn accept(&mut self, now: Instant, control: &Control) {
        self.is_changed |= self.remote.state != control.state;
        self.remote.discriminator = control.own;
        self.remote.state = control.state;
        self.remote.flags = control.flags;
        self.is_changed |= self.remote.diagnostic != control.diagnostic;
        self.remote.diagnostic = control.diagnostic;
        if control.flags & flag::FINAL != 0 && self.is_polling() {
            (self.min_tx_ms, self.min_rx_ms) = (self.polled_tx_ms, self.polled_rx_ms);
            self.flags &= !flag::POLL;
            self.tell(Level::Info, control, "Poll sequence terminated");
        }
        if control.flags & flag::POLL != 0 {
            // No packet has both flags (RFC 5880 section 6.5).
            self.flags = self.flags & !flag::POLL | flag::FINAL;
        }
        if self.remote.multiplier != control.multiplier {
            let (name, before) = (&self.name, self.remote.multiplier);
            self.lines.add(Level::Info, || {
                let after = control.multiplier;
                format!("Interface {name} remote mult value {before} changed to {after}")
            });
            self.remote.multiplier = control.multiplier;
        }
        let min_rx_ms = (control.min_rx_us / 1000).max(1);
        if self.remote.min_rx_ms != min_rx_ms {
            self.remote.min_rx_ms = min_rx_ms;
            if self.next_tx != Instant::ZERO {
                self.set_next_tx();
            }
            self.tell(Level::Info, control, "New remote min_rx");
        }
        self.remote.min_tx_ms = (control.min_tx_us / 1000).max(1);
        let detection = self.rx_interval_ms() * u64::from(self.remote.multiplier);
        self.detect = now + ms(detection);
        self.follow(now, control);
        if self.config.forwarding_if_rx {
            self.control_until = now + ms(100 * u64::from(self.config.min_rx_ms));
        }
    }

    /// The state that follows from the peer's.
    fn follow(&mut self, now: Instant, control: &Control) {
        use State::{AdminDown, Down, Init, Up};
        match (self.state, control.state) {
            (AdminDown, _) | (Down, AdminDown) => {}
            (Init, AdminDown) => self.set_state(now, Down, diagnostic::REMOTE_DOWN),
            (Down, Down) => self.set_state(now, Init, self.diagnostic),
            (Down, Init) | (Init, Init | Up) => self.set_state(now, Up, self.diagnostic),
            (Up, AdminDown | Down) => {
                self.set_state(now, Down, diagnostic::REMOTE_DOWN);
                self.tell(Level::Info, control, "Remote signaled STATE_DOWN");
            }
            (Down, Up) | (Init, Down) | (Up, Init | Up) => {}
        }
    }

    /// Logs a packet with what is said about it.
    fn tell(&mut self, level: Level, control: &Control, words: &str) {
        let name = &self.name;
        self.lines.add(level, || text::packet(name, words, control));
    }
}
