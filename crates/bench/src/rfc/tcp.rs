//! TCP tests of RFC 3511 and RFC 9411: connections per second, concurrent connections, and the connection
//! rate under a SYN flood.

use super::bench::{Bench, Trial, told};
use super::flood::Attack;
use super::outcome::Report;
use super::test::Test;
use generator::search::{Allowance, Reason, Sample, Verdict, Window, judge};
use generator::{Close, Flood, FloodConfig, FloodCounts, Profile, RangeError};
use load::endpoints::{Endpoint, Endpoints};
use load::error::LoadError;
use load::generate::numbers::human;
use load::generate::result::sample_json;
use load::generate::{CLIENT_MAC, SERVER_MAC, hosts_at, lifetime};
use load::trial::{self, Limits, Live, Phase, Plan, Watch};
use serde_json::{Value, json};
use std::time::Duration;

/// Time between the last opened connection and the next request of the first.
const GAP_MS: u32 = 500;
/// How long to wait after the expected time: SYNs are retransmitted for some seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Permitted share of failed transactions and connections (RFC 9411 section 7.2.3.3).
const FAILURES: f64 = 0.000_01;
/// Permitted deviation of the forwarding rate from its mean under constant load, in percent.
const RATE_PERCENT: f64 = 5.0;
/// The same for concurrent connections.
const CONNECTIONS_PERCENT: f64 = 10.0;
/// The initial phase's share of the highest rate (RFC 9411 section 7.2.4.1).
const INITIAL: f64 = 0.1;

/// Runs one of these tests.
pub fn run(bench: &mut Bench<'_>, test: Test) -> Result<Report, LoadError> {
    match test {
        Test::SynFlood => flood(bench),
        Test::SteadyRate => steady_rate(bench),
        _ => searched(bench, test, None).map(|(report, _)| report),
    }
}

/// Searches without an attack, or under one.
fn searched(
    bench: &mut Bench<'_>,
    test: Test,
    attack: Option<&mut Attack>,
) -> Result<(Report, Option<f64>), LoadError> {
    let (range, precision, unit) = (bench.range(), bench.precision(), test.unit());
    let mut attack = attack;
    let found = bench.search(range, precision, unit, &mut |bench, value| {
        trial(bench, test, value, attack.as_deref_mut())
    })?;
    let text = found.text(unit, range.min);
    let none = found.answer.rate.is_none().then(|| text.clone());
    let answer = found.answer.rate;
    Ok((Report::of(text, found.json(), found.stopped.or(none)), answer))
}

/// The hosts' behaviour in a trial with `count` connections opened at `rate`.
pub(super) fn profile(test: Test, count: u32, rate: f64) -> Profile {
    let wait_ms = (f64::from(count) / rate * 1000.0).ceil() as u32 + GAP_MS;
    let (messages, close) = match test {
        // Each connection is used once more while all are open, to verify that the device keeps them.
        Test::SteadyConcurrent => (3, Close::ClientFin),
        _ => (2, Close::ClientReset),
    };
    Profile {
        name: test.name(),
        connections_at_once: count,
        time_wait_ms: 0,
        idle_timeout_ms: wait_ms + 10_000,
        messages,
        think_time_ms: wait_ms,
        close,
        ..Profile::default()
    }
}

/// One trial: opens, validates and ends all connections.
pub(super) fn trial(
    bench: &mut Bench<'_>,
    test: Test,
    value: f64,
    mut attack: Option<&mut Attack>,
) -> Result<Trial, LoadError> {
    let (count, rate) = match test {
        Test::Concurrent | Test::SteadyConcurrent => (value as u32, bench.args.rate),
        _ => (bench.args.connections as u32, value),
    };
    let profile = profile(test, count, rate);
    let mut endpoints = endpoints(bench, &profile, count as usize + 1000)?;
    let before = (bench.device.table()?, bench.device.refused());
    let mut sample = open_all(bench, &mut endpoints, &profile, rate, attack.as_deref_mut())?;
    sample.table_before = before.0;
    sample.table_full = bench.device.refused() - before.1;
    give_back(bench, endpoints)?;
    let counts = attack.map(|attack| attack.counts());
    let verdict = match test {
        Test::SteadyConcurrent => judge_steady(&sample, &[]),
        _ => judge(&sample, &Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL }),
    };
    let verdict = counts.and_then(|counts| weak(bench.args.flood_rate, &counts)).unwrap_or(verdict);
    let mut json = sample_json(&sample);
    if let (Some(json), Some(counts)) = (json.as_object_mut(), counts) {
        json.insert(
            "attack".to_owned(),
            json!({
                "sent": counts.sent,
                "missed": counts.missed,
                "forwarded": counts.forwarded,
                "answered": counts.answered,
            }),
        );
    }
    let loss = sample.loss_ratio().max(sample.failure_ratio());
    Ok(Trial { verdict, loss, broken: sample.broken(), json })
}

/// An attack below its requested rate says nothing about the device.
fn weak(asked: f64, attack: &FloodCounts) -> Option<Verdict> {
    let share = attack.missed as f64 / (attack.sent + attack.missed).max(1) as f64;
    let reason = Reason::FramesNotOffered { asked, missed: attack.missed, share };
    (share > Allowance::SHORTFALL).then(|| Verdict::Invalid(vec![reason]))
}

/// The same hosts with addresses of IPv6's block for benchmarks (RFC 5180 section 8).
fn over_ipv6(profile: &Profile) -> Result<Profile, LoadError> {
    let range =
        |text: &str| text.parse().map_err(|error: RangeError| LoadError::Ended(error.to_string()));
    Ok(Profile {
        clients: range("2001:2::1-2001:2::fffe")?,
        servers: range("2001:2:0:8000::1-2001:2:0:8000::fe")?,
        ..profile.clone()
    })
}

fn endpoints(
    bench: &mut Bench<'_>,
    profile: &Profile,
    room: usize,
) -> Result<Endpoints, LoadError> {
    let profile = if bench.args.ipv6 { &over_ipv6(profile)? } else { profile };
    profile
        .check()
        .map_err(|source| LoadError::Profile { name: "this test".to_owned(), source })?;
    let known = bench.args.place.knows_neighbours();
    let (client, server) = hosts_at(profile, &bench.args.hosts, room, known, bench.clock.now())?;
    let links = bench.links.take();
    let (to, from) = links.ok_or_else(|| LoadError::Ended("the ports are gone".to_owned()))?;
    Ok(Endpoints::new(Some(Endpoint::new(client, to)), Some(Endpoint::new(server, from))))
}

/// Returns the ports, and clears the device's table.
fn give_back(bench: &mut Bench<'_>, mut endpoints: Endpoints) -> Result<(), LoadError> {
    endpoints.abort_all();
    bench.links = endpoints.into_links();
    bench.clean()
}

/// Opens the profile's connections at this rate, and waits until each has ended or the time is over.
fn open_all(
    bench: &mut Bench<'_>,
    endpoints: &mut Endpoints,
    profile: &Profile,
    rate: f64,
    mut attack: Option<&mut Attack>,
) -> Result<Sample, LoadError> {
    let count = u64::from(profile.connections_at_once);
    let start = bench.clock.now();
    if let Some(client) = &mut endpoints.client {
        client.host.open_at(rate.round().max(1.0) as u64, 0, start);
        client.host.stop_opening_after(count);
    }
    if let Some(attack) = attack.as_deref_mut() {
        attack.set_rate(Some(bench.args.flood_rate), start);
    }
    let opening = Duration::from_secs_f64(count as f64 / rate);
    let limit = opening + lifetime(profile) + PATIENCE;
    let mut opened_at = None;
    loop {
        let now = bench.clock.now();
        // The attackers' SYNs come first: if the device has room only for some packets, the attack takes it.
        if let Some(attack) = attack.as_deref_mut() {
            attack.iterate(now);
        }
        endpoints.iterate_and_rest(now)?;
        let opened =
            endpoints.client.as_ref().map_or(0, |endpoint| endpoint.host.statistics().opened);
        if opened >= count && opened_at.is_none() {
            opened_at = Some(now);
        }
        let over = opened_at.is_some() && endpoints.alive() == 0 || now - start >= limit;
        if over || (bench.interrupted)() {
            break;
        }
    }
    let seconds = (opened_at.unwrap_or_else(|| bench.clock.now()) - start).as_secs_f64();
    if let Some(attack) = attack {
        calm_down(bench, endpoints, attack)?;
    }
    Ok(account(endpoints, rate, seconds))
}

/// Stops the attack and receives the frames in flight, which would otherwise fill the table of the next
/// trial.
fn calm_down(
    bench: &Bench<'_>,
    endpoints: &mut Endpoints,
    attack: &mut Attack,
) -> Result<(), LoadError> {
    let start = bench.clock.now();
    attack.set_rate(None, start);
    while bench.clock.now() - start < Duration::from_millis(50) {
        endpoints.iterate_and_rest(bench.clock.now())?;
    }
    Ok(())
}

fn account(endpoints: &Endpoints, rate: f64, seconds: f64) -> Sample {
    let (client, server) = (endpoints.client_statistics(), endpoints.server_statistics());
    let missed = endpoints.client.as_ref().map_or(0, |endpoint| endpoint.host.missed_opens());
    let window = Window {
        seconds,
        opened: client.opened,
        // All belong to the trial, whenever they ended.
        completed: client.completed,
        active: client.opened,
        ..Window::default()
    };
    let mut sample = Sample { offered: rate, window, ..Sample::default() };
    sample.count(&client, &server, endpoints.active(), missed);
    sample.port_errors = endpoints.port_errors();
    sample.port_drops = endpoints.port_drops();
    sample
}

/// The connection rate without an attack, and under one.
fn flood(bench: &mut Bench<'_>) -> Result<Report, LoadError> {
    let test = Test::SynFlood;
    let (mut without, alone) = searched(bench, test, None)?;
    if without.stopped.is_some() {
        return Ok(without);
    }
    let hosts = &bench.args.hosts;
    let known = bench.args.place.knows_neighbours();
    let gateway = hosts.gateway.or(known.then_some(SERVER_MAC)).unwrap_or(SERVER_MAC);
    let config = FloodConfig {
        client_mac: CLIENT_MAC,
        server_mac: SERVER_MAC,
        gateway,
        vlan: hosts.vlan,
        seed: hosts.seed,
    };
    let attack = Flood::new(config, &Profile::default()).zip(bench.links.take());
    let Some((flood, links)) = attack else {
        return Err(LoadError::Ended("the ports are gone".to_owned()));
    };
    let (mut attack, links) = Attack::join(flood, links);
    bench.links = Some(links);
    eprintln!("under {} SYNs per second ...", human(bench.args.flood_rate));
    let (under, attacked) = searched(bench, test, Some(&mut attack))?;
    let share = alone.zip(attacked).map(|(alone, attacked)| attacked / alone);
    let mut lines = vec![
        format!("without: {}", without.lines.concat()),
        format!(
            "under {} SYNs/s: {}{}",
            human(bench.args.flood_rate),
            under.lines.concat(),
            share.map_or(String::new(), |share| format!("; {:.0}% are left", 100.0 * share))
        ),
    ];
    let last = under.json["trials"].as_array().and_then(|all| all.last().cloned());
    let attack = last.map(|trial| trial["sample"]["attack"].clone()).unwrap_or_default();
    if let (Some(sent), Some(forwarded)) = (attack["sent"].as_u64(), attack["forwarded"].as_u64()) {
        lines.push(format!("of {sent} SYNs of the last trial {forwarded} were forwarded"));
    }
    without.lines = lines;
    let json = json!({
        "answer": attacked,
        "without_flood": Value::Object(without.json),
        "under_flood": Value::Object(under.json),
        "flood_syns_per_second": bench.args.flood_rate,
        "left": share,
    });
    without.json = json.as_object().cloned().unwrap_or_default();
    without.stopped = under.stopped;
    Ok(without)
}

/// The connection rate in steady state.
fn steady_rate(bench: &mut Bench<'_>) -> Result<Report, LoadError> {
    let (range, precision, unit) = (bench.range(), bench.precision(), Test::SteadyRate.unit());
    let initial = steady_trial(bench, (range.max * INITIAL).max(range.min))?;
    eprintln!("initial phase: {}", initial.verdict.word());
    let first = told((range.max * INITIAL).max(range.min), "initial", &initial);
    if let Some(broken) = initial.broken {
        let line = broken.to_string();
        return Ok(Report::of(line.clone(), json!({ "trials": [first] }), Some(line)));
    }
    let found =
        bench.search(range, precision, unit, &mut |bench, rate| steady_trial(bench, rate))?;
    let text = found.text(unit, range.min);
    let none = found.answer.rate.is_none().then(|| text.clone());
    let mut json = found.json();
    if let Some(json) = json.as_object_mut() {
        json.insert("initial".to_owned(), first);
        json.insert("object_bytes".to_owned(), json!(bench.args.object_bytes));
    }
    Ok(Report::of(text, json, found.stopped.or(none)))
}

/// Ramp up, sustain, ramp down, collect (RFC 9411 section 4.3.4).
fn steady_trial(bench: &mut Bench<'_>, rate: f64) -> Result<Trial, LoadError> {
    let http = Profile::built_in("http").and_then(Result::ok).unwrap_or_default();
    let profile = Profile {
        name: Test::SteadyRate.name(),
        reply_bytes: bench.args.object_bytes,
        connections_at_once: (rate * 2.0).clamp(10_000.0, 2e6) as u32,
        ..http
    };
    let mut endpoints = endpoints(bench, &profile, profile.connections_at_once as usize + 1000)?;
    let before = (bench.device.table()?, bench.device.refused());
    let sustain = bench.seconds();
    let plan = Plan {
        rate: Some(rate),
        ramp: sustain / 2,
        settle_window: Duration::ZERO,
        lifetime: lifetime(&profile),
        sample: sustain,
        limits: Some(Limits {
            lost: 1.0,
            failed: FAILURES,
            missed: Allowance::SHORTFALL,
            cut: false,
        }),
        drain: lifetime(&profile) + PATIENCE,
    };
    let mut windows = Vec::new();
    let mut live = |it: &Live| {
        if it.phase == Phase::Sample {
            windows.push(it.window);
        }
    };
    let mut watch = Watch { clock: bench.clock, live: &mut live, interrupted: bench.interrupted };
    let mut sample = trial::Trial::start(&mut endpoints, &plan, &mut watch).run()?;
    sample.table_before = before.0;
    sample.table_full = bench.device.refused() - before.1;
    give_back(bench, endpoints)?;
    // The first window includes part of the ramp.
    let verdict = judge_steady(&sample, windows.get(1..).unwrap_or_default());
    let loss = sample.failure_ratio();
    Ok(Trial { verdict, loss, broken: sample.broken(), json: sample_json(&sample) })
}

/// RFC 9411's criteria: failures are counted per connection and not per packet, and the rates must be
/// constant.
pub(super) fn judge_steady(sample: &Sample, windows: &[Window]) -> Verdict {
    let of_the_rest = Allowance { loss: 1.0, shortfall: Allowance::SHORTFALL };
    let mut failures = match judge(sample, &of_the_rest) {
        Verdict::Pass => Vec::new(),
        Verdict::Fail(reasons) => reasons,
        invalid @ Verdict::Invalid(_) => return invalid,
    };
    let failed = sample.failed.total() + sample.unfinished;
    if failed as f64 > FAILURES * sample.opened as f64 {
        let kinds = sample.failed.by_name().into_iter().filter(|(_, count)| *count > 0);
        failures.extend(kinds.map(|(kind, count)| Reason::Failed { kind, count }));
        if sample.unfinished > 0 {
            failures.push(Reason::Unfinished(sample.unfinished));
        }
    }
    let forwarded = |it: &Window| it.rx_packets as f64 / it.seconds.max(1e-9);
    let constant: [(&'static str, f64, f64); 2] = [
        ("the forwarding rate", deviation(windows, forwarded), RATE_PERCENT),
        ("concurrent connections", deviation(windows, |it| it.active as f64), CONNECTIONS_PERCENT),
    ];
    for (what, percent, allowed) in constant {
        if percent > allowed {
            failures.push(Reason::Unsteady { what, percent, allowed });
        }
    }
    if failures.is_empty() { Verdict::Pass } else { Verdict::Fail(failures) }
}

/// The largest deviation of a window from the mean, in percent. An absolute deviation below 20 counts as
/// none.
fn deviation(windows: &[Window], of: impl Fn(&Window) -> f64) -> f64 {
    let mean = windows.iter().map(&of).sum::<f64>() / windows.len().max(1) as f64;
    let farthest = windows.iter().map(|it| (of(it) - mean).abs()).fold(0.0, f64::max);
    if farthest < 20.0 || mean <= 0.0 { 0.0 } else { 100.0 * farthest / mean }
}
