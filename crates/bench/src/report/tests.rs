use super::*;
use serde_json::json;
use std::path::Path;
use std::process::Command;

fn sample(iteration: u32, offered: f64, verdict: &str) -> serde_json::Value {
    json!({
        "iteration": iteration, "offered": offered, "verdict": verdict, "purpose": "search",
        "connections_per_second": offered, "active_flows": offered / 2.0, "loss_ratio": 0.0001,
        "failure_ratio": 0.0,
        "handshake": {
            "count": 3, "p50_us": 80.0, "p99_us": 900.0, "p999_us": 950.0, "max_us": 1000.0,
            "buckets_us": [[70.0, 5], [80.0, 90], [900.0, 3]],
        },
        "reply": null,
    })
}

fn provenance() -> serde_json::Value {
    json!({
        "date": "2026-11-24T02:40:00Z", "command": "tidegate x --seed 77 'a <b>'", "version": "0.1.0",
        "commit": "96225a1f00d596225a1f with changes", "seed": 77,
        "machine": {"cpu": "Some CPU", "cores": 2, "kernel": "6.1", "load_average": 0.5},
    })
}

fn search(workers: u32, rate: f64) -> serde_json::Value {
    json!({
        "verb": "cps-ndr", "provenance": provenance(), "connections_per_second": rate,
        "active_flows": rate / 2.0, "tx_packets_per_second": rate * 7.0,
        "tx_bits_per_second": rate * 4000.0, "loss_ratio": 0.0, "limited_by": "dut",
        "dut": {"kind": "<tide & gate>", "ports": "memory", "workers": workers},
        "answer": {"offered": rate, "passed": 2, "samples": 3, "confirmed": true},
        "worker": {"worker": "pmd-c00", "source": "perf", "parts": [
            {"name": "mutex_lock", "object": "libc.so.6", "percent": 62.0, "lock": true},
        ]},
        "samples": [sample(1, rate * 1.5, "fail"), sample(2, rate, "pass"), sample(3, 9e5, "invalid")],
    })
}

fn latency() -> serde_json::Value {
    json!({
        "count": 9, "mean_us": 31.5, "p50_us": 30.0, "p99_us": 44.25, "p999_us": 45.0, "max_us": 46.0,
        "buckets_us": [[0.0, 7], [30.0, 5], [44.0, 4]],
    })
}

fn rfc(test: &str, more: serde_json::Value) -> serde_json::Value {
    let mut all = json!({
        "verb": "bench rfc", "test": test, "implements": "RFC 2544 section 26.2: latency",
        "unit": "frames/s in each direction", "stopped": null, "dut": {"kind": "none"},
        "provenance": provenance(), "seconds": 2.0,
    });
    let object = all.as_object_mut().unwrap();
    object.extend(more.as_object().cloned().unwrap());
    all
}

/// Each shape that a test of an RFC has.
fn rfcs() -> Vec<(&'static str, serde_json::Value)> {
    let trial = |value: f64, purpose: &str, verdict: &str, loss: f64| {
        json!({"value": value, "purpose": purpose, "verdict": verdict,
            "reasons": if verdict == "fail" { vec!["forth: 9 of 10 <lost>"] } else { vec![] },
            "sample": {"loss_ratio": loss}})
    };
    let trials = [trial(2e6, "search", "fail", 0.25), trial(1.5e6, "confirm", "pass", 0.0)];
    let found =
        json!({"answer": 1.5e6, "did_not_pass": 2e6, "limited_by": "dut", "trials": trials});
    let mut of_size = found.clone();
    (of_size["frame_bytes"], of_size["latency"]) = (json!(64), latency());
    let curve = [trial(1e6, "loss", "fail", 0.004), trial(9e5, "loss", "pass", 0.0)];
    let run = json!({"connections": 500, "full_s": 0.002, "empty_s": 0.0005,
        "connections_per_second": 333_333.0});
    let stopped = json!({"stopped": "interrupted", "trials": trials});
    vec![
        ("latency", rfc("rfc2544-latency", json!({"frame_sizes": [of_size]}))),
        (
            "loss",
            rfc(
                "rfc2544-frame-loss",
                json!({"frame_sizes": [{"frame_bytes": 1518, "trials": curve}]}),
            ),
        ),
        (
            "burst",
            rfc(
                "rfc2544-back-to-back",
                json!({"frame_sizes": [{"frame_bytes": 84, "answer": 777.0, "searches": [found]}]}),
            ),
        ),
        ("rate", rfc("rfc9693-establishment", found.clone())),
        (
            "flood",
            rfc(
                "rfc3511-syn-flood",
                json!({"answer": 1.2e6, "without_flood": found, "under_flood": found}),
            ),
        ),
        ("gone", rfc("rfc9693-teardown", json!({"answer": 333_333.0, "runs": [run]}))),
        ("cut", rfc("rfc3511-concurrent", stopped)),
    ]
}

/// A folder with a result of every kind, and one file that is none.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut generated = sample(0, 500.0, "pass");
    generated["verb"] = json!("generate");
    generated["dut"] = json!({"kind": "none"});
    let row = json!({"profile": "dns", "connections_per_second": 1e6, "active_flows": 9,
        "bits_per_second": 1e9, "packets_per_second": 2e6});
    for (name, json) in [
        ("one", search(1, 40_000.0)),
        ("two", search(2, 75_000.0)),
        ("load", generated),
        ("alone", json!({"verb": "generate --self-test", "rows": [row]})),
        ("datapath", json!({"ns_per_packet": 131.8, "packets": 12, "flows": 2})),
        ("zones", json!({"verb": "bench zones", "provenance": provenance(), "zones": 2})),
        ("other", json!({"name": "something else"})),
    ] {
        std::fs::write(folder.path().join(format!("{name}.json")), json.to_string()).unwrap();
    }
    let cell = |name: &str, measured: bool, difference: Option<f64>| {
        json!({"cell": name, "measured": measured, "connections_per_second": 48_200.0,
            "ours_over_theirs_percent": difference, "limited_by": "dut",
            "worker": {"parts": [{"name": "pthread_mutex_lock@@GLIBC_2.2.5_with_a_name_that_is_long",
                "percent": 62.0, "lock": true}]}})
    };
    let cells = [
        cell("short-ct-1x1-tidegate-vhost", true, None),
        cell("short-ct-1x1-ovs-vhost", true, Some(412.0)),
        cell("long-ct-1x1-ovs-vhost", false, None),
    ];
    let matrix = json!({"verb": "bench matrix", "cells": cells});
    for (name, json) in rfcs().into_iter().chain([("matrix", matrix)]) {
        std::fs::write(folder.path().join(format!("{name}.json")), json.to_string()).unwrap();
    }
    std::fs::write(folder.path().join("broken.json"), "{").unwrap();
    folder
}

fn report(folder: &Path) -> (String, Vec<String>) {
    let args = ReportArgs { folder: folder.to_owned(), output: None };
    let (file, left_out) = write(&args).unwrap();
    let names = left_out.iter().map(|it| it.file.file_stem().unwrap().to_string_lossy().into());
    (std::fs::read_to_string(file).unwrap(), names.collect())
}

#[test]
fn every_result_is_on_the_page_and_what_is_none_is_named() {
    let folder = folder();
    let (page, left_out) = report(folder.path());
    assert_eq!(left_out, ["broken", "other"]);
    for text in [
        "Some CPU",
        "40.0K",
        "75.0K",
        "Search: one",
        "Search: two",
        "Load: load",
        "131.80",
        "The generator alone: alone",
        "Connections per second, by cores: &lt;tide &amp; gate&gt;, memory ports, untracked, 1 messages",
        "Where the busiest worker's time goes: pmd-c00 (perf)",
        "<td>62.0%</td><td>yes</td>",
        "SYN to SYN/ACK",
        "&lt;tide &amp; gate&gt;",
        "The published table: matrix",
        "<td>+412%</td>",
        "*pthread_mutex_lock@@GLIBC_2.2.5_with_a_name_that_is_long 62%",
        "1 cells are not measured yet",
        "RFC test: latency (rfc2544-latency)",
        "<th scope=\"row\">64 bytes</th><td>1.5M</td><td>2.0M</td><td>dut</td><td>31.5</td><td>44.2</td>",
        "Latency, latency, frames of 64 bytes",
        "forth: 9 of 10 &lt;lost&gt;",
        "Frames lost, loss, frames of 1518 bytes",
        "Trials of burst, frames of 84 bytes, search 1",
        "Every trial of rate",
        "Every trial of flood, under the flood",
        "<td>500</td><td>2.000</td><td>0.500</td><td>333K</td>",
        "It ended before its time, or without an answer: interrupted",
        "class=\"up\"",
        "class=\"down\"",
        "class=\"square\"",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("<tide") && !page.contains("NaN") && !page.contains("inf\""));
    // Whole in itself: nothing is fetched from anywhere.
    for outside in ["http:", "https:", "src=", "href=", "@import", "url(", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn where_results_come_from_is_shown_and_settings_are_closed() {
    let folder = folder();
    let (page, _) = report(folder.path());
    let row = "<td>2026-11-24T02:40:00Z</td><td class=\"text\">Some CPU</td><td>2</td><td>6.1</td>\
        <td>0.50</td><td class=\"text\">0.1.0 (96225a1f00d5 with changes)</td><td>77</td>";
    // Both searches, the tests of RFCs, and zones.
    assert_eq!(page.matches(row).count(), 2 + rfcs().len() + 1, "{page}");
    assert!(
        page.contains(
            "<details><summary>Settings</summary><pre>$ tidegate x --seed 77 'a &lt;b&gt;'"
        )
    );
    assert!(!page.contains("<details open"));
}

#[test]
fn plots_stand_only_where_there_are_two_things_to_compare() {
    let drawn = |results: &[serde_json::Value]| {
        let folder = tempfile::tempdir().unwrap();
        for (index, json) in results.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{index}.json")), json.to_string()).unwrap();
        }
        report(folder.path()).0
    };
    let mut one = search(1, 40_000.0);
    one["samples"] = json!([sample(1, 40_000.0, "pass")]);
    one["samples"][0]["handshake"]["buckets_us"] = json!([[80.0, 90]]);
    let page = drawn(std::slice::from_ref(&one));
    assert!(!page.contains("<svg") && page.contains("half within 80"), "{page}");
    // Two results are compared; so are two samples of one.
    assert_eq!(drawn(&[one.clone(), one.clone()]).matches("<svg").count(), 1);
    one["samples"] = json!([sample(1, 60_000.0, "fail"), sample(2, 40_000.0, "invalid")]);
    assert_eq!(drawn(&[one]).matches("<svg").count(), 1);
}

#[test]
fn who_does_not_see_it_is_told_too() {
    let folder = folder();
    let (page, _) = report(folder.path());
    assert!(page.contains("<html lang=\"en\">") && page.contains("<main>"));
    let count = |text: &str| page.matches(text).count();
    assert!(count("<svg") >= 7, "{}", count("<svg"));
    for each in ["<title id=", "<desc id=", "role=\"img\"", "<figcaption>"] {
        assert_eq!(count("<svg"), count(each), "{each}");
    }
    assert_eq!(count("<table>"), count("<caption>"));
    assert!(count("scope=\"col\"") > count("<table>") && count("scope=\"row\"") > 0);
    assert!(page.contains("@media print"));
    let mut ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is there twice");
}

#[test]
fn folders_without_results_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |folder: &Path| {
        let args = ReportArgs { folder: folder.to_owned(), output: None };
        write(&args).map(|_| ()).unwrap_err().to_string()
    };
    assert!(run(folder.path()).contains("there is no result in it"));
    assert!(run(Path::new("/nonexistent")).contains("name a folder"));
}

/// A real browser lays the page out: every plot and table has its place, and it prints.
#[test]
fn a_browser_shows_and_prints_it() {
    let browser = "/usr/bin/chromium";
    if !Path::new(browser).exists() {
        use std::io::Write;
        let why = "chromium is not installed";
        let _ =
            writeln!(io::stderr(), "SKIPPED: report::tests::a_browser_shows_and_prints_it: {why}");
        return;
    }
    let folder = folder();
    let (page, _) = report(folder.path());
    // A script of the test's own, at the end of a copy: it writes down what the browser sees.
    let look = "<script>const b=e=>e.getBoundingClientRect();\
        const svg=[...document.querySelectorAll('svg')],t=[...document.querySelectorAll('table')];\
        const wide=document.documentElement.scrollWidth<=innerWidth;\
        const good=svg.every(e=>b(e).width>300&&b(e).height>100);\
        const marks=[...document.querySelectorAll('svg path,svg rect,svg circle')];\
        const inside=marks.every(m=>{const o=b(m.ownerSVGElement),i=b(m);\
        return i.left>=o.left-1&&i.right<=o.right+1&&i.top>=o.top-1&&i.bottom<=o.bottom+1});\
        document.title=`seen ${svg.length} ${t.length} ${good} ${inside} ${wide}`</script>";
    let copy = folder.path().join("looked-at.html");
    std::fs::write(&copy, page.replace("</body>", &format!("{look}</body>"))).unwrap();
    let profile = folder.path().join("profile");
    let ask = |more: &[String], file: &Path| {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "100", browser, "--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--disable-dev-shm-usage", "--no-first-run", "--window-size=1200,900"]);
        command.arg(format!("--user-data-dir={}", profile.display())).args(more);
        command.arg(format!("file://{}", file.display())).output().unwrap()
    };
    let out = ask(&["--dump-dom".to_owned()], &copy);
    let dom = String::from_utf8_lossy(&out.stdout);
    let seen = dom.split("<title>").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or("");
    let (plots, tables) = (page.matches("<svg").count(), page.matches("<table>").count());
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(seen, format!("seen {plots} {tables} true true true"), "{errors}");
    let pdf = folder.path().join("page.pdf");
    let print = [format!("--print-to-pdf={}", pdf.display())];
    ask(&print, &folder.path().join("report.html"));
    let printed = std::fs::read(&pdf).unwrap();
    assert!(printed.starts_with(b"%PDF-") && printed.len() > 5000);
}
