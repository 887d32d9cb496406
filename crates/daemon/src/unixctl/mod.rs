//! The control socket that `ovs-appctl` talks to (ovs: lib/unixctl.c).
//!
//! A [`Server`] turns requests into [`Call`]s; the main loop takes them one by one and answers them with
//! [`Commands`], which have access to the program's state:
//!
//! ```ignore
//! let mut commands = Commands::new("ovs-vswitchd (Open vSwitch) 3.1.0\n");
//! commands.add("fdb/show", "bridge", 1, 1, |switch: &mut Switch, args| switch.fdb(&args[0]));
//! let mut server = Server::bind(path)?;
//! loop {
//!     tokio::select! {
//!         call = server.next_call() => commands.answer(&mut switch, call),
//!         // ...
//!     }
//! }
//! ```

pub mod client;
mod clients;
mod commands;
mod connection;
mod logging;
mod server;

pub use crate::socket::control_socket_path as path;
pub use commands::{Commands, add_exit};
pub use logging::add_commands as add_vlog_commands;
pub use server::Server;

use serde_json::Value;
use tokio::sync::oneshot;

/// The form in which a client gets its answers (`ovs-appctl --format`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// Text.
    #[default]
    Text,
    /// A JSON document. A command that has only a text wraps that in one.
    Json,
}

/// A client's command, and the channel for its answer.
#[derive(Debug)]
pub struct Call {
    /// The command.
    pub name: String,
    /// Its arguments; `None` for one that is not a string.
    pub args: Vec<Option<String>>,
    /// The form of the answer.
    pub format: Format,
    reply: oneshot::Sender<Reply>,
}

impl Call {
    /// Sends the answer. It is dropped if the client has left.
    pub fn answer(self, reply: Reply) {
        // The connection may have ended.
        coverage::count(coverage::Event::UnixctlReplied);
        let _ = self.reply.send(reply);
    }
}

/// The reply to a command.
#[derive(Debug)]
#[must_use]
pub enum Reply {
    /// Success; `ovs-appctl` prints the text to standard output. A missing final newline is added.
    Text(String),
    /// Success with a document, for a client that asks for [`Format::Json`].
    Json(Value),
    /// Success, and the form of the answers from now on.
    Format(Format),
    /// Failure; `ovs-appctl` prints the text to standard error and exits with status 2.
    Error(String),
    /// The answer comes later through the [`Answer`] created with this.
    Later(Pending),
    /// Success with a long text, which is generated as the client reads it.
    Parts(Parts),
}

/// A text in parts that end with a newline, generated on a separate thread.
pub struct Parts(Box<dyn Iterator<Item = String> + Send>);

/// The receiving end of a later answer.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<Reply>);

/// The sending end of a later answer. If dropped, the client is told that the command was abandoned.
#[derive(Debug)]
pub struct Answer(oneshot::Sender<Reply>);

impl Reply {
    /// Success without a text.
    pub fn done() -> Self {
        Reply::Text(String::new())
    }

    /// A text generated part by part, each after the client has read the previous one.
    pub fn parts(parts: impl Iterator<Item = String> + Send + 'static) -> Self {
        Reply::Parts(Parts(Box::new(parts)))
    }

    /// A later reply and the channel for it. The client's connection waits meanwhile; other clients do not.
    pub fn later() -> (Self, Answer) {
        let (sender, receiver) = oneshot::channel();
        (Reply::Later(Pending(receiver)), Answer(sender))
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Answer {
    /// Sends the answer: a reply, a text, or a text or an error's text.
    pub fn give(self, answer: impl Into<Reply>) {
        // The client may have left.
        let _ = self.0.send(answer.into());
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Reply::Text(text)
    }
}

impl From<Result<String, String>> for Reply {
    fn from(result: Result<String, String>) -> Self {
        match result {
            Ok(text) => Reply::Text(text),
            Err(error) => Reply::Error(error),
        }
    }
}

#[cfg(test)]
mod tests;
