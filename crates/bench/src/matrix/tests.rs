use super::*;
use clap::{Args, Parser};
use load::cps_ndr::CpsNdrArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: MatrixArgs,
}

fn args(folder: &Path, line: &str) -> MatrixArgs {
    let words = ["matrix".as_ref(), folder.as_os_str()].into_iter();
    let words = words.chain(line.split_whitespace().map(AsRef::as_ref));
    Line::try_parse_from(words).unwrap().args
}

fn here() -> Provenance {
    Provenance::new("tidegate bench matrix".to_owned(), "0", "0")
}

#[test]
fn what_is_there_is_not_measured_again() {
    let folder = tempfile::tempdir().unwrap();
    let line = "--profiles short --ports vhost --layouts 1,2";
    let listed = measure(&args(folder.path(), &format!("{line} --list")), &here()).unwrap().text;
    assert_eq!(listed.matches("missing").count(), 8, "{listed}");
    for (index, cell) in args(folder.path(), line).cells().iter().enumerate() {
        let rate = 1000.0 * (9 - index) as f64;
        let json = json!({
            "connections_per_second": rate,
            "limited_by": "dut",
            "worker": {
                "locks_percent": 41.0,
                "parts": [
                    {"name": "pthread_mutex_lock", "percent": 41.0, "lock": true},
                    {"name": "dp_netdev_input", "percent": 12.0, "lock": false},
                ],
            },
        });
        let file = folder.path().join(format!("{}.json", cell.name()));
        std::fs::write(file, json.to_string()).unwrap();
    }
    let listed = measure(&args(folder.path(), &format!("{line} --list")), &here()).unwrap().text;
    assert_eq!(listed.matches("measured").count(), 8, "{listed}");
    // All is there: nothing is started, and ours (9,000) is 12.5% above theirs (8,000).
    let outcome = measure(&args(folder.path(), line), &here()).unwrap();
    assert!(outcome.text.contains("short-ct-2x2-ovs-vhost"), "{}", outcome.text);
    assert!(outcome.text.contains("*pthread_mutex_lock 41%, dp_netdev_input 12%, *locks 41.0%"));
    assert_eq!(outcome.json["cells"][1]["ours_over_theirs_percent"], 12.5);
    assert!(outcome.json["cells"][0]["ours_over_theirs_percent"].is_null());
    // The same stays in the folder, where the report finds it.
    let kept = std::fs::read_to_string(folder.path().join(table::FILE)).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!((&kept, &kept["verb"]), (&outcome.json, &json!("bench matrix")));
}

#[test]
fn what_is_missing_is_shown_and_takes_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let line = "--profiles short,long --tracking ct --ports vhost --layouts 1 --sample-time 2";
    let args = args(folder.path(), line);
    let cells = args.cells();
    let expected: Vec<_> = cells.iter().map(|cell| cell.expected(&args).as_secs()).collect();
    let few = MatrixArgs { max_iterations: Some(2), ..args.clone() };
    assert!(cells[0].expected(&few) < cells[0].expected(&args) / 2);
    // Short- before long-lived, ours before theirs, which forgets more slowly.
    assert!(expected[0] < expected[1] && expected[1] * 4 < expected[2], "{expected:?}");
    std::fs::write(file(folder.path(), &cells[1]), "{\"connections_per_second\": 48200}").unwrap();
    let listed = measure(&MatrixArgs { list: true, ..args.clone() }, &here()).unwrap();
    let total: u64 = expected.iter().sum::<u64>() - expected[1];
    assert!(listed.text.ends_with(&format!("about {} minutes\n", total.div_ceil(60))));
    assert_eq!(listed.json[1], json!({"cell": cells[1].name(), "is": "measured", "expected_s": 0}));
    let outcome = table::table(&cells, folder.path()).unwrap();
    assert_eq!(outcome.text.matches("not measured yet").count(), 3, "{}", outcome.text);
    assert!(outcome.text.contains("48.2K") && outcome.json["cells"][1]["measured"] == true);
    // What says nothing of the switch is shown, and measured again.
    std::fs::write(file(folder.path(), &cells[2]), "{\"exit_status\": 3}").unwrap();
    let outcome = table::table(&cells, folder.path()).unwrap();
    assert_eq!(outcome.text.matches("all samples invalid").count(), 1, "{}", outcome.text);
    let listed = measure(&MatrixArgs { list: true, ..args.clone() }, &here()).unwrap();
    assert_eq!(listed.json[2]["is"], "missing");
    // A file that is no result is named, not left out.
    std::fs::write(file(folder.path(), &cells[0]), "{").unwrap();
    let said = table::table(&cells, folder.path()).unwrap_err().to_string();
    assert!(said.contains("short-ct-1x1-tidegate-vhost.json"), "{said}");
}

#[test]
fn every_cell_s_search_is_one_that_cps_ndr_takes() {
    let folder = Path::new("/nonexistent");
    let args = args(folder, "--ports vhost,memory,veth --layouts 1,2x1,8 -i 7 -r 0");
    let cells = args.cells();
    // 4 profiles; both versions by vhost in 3 layouts, ours in memory in 3, both by veth in 1.
    assert_eq!(cells.len(), 4 * (2 * 3 + 3 + 2));
    for cell in cells {
        let words = cell.arguments(&args, &folder.join("x"));
        // The first word is the verb, `cps-ndr`.
        let command = CpsNdrArgs::augment_args(clap::Command::new("cps-ndr"));
        let read = command.try_get_matches_from(words);
        assert!(read.is_ok(), "{}: {:?}", cell.name(), read.err());
    }
}

#[test]
fn layouts_are_those_published_that_fit() {
    let fit = |cores| Layout::that_fit(cores).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(fit(1), ["1x1"]);
    assert_eq!(fit(2), ["1x1"]);
    assert_eq!(fit(4), ["1x1", "2x1", "2x2"]);
    assert_eq!(fit(16).len(), 7);
    for bad in ["", "0", "2x3", "x", "65", "2x"] {
        assert!(bad.parse::<Layout>().is_err(), "{bad}");
    }
}
