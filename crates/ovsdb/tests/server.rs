//! The session against the real ovsdb-server, over a Unix socket in a temporary directory.

use base::Instant;
use ovsdb::{Datum, Event, Monitor, Session, SessionConfig, Transaction, Values};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A temporary directory that is removed with the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tovsdb-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).expect("a temporary directory");
        Directory(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running ovsdb-server, killed when dropped.
struct Server(Child);

impl Server {
    fn start(binary: &str, directory: &Directory) -> Self {
        let socket = directory.path("db.sock");
        let _ = std::fs::remove_file(&socket);
        let child = Command::new(binary)
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", directory.path("server.ctl").display()))
            .arg("--no-chdir")
            .arg("-vconsole:off")
            .arg(directory.path("conf.db"))
            .env("OVS_RUNDIR", &directory.0)
            .stdin(Stdio::null())
            .spawn()
            .expect("ovsdb-server starts");
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The session with its socket and clock.
struct Client {
    session: Session,
    stream: Option<UnixStream>,
    started: std::time::Instant,
}

impl Client {
    fn new(session: Session) -> Self {
        Client { session, stream: None, started: std::time::Instant::now() }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.started.elapsed()
    }

    fn connect(&mut self, socket: &Path) {
        let deadline = self.now() + Duration::from_secs(20);
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(self.now() < deadline, "{}: {error}", socket.display()),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        self.stream = Some(stream);
        self.session.connected(self.now());
    }

    fn disconnect(&mut self) {
        self.stream = None;
        self.session.disconnected(self.now());
    }

    /// Runs until `wanted` accepts an event, and returns that event. Errors end the test.
    fn run_until(&mut self, what: &str, wanted: impl Fn(&Session, &Event) -> bool) -> Event {
        let deadline = self.now() + Duration::from_secs(20);
        let mut buffer = [0u8; 3000];
        loop {
            while let Some(event) = self.session.next_event() {
                if wanted(&self.session, &event) {
                    return event;
                }
                if let Event::ProtocolError(error) = &event {
                    panic!("waiting for {what}: {error}");
                }
                assert_ne!(event, Event::ProbeTimeout, "waiting for {what}");
            }
            assert!(self.now() < deadline, "waited 20 s for {what}");
            if let Some(mut stream) = self.stream.take() {
                stream.write_all(&self.session.take_output()).expect("the server reads");
                let now = self.now();
                match stream.read(&mut buffer) {
                    Ok(0) => self.session.disconnected(now),
                    Ok(n) => {
                        self.session.receive(now, &buffer[..n]);
                        self.stream = Some(stream);
                    }
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        self.stream = Some(stream);
                    }
                    Err(_) => self.session.disconnected(now),
                }
                self.session.tick(self.now());
            }
        }
    }

    fn commit(&mut self, transaction: Transaction) -> ovsdb::TransactionResult {
        let id = self.session.transact(transaction).expect("connected");
        let done = self.run_until(
            "the transaction",
            |_, event| matches!(event, Event::TransactionDone { id: done, .. } if *done == id),
        );
        match done {
            Event::TransactionDone { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the path of a program, or `None` after printing why the test is skipped.
fn find(program: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = ["/usr/sbin", "/usr/bin"]
        .into_iter()
        .chain(path.split(':'))
        .map(|directory| format!("{directory}/{program}"))
        .find(|candidate| Path::new(candidate).is_file());
    if found.is_none() {
        println!("SKIPPED: {program} is not installed");
    }
    found
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("the program starts");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {words}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

fn config() -> SessionConfig {
    let monitor = Monitor::default()
        .whole_table("Open_vSwitch")
        .table("Bridge", ["name", "other_config", "ports", "not_a_column"])
        .whole_table("Port")
        .whole_table("Not_A_Table");
    SessionConfig::new("Open_vSwitch", monitor).with_lock("ovs_vswitchd")
}

fn is_connected(_: &Session, event: &Event) -> bool {
    matches!(event, Event::Connected { .. })
}

fn has_bridge(session: &Session, name: &str) -> bool {
    session.replica().rows("Bridge").any(|(_, row)| row.str("name") == Some(name))
}

#[test]
fn a_session_lives_through_a_restart_of_the_server() {
    let (Some(server), Some(tool), Some(vsctl)) =
        (find("ovsdb-server"), find("ovsdb-tool"), find("ovs-vsctl"))
    else {
        return;
    };
    if !Path::new(SCHEMA).is_file() {
        println!("SKIPPED: {SCHEMA} is not installed");
        return;
    }
    let directory = Directory::new();
    let (database, socket) = (directory.path("conf.db"), directory.path("db.sock"));
    run(&tool, &["create", text(&database), SCHEMA]);
    let running = Server::start(&server, &directory);
    let mut client = Client::new(Session::new(config()));
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
    let root = reply.uuid_of("root").expect("an inserted row");
    let (uuid, row) = client.session.replica().only_row("Open_vSwitch").expect("inserted");
    assert_eq!(uuid, root);
    assert_eq!(row.map_str("external_ids", "system-id"), Some("a \"quoted\" name"));
    assert_eq!(row.opt_i64("next_cfg"), Some(0), "left out by the server as the default");

    // Another client's changes arrive as insertions and as differences of sets and maps.
    let db = format!("--db=unix:{}", socket.display());
    run(&vsctl, &[&db, "--no-wait", "add-br", "br0", "--", "add-br", "br1"]);
    client.run_until("two bridges", |s, _| has_bridge(s, "br0") && has_bridge(s, "br1"));
    run(
        &vsctl,
        &[&db, "--no-wait", "set", "Bridge", "br0", "other_config:a=1", "other_config:b=2"],
    );
    run(&vsctl, &[&db, "--no-wait", "add-port", "br0", "p1"]);
    run(&vsctl, &[&db, "--no-wait", "remove", "Bridge", "br0", "other_config", "a"]);
    run(
        &vsctl,
        &[&db, "--no-wait", "set", "Bridge", "br0", "other_config:b=3", "other_config:c=4"],
    );
    client.run_until("the differences", |session, _| {
        session.replica().rows("Bridge").any(|(_, row)| {
            row.get("other_config") == Some(&Datum::map([("b", "3"), ("c", "4")]))
                && row.uuids("ports").len() == 2
        })
    });
    run(&vsctl, &[&db, "--no-wait", "del-br", "br1"]);
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
    let _running = Server::start(&server, &directory);
    client.connect(&socket);
    client.run_until("the contents", is_connected);
    assert_eq!(*client.session.replica(), before);
    assert_eq!(client.session.next_event(), None, "nothing changed");
    run(&vsctl, &[&db, "--no-wait", "add-br", "br2"]);
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

fn a_second_session_waits_for_the_lock(client: &mut Client, socket: &Path) {
    let mut second = Client::new(Session::new(config()));
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
    let (Some(server), Some(tool), Some(vsctl)) =
        (find("ovsdb-server"), find("ovsdb-tool"), find("ovs-vsctl"))
    else {
        return;
    };
    if !Path::new(SCHEMA).is_file() {
        println!("SKIPPED: {SCHEMA} is not installed");
        return;
    }
    let directory = Directory::new();
    let (database, socket) = (directory.path("conf.db"), directory.path("db.sock"));
    let raft = format!("unix:{}", directory.path("raft.sock").display());
    run(&tool, &["create-cluster", text(&database), SCHEMA, &raft]);
    let _running = Server::start(&server, &directory);
    let mut client = Client::new(Session::new(config()));
    client.connect(&socket);
    client.run_until("the contents", is_connected);
    let db = format!("--db=unix:{}", socket.display());
    // The server forgets transactions that together are larger than the database (ovs: ovsdb/transaction.c),
    // so the first one, which fills it, must not be the last that the session saw.
    run(&vsctl, &[&db, "--no-wait", "init", "--", "add-br", "br0", "--", "add-br", "br1"]);
    run(&vsctl, &[&db, "--no-wait", "add-br", "br2", "--", "add-br", "br3"]);
    run(&vsctl, &[&db, "--no-wait", "set", "Bridge", "br0", "other_config:b=1"]);
    client.run_until("the last change", |session, _| {
        session.replica().rows("Bridge").any(|(_, row)| row.map_str("other_config", "b").is_some())
    });
    client.disconnect();
    run(&vsctl, &[&db, "--no-wait", "set", "Bridge", "br0", "other_config:a=1"]);
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
