//! One trial of one rate: ramp up, settle, sample, drain, and account for everything.

use super::error::LoadError;
use super::sides::{Counted, Sides};
use base::Instant;
use generator::search::{Sample, Window};
use std::time::Duration;

/// Where time comes from.
pub trait Clock {
    /// Now.
    fn now(&self) -> Instant;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wall;

impl Clock for Wall {
    fn now(&self) -> Instant {
        crate::clock::now()
    }
}

/// How long a trial's parts last.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections a second; none: as many as the hosts have room for.
    pub rate: Option<f64>,
    /// Linear rise to that rate.
    pub ramp: Duration,
    /// The rate has settled when packets sent in two such times differ by less than 1%.
    pub settle_window: Duration,
    /// A connection's whole life; the rate stands at least so long before the sample.
    pub lifetime: Duration,
    /// The part that rates come from.
    pub sample: Duration,
    /// A look after this part of the sample ends it where it has failed already.
    pub first_look: Duration,
    /// Share of connections that may fail.
    pub allowed: f64,
    /// Connections that have not ended so long after the last one was opened are given up.
    pub drain: Duration,
}

/// The parts of a trial, as the live line names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The rate rises.
    Ramp,
    /// The rate stands, and packets follow.
    Settle,
    /// Rates are measured.
    Sample,
    /// Nothing is opened; what is on its way arrives.
    Drain,
}

impl Phase {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Ramp => "ramp",
            Phase::Settle => "settle",
            Phase::Sample => "sample",
            Phase::Drain => "drain",
        }
    }
}

/// Windows in which the rate may go on changing before it is sampled anyhow.
const SETTLE_WINDOWS: u32 = 5;
/// How often the trial looks at more than packets.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Nothing may move for so long before the trial is over.
const QUIET: Duration = Duration::from_millis(20);

/// Counters at one moment.
#[derive(Clone, Debug)]
struct Reading {
    at: Instant,
    workers: usize,
    all: Counted,
}

impl Reading {
    fn take(sides: &Sides, at: Instant) -> Reading {
        Reading { at, workers: sides.workers(), all: sides.counted() }
    }

    /// What lies between two readings.
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

/// What the trial tells while it runs.
pub struct Live {
    /// The part that it is in.
    pub phase: Phase,
    /// What was counted since it told the last time.
    pub window: Window,
}

/// Everything that a trial needs besides its plan.
pub struct Watch<'a> {
    /// Time.
    pub clock: &'a dyn Clock,
    /// Told about once a second.
    pub live: &'a mut dyn FnMut(&Live),
    /// Whether to end early.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// A trial on its way.
pub struct Trial<'a, 'b> {
    sides: &'a mut Sides,
    plan: &'a Plan,
    watch: &'a mut Watch<'b>,
    start: Reading,
    told: Reading,
    active_most: usize,
}

impl<'a, 'b> Trial<'a, 'b> {
    /// Begins to open connections.
    pub fn start(sides: &'a mut Sides, plan: &'a Plan, watch: &'a mut Watch<'b>) -> Self {
        let now = watch.clock.now();
        let start = Reading::take(sides, now);
        if let Some(rate) = plan.rate {
            sides.open_at((rate.round() as u64).max(1), plan.ramp.as_millis() as u64, now);
        }
        Trial { sides, plan, watch, told: start.clone(), start, active_most: 0 }
    }

    /// Runs it to its end; an interrupted one is drained and accounted for too.
    pub fn run(mut self) -> Result<Sample, LoadError> {
        self.pass(Phase::Ramp, self.plan.ramp)?;
        self.settle()?;
        let began = Reading::take(self.sides, self.watch.clock.now());
        let first = self.plan.first_look.min(self.plan.sample);
        self.pass(Phase::Sample, first)?;
        if !self.has_failed() {
            self.pass(Phase::Sample, self.plan.sample.saturating_sub(first))?;
        }
        let ended = Reading::take(self.sides, self.watch.clock.now());
        let window = ended.window(&began, self.active_most);
        self.drain()?;
        let sample = self.account(window);
        self.sides.abort_all();
        Ok(sample)
    }

    /// Turns for so long; ends early when interrupted.
    fn pass(&mut self, phase: Phase, time: Duration) -> Result<(), LoadError> {
        let start = self.watch.clock.now();
        let mut look = start;
        loop {
            let now = self.watch.clock.now();
            if now - start >= time {
                return Ok(());
            }
            self.sides.turn_and_rest(now)?;
            if now - look >= LOOK_EVERY {
                look = now;
                self.active_most = if phase == Phase::Sample {
                    self.active_most.max(self.sides.active())
                } else {
                    0
                };
                self.tell(phase, now);
                if (self.watch.interrupted)() {
                    return Ok(());
                }
            }
        }
    }

    fn tell(&mut self, phase: Phase, now: Instant) {
        if now - self.told.at >= Duration::from_secs(1) {
            let reading = Reading::take(self.sides, now);
            let window = reading.window(&self.told, self.sides.active());
            (self.watch.live)(&Live { phase, window });
            self.told = reading;
        }
    }

    fn settle(&mut self) -> Result<(), LoadError> {
        let window = self.plan.settle_window;
        self.pass(Phase::Settle, self.plan.lifetime)?;
        if window.is_zero() {
            return Ok(());
        }
        let tx = |trial: &Self| {
            let all = trial.sides.counted();
            all.client.tx_packets + all.server.tx_packets
        };
        let mut before: Option<u64> = None;
        for _ in 0..SETTLE_WINDOWS {
            let from = tx(self);
            self.pass(Phase::Settle, window)?;
            let sent = tx(self) - from;
            // Few packets change by more than 1% by themselves.
            let allowed = (sent as f64 * 0.01).max(2.0 * (sent as f64).sqrt());
            if before.is_some_and(|before| sent.abs_diff(before) as f64 <= allowed) {
                break;
            }
            before = Some(sent);
        }
        Ok(())
    }

    /// Connections have failed already: no use in going on.
    fn has_failed(&self) -> bool {
        let client = self.sides.client_statistics().since(&self.start.all.client);
        let failed = client.failed.total();
        failed > 0 && failed as f64 > self.plan.allowed * client.opened as f64
    }

    /// Opens nothing more, and waits until all has ended and nothing moves.
    fn drain(&mut self) -> Result<(), LoadError> {
        self.sides.stop_opening();
        let start = self.watch.clock.now();
        let (mut quiet_since, mut look) = (start, start);
        loop {
            let now = self.watch.clock.now();
            if self.sides.turn_and_rest(now)? > 0 {
                quiet_since = now;
            }
            let ended = self.sides.alive() == 0 && now - quiet_since >= QUIET;
            if ended || now - start >= self.plan.drain {
                return Ok(());
            }
            if now - look >= LOOK_EVERY {
                look = now;
                self.tell(Phase::Drain, now);
            }
        }
    }

    fn account(&self, window: Window) -> Sample {
        let end = Reading::take(self.sides, self.watch.clock.now());
        let (end, start) = (end.all, &self.start.all);
        let client = end.client.since(&start.client);
        let server = end.server.since(&start.server);
        let mut sample =
            Sample { offered: self.plan.rate.unwrap_or(0.0), window, ..Sample::default() };
        let alive = if self.sides.client.is_some() { self.sides.active() } else { 0 };
        sample.count(&client, &server, alive, end.missed - start.missed);
        sample.port_errors = end.errors - start.errors;
        sample.port_drops = end.drops - start.drops;
        sample.stall_ns = end.stall_ns;
        sample.queue_packets = self.sides.queue_packets;
        sample
    }
}

#[cfg(test)]
mod tests;
