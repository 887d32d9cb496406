//! A scan of all slots for megaflows that depend on changes, used when too many links are affected to collect
//! at once.

use super::search::concerns;
use super::{FLOWS_AT_ONCE, SEARCHED_AT_ONCE};
use crate::dependency::Dependency;
use crate::installed::Installed;
use crate::links::Links;
use crate::lookup::Added;
use flow::FlowId;
use hashbrown::HashSet;

/// Slots examined at once.
const SLOTS_AT_ONCE: u32 = 2048;

/// A scan. Megaflows do not change their slots, and those installed after its begin are based on a snapshot
/// with the changes.
#[derive(Debug, Default)]
pub(super) struct Scan {
    on: HashSet<Dependency>,
    added: Vec<Added>,
    /// The last slot examined, and the slot to end at, once it has begun.
    at: u32,
    end: Option<u32>,
}

/// Which megaflows with the same links are affected.
#[derive(Clone, Copy)]
enum Concerned {
    None,
    All,
    /// Those that an added flow may match.
    ByMatch,
}

impl Scan {
    /// Adds a dependency to find. Only before the scan begins.
    pub fn find(&mut self, on: Dependency) {
        self.on.insert(on);
    }

    /// Adds an added flow whose megaflows to find. Only before the scan begins.
    pub fn find_added(&mut self, added: &Added) {
        if self.added.len() < SEARCHED_AT_ONCE {
            self.added.push(added.clone());
        } else {
            self.find(Dependency::Table { bridge: added.bridge, table: added.table });
        }
    }

    /// Examines some slots. Returns whether the scan is complete.
    pub fn go_on(&mut self, installed: &Installed, found: &mut Vec<FlowId>) -> bool {
        let end = *self.end.get_or_insert_with(|| installed.last_slot());
        let stop = self.at.saturating_add(SLOTS_AT_ONCE).min(end);
        // Consecutive flows often share links.
        let mut known = None;
        while self.at < stop && found.len() < FLOWS_AT_ONCE {
            self.at += 1;
            let Some((number, links)) = installed.links_at(self.at) else { continue };
            let concerned = match known {
                Some((before, concerned)) if before == number => concerned,
                _ => self.concerned(links),
            };
            known = Some((number, concerned));
            let is_concerned = |id: &FlowId| match concerned {
                Concerned::None => false,
                Concerned::All => true,
                Concerned::ByMatch => concerns(installed, *id, &self.added),
            };
            found.extend(installed.id_at(self.at).filter(is_concerned));
        }
        self.at >= end
    }

    fn concerned(&self, links: &Links) -> Concerned {
        if links.depends_on().any(|on| self.on.contains(&on)) {
            return Concerned::All;
        }
        match self.added.iter().any(|added| links.may_find(added)) {
            true => Concerned::ByMatch,
            false => Concerned::None,
        }
    }
}
