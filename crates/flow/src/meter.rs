//! Meters: rate limits for the packets of flows (OpenFlow 1.3.5 section 5.7).
//!
//! Every band is a token bucket. A packet for which buckets have too few tokens belongs to the band with the
//! highest rate among these, which drops it: all bands drop (ovs: `lib/dpif-netdev.c`,
//! `dp_netdev_run_meter`).

use base::Instant;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A band of a meter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MeterBand {
    /// Packets or kilobits per second.
    pub rate: u32,
    /// The burst size in packets or kilobits; 0 means the amount of one second.
    pub burst: u32,
}

/// The configuration of a meter.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct MeterConfig {
    /// Rates are in packets; otherwise in kilobits.
    pub is_packets: bool,
    /// Bands have burst sizes; otherwise the burst is the amount of one second.
    pub has_burst: bool,
    /// The bands.
    pub bands: Vec<MeterBand>,
}

/// Counters of packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterCount {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl MeterCount {
    fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

#[derive(Debug)]
struct State {
    config: MeterConfig,
    /// When the buckets were last filled.
    filled: Option<Instant>,
    /// The tokens of each band, in thousandths of packets or in bits. A rate in packets or kilobits per
    /// second is the same number of these per millisecond.
    tokens: Vec<u64>,
    seen: MeterCount,
    dropped: Vec<MeterCount>,
}

/// A meter, shared by all workers. Its lock is held for one batch at a time.
#[derive(Debug)]
pub struct Meter {
    number: u32,
    state: Mutex<State>,
}

impl Meter {
    /// Creates a meter with full buckets. `number` is its number in dumps.
    pub fn new(number: u32, config: MeterConfig) -> Self {
        let state = State {
            tokens: full(&config),
            dropped: vec![MeterCount::default(); config.bands.len()],
            config,
            filled: None,
            seen: MeterCount::default(),
        };
        Meter { number, state: Mutex::new(state) }
    }

    /// Returns its number in dumps.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Changes the configuration, fills the buckets and clears the counters.
    pub fn set(&self, config: MeterConfig) {
        let mut state = self.lock();
        state.tokens = full(&config);
        state.dropped = vec![MeterCount::default(); config.bands.len()];
        state.seen = MeterCount::default();
        state.config = config;
    }

    /// Returns the counters of the meter and of what each band dropped.
    pub fn counts(&self) -> (MeterCount, Vec<MeterCount>) {
        let state = self.lock();
        (state.seen, state.dropped.clone())
    }

    /// Meters packets of these lengths, in order. Calls `pass` for each, with whether it passes.
    pub fn judge(
        &self,
        now: Instant,
        bytes: impl IntoIterator<Item = usize>,
        mut pass: impl FnMut(bool),
    ) {
        let mut state = self.lock();
        state.fill(now);
        for bytes in bytes {
            pass(state.admits(bytes));
        }
    }

    /// A thread that panicked while it held the lock left valid numbers.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the capacity of a band's bucket.
fn room(config: &MeterConfig, band: &MeterBand) -> u64 {
    let most = if config.has_burst && band.burst != 0 { band.burst } else { band.rate };
    u64::from(most) * 1000
}

fn full(config: &MeterConfig) -> Vec<u64> {
    config.bands.iter().map(|band| room(config, band)).collect()
}

impl State {
    /// Adds the tokens since the last call. Fractions of a millisecond count in the next call.
    fn fill(&mut self, now: Instant) {
        let last = *self.filled.get_or_insert(now);
        let past_ms = now.saturating_since(last).as_millis() as u64;
        self.filled = Some(last + Duration::from_millis(past_ms));
        for (tokens, band) in self.tokens.iter_mut().zip(&self.config.bands) {
            let more = past_ms.saturating_mul(band.rate.into());
            *tokens = tokens.saturating_add(more).min(room(&self.config, band));
        }
    }

    /// Every bucket with enough tokens loses them, even if another bucket has too few.
    fn admits(&mut self, bytes: usize) -> bool {
        self.seen.add(bytes);
        let cost = if self.config.is_packets { 1000 } else { bytes as u64 * 8 };
        let mut exceeded: Option<(u32, usize)> = None;
        for (at, (band, tokens)) in self.config.bands.iter().zip(&mut self.tokens).enumerate() {
            match tokens.checked_sub(cost) {
                Some(left) => *tokens = left,
                None if exceeded.is_none_or(|(rate, _)| band.rate > rate) => {
                    exceeded = Some((band.rate, at));
                }
                None => {}
            }
        }
        if let Some((_, at)) = exceeded {
            self.dropped[at].add(bytes);
        }
        exceeded.is_none()
    }
}

/// A reference to a meter in a flow's actions. Two are equal if they refer to the same meter.
#[derive(Clone, Debug)]
pub struct MeterRef(pub Arc<Meter>);

impl PartialEq for MeterRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for MeterRef {}

impl Hash for MeterRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.number.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(is_packets: bool, bands: &[(u32, u32)]) -> Meter {
        let bands = bands.iter().map(|&(rate, burst)| MeterBand { rate, burst }).collect();
        Meter::new(1, MeterConfig { is_packets, has_burst: true, bands })
    }

    /// Returns how many of `packets` pass at this time.
    fn passed(meter: &Meter, ms: u64, packets: usize, bytes: usize) -> usize {
        let mut count = 0;
        let all = std::iter::repeat_n(bytes, packets);
        meter.judge(Instant::from_millis(10_000 + ms), all, |is_passed| {
            count += usize::from(is_passed);
        });
        count
    }

    #[test]
    fn packets_pass_as_fast_as_the_rate_and_no_more_than_the_burst_at_once() {
        let packets = meter(true, &[(10, 5)]);
        // Ten packets per second: one more in each tenth of a second.
        for (ms, expect) in [(0, 5), (0, 0), (99, 0), (100, 1), (300, 2), (10_000, 5)] {
            assert_eq!(passed(&packets, ms, 20, 64), expect, "{ms} ms");
        }
        let (seen, dropped) = packets.counts();
        assert_eq!((seen.packets, seen.bytes), (120, 120 * 64));
        assert_eq!(dropped[0].packets, 120 - 13);
    }

    #[test]
    fn bits_are_counted_in_thousands() {
        // 8 kbit/s: 1000 bytes per second.
        let bits = meter(false, &[(8, 0)]);
        for (ms, expect) in [(0, 10), (50, 0), (100, 1), (2_000, 10)] {
            assert_eq!(passed(&bits, ms, 20, 100), expect, "{ms} ms");
        }
    }

    #[test]
    fn the_band_with_the_highest_rate_that_is_exceeded_counts() {
        let two = meter(true, &[(1, 1), (3, 3)]);
        assert_eq!(passed(&two, 0, 5, 64), 1);
        let (_, dropped) = two.counts();
        assert_eq!([dropped[0].packets, dropped[1].packets], [2, 2]);
        let none = meter(true, &[]);
        assert_eq!(passed(&none, 0, 5, 64), 5);
        none.set(MeterConfig {
            is_packets: true,
            has_burst: false,
            bands: vec![MeterBand { rate: 2, burst: 9 }],
        });
        assert_eq!(passed(&none, 0, 5, 64), 2);
        assert_eq!(none.counts().0.packets, 5);
    }
}
