//! Something that is claimed, and whether it was seen.

/// One claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    name: &'static str,
    ok: bool,
    text: String,
}

impl Check {
    /// A claim by its name in the JSON object, whether it is true, and what was seen.
    pub fn new(name: &'static str, ok: bool, text: impl Into<String>) -> Check {
        Check { name, ok, text: text.into() }
    }

    /// Whether it is true.
    pub fn is_true(&self) -> bool {
        self.ok
    }

    /// Its name in the JSON object.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What was seen.
    pub fn text(&self) -> &str {
        &self.text
    }
}
