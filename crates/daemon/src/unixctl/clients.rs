//! Who is connected to the control socket. Where as many are as may be, the one that has asked
//! nothing for longest gives way to the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Clients served at once.
pub(super) const CLIENTS: usize = 128;

/// The clients that are connected.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// Told when a client goes or has its answer.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    by_number: BTreeMap<u64, Client>,
    /// How often a client came or had its answer.
    turn: u64,
}

#[derive(Debug)]
struct Client {
    /// Since which turn it asks nothing; None while it waits for an answer or reads one.
    idle_since: Option<u64>,
    task: Option<AbortHandle>,
}

/// A client's place, which is free again when this goes.
#[derive(Debug)]
pub(super) struct Place {
    clients: Clients,
    number: u64,
}

impl Clients {
    /// A place for a client that has connected. Where all are taken, the client that has asked nothing
    /// for longest is disconnected; where none can be, this waits.
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
        table.turn += 1;
        let number = table.turn;
        table.by_number.insert(number, Client { idle_since: Some(number), task: None });
        Some(Place { clients: self.clone(), number })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Disconnects the client that is idle for longest; None where none is.
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
    /// The task that serves the client, as [`Self::number`] names it.
    pub fn served_by(clients: &Clients, number: u64, task: AbortHandle) {
        if let Some(client) = clients.table().by_number.get_mut(&number) {
            client.task = Some(task);
        }
    }

    /// What the client is known by.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The client asks nothing from now on, or asks something.
    pub fn set_idle(&self, is_idle: bool) {
        let mut table = self.clients.table();
        table.turn += 1;
        let turn = table.turn;
        if let Some(client) = table.by_number.get_mut(&self.number) {
            client.idle_since = is_idle.then_some(turn);
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
