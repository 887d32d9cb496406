//! The clients connected to the control socket. At the limit, the client that has been idle longest is
//! disconnected for a new one; if none is idle, one that does not read its answer.

use base::Instant;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Most clients that are served at once.
pub(super) const CLIENTS: usize = 128;

/// A client that reads nothing for this long loses its place to a new one.
const STALLED: Duration = Duration::from_secs(2);

/// The clients that are connected.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// Notified when a client leaves or has received its answer.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    by_number: BTreeMap<u64, Client>,
    /// Counted when a client connects or has received its answer.
    events: u64,
}

#[derive(Debug)]
struct Client {
    /// The event since which it is idle; `None` while it waits for an answer or reads one.
    idle_since: Option<u64>,
    /// Since when it has not read what is being written.
    stalled_since: Option<Instant>,
    task: Option<AbortHandle>,
}

/// A client's place, which is released on drop.
#[derive(Debug)]
pub(super) struct Place {
    clients: Clients,
    number: u64,
}

impl Clients {
    /// Returns a place for a new client. If all are taken, it disconnects the client that has been idle
    /// longest, or else one that does not read; if there is none, it waits.
    pub async fn enter(&self) -> Place {
        loop {
            let changed = self.0.changed.notified();
            if let Some(place) = self.try_enter() {
                return place;
            }
            // A client stalls without an event.
            let _ = tokio::time::timeout(STALLED / 4, changed).await;
        }
    }

    fn try_enter(&self) -> Option<Place> {
        let mut table = self.table();
        if table.by_number.len() >= CLIENTS {
            table.make_room(clock::now())?;
        }
        table.events += 1;
        let number = table.events;
        table
            .by_number
            .insert(number, Client { idle_since: Some(number), stalled_since: None, task: None });
        Some(Place { clients: self.clone(), number })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Disconnects the client that has been idle longest, or else the one that has not read for longest. Returns
    /// `None` if there is none.
    fn make_room(&mut self, now: Instant) -> Option<()> {
        let served = self.by_number.iter().filter(|(_, client)| client.task.is_some());
        let idle = served.clone().filter_map(|(number, it)| Some((it.idle_since?, *number)));
        let stalled = served.filter_map(|(number, it)| Some((it.stalled_since?, *number)));
        let stalled = stalled.filter(|(since, _)| now - *since >= STALLED);
        let (number, what) = match (idle.min(), stalled.min()) {
            (Some((_, number)), _) => (number, "the one that has been idle for longest"),
            (None, Some((_, number))) => (number, "one that does not read its answer"),
            (None, None) => return None,
        };
        let task = self.by_number.remove(&number)?.task?;
        vlog::limited!(
            (5, 5), now, target: "unixctl", log::Level::Warn,
            "{CLIENTS} control connections: {what} is closed"
        );
        task.abort();
        Some(())
    }
}

impl Place {
    /// Registers the task that serves the client `number`.
    pub fn served_by(clients: &Clients, number: u64, task: AbortHandle) {
        if let Some(client) = clients.table().by_number.get_mut(&number) {
            client.task = Some(task);
        }
    }

    /// Returns the client's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Sets whether bytes wait for the client to read them.
    pub fn set_writing(&self, is_writing: bool) {
        if let Some(client) = self.clients.table().by_number.get_mut(&self.number) {
            client.stalled_since = is_writing.then(clock::now);
        }
    }

    /// Sets whether the client is idle.
    pub fn set_idle(&self, is_idle: bool) {
        let mut table = self.clients.table();
        table.events += 1;
        let event = table.events;
        if let Some(client) = table.by_number.get_mut(&self.number) {
            client.idle_since = is_idle.then_some(event);
        }
        drop(table);
        self.clients.0.changed.notify_waiters();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.table().by_number.remove(&self.number);
        self.clients.0.changed.notify_waiters();
    }
}
