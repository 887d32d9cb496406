//! The client's side of an OVSDB connection, as a state machine without socket or clock.
//!
//! After [`Session::connected`] it requests the schema, the lock and the contents of the monitored tables,
//! and then keeps the [`Replica`] up to date. A disconnected session keeps the replica, and requests only the
//! changes after reconnecting (ovsdb-server(7) section 4.1.15; the order of requests is that of ovs:
//! lib/ovsdb-cs.c).

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
    /// Id of the last transaction in the replica; zeros if the server does not report it.
    last_txn: Uuid,
}

/// The configuration of a session.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// The name of the database, such as "Open_vSwitch".
    pub database: String,
    /// The lock to acquire, if any. Every transaction then asserts it.
    pub lock: Option<String>,
    /// The tables and columns to copy.
    pub monitor: Monitor,
    /// Idle time after which the connection is probed, and time limit for the answer; zero disables probes.
    pub probe_interval: Duration,
}

/// The number of a transaction in its session; numbers are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(u64);

/// An event of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The replica is complete, and transactions can be sent.
    Connected {
        /// Whether the server sent only the changes since the last connection.
        resumed: bool,
    },
    /// An established connection ended.
    Disconnected,
    /// This session holds the configured lock.
    LockAcquired,
    /// Another client holds the lock; `LockAcquired` follows when it releases the lock.
    LockBusy,
    /// The lock was lost with the connection.
    LockLost,
    /// Another client stole the lock.
    LockStolen,
    /// The replica changed.
    Updated(Changes),
    /// A transaction ended.
    TransactionDone {
        /// Its number.
        id: TransactionId,
        /// Its result.
        result: TransactionResult,
    },
    /// The server violated the protocol: close the socket and call [`Session::disconnected`].
    ProtocolError(Error),
    /// The server does not answer: close the socket and call [`Session::disconnected`].
    ProbeTimeout,
}

/// Why a transaction was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The session is not connected, or the replica is not complete yet.
    #[error("not connected to the database; wait for the session to be connected")]
    NotConnected,
    /// This session does not hold the configured lock.
    #[error("another client has the lock of the database; wait until it is acquired")]
    NotLocked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Disconnected,
    AwaitSchema,
    AwaitContents,
    Monitoring,
    /// Input is ignored until the next connection.
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

/// The id of probes. Answers are not matched, because any byte shows that the server is alive.
const PROBE_ID: &str = "echo";
/// The default of [`SessionConfig::probe_interval`] (ovs: lib/reconnect.h).
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

impl SessionConfig {
    /// A session without a lock, with probes every 5 s.
    pub fn new(database: &str, monitor: Monitor) -> Self {
        let database = database.to_owned();
        SessionConfig { database, lock: None, monitor, probe_interval: PROBE_INTERVAL }
    }

    /// Adds a lock, such as "ovs_vswitchd".
    #[must_use]
    pub fn with_lock(mut self, name: &str) -> Self {
        self.lock = Some(name.to_owned());
        self
    }
}

impl Session {
    /// A disconnected session.
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

    /// Starts the session on a new connection.
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

    /// Ends the connection, or records a failed attempt. Pending transactions end with
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

    /// Processes received bytes.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if matches!(self.phase, Phase::Disconnected | Phase::Failed) {
            return;
        }
        self.backoff.active(now);
        self.probe = Probe::Heard { at: now };
        self.framer.push(bytes);
        if let Err(error) = self.process() {
            // It is unknown what the replica lacks, so the next connection requests the whole contents.
            self.last_txn = Uuid::nil();
            self.phase = Phase::Failed;
            self.output.clear();
            self.events.push_back(Event::ProtocolError(error));
        }
    }

    /// Runs timers. Call it at [`Session::next_timeout`], after passing on all received bytes, so that a
    /// delay of the caller does not count as the server's.
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

    /// Returns when to call [`Session::tick`] while connected, or when to connect otherwise.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.connect_at().or_else(|| self.probe_due())
    }

    /// Returns the time of the next connection attempt; `None` while connected.
    pub fn connect_at(&self) -> Option<Instant> {
        self.backoff.next_attempt()
    }

    /// Takes the bytes to send.
    #[must_use]
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes the next event. Call it until `None` after each call that passes something in.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the copy of the database, which is kept while disconnected.
    pub const fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Returns the server's schema, once known.
    pub fn schema(&self) -> Option<&DatabaseSchema> {
        self.schema.as_deref()
    }

    /// Returns whether this session holds the configured lock.
    pub fn has_lock(&self) -> bool {
        self.lock == Lock::Ours
    }

    /// Returns whether the replica is up to date.
    pub fn is_monitoring(&self) -> bool {
        self.phase == Phase::Monitoring
    }

    /// Sends a transaction. An [`Event::TransactionDone`] with the same id follows. Columns that the server
    /// does not have are omitted, and the configured lock is asserted.
    ///
    /// # Errors
    /// Nothing was sent, because the session is not connected or does not hold the lock.
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
