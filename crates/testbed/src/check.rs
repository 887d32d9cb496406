//! The result of one check of a demonstration or test.

/// A check with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    name: &'static str,
    ok: bool,
    text: String,
}

impl Check {
    /// A check with its name in the JSON output, whether it passed, and a description of the observation.
    pub fn new(name: &'static str, ok: bool, text: impl Into<String>) -> Check {
        Check { name, ok, text: text.into() }
    }

    /// Returns whether it passed.
    pub fn is_true(&self) -> bool {
        self.ok
    }

    /// Returns its name in the JSON output.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the description of the observation.
    pub fn text(&self) -> &str {
        &self.text
    }
}
