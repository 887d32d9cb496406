//! What the demo says, and where: standard output, or standard error when a JSON object is to be
//! alone on standard output. Colour only on a terminal.

use std::io::{self, IsTerminal, Write};

/// Where lines go.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    verb: &'static str,
    to_stderr: bool,
    colour: bool,
}

impl Screen {
    /// The demo's screen; with `json`, standard output stays free for the object at the end.
    pub fn new(json: bool) -> Screen {
        Screen::of("demo", json)
    }

    /// The screen of this verb.
    pub fn of(verb: &'static str, json: bool) -> Screen {
        let looked_at = if json { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Screen { verb, to_stderr: json, colour: looked_at && wanted }
    }

    /// A heading, with an empty line before it.
    pub fn title(&self, text: &str) {
        self.write(&format!("\n{}\n", self.paint("1", text)));
    }

    /// A plain line.
    pub fn say(&self, text: &str) {
        self.write(&format!("  {text}\n"));
    }

    /// Several lines as another program wrote them.
    pub fn text(&self, text: &str) {
        for line in text.trim_end().lines() {
            self.write(&format!("    {line}\n"));
        }
    }

    /// A claim, and whether it is true.
    pub fn check(&self, ok: bool, text: &str) {
        let mark = if ok { self.paint("32", "ok") } else { self.paint("1;31", "FAILED") };
        self.write(&format!("  {mark}  {text}\n"));
    }

    /// Why the demo ends here; always on standard error.
    pub fn problem(&self, text: &str) {
        // Nothing is left to be told to when standard error is closed.
        let _ = writeln!(io::stderr(), "tidegate {}: {text}", self.verb);
    }

    /// The text in this colour, on a terminal.
    pub fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Text as it is.
    pub fn write(&self, text: &str) {
        // A closed pipe (`| head`) must not end the demo before it has cleaned up.
        let _ = if self.to_stderr {
            io::stderr().write_all(text.as_bytes())
        } else {
            io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush())
        };
    }
}
