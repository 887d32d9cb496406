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

fn search(workers: u32, rate: f64) -> serde_json::Value {
    json!({
        "verb": "cps-ndr", "version": "0.1.0", "connections_per_second": rate,
        "active_flows": rate / 2.0, "tx_packets_per_second": rate * 7.0,
        "tx_bits_per_second": rate * 4000.0, "loss_ratio": 0.0, "limited_by": "dut",
        "dut": {"kind": "<tide & gate>", "ports": "memory", "workers": workers},
        "answer": {"offered": rate, "passed": 2, "samples": 3, "confirmed": true},
        "worker": {"worker": "pmd-c00", "source": "perf", "parts": [
            {"name": "mutex_lock", "object": "libc.so.6", "percent": 62.0, "lock": true},
        ]},
        "machine": {"cpu": "Some CPU", "cores": 2, "kernel": "6.1", "load_average": 0.5},
        "samples": [sample(1, rate * 1.5, "fail"), sample(2, rate, "pass"), sample(3, 9e5, "invalid")],
    })
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
        ("other", json!({"name": "something else"})),
    ] {
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
        "Connections a second, by cores: &lt;tide &amp; gate&gt;, memory ports, untracked, 1 messages",
        "Where the busiest worker's time goes: pmd-c00 (perf)",
        "<td>62.0%</td><td>yes</td>",
        "SYN to SYN/ACK",
        "&lt;tide &amp; gate&gt;",
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
