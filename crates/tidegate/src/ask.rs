//! Common parts of the verbs that query a running switch.

use daemon::unixctl::client::ClientError;
use std::io;
use std::process::ExitCode;

/// Returns the exit status of such a verb, and prints its error.
pub fn finish(verb: &str, shown: Result<(), ClientError>) -> ExitCode {
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        // A closed pipe (`| head`) is not an error.
        Err(ClientError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tidegate {verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A switch with prepared answers, for tests.
#[cfg(test)]
pub mod tests {
    use serde_json::Value;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    /// Answers each request with the next of `answers` until the client disconnects. Returns the requests.
    pub fn serve(
        listener: UnixListener,
        answers: Vec<Value>,
    ) -> std::thread::JoinHandle<Vec<Value>> {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let answer = |value: Value| {
                let mut requests = serde_json::Deserializer::from_reader(&mut stream).into_iter();
                let asked = requests.next()?.ok()?;
                stream.write_all(value.to_string().as_bytes()).unwrap();
                Some(asked)
            };
            answers.into_iter().map_while(answer).collect()
        })
    }
}
