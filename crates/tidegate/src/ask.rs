//! What the verbs that ask a running switch have in common.

use daemon::unixctl::client::ClientError;
use std::io;
use std::process::ExitCode;

/// How a verb that asks a switch ends.
pub fn finish(verb: &str, shown: Result<(), ClientError>) -> ExitCode {
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        // The reader (`| head`) has seen enough.
        Err(ClientError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tidegate {verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A switch that gives the answers that a test wants.
#[cfg(test)]
pub mod tests {
    use serde_json::Value;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    /// Answers each request with the next of `answers` until the client has no more, and gives back
    /// what was asked.
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
