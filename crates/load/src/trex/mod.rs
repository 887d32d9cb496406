//! A TRex server as the generator of `tidegate cps-ndr` (`--generator trex`): its RPC
//! ([`rpc`], over [`zmtp`]), the traffic ([`profile`]), and its [`counters`].
//!
//! The calls and their fields are those that trex-core's Python client makes
//! (interactive/trex/astf/trex_astf_client.py); tests make them to a simulated server that checks
//! each. No real server was at hand.

mod counters;
mod profile;
mod rpc;
#[cfg(test)]
mod tests;
mod zmtp;
use crate::generate::error::LoadError;
use crate::generate::trial::{Live, Phase, Plan, Watch};
use base::Instant;
use counters::{Names, Reading};
use generator::search::Sample;
use rpc::{Rpc, malformed};
use serde_json::{Value, json};
use std::time::Duration;

/// The one profile that is used (trex-core: DEFAULT_PROFILE_ID).
const PROFILE: &str = "_";
/// Who says that the server is in use.
const USER: &str = "tidegate";
/// States of the server (trex-core: `astf_states`).
const IDLE: i64 = 0;
const LOADED: i64 = 1;
const TRANSMITTING: i64 = 4;
/// How long the server may take to start or stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a server is asked that is waited for.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Between two looks at the rate until it has settled, and how many there are at most.
const SETTLE: (Duration, u32) = (Duration::from_secs(1), 5);
/// A sample is looked at after this time, and goes on only if nothing has failed.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How much longer than its parts a trial may last, since calls take time.
const SLACK: Duration = Duration::from_secs(3);
/// How often somebody is told how it goes.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Why a TRex server is of no use.
#[derive(Debug, thiserror::Error)]
pub enum TrexError {
    /// It cannot be reached, or is none.
    #[error(
        "TRex at {server}: {source}; start it with `t-rex-64 -i --astf`, or name its host with \
         --server and its port with --sync-port"
    )]
    Connect {
        /// Host and port.
        server: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// It went away.
    #[error("TRex at {server} did not answer {method}: {source}")]
    Call {
        /// Host and port.
        server: String,
        /// The call.
        method: &'static str,
        /// What went wrong.
        source: std::io::Error,
    },
    /// It speaks another version, or is in another mode.
    #[error(
        "TRex at {server} refuses this version of its ASTF interface ({why}); start it with \
         --astf, in a version from 2.7x to 3.0x"
    )]
    Version {
        /// Host and port.
        server: String,
        /// What it said.
        why: String,
    },
    /// It refuses a call.
    #[error("TRex refused {method}: {why}")]
    Refused {
        /// The call.
        method: &'static str,
        /// What it said.
        why: String,
    },
    /// It answers something else.
    #[error("TRex answered {method} with what is no answer: {why}")]
    Malformed {
        /// The call.
        method: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// It has too few ports.
    #[error("TRex has {0} ports; clients and servers need one each")]
    Ports(usize),
    /// The profile is too long for one message.
    #[error("the traffic is {bytes} bytes as a profile, more than {most}; lower --num-messages")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// What may be.
        most: usize,
    },
    /// It did not get where it should.
    #[error("TRex is in state {state} {seconds} s after {method}; see its own console")]
    Stuck {
        /// The last call.
        method: &'static str,
        /// Where it is, by its own numbers.
        state: i64,
        /// How long it had.
        seconds: u64,
    },
}

/// Whether a server could be given this traffic.
pub fn check(profile: &generator::Profile) -> Result<(), TrexError> {
    profile::text(profile, 0, None).map(drop)
}

/// A server that is ours, with the traffic loaded.
pub struct Trex {
    rpc: Rpc,
    handler: String,
    names: Names,
    ports: Vec<u64>,
    about: Value,
    running: bool,
}

impl Trex {
    /// Takes the server over and loads the traffic.
    pub fn open(
        mut rpc: Rpc,
        profile: &generator::Profile,
        ramp_s: u32,
        max_flows: Option<u32>,
    ) -> Result<Trex, TrexError> {
        let text = profile::text(profile, ramp_s, max_flows)?;
        let about = rpc.call("get_version", json!({}))?;
        let system = rpc.call("get_system_info", json!({}))?;
        let ports = system["ports"].as_array().ok_or(malformed("get_system_info", &system))?;
        let ports: Vec<u64> = ports.iter().filter_map(|port| port["index"].as_u64()).collect();
        if ports.len() < 2 {
            return Err(TrexError::Ports(ports.len()));
        }
        let taken = rpc.call("acquire", json!({ "force": true, "user": USER }))?;
        let handler = taken["handler"].as_str().ok_or(malformed("acquire", &taken))?.to_owned();
        let (names, running) = (Names::default(), true);
        let mut trex = Trex { rpc, handler, names, ports, about, running };
        trex.stop()?;
        trex.rpc
            .call("profile_clear", json!({ "handler": trex.handler, "profile_id": PROFILE }))?;
        let upload = json!({
            "handler": trex.handler,
            "profile_id": PROFILE,
            "fragment": text,
            "frag_first": true,
            "frag_last": true,
        });
        trex.rpc.call("profile_fragment", upload)?;
        let described = trex.rpc.call("get_counter_desc", json!({ "profile_id": PROFILE }))?;
        trex.names = Names::read(&described).ok_or(malformed("get_counter_desc", &described))?;
        Ok(trex)
    }

    /// Connects to this server, takes it over and loads the traffic.
    pub fn connect(
        server: &str,
        port: u16,
        profile: &generator::Profile,
        ramp_s: u32,
        max_flows: Option<u32>,
    ) -> Result<Trex, TrexError> {
        Trex::open(Rpc::connect(server, port)?, profile, ramp_s, max_flows)
    }

    /// What it says of itself, for results.
    pub fn about(&self) -> &Value {
        &self.about
    }

    fn state(&mut self) -> Result<i64, TrexError> {
        let answer = self.rpc.call("sync", json!({ "profile_id": "sync" }))?;
        // Servers with several profiles have a state for each.
        let own = answer["state_profile"][PROFILE].as_i64().or_else(|| answer["state"].as_i64());
        own.ok_or_else(|| malformed("sync", &answer))
    }

    /// Waits until the server is in one of these states.
    fn wait_for(&mut self, method: &'static str, states: &[i64]) -> Result<(), TrexError> {
        let mut state = -1;
        for _ in 0..PATIENCE.as_millis() / ASK_EVERY.as_millis() {
            state = self.state()?;
            if states.contains(&state) {
                return Ok(());
            }
            std::thread::sleep(ASK_EVERY);
        }
        Err(TrexError::Stuck { method, state, seconds: PATIENCE.as_secs() })
    }

    fn start(&mut self, rate: f64, time: Duration) -> Result<(), TrexError> {
        self.rpc.call("inc_epoch", json!({ "handler": self.handler }))?;
        let params = json!({
            "handler": self.handler,
            "profile_id": PROFILE,
            "mult": rate / profile::UNIT,
            // Connections that are open at the end are not cut off.
            "nc": false,
            "duration": time.as_secs_f64(),
            "latency_pps": 0,
            "ipv6": false,
            "client_mask": 0xffff_ffff_u32,
            "e_duration": 0,
            "t_duration": 0,
        });
        self.running = true;
        self.rpc.call("start", params)?;
        self.wait_for("start", &[TRANSMITTING])
    }

    fn stop(&mut self) -> Result<(), TrexError> {
        if !matches!(self.state()?, IDLE | LOADED) {
            self.rpc.call("stop", json!({ "handler": self.handler, "profile_id": PROFILE }))?;
            self.wait_for("stop", &[IDLE, LOADED])?;
        }
        self.running = false;
        Ok(())
    }

    /// All counters, and when those of the connections were read.
    fn read(&mut self) -> Result<(Instant, Reading), TrexError> {
        let asked = clock::now();
        let values = self.rpc.call("get_counter_values", json!({ "profile_id": PROFILE }))?;
        let at = asked + (clock::now() - asked) / 2;
        let global = self.rpc.call("get_global_stats", json!({}))?;
        let mut reading = Reading::read(&values, &global, &self.names);
        for &port in &self.ports {
            let answer = self.rpc.call("get_port_stats", json!({ "port_id": port }))?;
            let of =
                if port % 2 == 0 { &mut reading.client_ports } else { &mut reading.server_ports };
            of.add(&answer);
        }
        Ok((at, reading))
    }

    /// One trial: ramp up, settle, sample, and wait until its connections have ended.
    pub fn trial(&mut self, plan: &Plan, watch: &mut Watch<'_>) -> Result<Sample, LoadError> {
        let (start_at, start) = self.read()?;
        let rate = plan.rate.unwrap_or(profile::UNIT);
        let time = plan.ramp + plan.lifetime + SETTLE.0 * SETTLE.1 + plan.sample + SLACK;
        self.start(rate, time)?;
        let mut course = Course { told: (start_at, start.clone()) };
        course.pass(self, watch, Phase::Ramp, plan.ramp)?;
        course.pass(self, watch, Phase::Settle, plan.lifetime)?;
        course.settle(self, watch)?;
        let (began_at, began) = self.read()?;
        let first = FIRST_LOOK.min(plan.sample);
        course.pass(self, watch, Phase::Sample, first)?;
        let looked = self.read()?.1.sample(&start, rate, Default::default());
        let failed = looked.failed.total();
        let allowed = plan.limits.map_or(1.0, |limits| limits.failed);
        if failed as f64 <= allowed * looked.opened as f64 {
            course.pass(self, watch, Phase::Sample, plan.sample.saturating_sub(first))?;
        }
        let (ended_at, ended) = self.read()?;
        let window = ended.window(&began, (ended_at - began_at).as_secs_f64());
        self.drain(watch, plan.drain + time)?;
        Ok(self.read()?.1.sample(&start, rate, window))
    }

    /// Waits until the server has sent for its time and its connections have ended; whoever
    /// interrupts, or a device that lets none end, has it stopped.
    fn drain(&mut self, watch: &mut Watch<'_>, most: Duration) -> Result<(), LoadError> {
        let start = watch.clock.now();
        while watch.clock.now() - start < most && !(watch.interrupted)() {
            if matches!(self.state()?, IDLE | LOADED) {
                break;
            }
            std::thread::sleep(ASK_EVERY);
        }
        Ok(self.stop()?)
    }
}

impl Drop for Trex {
    fn drop(&mut self) {
        // A server that has gone needs neither; it takes itself back from clients that vanish.
        if self.running {
            let _ = self.stop();
        }
        let _ = self.rpc.call("release", json!({ "handler": self.handler }));
    }
}

/// A trial on its way.
struct Course {
    /// When somebody was told the last time, and what was counted by then.
    told: (Instant, Reading),
}

impl Course {
    /// Lets so much time pass; ends early when interrupted.
    fn pass(
        &mut self,
        trex: &mut Trex,
        watch: &mut Watch<'_>,
        phase: Phase,
        time: Duration,
    ) -> Result<(), LoadError> {
        let start = watch.clock.now();
        while watch.clock.now() - start < time && !(watch.interrupted)() {
            let left = time.saturating_sub(watch.clock.now() - start);
            std::thread::sleep(left.min(ASK_EVERY));
            let now = watch.clock.now();
            if now - self.told.0 >= TOLD_EVERY {
                let (at, reading) = trex.read()?;
                let window = reading.window(&self.told.1, (at - self.told.0).as_secs_f64());
                (watch.live)(&Live { phase, window });
                self.told = (at, reading);
            }
        }
        Ok(())
    }

    /// Until packets sent in two looks in a row differ by less than 1%.
    fn settle(&mut self, trex: &mut Trex, watch: &mut Watch<'_>) -> Result<(), LoadError> {
        let mut before: Option<u64> = None;
        let start = watch.clock.now();
        // Looking takes time too, of which the server was given only so much.
        while watch.clock.now() - start < SETTLE.0 * (SETTLE.1 - 1) {
            let (_, from) = trex.read()?;
            self.pass(trex, watch, Phase::Settle, SETTLE.0)?;
            let sent = trex.read()?.1.window(&from, 1.0).tx_packets;
            // Few packets change by more than 1% by themselves.
            let allowed = (sent as f64 * 0.01).max(2.0 * (sent as f64).sqrt());
            let steady = before.is_some_and(|before| sent.abs_diff(before) as f64 <= allowed);
            if steady || (watch.interrupted)() {
                break;
            }
            before = Some(sent);
        }
        Ok(())
    }
}
