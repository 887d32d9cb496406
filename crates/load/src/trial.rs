//! One trial of one rate: ramp up, settle, sample, drain, and account for everything.

use crate::endpoints::{Counted, Endpoints};
use crate::error::LoadError;
use base::Instant;
use generator::search::{Sample, Window};
use std::time::Duration;

/// A source of time.
pub trait Clock {
    /// Returns the current time.
    fn now(&self) -> Instant;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wall;

impl Clock for Wall {
    fn now(&self) -> Instant {
        clock::now()
    }
}

/// The durations and limits of a trial.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections per second; `None` opens as many as the hosts have capacity for.
    pub rate: Option<f64>,
    /// Linear rise to that rate.
    pub ramp: Duration,
    /// The rate has settled when packets sent in two successive windows differ by less than 1%.
    pub settle_window: Duration,
    /// A connection's whole life; the rate is constant for at least this long before the sample.
    pub lifetime: Duration,
    /// The part from which rates are computed.
    pub sample: Duration,
    /// Limits that end the trial early, because its verdict is certain; `None` never ends it early.
    pub limits: Option<Limits>,
    /// Connections that have not ended this long after the last one was opened are given up.
    pub drain: Duration,
}

/// Shares, 0 to 1, above which the trial ends early.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Failed connections, as a share of those opened.
    pub failed: f64,
    /// Lost packets, as a share of those sent.
    pub lost: f64,
    /// Opens for which the generator was too late, as a share of all connections to open.
    pub missed: f64,
    /// Whether connections are then ended at once, because the device can remove them; otherwise the trial
    /// waits for them.
    pub cut: bool,
}

/// The phases of a trial, as the live line names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The rate rises.
    Ramp,
    /// The rate is constant, and the packet rate follows.
    Settle,
    /// Rates are measured.
    Sample,
    /// No further connections are opened; those alive end, and packets under way arrive.
    Drain,
}

impl Phase {
    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Ramp => "ramp",
            Phase::Settle => "settle",
            Phase::Sample => "sample",
            Phase::Drain => "drain",
        }
    }
}

/// Most windows to wait for a settled rate; after them the sample starts anyhow.
const SETTLE_WINDOWS: u32 = 5;
/// Interval of checks other than of packets.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Interval of progress reports, and the minimum time at a constant rate before the trial may end early.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// The trial ends when no packet has moved for this long.
const QUIET: Duration = Duration::from_millis(20);
/// Most time to wait for packets of connections that were cut short.
const LATE: Duration = Duration::from_secs(1);
/// Most time that an interrupted trial waits for connections to end.
const INTERRUPTED: Duration = Duration::from_secs(2);
/// Full queues in which a packet may wait: one of each port in both directions.
const QUEUES: u64 = 4;
/// Assumed capacity of a queue of an unknown device, in packets.
const QUEUE_PACKETS: u64 = 4096;

/// Counters at one moment.
#[derive(Clone, Debug)]
struct Reading {
    at: Instant,
    workers: usize,
    all: Counted,
}

impl Reading {
    fn take(endpoints: &Endpoints, at: Instant) -> Reading {
        Reading { at, workers: endpoints.workers(), all: endpoints.counted() }
    }

    /// Returns the difference between two readings.
    fn window(&self, before: &Reading, active: usize) -> Window {
        let client = self.all.client.since(&before.all.client);
        let server = self.all.server.since(&before.all.server);
        let seconds = (self.at - before.at).as_secs_f64();
        let worker_ns = self.workers as f64 * seconds.max(1e-9) * 1e9;
        let share = |now: u64, then: u64| (now - then) as f64 / worker_ns;
        Window {
            seconds,
            opened: client.opened,
            completed: client.completed,
            active: active as u64,
            tx_packets: client.tx_packets + server.tx_packets,
            tx_bytes: client.tx_bytes + server.tx_bytes,
            rx_packets: client.rx_packets + server.rx_packets,
            rx_bytes: client.rx_bytes + server.rx_bytes,
            payload_bytes: client.acknowledged_bytes + client.rx_payload_bytes,
            client_packets: client.tx_packets + client.rx_packets,
            busy: share(self.all.busy_ns, before.all.busy_ns),
            behind: Some(share(self.all.behind_ns, before.all.behind_ns)),
        }
    }
}

/// A progress report of a running trial.
pub struct Live {
    /// The current phase.
    pub phase: Phase,
    /// Counters since the previous report.
    pub window: Window,
}

/// The clock and callbacks of a trial.
pub struct Watch<'a> {
    /// The clock.
    pub clock: &'a dyn Clock,
    /// Called about once per second.
    pub live: &'a mut dyn FnMut(&Live),
    /// Returns whether to end early.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// A running trial.
pub struct Trial<'a, 'b> {
    endpoints: &'a mut Endpoints,
    plan: &'a Plan,
    watch: &'a mut Watch<'b>,
    start: Reading,
    told: Reading,
    /// The counters when the rate became constant.
    stands: Reading,
    active_most: usize,
    /// Whether a limit was exceeded.
    is_over: bool,
}

impl<'a, 'b> Trial<'a, 'b> {
    /// Starts to open connections.
    pub fn start(endpoints: &'a mut Endpoints, plan: &'a Plan, watch: &'a mut Watch<'b>) -> Self {
        let now = watch.clock.now();
        let start = Reading::take(endpoints, now);
        if let Some(rate) = plan.rate {
            endpoints.open_at((rate.round() as u64).max(1), plan.ramp.as_millis() as u64, now);
        }
        let (told, stands) = (start.clone(), start.clone());
        Trial { endpoints, plan, watch, start, told, stands, active_most: 0, is_over: false }
    }

    /// Runs the trial to its end or its limits. An interrupted trial is accounted for too.
    pub fn run(mut self) -> Result<Sample, LoadError> {
        self.pass(Phase::Ramp, self.plan.ramp)?;
        self.stands = Reading::take(self.endpoints, self.watch.clock.now());
        self.settle()?;
        let began = Reading::take(self.endpoints, self.watch.clock.now());
        self.pass(Phase::Sample, self.plan.sample)?;
        let ended = Reading::take(self.endpoints, self.watch.clock.now());
        // A trial may end early soon after its sample began: its rates then cover all the time at the
        // constant rate.
        let began = if self.is_over { &self.stands } else { &began };
        let window = ended.window(began, self.active_most);
        self.drain()?;
        let sample = self.account(window);
        self.endpoints.abort_all();
        Ok(sample)
    }

    /// Iterates for this long. Ends early when interrupted, and when a limit is exceeded at the constant
    /// rate.
    fn pass(&mut self, phase: Phase, time: Duration) -> Result<(), LoadError> {
        let start = self.watch.clock.now();
        let mut look = start;
        loop {
            let now = self.watch.clock.now();
            if now - start >= time || self.is_over {
                return Ok(());
            }
            self.endpoints.iterate_and_rest(now)?;
            if now - look >= LOOK_EVERY {
                look = now;
                let active = self.endpoints.active();
                let most = if phase == Phase::Sample { self.active_most } else { 0 };
                self.active_most = most.max(active);
                let stood =
                    if phase == Phase::Ramp { Duration::ZERO } else { now - self.stands.at };
                if self.tell(phase, now) && stood >= TOLD_EVERY {
                    self.is_over = self.plan.limits.is_some_and(|it| self.is_beyond(&it));
                }
                if (self.watch.interrupted)() {
                    return Ok(());
                }
            }
        }
    }

    /// Reports progress once per second. Returns whether it did.
    fn tell(&mut self, phase: Phase, now: Instant) -> bool {
        let is_over = now - self.told.at >= TOLD_EVERY;
        if is_over {
            let reading = Reading::take(self.endpoints, now);
            let window = reading.window(&self.told, self.endpoints.active());
            (self.watch.live)(&Live { phase, window });
            self.told = reading;
        }
        is_over
    }

    fn settle(&mut self) -> Result<(), LoadError> {
        let window = self.plan.settle_window;
        self.pass(Phase::Settle, self.plan.lifetime)?;
        if window.is_zero() {
            return Ok(());
        }
        let tx = |trial: &Self| {
            let all = trial.endpoints.counted();
            all.client.tx_packets + all.server.tx_packets
        };
        let mut before: Option<u64> = None;
        for _ in 0..SETTLE_WINDOWS {
            let from = tx(self);
            self.pass(Phase::Settle, window)?;
            let sent = tx(self) - from;
            // Small numbers of packets vary by more than 1%.
            let allowed = (sent as f64 * 0.01).max(2.0 * (sent as f64).sqrt());
            if before.is_some_and(|before| sent.abs_diff(before) as f64 <= allowed) {
                break;
            }
            before = Some(sent);
        }
        Ok(())
    }

    /// Returns whether a limit is exceeded. Packets that may be under way do not count as lost.
    fn is_beyond(&self, limits: &Limits) -> bool {
        let all = &self.told.all;
        let client = all.client.since(&self.start.all.client);
        let server = all.server.since(&self.start.all.server);
        let queue = self.endpoints.queue_packets.unwrap_or(QUEUE_PACKETS);
        let sent = client.sent() + server.sent();
        let under_way = QUEUES * queue * self.endpoints.workers() as u64;
        let gone = sent.saturating_sub(client.received() + server.received() + under_way);
        let plan = self.plan;
        let stands = plan.lifetime + plan.settle_window * SETTLE_WINDOWS + plan.sample;
        let to_open = plan.rate.unwrap_or(0.0) * (plan.ramp / 2 + stands).as_secs_f64();
        let more = |part: u64, share: f64, of: f64| part > 0 && part as f64 > share * of;
        more(client.failed.total(), limits.failed, client.opened as f64)
            || more(gone, limits.lost, sent as f64)
            || more(all.missed - self.start.all.missed, limits.missed, to_open)
    }

    /// Stops opening connections, and waits until all have ended and no packet moves.
    fn drain(&mut self) -> Result<(), LoadError> {
        self.endpoints.stop_opening();
        let at_once = self.is_over && self.plan.limits.is_some_and(|it| it.cut);
        let is_cut = at_once || self.wait_for_ends()?;
        if is_cut {
            self.endpoints.abort_all();
            let start = self.watch.clock.now();
            self.wait_until(&mut |_, quiet, now| quiet || now - start >= LATE)?;
        }
        Ok(())
    }

    /// Waits for connections to end. Returns whether to cut off those that have not, after an interrupt.
    fn wait_for_ends(&mut self) -> Result<bool, LoadError> {
        let start = self.watch.clock.now();
        let mut interrupted = None;
        self.wait_until(&mut |trial, quiet, now| {
            if interrupted.is_none() && (trial.watch.interrupted)() {
                interrupted = Some(now);
            }
            let is_asked = interrupted.is_some_and(|since| now - since >= INTERRUPTED);
            quiet && trial.endpoints.alive() == 0 || is_asked || now - start >= trial.plan.drain
        })?;
        Ok(interrupted.is_some() && self.endpoints.alive() > 0)
    }

    /// Iterates until `is_so` returns true. Its second argument is whether no packet has moved for [`QUIET`].
    fn wait_until(
        &mut self,
        is_so: &mut dyn FnMut(&Self, bool, Instant) -> bool,
    ) -> Result<(), LoadError> {
        let start = self.watch.clock.now();
        let (mut quiet_since, mut look) = (start, start);
        loop {
            let now = self.watch.clock.now();
            if self.endpoints.iterate_and_rest(now)? > 0 {
                quiet_since = now;
            }
            if is_so(self, now - quiet_since >= QUIET, now) {
                return Ok(());
            }
            if now - look >= LOOK_EVERY {
                look = now;
                self.tell(Phase::Drain, now);
            }
        }
    }

    fn account(&self, window: Window) -> Sample {
        let end = Reading::take(self.endpoints, self.watch.clock.now());
        let (end, start) = (end.all, &self.start.all);
        let client = end.client.since(&start.client);
        let server = end.server.since(&start.server);
        let mut sample =
            Sample { offered: self.plan.rate.unwrap_or(0.0), window, ..Sample::default() };
        let alive = if self.endpoints.client.is_some() { self.endpoints.active() } else { 0 };
        sample.count(&client, &server, alive, end.missed - start.missed);
        sample.port_errors = end.errors - start.errors;
        sample.port_drops = end.drops - start.drops;
        sample.ended_early = self.is_over;
        sample.stall_ns = end.stall_ns;
        sample.queue_packets = self.endpoints.queue_packets;
        sample
    }
}

#[cfg(test)]
mod tests;
