//! Runs the stock tools: one command line, its time limit, what it answered.

use std::ffi::OsStr;
use std::fs::File;
use std::process::{Child, Command, Stdio};

use crate::TestbedError;

/// No stock tool that is asked a question may take longer, in seconds.
const LIMIT_S: &str = "60";

/// A command line that is to be run.
#[derive(Clone, Debug)]
pub struct Stock {
    argv: Vec<String>,
}

/// How a tool ended, and what it said.
#[derive(Clone, Debug)]
pub struct Answer {
    line: String,
    status: std::process::ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Stock {
    /// A command line whose words are separated by blanks; there is no quoting.
    pub fn new(line: &str) -> Stock {
        Stock { argv: line.split_whitespace().map(str::to_owned).collect() }
    }

    /// Adds one word, which may hold blanks.
    pub fn word(mut self, word: impl Into<String>) -> Stock {
        self.argv.push(word.into());
        self
    }

    /// The same in a host's network namespace.
    pub fn on(self, host: &str) -> Stock {
        let mut argv: Vec<String> =
            ["ip", "netns", "exec", host].iter().map(|&s| s.to_owned()).collect();
        argv.extend(self.argv);
        Stock { argv }
    }

    /// The line as one would type it.
    pub fn line(&self) -> String {
        self.argv.join(" ")
    }

    /// Runs it to its end; any exit status is an answer.
    pub fn ask(&self) -> Result<Answer, TestbedError> {
        let output = Command::new("timeout")
            .arg(LIMIT_S)
            .args(&self.argv)
            .stdin(Stdio::null())
            .output()
            .map_err(TestbedError::io(format!("run `{}`", self.line())))?;
        Ok(Answer {
            line: self.line(),
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs it to its end and wants success; answers standard output.
    pub fn run(&self) -> Result<String, TestbedError> {
        let answer = self.ask()?;
        if answer.ok() { Ok(answer.stdout) } else { Err(answer.failure()) }
    }

    /// Starts it; what it prints goes to a file.
    pub fn start(&self, printed: &str) -> Result<Child, TestbedError> {
        let (program, args) = match self.argv.split_first() {
            Some((program, args)) => (OsStr::new(program), args),
            None => (OsStr::new("true"), &[][..]),
        };
        let mut command = Command::new(program);
        command.args(args);
        start(&mut command, printed)
    }
}

impl Answer {
    /// Whether the exit status was 0.
    pub fn ok(&self) -> bool {
        self.status.success()
    }

    /// The exit status as a number, where it was not a signal.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// As an error.
    pub fn failure(self) -> TestbedError {
        let output = format!("{}\n{}", self.stderr.trim(), self.stdout.trim());
        TestbedError::Tool { line: self.line, status: self.status.to_string(), output }
    }
}

/// Starts a command that stays; what it prints goes to a file.
pub fn start(command: &mut Command, printed: &str) -> Result<Child, TestbedError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let file = File::create(printed).map_err(TestbedError::io(format!("create {printed}")))?;
    let again = file.try_clone().map_err(TestbedError::io(format!("open {printed} twice")))?;
    command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(again)
        .spawn()
        .map_err(TestbedError::io(format!("start {name}")))
}

/// The last lines of a file, for an error message; nothing where there is none.
pub fn end_of(file: &str) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(12)..).unwrap_or_default().join("\n")
}
