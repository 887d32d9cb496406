//! What can be wrong with the bytes of a server.

use uuid::Uuid;

/// Why a message, a schema or a session cannot go on.
///
/// After an error from a [`crate::Session`] the connection is of no more use: close it and
/// connect anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A message does not begin with a bracket.
    #[error("expected a JSON message to begin with '{{' or '[', found byte {byte:#04x}")]
    NotJson {
        /// The byte found instead.
        byte: u8,
    },
    /// A message is longer than is read.
    #[error("a JSON message is longer than {limit_bytes} bytes, the most that is read")]
    MessageTooLong {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// A message nests brackets deeper than is read.
    #[error("a JSON message nests deeper than {limit} brackets, the most that is read")]
    MessageTooDeep {
        /// The limit, in brackets.
        limit: usize,
    },
    /// The JSON parser refused a message.
    #[error("malformed JSON: {0}")]
    Json(String),
    /// A JSON value has not the shape that its place asks for.
    #[error("{place}: expected {expected}, found {found}")]
    Shape {
        /// Where it stood, such as "Bridge.name" or "params of update3".
        place: String,
        /// What should have been there.
        expected: String,
        /// The beginning of what was there.
        found: String,
    },
    /// An update changes a row that the replica does not have.
    #[error("table {table}: the server modified row {uuid}, which the replica does not have")]
    UnknownRow {
        /// The table.
        table: String,
        /// The row.
        uuid: Uuid,
    },
    /// An update or monitor reply names a table or column that the schema has not.
    #[error("{place}: not in the schema that the server sent")]
    NotInSchema {
        /// "Table" or "Table.column".
        place: String,
    },
    /// The server answered a request, without which the session cannot go on, with an error.
    #[error("the server refused \"{method}\": {error}")]
    Refused {
        /// The method of the request.
        method: &'static str,
        /// The server's words.
        error: String,
    },
    /// The server stopped sending updates (the database was removed or converted).
    #[error("the server cancelled the monitor of the database; connect again")]
    MonitorCanceled,
}

impl Error {
    /// A [`Error::Shape`] that quotes the beginning of `found`.
    pub(crate) fn shape(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: &serde_json::Value,
    ) -> Self {
        Error::Shape { place: place.into(), expected: expected.into(), found: quote(found) }
    }

    /// The same error, where a shape gets `place` in front of its own.
    pub(crate) fn within(self, outer: &str) -> Self {
        match self {
            Error::Shape { place, expected, found } if place.is_empty() => {
                Error::Shape { place: outer.into(), expected, found }
            }
            Error::Shape { place, expected, found } => {
                Error::Shape { place: format!("{outer}: {place}"), expected, found }
            }
            other => other,
        }
    }
}

/// The first 80 characters of a JSON value, so that a log line stays a line.
fn quote(value: &serde_json::Value) -> String {
    const QUOTED_CHARS: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
