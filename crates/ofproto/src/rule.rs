//! An OpenFlow flow, and all of them by number.

use crate::bridge::BridgeId;
use crate::carried::Carried;
use crate::group::each_group;
use base::{Instant, OfPort, TableId};
use flow::Match;
use openflow::action::Action;
use openflow::message::{FlowFlags, FlowStatsEntry, FlowStatsRequest};
use std::sync::Arc;
use table::HashTrie;

/// Names a flow; never used twice in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleId(pub u64);

/// A flow of an OpenFlow table with its statistics.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Its number.
    pub id: RuleId,
    /// Its bridge.
    pub bridge: BridgeId,
    /// Its table.
    pub table: TableId,
    /// Which packets.
    pub matching: Match,
    /// Priority.
    pub priority: u16,
    /// Cookie.
    pub cookie: u64,
    /// Idle timeout in seconds; 0 is none.
    pub idle_timeout_s: u16,
    /// Hard timeout in seconds; 0 is none.
    pub hard_timeout_s: u16,
    /// Eviction order.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
    /// What to do with packets.
    pub actions: Arc<[Action]>,
    /// When it was added.
    pub created: Instant,
    /// When it was last added or modified.
    pub modified: Instant,
    /// Flows put into their table later have a higher one; a modified flow counts as put anew.
    pub order: u64,
    /// The order that it had when it was added.
    pub added: u64,
    /// What it has carried; at first its last packet counts as having come when it was added.
    pub carried: Arc<Carried>,
}

impl Rule {
    /// Whether its cookie agrees with `cookie` in the bits of `mask`.
    pub fn has_cookie(&self, cookie: u64, mask: u64) -> bool {
        (self.cookie ^ cookie) & mask == 0
    }

    /// Whether it sends to `port` by name; `NONE` is any.
    pub fn outputs_to(&self, port: OfPort) -> bool {
        port == OfPort::NONE || outputs_to(&self.actions, port)
    }

    /// Whether it sends to `group`; `None` is any.
    pub fn sends_to(&self, group: Option<u32>) -> bool {
        group.is_none_or(|group| sends_to(&self.actions, group))
    }

    /// The flow as statistics and flow-removed messages tell of it.
    pub fn stats(&self, now: Instant) -> FlowStatsEntry {
        let counted = |flag, count| if self.flags.contains(flag) { u64::MAX } else { count };
        FlowStatsEntry {
            table: self.table,
            matching: self.matching.clone(),
            priority: self.priority,
            cookie: self.cookie,
            // Whole milliseconds, as Open vSwitch counts them.
            duration_ns: (now - self.created).as_millis() as u64 * 1_000_000,
            idle_timeout_s: self.idle_timeout_s,
            hard_timeout_s: self.hard_timeout_s,
            idle_age_s: (now - self.carried.used()).as_secs(),
            hard_age_s: (now - self.modified).as_secs(),
            importance: self.importance,
            flags: self.flags,
            packets: counted(FlowFlags::NO_PKT_COUNTS, self.carried.packets()),
            bytes: counted(FlowFlags::NO_BYT_COUNTS, self.carried.bytes()),
            actions: self.actions.to_vec(),
        }
    }

    /// Whether statistics are asked of it.
    pub fn is_asked(&self, request: &FlowStatsRequest) -> bool {
        self.sends_to(request.out_group)
            && self.has_cookie(request.cookie, request.cookie_mask)
            && self.outputs_to(request.out_port)
    }
}

/// Whether some action sends to the port (ovs: `lib/ofp-actions.c`, `ofpacts_output_to_port`).
pub(crate) fn outputs_to(actions: &[Action], port: OfPort) -> bool {
    actions.iter().any(|action| match action {
        Action::Output { port: to, .. } => *to == port,
        Action::Controller(_) => port == OfPort::CONTROLLER,
        Action::Enqueue { port: to, .. } | Action::OutputTrunc { port: to, .. } => *to == port,
        Action::Clone(inner) | Action::WriteActions(inner) => outputs_to(inner, port),
        _ => false,
    })
}

/// Whether some action sends to the group.
pub(crate) fn sends_to(actions: &[Action], group: u32) -> bool {
    let mut found = false;
    each_group(actions, &mut |other| found |= other == group);
    found
}

/// All flows of all bridges. A clone is a snapshot; it shares what neither side changes.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    by_id: HashTrie<Arc<Rule>>,
    last: u64,
    last_order: u64,
    /// Whether translation may find something else here than in the last snapshot.
    is_changed: bool,
}

impl RuleId {
    /// Spreads numbers that were given in order.
    pub(crate) fn hash(self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Rules {
    /// A number for a new flow.
    pub fn next_id(&mut self) -> RuleId {
        self.last += 1;
        RuleId(self.last)
    }

    /// The place of a flow that is put into a table now.
    pub fn next_order(&mut self) -> u64 {
        self.last_order += 1;
        self.last_order
    }

    /// Keeps a flow.
    pub fn insert(&mut self, rule: Rule) {
        self.is_changed = true;
        let (id, rule) = (rule.id, Arc::new(rule));
        match self.by_id.find_mut(id.hash(), |it| it.id == id) {
            Some(place) => *place = rule,
            None => self.by_id.insert(id.hash(), rule),
        }
    }

    /// Takes a flow out.
    pub fn remove(&mut self, id: RuleId) -> Option<Rule> {
        self.is_changed = true;
        self.by_id.remove(id.hash(), |it| it.id == id).map(Arc::unwrap_or_clone)
    }

    /// The flow, if it is still there.
    pub fn get(&self, id: RuleId) -> Option<&Rule> {
        self.by_id.find(id.hash(), |it| it.id == id).map(|rule| &**rule)
    }

    /// The flow, to be given other times, which translation does not read.
    pub fn time_mut(&mut self, id: RuleId) -> Option<&mut Rule> {
        self.by_id.find_mut(id.hash(), |it| it.id == id).map(Arc::make_mut)
    }

    /// Whether flows came, changed or went since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}
