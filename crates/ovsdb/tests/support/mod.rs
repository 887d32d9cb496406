//! The real ovsdb-server in a temporary directory, and a session with it. The tests of the crate `control`
//! include this file, too.

// Each test uses a part of it.
#![allow(dead_code)]

use base::Instant;
use ovsdb::{Event, Session, SessionConfig, Transaction, TransactionResult};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The schema of Open vSwitch's database.
pub const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A temporary directory that is removed with the test.
pub struct Directory(PathBuf);

impl Directory {
    /// Makes a new one.
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tovsdb-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).expect("a temporary directory");
        Directory(path)
    }

    /// Returns the path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a UTF-8 path").to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A child process, killed when dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The paths of the programs.
pub struct Programs {
    pub server: PathBuf,
    pub tool: PathBuf,
    pub vsctl: PathBuf,
}

impl Programs {
    /// Finds them. Returns `None` after printing why the test is skipped.
    pub fn find() -> Option<Self> {
        let server = find("ovsdb-server")?;
        let programs = Programs { server, tool: find("ovsdb-tool")?, vsctl: find("ovs-vsctl")? };
        if !Path::new(SCHEMA).is_file() {
            println!("SKIPPED: {SCHEMA} is not installed");
            return None;
        }
        Some(programs)
    }

    /// Starts the server on the database `conf.db`, with the sockets `db.sock` and `server.ctl`.
    pub fn start_server(&self, directory: &Directory) -> Running {
        let socket = directory.path("db.sock");
        let _ = std::fs::remove_file(&socket);
        let child = Command::new(&self.server)
            .arg(format!("--remote=punix:{socket}"))
            .arg(format!("--unixctl={}", directory.path("server.ctl")))
            .args(["--no-chdir", "-vconsole:off", &directory.path("conf.db")])
            .env("OVS_RUNDIR", &directory.0)
            .stdin(Stdio::null())
            .spawn();
        Running(child.expect("ovsdb-server starts"))
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let directories = ["/usr/sbin", "/usr/bin"].into_iter().chain(path.split(':'));
    let found = directories.map(|dir| Path::new(dir).join(program)).find(|file| file.is_file());
    if found.is_none() {
        println!("SKIPPED: {program} is not installed");
    }
    found
}

/// Runs a program to its end and returns its output.
pub fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program starts");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{} {arguments:?}: {words}", program.display());
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns whether a session is up to date for the first time since it was connected.
pub fn is_connected(_: &Session, event: &Event) -> bool {
    matches!(event, Event::Connected { .. })
}

/// A session with its socket and clock.
pub struct Client {
    pub session: Session,
    stream: Option<UnixStream>,
    started: std::time::Instant,
}

impl Client {
    /// A session without a connection.
    pub fn new(config: SessionConfig) -> Self {
        let session = Session::new(config);
        Client { session, stream: None, started: std::time::Instant::now() }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.started.elapsed()
    }

    /// Connects, as soon as the server listens.
    pub fn connect(&mut self, socket: &str) {
        let deadline = self.now() + Duration::from_secs(20);
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(self.now() < deadline, "{socket}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        self.stream = Some(stream);
        self.session.connected(self.now());
    }

    /// Closes the connection.
    pub fn disconnect(&mut self) {
        self.stream = None;
        self.session.disconnected(self.now());
    }

    /// Runs until `wanted` accepts an event, and returns that event. Errors end the test.
    pub fn run_until(&mut self, what: &str, wanted: impl Fn(&Session, &Event) -> bool) -> Event {
        let deadline = self.now() + Duration::from_secs(60);
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
            assert!(self.now() < deadline, "waited 60 s for {what}");
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

    /// Sends a transaction and waits for its result.
    pub fn commit(&mut self, transaction: Transaction) -> TransactionResult {
        let id = self.session.transact(transaction).expect("connected, with the lock");
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
