//! A switch in memory with its packets: flows are set up, a controller sends requests, and all flows are
//! deleted.

use super::pauses::{Pause, Pauses};
use super::whole::first_frame;
use super::{StatsArgs, Upkeep};
use crate::BenchError;
use crate::memory::{available_bytes, resident_bytes};
use crate::packets;
use crate::slow_path::round_robin::{Allowance, RoundRobin};
use crate::slow_path::{due, seconds};
use ::conntrack::{Config as ConntrackConfig, Conntrack};
use base::{Instant, WorkerId};
use load::in_memory::{Cable, Discard, OwnTime, PORTS, Switch};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Packets that may wait, as in a network card's ring; further ones are lost.
const RING: u64 = 2048;
/// Interval of the control side's periodic work, as in the switch.
const TICK: Duration = Duration::from_millis(100);
/// Flows that one flow-mod affects.
const AFFECTED: u32 = 10;
/// The destinations of flows that flow-mods affect; one for each phase.
const SPECIAL: [[u8; 4]; 2] = [[10, 9, 9, 8], [10, 9, 9, 9]];
/// The rule. Flows match exactly, as they all did in Open vSwitch 1.2, and p1 is down.
const RULE: &str = "ip,in_port=p0,nw_dst=10.0.0.0/8,idle_timeout=0,actions=output:p1";

/// One phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Phase {
    /// Its number of flows.
    pub wanted: u32,
    pub flows: usize,
    /// Time until all flows existed, since its beginning.
    pub seconds_to_limit: Option<f64>,
    pub took_s: f64,
    pub longest_pause_ms: f64,
    pub longest_pause: Pause,
    pub lost: u64,
    pub stopped_by: Option<&'static str>,
    pub flow_mod_ms: f64,
    pub flow_mod_flows: usize,
    pub aggregate_ms: f64,
    /// The longest time that a controller's request would have delayed packets.
    pub longest_step_ms: f64,
}

/// The removal of all flows.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Purge {
    pub flows: usize,
    pub took_s: f64,
    /// The longest time that packets would have been delayed.
    pub longest_step_ms: f64,
}

/// How many flow-mods were taken at once.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Burst {
    pub flow_mods: u32,
    pub flows: usize,
    /// Until all were in the table.
    pub taken_s: f64,
    /// The first part of their effects, with which the new table is published.
    pub published_ms: f64,
    /// Until all flows that looked in the table were translated again.
    pub settled_s: f64,
    /// The longest time in which packets would have waited for a part of that.
    pub longest_step_ms: f64,
}

/// The result of an incremental operation.
#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    /// Flows that were changed or removed.
    flows: usize,
    longest_ms: f64,
}

/// A switch with its packets and clock.
pub struct Station {
    switch: Switch,
    cables: [Cable; 2],
    allowance: Allowance,
    time: OwnTime,
    begun: Instant,
    ticked: Instant,
    /// Seconds since the start, and flows.
    pub installed: Vec<(f64, f64)>,
    memory_max: u64,
}

impl Station {
    pub fn new(args: &StatsArgs, upkeep: Upkeep) -> Result<Station, BenchError> {
        let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), ConntrackConfig::default()));
        let mut switch = Switch::sharing(RULE, WorkerId(0), conntrack)?;
        let config = ofproto::Config {
            flow_limit: 2 * args.most.max(args.flows) as usize,
            stats_interval_ms: Some(upkeep.interval_ms()),
            expires: upkeep != Upkeep::Never,
            max_idle_ms: 1000 * u64::from(args.max_idle),
            ..ofproto::Config::default()
        };
        switch.set_flow_limit(config.flow_limit);
        switch.set_config(config);
        switch.disable_megaflows(clock::now());
        switch.set_port_down(1)?;
        let allowance = Allowance::default();
        let all_flows = RoundRobin::new(first_frame(), set_flow, allowance.clone());
        let silent = RoundRobin::new(Vec::new(), |_, _| {}, Allowance::default());
        let [from, to] = PORTS.map(|(_, port)| port);
        let cables = [
            Cable { port: from, rx: Box::new(all_flows), tx: Box::new(Discard) },
            Cable { port: to, rx: Box::new(silent), tx: Box::new(Discard) },
        ];
        let time = OwnTime::start();
        let begun = time.now();
        let memory_max = match args.memory_mb {
            Some(megabytes) => megabytes << 20,
            None => resident_bytes().unwrap_or(0) + available_bytes().unwrap_or(u64::MAX) / 2,
        };
        let (ticked, installed) = (begun, Vec::new());
        Ok(Station { switch, cables, allowance, time, begun, ticked, installed, memory_max })
    }

    /// Plays packets of this many flows in turn, until each has its flow or the time is over.
    pub fn phase(
        &mut self,
        flows: u32,
        rate: Option<u32>,
        number: usize,
        longest: Duration,
    ) -> Result<Phase, BenchError> {
        self.allowance.set_flows(0, flows.into());
        let begun = self.time.now();
        let mut phase = Phase { wanted: flows, ..Phase::default() };
        let (mut offered, mut count) = (0, self.switch.flow_count());
        let mut pauses = Pauses::begin(begun, clock::now());
        loop {
            let now = self.time.now();
            self.tick(now, &mut phase);
            pauses.worked("upkeep", self.time.now() - now);
            if let Some(rate) = rate {
                let due = due(now, begun, rate);
                if due == offered && self.allowance.left() == 0 {
                    let next = Duration::from_nanos(1_000_000_000 / u64::from(rate) + 1);
                    self.time.skip_to(now + next);
                    // No packet waited, so there is no pause.
                    pauses.nothing_waits(self.time.now(), clock::now());
                    continue;
                }
                let room = RING - self.allowance.left().min(RING);
                let come = (due - offered).min(room);
                phase.lost += due - offered - come;
                offered = due;
                self.allowance.add(come);
            } else {
                self.allowance.add(RING - self.allowance.left().min(RING));
            }
            let flows_now = self.work(now, &mut pauses)?;
            if flows_now > count {
                pauses.flow_came(self.time.now(), clock::now());
            }
            count = flows_now;
            if count >= flows as usize {
                phase.seconds_to_limit = Some(seconds(begun, self.time.now()));
            } else if self.time.now() - begun >= longest {
                phase.stopped_by = Some("time");
            }
            if phase.seconds_to_limit.is_some() || phase.stopped_by.is_some() {
                if phase.seconds_to_limit.is_none() {
                    pauses.flow_came(self.time.now(), clock::now());
                }
                break;
            }
        }
        (phase.took_s, phase.flows) = (seconds(begun, self.time.now()), count);
        (phase.longest_pause_ms, phase.longest_pause) = (pauses.longest.ms, pauses.longest);
        self.sample();
        self.ask(&mut phase, number)?;
        Ok(phase)
    }

    /// Receives a batch of packets, and continues pending work on flows. Returns the number of flows.
    fn work(&mut self, now: Instant, pauses: &mut Pauses) -> Result<usize, BenchError> {
        let begun = self.time.now();
        self.switch.iterate(now, &mut self.cables, 0)?;
        let received = self.time.now();
        self.switch.go_on(now);
        pauses.worked("packets", received - begun);
        pauses.worked("revalidation", self.time.now() - received);
        Ok(self.switch.flow_count())
    }

    /// Advances the time of the control side, and records counters.
    fn tick(&mut self, now: Instant, phase: &mut Phase) {
        if now - self.ticked < TICK {
            return;
        }
        self.ticked = now;
        self.sample();
        self.switch.sort_beside(&mut self.time);
        self.switch.keep_up(now);
        if resident_bytes().is_some_and(|bytes| bytes > self.memory_max) {
            phase.stopped_by = Some("memory");
        }
    }

    fn sample(&mut self) {
        let at = seconds(self.begun, self.time.now());
        self.installed.push((at, self.switch.flow_count() as f64));
    }

    /// A controller's requests: a flow-mod that affects ten flows, and the aggregate of one rule.
    fn ask(&mut self, phase: &mut Phase, number: usize) -> Result<(), BenchError> {
        let [a, b, c, d] = SPECIAL[number];
        let rule = format!("priority=40000,udp,in_port=p0,nw_dst={a}.{b}.{c}.{d},actions=in_port");
        let begun = self.time.now();
        self.switch.flow_mod(&rule, begun)?;
        let done = self.settle();
        let changed = self.time.now();
        self.switch.ask_statistics();
        let told = self.settle();
        let sum = self.switch.sum("ip,in_port=p0,nw_dst=10.0.0.0/8", self.time.now())?;
        let answered = self.time.now();
        if sum.packets == 0 && phase.flows > 0 {
            return Err(BenchError::WrongWork("the rule counted no packet".into()));
        }
        phase.flow_mod_ms = 1e3 * seconds(begun, changed);
        phase.flow_mod_flows = done.flows;
        phase.aggregate_ms = 1e3 * seconds(changed, answered);
        phase.longest_step_ms = done.longest_ms.max(told.longest_ms);
        Ok(())
    }

    /// Deletes all flows.
    pub fn purge(&mut self) -> Result<Purge, BenchError> {
        let (begun, flows) = (self.time.now(), self.switch.flow_count());
        self.switch.purge(begun);
        let first_ms = 1e3 * seconds(begun, self.time.now());
        let done = self.settle();
        let took_s = seconds(begun, self.time.now());
        let left = self.switch.flow_count();
        if left > 0 {
            return Err(BenchError::WrongWork(format!("{left} of {flows} flows stay")));
        }
        self.installed.push((seconds(self.begun, self.time.now()), 0.0));
        Ok(Purge { flows, took_s, longest_step_ms: done.longest_ms.max(first_ms) })
    }

    /// Adds this many rules to the table at once, of which no packet comes.
    pub fn burst(&mut self, flow_mods: u32) -> Result<Burst, BenchError> {
        let (begun, flows) = (self.time.now(), self.switch.flow_count());
        for number in 0..flow_mods {
            let [_, a, b, c] = number.to_be_bytes();
            let rule = format!("priority=9,udp,in_port=p0,nw_dst=11.{a}.{b}.{c},actions=output:p1");
            self.switch.flow_mod(&rule, begun)?;
        }
        let taken = self.time.now();
        self.switch.go_on(taken);
        let published = self.time.now();
        let done = self.settle();
        let published_ms = 1e3 * seconds(taken, published);
        Ok(Burst {
            flow_mods,
            flows,
            taken_s: seconds(begun, taken),
            published_ms,
            settled_s: seconds(taken, self.time.now()),
            longest_step_ms: done.longest_ms.max(published_ms),
        })
    }

    /// How many flows there are.
    pub fn flow_count(&self) -> usize {
        self.switch.flow_count()
    }

    /// Continues pending work, part by part, until nothing is left.
    fn settle(&mut self) -> Settled {
        let mut settled = Settled::default();
        loop {
            let now = self.time.now();
            let (changed, more) = self.switch.go_on(now);
            settled.flows += changed;
            settled.longest_ms = settled.longest_ms.max(1e3 * seconds(now, self.time.now()));
            if !more {
                return settled;
            }
        }
    }
}

/// Changes a frame to one of a flow. The first ten flows, and the next ten, are those that flow-mods affect.
pub fn set_flow(frame: &mut [u8], flow: u32) {
    packets::set_connection(frame, flow);
    let destination = match flow / AFFECTED {
        0 => SPECIAL[0],
        1 => SPECIAL[1],
        _ => [10, 1, 1, 2],
    };
    packets::set_destination(frame, destination);
}

#[cfg(test)]
mod tests {
    use super::super::tests::args;
    use super::*;

    #[test]
    fn too_much_memory_and_too_much_time_end_a_phase() {
        let little = StatsArgs { memory_mb: Some(1), flows: 1_000_000, most: 1000, ..args(0, 0) };
        let mut station = Station::new(&little, Upkeep::EverySecond).unwrap();
        let phase = station.phase(1_000_000, None, 0, Duration::from_secs(60)).unwrap();
        assert_eq!(phase.stopped_by, Some("memory"));
        let mut station = Station::new(&args(1_000_000, 1000), Upkeep::Never).unwrap();
        let phase = station.phase(1_000_000, None, 0, Duration::from_millis(20)).unwrap();
        assert_eq!((phase.stopped_by, phase.seconds_to_limit), (Some("time"), None));
        // The flow limit permits two flows at once, and no more.
        let stalls = args(1, 1);
        let mut station = Station::new(&stalls, Upkeep::Never).unwrap();
        let phase = station.phase(1000, None, 0, Duration::from_millis(20)).unwrap();
        assert_eq!(phase.stopped_by, Some("time"));
        assert!(phase.longest_pause_ms >= 10.0, "{}", phase.longest_pause_ms);
    }

    #[test]
    fn frames_are_of_their_flow() {
        let mut frame = first_frame();
        for (flow, destination) in
            [(0, SPECIAL[0]), (9, SPECIAL[0]), (10, SPECIAL[1]), (20, [10, 1, 1, 2])]
        {
            set_flow(&mut frame, flow);
            assert_eq!(
                frame[packets::IP_DESTINATION..packets::IP_DESTINATION + 4],
                destination,
                "{flow}"
            );
            let good = wire::checksum::Verdict::Good;
            assert_eq!(wire::checksum::verify_ipv4_header(&frame[14..34]), good, "{flow}");
        }
        assert_eq!(due(Instant::from_nanos(1_500_000_000), Instant::from_nanos(500_000_000), 7), 7);
    }
}
