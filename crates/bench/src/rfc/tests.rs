mod scripted;

use super::*;
use clap::Parser;
use load::trial::Clock;
use scripted::{Script, Scripted, Steps};
use serde_json::Value;
use std::time::Duration;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: RfcArgs,
}

fn read(line: &str) -> Result<RfcArgs, clap::Error> {
    let words = std::iter::once("rfc").chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.args)
}

/// Runs a test on a scripted device, and returns what it prints and why it stopped.
fn measured(line: &str, script: Script) -> (Value, String, Option<String>) {
    let ran = try_measured(line, script, &|_| false);
    let (outcome, stopped) = ran.unwrap_or_else(|error| panic!("{line}: {error}"));
    (outcome.json, outcome.text, stopped)
}

fn try_measured(
    line: &str,
    script: Script,
    interrupted: &dyn Fn(Instant) -> bool,
) -> Result<(Outcome, Option<String>), LoadError> {
    try_in_steps(line, script, interrupted, Duration::from_micros(100))
}

/// The same where time goes on by so much at each look.
fn try_in_steps(
    line: &str,
    script: Script,
    interrupted: &dyn Fn(Instant) -> bool,
    step: Duration,
) -> Result<(Outcome, Option<String>), LoadError> {
    let clock = Steps::new(step);
    let device = Scripted::new(script, &clock);
    let args = read(&format!("{line} --gateway 02:00:00:00:00:02")).unwrap();
    args.check()?;
    let at = || interrupted(clock.now());
    let mut bench = Bench {
        args: &args,
        clock: &clock,
        interrupted: &at,
        links: Some(device.links()),
        device: Box::new(device),
        with_ceiling: false,
        phase: 0,
    };
    let test = args.test.unwrap();
    let report = run(&mut bench, test)?;
    let stopped = report.stopped.clone();
    Ok((report.outcome(&mut bench, test), stopped))
}

use base::Instant;

#[test]
fn each_test_is_listed_with_its_section() {
    let listed = measure(&read("--list").unwrap()).unwrap();
    for test in Test::value_variants() {
        assert!(listed.text.contains(&test.name()) && test.section().contains(" section"));
        assert!(read(&test.name()).is_ok(), "{}", test.name());
    }
    assert_eq!(listed.json.as_array().map(Vec::len), Some(15));
    for line in [
        "",
        "rfc1",
        "rfc3511-concurrent -m 1",
        "rfc2544-throughput --frame-sizes 63",
        "rfc2544-throughput --frame-sizes 1519",
        "rfc2544-throughput --seconds 0",
        "rfc9693-establishment --validation-share 0",
        "rfc2544-throughput --addresses 0",
        "rfc2544-latency --repeats 0",
    ] {
        assert!(read(line).is_err(), "{line}");
    }
    for (line, expected) in [
        ("rfc3511-concurrent -m 2k -M 1k", "not below"),
        ("rfc3511-concurrent -M 5m", "at most 4m"),
        ("rfc2544-latency --client c0", "name both"),
        ("rfc2544-latency --ipv6 --frame-sizes 128,83", "83: a test frame of IPv6 has 84"),
        ("rfc9693-throughput --ipv6", "track IPv4 only"),
        ("rfc3511-concurrent --ipv6 --dut ovs", "track IPv4 only"),
        ("rfc3511-syn-flood --ipv6 --dut none", "of IPv4 only"),
    ] {
        let error = measure(&read(line).unwrap()).map(|_| ()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(expected) || said.contains("c0"), "{line}: {said}");
    }
}

#[test]
fn a_device_that_drops_four_of_a_thousand_reads_so() {
    let script = || Script { drop_one_of: Some(250), ..Script::default() };
    let line = "rfc2544-frame-loss -m 1k -M 5k --frame-sizes 64,1518 --seconds 2";
    let (json, text, stopped) = measured(line, script());
    assert_eq!(stopped, None, "{text}");
    for size in json["frame_sizes"].as_array().unwrap() {
        let trials = size["trials"].as_array().unwrap();
        // No step is free of loss, so that all ten are looked at.
        assert_eq!(trials.len(), 10, "{size}");
        for trial in trials {
            let percent = 100.0 * trial["sample"]["loss_ratio"].as_f64().unwrap();
            assert!((percent - 0.4).abs() < 0.05, "{percent}");
        }
    }
    let line = "rfc2544-throughput -m 1k -M 2k --frame-sizes 64 --seconds 1 --precision 40";
    let (_, text, stopped) = measured(line, script());
    assert!(stopped.unwrap().contains("not even 1.0K"), "{text}");
}

#[test]
fn throughput_is_what_the_device_carries() {
    let script = Script { most_per_second: Some(4000.0), ..Script::default() };
    let line =
        "rfc2544-throughput --rate 1k -m 500 -M 6k --frame-sizes 64 --seconds 1 --precision 4";
    let (json, text, stopped) = measured(line, script.clone());
    // 2,000 in each direction, and a hundredth of a second's room at the start.
    let answer = json["frame_sizes"][0]["answer"].as_f64().unwrap();
    assert!((1910.0..2060.0).contains(&answer) && stopped.is_none(), "{answer}: {text}");
    assert_eq!(json["frame_sizes"][0]["limited_by"], "dut");
    assert!(text.contains("RFC 2544 section 26.1") && text.contains("asks for 60 s"), "{text}");
    // Of the loss curve, the steps from 3,000 on do lose: a third at 3,000.
    let line = "rfc2544-frame-loss --rate 1k -m 500 -M 3k --frame-sizes 64 --seconds 2";
    let (json, ..) = measured(line, script);
    let trials = json["frame_sizes"][0]["trials"].as_array().unwrap();
    let highest = trials[0]["sample"]["loss_ratio"].as_f64().unwrap();
    assert!((highest - 1.0 / 3.0).abs() < 0.02, "{highest}");
    // 3,000, 2,700, 2,400, 2,100 lose; 1,800 and 1,500 are two in a row that do not.
    assert_eq!(trials.len(), 6, "{trials:?}");
}

#[test]
fn added_latency_is_what_is_measured() {
    let script = Script { delay: Duration::from_millis(3), ..Script::default() };
    let line = "rfc2544-latency --at 2k --frame-sizes 128 --seconds 1";
    let (json, text, _) = measured(line, script);
    let latency = &json["frame_sizes"][0]["latency"];
    for name in ["mean_us", "p50_us", "p99_us", "max_us"] {
        let us = latency[name].as_f64().unwrap();
        // The generator's own iterations take some of its clock's steps of 100 us.
        assert!((3000.0..3400.0).contains(&us), "{name}: {us} {text}");
    }
    assert_eq!(latency["count"], 4000);
}

#[test]
fn latency_is_measured_again_as_often_as_was_asked_for() {
    let script = Script { delay: Duration::from_millis(2), ..Script::default() };
    let line = "rfc2544-latency --at 1k --frame-sizes 64 --seconds 1 --repeats 3";
    let (json, text, _) = measured(line, script);
    let size = &json["frame_sizes"][0];
    assert_eq!(size["latency"]["count"], 3 * 2000, "{size}");
    let means = size["latency_means_us"].as_array().unwrap();
    assert!(means.len() == 3 && size["repeated"].as_array().map(Vec::len) == Some(2), "{size}");
    let mean = size["latency_mean_us"].as_f64().unwrap();
    assert!((2000.0..2400.0).contains(&mean), "{mean}");
    assert!(text.contains("asks for 20 repetitions; there were 3"), "{text}");
}

#[test]
fn the_longest_burst_is_what_the_device_has_room_for() {
    // Room for 400 frames of both directions, and nothing goes on between them.
    let script = || Script { most_per_second: Some(40_000.0), ..Script::default() };
    let line = "rfc2544-back-to-back --rate 1k -M 5k --frame-sizes 64 --precision 1 --repeats 2";
    let (json, text, stopped) = measured(line, script());
    let size = &json["frame_sizes"][0];
    let answer = size["answer"].as_f64().unwrap();
    assert!((196.0..=204.0).contains(&answer) && stopped.is_none(), "{text}");
    assert_eq!(size["bursts"].as_array().map(Vec::len), Some(2), "{size}");
    assert!(text.contains("back to back at") && text.contains("asks for 50"), "{text}");
    assert_eq!(json["unit"], "frames in each direction");
    // Slowly enough, any burst passes: it was asked for no more.
    let line = format!("{line} --at 10k");
    let (json, text, _) = measured(&line, script());
    assert_eq!(json["frame_sizes"][0]["answer"], 5000.0, "{text}");
    let (_, _, stopped) = measured(&line, Script { drop_one_of: Some(7), ..script() });
    assert!(stopped.unwrap().contains("not even 10 frames"));
}

#[test]
fn a_burst_with_a_pause_in_it_is_none() {
    // Five milliseconds pass between the 256 frames that go out at once and the next ones.
    let line = "rfc2544-back-to-back --rate 1k -M 5k --frame-sizes 64 --precision 1";
    let ran = try_in_steps(line, Script::default(), &|_| false, Duration::from_millis(5));
    let size = &ran.unwrap().0.json["frame_sizes"][0];
    assert_eq!(size["limited_by"], "generator", "{size}");
    let answer = size["answer"].as_f64().unwrap();
    assert!((250.0..=256.0).contains(&answer), "{answer}");
    assert!(size.to_string().contains("paused for 5.0 ms within the burst"), "{size}");
}

/// A look at the clock every 20 ms: no more than 256 frames a direction go out in one, 12,800 a
/// second.
#[test]
fn a_generator_that_is_too_slow_has_no_verdict_whatever_the_test() {
    for line in [
        "rfc2544-throughput -m 20k -M 50k --frame-sizes 64 --seconds 1",
        "rfc2544-latency --at 50k --frame-sizes 64 --seconds 1",
        "rfc2544-frame-loss -M 1m --frame-sizes 64 --seconds 1",
        "rfc2544-back-to-back --at 50k -m 100k -M 200k --frame-sizes 64",
        "rfc3511-concurrent --rate 50k -m 10k -M 20k",
        "rfc3511-connection-rate --connections 10k -m 20k -M 50k",
        "rfc3511-syn-flood --connections 10k -m 20k -M 50k",
        "rfc9411-connection-rate -m 20k -M 50k --seconds 1",
        "rfc9411-concurrent --rate 50k -m 10k -M 20k",
        "rfc9693-establishment --connections 20k -m 20k -M 50k",
        "rfc9693-throughput --connections 1000 -m 20k -M 50k --frame-sizes 64 --seconds 1",
        "rfc9693-latency --connections 1000 --at 50k --frame-sizes 64 --seconds 1",
        "rfc9693-frame-loss --connections 1000 -M 1m --frame-sizes 64 --seconds 1",
        "rfc9693-capacity --connections 20k -m 20k -M 50k",
    ] {
        let script = Script { table: Some(1_000_000), ..Script::default() };
        let ran = try_in_steps(line, script, &|_| false, Duration::from_millis(20));
        let (outcome, stopped) = ran.unwrap_or_else(|error| panic!("{line}: {error}"));
        let json = outcome.json.to_string();
        assert!(json.contains("\"verdict\":\"invalid\""), "{line}: {json}");
        for said in ["\"verdict\":\"pass\"", "\"verdict\":\"fail\""] {
            assert!(!json.contains(said), "{line}: {json}");
        }
        assert!(stopped.is_some(), "{line}: {}", outcome.text);
        let answer = |it: &Value| it.get("answer").is_none_or(Value::is_null);
        let mut sizes = outcome.json["frame_sizes"].as_array().into_iter().flatten();
        assert!(answer(&outcome.json) && sizes.all(answer), "{line}: {json}");
    }
}

#[test]
fn an_attack_that_is_weaker_than_asked_for_has_no_verdict() {
    // The device is asked for little; the attackers send 32 each millisecond, of 100 that are due.
    let script = Script { table: Some(1_000_000), ..Script::default() };
    let line = "rfc3511-syn-flood --connections 100 -m 100 -M 200 --flood-rate 100k";
    let ran = try_in_steps(line, script, &|_| false, Duration::from_millis(1));
    let (outcome, stopped) = ran.expect("it is measured");
    let (json, text) = (outcome.json, outcome.text);
    assert_eq!(json["without_flood"]["answer"], 200.0, "{text}");
    assert_eq!(json["answer"], Value::Null, "{text}");
    let said = stopped.unwrap();
    assert!(said.contains("too late for") && said.contains("100000 per second"), "{said}");
}

#[test]
fn ipv6_and_many_addresses_are_measured_alike() {
    let named = "--ipv6 --addresses 20 --client a --server b";
    let script = Script { most_per_second: Some(4000.0), ..Script::default() };
    let line =
        format!("rfc2544-throughput --rate 1k -m 500 -M 6k --seconds 1 --precision 4 {named}");
    let (json, text, stopped) = measured(&line, script);
    let sizes = json["frame_sizes"].as_array().unwrap();
    let bytes: Vec<_> = sizes.iter().map(|size| size["frame_bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [84, 128, 256, 512, 1024, 1280, 1518]);
    assert!(stopped.is_none() && json["ip_version"] == 6, "{text}");
    for size in sizes {
        let answer = size["answer"].as_f64().unwrap();
        assert!((1910.0..2060.0).contains(&answer), "{answer}: {text}");
    }
    // The table of a stateful device has an entry for each flow.
    for (entries, passes) in [(1000, true), (999, false)] {
        let script = Script { table: Some(entries), ..Script::default() };
        let line = format!("rfc9693-establishment --connections 1000 -m 1k -M 2k {named}");
        let (json, text, _) = measured(&line, script);
        assert_eq!(json["answer"].is_null(), !passes, "{text}");
    }
    let line = "rfc3511-connection-rate --connections 300 -m 500 -M 1k --precision 50";
    let script = Script { table: Some(100_000), ..Script::default() };
    let (json, text, _) = measured(&format!("{line} {named}"), script);
    assert_eq!(json["answer"], 1000.0, "{text}");
}

#[test]
fn several_workers_of_a_switch_have_their_part() {
    let line = "rfc2544-frame-loss --workers 2 --frame-sizes 64 --seconds 0.2 -m 500 -M 1k";
    let mut args = read(line).unwrap();
    args.place.no_ct = true;
    let mut bench = open(&args, &|| false).unwrap();
    bench.with_ceiling = false;
    let report = run(&mut bench, Test::FrameLoss).unwrap();
    let outcome = report.outcome(&mut bench, Test::FrameLoss);
    assert_eq!(outcome.json["dut"]["workers"], 2);
    for trial in outcome.json["frame_sizes"][0]["trials"].as_array().unwrap() {
        for way in ["forth", "back"] {
            let of = |name: &str| trial["sample"][way][name].as_u64().unwrap();
            // Both queues were filled and emptied, or half of them would be missing.
            assert!(of("received") * 10 >= of("sent") * 9 && of("sent") > 0, "{trial}");
        }
    }
}

#[test]
fn a_table_of_so_many_entries_comes_out() {
    for entries in [1500, 2300] {
        let script = Script { table: Some(entries), ..Script::default() };
        let line = "rfc9693-capacity --connections 500 -m 1k -M 5k --max-connections 50k";
        let (json, text, stopped) = measured(line, script);
        let answer = json["answer"].as_u64().unwrap();
        let least = entries as f64 * 0.97;
        assert!(answer <= entries as u64 && answer as f64 >= least, "{entries}: {text}");
        assert!(json["did_not_fit"].as_u64().unwrap() > entries as u64 && stopped.is_none());
    }
    let script = Script { table: Some(usize::MAX), ..Script::default() };
    let line = "rfc9693-capacity --connections 500 -m 1k -M 5k --max-connections 2k";
    let (json, text, _) = measured(line, script);
    assert_eq!((&json["answer"], &json["did_not_fit"]), (&json!(2000), &Value::Null), "{text}");
}

#[test]
fn entries_are_validated_and_not_believed() {
    let script =
        Script { table: Some(100_000), entries_per_second: Some(2000.0), ..Script::default() };
    let line = "rfc9693-establishment --connections 2000 -m 500 -M 5k --precision 4";
    let (json, text, _) = measured(line, script.clone());
    let answer = json["answer"].as_f64().unwrap();
    assert!((1900.0..2100.0).contains(&answer), "{text}");
    // It forwards every first frame, and makes no entry for one of a hundred.
    let script = Script { forgets_one_of: Some(100), entries_per_second: None, ..script };
    let (json, _, stopped) = measured(line, script);
    assert_eq!(json["answer"], Value::Null);
    let said = stopped.unwrap();
    assert!(said.contains("back: 20 of 2000"), "{said}");
}

#[test]
fn phase_two_runs_over_what_phase_one_established() {
    for shows_table in [true, false] {
        let script = Script {
            table: Some(1000),
            most_per_second: Some(4000.0),
            shows_table,
            ..Script::default()
        };
        let line =
            "rfc9693-throughput --connections 1000 --rate 2k -m 1k -M 5k --seconds 1 --precision 5";
        let (json, text, stopped) = measured(line, script.clone());
        let answer = json["frame_sizes"][0]["answer"].as_f64().unwrap();
        assert!((1900.0..2070.0).contains(&answer) && stopped.is_none(), "{answer} {text}");
        // One entry too few, and phase 1 is not done.
        let script = Script { table: Some(999), ..script };
        let (json, _, stopped) = measured(line, script);
        let reasons = json["frame_sizes"][0]["trials"][0]["reasons"].to_string();
        assert!(reasons.contains("only 999 of 1000 flows"), "{reasons} {stopped:?}");
        assert_eq!(json["frame_sizes"][0]["answer"], Value::Null);
    }
    let script = Script { table: Some(500), delay: Duration::from_millis(1), ..Script::default() };
    let line = "rfc9693-latency --connections 500 --at 1k --seconds 1";
    let (json, ..) = measured(line, script.clone());
    assert!(json["frame_sizes"][0]["latency"]["p50_us"].as_f64().unwrap() >= 1000.0);
    let line = "rfc9693-frame-loss --connections 500 -m 1k -M 2k --seconds 1";
    let (json, ..) = measured(line, Script { drop_one_of: Some(250), ..script });
    // Phase 1 loses two of 500, and says so, whatever phase 2 shows.
    let trial = &json["frame_sizes"][0]["trials"][0];
    assert_eq!(trial["verdict"], "invalid", "{trial}");
}

#[test]
fn a_table_is_torn_down_at_its_pace() {
    let script = Script { table: Some(100_000), ..Script::default() };
    let line = "rfc9693-teardown --connections 2000 --rate 5k";
    let (json, text, stopped) = measured(line, script.clone());
    // A microsecond each.
    let answer = json["answer"].as_f64().unwrap();
    assert!((0.85e6..1.1e6).contains(&answer) && stopped.is_none(), "{answer} {text}");
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(10));
    assert_eq!(json["at_least"], false);
    let (_, _, stopped) = measured(line, Script { table: Some(1500), ..script.clone() });
    assert!(stopped.unwrap().contains("established 1500 of 2000"));
    let unseen = Script { shows_table: false, ..script };
    let error = try_measured(line, unseen, &|_| false).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("--reset-command") && error.status() == 2);
}

#[test]
fn tcp_connections_fill_a_table_and_no_more() {
    let script = Script { table: Some(700), ..Script::default() };
    for test in ["rfc3511-concurrent", "rfc9411-concurrent"] {
        let line = format!("{test} --rate 2k -m 300 -M 1500 --precision 5");
        let (json, text, stopped) = measured(&line, script.clone());
        let answer = json["answer"].as_f64().unwrap();
        assert!((650.0..=701.0).contains(&answer) && stopped.is_none(), "{test}: {text}");
    }
    let script =
        Script { table: Some(100_000), entries_per_second: Some(1500.0), ..Script::default() };
    let line = "rfc3511-connection-rate --connections 1000 -m 500 -M 4k --precision 5";
    let (json, text, _) = measured(line, script.clone());
    assert!((1350.0..1650.0).contains(&json["answer"].as_f64().unwrap()), "{text}");
    let line = "rfc9411-connection-rate -m 500 -M 4k --precision 10 --seconds 2";
    let (json, text, _) = measured(line, script);
    let answer = json["answer"].as_f64().unwrap();
    assert!((1250.0..1600.0).contains(&answer), "{text}");
    assert_eq!(json["initial"]["verdict"], "pass", "{}", json["initial"]);
}

#[test]
fn a_flood_takes_its_part_of_what_the_device_can_do() {
    let script =
        Script { table: Some(1_000_000), entries_per_second: Some(3000.0), ..Script::default() };
    let line = "rfc3511-syn-flood --connections 1000 -m 500 -M 5k --precision 10 --flood-rate 1000";
    let (json, text, stopped) = measured(line, script);
    assert_eq!(stopped, None, "{text}");
    let alone = json["without_flood"]["answer"].as_f64().unwrap();
    let attacked = json["under_flood"]["answer"].as_f64().unwrap();
    assert!(alone > 2700.0, "{text}");
    // 1,000 entries per second of 3,000 are the attack's.
    assert!((1600.0..2400.0).contains(&attacked), "{text}");
    let trials = json["under_flood"]["trials"].as_array().unwrap();
    let passed = trials.iter().rev().find(|trial| trial["verdict"] == "pass").unwrap();
    let attack = &passed["sample"]["attack"];
    let count = |name: &str| attack[name].as_u64().unwrap();
    assert!(count("sent") > 500 && count("forwarded") <= count("sent"), "{attack}");
    assert!(count("answered") <= count("forwarded") && count("answered") > 0, "{attack}");
}

#[test]
fn devices_that_are_none_stop_the_run_and_say_how() {
    let table = Some(1_000_000);
    let cases = [
        ("forwards nothing", Script { drop_one_of: Some(1), ..Script::default() }),
        ("packets twice", Script { copies: 2, ..Script::default() }),
        ("back to the side", Script { reflects: true, ..Script::default() }),
        ("garbage", Script { spoils: true, ..Script::default() }),
        ("from the servers", Script { table, forgets_one_of: Some(1), ..Script::default() }),
    ];
    for (expected, script) in cases {
        for line in [
            "rfc2544-throughput -m 1k -M 2k --frame-sizes 64 --seconds 1",
            "rfc2544-frame-loss -m 1k -M 2k --frame-sizes 64 --seconds 1",
            "rfc9693-establishment --connections 1000 -m 1k -M 2k",
            "rfc3511-connection-rate --connections 200 -m 500 -M 1k",
            "rfc9411-connection-rate -m 500 -M 1k --seconds 1",
        ] {
            let (json, text, stopped) = measured(line, script.clone());
            let said = stopped.unwrap_or_else(|| panic!("{line}, {expected}: {text}"));
            assert!(said.contains(expected), "{line}: {said}");
            // What was measured is there all the same.
            assert!(json.to_string().contains("\"verdict\":\"invalid\""), "{line}: {json}");
        }
    }
}

#[test]
fn a_port_that_goes_away_is_named_and_what_was_measured_kept() {
    // The first: gone in the first trial. The second: in a later one.
    for (line, early, late) in [
        ("rfc2544-throughput -m 1k -M 2k --frame-sizes 64 --seconds 1", 1500, 6000),
        ("rfc2544-frame-loss -m 1k -M 2k --frame-sizes 64 --seconds 1", 1500, 6000),
        ("rfc9693-establishment --connections 1000 -m 1k -M 2k", 1500, 3000),
        ("rfc9693-capacity --connections 1000 -m 1k -M 2k --precision 50", 1500, 15_000),
        ("rfc3511-connection-rate --connections 500 -m 500 -M 1k", 1500, 6000),
    ] {
        let script = |gone_after| Script {
            gone_after: Some(gone_after),
            table: Some(1_000_000),
            ..Script::default()
        };
        let error = try_measured(line, script(early), &|_| false).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("scripted0: no such device"), "{line}: {error}");
        let (json, _, stopped) = measured(line, script(late));
        let gone = "scripted0: no such device; `ip link` shows which there are";
        assert_eq!(stopped.as_deref(), Some(gone), "{line}");
        assert!(json.to_string().contains("\"verdict\":\"pass\""), "{line}: {json}");
    }
}

#[test]
fn what_one_size_or_one_repetition_has_shown_is_kept() {
    let gone = "scripted0: no such device; `ip link` shows which there are";
    // 100 frames fill the table, 2,000 are a trial: the port goes in the second size's, and in the
    // second repetition of a size.
    for (more, gone_after) in [("64,128", 2150), ("64 --repeats 3", 3000)] {
        let script = Script { gone_after: Some(gone_after), ..Script::default() };
        let line = format!("rfc2544-latency --at 1k --seconds 1 --frame-sizes {more}");
        let (json, _, stopped) = measured(&line, script);
        assert_eq!(stopped.as_deref(), Some(gone), "{more}");
        let sizes = json["frame_sizes"].as_array().unwrap();
        assert!(sizes.len() == 1 && sizes[0]["latency"]["count"] == 2000, "{sizes:?}");
    }
}

#[test]
fn interrupted_it_prints_what_there_is() {
    let after = |seconds: u64| move |now: Instant| now.as_nanos() > seconds * 1_000_000_000;
    let table = || Script { table: Some(1_000_000), ..Script::default() };
    for line in [
        "rfc2544-throughput -m 1k -M 2k --seconds 2",
        "rfc2544-frame-loss -m 1k -M 2k --seconds 2",
        "rfc9693-establishment --connections 1000 -m 1k -M 2k",
        "rfc9693-capacity --connections 1000 -m 1k -M 2k",
        "rfc3511-connection-rate --connections 1000 -m 500 -M 1k",
    ] {
        let (outcome, stopped) = try_measured(line, table(), &after(6)).unwrap();
        assert_eq!(stopped.as_deref(), Some("interrupted"), "{line}");
        assert_eq!(outcome.json["stopped"], "interrupted");
        let json = outcome.json.to_string();
        assert!(json.contains("\"verdict\":\"pass\""), "{line}: nothing was kept: {json}");
    }
}

#[test]
fn over_a_cable_and_the_machine_s_clock_too() {
    let line = "rfc9693-establishment --dut none --connections 300 -m 100 -M 400 --precision 60";
    let args = read(line).unwrap();
    let mut bench = open(&args, &|| false).unwrap();
    let report = run(&mut bench, Test::Establishment).unwrap();
    let outcome = report.outcome(&mut bench, Test::Establishment);
    let trials = outcome.json["trials"].as_array().unwrap();
    // A busy machine may come too late; it never loses or adds anything over a cable.
    for trial in trials {
        for way in ["forth", "back"] {
            let of = |name: &str| trial["sample"][way][name].as_u64().unwrap();
            assert_eq!((of("sent"), of("received")), (300, 300), "{trial}");
        }
    }
}
