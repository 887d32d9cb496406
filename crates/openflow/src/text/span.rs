//! Parts of a text that know their position.

use super::TextError;

/// A part of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub text: &'a str,
    /// Offset in bytes.
    pub at: usize,
}

/// A key with its value: `key`, `key=value`, `key:value` or `key(value)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub key: Span<'a>,
    pub value: Option<Span<'a>>,
    /// Whether the value was in parentheses.
    pub nested: bool,
}

impl<'a> Span<'a> {
    pub fn new(text: &'a str) -> Self {
        Span { text, at: 0 }
    }

    /// Returns the part between two offsets.
    fn part(self, from: usize, to: usize) -> Span<'a> {
        Span { text: self.text.get(from..to).unwrap_or(""), at: self.at + from }
    }

    /// Returns the part from an offset on.
    pub fn from(self, from: usize) -> Span<'a> {
        self.part(from, self.text.len())
    }

    /// Returns the part up to an offset.
    pub fn until(self, to: usize) -> Span<'a> {
        self.part(0, to)
    }

    /// Returns the part without surrounding white space.
    pub fn trim(self) -> Span<'a> {
        let start = self.text.len() - self.text.trim_start().len();
        let text = self.text.trim();
        self.part(start, start + text.len())
    }

    /// Returns the parts before and after the first `mark`.
    pub fn split(self, mark: &str) -> Option<(Span<'a>, Span<'a>)> {
        let at = self.text.find(mark)?;
        Some((self.until(at), self.from(at + mark.len())))
    }

    pub fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    /// Returns an error about this part.
    pub fn error(self, what: impl Into<String>) -> TextError {
        self.error_with(what, "")
    }

    /// Returns an error about this part, with a hint.
    pub fn error_with(self, what: impl Into<String>, hint: impl Into<String>) -> TextError {
        TextError { column: self.at + 1, what: what.into(), hint: hint.into() }
    }

    /// Returns the pairs, which are separated by commas or white space.
    pub fn pairs(self) -> Result<Vec<Pair<'a>>, TextError> {
        let mut out = Vec::new();
        let mut rest = self;
        loop {
            let skipped = rest.text.len() - rest.text.trim_start_matches(is_between).len();
            rest = rest.from(skipped);
            if rest.is_empty() {
                return Ok(out);
            }
            let key_len = rest
                .text
                .find(|c| is_between(c) || matches!(c, ':' | '=' | '('))
                .unwrap_or(rest.text.len());
            let key = rest.until(key_len);
            let (value, nested, end) = match rest.text.as_bytes().get(key_len) {
                Some(b'(') => {
                    let close = closing(rest, key_len)?;
                    // `check_pkt_larger(200)->reg0[0]` continues after its parenthesis.
                    let (inside, end) = match rest.from(close + 1).text.starts_with("->") {
                        true => value_end(rest, close + 1).map(|end| (end, end))?,
                        false => (close, close + 1),
                    };
                    (Some(rest.part(key_len + 1, inside)), true, end)
                }
                Some(b':' | b'=') => {
                    let end = value_end(rest, key_len + 1)?;
                    (Some(rest.part(key_len + 1, end)), false, end)
                }
                _ => (None, false, key_len),
            };
            if key.is_empty() {
                return Err(rest.error("a name is missing here"));
            }
            out.push(Pair { key, value, nested });
            rest = rest.from(end);
        }
    }
}

fn is_between(c: char) -> bool {
    c == ',' || c.is_ascii_whitespace()
}

/// Returns the offset of the parenthesis that closes the one at `open`.
fn closing(span: Span<'_>, open: usize) -> Result<usize, TextError> {
    let mut depth = 0usize;
    for (i, c) in span.text.bytes().enumerate().skip(open) {
        match c {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Ok(i);
        }
    }
    Err(span.from(open).error_with("this parenthesis is never closed", "add a )"))
}

/// Returns the end of a value: a comma or space outside of parentheses and brackets.
fn value_end(span: Span<'_>, from: usize) -> Result<usize, TextError> {
    let mut depth = 0usize;
    for (i, c) in span.text.bytes().enumerate().skip(from) {
        match c {
            b'(' | b'[' => depth += 1,
            b')' | b']' if depth == 0 => return Err(span.from(i).error("nothing is open here")),
            b')' | b']' => depth -= 1,
            _ if depth == 0 && is_between(c.into()) => return Ok(i),
            _ => {}
        }
    }
    Ok(span.text.len())
}

impl<'a> Pair<'a> {
    /// Returns the value, or an error that it is missing.
    pub fn needed(self) -> Result<Span<'a>, TextError> {
        match self.value {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(self.key.error(format!("{} needs a value", self.key.text))),
        }
    }

    /// Returns the value; empty if there is none.
    pub fn rest(self) -> Span<'a> {
        self.value.unwrap_or(Span { text: "", ..self.key })
    }
}
