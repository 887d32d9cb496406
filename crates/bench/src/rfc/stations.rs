//! Two stations of test frames at the device's ports, driven through the phases of a trial.

use super::bench::{Bench, PATIENCE};
use crate::progress::Progress;
use base::Instant;
use generator::search::FrameSample;
use generator::stream::{Order, Station, StationConfig};
use load::dut;
use load::error::LoadError;
use load::generate::{CLIENT_MAC, SERVER_MAC};
use load::link::Link;
use load::trial::Clock;
use packet::{Batch, Pool};
use std::time::Duration;

/// Iterations without a frame before the thread yields.
const IDLE_ITERATIONS: u32 = 200;
/// The maximum number of phases of a pair of stations.
const PHASES: u16 = 1024;
/// Duration of the measurement of the generator's own ceiling.
const CEILING: Duration = Duration::from_millis(300);

/// A station at its port.
struct End {
    station: Station,
    link: Link,
    dropped: u64,
    errors: u64,
}

impl End {
    fn iterate(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        now: Instant,
    ) -> Result<u64, LoadError> {
        let End { station, link, .. } = self;
        let (mut moved, _) =
            link.take_in(pool, batch, |pool, batch| station.receive(pool, batch, now))?;
        let (out, sent, _) =
            link.send_out(pool, batch, |pool, batch| station.transmit(pool, batch, now));
        moved += out;
        self.dropped += sent.dropped;
        self.errors += sent.errors;
        Ok(moved)
    }
}

/// Both stations.
pub struct Stations {
    initiator: End,
    responder: End,
    flows: u32,
    pool: Pool,
    batch: Batch,
    idle: u32,
    last_turn: Option<Instant>,
    stall_ns: u64,
    /// The longest stall until everything was sent.
    pause_ns: u64,
    /// The number of the last phase, which distinguishes late frames from new ones.
    phase: u16,
    /// The text of the progress.
    what: String,
}

/// The sending stations of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Phase 1: the initiator sends one frame per flow.
    Fill,
    /// The responder sends one frame per entry of its state table.
    Validate,
    /// Phase 2: both send this many frames on random flows.
    Exchange {
        /// Frames due in each direction.
        frames: u64,
    },
}

impl Stations {
    /// Creates stations for this many flows and frames of this size at these ports.
    pub fn new(
        links: (Link, Link),
        bench: &mut Bench<'_>,
        flows: u32,
        frame_bytes: u16,
    ) -> Stations {
        // Frames in flight from earlier stations belong to earlier phases.
        bench.phase = bench.phase.wrapping_add(PHASES);
        let hosts = &bench.args.hosts;
        let config = |client: bool| StationConfig {
            mac: if client { CLIENT_MAC } else { SERVER_MAC },
            to: if client { hosts.gateway.unwrap_or(SERVER_MAC) } else { CLIENT_MAC },
            vlan: hosts.vlan,
            frame_bytes,
            network: bench.args.network(),
            seed: if client { hosts.seed } else { hosts.seed ^ 0x1234_5678 },
        };
        let end = |station, link| End { station, link, dropped: 0, errors: 0 };
        Stations {
            initiator: end(Station::initiator(config(true), flows), links.0),
            responder: end(Station::responder(config(false), flows), links.1),
            flows,
            pool: Pool::new(16_384),
            batch: Batch::new(),
            idle: 0,
            last_turn: None,
            stall_ns: 0,
            pause_ns: 0,
            phase: bench.phase,
            what: bench.args.what(),
        }
    }

    /// Returns both ports.
    pub fn into_links(self) -> (Link, Link) {
        (self.initiator.link, self.responder.link)
    }

    /// Number of flows that the responder knows.
    pub fn known(&self) -> u64 {
        self.responder.station.flows() as u64
    }

    /// The longest time, while the last phase was sent, in which neither station sent anything.
    pub fn pause(&self) -> Duration {
        Duration::from_nanos(self.pause_ns)
    }

    /// Number of flows.
    pub fn flows(&self) -> u32 {
        self.flows
    }

    fn iterate(&mut self, now: Instant) -> Result<(), LoadError> {
        if let Some(before) = self.last_turn.replace(now) {
            self.stall_ns = self.stall_ns.max((now - before).as_nanos() as u64);
        }
        let mut moved = 0;
        for end in [&mut self.initiator, &mut self.responder] {
            moved += end.iterate(&mut self.pool, &mut self.batch, now)?;
        }
        self.idle = if moved > 0 { 0 } else { self.idle + 1 };
        if self.idle > IDLE_ITERATIONS {
            self.idle = 0;
            std::thread::yield_now();
        }
        Ok(())
    }

    fn ends(&self) -> [&End; 2] {
        [&self.initiator, &self.responder]
    }

    fn is_done(&self) -> bool {
        self.ends().iter().all(|end| end.station.is_done())
    }

    /// Whether everything sent has arrived, as far as can be determined.
    fn all_arrived(&self) -> bool {
        let [initiator, responder] = self.ends().map(|end| end.station.statistics());
        responder.received >= initiator.sent && initiator.received >= responder.sent
    }

    /// Runs one phase at this rate; without one, at full speed.
    pub fn run(
        &mut self,
        clock: &dyn Clock,
        interrupted: &dyn Fn() -> bool,
        phase: Phase,
        rate: Option<f64>,
    ) -> Result<FrameSample, LoadError> {
        self.phase = self.phase.wrapping_add(1);
        let flows = u64::from(self.flows);
        let due = match phase {
            Phase::Fill | Phase::Validate => flows,
            Phase::Exchange { frames } => frames,
        };
        let start = clock.now();
        // The rate is in whole frames per second.
        let per_second = rate.map(|rate| (rate.round() as u64).max(1));
        self.begin(phase, due, per_second, start);
        let expected = per_second.map_or(0.0, |rate| due as f64 / rate as f64);
        let expected = Duration::from_secs_f64(expected);
        let progress = Progress::start(&self.what, expected.as_millis() as u64);
        let (mut told, mut sent_at) = (0, None);
        loop {
            let now = clock.now();
            self.iterate(now)?;
            let millis = (now - start).as_millis() as u64;
            if millis >= told + 100 {
                progress.advance(millis - told);
                told = millis;
                if interrupted() {
                    break;
                }
            }
            if sent_at.is_none() {
                self.pause_ns = self.stall_ns;
            }
            if self.is_done() {
                // Sending is over when the port has taken the last frame.
                let since = *sent_at.get_or_insert_with(|| clock.now());
                if self.all_arrived() || now - since >= PATIENCE {
                    break;
                }
            }
            // The phase also ends if the generator is far too slow: frames that it did not send are missed.
            if rate.is_some() && now - start >= expected * 3 + PATIENCE * 5 {
                break;
            }
        }
        let seconds = (sent_at.unwrap_or_else(|| clock.now()) - start).as_secs_f64();
        Ok(FrameSample {
            offered: per_second.map_or(0.0, |rate| rate as f64),
            seconds,
            due_seconds: expected.as_secs_f64(),
            ..self.counted()
        })
    }

    /// Starts the phase at both ends, at the time `start`.
    fn begin(&mut self, phase: Phase, due: u64, per_second: Option<u64>, start: Instant) {
        for (end, sends) in [
            (&mut self.initiator, phase != Phase::Validate),
            (&mut self.responder, phase != Phase::Fill),
        ] {
            (end.dropped, end.errors) = (0, 0);
            match phase {
                Phase::Fill => end.station.begin_learning(self.phase, due),
                Phase::Validate | Phase::Exchange { .. } => end.station.begin(self.phase, due),
            }
            let order = match phase {
                Phase::Fill | Phase::Validate => Order::EachOnce,
                Phase::Exchange { frames } => Order::Random { frames },
            };
            if sends {
                end.station.send(order, per_second, start);
            }
        }
        (self.last_turn, self.stall_ns, self.pause_ns) = (None, 0, 0);
    }

    fn counted(&self) -> FrameSample {
        let ends = self.ends();
        let mut sample = FrameSample {
            missed: ends.iter().map(|end| end.station.missed()).sum(),
            port_errors: ends.iter().map(|end| end.errors).sum(),
            port_drops: ends.iter().map(|end| end.dropped).sum(),
            stall_ns: self.stall_ns,
            ..FrameSample::default()
        };
        let [initiator, responder] = ends.map(|end| end.station.statistics());
        sample.count(initiator, responder);
        sample
    }
}

/// Frames per second and direction that the generator sends and receives over a cable in memory; `None` if
/// not requested.
pub fn ceiling(bench: &mut Bench<'_>, frame_bytes: u16) -> Result<Option<f64>, LoadError> {
    let place = dut::memory_cable(1);
    let links = place.client.zip(place.server).filter(|_| bench.with_ceiling);
    let Some(links) = links else { return Ok(None) };
    let mut stations = Stations::new(links, bench, 100, frame_bytes);
    stations.run(bench.clock, &|| false, Phase::Fill, None)?;
    let begun = bench.clock.now();
    let time_over = || bench.clock.now() - begun >= CEILING;
    // More frames than fit in the measurement.
    let phase = Phase::Exchange { frames: 1 << 24 };
    let sample = stations.run(bench.clock, &time_over, phase, None)?;
    let received = sample.forth.received.min(sample.back.received);
    Ok(Some(received as f64 / sample.seconds.max(1e-9)))
}
