//! The client's end of the control socket: sends commands to a running switch, as `ovs-appctl` does.

use crate::{Directories, PROGRAM};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No switch listens there.
    #[error("{}: {source}; is a switch running? name its control socket with --target", path.display())]
    Unreachable {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is no pidfile, and not exactly one control socket.
    #[error("{}: {found}; name the switch's control socket with --target", run.display())]
    NotTheOnly {
        /// The run directory.
        run: PathBuf,
        /// What was found instead of one switch.
        found: String,
    },
    /// The connection failed, or the output could not be written.
    #[error("the switch's control socket: {0}")]
    Io(#[from] io::Error),
    /// The answer is not JSON-RPC.
    #[error("the switch's answer cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The switch answered with this error.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a running switch.
pub struct Client {
    stream: UnixStream,
    asked: u64,
}

impl Client {
    /// Connects to the control socket `target`. Without one, it connects to the switch of the pidfile in the
    /// run directory, or to the only one with a control socket there.
    ///
    /// # Errors
    /// No switch listens there, or there are several.
    pub fn connect(
        target: Option<&Path>,
        directories: &Directories,
    ) -> Result<Client, ClientError> {
        let stream = match target {
            Some(path) => UnixStream::connect(path).map_err(|source| {
                let path = path.to_owned();
                ClientError::Unreachable { path, source }
            })?,
            None => match with_pidfile(&directories.run) {
                Some(stream) => stream,
                None => the_only_one(&directories.run)?,
            },
        };
        Ok(Client { stream, asked: 0 })
    }

    /// Sends a command and returns the answer (JSON-RPC 1.0, as `ovs-appctl` does).
    ///
    /// # Errors
    /// The switch answered with an error, or the connection failed.
    pub fn ask(&mut self, command: &str, words: &[String]) -> Result<String, ClientError> {
        self.asked += 1;
        let request = json!({"id": self.asked, "method": command, "params": words});
        self.stream.write_all(request.to_string().as_bytes())?;
        let answer = read_value(&mut self.stream)?;
        match (answer.get("result").and_then(Value::as_str), answer.get("error")) {
            (Some(text), _) => Ok(text.to_owned()),
            (None, Some(Value::String(error))) => {
                Err(ClientError::Refused(error.trim_end().to_owned()))
            }
            _ => Err(ClientError::Refused(format!("{command} is not known to this switch"))),
        }
    }
}

/// Connects to the switch of the pidfile, if it runs.
fn with_pidfile(run: &Path) -> Option<UnixStream> {
    let pid = std::fs::read_to_string(run.join(format!("{PROGRAM}.pid"))).ok()?;
    UnixStream::connect(run.join(format!("{PROGRAM}.{}.ctl", pid.trim()))).ok()
}

/// Connects to the only switch that listens in the run directory.
fn the_only_one(run: &Path) -> Result<UnixStream, ClientError> {
    let not_the_only = |found: String| Err(ClientError::NotTheOnly { run: run.to_owned(), found });
    let entries = match std::fs::read_dir(run) {
        Ok(entries) => entries,
        Err(error) => return not_the_only(base::reason(&error)),
    };
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(&format!("{PROGRAM}.")) && name.ends_with(".ctl"))
        .collect();
    names.sort();
    // Stale sockets refuse connections.
    let mut running: Vec<(String, UnixStream)> = Vec::new();
    for name in names {
        if let Ok(stream) = UnixStream::connect(run.join(&name)) {
            running.push((name, stream));
        }
    }
    match (running.pop(), running.is_empty()) {
        (Some((_, stream)), true) => Ok(stream),
        (None, _) => not_the_only("no switch is running".to_owned()),
        (Some((last, _)), false) => {
            let mut names: Vec<String> = running.into_iter().map(|(name, _)| name).collect();
            names.push(last);
            not_the_only(format!("several switches are running ({})", names.join(", ")))
        }
    }
}

/// Reads one JSON value from a stream.
fn read_value(stream: &mut impl Read) -> Result<Value, ClientError> {
    let mut values = serde_json::Deserializer::from_reader(stream).into_iter::<Value>();
    match values.next() {
        Some(value) => Ok(value?),
        None => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn without_a_switch_the_message_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().to_owned();
        let directories = Directories { run, ..Directories::from_environment() };
        let error = Client::connect(None, &directories).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("no switch is running") && error.contains("--target"), "{error}");
    }

    #[test]
    fn the_only_running_switch_is_found_without_its_pidfile() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().to_owned();
        let directories = Directories { run: run.clone(), ..Directories::from_environment() };
        let listen = |name: &str| UnixListener::bind(run.join(name)).unwrap();
        let connect = || Client::connect(None, &directories).map(|_| ());
        drop(listen("ovs-vswitchd.7.ctl"));
        let _server = listen("ovsdb-server.8.ctl");
        connect().unwrap_err();
        let one = listen("ovs-vswitchd.9.ctl");
        std::fs::write(run.join("ovs-vswitchd.pid"), "7\n").unwrap();
        connect().unwrap();
        let other = listen("ovs-vswitchd.10.ctl");
        let error = connect().unwrap_err().to_string();
        let words = "several switches are running (ovs-vswitchd.10.ctl, ovs-vswitchd.9.ctl)";
        assert!(error.contains(words), "{error}");
        std::fs::write(run.join("ovs-vswitchd.pid"), "10\n").unwrap();
        drop(one);
        connect().unwrap();
        drop(other);
        connect().unwrap_err();
    }
}
