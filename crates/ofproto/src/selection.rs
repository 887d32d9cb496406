//! Searching for flows a part at a time, in the order of Open vSwitch's dumps: by table, then grouped by mask, the mask
//! whose best flow has the highest priority first, and within a mask in insertion order. The classifier keeps its masks
//! in this order for lookups (ovs: `lib/classifier.c`, `cls_cursor_start`; `lib/pvector.c`), so only the flows of one
//! mask are sorted.

use crate::ids::RuleId;
use crate::rule::{Rule, Rules};
use crate::table::{Tables, is_of_frames, widened};
use base::{TableId, limits};
use classifier::{Place, Visited};
use flow::Match;
use openflow::message::FlowStatsRequest;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use table::Remains;

/// Flows sorted at once: some 0.1 ms.
const RUN: usize = 2048;

/// A search for the flows whose match is at least as specific as another one. Neither tables nor flows may change
/// meanwhile.
#[derive(Debug)]
pub(crate) struct Search {
    matching: Match,
    /// Whether only flows of frames are meant.
    says_frames: bool,
    /// The table that is searched now, and the last one.
    table: usize,
    last: usize,
    place: Place,
    of_mask: OfMask,
}

impl Search {
    /// A search in one table, or in all.
    pub fn new(table: Option<TableId>, matching: &Match) -> Search {
        let (wider, says_frames) = widened(matching);
        let (first, last) = match table {
            Some(table) => (usize::from(table.0), usize::from(table.0)),
            None => (0, limits::TABLES - 1),
        };
        Search {
            matching: wider.into_owned(),
            says_frames,
            table: first,
            last,
            place: Place::default(),
            of_mask: OfMask::default(),
        }
    }

    /// Finds flows until all steps are spent; one that is examined or found is a step. Returns whether there may be more.
    pub fn go_on<'a>(
        &mut self,
        tables: &Tables,
        rules: &'a Rules,
        left: &mut usize,
        mut take: impl FnMut(&'a Rule),
    ) -> bool {
        while self.table <= self.last {
            if self.of_mask.is_complete {
                self.of_mask.take(left, |id| {
                    let rule = rules.get(id);
                    let is_meant =
                        |rule: &&Rule| !self.says_frames || is_of_frames(&rule.matching.unpack());
                    rule.filter(is_meant).into_iter().for_each(&mut take);
                });
            }
            if *left == 0 {
                return true;
            }
            let Some(table) = tables.get(TableId(self.table as u8)) else {
                self.next_table();
                continue;
            };
            let visited =
                table.flows.visit_within(&self.matching, &mut self.place, left, |found| {
                    if let Some(rule) = rules.get(*found.rule) {
                        self.of_mask.add(rule.order, rule.id);
                    }
                });
            match visited {
                Visited::Part => return true,
                Visited::Mask => self.of_mask.complete(),
                Visited::All => self.next_table(),
            }
        }
        false
    }

    fn next_table(&mut self) {
        self.table += 1;
        self.place = Place::default();
    }
}

/// The flows of one mask: collected in runs, each of which is sorted, and then merged.
#[derive(Debug, Default)]
struct OfMask {
    open: Vec<(u64, RuleId)>,
    runs: Vec<std::vec::IntoIter<(u64, RuleId)>>,
    /// The first flow of each run, with the run's number.
    heads: BinaryHeap<Reverse<(u64, RuleId, usize)>>,
    is_complete: bool,
}

impl OfMask {
    fn add(&mut self, order: u64, rule: RuleId) {
        self.open.push((order, rule));
        if self.open.len() >= RUN {
            self.close_run();
        }
    }

    fn close_run(&mut self) {
        let mut run = std::mem::take(&mut self.open);
        run.sort_unstable();
        self.runs.push(run.into_iter());
    }

    fn complete(&mut self) {
        self.close_run();
        self.is_complete = true;
        for (number, run) in self.runs.iter_mut().enumerate() {
            self.heads.extend(run.next().map(|(order, rule)| Reverse((order, rule, number))));
        }
    }

    /// Takes flows while there are steps left, or until there are no more, after which others may be added.
    fn take(&mut self, left: &mut usize, mut take: impl FnMut(RuleId)) {
        while *left > 0 {
            let Some(Reverse((_, rule, number))) = self.heads.pop() else {
                *self = OfMask::default();
                return;
            };
            *left -= 1;
            let next = self.runs.get_mut(number).and_then(Iterator::next);
            self.heads.extend(next.map(|(order, rule)| Reverse((order, rule, number))));
            take(rule);
        }
    }
}

/// The flows that a request selects, of a snapshot.
#[derive(Debug)]
pub(crate) struct Selection {
    tables: Tables,
    rules: Rules,
    request: FlowStatsRequest,
    search: Search,
}

impl Selection {
    /// The flows that the request selects now. The request has its tunnel options in their places.
    pub fn new(tables: &Tables, rules: &Rules, request: FlowStatsRequest) -> Selection {
        let search = Search::new(request.table, &request.matching);
        Selection { tables: tables.clone(), rules: rules.clone(), request, search }
    }

    /// Finds flows until all steps are spent. Returns whether there may be more.
    pub fn go_on(&mut self, left: &mut usize, mut take: impl FnMut(&Rule)) -> bool {
        let Selection { tables, rules, request, search } = self;
        search.go_on(tables, rules, left, |rule| {
            if rule.is_asked(request) {
                take(rule);
            }
        })
    }

    /// Frees what no other snapshot has, a part at a time.
    pub fn hand_over(self, remains: &mut Remains) {
        self.tables.hand_over(remains);
        self.rules.hand_over(remains);
    }
}
