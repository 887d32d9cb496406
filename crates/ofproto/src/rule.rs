//! OpenFlow flows, by id.

use crate::carried::Carried;
use crate::ids::BridgeId;
use crate::ids::RuleId;
use base::{Instant, OfPort, TableId};
use flow::PackedMatch;
use openflow::action::Action;
use openflow::message::{FlowFlags, FlowStatsEntry, FlowStatsRequest};
use std::sync::Arc;
use table::{HashTrie, Remains};

/// A flow of an OpenFlow table with its statistics.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Its number.
    pub id: RuleId,
    /// Its bridge.
    pub bridge: BridgeId,
    /// Its table.
    pub table: TableId,
    /// Its match.
    pub matching: PackedMatch,
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
    /// Its actions.
    pub actions: Arc<[Action]>,
    /// When it was added.
    pub created: Instant,
    /// When it was last added or modified.
    pub modified: Instant,
    /// Position in insertion order; modifying a flow counts as a new insertion.
    pub order: u64,
    /// The position when it was added.
    pub added: u64,
    /// Its counters; until the first packet, the time of use is that of its addition.
    pub carried: Arc<Carried>,
}

impl Rule {
    /// Whether its cookie agrees with `cookie` in the bits of `mask`.
    pub fn has_cookie(&self, cookie: u64, mask: u64) -> bool {
        (self.cookie ^ cookie) & mask == 0
    }

    /// Whether it has an output action to `port`; `NONE` matches any flow.
    pub fn outputs_to(&self, port: OfPort) -> bool {
        port == OfPort::NONE || outputs_to(&self.actions, port)
    }

    /// Whether it sends to `group`; `None` matches any flow.
    pub fn sends_to(&self, group: Option<u32>) -> bool {
        group.is_none_or(|group| sends_to(&self.actions, group))
    }

    /// The flow for statistics and flow-removed messages.
    pub fn stats(&self, now: Instant) -> FlowStatsEntry {
        let counted = |flag, count| if self.flags.contains(flag) { u64::MAX } else { count };
        FlowStatsEntry {
            table: self.table,
            matching: self.matching.unpack(),
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

    /// Whether a statistics request selects it.
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

/// Calls `take` for each group in the actions.
pub(crate) fn each_group(actions: &[Action], take: &mut dyn FnMut(u32)) {
    for action in actions {
        match action {
            Action::Group(group) => take(*group),
            Action::Clone(inner) | Action::WriteActions(inner) => each_group(inner, take),
            _ => {}
        }
    }
}

/// Calls `take` for each meter in the actions.
pub(crate) fn each_meter(actions: &[Action], take: &mut dyn FnMut(u32)) {
    for action in actions {
        match action {
            Action::Meter(meter) => take(*meter),
            Action::Clone(inner) => each_meter(inner, take),
            _ => {}
        }
    }
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
    /// Whether anything changed that translation reads since the last snapshot.
    is_changed: bool,
}

impl Rules {
    /// A number for a new flow.
    pub fn next_id(&mut self) -> RuleId {
        self.last += 1;
        RuleId(self.last)
    }

    /// The insertion position of a flow added now.
    pub fn next_order(&mut self) -> u64 {
        self.last_order += 1;
        self.last_order
    }

    /// Adds a flow.
    pub fn insert(&mut self, rule: Rule) {
        self.is_changed = true;
        let (id, rule) = (rule.id, Arc::new(rule));
        match self.by_id.find_mut(id.hash(), |it| it.id == id) {
            Some(place) => *place = rule,
            None => self.by_id.insert(id.hash(), rule),
        }
    }

    /// Removes a flow.
    pub fn remove(&mut self, id: RuleId) -> Option<Rule> {
        self.is_changed = true;
        self.by_id.remove(id.hash(), |it| it.id == id).map(Arc::unwrap_or_clone)
    }

    /// The flow, if it exists.
    pub fn get(&self, id: RuleId) -> Option<&Rule> {
        self.by_id.find(id.hash(), |it| it.id == id).map(|rule| &**rule)
    }

    /// The flow, for changing its times, which translation does not read.
    pub fn time_mut(&mut self, id: RuleId) -> Option<&mut Rule> {
        self.by_id.find_mut(id.hash(), |it| it.id == id).map(Arc::make_mut)
    }

    /// Whether flows were added, changed or removed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Frees them a part at a time.
    pub(crate) fn hand_over(self, remains: &mut Remains) {
        self.by_id.hand_over(remains);
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
