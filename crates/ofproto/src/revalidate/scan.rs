//! A scan of all slots for megaflows that depend on changes, where what they stand for has too many numbers
//! to be collected at once.

use super::search::concerns;
use super::{Dependency, FLOWS_AT_ONCE, SEARCHED_AT_ONCE};
use crate::installed::{Installed, Links};
use crate::lookup::Added;
use flow::FlowId;
use hashbrown::HashSet;

/// Slots that are looked at in one go.
const SLOTS_AT_ONCE: u32 = 2048;

/// A scan. Megaflows do not change their slots, and those that come after it began are translated by a
/// snapshot with the changes.
#[derive(Debug, Default)]
pub(super) struct Scan {
    on: HashSet<Dependency>,
    added: Vec<Added>,
    /// The last slot that was looked at, and the slot to end at, once it has begun.
    at: u32,
    end: Option<u32>,
}

/// Which megaflows that stand for the same are concerned.
#[derive(Clone, Copy)]
enum Concerned {
    None,
    All,
    /// Those with packets that an addition matches.
    ByMatch,
}

impl Scan {
    /// Finds megaflows that depend on this. Only before the scan begins.
    pub fn find(&mut self, on: Dependency) {
        self.on.insert(on);
    }

    /// Finds megaflows whose packets the addition may match. Only before the scan begins.
    pub fn find_added(&mut self, added: &Added) {
        if self.added.len() < SEARCHED_AT_ONCE {
            self.added.push(added.clone());
        } else {
            self.find(Dependency::Table { bridge: added.bridge, table: added.table });
        }
    }

    /// Looks at some slots. Returns whether all are done.
    pub fn go_on(&mut self, installed: &Installed, found: &mut Vec<FlowId>) -> bool {
        let end = *self.end.get_or_insert_with(|| installed.last_slot());
        let stop = self.at.saturating_add(SLOTS_AT_ONCE).min(end);
        // One flow often stands for the same as the one before it.
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
