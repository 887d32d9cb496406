//! What a state machine says in the log. The caller writes it, since it limits the rate.

use log::Level;

/// Lines kept until the caller takes them. A peer provokes lines, so there is a limit.
const KEPT: usize = 16;

/// A line of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its level.
    pub level: Level,
    /// Its text, which starts with the name of the interface.
    pub text: String,
}

/// The lines that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<Line>);

impl Lines {
    pub fn add(&mut self, level: Level, text: impl FnOnce() -> String) {
        if self.0.len() < KEPT {
            self.0.push(Line { level, text: text() });
        }
    }

    pub fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.0)
    }
}
