//! One finding of a check: where it is, what is wrong and what to do.

use std::fmt;

/// A failure of a check, printed as `path:line: text`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Path from the repository root.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong and what to do about it.
    pub text: String,
}

impl Problem {
    /// A problem at `path:line`.
    pub fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}
