//! Rate limits for repeated messages.

use super::{Level, Vlog, lock};
use base::Instant;
use std::sync::Mutex;

/// Logs a message that another party can cause: at most so many per minute, and so many at once. Each place has a
/// limit of its own.
///
/// ```ignore
/// vlog::limited!((5, 5), clock::now(), target: "bridge", Level::Warn, "{name}: no such port");
/// ```
#[macro_export]
macro_rules! limited {
    (($per_minute:expr, $burst:expr), $now:expr, target: $target:expr, $level:expr, $($words:tt)+) => {{
        static LIMIT: $crate::RateLimit = $crate::RateLimit::new($per_minute, $burst);
        if LIMIT.admits($target, $level, $now) {
            log::log!(target: $target, $level, $($words)+);
        }
    }};
}

/// Admits a number of messages per minute, and logs now and then how many it suppressed.
#[derive(Debug)]
pub struct RateLimit {
    /// Tokens earned per millisecond.
    rate: u64,
    /// Maximum number of tokens.
    burst: u64,
    state: Mutex<State>,
}

/// Tokens per message: one token per millisecond is then one message per minute (ovs:
/// include/openvswitch/vlog.h).
const MESSAGE_TOKENS: u64 = 60_000;

#[derive(Debug)]
struct State {
    tokens: u64,
    last_fill: Option<Instant>,
    dropped: Option<Dropped>,
}

/// The messages suppressed since the last one was admitted.
#[derive(Debug, Clone, Copy)]
struct Dropped {
    count: u32,
    first: Instant,
    last: Instant,
}

impl RateLimit {
    /// Admits `per_minute` messages per minute, and `burst` at once.
    pub const fn new(per_minute: u32, burst: u32) -> Self {
        RateLimit {
            rate: per_minute as u64,
            burst: burst as u64 * MESSAGE_TOKENS,
            state: Mutex::new(State { tokens: 0, last_fill: None, dropped: None }),
        }
    }

    /// Returns whether a message may be logged now. If messages were suppressed before, logs their number.
    pub fn admits(&self, target: &str, level: log::Level, now: Instant) -> bool {
        let Some(vlog) = super::installed() else { return true };
        self.admits_to(vlog, target, level, now)
    }

    pub(crate) fn admits_to(
        &self,
        vlog: &Vlog,
        target: &str,
        level: log::Level,
        now: Instant,
    ) -> bool {
        if !vlog.honors_rate_limits(target) {
            return true;
        }
        let metadata = log::Metadata::builder().level(level).target(target).build();
        if !log::Log::enabled(vlog, &metadata) {
            return false;
        }
        let mut state = lock(&self.state);
        if !state.withdraw(self.rate, self.burst, now) {
            let dropped = state.dropped.get_or_insert(Dropped { count: 0, first: now, last: now });
            dropped.count = dropped.count.saturating_add(1);
            dropped.last = now;
            return false;
        }
        let dropped = state.dropped.take();
        drop(state);
        if let Some(dropped) = dropped {
            vlog.message(target, Level::from(level), format_args!("{}", dropped.words(now)));
        }
        true
    }
}

impl State {
    /// Takes the tokens of one message, if there are enough (ovs: lib/token-bucket.c).
    fn withdraw(&mut self, rate: u64, burst: u64, now: Instant) -> bool {
        if self.tokens < MESSAGE_TOKENS {
            let earned = match self.last_fill {
                Some(last) => rate.saturating_mul(now.as_millis().saturating_sub(last.as_millis())),
                None => burst,
            };
            self.tokens = self.tokens.saturating_add(earned).min(burst);
            self.last_fill = Some(now);
        }
        match self.tokens.checked_sub(MESSAGE_TOKENS) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

impl Dropped {
    fn words(&self, now: Instant) -> String {
        let ago_s = |then: Instant| now.as_secs().saturating_sub(then.as_secs());
        format!(
            "Dropped {} log messages in last {} seconds (most recently, {} seconds ago) \
             due to excessive rate",
            self.count,
            ago_s(self.first),
            ago_s(self.last)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn bursts_pass_then_a_few_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        let vlog = Vlog::new("p", PathBuf::new(), |_| 0);
        vlog.set("console:off").unwrap();
        vlog.set("syslog:off").unwrap();
        vlog.set("PATTERN:file:%p|%m").unwrap();
        vlog.open_file(Some(&path)).unwrap();

        let limit = RateLimit::new(6, 2);
        let admits =
            |ms: u64| limit.admits_to(&vlog, "bridge", log::Level::Warn, Instant::from_millis(ms));
        // Six per minute are one in ten seconds.
        let times = [1, 1, 1, 5_000, 10_001, 10_002, 13_000, 20_001, 20_002, 200_000];
        let expect = [true, true, false, false, true, false, false, true, false, true];
        assert_eq!(times.map(admits), expect);
        let told = std::fs::read_to_string(&path).unwrap();
        let told: Vec<&str> = told.lines().skip(1).collect();
        let dropped = |n: u32, first: u32, last: u32| {
            format!(
                "WARN|Dropped {n} log messages in last {first} seconds (most recently, {last} \
                 seconds ago) due to excessive rate"
            )
        };
        assert_eq!(told, [dropped(2, 10, 5), dropped(2, 10, 7), dropped(1, 180, 180)]);

        assert!(!admits(200_000) || !admits(200_000));
        assert!(vlog.set_rate_limits(Some("BRIDGE"), false));
        assert!(admits(200_000) && admits(200_000));
        assert!(vlog.set_rate_limits(None, true));
        assert!(!admits(200_000));
        assert!(!vlog.set_rate_limits(Some("nosuch"), false));
    }
}
