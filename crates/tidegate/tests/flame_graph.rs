//! `tidegate bench … --perf`, run as a program: its profiling timer interrupts all its threads.

use std::path::Path;
use std::process::{Command, Output};

fn bench(line: &str, folder: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_tidegate");
    let words = std::iter::once("bench").chain(line.split(' '));
    Command::new(program).args(words).current_dir(folder).output().expect("it starts")
}

#[test]
fn flame_graphs_have_the_functions_of_the_work() {
    let cases = [
        ("conntrack 2 1500000 32 --perf --json", "flame.svg", "track_many"),
        ("zones 20000 8 20 --perf=z.svg --json", "z.svg", "begin_parsed"),
        ("datapath --ct --seconds 1 --perf=d.svg --json", "d.svg", "datapath::"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (line, file, function) in cases {
        let Output { status, stdout, stderr } = bench(line, folder.path());
        assert!(status.success(), "{line}: {}", String::from_utf8_lossy(&stderr));
        let result: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        let graph = &result["flame_graph"];
        assert_eq!(graph["file"], file, "{line}: {result}");
        assert!(graph["looks"].as_u64().unwrap() > 20, "{line}: {result}");
        let picture = std::fs::read_to_string(folder.path().join(file)).unwrap();
        for piece in ["<svg ", "bench::", function, "</svg>"] {
            assert!(picture.contains(piece), "{line}: no {piece} in {picture}");
        }
    }
}

#[test]
fn a_graph_that_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let Output { status, stderr, .. } = bench("zones 10 2 1 --perf=missing/x.svg", folder.path());
    let message = String::from_utf8_lossy(&stderr);
    assert!(!status.success() && message.contains("missing/x.svg: No such file"), "{message}");
}

#[test]
fn without_perf_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let Output { status, stdout, .. } = bench("zones 10 2 1 --json", folder.path());
    assert!(status.success());
    assert!(!String::from_utf8_lossy(&stdout).contains("flame_graph"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
