//! The control socket that `ovs-appctl` talks to (ovs: lib/unixctl.c).
//!
//! A [`Server`] turns what clients send into [`Call`]s; the main loop takes them one by one and
//! lets [`Commands`] answer, with the program's state at hand:
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

use tokio::sync::oneshot;

/// One command that a client gave, and the place for its answer.
#[derive(Debug)]
pub struct Call {
    /// The command.
    pub name: String,
    /// Its arguments; whatever was no text is None.
    pub args: Vec<Option<String>>,
    reply: oneshot::Sender<Reply>,
}

impl Call {
    /// Answers. Where the client is gone already the reply is dropped.
    pub fn answer(self, reply: Reply) {
        // The connection may have ended meanwhile.
        let _ = self.reply.send(reply);
    }
}

/// What a command answers.
#[derive(Debug)]
#[must_use]
pub enum Reply {
    /// It was done; the text goes to standard output. An end of line is added where none is.
    Text(String),
    /// It was not; the text goes to standard error, and `ovs-appctl` exits with status 2.
    Error(String),
    /// It takes a while: the answer comes through the [`Answer`] made with it.
    Later(Pending),
    /// It was done, and the text is long: it is made as the client reads it.
    Parts(Parts),
}

/// A text in parts that end with a line. They are made on a thread of their own.
pub struct Parts(Box<dyn Iterator<Item = String> + Send>);

/// The client's end of an answer that comes later.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<Result<String, String>>);

/// Where a command answers later. Dropped, it answers that the command was abandoned.
#[derive(Debug)]
pub struct Answer(oneshot::Sender<Result<String, String>>);

impl Reply {
    /// It was done, and there is nothing to say.
    pub fn done() -> Self {
        Reply::Text(String::new())
    }

    /// A text that is made part by part, each when the client has read the one before.
    pub fn parts(parts: impl Iterator<Item = String> + Send + 'static) -> Self {
        Reply::Parts(Parts(Box::new(parts)))
    }

    /// A reply to come, and the place to give it. The client's connection waits meanwhile; other
    /// clients do not.
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
    /// Gives the answer: what was done, or why it was not.
    pub fn give(self, result: Result<String, String>) {
        // The client may be gone.
        let _ = self.0.send(result);
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
