//! A simulated TRex server: it checks every call as the published client makes it, and counts what
//! the traffic that was loaded would have done.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// How the server behaves, and the device between its ports.
#[derive(Clone, Debug)]
pub struct Script {
    /// Versions of the interface that it knows.
    pub major: u64,
    /// Connections a second that TRex opens at most.
    pub trex_most: f64,
    /// Connections a second that the device carries.
    pub device_most: f64,
    /// Calls after which it is gone.
    pub gone_after: u64,
}

impl Default for Script {
    fn default() -> Self {
        Script { major: 2, trex_most: 1e6, device_most: 1e6, gone_after: u64::MAX }
    }
}

/// What it was asked, and what it found wrong.
#[derive(Debug, Default)]
pub struct Seen {
    pub methods: Vec<String>,
    pub wrong: Vec<String>,
    pub released: bool,
}

/// Starts it; its port, and what it sees.
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
                loaded: None,
                run: None,
                counted: Counted::default(),
                epoch: 1,
            };
            // A client that goes away ends its session and nothing else.
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
/// Counters that it describes, by their numbers.
const COUNTERS: [&str; 12] = [
    "m_active_flows",
    "tcps_connattempt",
    "tcps_connects",
    "tcps_closed",
    "tcps_drops",
    "tcps_conndrops",
    "tcps_sndbyte_ok",
    "tcps_rcvbyte",
    "udps_connects",
    "udps_closed",
    "udps_keepdrops",
    "err_flow_overflow",
];

/// Connections of all runs up to now.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    opened: f64,
    dropped: f64,
    udp_share: f64,
}

struct Run {
    since: Instant,
    at: Instant,
    rate: f64,
    duration: f64,
    ramp: f64,
}

struct Server {
    script: Script,
    seen: Arc<Mutex<Seen>>,
    /// Connections a second at the multiplier 1, the share of UDP, and the rise.
    loaded: Option<(f64, f64, f64)>,
    run: Option<Run>,
    counted: Counted,
    epoch: u64,
}

impl Server {
    fn answer(&mut self, body: &[u8]) -> Value {
        let call: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(call["jsonrpc"], "2.0");
        let method = call["method"].as_str().unwrap().to_owned();
        self.seen.lock().unwrap().methods.push(method.clone());
        self.advance();
        let result = self.checked(&method, &call["params"]);
        match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }),
            Err(why) => {
                let mut seen = self.seen.lock().unwrap();
                seen.wrong.push(format!("{method}: {why}"));
                let error = json!({ "code": -32000, "message": "", "specific_err": why });
                json!({ "jsonrpc": "2.0", "id": call["id"], "error": error })
            }
        }
    }

    /// What time has done to a run: the rate rises, stands, and ends.
    fn advance(&mut self) {
        let Some(run) = &mut self.run else { return };
        let (from, to) = ((run.at - run.since).as_secs_f64(), run.since.elapsed().as_secs_f64());
        run.at = Instant::now();
        let opened_by = |t: f64| {
            let t = t.clamp(0.0, run.duration);
            if t < run.ramp { t * t / (2.0 * run.ramp) } else { t - run.ramp / 2.0 }
        };
        let rate = run.rate.min(self.script.trex_most);
        let opened = (opened_by(to) - opened_by(from)) * rate;
        self.counted.opened += opened;
        self.counted.dropped += opened * (1.0 - self.script.device_most / rate).max(0.0);
        if to > run.duration + 0.2 {
            self.run = None;
        }
    }

    fn state(&self) -> i64 {
        match (&self.run, self.loaded) {
            (Some(_), _) => 4,
            (None, Some(_)) => 1,
            (None, None) => 0,
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
                Ok(json!({ "dp_core_count": 1, "ports": [{ "index": 0 }, { "index": 1 }] }))
            }
            "acquire" => {
                wants(params["force"].is_boolean() && params["user"].is_string(), "who?")?;
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
                Ok(json!({}))
            }
            "profile_clear" => {
                wants(self.run.is_none(), "traffic runs")?;
                self.loaded = None;
                Ok(json!({}))
            }
            "profile_fragment" => {
                wants(params["frag_first"] == true && params["frag_last"] == true, "a part")?;
                let text = params["fragment"].as_str().ok_or("no fragment")?;
                self.loaded = Some(load(text)?);
                Ok(json!({}))
            }
            "start" => self.start(params),
            "stop" => {
                self.run = None;
                Ok(json!({}))
            }
            "release" => {
                self.seen.lock().unwrap().released = true;
                Ok(json!({}))
            }
            "get_counter_desc" => {
                let all = COUNTERS.iter().enumerate();
                let all = all.map(|(id, name)| {
                    json!({ "id": id, "name": name, "help": name, "info": "info", "units": "",
                            "zero": false, "real": true, "abs": false })
                });
                Ok(json!({ "data": all.collect::<Vec<_>>() }))
            }
            "get_counter_values" => Ok(self.counters()),
            "get_global_stats" => {
                let rate = self.run.as_ref().map_or(0.0, |run| run.rate);
                Ok(json!({ "m_active_flows": rate / 2.0, "m_cpu_util": 35.0, "m_tx_cps": rate,
                           "m_total_queue_full": 0, "m_total_queue_drop": 0 }))
            }
            "get_port_stats" => {
                let port = params["port_id"].as_u64().ok_or("no port_id")?;
                let Counted { opened, dropped, .. } = self.counted;
                // 4 packets there and 3 back; a dropped connection's SYN is lost.
                let carried = opened - dropped;
                let forth = (carried * 4.0 + dropped).floor();
                let (sent, received) = match port {
                    0 => (forth, (carried * 3.0).floor()),
                    1 => ((carried * 3.0).floor(), (carried * 4.0).floor()),
                    _ => return Err("no such port".to_owned()),
                };
                Ok(json!({ "opackets": sent, "obytes": sent * 70.0, "ipackets": received,
                           "ibytes": received * 70.0, "oerrors": 0, "ierrors": 0 }))
            }
            _ => Err("Method not supported".to_owned()),
        }
    }

    fn start(&mut self, params: &Value) -> Result<Value, String> {
        let (cps, udp_share, ramp) = self.loaded.ok_or("no profile is loaded")?;
        if self.run.is_some() {
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
        self.counted.udp_share = udp_share;
        let now = Instant::now();
        self.run = Some(Run { since: now, at: now, rate: mult * cps, duration, ramp });
        Ok(json!({}))
    }

    fn counters(&self) -> Value {
        let Counted { opened, dropped, udp_share } = self.counted;
        let running = self.run.is_some();
        // What was opened in the last moment is still on its way.
        let alive = if running { (opened - dropped).min(10.0) } else { 0.0 };
        let tcp = opened * (1.0 - udp_share);
        let values = [
            alive,
            tcp.floor(),
            (tcp - dropped).floor(),
            (tcp - alive).floor(),
            dropped.floor(),
            dropped.floor(),
            tcp * 20.0,
            tcp * 20.0,
            (opened * udp_share).floor(),
            (opened * udp_share).floor(),
            0.0,
            0.0,
        ];
        let all = values.into_iter().enumerate().filter(|(_, value)| *value > 0.0);
        let client: HashMap<String, f64> = all.map(|(id, value)| (id.to_string(), value)).collect();
        json!({ "epoch": self.epoch, "client": client, "server": {} })
    }
}

/// Checks a profile as the server's parser does; its rate, its share of UDP, and its rise.
fn load(text: &str) -> Result<(f64, f64, f64), String> {
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
    let (mut cps, mut udp) = (0.0, 0.0);
    for template in list("templates")? {
        let (client, server) = (&template["client_template"], &template["server_template"]);
        for side in [client, server] {
            let index = side["program_index"].as_u64().ok_or("no program_index")?;
            programs.get(index as usize).ok_or("no such program")?;
        }
        let rate = client["cps"].as_f64().ok_or("no cps")?;
        if server["assoc"][0]["port"] != client["port"] {
            return Err("nobody serves the port".to_owned());
        }
        cps += rate;
        udp += if client["port"] == 5353 { rate } else { 0.0 };
    }
    let ramp = it["c_glob_info"]["scheduler"]["rampup_sec"].as_f64().ok_or("no rampup_sec")?;
    Ok((cps, udp / cps, ramp))
}
