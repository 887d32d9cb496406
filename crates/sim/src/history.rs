//! The versions of the rules and ports in a run.

use crate::rule::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The rules and ports that are valid at the same time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Version {
    /// The rules by slot.
    pub rules: BTreeMap<usize, Rule>,
    /// The OpenFlow ports that exist.
    pub ports: BTreeSet<u8>,
}

/// All versions, the current one last.
#[derive(Debug)]
pub struct History {
    versions: Vec<Arc<Version>>,
}

impl History {
    pub fn new(first: Version) -> History {
        History { versions: vec![Arc::new(first)] }
    }

    /// Returns the number of the current version.
    pub fn last(&self) -> usize {
        self.versions.len() - 1
    }

    /// Returns the current version.
    pub fn now(&self) -> &Version {
        &self.versions[self.last()]
    }

    /// Adds a version that differs from the current one by `change`.
    pub fn change(&mut self, change: impl FnOnce(&mut Version)) {
        let mut next = self.now().clone();
        change(&mut next);
        self.versions.push(Arc::new(next));
    }

    /// Returns the distinct versions from number `first` on.
    pub fn since(&self, first: usize) -> Vec<&Version> {
        let mut seen: Vec<&Version> = Vec::new();
        for version in &self.versions[first..] {
            if !seen.contains(&&**version) {
                seen.push(version);
            }
        }
        seen
    }
}
