use super::*;

fn cycles(files: &[(&str, &str)]) -> Cycles {
    let scanned: Vec<_> = files
        .iter()
        .map(|(path, text)| RustFile::new(&format!("crates/a/src/{path}"), text))
        .collect();
    Cycles::find(&scanned)
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(ToString::to_string).collect()
}

/// Files below `src` with their text, and the modules on cycles.
type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);

#[test]
fn modules_on_cycles_are_found() {
    let root = ("lib.rs", "mod x;\nmod y;\nmod z;\npub use z::{Zed, deep::Deep as D};");
    let cases: &[Case] = &[
        (&[("x.rs", "use crate::y::A;"), ("y.rs", "use crate::z;"), ("z.rs", "")], &[]),
        (&[("x.rs", "use crate::y::A;"), ("y.rs", "use crate::x;")], &["x", "y"]),
        // By way of a third one, a group, a path in code, and `super`.
        (
            &[
                ("x.rs", "use crate::{base, y::{A, b as B}};"),
                ("y.rs", "fn f() { crate::z::f() }"),
                ("z.rs", "use super::x::C;"),
            ],
            &["x", "y", "z"],
        ),
        // Files below a module are the module's; `super` there stays in it.
        (
            &[("x/b.rs", "use crate::y::A;"), ("y/c/d.rs", "use super::super::super::x;")],
            &["x", "y"],
        ),
        (&[("x/mod.rs", "use super::y;"), ("y/b.rs", "use super::x;")], &[]),
        // A name that the root exports again.
        (&[("x.rs", "use crate::Zed;"), ("z.rs", "use crate::x;")], &["x", "z"]),
        // What the root defines itself, tests, comments, and a place of visibility.
        (&[("x.rs", "use crate::Own;"), ("y.rs", "use crate::x;")], &[]),
        (&[("x.rs", "#[cfg(test)]\nmod tests { use crate::y; }"), ("y.rs", "use crate::x;")], &[]),
        (&[("x/tests.rs", "use crate::y;"), ("y.rs", "use crate::x;")], &[]),
        (&[("x.rs", "// crate::y\nconst A: &str = \"crate::y\";"), ("y.rs", "use crate::x;")], &[]),
        (&[("x.rs", "pub(in crate::y) fn f() {}"), ("y.rs", "use crate::x;")], &[]),
    ];
    for (files, expect) in cases {
        let mut all = vec![root];
        all.extend_from_slice(files);
        let found = cycles(&all).updated(&Accepted::new(), true);
        let found = found.get("a").cloned().unwrap_or_default();
        assert_eq!(found, names(expect), "{files:?}");
    }
}

#[test]
fn new_cycles_are_problems_and_broken_ones_shrink_the_list() {
    let files = [
        ("lib.rs", "mod x;\nmod y;\nmod z;"),
        ("x.rs", "\nuse crate::y;"),
        ("y.rs", "use crate::x;"),
        ("z.rs", ""),
    ];
    let found = cycles(&files);
    let accepted = |list: &[&str]| Accepted::from([("a".to_owned(), names(list))]);
    let check = |list: &[&str], problems: &[&str], notes: usize| {
        let findings = found.check(&accepted(list));
        let texts: Vec<_> = findings.problems.iter().map(ToString::to_string).collect();
        assert_eq!((texts.len(), findings.notes.len()), (problems.len(), notes), "{texts:?}");
        for (text, expect) in texts.iter().zip(problems) {
            assert!(text.contains(expect), "{text}");
        }
    };
    check(&["x", "y"], &[], 0);
    check(&["x"], &["src/y.rs:1: the module `y` lies on an import cycle: y -> x -> y;"], 0);
    check(&[], &["src/x.rs:2: the module `x`", "src/y.rs:1: "], 0);
    check(&["x", "y", "z"], &[], 1);
    let lowered = found.updated(&accepted(&["y", "z"]), false);
    assert_eq!(lowered, accepted(&["y"]));
}
