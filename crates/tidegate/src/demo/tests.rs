//! The parts that can be tested without namespaces; `tests/cases/demo.sh` tests the whole.

use clap::{Args, FromArgMatches};

use super::DemoArgs;
use super::load::{Load, WrkResult, wrk_result};

const WRK: &str = "\
Running 10s test @ http://10.0.0.2/
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.14ms    1.02ms  22.75ms   92.47%
    Req/Sec     9.79k   592.62    10.67k    75.00%
  Latency Distribution
     50%    0.88ms
     75%    1.30ms
     90%    1.99ms
     99%    5.25ms
  97444 requests in 10.00s, 15.33MB read
";

fn result(tail: &str) -> Option<WrkResult> {
    wrk_result(&format!("{WRK}{tail}"))
}

#[test]
fn reads_what_wrk_says() {
    let check = |tail: &str, expect| {
        let got = result(tail).map(|r| (r.requests, r.errors, r.requests_per_s));
        assert_eq!(got, expect, "{tail}");
    };
    let end = "Requests/sec:   9744.10\nTransfer/sec:      1.53MB\n";
    check(end, Some((97444, 0, 9744.1)));
    let errors = "  Socket errors: connect 1, read 20, write 300, timeout 4000\n";
    check(&format!("{errors}{end}"), Some((97444, 4321, 9744.1)));
    check(&format!("  Non-2xx or 3xx responses: 7\n{end}"), Some((97444, 7, 9744.1)));
    check("", None);
    check("Requests/sec:   fast\n", None);
    let latency: Vec<String> = result(end)
        .map(|r| r.latency.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
        .unwrap_or_default();
    let expect = ["average=1.14ms", "50%=0.88ms", "75%=1.30ms", "90%=1.99ms", "99%=5.25ms"];
    assert_eq!(latency, expect);
}

#[test]
fn claims_fail_when_they_are_not_true() {
    let load = |requests, errors, accepted, table| Load {
        wrk: WrkResult { requests, errors, ..WrkResult::default() },
        seconds: Vec::new(),
        accepted,
        packets: 0,
        drops: 0,
        took_s: 1.0,
        connections: Vec::new(),
        table,
    };
    let all_ok = |load: Load| load.checks().iter().all(|check| check.is_true());
    assert!(all_ok(load(10, 0, 10, (5, 5))));
    assert!(!all_ok(load(0, 0, 0, (5, 5))), "no request");
    assert!(!all_ok(load(10, 1, 10, (5, 5))), "an error");
    assert!(!all_ok(load(10, 0, 9, (5, 5))), "a connection used twice");
    assert!(!all_ok(load(10, 0, 10, (0, 0))), "nothing tracked");
    assert!(!all_ok(load(10, 0, 10, (5, 4))), "another program's connection");
}

#[test]
fn offloads_follow_the_switch() {
    let parse = |line: &str| {
        let command = DemoArgs::augment_args(clap::Command::new("demo"));
        command.try_get_matches_from(line.split(' ')).and_then(|m| DemoArgs::from_arg_matches(&m))
    };
    let check = |line: &str, expect| {
        assert_eq!(parse(line).ok().map(|args| args.offloads_stay_on()), expect, "{line}");
    };
    check("demo", Some(true));
    check("demo --switch /usr/sbin/ovs-vswitchd", Some(false));
    check("demo --switch /usr/sbin/ovs-vswitchd --offloads on", Some(true));
    check("demo --offloads off", Some(false));
    check("demo --seconds 0", None);
    check("demo --connections 100000", None);
    check("demo --json --shell", None);
}
