//! One client: JSON-RPC 1.0 in, JSON-RPC 1.0 out.
//!
//! As in Open vSwitch, a request is read whole, passed to the main loop, and answered before the next is
//! read. Anything other than a request closes the connection without a reply.

use super::clients::Place;
use super::{Call, Format, Parts, Reply};
use ovsdb::{Framer, Message};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

/// Longest request that is accepted. The arguments of a command line are far shorter.
pub(super) const REQUEST_BYTES: usize = 4 << 20;

/// How long a client may take to read a part of its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Answers of at least this many bytes are encoded on a separate thread.
const LONG_ANSWER: usize = 1 << 20;

/// Bytes written at once, so that the timeout restarts with each part that the client reads.
const WRITE_BYTES: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The client closed it.
    #[error("closed")]
    Closed,
    /// The server is closing.
    #[error("the program is exiting")]
    Exiting,
    /// The bytes are not JSON-RPC.
    #[error("{0}")]
    Malformed(#[from] ovsdb::Error),
    /// They are JSON-RPC, but not a request.
    #[error("received unexpected {0} message")]
    Unexpected(&'static str),
    /// A request whose parameters are not an array.
    #[error("received bad JSON-RPC message: params must be an array")]
    Params,
    /// The socket failed.
    #[error("{}", base::reason(.0))]
    Io(#[from] std::io::Error),
    /// The client does not read its answer.
    #[error("the client did not read its reply for {} s", WRITE_TIMEOUT.as_secs())]
    Slow,
}

/// The queue of calls to the main loop.
#[derive(Debug, Clone)]
pub(super) struct CallQueue {
    /// Sends calls to the main loop.
    pub calls: mpsc::Sender<Call>,
    /// One permit is held from the moment a call is queued until its reply is written.
    pub busy: Arc<Semaphore>,
}

/// Serves one client until it closes the connection or makes an error.
pub(super) async fn serve<S>(mut stream: S, queue: CallQueue, place: &Place) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut framer = Framer::with_limit(REQUEST_BYTES);
    let mut format = Format::Text;
    loop {
        if let Err(end) = read_request(&mut stream, &mut framer, &mut format, &queue, place).await {
            return end;
        }
    }
}

async fn read_request<S>(
    stream: &mut S,
    framer: &mut Framer,
    format: &mut Format,
    queue: &CallQueue,
    place: &Place,
) -> Result<(), End>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(bytes) = framer.next_message()? {
        let message = Message::parse(bytes)?;
        let _busy = queue.busy.acquire().await.map_err(|_| End::Exiting)?;
        place.set_idle(false);
        match call(message, format, &queue.calls).await? {
            Outcome::Whole(reply) => write(stream, reply.as_bytes(), place).await?,
            Outcome::Parts(id, parts) => write_parts(stream, &id, *format, parts, place).await?,
        }
        place.set_idle(true);
    }
    let mut buffer = [0; 4096];
    match stream.read(&mut buffer).await? {
        0 => Err(End::Closed),
        length => {
            framer.push(buffer.get(..length).unwrap_or_default());
            Ok(())
        }
    }
}

/// The result of a call.
enum Outcome {
    /// The encoded reply.
    Whole(String),
    /// The request's id, and a text that is generated as the client reads it.
    Parts(Value, Parts),
}

/// Passes a request to the main loop, and encodes the answer.
async fn call(
    message: Message,
    format: &mut Format,
    calls: &mpsc::Sender<Call>,
) -> Result<Outcome, End> {
    let (name, params, id) = match message {
        Message::Request { method, params, id } => (method, params, id),
        Message::Notification { .. } => return Err(End::Unexpected("notification")),
        Message::Response { result: Ok(_), .. } => return Err(End::Unexpected("reply")),
        Message::Response { result: Err(_), .. } => return Err(End::Unexpected("error")),
    };
    let Value::Array(params) = params else { return Err(End::Params) };
    if log::log_enabled!(target: "unixctl", log::Level::Debug) {
        let given = Value::from(params.as_slice());
        log::debug!(target: "unixctl", "received request {name}{given}, id={id}");
    }
    coverage::count(coverage::Event::UnixctlReceived);
    let args = params.iter().map(|param| param.as_str().map(String::from)).collect();
    let (sender, receiver) = oneshot::channel();
    let call = Call { name, args, format: *format, reply: sender };
    calls.send(call).await.map_err(|_| End::Exiting)?;
    let mut reply = receiver.await.map_err(|_| End::Exiting)?;
    while let Reply::Later(pending) = reply {
        let abandoned = || Reply::Error("the command was abandoned".into());
        reply = pending.0.await.unwrap_or_else(|_| abandoned());
    }
    let result = match reply {
        Reply::Text(text) => Ok(text),
        Reply::Error(text) => Err(text),
        Reply::Later(_) => Err("the command was abandoned".into()),
        Reply::Json(document) => {
            log::debug!(target: "unixctl", "replying with success, id={id}: {document}");
            return Ok(Outcome::Whole(success(&id, &document.to_string())));
        }
        Reply::Format(chosen) => {
            *format = chosen;
            Ok(String::new())
        }
        Reply::Parts(parts) => {
            log::debug!(target: "unixctl", "replying with success, id={id}: in parts");
            return Ok(Outcome::Parts(id, parts));
        }
    };
    let (how, body) = match &result {
        Ok(body) => ("success", body),
        Err(body) => ("error", body),
    };
    log::debug!(target: "unixctl", "replying with {how}, id={id}: \"{body}\"");
    let format = *format;
    if body.len() < LONG_ANSWER {
        return Ok(Outcome::Whole(encode(&id, format, result)));
    }
    // Other tasks on this thread do not wait for a large dump to be encoded.
    let encoded = tokio::task::spawn_blocking(move || encode(&id, format, result)).await;
    encoded.map(Outcome::Whole).map_err(|_| End::Exiting)
}

/// Writes a reply whose text comes in parts. A separate thread generates each part after the client has read
/// the previous one, so that a client that does not read costs only one part.
async fn write_parts<S>(
    stream: &mut S,
    id: &Value,
    format: Format,
    parts: Parts,
    place: &Place,
) -> Result<(), End>
where
    S: AsyncWrite + Unpin,
{
    let (before, behind) = around(format);
    write(stream, format!("{{\"id\":{id},\"result\":{before}\"").as_bytes(), place).await?;
    let mut parts = Some(parts.0);
    while let Some(mut rest) = parts.take() {
        let next = move || {
            let part = rest.next()?;
            let quoted = Value::String(part).to_string();
            Some((quoted, rest))
        };
        let made = tokio::task::spawn_blocking(next).await.map_err(|_| End::Exiting)?;
        if let Some((quoted, rest)) = made {
            let text = quoted.get(1..quoted.len() - 1).unwrap_or_default();
            write(stream, text.as_bytes(), place).await?;
            parts = Some(rest);
        }
    }
    write(stream, format!("\"{behind},\"error\":null}}").as_bytes(), place).await
}

/// What stands before and behind a text in an answer (ovs: `lib/unixctl.c`, `unixctl_command_reply`).
fn around(format: Format) -> (&'static str, &'static str) {
    match format {
        Format::Text => ("", ""),
        Format::Json => ("{\"reply-format\":\"plain\",\"reply\":", "}"),
    }
}

fn success(id: &Value, body: &str) -> String {
    format!("{{\"id\":{id},\"result\":{body},\"error\":null}}")
}

/// Encodes a reply with Open vSwitch's order of members: a failure has no `result`.
fn encode(id: &Value, format: Format, result: Result<String, String>) -> String {
    let text = |mut text: String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Value::String(text)
    };
    match (result, format) {
        (Ok(result), Format::Text) => success(id, &text(result).to_string()),
        (Ok(result), Format::Json) => {
            let (before, behind) = around(format);
            success(id, &format!("{before}{}{behind}", Value::String(result)))
        }
        (Err(error), _) => format!("{{\"id\":{id},\"error\":{}}}", text(error)),
    }
}

async fn write<S>(stream: &mut S, bytes: &[u8], place: &Place) -> Result<(), End>
where
    S: AsyncWrite + Unpin,
{
    for part in bytes.chunks(WRITE_BYTES) {
        place.set_writing(true);
        let written = timeout(WRITE_TIMEOUT, stream.write_all(part)).await;
        place.set_writing(false);
        written.map_err(|_| End::Slow)??;
    }
    Ok(())
}
