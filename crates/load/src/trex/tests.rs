pub(crate) mod server;

use super::*;
use crate::trial::Limits;
use crate::trial::Wall;
use generator::Profile;
use generator::search::{Allowance, Reason, judge};
use server::Script;
use std::io::{Read, Write};
use std::net::TcpListener;

fn plan(rate: f64) -> Plan {
    Plan {
        rate: Some(rate),
        ramp: Duration::ZERO,
        settle_window: Duration::ZERO,
        lifetime: Duration::ZERO,
        sample: Duration::from_secs(1),
        limits: None,
        drain: Duration::from_secs(10),
    }
}

fn trial(trex: &mut Trex, rate: f64) -> Result<Sample, LoadError> {
    planned(trex, &plan(rate))
}

fn planned(trex: &mut Trex, plan: &Plan) -> Result<Sample, LoadError> {
    let mut live = |_: &Live| ();
    let interrupted = || false;
    let mut watch = Watch { clock: &Wall, live: &mut live, interrupted: &interrupted };
    trex.trial(plan, &mut watch)
}

const ALLOWED: Allowance = Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL };

#[test]
fn a_simulated_server_finds_nothing_wrong_and_its_counters_make_samples() {
    let script = Script { trex_most: 8000.0, device_most: 5000.0, ..Script::default() };
    let (port, seen) = server::start(script);
    let profile = Profile { udp_percent: 1.0, ..Profile::default() };
    let mut trex = Trex::connect("127.0.0.1", port, &profile, 3, Some(100_000)).unwrap();
    assert_eq!(trex.about()["version"], "v3.0-simulated");
    // Below the device's limit, twice above it, and above TRex's own limit. A sample leaves no state for the
    // next, and the second at the same rate counts only its own connections.
    for (rate, word) in
        [(2000.0, "pass"), (6000.0, "fail"), (6000.0, "fail"), (20_000.0, "invalid")]
    {
        let sample = trial(&mut trex, rate).unwrap();
        let verdict = judge(&sample, &ALLOWED);
        assert_eq!(verdict.word(), word, "{rate}: {:?}", verdict.reasons());
        // By the server's clock the rate is exact, however old the copies of its counters are.
        let opened = sample.opened_per_second();
        let real = rate.min(8000.0);
        assert!((opened - real).abs() < real * 0.002, "{rate}: {opened}");
        let lost = sample.forth.lost() as f64 / sample.opened as f64;
        let expected = (1.0 - 5000.0 / real).max(0.0);
        assert!((lost - expected).abs() < 0.01, "{rate}: {lost} lost of {expected}");
        // A failed connection counts once.
        let failed = sample.failed.total() as f64 / sample.opened as f64;
        assert!((failed - expected).abs() < 0.01, "{rate}: {failed} failed of {expected}");
        let ended = sample.completed + sample.failed.total() + sample.unfinished + sample.cut_short;
        assert_eq!(ended, sample.opened, "{rate}: {:?}", sample.failed);
        assert!((sample.window.busy - 0.35).abs() < 1e-9 && sample.unfinished <= 1);
    }
    drop(trex);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.wrong, Vec::<String>::new());
    assert!(seen.released, "the server was not given back");
    // Ramp, a second at the constant rate, the sample, and two seconds until its counters are read.
    assert!(
        seen.durations.iter().all(|time| *time <= 3.0 + 1.0 + 1.0 + 2.0),
        "{:?}",
        seen.durations
    );
    assert_eq!(seen.cut, 0, "of what had not failed nothing is cut off");
}

#[test]
fn a_trial_that_has_failed_is_cut_off_and_told_as_such() {
    let (port, seen) = server::start(Script { device_most: 500.0, ..Script::default() });
    let mut trex = Trex::connect("127.0.0.1", port, &Profile::default(), 3, None).unwrap();
    let limits = Limits { failed: 0.0, lost: 0.0, missed: 1.0, cut: false };
    let long = Duration::from_secs(60);
    let plan = Plan { sample: long, limits: Some(limits), ..plan(1000.0) };
    let start = std::time::Instant::now();
    let sample = planned(&mut trex, &plan).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10) && seen.lock().unwrap().cut == 1);
    assert!(sample.ended_early && sample.cut_short > 0 && sample.unfinished == 0, "{sample:?}");
    assert_eq!(judge(&sample, &ALLOWED).word(), "fail");
    // The next one is not affected.
    assert_eq!(judge(&trial(&mut trex, 400.0).unwrap(), &ALLOWED).word(), "pass");
}

/// A SYN without an answer is given up after five seconds, when the traffic has ended.
#[test]
fn a_device_that_drops_everything_has_failed_and_is_no_error() {
    let script = Script { device_most: 0.0, gives_up_s: 5.0, ..Script::default() };
    let (port, seen) = server::start(script);
    let mut trex = Trex::connect("127.0.0.1", port, &Profile::default(), 3, None).unwrap();
    let sample = trial(&mut trex, 500.0).unwrap();
    assert_eq!((sample.broken(), sample.completed), (None, 0));
    assert_eq!(sample.failed.timed_out_opening, sample.opened, "{:?}", sample.failed);
    assert_eq!(judge(&sample, &ALLOWED).word(), "fail");
    assert!(seen.lock().unwrap().wrong.is_empty());
}

#[test]
fn the_most_connections_are_reached_with_a_word() {
    let (port, _) = server::start(Script::default());
    let mut trex = Trex::connect("127.0.0.1", port, &Profile::default(), 3, Some(1000)).unwrap();
    // Each lives for half a second, so a limit of 1,000 allows 2,000 per second.
    for (rate, word) in [(1500.0, "pass"), (3000.0, "invalid")] {
        let sample = trial(&mut trex, rate).unwrap();
        let verdict = judge(&sample, &ALLOWED);
        assert_eq!(verdict.word(), word, "{rate}: {:?}", verdict.reasons());
        let said = verdict.reasons().iter().any(|it| matches!(it, Reason::AtLimit(_)));
        assert_eq!(said, word == "invalid", "{:?}", verdict.reasons());
    }
}

#[test]
fn a_server_of_the_version_before_is_asked_in_its_own() {
    let (port, seen) = server::start(Script { major: 1, ..Script::default() });
    let trex = Trex::connect("127.0.0.1", port, &Profile::default(), 3, None).unwrap();
    drop(trex);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.methods[..2], ["api_sync_v2", "api_sync_v2"]);
    assert_eq!(seen.wrong, ["api_sync_v2: version mismatch"]);
}

#[test]
fn what_is_no_server_or_goes_away_is_named() {
    let refused = |port| {
        let opened = Trex::connect("127.0.0.1", port, &Profile::default(), 3, None);
        opened.map(|_| ()).unwrap_err().to_string()
    };
    let (port, _) = server::start(Script { major: 9, ..Script::default() });
    let said = refused(port);
    assert!(said.contains("version mismatch") && said.contains("--astf"), "{said}");
    let (port, _) = server::start(Script { gone_after: 6, ..Script::default() });
    let said = refused(port);
    assert!(said.contains("did not answer"), "{said}");
    // No server there, and another program there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(&[b'x'; 100]);
    });
    let said = refused(port);
    assert!(said.contains("does not speak ZeroMQ") && said.contains("--sync-port"), "{said}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let said = refused(free);
    assert!(said.contains("start it with"), "{said}");
}

/// A recorded exchange: each call must be the next one in it, with the same parameters.
struct Book {
    lines: Vec<Value>,
    next: usize,
    inbox: Vec<u8>,
    outbox: std::io::Cursor<Vec<u8>>,
    greeted: bool,
}

impl Read for Book {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.outbox.read(into)
    }
}

impl Write for Book {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.inbox.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let body = String::from_utf8_lossy(&self.inbox).into_owned();
        if !std::mem::replace(&mut self.greeted, true) {
            self.inbox.clear();
            return Ok(());
        }
        let start = body.find("{\"").expect("a call");
        let call: Value = serde_json::from_str(&body[start..]).unwrap();
        let line = &self.lines[self.next];
        assert_eq!(call["method"], line["call"]["method"], "line {}", self.next + 1);
        let mut params = call["params"].clone();
        if params.get("session_id").is_some_and(Value::is_u64) {
            // Any session id is accepted.
            params["session_id"] = line["call"]["params"]["session_id"].clone();
        }
        assert_eq!(params, line["call"]["params"], "line {}", self.next + 1);
        let mut answer = line["answer"].clone();
        answer["id"] = call["id"].clone();
        let answer = answer.to_string();
        let mut frames = vec![1, 0, 2];
        frames.extend_from_slice(&(answer.len() as u64).to_be_bytes());
        frames.extend_from_slice(answer.as_bytes());
        self.outbox = std::io::Cursor::new(frames);
        (self.next, self.inbox) = (self.next + 1, Vec::new());
        Ok(())
    }
}

/// testdata/trex/exchange.jsonl describes its origin.
#[test]
fn the_exchange_in_testdata_is_followed_call_by_call() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/trex/exchange.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    greeting.extend_from_slice(b"NULL");
    greeting.resize(64, 0);
    greeting.extend_from_slice(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03REP");
    let outbox = std::io::Cursor::new(greeting);
    let book = Book { lines, next: 0, inbox: Vec::new(), outbox, greeted: false };
    let rpc = Rpc::over(Box::new(book), "the book").unwrap();
    let mut trex = Trex::open(rpc, &Profile::default(), 3, None).unwrap();
    let start = trex.read().unwrap();
    trex.start(750.0, Duration::from_millis(14_500)).unwrap();
    let end = trex.read().unwrap();
    // The second sample at this rate: the counters before it were the same, and are not subtracted.
    let sample = end.sample(&start, 750.0, end.window(&start));
    assert_eq!((sample.opened, sample.completed, sample.unfinished), (10_180, 9862, 0));
    assert_eq!((sample.failed.timed_out_opening, sample.failed.total()), (318, 318));
    assert_eq!((sample.forth.sent, sample.forth.lost(), sample.back.lost()), (41_041, 1593, 0));
    assert_eq!((sample.garbage, sample.retransmitted), (0, 1275));
    assert!(end.is_at_rest() && (sample.window.seconds - 19.919).abs() < 0.001);
    trex.stop().unwrap();
}
