use super::*;

/// The problems of a crate's files below `src`.
fn problems(files: &[(&str, &str)]) -> Vec<String> {
    let scanned: Vec<_> = files
        .iter()
        .map(|(path, text)| RustFile::new(&format!("crates/a/src/{path}"), text))
        .collect();
    Cycles::find(&scanned).check().iter().map(ToString::to_string).collect()
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
        let found = problems(&all);
        assert_eq!(found.len(), expect.len(), "{files:?}: {found:?}");
        for (found, module) in found.iter().zip(*expect) {
            assert!(found.contains(&format!("the module `{module}`")), "{files:?}: {found}");
        }
    }
}

#[test]
fn a_problem_names_the_cycle_and_its_first_import() {
    let files = [
        ("lib.rs", "mod x;\nmod y;\nmod z;"),
        ("x.rs", "\nuse crate::y;"),
        ("y.rs", "use crate::z;"),
        ("z.rs", "use crate::x;"),
    ];
    let expect = "crates/a/src/x.rs:2: the module `x` lies on an import cycle: x -> y -> z -> x; move what both \
                  need into a module below them";
    assert_eq!(problems(&files).first().map(String::as_str), Some(expect));
}
