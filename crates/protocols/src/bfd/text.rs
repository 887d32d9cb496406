//! A session as commands and the database show it (ovs: `lib/bfd.c`, `bfd_put_details`).

use super::{Bfd, Control, State, flag};
use base::Instant;
use std::fmt::Write;

/// The names of flags, in the order in which they are printed.
const FLAGS: [(u8, &str); 6] = [
    (flag::MULTIPOINT, "multipoint"),
    (flag::DEMAND, "demand"),
    (flag::AUTH, "auth"),
    (flag::CTL, "ctl"),
    (flag::FINAL, "final"),
    (flag::POLL, "poll"),
];

fn flags(flags: u8) -> String {
    let names = FLAGS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name);
    let names = names.collect::<Vec<_>>().join(" ");
    if names.is_empty() { "none".to_owned() } else { names }
}

fn diagnostic(number: u8) -> &'static str {
    match number {
        0 => "No Diagnostic",
        1 => "Control Detection Time Expired",
        2 => "Echo Function Failed",
        3 => "Neighbor Signaled Session Down",
        4 => "Forwarding Plane Reset",
        5 => "Path Down",
        6 => "Concatenated Path Down",
        7 => "Administratively Down",
        8 => "Reverse Concatenated Path Down",
        _ => "Invalid Diagnostic",
    }
}

/// The log's line about another state.
pub(super) fn state_change(name: &str, before: (State, u8), after: (State, u8)) -> String {
    let text = |(state, number): (State, u8)| {
        let (state, diagnostic) = (state.name(), diagnostic(number));
        format!("(bfd.SessionState: {state}, bfd.LocalDiag: \"{diagnostic}\")")
    };
    format!("{name}: BFD state change: {} -> {}", text(before), text(after))
}

/// The log's lines about a packet.
pub(super) fn packet(name: &str, words: &str, control: &Control) -> String {
    let us = |us: u32| format!("{us}us ({}ms)", us / 1000);
    format!(
        "{name}: {words}.\n  vers:{} diag:\"{}\" state:{} mult:{} length:{}\n  flags: {}\n  \
         my_disc:{:#x} your_disc:{:#x}\n  min_tx:{}\n  min_rx:{}\n  min_rx_echo:{}",
        control.version,
        diagnostic(control.diagnostic),
        control.state.name(),
        control.multiplier,
        control.length,
        flags(control.flags),
        control.own,
        control.other,
        us(control.min_tx_us),
        us(control.min_rx_us),
        us(control.min_echo_rx_us),
    )
}

impl Bfd {
    /// Returns `Interface.bfd_status`.
    pub fn status(&self) -> [(&'static str, String); 6] {
        [
            ("forwarding", self.is_forwarding().to_string()),
            ("state", self.state.name().to_owned()),
            ("diagnostic", diagnostic(self.diagnostic).to_owned()),
            ("flap_count", self.flap_count.to_string()),
            ("remote_state", self.remote.state.name().to_owned()),
            ("remote_diagnostic", diagnostic(self.remote.diagnostic).to_owned()),
        ]
    }

    /// Returns the text of `bfd/show`.
    pub fn show(&self, now: Instant) -> String {
        let since = |time: Instant| time.as_millis() as i64 - now.as_millis() as i64;
        let remote = &self.remote;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "  Forwarding: {}\n  Detect Multiplier: {}\n  Concatenated Path Down: {}\n  \
             TX Interval: Approx {}ms\n  RX Interval: Approx {}ms\n  Detect Time: now {:+}ms\n  \
             Next TX Time: now {:+}ms\n  Last TX Time: now {:+}ms\n\n",
            self.is_forwarding(),
            self.config.multiplier,
            self.config.cpath_down,
            self.tx_interval_ms(),
            self.rx_interval_ms(),
            since(self.detect),
            since(self.next_tx),
            since(self.last_tx),
        );
        let _ = write!(
            text,
            "  Local Flags: {}\n  Local Session State: {}\n  Local Diagnostic: {}\n  \
             Local Discriminator: {:#x}\n  Local Minimum TX Interval: {}ms\n  \
             Local Minimum RX Interval: {}ms\n\n",
            flags(self.flags),
            self.state.name(),
            diagnostic(self.diagnostic),
            self.discriminator,
            self.own_min_tx_ms(),
            self.min_rx_ms,
        );
        let _ = write!(
            text,
            "  Remote Flags: {}\n  Remote Session State: {}\n  Remote Diagnostic: {}\n  \
             Remote Discriminator: {:#x}\n  Remote Minimum TX Interval: {}ms\n  \
             Remote Minimum RX Interval: {}ms\n  Remote Detect Multiplier: {}\n",
            flags(remote.flags),
            remote.state.name(),
            diagnostic(remote.diagnostic),
            remote.discriminator,
            remote.min_tx_ms,
            remote.min_rx_ms,
            remote.multiplier,
        );
        text
    }
}
