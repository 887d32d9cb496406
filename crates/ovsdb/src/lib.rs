//! OVSDB: values and messages, and the client's side of the protocol.
//!
//! The protocol is RFC 7047 with the extensions of ovsdb-server(7). This crate opens no socket and reads no
//! clock: a [`Session`] takes received bytes and the time, and returns bytes to send and [`Event`]s.
//! [`Replica`] is its copy of the database; a [`Transaction`] changes the database.
//!
//! ```
//! use base::Instant;
//! use ovsdb::{Monitor, Session, SessionConfig};
//!
//! let monitor = Monitor::default().table("Bridge", ["name", "ports"]).table("Port", ["name"]);
//! let mut session = Session::new(SessionConfig::new("Open_vSwitch", monitor));
//! session.connected(Instant::ZERO);
//! let first = session.take_output(); // write this to the socket
//! assert!(first.starts_with(b"{"));
//! ```

#![forbid(unsafe_code)]

mod backoff;
mod defaults;
mod error;
mod framing;
mod replica;
mod rpc;
mod schema;
mod session;
mod transaction;
mod value;

pub use backoff::Backoff;
pub use error::Error;
pub use framing::Framer;
pub use replica::{Change, ChangeKind, Changes, Replica, Row, Table};
pub use rpc::Message;
pub use schema::{AtomKind, BaseType, ColumnSchema, ColumnType, DatabaseSchema, TableSchema};
pub use session::{Event, Monitor, SendError, Session, SessionConfig, TransactionId};
pub use transaction::{
    Condition, Function, Mutator, OperationResult, Transaction, TransactionError, TransactionReply,
    TransactionResult, Values,
};
pub use value::{Atom, AtomMap, AtomSet, Datum, Real};
