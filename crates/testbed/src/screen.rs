//! Output for users: to standard output, or to standard error if standard output is reserved for JSON.
//! Colours only on a terminal.

use std::io::{self, IsTerminal, Write};

/// The output of one verb of the program.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    verb: &'static str,
    to_stderr: bool,
    colour: bool,
}

impl Screen {
    /// The output of `demo`. With `json`, standard output is reserved for the JSON object at the end.
    pub fn new(json: bool) -> Screen {
        Screen::of("demo", json)
    }

    /// The output of this verb.
    pub fn of(verb: &'static str, json: bool) -> Screen {
        let looked_at = if json { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Screen { verb, to_stderr: json, colour: looked_at && wanted }
    }

    /// Prints a heading, with an empty line before it.
    pub fn title(&self, text: &str) {
        self.write(&format!("\n{}\n", self.paint("1", text)));
    }

    /// Prints a line.
    pub fn say(&self, text: &str) {
        self.write(&format!("  {text}\n"));
    }

    /// Prints the output of another program.
    pub fn text(&self, text: &str) {
        for line in text.trim_end().lines() {
            self.write(&format!("    {line}\n"));
        }
    }

    /// Prints a check and whether it passed.
    pub fn check(&self, ok: bool, text: &str) {
        let mark = if ok { self.paint("32", "ok") } else { self.paint("1;31", "FAILED") };
        self.write(&format!("  {mark}  {text}\n"));
    }

    /// Prints the error that ends the program, always to standard error.
    pub fn problem(&self, text: &str) {
        // A failure to write it cannot be reported anywhere.
        let _ = writeln!(io::stderr(), "tidegate {}: {text}", self.verb);
    }

    /// Returns the text in this colour, or unchanged if the output is not a terminal.
    pub fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Prints text unchanged.
    pub fn write(&self, text: &str) {
        // A closed pipe (`| head`) must not end the program before it has cleaned up.
        let _ = if self.to_stderr {
            io::stderr().write_all(text.as_bytes())
        } else {
            io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush())
        };
    }
}
