//! A TRex server as the generator of `tidegate cps-ndr` (`--generator trex`): its RPC
//! ([`rpc`], over [`zmtp`]), the traffic ([`profile`]), and its [`counters`].
//!
//! The calls and their fields are those of trex-core's Python client
//! (interactive/trex/astf/trex_astf_client.py). Tests make them to a simulated server that checks each call
//! and answers like the real server recorded in testdata/trex.

mod counters;
mod profile;
mod rpc;
#[cfg(test)]
pub(crate) mod tests;
mod zmtp;
use crate::error::LoadError;
use crate::error::TrexError;
use crate::trial::{Live, Phase, Plan, Watch};
use counters::{Names, Reading};
use generator::search::{Allowance, Sample};
use rpc::{Rpc, malformed};
use serde_json::{Value, json};
use std::time::Duration;

/// The only profile in use (trex-core: DEFAULT_PROFILE_ID).
const PROFILE: &str = "_";
/// The name under which the server is reserved.
const USER: &str = "tidegate";
/// States of the server (trex-core: `astf_states`) in which it waits for a call.
const IDLE: i64 = 0;
const LOADED: i64 = 1;
const TRANSMITTING: i64 = 4;
/// How long the server may take to start or stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval at which a server's state is polled.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Interval at which its counters are read. They are copies, half a second old or more.
const READ_EVERY: Duration = Duration::from_millis(200);
/// Time at the constant rate before the sample.
const SETTLE: Duration = Duration::from_secs(1);
/// The first check of a sample; it continues only if no connection has failed.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Extra duration of a trial: the copy of the counters that ends the sample arrives late, and must date from
/// the constant rate.
const SLACK: Duration = Duration::from_secs(2);
/// Interval of progress reports.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Share of the connection limit from which the limit counts as the reason that no more were opened; the
/// server does not report it.
const AT_LIMIT: f64 = 0.95;

/// Checks that a server can generate this traffic.
pub fn check(profile: &generator::Profile) -> Result<(), TrexError> {
    profile::text(profile, 0, None).map(drop)
}

/// A reserved server with its traffic loaded.
pub struct Trex {
    rpc: Rpc,
    handler: String,
    names: Names,
    ports: Vec<u64>,
    about: Value,
    running: bool,
    ramp: Duration,
    /// Connection limit.
    max_flows: Option<f64>,
}

impl Trex {
    /// Reserves the server and loads the traffic.
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
        let who = json!({ "force": true, "user": USER, "session_id": std::process::id() });
        let taken = rpc.call("acquire", who)?;
        let handler = taken["handler"].as_str().ok_or(malformed("acquire", &taken))?.to_owned();
        // TCP connections stay in TIME-WAIT; UDP exchanges end at once and do not count to the limit.
        let share =
            if profile.udp_percent < 100.0 { 1.0 - profile.udp_percent / 100.0 } else { 1.0 };
        let mut trex = Trex {
            rpc,
            handler,
            names: Names::default(),
            ports,
            about,
            running: true,
            ramp: Duration::from_secs(ramp_s.into()),
            max_flows: max_flows.map(|most| f64::from(most) * share),
        };
        trex.load(&text)?;
        Ok(trex)
    }

    fn load(&mut self, text: &str) -> Result<(), TrexError> {
        self.wait_for("acquire", &[IDLE, LOADED, TRANSMITTING])?;
        self.stop()?;
        let own = json!({ "handler": self.handler, "profile_id": PROFILE });
        self.rpc.call("profile_clear", own)?;
        // The server answers before it is done, and accepts no profile meanwhile.
        self.wait_for("profile_clear", &[IDLE])?;
        let upload = json!({
            "handler": self.handler,
            "profile_id": PROFILE,
            "fragment": text,
            "frag_first": true,
            "frag_last": true,
        });
        self.rpc.call("profile_fragment", upload)?;
        let described = self.rpc.call("get_counter_desc", json!({ "profile_id": PROFILE }))?;
        self.names = Names::read(&described).ok_or(malformed("get_counter_desc", &described))?;
        Ok(())
    }

    /// Connects to this server, reserves it and loads the traffic.
    pub fn connect(
        server: &str,
        port: u16,
        profile: &generator::Profile,
        ramp_s: u32,
        max_flows: Option<u32>,
    ) -> Result<Trex, TrexError> {
        Trex::open(Rpc::connect(server, port)?, profile, ramp_s, max_flows)
    }

    /// Returns the server's description of itself, for results.
    pub fn about(&self) -> &Value {
        &self.about
    }

    fn state(&mut self) -> Result<i64, TrexError> {
        let answer = self.rpc.call("sync", json!({ "profile_id": "sync" }))?;
        // Servers with several profiles report one state per profile.
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

    /// Stops the traffic; open connections are cut off.
    fn stop(&mut self) -> Result<(), TrexError> {
        if !matches!(self.state()?, IDLE | LOADED) {
            self.rpc.call("stop", json!({ "handler": self.handler, "profile_id": PROFILE }))?;
            self.wait_for("stop", &[IDLE, LOADED])?;
        }
        self.running = false;
        Ok(())
    }

    /// Reads all counters.
    fn read(&mut self) -> Result<Reading, TrexError> {
        let at = clock::now();
        let values = self.rpc.call("get_counter_values", json!({ "profile_id": PROFILE }))?;
        let global = self.rpc.call("get_global_stats", json!({}))?;
        let mut reading = Reading::read(&values, &global, &self.names);
        reading.at = at;
        for &port in &self.ports {
            let answer = self.rpc.call("get_port_stats", json!({ "port_id": port }))?;
            let of =
                if port % 2 == 0 { &mut reading.client_ports } else { &mut reading.server_ports };
            of.add(&answer);
        }
        Ok(reading)
    }

    /// One trial: ramp up, settle, sample, and wait until its connections have ended.
    pub fn trial(&mut self, plan: &Plan, watch: &mut Watch<'_>) -> Result<Sample, LoadError> {
        let start = self.read()?;
        let rate = plan.rate.unwrap_or(profile::UNIT);
        let stands = self.ramp.max(plan.ramp) + plan.lifetime;
        self.start(rate, stands + SETTLE + plan.sample + SLACK)?;
        let mut course = Course { told: start.clone(), start, most_active: 0 };
        course.until(self, watch, Phase::Ramp, stands.as_secs_f64())?;
        let began = course.until(self, watch, Phase::Settle, (stands + SETTLE).as_secs_f64())?;
        let from = began.clock_since(&course.start);
        let first = from + FIRST_LOOK.min(plan.sample).as_secs_f64();
        let mut ended = course.until(self, watch, Phase::Sample, first)?;
        let looked = ended.sample(&course.start, rate, Default::default());
        let allowed = plan.limits.map_or(1.0, |limits| limits.failed);
        let is_over = looked.failed.total() as f64 > allowed * looked.opened as f64;
        if !is_over {
            let whole = from + plan.sample.as_secs_f64();
            ended = course.until(self, watch, Phase::Sample, whole)?;
        }
        let is_cut = self.drain(watch, plan.drain + SLACK + PATIENCE, is_over)?;
        let window = ended.window(&began);
        let mut sample = self.at_rest()?.sample(&course.start, rate, window);
        sample.ended_early = is_over;
        if is_cut {
            sample.cut_short = std::mem::take(&mut sample.unfinished);
        }
        self.note_limit(&mut sample, course.most_active);
        Ok(sample)
    }

    /// Waits until the traffic and its connections have ended. It cuts them off if the trial is over early,
    /// is interrupted, or takes longer than `most`. Returns true after the first two.
    fn drain(
        &mut self,
        watch: &mut Watch<'_>,
        most: Duration,
        is_over: bool,
    ) -> Result<bool, LoadError> {
        let start = watch.clock.now();
        while !is_over && watch.clock.now() - start < most && !(watch.interrupted)() {
            if matches!(self.state()?, IDLE | LOADED) {
                self.running = false;
                return Ok(false);
            }
            std::thread::sleep(ASK_EVERY);
        }
        self.stop()?;
        Ok(is_over || (watch.interrupted)())
    }

    /// Returns the counters after all connections have ended, which the server's copy may show late.
    fn at_rest(&mut self) -> Result<Reading, TrexError> {
        let mut reading = self.read()?;
        for _ in 0..10 {
            if reading.is_at_rest() {
                break;
            }
            std::thread::sleep(ASK_EVERY);
            reading = self.read()?;
        }
        Ok(reading)
    }

    /// Adds the connections that were not opened because of the connection limit, which the server does not
    /// report.
    fn note_limit(&self, sample: &mut Sample, most_active: u64) {
        let Some(most) = self.max_flows else { return };
        let short = sample.offered * sample.window.seconds - sample.window.opened as f64;
        let lacks = short > Allowance::SHORTFALL * sample.offered * sample.window.seconds;
        if lacks && most_active as f64 >= AT_LIMIT * most {
            sample.at_limit += short as u64;
        }
    }
}

impl Drop for Trex {
    fn drop(&mut self) {
        // A server that is gone needs neither; it releases itself when its client vanishes.
        if self.running {
            let _ = self.stop();
        }
        let _ = self.rpc.call("release", json!({ "handler": self.handler }));
    }
}

/// A running trial.
struct Course {
    /// Counters before it.
    start: Reading,
    /// Counters at the last progress report.
    told: Reading,
    /// Most connections that were alive.
    most_active: u64,
}

impl Course {
    /// Waits until the traffic has run for `seconds`, by the clock of the counters, or until it is
    /// interrupted.
    fn until(
        &mut self,
        trex: &mut Trex,
        watch: &mut Watch<'_>,
        phase: Phase,
        seconds: f64,
    ) -> Result<Reading, LoadError> {
        let begun = watch.clock.now();
        loop {
            let reading = trex.read()?;
            self.most_active = self.most_active.max(reading.active);
            if reading.at - self.told.at >= TOLD_EVERY {
                (watch.live)(&Live { phase, window: reading.window(&self.told) });
                self.told = reading.clone();
            }
            if reading.clock_since(&self.start) >= seconds || (watch.interrupted)() {
                return Ok(reading);
            }
            if watch.clock.now() - begun > Duration::from_secs_f64(seconds) + PATIENCE {
                let (state, seconds) = (trex.state()?, PATIENCE.as_secs());
                return Err(TrexError::Stuck { method: "start", state, seconds }.into());
            }
            std::thread::sleep(READ_EVERY);
        }
    }
}
