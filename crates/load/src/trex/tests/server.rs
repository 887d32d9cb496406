//! A simulated TRex server: it checks every call against the published client's, answers like the server of
//! version 3.08 recorded in testdata/trex, and counts what the loaded traffic would have done. Its time
//! passes four times as fast.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// The behaviour of the server and of the device between its ports.
#[derive(Clone, Debug)]
pub struct Script {
    /// Major version of the interface that it supports.
    pub major: u64,
    /// Most connections per second that TRex opens.
    pub trex_most: f64,
    /// Connections per second that the device carries.
    pub device_most: f64,
    /// Time after which a failed connection is given up and counted.
    pub gives_up_s: f64,
    /// Number of calls after which it is gone.
    pub gone_after: u64,
}

impl Default for Script {
    fn default() -> Self {
        let (trex_most, device_most) = (1e6, 1e6);
        Script { major: 2, trex_most, device_most, gives_up_s: 0.0, gone_after: u64::MAX }
    }
}

/// The calls that it received, and the errors that it found.
#[derive(Debug, Default)]
pub struct Seen {
    pub methods: Vec<String>,
    pub wrong: Vec<String>,
    pub released: bool,
    /// Duration of each start, in seconds.
    pub durations: Vec<f64>,
    /// How often traffic was cut off.
    pub cut: u32,
}

/// Seconds of the server per second.
const PACE: f64 = 4.0;
/// Age at which the copy of the counters is renewed, in seconds of the server.
const STALE: f64 = 0.5;
/// Time that the server takes to build traffic, and to clear it.
const BUILDS: f64 = 0.4;
/// Lifetime of a connection: TIME-WAIT.
const LIVES: f64 = 0.5;

/// Starts the server. Returns its port and what it sees.
pub fn start(script: Script) -> (u16, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (seen_too, script) = (Arc::clone(&seen), script);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = Server {
                script: script.clone(),
                seen: Arc::clone(&seen_too),
                began: Instant::now(),
                loaded: None,
                // The state in which the previous client left it.
                forgetting_until: 0.0,
                has_profile: true,
                run: None,
                earlier: [0.0; 4],
                copy: Copy::default(),
                epoch: 28,
                counter_epoch: 0,
            };
            // The end of a client ends only its session.
            let _ = serve(stream, server);
        }
    });
    (port, seen)
}

/// ZMTP 3.0 as a REP socket speaks it.
fn serve(mut stream: TcpStream, mut server: Server) -> std::io::Result<()> {
    let mut greeting = [0; 64];
    (greeting[0], greeting[8], greeting[9], greeting[10]) = (0xff, 1, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    stream.write_all(&greeting)?;
    stream.read_exact(&mut greeting)?;
    assert_eq!((greeting[0], greeting[9], &greeting[12..16]), (0xff, 0x7f, &b"NULL"[..]));
    stream.write_all(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03REP")?;
    let (flags, ready) = frame(&mut stream)?;
    assert!(flags == 4 && ready.starts_with(b"\x05READY\x0bSocket-Type\0\0\0\x03REQ"));
    for calls in 0.. {
        assert_eq!(frame(&mut stream)?, (1, vec![]), "a request starts with an empty frame");
        let (flags, body) = frame(&mut stream)?;
        assert_eq!(flags & 1, 0, "nothing follows the body");
        if calls >= server.script.gone_after {
            return Ok(());
        }
        let answer = server.answer(&body).to_string();
        stream.write_all(&[1, 0, 2])?;
        stream.write_all(&(answer.len() as u64).to_be_bytes())?;
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

fn frame(stream: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let mut flags = [0];
    stream.read_exact(&mut flags)?;
    let mut length = [0; 8];
    let from = if flags[0] & 2 != 0 { 0 } else { 7 };
    stream.read_exact(&mut length[from..])?;
    let mut body = vec![0; u64::from_be_bytes(length) as usize];
    stream.read_exact(&mut body)?;
    Ok((flags[0] & !2, body))
}

const API: &str = "api-handle-1";
const HANDLER: &str = "context-handle-2";
/// Described counters, by their numbers.
const COUNTERS: [&str; 13] = [
    "m_active_flows",
    "tcps_connattempt",
    "tcps_connects",
    "tcps_closed",
    "tcps_drops",
    "tcps_conndrops",
    "tcps_keepdrops",
    "tcps_sndbyte_ok",
    "tcps_rcvbyte",
    "udps_connects",
    "udps_closed",
    "udps_keepdrops",
    "m_traffic_duration",
];

/// A loaded profile.
#[derive(Clone, Copy)]
struct Loaded {
    /// Connections per second at the multiplier 1.
    cps: f64,
    udp_share: f64,
    ramp: f64,
    /// Connection limit.
    limit: f64,
}

/// One start of the traffic, in seconds of the server.
struct Run {
    since: f64,
    rate: f64,
    duration: f64,
    loaded: Loaded,
    /// When it was cut off.
    cut: Option<f64>,
}

/// A copy of the counters at one moment.
#[derive(Clone, Debug, Default)]
struct Copy {
    at: f64,
    epoch: u64,
    client: HashMap<String, f64>,
}

struct Server {
    script: Script,
    seen: Arc<Mutex<Seen>>,
    began: Instant,
    loaded: Option<Loaded>,
    /// When a cleared profile is gone.
    forgetting_until: f64,
    /// Whether traffic of a previous client is loaded.
    has_profile: bool,
    run: Option<Run>,
    /// Packets of earlier runs: sent and received at the clients' port, and at the servers'.
    earlier: [f64; 4],
    copy: Copy,
    epoch: u64,
    /// Epoch of the counters, which restart with each start.
    counter_epoch: u64,
}

impl Run {
    /// Connections opened after `time` of traffic: the rate rises in steps of a second.
    fn opened(&self, script: &Script, time: f64) -> f64 {
        let end = self.cut.map_or(self.duration, |cut| cut - self.since).min(self.duration);
        let time = time.clamp(0.0, end.max(0.0));
        let most = script.trex_most.min(self.loaded.limit / LIVES);
        let steps = self.loaded.ramp.max(1.0);
        let rising: f64 = (1..=self.loaded.ramp as u32)
            .map(|step| {
                let rate = (self.rate * f64::from(step) / steps).min(most);
                rate * (time - f64::from(step - 1)).clamp(0.0, 1.0)
            })
            .sum();
        rising + self.rate.min(most) * (time - self.loaded.ramp).max(0.0)
    }

    /// How many of them the device lost.
    fn dropped(&self, script: &Script, time: f64) -> f64 {
        let carried = (script.device_most / self.rate.min(script.trex_most)).min(1.0);
        self.opened(script, time) * (1.0 - carried)
    }

    /// Whether all connections have ended.
    fn is_over(&self, script: &Script, time: f64) -> bool {
        let close = LIVES.max(script.gives_up_s);
        self.cut.is_some() || time > self.duration + close
    }

    /// Packets sent and received at the clients' port and at the servers': 4 to the servers and 3 back; for a
    /// connection that the device lost, only its SYN.
    fn packets(&self, script: &Script, time: f64) -> [f64; 4] {
        let (opened, dropped) = (self.opened(script, time), self.dropped(script, time));
        let carried = opened - dropped;
        [carried * 4.0 + dropped, carried * 3.0, carried * 3.0, carried * 4.0].map(f64::floor)
    }
}

impl Server {
    /// Current time, in seconds of the server.
    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * PACE
    }

    fn answer(&mut self, body: &[u8]) -> Value {
        let call: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(call["jsonrpc"], "2.0");
        let method = call["method"].as_str().unwrap().to_owned();
        self.seen.lock().unwrap().methods.push(method.clone());
        let result = self.checked(&method, &call["params"]);
        match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }),
            Err(why) => {
                let mut seen = self.seen.lock().unwrap();
                seen.wrong.push(format!("{method}: {why}"));
                let message = "Failed To Execute Method";
                let error = json!({ "code": -32000, "message": message, "specific_err": why });
                json!({ "jsonrpc": "2.0", "id": call["id"], "error": error })
            }
        }
    }

    fn state(&self) -> i64 {
        let now = self.now();
        if now < self.forgetting_until {
            return 6;
        }
        match &self.run {
            Some(run) if now < run.since - BUILDS / 2.0 => 2,
            Some(run) if now < run.since => 3,
            Some(run) if !run.is_over(&self.script, now - run.since) => 4,
            Some(run) if run.cut.is_none() && now - run.since < run.duration + 1.0 => 5,
            _ => i64::from(self.loaded.is_some() || self.has_profile),
        }
    }

    fn checked(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let wants = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_owned()) };
        if method == "api_sync_v2" {
            wants(params["name"] == "ASTF", "name is not ASTF")?;
            let major = params["major"].as_u64().ok_or("major is no number")?;
            params["minor"].as_u64().ok_or("minor is no number")?;
            wants(major == self.script.major, "version mismatch")?;
            return Ok(json!({ "api_h": API }));
        }
        wants(params["api_h"] == API, "invalid API handler")?;
        let own = ["inc_epoch", "profile_clear", "profile_fragment", "start", "stop", "release"];
        if own.contains(&method) {
            wants(params["handler"] == HANDLER, "invalid handler")?;
        }
        if ["profile_clear", "profile_fragment", "start", "stop"].contains(&method) {
            wants(params["profile_id"] == "_", "no such profile")?;
        }
        match method {
            "get_version" => Ok(json!({ "version": "v3.0-simulated", "mode": "ASTF" })),
            "get_system_info" => {
                Ok(json!({ "dp_core_count": 1, "ports": [{ "index": 1 }, { "index": 0 }] }))
            }
            "acquire" => {
                wants(params["force"].is_boolean() && params["user"].is_string(), "who?")?;
                wants(params["session_id"].is_u64(), "session_id is missing")?;
                Ok(json!({ "handler": HANDLER, "ports": { "0": "a", "1": "b" } }))
            }
            "sync" => {
                wants(params["profile_id"] == "sync", "profile_id is not sync")?;
                let state = self.state();
                let profiles = json!({ "_": state });
                Ok(json!({ "state": state, "epoch": self.epoch, "state_profile": profiles }))
            }
            "inc_epoch" => {
                self.epoch += 1;
                Ok(json!({ "epoch": self.epoch }))
            }
            "profile_clear" => {
                wants(matches!(self.state(), 0 | 1), "traffic runs")?;
                if self.state() == 1 {
                    self.forgetting_until = self.now() + BUILDS;
                }
                (self.loaded, self.has_profile) = (None, false);
                Ok(Value::Null)
            }
            "profile_fragment" => {
                let idle = "should be one of following: Idle,Loaded profile";
                wants(self.state() != 6, &format!("Invalid state: Delete profile, {idle}"))?;
                wants(params["frag_first"] == true && params["frag_last"] == true, "a part")?;
                let text = params["fragment"].as_str().ok_or("no fragment")?;
                self.loaded = Some(load(text)?);
                Ok(Value::Null)
            }
            "start" => self.start(params),
            "stop" => {
                let now = self.now();
                if let Some(run) = self.run.as_mut().filter(|run| run.cut.is_none()) {
                    run.cut = Some(now);
                    self.seen.lock().unwrap().cut += 1;
                }
                Ok(Value::Null)
            }
            "release" => {
                self.seen.lock().unwrap().released = true;
                Ok(Value::Null)
            }
            "get_counter_desc" => {
                let all = COUNTERS.iter().enumerate();
                let all = all.map(|(id, name)| {
                    json!({ "id": id, "name": name, "help": name, "info": "info", "units": "",
                            "zero": false, "real": true, "abs": false })
                });
                Ok(json!({ "data": all.collect::<Vec<_>>(), "name": "CAstfTrafficStats" }))
            }
            "get_counter_values" => Ok(self.counters()),
            "get_global_stats" => {
                let rate = self.run.as_ref().map_or(0.0, |run| run.rate);
                let alive = self.run.as_ref().map_or(0.0, |run| self.alive(run));
                Ok(json!({ "m_active_flows": alive, "m_cpu_util": 35.0, "m_tx_cps": rate,
                           "m_total_queue_full": 0, "m_total_queue_drop": 0 }))
            }
            "get_port_stats" => {
                let port = params["port_id"].as_u64().ok_or("no port_id")?;
                let all = self.packets();
                let (sent, received) = match port {
                    0 => (all[0], all[1]),
                    1 => (all[2], all[3]),
                    _ => return Err("no such port".to_owned()),
                };
                Ok(json!({ "opackets": sent, "obytes": sent * 70.0, "ipackets": received,
                           "ibytes": received * 70.0, "oerrors": 0, "ierrors": 0 }))
            }
            _ => Err("Method not supported".to_owned()),
        }
    }

    fn start(&mut self, params: &Value) -> Result<Value, String> {
        let loaded = self.loaded.ok_or("no profile is loaded")?;
        if self.state() != 1 {
            return Err("traffic runs already".to_owned());
        }
        let mult = params["mult"].as_f64().filter(|mult| *mult > 0.0).ok_or("mult")?;
        let duration = params["duration"].as_f64().ok_or("duration")?;
        for (name, is_right) in [
            ("nc", params["nc"].is_boolean()),
            ("latency_pps", params["latency_pps"].is_u64()),
            ("ipv6", params["ipv6"].is_boolean()),
            ("client_mask", params["client_mask"] == 0xffff_ffff_u32),
        ] {
            if !is_right {
                return Err(name.to_owned());
            }
        }
        self.seen.lock().unwrap().durations.push(duration);
        self.earlier = self.packets();
        let (since, rate) = (self.now() + BUILDS, mult * loaded.cps);
        self.run = Some(Run { since, rate, duration, loaded, cut: None });
        (self.epoch, self.counter_epoch) = (self.epoch + 1, self.counter_epoch + 1);
        Ok(Value::Null)
    }

    /// Packets of all runs up to now.
    fn packets(&self) -> [f64; 4] {
        let mut all = self.earlier;
        if let Some(run) = &self.run {
            let of_run = run.packets(&self.script, self.now() - run.since);
            all.iter_mut().zip(of_run).for_each(|(all, more)| *all += more);
        }
        all
    }

    /// Connections alive.
    fn alive(&self, run: &Run) -> f64 {
        let time = self.now() - run.since;
        if run.is_over(&self.script, time) {
            return 0.0;
        }
        run.opened(&self.script, time) - run.opened(&self.script, time - LIVES)
    }

    /// Returns the last copy of the counters, renewed if it is old.
    fn counters(&mut self) -> Value {
        let now = self.now();
        let given = self.copy.clone();
        if now - given.at >= STALE || self.state() == 1 {
            self.copy = self.copied(now);
        }
        let given = if self.state() == 1 { &self.copy } else { &given };
        json!({ "epoch": given.epoch, "client": given.client, "server": {}, "name": "x" })
    }

    fn copied(&self, now: f64) -> Copy {
        let time = self.run.as_ref().map_or(-1.0, |run| now - run.since);
        let mut copy = Copy { at: now, epoch: self.copy.epoch, client: HashMap::new() };
        let Some(run) = self.run.as_ref().filter(|_| time > 0.0) else { return copy };
        copy.epoch = self.counter_epoch;
        let script = &self.script;
        let (opened, alive) = (run.opened(script, time).floor(), self.alive(run).floor());
        let dropped = run.dropped(script, time - script.gives_up_s).floor();
        let udp = (opened * run.loaded.udp_share).floor();
        let (tcp, length) = (opened - udp, run.duration.min(time));
        // Connections that were cut off are counted in no way.
        let ended =
            if run.cut.is_some() { run.opened(script, time - LIVES) } else { opened - alive };
        let values = [
            alive,
            tcp,
            tcp - dropped,
            (ended.floor() - udp).max(dropped),
            0.0,
            dropped,
            dropped,
            tcp * 20.0,
            tcp * 20.0,
            udp,
            udp,
            0.0,
            length,
        ];
        let all = values.into_iter().enumerate().filter(|(_, value)| *value > 0.0);
        copy.client = all.map(|(id, value)| (id.to_string(), value)).collect();
        copy
    }
}

/// Checks a profile as the server's parser does.
fn load(text: &str) -> Result<Loaded, String> {
    let it: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let list = |name: &str| it[name].as_array().ok_or(format!("no {name}"));
    let (buffers, programs) = (list("buf_list")?, list("program_list")?);
    for dist in list("ip_gen_dist_list")? {
        for name in ["ip_start", "ip_end", "ip_offset"] {
            let text = dist[name].as_str().ok_or(name)?;
            text.parse::<std::net::Ipv4Addr>().map_err(|error| error.to_string())?;
        }
    }
    for program in programs {
        let is_stream = program.get("stream") != Some(&json!(false));
        for command in program["commands"].as_array().ok_or("no commands")? {
            let name = command["name"].as_str().ok_or("a command without a name")?;
            let known = match name {
                "tx" | "tx_msg" => {
                    let index = command["buf_index"].as_u64().ok_or("no buf_index")?;
                    (index as usize) < buffers.len() && is_stream == (name == "tx")
                }
                "rx" => is_stream && command["min_bytes"].is_u64(),
                "rx_msg" => !is_stream && command["min_pkts"].is_u64(),
                "delay" => command["usec"].is_u64(),
                _ => false,
            };
            if !known {
                return Err(format!("the command {command}"));
            }
        }
    }
    let (mut cps, mut udp, mut limit) = (0.0, 0.0, 0.0);
    for template in list("templates")? {
        let (client, server) = (&template["client_template"], &template["server_template"]);
        for side in [client, server] {
            let index = side["program_index"].as_u64().ok_or("no program_index")?;
            programs.get(index as usize).ok_or("no such program")?;
        }
        let rate = client["cps"].as_f64().ok_or("no cps")?;
        if server["assoc"][0]["port"] != client["port"] {
            return Err("no host serves the port".to_owned());
        }
        cps += rate;
        limit += client["limit"].as_f64().unwrap_or(f64::INFINITY);
        udp += if client["port"] == 5353 { rate } else { 0.0 };
    }
    let ramp = it["c_glob_info"]["scheduler"]["rampup_sec"].as_f64().ok_or("no rampup_sec")?;
    Ok(Loaded { cps, udp_share: udp / cps, ramp, limit })
}
