//! Words of the text form with their positions.

use std::str::FromStr;

use super::TextError;

/// A word of the text and its position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'a> {
    /// The position in bytes from the start of the whole text.
    pub at: usize,
    pub text: &'a str,
}

impl<'a> Word<'a> {
    pub fn error(self, what: impl Into<String>) -> TextError {
        TextError { column: self.at + 1, what: what.into() }
    }

    /// Returns the parts before and after the first `mark`.
    pub fn split(self, mark: char) -> Option<(Word<'a>, Word<'a>)> {
        let (before, behind) = self.text.split_once(mark)?;
        let behind_at = self.at + before.len() + mark.len_utf8();
        Some((Word { text: before, ..self }, Word { at: behind_at, text: behind }))
    }

    pub fn parse<T: FromStr>(self, expected: &str) -> Result<T, TextError> {
        self.text.parse().map_err(|_| self.error(format!("'{}' is not {expected}", self.text)))
    }

    /// Parses a decimal or hexadecimal number of at most `max`.
    pub fn number(self, max: u32) -> Result<u32, TextError> {
        let digits = self.text.strip_prefix("0x");
        let (digits, radix) = digits.map_or((self.text, 10), |digits| (digits, 16));
        // `from_str_radix` accepts a sign; the text form does not.
        let found = Some(digits).filter(|digits| !digits.starts_with('+'));
        found
            .and_then(|digits| u32::from_str_radix(digits, radix).ok())
            .filter(|number| *number <= max)
            .ok_or_else(|| self.error(format!("'{}' is not a number up to {max}", self.text)))
    }

    pub fn u8(self) -> Result<u8, TextError> {
        self.number(u8::MAX.into()).map(|number| number as u8)
    }

    pub fn u16(self) -> Result<u16, TextError> {
        self.number(u16::MAX.into()).map(|number| number as u16)
    }
}

/// Splits `text`, which starts `offset` bytes into the whole text, into words. Text in parentheses is one
/// word.
pub(super) fn words(text: &str, offset: usize) -> Result<Vec<Word<'_>>, TextError> {
    let mut words = Vec::new();
    let (mut start, mut depth) = (None, 0usize);
    for (at, c) in text.char_indices() {
        depth += usize::from(c == '(');
        if c == ')' {
            let one_less = depth.checked_sub(1);
            let here = Word { at: offset + at, text };
            depth = one_less.ok_or_else(|| here.error("')' without '('"))?;
        }
        if !c.is_whitespace() || depth > 0 {
            start.get_or_insert(at);
        } else if let Some(from) = start.take() {
            words.push(Word { at: offset + from, text: text.get(from..at).unwrap_or("") });
        }
    }
    let end = Word { at: offset + text.len(), text };
    if depth > 0 {
        return Err(end.error("')' is missing"));
    }
    if let Some(from) = start {
        words.push(Word { at: offset + from, text: text.get(from..).unwrap_or("") });
    }
    Ok(words)
}
