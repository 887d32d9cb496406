//! TRex's own JSON-RPC: calls with the handle that the server gave for this version of its API.

use super::TrexError;
use super::zmtp::Request;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Versions of the ASTF interface that are offered, the newest first (trex-core:
/// interactive/trex/astf/trex_astf_client.py).
const VERSIONS: [(u32, u32); 2] = [(2, 1), (1, 6)];
/// Prefix of a compressed message (trex-core: interactive/trex/utils/zipmsg.py). The server compresses only
/// answers to compressed calls; this client sends plain ones.
const COMPRESSED: [u8; 4] = [0xab, 0xe8, 0x5c, 0xea];
/// The call is still running: `get_async_results` with its ticket returns the result.
const IN_PROGRESS: i64 = -32002;
/// The server is busy with another call.
const TRY_AGAIN: i64 = -32001;
/// How often an unfinished call is repeated.
const TRIES: u32 = 20;
/// Time between two repetitions.
const PAUSE: Duration = Duration::from_millis(300);

/// A connection to the server.
pub trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A server's RPC.
pub struct Rpc {
    request: Request<Box<dyn Stream>>,
    /// Server and port, for messages.
    server: String,
    api: Option<String>,
    id: u64,
}

impl Rpc {
    /// Connects to this server and port, and negotiates the version of the interface.
    pub fn connect(server: &str, port: u16) -> Result<Rpc, TrexError> {
        let name = format!("{server}:{port}");
        let failed = |source| TrexError::Connect { server: name.clone(), source };
        let addresses = (server, port).to_socket_addrs().map_err(failed)?;
        let mut last = std::io::Error::other("the name has no address");
        for address in addresses {
            let stream = TcpStream::connect_timeout(&address, PATIENCE);
            match stream.and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }) {
                Ok(stream) => return Rpc::over(Box::new(stream), &name),
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// As [`Rpc::connect`], over an existing stream.
    pub fn over(stream: Box<dyn Stream>, server: &str) -> Result<Rpc, TrexError> {
        let request = Request::open(stream)
            .map_err(|source| TrexError::Connect { server: server.to_owned(), source })?;
        let mut rpc = Rpc { request, server: server.to_owned(), api: None, id: 0 };
        let mut refused = None;
        for (major, minor) in VERSIONS {
            let version = json!({ "name": "ASTF", "major": major, "minor": minor });
            match rpc.call("api_sync_v2", version) {
                Ok(answer) => {
                    let handle = answer["api_h"].as_str();
                    rpc.api = Some(handle.ok_or(malformed("api_sync_v2", &answer))?.to_owned());
                    return Ok(rpc);
                }
                Err(TrexError::Refused { why, .. }) => refused = Some(why),
                Err(error) => return Err(error),
            }
        }
        Err(TrexError::Version { server: rpc.server, why: refused.unwrap_or_default() })
    }

    /// Makes one call and returns its result.
    pub fn call(&mut self, method: &'static str, params: Value) -> Result<Value, TrexError> {
        let mut answer = self.once(method, params.clone())?;
        for _ in 0..TRIES {
            let Err(Refusal { code, why }) = answer else { break };
            answer = match code {
                TRY_AGAIN => {
                    std::thread::sleep(PAUSE);
                    self.once(method, params.clone())?
                }
                IN_PROGRESS => {
                    std::thread::sleep(PAUSE);
                    let ticket: i64 = why.trim().parse().unwrap_or_default();
                    self.once("get_async_results", json!({ "ticket_id": ticket }))?
                }
                _ => return Err(TrexError::Refused { method, why }),
            };
        }
        answer.map_err(|Refusal { why, .. }| TrexError::Refused { method, why })
    }

    fn once(
        &mut self,
        method: &'static str,
        mut params: Value,
    ) -> Result<Result<Value, Refusal>, TrexError> {
        self.id += 1;
        if let (Some(params), Some(api)) = (params.as_object_mut(), &self.api) {
            params.insert("api_h".to_owned(), json!(api));
        }
        let call = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        let body = self
            .request
            .ask(call.to_string().as_bytes())
            .map_err(|source| TrexError::Call { server: self.server.clone(), method, source })?;
        if body.starts_with(&COMPRESSED) {
            let why = "the answer is compressed, though the call was not".to_owned();
            return Err(TrexError::Malformed { method, why });
        }
        let mut answer: Value = serde_json::from_slice(&body)
            .map_err(|error| TrexError::Malformed { method, why: error.to_string() })?;
        if let Some(error) = answer.get("error") {
            let text = error.get("specific_err").or_else(|| error.get("message"));
            let why = text.and_then(Value::as_str).unwrap_or("it does not say why").to_owned();
            return Ok(Err(Refusal { code: error["code"].as_i64().unwrap_or_default(), why }));
        }
        match answer.get_mut("result") {
            Some(result) => Ok(Ok(result.take())),
            None => Err(malformed(method, &answer)),
        }
    }
}

struct Refusal {
    code: i64,
    why: String,
}

/// The error for an answer without the expected fields.
pub fn malformed(method: &'static str, answer: &Value) -> TrexError {
    let why: String = answer.to_string().chars().take(200).collect();
    TrexError::Malformed { method, why }
}
