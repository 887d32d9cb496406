//! TCP connections whose windows a device checks.
//!
//! The device starts with the connection's windows and advances them with the segments that it forwards. The
//! connection takes over the device's windows when they are read: at intervals while the device forwards, and
//! at the end. In between, the device marks each segment that it leaves to the switch if it is within the
//! windows ([`flow::MARK_IN_WINDOW`]).

use crate::conntrack::offloaded::Offloaded;
use crate::key::Key;
use crate::record::{Kind, Record, State, passed_ms};
use base::Instant;
use flow::{ConnectionRef, TcpWindows};

/// A connection whose windows a device keeps. Unlike a [`ConnectionRef`], it identifies the same connection
/// after a change of its mark or label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowsKept {
    id: u32,
    original: Key,
    start: Instant,
    /// The original side's `sent_end` when the device started.
    begun_at: u32,
}

impl WindowsKept {
    /// The number that the connection has in a [`ConnectionRef`].
    pub fn id(&self) -> u32 {
        self.id
    }
}

impl Offloaded<'_> {
    /// Returns the windows of a TCP connection for a device to check. They are not checked
    /// ([`TcpWindows::is_checked`]) if the settings or an earlier offload of the connection exclude it.
    pub fn windows(&self, connection: ConnectionRef) -> Option<(WindowsKept, TcpWindows)> {
        let record = self.living(connection)?;
        if record.state().kind() != Kind::Tcp {
            return None;
        }
        let [mut original, reply] = record.tcp().windows()?;
        // If the original side has sent no data, this is the number of its SYN, which takes one sequence
        // number.
        original.sent_end = original.sent_end.wrapping_add(1);
        let is_checked = self.checks(&record);
        let kept = WindowsKept {
            id: connection.id,
            original: record.original(),
            start: record.birth().start,
            begun_at: original.sent_end,
        };
        Some((kept, TcpWindows { original, reply, is_checked }))
    }

    /// Advances a connection's windows to those of a device.
    pub fn advance(&self, kept: &WindowsKept, windows: &TcpWindows) {
        let Some(record) = self.kept(kept) else { return };
        record.change_tcp(|before| {
            let mut windows = [windows.original, windows.reply];
            if windows[0].sent_end == kept.begun_at {
                windows[0].sent_end = before.original.sent_end;
            }
            before.advanced(&windows)
        });
    }

    /// Stops checking windows, because the device is about to hand them over. Returns whether they were checked.
    #[must_use]
    pub fn loosen(&self, kept: &WindowsKept) -> bool {
        let Some(record) = self.kept(kept) else { return false };
        let mut seen = record.state();
        while !seen.has_any(State::LOOSE) {
            match record.replace_state(seen, seen.loose()) {
                Ok(()) => return true,
                Err(changed) => seen = changed,
            }
        }
        false
    }

    /// Checks windows again.
    pub fn tighten(&self, kept: &WindowsKept) {
        let Some(record) = self.kept(kept) else { return };
        let mut seen = record.state();
        while seen.has_any(State::LOOSE) {
            match record.replace_state(seen, seen.strict()) {
                Ok(()) => break,
                Err(changed) => seen = changed,
            }
        }
    }

    /// Returns whether segments of a connection outside its windows are invalid.
    pub fn checks_windows(&self, kept: &WindowsKept) -> bool {
        self.kept(kept).is_some_and(|record| self.checks(&record))
    }

    fn checks(&self, record: &Record<'_>) -> bool {
        self.settings.check_tcp_windows && !record.state().has_any(State::LOOSE)
    }

    fn kept(&self, kept: &WindowsKept) -> Option<Record<'_>> {
        let record = self.connections.record(kept.id);
        let state = record.state();
        let is_same = state.kind() == Kind::Tcp
            && state.header() == self.connections.zones.number(record.zone())
            && record.original() == kept.original
            && record.birth().start == kept.start;
        (is_same && !record.life().is_over(passed_ms(self.now))).then_some(record)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
