//! The other end of the control socket: asks a running switch, as `ovs-appctl` does.

use crate::{Directories, PROGRAM};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Why a switch does not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is none.
    #[error("{}: {source}; is a switch running? name its control socket with --target", path.display())]
    Unreachable {
        /// Where it was looked for.
        path: PathBuf,
        /// What is there.
        source: io::Error,
    },
    /// The connection broke, or what was to be printed could not be.
    #[error("the switch's control socket: {0}")]
    Io(#[from] io::Error),
    /// It speaks another language.
    #[error("the switch's answer cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// It says no.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a running switch.
pub struct Client {
    stream: UnixStream,
    asked: u64,
}

impl Client {
    /// Connects to the control socket `target`, or to that of the switch whose pidfile lies in the run
    /// directory.
    ///
    /// # Errors
    /// There is no such switch.
    pub fn connect(
        target: Option<&Path>,
        directories: &Directories,
    ) -> Result<Client, ClientError> {
        let path = match target {
            Some(path) => path.to_owned(),
            None => {
                let pidfile = directories.run.join(format!("{PROGRAM}.pid"));
                let pid = std::fs::read_to_string(&pidfile)
                    .map_err(|source| ClientError::Unreachable { path: pidfile, source })?;
                directories.run.join(format!("{PROGRAM}.{}.ctl", pid.trim()))
            }
        };
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Client { stream, asked: 0 }),
            Err(source) => Err(ClientError::Unreachable { path, source }),
        }
    }

    /// Asks one command (JSON-RPC 1.0, as `ovs-appctl` does).
    ///
    /// # Errors
    /// The switch refuses, or is gone.
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

/// One JSON value off a stream.
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

    #[test]
    fn without_a_switch_the_message_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().to_owned();
        let directories = Directories { run, ..Directories::from_environment() };
        let error = Client::connect(None, &directories).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("ovs-vswitchd.pid") && error.contains("--target"), "{error}");
    }
}
