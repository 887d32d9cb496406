//! Windows kept by a device: those that it starts with, and those that the connection takes over.

use super::{Peer, Scale, TcpPeers, at_or_after};
use flow::TcpWindow;

impl TcpPeers {
    /// Returns the windows of both sides; `None` if the shifts of both are unknown, because no SYN was seen.
    pub fn windows(&self) -> Option<[TcpWindow; 2]> {
        let sides = [self.original, self.reply];
        if sides.iter().all(|side| side.scale == Scale::UNKNOWN) {
            return None;
        }
        // Windows are scaled only if both sides offered it (RFC 7323 section 1.3).
        let is_scaled = sides.iter().all(|side| side.scale.is_known());
        Some(sides.map(|side| {
            let shift = if is_scaled { side.scale.shift() } else { 0 };
            TcpWindow {
                sent_end: side.sent_end,
                allowed_end: side.allowed_end,
                max_window: u32::from(side.max_window) << shift,
                scale: is_scaled.then_some(shift),
            }
        }))
    }

    /// Returns both sides advanced to the windows of a device. No value moves backwards, so segments that
    /// passed the switch meanwhile are included.
    pub fn advanced(&self, windows: &[TcpWindow; 2]) -> TcpPeers {
        let [original, reply] = windows;
        TcpPeers { original: self.original.advanced(original), reply: self.reply.advanced(reply) }
    }
}

impl Peer {
    fn advanced(self, to: &TcpWindow) -> Peer {
        let later = |seen: u32, new: u32| if at_or_after(new, seen) { new } else { seen };
        let window = to.max_window.div_ceil(1 << to.scale.unwrap_or(0).min(super::SCALE_MAX));
        Peer {
            sent_end: later(self.sent_end, to.sent_end),
            allowed_end: later(self.allowed_end, to.allowed_end),
            max_window: self.max_window.max(u16::try_from(window).unwrap_or(u16::MAX)),
            ..self
        }
    }
}
