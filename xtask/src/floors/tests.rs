use super::*;

const TABLE: &str = "\
# Architecture

<!-- crates -->
| floor | crate | what it is for |
|-------|:------|----------------|
| 0 | base | time, ids |
| 1 | wire | views over bytes |
| 1 | `packet` | packet buffers |
| 1 | ovsdb | rows |
| 2 | flow | vocabulary |
| 3 | classifier | search |
| 3 | conntrack | zones |
| 3 | openflow | messages |
| 3 | port | queues |
| 4 | datapath | the worker |
| 4 | ofproto | tables |
| 4 | port-linux | AF_PACKET, TAP [unsafe] |
| 5 | control | desired state |
| 6 | tidegate | the program [unsafe] [program] |
<!-- /crates -->

| 9 | outside | not part of the table |
";

/// Every crate of the table, with dependencies as `from -> to` or, for tests, `from ~> to`.
fn house(edges: &[&str]) -> Vec<Member> {
    let (floors, problems) = Floors::parse(TABLE);
    assert_eq!(problems, []);
    let mut members: Vec<Member> = floors.rooms.keys().map(|name| member(name)).collect();
    for edge in edges {
        let words: Vec<&str> = edge.split(' ').collect();
        let [from, arrow, to] = words[..] else { panic!("bad edge {edge}") };
        if !members.iter().any(|m| m.name == from) {
            members.push(member(from));
        }
        let member = members.iter_mut().find(|m| m.name == from).unwrap();
        member.manifest.push_str(&format!("{to}.workspace = true\n"));
        member.dependencies.push((to.to_owned(), arrow == "~>"));
    }
    members
}

fn member(name: &str) -> Member {
    Member {
        name: name.to_owned(),
        manifest_path: format!("crates/{name}/Cargo.toml"),
        manifest: format!("[package]\nname = \"{name}\"\n[dependencies]\n"),
        ..Member::default()
    }
}

fn check(edges: &[&str]) -> Vec<String> {
    let (floors, _) = Floors::parse(TABLE);
    floors.check(&house(edges)).iter().map(ToString::to_string).collect()
}

#[test]
fn the_table_is_read() {
    let (floors, problems) = Floors::parse(TABLE);
    assert_eq!(problems, []);
    assert_eq!(floors.rooms.len(), 14);
    assert_eq!(
        floors.rooms["packet"],
        Room { floor: 1, may_be_unsafe: false, is_program: false, line: 8 }
    );
    assert_eq!(
        floors.rooms["port-linux"],
        Room { floor: 4, may_be_unsafe: true, is_program: false, line: 17 }
    );
}

#[test]
fn bad_tables_are_refused() {
    let cases = [
        ("# nothing\n", "table of crates is missing"),
        ("<!-- crates -->\n| 0 | base | x |\n", "table of crates is missing"),
        ("<!-- crates -->\n| low | base | x |\n<!-- /crates -->", "`low` is not a number"),
        ("<!-- crates -->\n| 0 |\n<!-- /crates -->", "a row needs"),
        ("<!-- crates -->\n| 0 | base | [unsafe] |\n<!-- /crates -->", "has no purpose"),
        (
            "<!-- crates -->\n| 0 | base | x |\n| 1 | base | x |\n<!-- /crates -->",
            "already stands in line 2",
        ),
    ];
    for (page, expect) in cases {
        let (_, problems) = Floors::parse(page);
        assert_eq!(problems.len(), 1, "{page:?}: {problems:?}");
        assert!(problems[0].text.contains(expect), "{problems:?} lacks {expect:?}");
    }
}

#[test]
fn what_is_allowed() {
    let edges = [
        "wire -> base",
        "flow -> wire",
        "datapath -> conntrack",
        "datapath ~> port",
        "ofproto -> openflow",
        "port-linux -> port",
        "conntrack ~> classifier",
        "control -> ofproto",
        "tidegate -> datapath",
        "tidegate -> tokio",
        "tidegate -> tokio-rustls",
        "tidegate -> clap_complete",
        "base -> clapboard",
    ];
    assert_eq!(check(&edges), [""; 0]);
}

#[test]
fn what_is_refused() {
    let cases: &[(&[&str], &str)] = &[
        (&["base -> wire"], "crates/base/Cargo.toml:4: `base` (floor 0) imports `wire` (floor 1)"),
        (&["wire -> packet"], "crates/wire/Cargo.toml:4: `wire` (floor 1) imports `packet`"),
        (&["wire ~> flow"], "imports `flow` (floor 2)"),
        (&["datapath ~> ofproto"], "`datapath` must not depend on `ofproto`"),
        (&["datapath -> tokio"], "only crates marked [program] may depend on `tokio`"),
        (&["datapath -> tokio"], "`datapath` must not depend on `tokio`"),
        (&["datapath -> flow", "flow -> openflow"], "(datapath -> flow -> openflow)"),
        (&["ofproto ~> datapath"], "`ofproto` must not depend on `datapath`"),
        (&["conntrack -> port"], "`conntrack` must not depend on `port`"),
        (&["generator -> flow"], "`generator` must not depend on `flow`"),
        (&["generator -> wire"], "`generator` must not depend on `wire`"),
        (&["control -> tokio-rustls"], "only crates marked [program] may depend on `tokio-rustls`"),
        (
            &["ovsdb -> rustls-pki-types"],
            "only crates marked [program] may depend on `rustls-pki-types`",
        ),
        (&["openflow ~> clap"], "only crates marked [program] may depend on `clap`"),
        (&["port ~> conntrack", "conntrack ~> port"], "`port` is part of, or depends on, a cycle"),
    ];
    for (edges, expect) in cases {
        let found = check(edges);
        assert!(found.iter().any(|p| p.contains(expect)), "{edges:?}: {found:?} lacks {expect:?}");
    }
}

#[test]
fn a_route_through_tests_does_not_count() {
    let edges = ["datapath -> flow", "flow ~> base", "conntrack -> flow", "flow ~> port"];
    let found = check(&edges);
    assert!(!found.iter().any(|p| p.contains("`conntrack` must not")), "{found:?}");
    let found = check(&["generator ~> port", "port -> wire"]);
    assert!(!found.iter().any(|p| p.contains("`generator` must not")), "{found:?}");
    let found = check(&["generator ~> wire"]);
    assert!(found.iter().any(|p| p.contains("`generator` must not")), "{found:?}");
}

#[test]
fn the_list_and_the_crates_agree() {
    let (floors, _) = Floors::parse(TABLE);
    let mut members = house(&[]);
    members.retain(|m| m.name != "control");
    members.push(member("sim"));
    members.push(Member {
        name: "xtask".to_owned(),
        manifest_path: "xtask/Cargo.toml".to_owned(),
        ..Member::default()
    });
    let found: Vec<String> = floors.check(&members).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "crates/sim/Cargo.toml:1: ARCHITECTURE.md does not list `sim`; add a row for it",
            "ARCHITECTURE.md:18: there is no crate `control` below crates/; remove its row",
        ]
    );
}
