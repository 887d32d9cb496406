//! What the log tells of a bridge that fails open.

use std::time::Duration;

/// How often the log tells that a bridge still fails open.
const STILL_OPEN: Duration = Duration::from_secs(60);

/// What was logged of a bridge that fails open: how long it had been without a controller; zero if it does not.
#[derive(Default)]
pub struct FailOpenLog(Duration);

impl FailOpenLog {
    /// Logs a change, and once a minute that there is none (ovs: `ofproto/fail-open.c`).
    pub fn tell(&mut self, bridge: &str, fail_open: bool, alone: Duration) {
        let seconds = alone.as_secs();
        match (self.0.is_zero(), fail_open) {
            (true, true) => log::warn!(
                target: "fail_open",
                "bridge {bridge}: Could not connect to controller (or switch failed controller's \
                 post-connection admission control policy) for {seconds} seconds, failing open"
            ),
            (false, true) if alone >= self.0 + STILL_OPEN => log::info!(
                target: "fail_open",
                "bridge {bridge}: Still in fail-open mode after {seconds} seconds disconnected from \
                 controller"
            ),
            (false, true) => return,
            (false, false) => {
                log::warn!(target: "fail_open", "bridge {bridge}: No longer in fail-open mode");
            }
            (true, false) => {}
        }
        self.0 = if fail_open { alone } else { Duration::ZERO };
    }
}
