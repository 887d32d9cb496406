//! The clients connected to the control socket. At the limit, the client that has been idle longest is
//! disconnected for a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Most clients that are served at once.
pub(super) const CLIENTS: usize = 128;

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
    /// longest; if none is idle, it waits.
    pub async fn enter(&self) -> Place {
        loop {
            let changed = self.0.changed.notified();
            if let Some(place) = self.try_enter() {
                return place;
            }
            changed.await;
        }
    }

    fn try_enter(&self) -> Option<Place> {
        let mut table = self.table();
        if table.by_number.len() >= CLIENTS {
            table.close_idle()?;
        }
        table.events += 1;
        let number = table.events;
        table.by_number.insert(number, Client { idle_since: Some(number), task: None });
        Some(Place { clients: self.clone(), number })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Disconnects the client that has been idle longest. Returns `None` if none is idle.
    fn close_idle(&mut self) -> Option<()> {
        let idle = self.by_number.iter().filter_map(|(number, client)| {
            client.task.as_ref()?;
            Some((client.idle_since?, *number))
        });
        let (_, number) = idle.min()?;
        let task = self.by_number.remove(&number)?.task?;
        log::warn!(
            target: "unixctl",
            "{CLIENTS} control connections: the one that has been idle for longest is closed"
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
