//! JSON-RPC 1.0 messages (RFC 7047 section 4).

use crate::Error;
use serde_json::{Map, Value, json};

/// A JSON-RPC message in either direction.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A call that expects an answer.
    Request {
        /// What to do.
        method: String,
        /// Its parameters: an array, or null (ovs: `get_server_id`).
        params: Value,
        /// The id that the answer repeats.
        id: Value,
    },
    /// A call without an answer.
    Notification {
        /// What happened.
        method: String,
        /// Its parameters: an array.
        params: Value,
    },
    /// The answer to a request.
    Response {
        /// The result, or the error.
        result: Result<Value, Value>,
        /// The id of the request.
        id: Value,
    },
}

impl Message {
    /// Parses one message, as split by [`crate::Framer`].
    ///
    /// # Errors
    /// [`Error::Json`] if it is not JSON, [`Error::Shape`] if it is not JSON-RPC.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let json: Value =
            serde_json::from_slice(bytes).map_err(|error| Error::Json(error.to_string()))?;
        let Value::Object(mut members) = json else {
            return Err(Error::shape("message", "an object", &json));
        };
        let mut take = |name: &str| members.remove(name).unwrap_or(Value::Null);
        let (id, method, params) = (take("id"), take("method"), take("params"));
        let (result, error) = (take("result"), take("error"));
        match (method, id) {
            (Value::String(method), Value::Null) => Ok(Message::Notification { method, params }),
            (Value::String(method), id) => Ok(Message::Request { method, params, id }),
            (Value::Null, Value::Null) => {
                Err(Error::shape("message", "a method or an id", &Value::Object(members)))
            }
            (Value::Null, id) if error.is_null() => {
                Ok(Message::Response { result: Ok(result), id })
            }
            (Value::Null, id) => Ok(Message::Response { result: Err(error), id }),
            (method, _) => Err(Error::shape("message: method", "a string", &method)),
        }
    }

    /// Returns the bytes to send, without a separator, since the receiver counts brackets.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_json().to_string().into_bytes()
    }

    fn to_json(&self) -> Value {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
        match self {
            Message::Request { method, params, id } => {
                put("method", json!(method));
                put("params", params.clone());
                put("id", id.clone());
            }
            Message::Notification { method, params } => {
                put("method", json!(method));
                put("params", params.clone());
                put("id", Value::Null);
            }
            Message::Response { result, id } => {
                put("result", result.as_ref().ok().cloned().unwrap_or_default());
                put("error", result.as_ref().err().cloned().unwrap_or_default());
                put("id", id.clone());
            }
        }
        Value::Object(members)
    }
}

/// Returns the text and details of a server's error: a bare string, or an object with `error` and `details`
/// (RFC 7047 section 3.1, `<error>`).
pub(crate) fn error_words(error: &Value) -> (String, String) {
    let member = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    match error {
        Value::String(words) => (words.clone(), String::new()),
        Value::Object(_) if error.get("error").is_some() => {
            (member("error").into(), member("details").into())
        }
        other => (other.to_string(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way_there_and_back() {
        let messages = [
            Message::Request { method: "echo".into(), params: json!([]), id: json!("echo") },
            Message::Notification { method: "locked".into(), params: json!(["ovs_vswitchd"]) },
            Message::Response { result: Ok(json!({"locked": true})), id: json!(3) },
            Message::Response { result: Err(json!("unknown method")), id: json!(4) },
        ];
        for message in messages {
            assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
        }
    }

    #[test]
    fn what_is_not_json_rpc_is_an_error() {
        let cases = [
            "",
            "{",
            "[]",
            "{}",
            "nul",
            "[1,2]",
            r#"{"id":null}"#,
            r#"{"method":5,"id":1}"#,
            r#"{"id":1,"result":1e999}"#,
            r#"{"id":1,"result":"\ud800"}"#,
            r#"{"id":1}x"#,
            r#"{"method":["echo"],"params":[]}"#,
            "{]",
            "[}",
        ];
        for case in cases {
            assert!(Message::parse(case.as_bytes()).is_err(), "{case}");
        }
        assert!(Message::parse(b"{\"id\":\"\xff\"}").is_err(), "not UTF-8");
    }

    #[test]
    fn errors_have_words_in_every_shape() {
        let check = |json: Value, error: &str, details: &str| {
            assert_eq!(error_words(&json), (error.to_owned(), details.to_owned()));
        };
        check(json!("unknown method"), "unknown method", "");
        check(json!({"error": "timed out", "details": "why"}), "timed out", "why");
        check(json!({"error": "timed out"}), "timed out", "");
        check(json!([1]), "[1]", "");
    }
}
