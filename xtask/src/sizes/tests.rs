use super::*;

/// A file with one function of `function` lines, filled up to `file` lines.
fn file(path: &str, file: usize, function: usize) -> RustFile {
    let body = "x();\n".repeat(function - 2);
    let rest = "const A: u8 = 1;\n".repeat(file - function);
    RustFile::new(path, &format!("fn f() {{\n{body}}}\n{rest}"))
}

fn ratchet(files: &[(&str, usize)], functions: &[(&str, usize)]) -> Ratchet {
    let map = |list: &[(&str, usize)]| list.iter().map(|(k, n)| (k.to_string(), *n)).collect();
    Ratchet { files: map(files), functions: map(functions) }
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn sizes_against_the_ratchet() {
    struct Case {
        lines: (usize, usize),
        files: &'static [(&'static str, usize)],
        functions: &'static [(&'static str, usize)],
        problem: &'static str,
        note: &'static str,
    }
    let case =
        |lines, files, functions, problem, note| Case { lines, files, functions, problem, note };
    let cases = [
        case((400, 70), &[], &[], "", ""),
        case((401, 70), &[], &[], "a.rs:1: the file a.rs has 401 lines", ""),
        case((401, 70), &[("a.rs", 401)], &[], "", ""),
        case((402, 70), &[("a.rs", 401)], &[], "has grown from 401 to 402", ""),
        case((401, 70), &[("a.rs", 500)], &[], "", "has shrunk from 500 to 401"),
        case((400, 70), &[("a.rs", 500)], &[], "", "needs no exception any more"),
        case((1001, 70), &[("a.rs", 1001)], &[], "1000 is the hard limit", ""),
        case((400, 71), &[], &[], "a.rs:1: the function a.rs::f has 71 lines", ""),
        case((400, 71), &[], &[("a.rs::f", 71)], "", ""),
        case((400, 72), &[], &[("a.rs::f", 71)], "has grown from 71 to 72", ""),
        case((400, 71), &[], &[("a.rs::f", 90)], "", "has shrunk from 90 to 71"),
        case((400, 70), &[], &[("gone.rs::g", 90)], "", "gone.rs::g needs no exception"),
    ];
    for Case { lines, files, functions, problem, note } in cases {
        let sizes = Sizes::measure(&[file("a.rs", lines.0, lines.1)]);
        let found = sizes.check(&ratchet(files, functions));
        for (expect, found) in [(problem, found.problems), (note, found.notes)] {
            let found = texts(&found);
            let agrees = if expect.is_empty() {
                found.is_empty()
            } else {
                found.len() == 1 && found[0].contains(expect)
            };
            assert!(agrees, "{lines:?}: expected {expect:?}, found {found:?}");
        }
    }
}

#[test]
fn tests_are_not_counted() {
    let long = "x();\n".repeat(2000);
    let body = format!("fn t() {{\n{long}}}\n");
    let files = [
        RustFile::new("crates/a/src/b/tests.rs", &body),
        RustFile::new("crates/a/tests/c.rs", &body),
        RustFile::new(
            "crates/a/src/d.rs",
            &format!("fn a() {{}}\n#[cfg(test)]\nmod t {{\n{body}}}"),
        ),
    ];
    let found = Sizes::measure(&files).check(&Ratchet::default());
    assert_eq!(texts(&found.problems), [""; 0]);
}

#[test]
fn functions_of_the_same_name_are_told_apart() {
    let long = format!("fn f() {{\n{}}}\n", "x();\n".repeat(80));
    let sizes = Sizes::measure(&[RustFile::new("a.rs", &format!("fn f() {{}}\n{long}"))]);
    let found = texts(&sizes.check(&Ratchet::default()).problems);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("a.rs:2: the function a.rs::f#2 has 82 lines"), "{found:?}");
}

#[test]
fn an_update_only_lowers_unless_accepted() {
    let sizes =
        Sizes::measure(&[file("a.rs", 500, 80), file("b.rs", 600, 2), file("c.rs", 1200, 2)]);
    let before = ratchet(
        &[("a.rs", 700), ("b.rs", 550), ("gone.rs", 450)],
        &[("a.rs::f", 75), ("gone.rs::g", 90)],
    );
    let lowered = ratchet(&[("a.rs", 500), ("b.rs", 550)], &[("a.rs::f", 75)]);
    assert_eq!(sizes.updated(&before, false), lowered);
    let accepted = ratchet(&[("a.rs", 500), ("b.rs", 600)], &[("a.rs::f", 80)]);
    assert_eq!(sizes.updated(&before, true), accepted, "c.rs is over the hard limit");
    assert_eq!(sizes.updated(&Ratchet::default(), false), Ratchet::default());
}

#[test]
fn the_file_is_read_back_as_written() {
    let written = ratchet(&[("a.rs", 700)], &[("a.rs::f#2", 75)]);
    assert_eq!(Ratchet::parse(&written.to_toml()), Ok(written));
    assert_eq!(Ratchet::parse(&Ratchet::default().to_toml()), Ok(Ratchet::default()));
    assert!(Ratchet::parse("[file]\n").is_err());
    assert!(Ratchet::parse("[files]\na = \"b\"\n").is_err());
}
