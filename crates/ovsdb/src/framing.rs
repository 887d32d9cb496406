//! Splits a byte stream into JSON messages.
//!
//! RFC 7047 section 4 concatenates JSON-RPC 1.0 objects without length or separator, so a message ends where
//! its brackets are balanced.

use crate::Error;
use base::limits::OVSDB_MESSAGE_BYTES;

/// Maximum nesting of brackets. Real messages nest about ten deep; serde_json stops at 128, and an earlier
/// limit gives a clearer error.
const MAX_DEPTH: usize = 100;

/// An incremental splitter: push received bytes, take whole messages.
///
/// It looks at each byte once, however the stream is cut. Errors are permanent, because the start of the next
/// message is unknown.
#[derive(Debug)]
pub struct Framer {
    buffer: Vec<u8>,
    /// Offset of the first message that was not returned yet.
    start: usize,
    /// Offset at which scanning continues.
    scanned: usize,
    depth: usize,
    place: Place,
    limit_bytes: usize,
    error: Option<Error>,
}

/// The scanner's position in the JSON grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Text,
    Escape,
}

impl Default for Framer {
    fn default() -> Self {
        Framer::with_limit(OVSDB_MESSAGE_BYTES)
    }
}

impl Framer {
    /// A splitter that refuses messages longer than `limit_bytes`.
    pub fn with_limit(limit_bytes: usize) -> Self {
        Framer {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            depth: 0,
            place: Place::Outside,
            limit_bytes,
            error: None,
        }
    }

    /// Adds bytes to the end of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.error.is_some() {
            return;
        }
        // The remainder is moved only when it is less than half of the buffer, which keeps the cost linear.
        if self.start > self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole message; `None` until more bytes arrive.
    ///
    /// # Errors
    /// A message does not begin with a bracket, is too long or nests too deeply. Every later call returns the
    /// same error.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        match self.scan() {
            Ok(Some(end)) => {
                let begin = std::mem::replace(&mut self.start, end);
                Ok(self.buffer.get(begin..end))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.buffer = Vec::new();
                self.error = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Returns the end of the message that begins at `start`, if it is complete.
    fn scan(&mut self) -> Result<Option<usize>, Error> {
        while let Some(&byte) = self.buffer.get(self.scanned) {
            let at = self.scanned;
            self.scanned += 1;
            if self.depth == 0 {
                self.begin(at, byte)?;
                continue;
            }
            if self.scanned - self.start > self.limit_bytes {
                return Err(Error::MessageTooLong { limit_bytes: self.limit_bytes });
            }
            match (self.place, byte) {
                (Place::Escape, _) => self.place = Place::Text,
                (Place::Text, b'\\') => self.place = Place::Escape,
                (Place::Text, b'"') => self.place = Place::Outside,
                (Place::Text, _) => {}
                (Place::Outside, b'"') => self.place = Place::Text,
                (Place::Outside, b'{' | b'[') => {
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Err(Error::MessageTooDeep { limit: MAX_DEPTH });
                    }
                }
                (Place::Outside, b'}' | b']') => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Ok(Some(self.scanned));
                    }
                }
                (Place::Outside, _) => {}
            }
        }
        Ok(None)
    }

    /// Processes a byte between two messages: white space, or the beginning of the next.
    fn begin(&mut self, at: usize, byte: u8) -> Result<(), Error> {
        match byte {
            b'{' | b'[' => {
                self.start = at;
                self.depth = 1;
                self.place = Place::Outside;
                Ok(())
            }
            b' ' | b'\t' | b'\r' | b'\n' => {
                self.start = self.scanned;
                Ok(())
            }
            byte => Err(Error::NotJson { byte }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]], limit: usize) -> Result<Vec<String>, Error> {
        let mut framer = Framer::with_limit(limit);
        let mut messages = Vec::new();
        for chunk in chunks {
            framer.push(chunk);
            while let Some(message) = framer.next_message()? {
                messages.push(String::from_utf8_lossy(message).into_owned());
            }
        }
        Ok(messages)
    }

    #[test]
    fn messages_end_where_their_brackets_balance() {
        let check = |input: &str, expect: &[&str]| {
            assert_eq!(split(&[input.as_bytes()], 100).as_deref(), Ok(&expect.map_owned()[..]));
        };
        check("", &[]);
        check("  \n", &[]);
        check("{}", &["{}"]);
        check("{}{}", &["{}", "{}"]);
        check(" {\"a\":[1]}\n[2] ", &["{\"a\":[1]}", "[2]"]);
        check(r#"{"a":"}"}{"#, &[r#"{"a":"}"}"#]);
        check(r#"{"a":"\"}\\"}{}"#, &[r#"{"a":"\"}\\"}"#, "{}"]);
        check(r#"{"a":"unfinished}"#, &[]);
    }

    trait MapOwned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl MapOwned for [&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|s| (*s).to_owned()).collect()
        }
    }

    #[test]
    fn a_broken_stream_is_an_error_and_stays_one() {
        let deep = "[".repeat(MAX_DEPTH + 1);
        let long = format!("[\"{}\"]", "x".repeat(100));
        let cases: &[(&str, Error)] = &[
            ("x", Error::NotJson { byte: b'x' }),
            ("}", Error::NotJson { byte: b'}' }),
            ("\"text\"", Error::NotJson { byte: b'"' }),
            ("\0", Error::NotJson { byte: 0 }),
            (&deep, Error::MessageTooDeep { limit: MAX_DEPTH }),
            (&long, Error::MessageTooLong { limit_bytes: 100 }),
        ];
        for (input, expect) in cases {
            let mut framer = Framer::with_limit(if input.len() > 102 { 100 } else { 4096 });
            framer.push(input.as_bytes());
            assert_eq!(framer.next_message(), Err(expect.clone()), "{input}");
            framer.push(b"{}");
            assert_eq!(framer.next_message(), Err(expect.clone()), "{input}");
        }
    }

    #[test]
    fn the_limit_itself_is_allowed() {
        assert_eq!(split(&[b"[1234567]"], 9), Ok(vec!["[1234567]".to_owned()]));
        assert!(split(&[b"[12345678]"], 9).is_err());
    }

    proptest! {
        #[test]
        fn how_the_stream_is_cut_does_not_matter(
            texts in prop::collection::vec("[a-z\"\\\\{}\\[\\]é\\n]{0,12}", 0..8),
            cuts in prop::collection::vec(1usize..9, 1..60),
        ) {
            let messages: Vec<String> =
                texts.iter().map(|t| serde_json::json!({"k": [t, {t: 1}]}).to_string()).collect();
            let stream = messages.join(" ");
            let mut rest = stream.as_bytes();
            let mut chunks = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (head, tail) = rest.split_at((*cut).min(rest.len()));
                chunks.push(head);
                rest = tail;
            }
            prop_assert_eq!(split(&chunks, 4096), Ok(messages));
        }

        #[test]
        fn any_bytes_give_messages_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = split(&[&bytes], 64);
        }
    }
}
