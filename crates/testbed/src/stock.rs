//! Runs the stock tools with a time limit and returns their output.

use std::ffi::OsStr;
use std::fs::File;
use std::process::{Child, Command, Stdio};

use crate::TestbedError;

/// The time limit of a tool in seconds.
const LIMIT_S: &str = "60";

/// A command line.
#[derive(Clone, Debug)]
pub struct Stock {
    argv: Vec<String>,
}

/// The exit status and the output of a tool.
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
    /// A command line whose words are separated by white space. There is no quoting.
    pub fn new(line: &str) -> Stock {
        Stock { argv: line.split_whitespace().map(str::to_owned).collect() }
    }

    /// Adds one word, which may contain spaces.
    pub fn word(mut self, word: impl Into<String>) -> Stock {
        self.argv.push(word.into());
        self
    }

    /// Returns the command line for a run in a host's network namespace.
    pub fn on(self, host: &str) -> Stock {
        let mut argv: Vec<String> =
            ["ip", "netns", "exec", host].iter().map(|&s| s.to_owned()).collect();
        argv.extend(self.argv);
        Stock { argv }
    }

    /// Returns the command line as text.
    pub fn line(&self) -> String {
        self.argv.join(" ")
    }

    /// Runs it and returns the result, whatever its exit status is.
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

    /// Runs it and returns its standard output. A non-zero exit status is an error.
    pub fn run(&self) -> Result<String, TestbedError> {
        let answer = self.ask()?;
        if answer.ok() { Ok(answer.stdout) } else { Err(answer.failure()) }
    }

    /// Starts it without waiting for its end. Its output goes to the file `printed`.
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
    /// Returns whether the exit status is zero.
    pub fn ok(&self) -> bool {
        self.status.success()
    }

    /// Returns the exit status, or `None` if a signal ended the tool.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Converts the result to an error.
    pub fn failure(self) -> TestbedError {
        let output = format!("{}\n{}", self.stderr.trim(), self.stdout.trim());
        TestbedError::Tool { line: self.line, status: self.status.to_string(), output }
    }
}

/// Starts a command without waiting for its end. Its output goes to the file `printed`.
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

/// Returns the last lines of a file for an error message, or an empty text if there is no file.
pub fn end_of(file: &str) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(12)..).unwrap_or_default().join("\n")
}
