use super::*;

fn floors() -> Floors {
    let page = "<!-- crates -->\n| 1 | flow | words |\n| 4 | port-linux | TAP [unsafe] |\n\
                | 6 | tidegate | program [program] |\n<!-- /crates -->";
    Floors::parse(page).0
}

fn lines(problems: &[Problem]) -> Vec<usize> {
    problems.iter().map(|p| p.line).collect()
}

#[test]
fn unsafe_needs_a_comment() {
    let cases: &[(&str, &[usize])] = &[
        ("// SAFETY: the file is open.\nunsafe { f() }", &[]),
        ("unsafe { f() } // SAFETY: the file is open.", &[]),
        ("// SAFETY: two lines\n// of reason.\nunsafe { f() }", &[]),
        ("// SAFETY: attributes may stand between.\n#[inline]\nunsafe impl Send for X {}", &[]),
        ("// SAFETY: above the statement.\nlet a =\n    unsafe { f() };", &[]),
        ("/* SAFETY: a block. */\nunsafe { f() }", &[]),
        ("unsafe { f() }", &[1]),
        ("// SAFETY: too far.\n\nunsafe { f() }", &[3]),
        ("// SAFETY: of another.\nlet a = 1;\nunsafe { f() }", &[3]),
        ("// Because.\nunsafe { f() }", &[2]),
        ("let s = \"SAFETY:\"; unsafe { f() }", &[1]),
        ("/// Reads.\n///\n/// # Safety\n/// `p` is valid.\npub unsafe fn f() {}", &[]),
        ("/// # Safety\nunsafe { f() }", &[2]),
        ("fn a() {}\nunsafe fn f() {}", &[2]),
        ("type F = unsafe fn(u8);", &[]),
    ];
    for (text, expect) in cases {
        let file = RustFile::new("crates/port-linux/src/tap.rs", text);
        assert_eq!(lines(&check_unsafe(&file, &floors())), *expect, "in {text:?}");
    }
}

#[test]
fn unsafe_stands_only_in_marked_crates() {
    let text = "// SAFETY: fine.\nunsafe { f() }";
    for path in ["crates/flow/src/lib.rs", "xtask/src/main.rs", "crates/unknown/src/lib.rs"] {
        let problems = check_unsafe(&RustFile::new(path, text), &floors());
        assert_eq!(lines(&problems), [2], "{path}");
        assert!(problems[0].text.contains("outside the crates marked"), "{problems:?}");
    }
}

#[test]
fn other_crates_forbid_unsafe() {
    let member = |name: &str, root: &str| Member {
        name: name.to_owned(),
        roots: vec![root.to_owned()],
        ..Member::default()
    };
    let members = [
        member("flow", "crates/flow/src/lib.rs"),
        member("port-linux", "crates/port-linux/src/lib.rs"),
        member("tidegate", "crates/tidegate/src/main.rs"),
        member("xtask", "xtask/src/main.rs"),
    ];
    let files = [
        RustFile::new("crates/flow/src/lib.rs", "//! Words.\n#![forbid(unsafe_code)]\n"),
        RustFile::new("crates/port-linux/src/lib.rs", "//! TAP.\n"),
        RustFile::new("crates/tidegate/src/main.rs", "//! Program.\n// #![forbid(unsafe_code)]\n"),
        RustFile::new("xtask/src/main.rs", ""),
    ];
    let found = check_forbids(&files, &members, &floors());
    let paths: Vec<_> = found.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(paths, ["crates/tidegate/src/main.rs", "xtask/src/main.rs"]);
}

#[test]
fn banned_calls() {
    let cases: &[(&str, &str, &[usize])] = &[
        ("crates/flow/src/a.rs", "let t = std::time::Instant::now();", &[1]),
        ("crates/flow/src/a.rs", "let t =\n Instant\n ::now;", &[2]),
        ("crates/flow/src/a.rs", "SystemTime::now()", &[1]),
        ("crates/flow/src/a.rs", "\nprintln!(\"a\"); eprintln!(); dbg!(x);", &[2, 2, 2]),
        ("crates/flow/src/a.rs", "std::process::exit(1)", &[1]),
        ("crates/flow/src/a.rs", "// println!()\nlet a = \"dbg!\"; my_println!();", &[]),
        ("crates/flow/src/a.rs", "Instant::nowhere(); log::info!();", &[]),
        ("crates/flow/src/a.rs", "#[cfg(test)]\nmod tests {\n fn t() { dbg!(1); }\n}", &[]),
        ("crates/flow/src/a.rs", "#[cfg(test)]\nmod t {}\nfn f() { dbg!(1); }", &[3]),
        ("crates/flow/src/a/tests.rs", "println!()", &[]),
        ("crates/flow/tests/a.rs", "println!()", &[]),
        ("crates/flow/build.rs", "println!()", &[]),
        ("crates/tidegate/src/main.rs", "println!(); Instant::now()", &[]),
        ("xtask/src/main.rs", "println!()", &[]),
    ];
    for (path, text, expect) in cases {
        assert_eq!(
            lines(&check_calls(&RustFile::new(path, text), &floors())),
            *expect,
            "{path}: {text:?}"
        );
    }
}

#[test]
fn names_that_say_nothing() {
    let bad = [
        "crates/flow/src/util.rs",
        "crates/common/src/lib.rs",
        "tests/helpers.sh",
        "crates/flow/src/port_manager.rs",
        "misc/notes.md",
    ];
    for path in bad {
        assert!(check_path(path).is_some(), "{path}");
    }
    for path in ["crates/flow/src/utility.rs", "tests/run", ".gitignore", "crates/flow/src/lib.rs"]
    {
        assert_eq!(check_path(path), None, "{path}");
    }
    let file = RustFile::new("crates/flow/src/lib.rs", "mod key;\n#[cfg(test)]\nmod test_util {}");
    assert_eq!(lines(&check_modules(&file)), [3]);
}

#[test]
fn registry_hosts() {
    let text = format!("one\nsee https://{}.{}/x\n", "crates", "io");
    assert_eq!(lines(&check_hosts("README.md", &text)), [2]);
    assert_eq!(check_hosts("Cargo.lock", &text), []);
    assert_eq!(check_hosts("fuzz/Cargo.lock", &text), []);
    assert_eq!(check_hosts("README.md", "the crates in io.rs; https://example.org\n"), []);
}

#[test]
fn vague_words_and_rates() {
    let text = "/// Who\u{65}ver asks.\n/// None but \"n\u{6f}body\".\nuser=nobody\nlet nobody_else = 1;\n\
                // 5 packets a \u{73}econd.\n// A second of packets.\n// Packets per second.\n// Any\u{62}ody.\n";
    assert_eq!(lines(&check_words("crates/table/src/x.rs", text)), [1, 5, 8]);
    assert_eq!(lines(&check_words("Cargo.lock", text)), [0; 0]);
}

#[test]
fn ethernet_types_have_names() {
    let cases: &[(&str, &str, &[usize])] = &[
        ("crates/flow/src/key.rs", "fn f() {\n match kind { 0x0800 | 0x86dd => 1 }\n}", &[2, 2]),
        (
            "crates/flow/src/key.rs",
            "const A: u16 = 0x8100_u16;\nconst B: u16 = 0x88a8u16;",
            &[1, 2],
        ),
        // Other numbers, words within strings and comments, and tests.
        (
            "crates/flow/src/key.rs",
            "let a = 0x800;\nlet b = 0x08000;\nlet c = \"0x0800\"; // 0x0800",
            &[],
        ),
        ("crates/flow/src/key.rs", "#[cfg(test)]\nmod tests {\n const A: u16 = 0x0800;\n}", &[]),
        ("crates/flow/src/key/tests.rs", "const A: u16 = 0x0800;", &[]),
        ("crates/flow/examples/a.rs", "const A: u16 = 0x0800;", &[]),
        ("crates/wire/src/numbers.rs", "const IPV4: u16 = 0x0800;", &[]),
        ("crates/generator/src/frame.rs", "const IPV4: u16 = 0x0800;", &[]),
        ("xtask/src/style.rs", "const IPV4: u16 = 0x0800;", &[]),
    ];
    for (path, text, expect) in cases {
        assert_eq!(lines(&check_numbers(&RustFile::new(path, text))), *expect, "{path}: {text}");
    }
}
