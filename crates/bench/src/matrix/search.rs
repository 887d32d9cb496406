//! The search of a cell, in a child process that ends with this one, and the estimated time of the remaining
//! ones.

use super::MatrixArgs;
use super::cell::Cell;
use crate::BenchError;
use load::generate::interrupt::Interrupt;
use load::generate::numbers::human;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval of progress messages, on a terminal and elsewhere.
const TELL_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// How a search has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It wrote its file, with this content.
    Measured(String),
    /// The user asked to end.
    Interrupted,
    /// There is no result, for this reason.
    Failed(String),
}

/// Runs the search. The file of the result appears only when it is complete. `shown` formats a line of
/// progress.
pub fn search(
    args: &MatrixArgs,
    cell: &Cell,
    file: &Path,
    interrupt: &Interrupt,
    shown: &dyn Fn(&str) -> String,
) -> Result<Ended, BenchError> {
    let part = file.with_extension("part");
    let wrong =
        |what: &str, error: std::io::Error| BenchError::WrongWork(format!("{what}: {error}"));
    let program = std::env::current_exe().map_err(|error| wrong("this program's file", error))?;
    // The kernel kills it with this thread, so no search continues as an orphan. It has a process group of
    // its own, so that only this process interrupts it and not the terminal, too.
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(program)
        .args(cell.arguments(args, &part))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| wrong("setpriv", error))?;
    let (out, err) = (Latest::of(child.stdout.take()), Latest::of(child.stderr.take()));
    let status = wait(&mut child, interrupt, &|| shown(&out.line()))
        .map_err(|error| wrong(&cell.name(), error))?;
    let json = std::fs::read(&part).ok();
    let json = json.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    // Without an answer (status 1, or 3 with samples) there is still a result; if the status differs from
    // that of the result, the search failed afterwards.
    let whole = json.filter(|json| json["interrupted"] != true);
    let whole = whole.filter(|json| json["exit_status"].as_i64() == status.code().map(i64::from));
    let Some(json) = whole else {
        // An interrupted search is discarded, since its result would be worse.
        let _ = std::fs::remove_file(&part);
        if interrupt.is_set() {
            return Ok(Ended::Interrupted);
        }
        let said = err.line();
        return Ok(Ended::Failed(if said.is_empty() { status.to_string() } else { said }));
    };
    std::fs::rename(&part, file).map_err(|error| wrong(&file.display().to_string(), error))?;
    Ok(if says_nothing(&json) {
        Ended::Failed(format!("the generator did not do what was asked, {}", in_words(&json)))
    } else {
        Ended::Measured(in_words(&json))
    })
}

/// Returns whether all samples of a result were invalid; such a cell is shown, and measured again.
pub fn says_nothing(json: &Value) -> bool {
    json["exit_status"] == 3
}

fn in_words(json: &Value) -> String {
    let samples = json["samples"].as_array().map_or(0, Vec::len);
    match json["connections_per_second"].as_f64() {
        Some(rate) => format!("{} connections/s after {samples} samples", human(rate)),
        None => format!("no rate passed in {samples} samples"),
    }
}

/// Waits for its end, shows the progress, and forwards an interrupt.
fn wait(
    child: &mut Child,
    interrupt: &Interrupt,
    shown: &dyn Fn() -> String,
) -> std::io::Result<ExitStatus> {
    let is_terminal = std::io::stderr().is_terminal();
    let every = TELL_EVERY[usize::from(!is_terminal)];
    let (mut told, mut handed_on) = (Instant::now(), false);
    loop {
        if let Some(status) = child.try_wait()? {
            if is_terminal {
                eprint!("\r\x1b[K");
            }
            return Ok(status);
        }
        if interrupt.is_set() && !handed_on {
            handed_on = true;
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // It may have ended just now, which the next check notices.
            let _ = pid.map(|pid| kill_process(pid, Signal::INT));
        }
        if told.elapsed() >= every {
            told = Instant::now();
            let line = shown();
            // A closed output is no reason to stop measuring.
            let _ = match is_terminal {
                true => write!(std::io::stderr(), "\r{line}\x1b[K"),
                false => writeln!(std::io::stderr(), "{line}"),
            };
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The last line of output: the progress of a search, or the reason why it has no result.
struct Latest(Arc<Mutex<String>>);

impl Latest {
    /// Reads the output until the program has ended.
    fn of(stream: Option<impl Read + Send + 'static>) -> Latest {
        let latest = Latest(Arc::default());
        let Some(stream) = stream else { return latest };
        let into = Arc::clone(&latest.0);
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let line = line.trim().trim_start_matches("... ");
                if !line.is_empty() {
                    line.clone_into(&mut into.lock().unwrap_or_else(PoisonError::into_inner));
                }
            }
        });
        latest
    }

    fn line(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The remaining time: the estimate, corrected by the durations of the finished searches.
#[derive(Debug)]
pub struct Left {
    expected: Vec<Duration>,
    done: usize,
    took: Duration,
}

impl Left {
    /// For searches with these estimated times.
    pub fn new(expected: Vec<Duration>) -> Left {
        Left { expected, done: 0, took: Duration::ZERO }
    }

    /// One more search has ended, this long after the first started.
    pub fn done(&mut self, elapsed: Duration) {
        self.done += 1;
        self.took = elapsed;
    }

    /// Returns the remaining time, this long after the first started.
    pub fn time(&self, elapsed: Duration) -> Duration {
        let (done, left) = self.expected.split_at(self.done.min(self.expected.len()));
        let (done, left): (Duration, Duration) = (done.iter().sum(), left.iter().sum());
        let pace = match done.as_secs_f64() {
            0.0 => 1.0,
            done => self.took.as_secs_f64() / done,
        };
        left.mul_f64(pace).saturating_sub(elapsed.saturating_sub(self.took))
    }

    /// Returns the same as text.
    pub fn words(&self, elapsed: Duration) -> String {
        format!("about {} minutes left", self.time(elapsed).as_secs().div_ceil(60).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_the_searches_before() {
        let seconds = Duration::from_secs;
        let mut left = Left::new(vec![seconds(100), seconds(300), seconds(600)]);
        assert_eq!(left.time(seconds(0)), seconds(1000));
        assert_eq!(left.time(seconds(40)), seconds(960));
        // It took twice as long as expected, and so will the others.
        left.done(seconds(200));
        assert_eq!(left.time(seconds(200)), seconds(1800));
        assert_eq!(left.time(seconds(260)), seconds(1740));
        left.done(seconds(800));
        assert_eq!(left.words(seconds(800)), "about 20 minutes left");
        assert_eq!(left.time(seconds(9000)), seconds(0));
        left.done(seconds(9000));
        left.done(seconds(9000));
        assert_eq!(left.time(seconds(9000)), seconds(0));
    }
}
