//! A value that one thread publishes and others read as a snapshot, beside a ledger of what was made of
//! it.
//!
//! What a thread makes of a snapshot it enters into the ledger, under the ledger's lock, and is told
//! there whether a newer snapshot was published meanwhile. The publishing thread replaces the snapshot
//! and takes up the change under the same lock. So an entry is either there when the change is taken up,
//! or knows itself that it is stale: none is missed. `tests/models.rs` shows it in all orders.

use crate::atomic::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// See the module's description.
#[derive(Debug)]
pub struct Published<S, L> {
    version: AtomicU64,
    snapshot: Mutex<Snapshot<S>>,
    ledger: Mutex<L>,
}

/// A snapshot as it was read.
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
    /// The first snapshot, and the ledger.
    pub fn new(value: S, ledger: L) -> Self {
        Published {
            version: AtomicU64::new(0),
            snapshot: Mutex::new(Snapshot { version: 0, value: Arc::new(value) }),
            ledger: Mutex::new(ledger),
        }
    }

    /// The newest snapshot.
    pub fn read(&self) -> Snapshot<S> {
        lock(&self.snapshot).clone()
    }

    /// Replaces a snapshot that is not the newest any more.
    pub fn refresh(&self, held: &mut Snapshot<S>) {
        if self.version.load(Ordering::Acquire) != held.version {
            *held = self.read();
        }
    }

    /// Publishes a snapshot, and takes up in the ledger what changed.
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
        // It may be the last one that holds what was removed: that is freed outside of the locks.
        drop(before);
    }

    /// Locks the ledger.
    pub fn lock(&self) -> Locked<'_, S, L> {
        let ledger = lock(&self.ledger);
        // It changes under the lock only.
        let version = self.version.load(Ordering::Relaxed);
        Locked { version, of: self, ledger }
    }
}

impl<S, L> Locked<'_, S, L> {
    /// Whether a newer snapshot than this one was published; it stays so as long as the lock is held.
    pub fn is_stale(&self, snapshot: &Snapshot<S>) -> bool {
        self.version != snapshot.version
    }

    /// The newest snapshot; there is no newer one as long as the lock is held.
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
