//! The client's half of an OVSDB connection, as a state machine without socket or clock.
//!
//! After [`Session::connected`] it asks for the schema and the lock, then for the contents of the
//! monitored tables, and keeps the [`Replica`] up to date from then on. When the connection goes
//! it keeps the replica, and asks only for what is new after the next one
//! (ovsdb-server(7) section 4.1.15; the order of requests is that of ovs: lib/ovsdb-cs.c).

mod incoming;
mod monitor;

pub use monitor::Monitor;

use crate::replica::MonitoredColumns;
use crate::transaction::Expected;
use crate::{
    Backoff, Changes, DatabaseSchema, Error, Framer, Message, Replica, Transaction,
    TransactionError, TransactionResult,
};
use base::Instant;
use monitor::MonitorMethod;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A client of one database of one server.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    phase: Phase,
    framer: Framer,
    output: Vec<u8>,
    events: VecDeque<Event>,
    backoff: Backoff,
    probe: Probe,
    next_id: u64,
    pending: BTreeMap<u64, Pending>,
    lock: Lock,
    schema: Option<Arc<DatabaseSchema>>,
    monitored: MonitoredColumns,
    replica: Replica,
    /// The last transaction that the replica has; zeros where the server does not count them.
    last_txn: Uuid,
}

/// What a session is to do.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// The name of the database, such as "Open_vSwitch".
    pub database: String,
    /// The lock to hold, if any. Every transaction then asserts it.
    pub lock: Option<String>,
    /// The tables and columns to keep a copy of.
    pub monitor: Monitor,
    /// How long the connection may be silent before it is probed, and how long the answer may
    /// then take; zero never probes.
    pub probe_interval: Duration,
}

/// The number of a transaction within its session; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(u64);

/// What happened to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The replica is complete, and transactions can be sent. `resumed` is true where the server
    /// sent only what was new since the last connection.
    Connected {
        /// Whether only news were sent.
        resumed: bool,
    },
    /// The connection ended after it had been made.
    Disconnected,
    /// The configured lock is ours.
    LockAcquired,
    /// Another client has the lock; it comes to us, with `LockAcquired`, when that one goes.
    LockBusy,
    /// The lock is no longer ours, because the connection went.
    LockLost,
    /// The lock is no longer ours, because another client took it by force.
    LockStolen,
    /// The replica changed.
    Updated(Changes),
    /// A transaction ended.
    TransactionDone {
        /// Which.
        id: TransactionId,
        /// How.
        result: TransactionResult,
    },
    /// The server is not to be understood: close the socket and call [`Session::disconnected`].
    ProtocolError(Error),
    /// The server does not answer any more: close the socket and call
    /// [`Session::disconnected`].
    ProbeTimeout,
}

/// Why a transaction was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no connection, or the replica is not complete yet.
    #[error("not connected to the database; wait for the session to be connected")]
    NotConnected,
    /// The configured lock is not ours.
    #[error("another client has the lock of the database; wait until it is acquired")]
    NotLocked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Disconnected,
    AwaitSchema,
    AwaitContents,
    Monitoring,
    /// Input makes no more sense until the next connection.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lock {
    Unknown,
    Waiting,
    Ours,
}

#[derive(Debug)]
enum Pending {
    Schema,
    Lock,
    Monitor(MonitorMethod),
    Transaction(Expected),
}

#[derive(Debug, Clone, Copy)]
enum Probe {
    Heard { at: Instant },
    Asked { at: Instant },
}

/// The id of probes, which needs no matching: any byte shows that the server lives.
const PROBE_ID: &str = "echo";
/// The default of [`SessionConfig::probe_interval`] (ovs: lib/reconnect.h).
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

impl SessionConfig {
    /// A session without a lock that probes every 5 s.
    pub fn new(database: &str, monitor: Monitor) -> Self {
        let database = database.to_owned();
        SessionConfig { database, lock: None, monitor, probe_interval: PROBE_INTERVAL }
    }

    /// The same with a lock, such as "ovs_vswitchd".
    #[must_use]
    pub fn with_lock(mut self, name: &str) -> Self {
        self.lock = Some(name.to_owned());
        self
    }
}

impl Session {
    /// A session that is not connected yet.
    pub fn new(config: SessionConfig) -> Self {
        Session {
            config,
            phase: Phase::Disconnected,
            framer: Framer::default(),
            output: Vec::new(),
            events: VecDeque::new(),
            backoff: Backoff::default(),
            probe: Probe::Heard { at: Instant::ZERO },
            next_id: 0,
            pending: BTreeMap::new(),
            lock: Lock::Unknown,
            schema: None,
            monitored: MonitoredColumns::new(),
            replica: Replica::default(),
            last_txn: Uuid::nil(),
        }
    }

    /// The socket is connected.
    pub fn connected(&mut self, now: Instant) {
        if self.phase != Phase::Disconnected {
            self.disconnected(now);
        }
        self.backoff.connected(now);
        self.probe = Probe::Heard { at: now };
        self.phase = Phase::AwaitSchema;
        if let Some(lock) = self.config.lock.clone() {
            self.request("lock", json!([lock]), Pending::Lock);
        }
        self.request("get_schema", json!([self.config.database]), Pending::Schema);
    }

    /// The socket is closed, or an attempt to connect failed. Transactions under way end with
    /// [`TransactionError::Disconnected`].
    pub fn disconnected(&mut self, now: Instant) {
        self.backoff.disconnected(now);
        self.framer = Framer::default();
        self.output.clear();
        if std::mem::replace(&mut self.lock, Lock::Unknown) == Lock::Ours {
            self.events.push_back(Event::LockLost);
        }
        for (id, pending) in std::mem::take(&mut self.pending) {
            if let Pending::Transaction(_) = pending {
                let result = Err(TransactionError::Disconnected);
                self.events.push_back(Event::TransactionDone { id: TransactionId(id), result });
            }
        }
        if std::mem::replace(&mut self.phase, Phase::Disconnected) != Phase::Disconnected {
            self.events.push_back(Event::Disconnected);
        }
    }

    /// Bytes arrived.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if matches!(self.phase, Phase::Disconnected | Phase::Failed) {
            return;
        }
        self.backoff.active(now);
        self.probe = Probe::Heard { at: now };
        self.framer.push(bytes);
        if let Err(error) = self.process() {
            // What the replica lacks is not known, so that the next connection starts afresh.
            self.last_txn = Uuid::nil();
            self.phase = Phase::Failed;
            self.output.clear();
            self.events.push_back(Event::ProtocolError(error));
        }
    }

    /// Time passed. Call it at [`Session::next_timeout`], after handing over what the socket
    /// holds, so that a late caller does not mistake its own delay for the server's.
    pub fn tick(&mut self, now: Instant) {
        let Some(due) = self.probe_due() else { return };
        if now < due {
            return;
        }
        match self.probe {
            Probe::Heard { .. } => {
                self.probe = Probe::Asked { at: now };
                let echo = Message::Request {
                    method: "echo".into(),
                    params: json!([]),
                    id: json!(PROBE_ID),
                };
                self.send(&echo);
            }
            Probe::Asked { .. } => {
                self.phase = Phase::Failed;
                self.output.clear();
                self.events.push_back(Event::ProbeTimeout);
            }
        }
    }

    /// When to call [`Session::tick`] while connected, or when to connect while not.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.connect_at().or_else(|| self.probe_due())
    }

    /// When to try to connect; None while connected.
    pub fn connect_at(&self) -> Option<Instant> {
        self.backoff.next_attempt()
    }

    /// Takes the bytes to write to the socket.
    #[must_use]
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes the next event. Take them all after each call that hands something in.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The copy of the database. It outlives the connection.
    pub const fn replica(&self) -> &Replica {
        &self.replica
    }

    /// The schema of the server, once known.
    pub fn schema(&self) -> Option<&DatabaseSchema> {
        self.schema.as_deref()
    }

    /// Whether the configured lock is ours.
    pub fn has_lock(&self) -> bool {
        self.lock == Lock::Ours
    }

    /// Whether the replica follows the server now.
    pub fn is_monitoring(&self) -> bool {
        self.phase == Phase::Monitoring
    }

    /// Changes how long the connection may be silent; zero never probes.
    pub fn set_probe_interval(&mut self, interval: Duration) {
        self.config.probe_interval = interval;
    }

    /// Sends a transaction; an [`Event::TransactionDone`] with the same id will follow. Columns
    /// that the server lacks are left out, and the configured lock is asserted.
    ///
    /// # Errors
    /// Nothing was sent, because the session is not connected or has not the lock.
    pub fn transact(&mut self, mut transaction: Transaction) -> Result<TransactionId, SendError> {
        let (Phase::Monitoring, Some(schema)) = (self.phase, &self.schema) else {
            return Err(SendError::NotConnected);
        };
        transaction.retain_known(schema);
        if let Some(lock) = &self.config.lock {
            if self.lock != Lock::Ours {
                return Err(SendError::NotLocked);
            }
            if !transaction.asserts_lock() {
                transaction.assert_lock(lock);
            }
        }
        let params = transaction.to_params(&self.config.database);
        Ok(TransactionId(self.request(
            "transact",
            params,
            Pending::Transaction(transaction.expected()),
        )))
    }

    fn probe_due(&self) -> Option<Instant> {
        let interval = self.config.probe_interval;
        if interval.is_zero() || matches!(self.phase, Phase::Disconnected | Phase::Failed) {
            return None;
        }
        let (Probe::Heard { at } | Probe::Asked { at }) = self.probe;
        Some(at + interval)
    }

    fn send(&mut self, message: &Message) {
        self.output.extend_from_slice(&message.to_bytes());
    }

    fn request(&mut self, method: &str, params: Value, pending: Pending) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, pending);
        self.send(&Message::Request { method: method.to_owned(), params, id: json!(id) });
        id
    }
}

#[cfg(test)]
mod tests;
