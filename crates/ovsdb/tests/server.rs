//! The session against the real ovsdb-server, over a Unix socket in a temporary directory.

mod support;

use ovsdb::{Datum, Event, Monitor, OperationResult, Session, SessionConfig, Transaction, Values};
use support::{Client, Directory, Programs, SCHEMA, is_connected, run};

fn config() -> SessionConfig {
    let monitor = Monitor::default()
        .table("Open_vSwitch", ["bridges", "external_ids", "next_cfg"])
        .table("Bridge", ["name", "other_config", "ports", "not_a_column"])
        .table("Port", ["name"])
        .table("Not_A_Table", ["name"]);
    SessionConfig::new("Open_vSwitch", monitor).with_lock("ovs_vswitchd")
}

fn has_bridge(session: &Session, name: &str) -> bool {
    session.replica().rows("Bridge").any(|(_, row)| row.str("name") == Some(name))
}

#[test]
fn a_session_lives_through_a_restart_of_the_server() {
    let Some(programs) = Programs::find() else { return };
    let vsctl = &programs.vsctl;
    let directory = Directory::new();
    let (database, socket) = (directory.path("conf.db"), directory.path("db.sock"));
    run(&programs.tool, &["create", &database, SCHEMA]);
    let running = programs.start_server(&directory);
    let mut client = Client::new(config());
    client.connect(&socket);
    client.run_until("the contents", is_connected);
    assert!(client.session.has_lock(), "asked for before the contents");
    assert!(client.session.replica().only_row("Open_vSwitch").is_none(), "an empty database");

    // The session's own transaction updates the replica before its reply arrives.
    let mut transaction = Transaction::new();
    let root = Values::from([
        ("next_cfg".to_owned(), Datum::from(0)),
        ("external_ids".to_owned(), Datum::map([("system-id", "a \"quoted\" name")])),
        ("not_a_column".to_owned(), Datum::from(1)),
    ]);
    transaction.comment("first").insert("Open_vSwitch", "root", root);
    let reply = client.commit(transaction).expect("committed");
    let Some(&OperationResult::Inserted(root)) = reply.results.get(1) else { panic!("{reply:?}") };
    let (uuid, row) = client.session.replica().only_row("Open_vSwitch").expect("inserted");
    assert_eq!(uuid, root);
    assert_eq!(row.map_str("external_ids", "system-id"), Some("a \"quoted\" name"));
    assert_eq!(row.opt_i64("next_cfg"), Some(0), "left out by the server as the default");

    // Another client's changes arrive as insertions and as differences of sets and maps.
    let db = format!("--db=unix:{socket}");
    run(vsctl, &[&db, "--no-wait", "add-br", "br0", "--", "add-br", "br1"]);
    client.run_until("two bridges", |s, _| has_bridge(s, "br0") && has_bridge(s, "br1"));
    run(vsctl, &[&db, "--no-wait", "set", "Bridge", "br0", "other_config:a=1", "other_config:b=2"]);
    run(vsctl, &[&db, "--no-wait", "add-port", "br0", "p1"]);
    run(vsctl, &[&db, "--no-wait", "remove", "Bridge", "br0", "other_config", "a"]);
    run(vsctl, &[&db, "--no-wait", "set", "Bridge", "br0", "other_config:b=3", "other_config:c=4"]);
    client.run_until("the differences", |session, _| {
        session.replica().rows("Bridge").any(|(_, row)| {
            row.get("other_config") == Some(&Datum::map([("b", "3"), ("c", "4")]))
                && row.uuids("ports").len() == 2
        })
    });
    run(vsctl, &[&db, "--no-wait", "del-br", "br1"]);
    client.run_until("a deletion", |session, _| !has_bridge(session, "br1"));
    let (_, row) = client.session.replica().only_row("Open_vSwitch").expect("still there");
    assert_eq!(row.uuids("bridges").len(), 1);

    refusals_are_reported(&mut client, root);
    a_second_session_waits_for_the_lock(&mut client, &socket);

    // A restart of the server loses nothing; only real changes are reported.
    drop(running);
    client.run_until("the end of the connection", |_, event| *event == Event::Disconnected);
    client.session.transact(Transaction::new()).expect_err("not connected");
    let before = client.session.replica().clone();
    let _running = programs.start_server(&directory);
    client.connect(&socket);
    client.run_until("the contents", is_connected);
    assert_eq!(*client.session.replica(), before);
    assert_eq!(client.session.next_event(), None, "nothing changed");
    run(vsctl, &[&db, "--no-wait", "add-br", "br2"]);
    client.run_until("the new bridge", |session, _| has_bridge(session, "br2"));
}

fn refusals_are_reported(client: &mut Client, root: uuid::Uuid) {
    let mut transaction = Transaction::new();
    let stale = Values::from([("next_cfg".to_owned(), Datum::from(-77))]);
    transaction.comment("check").wait("Open_vSwitch", root, true, stale, 0);
    let error = client.commit(transaction).expect_err("not equal");
    assert!(error.to_string().starts_with("operation 1 failed: timed out"), "{error}");

    let mut transaction = Transaction::new();
    transaction.mutate("Open_vSwitch", root, "bridges", ovsdb::Mutator::Insert, uuid::Uuid::nil());
    let error = client.commit(transaction).expect_err("a dangling reference");
    assert!(error.to_string().starts_with("commit failed: referential integrity"), "{error}");
}

fn a_second_session_waits_for_the_lock(client: &mut Client, socket: &str) {
    let mut second = Client::new(config());
    second.connect(socket);
    second.run_until("the refused lock", |_, event| *event == Event::LockBusy);
    second.run_until("the contents", is_connected);
    let error = second.session.transact(Transaction::new());
    assert_eq!(error, Err(ovsdb::SendError::NotLocked));
    client.disconnect();
    client.run_until("the lost lock", |_, event| *event == Event::LockLost);
    second.run_until("the lock", |_, event| *event == Event::LockAcquired);
    drop(second);
    client.connect(socket);
    client.run_until("the contents", is_connected);
}

#[test]
fn a_clustered_server_sends_only_what_is_new() {
    let Some(programs) = Programs::find() else { return };
    let vsctl = &programs.vsctl;
    let directory = Directory::new();
    let (database, socket) = (directory.path("conf.db"), directory.path("db.sock"));
    let raft = format!("unix:{}", directory.path("raft.sock"));
    run(&programs.tool, &["create-cluster", &database, SCHEMA, &raft]);
    let _running = programs.start_server(&directory);
    let mut client = Client::new(config());
    client.connect(&socket);
    client.run_until("the contents", is_connected);
    let db = format!("--db=unix:{socket}");
    // The server forgets transactions that together are larger than the database (ovs: ovsdb/transaction.c),
    // so the first one, which fills it, must not be the last that the session saw.
    run(vsctl, &[&db, "--no-wait", "init", "--", "add-br", "br0", "--", "add-br", "br1"]);
    run(vsctl, &[&db, "--no-wait", "add-br", "br2", "--", "add-br", "br3"]);
    run(vsctl, &[&db, "--no-wait", "set", "Bridge", "br0", "other_config:b=1"]);
    client.run_until("the last change", |session, _| {
        session.replica().rows("Bridge").any(|(_, row)| row.map_str("other_config", "b").is_some())
    });
    client.disconnect();
    run(vsctl, &[&db, "--no-wait", "set", "Bridge", "br0", "other_config:a=1"]);
    client.connect(&socket);
    let event = client.run_until("the contents", is_connected);
    assert_eq!(event, Event::Connected { resumed: true });
    let Some(Event::Updated(changes)) = client.session.next_event() else { panic!("no changes") };
    let tables: Vec<&str> = changes.iter().map(|change| &*change.table).collect();
    assert!(tables.contains(&"Bridge") && !tables.contains(&"Port"), "{tables:?}");
    let pairs = Datum::map([("a", "1"), ("b", "1")]);
    assert!(client.session.replica().rows("Bridge").any(|(_, row)| {
        row.get("other_config") == Some(&pairs) && row.uuids("ports").len() == 1
    }));
}
