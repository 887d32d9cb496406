//! Settings that may change while packets pass; threads notice changes without a lock.

use crate::management::limit::Limits;
use crate::timeout::TimeoutPolicy;
use hashbrown::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

/// All settings but the maximum number of connections.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Timeouts of zones without a policy of their own.
    pub timeouts: TimeoutPolicy,
    pub zone_timeouts: HashMap<u16, TimeoutPolicy>,
    pub limits: Limits,
    /// Whether TCP segments outside the windows are invalid.
    pub check_tcp_windows: bool,
    /// Whether each connection's packets and bytes are counted.
    pub counts_traffic: bool,
    /// Whether early drop makes room for new connections.
    pub early_drop: bool,
    /// Whether a watcher is registered.
    pub is_watched: bool,
}

impl Settings {
    /// The timeouts of a zone.
    #[inline]
    pub fn policy(&self, zone: u16) -> &TimeoutPolicy {
        if self.zone_timeouts.is_empty() {
            return &self.timeouts;
        }
        self.zone_timeouts.get(&zone).unwrap_or(&self.timeouts)
    }
}

/// The settings in force. Each thread has a [`SettingsCopy`], and compares a version number to see
/// whether it is current.
pub(crate) struct Published {
    version: AtomicU64,
    current: Mutex<Arc<Settings>>,
}

/// A thread's copy.
pub(crate) struct SettingsCopy {
    version: u64,
    pub settings: Arc<Settings>,
}

impl Published {
    pub fn new(settings: Settings) -> Self {
        Published { version: AtomicU64::new(0), current: Mutex::new(Arc::new(settings)) }
    }

    /// Changes the settings; threads use them from their next batch on.
    pub fn change<T>(&self, change: impl FnOnce(&mut Settings) -> T) -> T {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = change(Arc::make_mut(&mut current));
        self.version.fetch_add(1, Release);
        answer
    }

    /// The newest settings.
    pub fn get(&self) -> Arc<Settings> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A copy to be refreshed.
    pub fn copy(&self) -> SettingsCopy {
        // The version is read first: if the settings are newer, they are only fetched once more.
        let version = self.version.load(Acquire);
        SettingsCopy { version, settings: self.get() }
    }

    /// Brings a copy up to date.
    #[inline]
    pub fn refresh(&self, copy: &mut SettingsCopy) {
        if self.version.load(Relaxed) != copy.version {
            *copy = self.copy();
        }
    }
}
