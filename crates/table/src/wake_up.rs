//! Notification of idle threads about work, without an extra lock and without lost wake-ups.
//! `tests/models.rs` checks it in all orders.

use crate::atomic::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, lock};
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

/// Work for one waiting thread, which other threads add.
#[derive(Debug)]
pub struct Mailbox<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct State<T> {
    content: T,
    /// The waiting thread must return, with or without content.
    is_woken: bool,
}

/// The content, locked.
pub struct Opened<'a, T>(MutexGuard<'a, State<T>>);

impl<T: Default> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox::new(T::default())
    }
}

impl<T> Mailbox<T> {
    /// Creates a mailbox with this content.
    pub fn new(content: T) -> Self {
        let state = Mutex::new(State { content, is_woken: false });
        Mailbox { state, arrived: Condvar::new() }
    }

    /// Locks the content.
    pub fn open(&self) -> Opened<'_, T> {
        Opened(lock(&self.state))
    }

    /// Notifies the waiting thread that an empty mailbox got content.
    pub fn notify(&self) {
        self.arrived.notify_one();
    }

    /// Ends the current wait of a thread, or its next one.
    pub fn wake(&self) {
        lock(&self.state).is_woken = true;
        self.arrived.notify_all();
    }

    /// Waits while the content is empty, until [`Self::notify`] or [`Self::wake`] is called or the time has
    /// passed. The wait may end spuriously.
    pub fn wait(&self, at_most: Duration, is_empty: impl FnOnce(&T) -> bool) {
        let mut state = lock(&self.state);
        if is_empty(&state.content) && !state.is_woken {
            let waited = self.arrived.wait_timeout(state, at_most);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_woken = false;
    }
}

impl<T> Deref for Opened<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.content
    }
}

impl<T> DerefMut for Opened<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.content
    }
}

/// Wakes all idle threads.
#[derive(Debug)]
pub struct WakeUp {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Default for WakeUp {
    fn default() -> Self {
        WakeUp { rings: Mutex::new(0), rung: Condvar::new() }
    }
}

impl WakeUp {
    /// Wakes all threads.
    pub fn ring(&self) {
        *lock(&self.rings) += 1;
        self.rung.notify_all();
    }

    /// Waits until it is rung after the ring that was heard last, or the time has passed. The wait may end
    /// spuriously.
    pub fn wait(&self, heard: &mut u64, at_most: Duration) {
        let mut rings = lock(&self.rings);
        if *rings == *heard {
            let waited = self.rung.wait_timeout(rings, at_most);
            rings = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *heard = *rings;
    }
}

/// Notifies an owner once of new content, until the owner looks. The content is under a lock, which orders
/// the accesses: the owner looks first and then takes the lock; others add content under the lock and then
/// post.
#[derive(Debug)]
pub struct Notice(AtomicU32);

impl Default for Notice {
    fn default() -> Self {
        Notice(AtomicU32::new(0))
    }
}

impl Notice {
    /// Posts that there is content. Returns whether the owner must be notified.
    pub fn post(&self) -> bool {
        self.0.swap(1, Ordering::AcqRel) == 0
    }

    /// Called before the owner takes the content: later content is notified again.
    pub fn look(&self) {
        self.0.store(0, Ordering::Release);
    }
}
