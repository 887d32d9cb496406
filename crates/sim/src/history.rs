//! The rules and ports of each moment.

use crate::rule::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rules and ports that are in force together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Version {
    /// By slot.
    pub rules: BTreeMap<usize, Rule>,
    /// OpenFlow ports that there are.
    pub ports: BTreeSet<u8>,
}

/// All versions, the present one last.
#[derive(Debug)]
pub struct History {
    versions: Vec<Arc<Version>>,
}

impl History {
    pub fn new(first: Version) -> History {
        History { versions: vec![Arc::new(first)] }
    }

    /// The number of the present version.
    pub fn last(&self) -> usize {
        self.versions.len() - 1
    }

    /// The present version.
    pub fn now(&self) -> &Version {
        &self.versions[self.last()]
    }

    /// Begins another version.
    pub fn change(&mut self, change: impl FnOnce(&mut Version)) {
        let mut next = self.now().clone();
        change(&mut next);
        self.versions.push(Arc::new(next));
    }

    /// The versions since that one, each different from the one before.
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
