//! A value that one thread publishes and others read as a snapshot, with a ledger of results
//! computed from it.
//!
//! A thread enters a result into the ledger under the ledger's lock, and learns there whether a
//! newer snapshot has been published. The publishing thread replaces the snapshot and updates the
//! ledger under the same lock. So an entry is either present for that update or known to be stale,
//! and none is missed. `tests/models.rs` checks this in all orders.
//!
//! Readers never free a snapshot, which may take long: the publishing thread holds a reference to each until no reader
//! does ([`Published::reclaim`]).

use crate::atomic::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A published value with a ledger, as the module describes.
#[derive(Debug)]
pub struct Published<S, L> {
    version: AtomicU64,
    snapshot: Mutex<Snapshot<S>>,
    ledger: Mutex<L>,
    /// Snapshots that were replaced, and that readers may still hold.
    replaced: Mutex<Vec<Arc<S>>>,
}

/// A snapshot with its version.
#[derive(Debug)]
pub struct Snapshot<S> {
    version: u64,
    value: Arc<S>,
}

impl<S> Clone for Snapshot<S> {
    fn clone(&self) -> Self {
        Snapshot { version: self.version, value: Arc::clone(&self.value) }
    }
}

impl<S> Deref for Snapshot<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.value
    }
}

/// The ledger, locked.
pub struct Locked<'a, S, L> {
    version: u64,
    of: &'a Published<S, L>,
    ledger: MutexGuard<'a, L>,
}

impl<S, L> Published<S, L> {
    /// Publishes the first snapshot, with this ledger.
    pub fn new(value: S, ledger: L) -> Self {
        Published {
            version: AtomicU64::new(0),
            snapshot: Mutex::new(Snapshot { version: 0, value: Arc::new(value) }),
            ledger: Mutex::new(ledger),
            replaced: Mutex::new(Vec::new()),
        }
    }

    /// Returns the newest snapshot.
    pub fn read(&self) -> Snapshot<S> {
        lock(&self.snapshot).clone()
    }

    /// Replaces a snapshot that is not the newest any more.
    pub fn refresh(&self, held: &mut Snapshot<S>) {
        if self.version.load(Ordering::Acquire) != held.version {
            *held = self.read();
        }
    }

    /// Publishes a snapshot, and calls `take_up` to update the ledger. [`Self::reclaim`] returns the replaced one.
    pub fn publish(&self, value: S, take_up: impl FnOnce(&mut L)) {
        let value = Arc::new(value);
        let before = {
            let mut locked = self.lock();
            let version = locked.version + 1;
            let snapshot = Snapshot { version, value };
            let before = std::mem::replace(&mut *lock(&self.snapshot), snapshot);
            self.version.store(version, Ordering::Release);
            take_up(&mut locked);
            before
        };
        lock(&self.replaced).push(before.value);
    }

    /// Returns a replaced snapshot that no reader holds, for the publishing thread to free.
    pub fn reclaim(&self) -> Option<S> {
        let mut replaced = lock(&self.replaced);
        // Only who holds a replaced snapshot can make another reference to it: one that is held here alone stays so.
        let at = replaced.iter().position(|value| Arc::strong_count(value) == 1)?;
        Arc::into_inner(replaced.swap_remove(at))
    }

    /// Locks the ledger.
    pub fn lock(&self) -> Locked<'_, S, L> {
        let ledger = lock(&self.ledger);
        // It changes only under the lock.
        let version = self.version.load(Ordering::Relaxed);
        Locked { version, of: self, ledger }
    }
}

impl<S, L> Locked<'_, S, L> {
    /// Whether a newer snapshot was published. The result holds while the lock is held.
    pub fn is_stale(&self, snapshot: &Snapshot<S>) -> bool {
        self.version != snapshot.version
    }

    /// The newest snapshot while the lock is held.
    pub fn newest(&self) -> Snapshot<S> {
        self.of.read()
    }
}

impl<S, L> Deref for Locked<'_, S, L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.ledger
    }
}

impl<S, L> DerefMut for Locked<'_, S, L> {
    fn deref_mut(&mut self) -> &mut L {
        &mut self.ledger
    }
}
