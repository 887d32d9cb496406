//! Errors in the data of a server.

use uuid::Uuid;

/// An error that ends the processing of a message, a schema or a session.
///
/// After an error from a [`crate::Session`] the connection is unusable: close it and reconnect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A message does not begin with a bracket.
    #[error("expected a JSON message to begin with '{{' or '[', found byte {byte:#04x}")]
    NotJson {
        /// The byte found instead.
        byte: u8,
    },
    /// A message exceeds the length limit.
    #[error("a JSON message is longer than {limit_bytes} bytes, the most that is read")]
    MessageTooLong {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// A message nests brackets too deeply.
    #[error("a JSON message nests deeper than {limit} brackets, the most that is read")]
    MessageTooDeep {
        /// The limit, in brackets.
        limit: usize,
    },
    /// A message is not valid JSON.
    #[error("malformed JSON: {0}")]
    Json(String),
    /// A JSON value has the wrong type or structure.
    #[error("{place}: expected {expected}, found {found}")]
    Shape {
        /// Its place, such as "Bridge.name" or "params of update3".
        place: String,
        /// What was expected.
        expected: String,
        /// The beginning of the value.
        found: String,
    },
    /// An update modifies a row that the replica does not contain.
    #[error("table {table}: the server modified row {uuid}, which the replica does not have")]
    UnknownRow {
        /// The table.
        table: String,
        /// The row.
        uuid: Uuid,
    },
    /// An update or monitor reply names a table or column that is not in the schema.
    #[error("{place}: not in the schema that the server sent")]
    NotInSchema {
        /// "Table" or "Table.column".
        place: String,
    },
    /// The server answered a request that the session needs with an error.
    #[error("the server refused \"{method}\": {error}")]
    Refused {
        /// The method of the request.
        method: &'static str,
        /// The server's error.
        error: String,
    },
    /// The server canceled the monitor (the database was removed or converted).
    #[error("the server cancelled the monitor of the database; connect again")]
    MonitorCanceled,
}

impl Error {
    /// Returns an [`Error::Shape`] that quotes the beginning of `found`.
    pub(crate) fn shape(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: &serde_json::Value,
    ) -> Self {
        Error::Shape { place: place.into(), expected: expected.into(), found: quote(found) }
    }

    /// Returns the same error, with `outer` before the place of a shape.
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

/// Returns the first 80 characters of a JSON value, to keep log lines short.
fn quote(value: &serde_json::Value) -> String {
    const QUOTED_CHARS: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
