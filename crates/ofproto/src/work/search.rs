//! A search of the keys for megaflows that added flows may affect.

use crate::installed::Installed;
use crate::lookup::{Added, header_mask};
use flow::{FlowId, Mask};
use hashbrown::HashSet;

/// Budget of a step, in rows. Reading a block's bounds and examining a found flow count as several rows.
const ROWS_AT_ONCE: usize = 32 * 1024;
const BLOCK_COST: usize = 16;
const FOUND_COST: usize = 64;
/// Rows of a block examined between two checks of the budget.
const ROWS_AT_A_TIME: usize = 2048;

/// A search for megaflows affected by added flows.
#[derive(Debug)]
pub(super) struct Search {
    /// Each with the header bits that it matches.
    added: Vec<(Added, Mask)>,
    /// The links to find, if they are known.
    links: Option<HashSet<u32>>,
    block: usize,
    /// The rows of the current block still to be searched: those before this one. Searching downwards misses
    /// no row that moves down to fill a hole, nor one that stays when the block is split.
    row: Option<usize>,
}

impl Search {
    pub fn new(added: Vec<Added>, links: Option<HashSet<u32>>) -> Search {
        let with_mask = |it: Added| {
            let mask = it.matching.mask().and(header_mask());
            (it, mask)
        };
        // Flows that match no header affect megaflows through their links alone.
        let added = added.into_iter().map(with_mask).filter(|(_, mask)| !mask.is_empty()).collect();
        Search { added, links, block: 0, row: None }
    }

    /// Searches some keys. Returns whether the search is complete.
    pub fn go_on(&mut self, installed: &Installed, flows: &mut Vec<FlowId>) -> bool {
        let (mut left, keys) = (ROWS_AT_ONCE, installed.keys());
        while left > 0 && self.block < keys.block_count() {
            let block = self.block;
            let may_overlap =
                |(it, mask): &&(Added, Mask)| keys.may_overlap(block, it.matching.key(), mask);
            let concerned: Vec<&(Added, Mask)> = self.added.iter().filter(may_overlap).collect();
            let rows = if concerned.is_empty() { 0 } else { keys.row_count(block) };
            let end = self.row.unwrap_or(rows).min(rows);
            let start = end.saturating_sub(ROWS_AT_A_TIME);
            let mut cost = BLOCK_COST * self.added.len() + (end - start) * concerned.len();
            for (added, mask) in concerned {
                for slot in keys.overlapping(block, start..end, added.matching.key(), mask) {
                    cost += FOUND_COST;
                    flows.extend(self.concerned(installed, slot, added));
                }
            }
            left = left.saturating_sub(cost);
            (self.block, self.row) = match start {
                0 => (block + 1, None),
                start => (block, Some(start)),
            };
        }
        self.block >= keys.block_count()
    }

    /// The flow in a slot, if the added flow affects it.
    fn concerned(&self, installed: &Installed, slot: u32, added: &Added) -> Option<FlowId> {
        let (number, links) = installed.links_at(slot)?;
        let may_be = match &self.links {
            Some(known) => known.contains(&number),
            None => links.may_find(added),
        };
        let id = installed.id_at(slot).filter(|_| may_be)?;
        concerns(installed, id, std::slice::from_ref(added)).then_some(id)
    }
}

/// Whether a packet of the flow could match one of these.
pub(super) fn concerns(installed: &Installed, id: FlowId, added: &[Added]) -> bool {
    let Some(flow) = installed.get(id) else { return false };
    added.iter().any(|added| {
        let lookups = flow.links.lookups.iter();
        let mut lookups = lookups.filter(|lookup| lookup.may_find(added));
        lookups.any(|lookup| lookup.may_match(added, &flow.matching))
    })
}
