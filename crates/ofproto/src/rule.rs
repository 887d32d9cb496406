//! An OpenFlow flow, and all of them by number.

use crate::bridge::BridgeId;
use crate::group::each_group;
use base::{Instant, OfPort, TableId};
use flow::Match;
use hashbrown::HashMap;
use openflow::action::Action;
use openflow::message::{FlowFlags, FlowStatsEntry, FlowStatsRequest};
use std::sync::Arc;

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
    /// Gone after so many seconds without packets; 0 never.
    pub idle_timeout_s: u16,
    /// Gone after so many seconds; 0 never.
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
    /// When the last packet came, at first when it was added.
    pub used: Instant,
    /// Flows put into their table later have a higher one; a modified flow counts as put anew.
    pub order: u64,
    /// The order that it had when it was added.
    pub added: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
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
            idle_age_s: (now - self.used).as_secs(),
            hard_age_s: (now - self.modified).as_secs(),
            importance: self.importance,
            flags: self.flags,
            packets: counted(FlowFlags::NO_PKT_COUNTS, self.packets),
            bytes: counted(FlowFlags::NO_BYT_COUNTS, self.bytes),
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
        Action::Enqueue { port: to, .. } => *to == port,
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

/// All flows of all bridges.
#[derive(Debug, Default)]
pub struct Rules {
    by_id: HashMap<RuleId, Rule>,
    last: u64,
    last_order: u64,
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
        self.by_id.insert(rule.id, rule);
    }

    /// Takes a flow out.
    pub fn remove(&mut self, id: RuleId) -> Option<Rule> {
        self.by_id.remove(&id)
    }

    /// The flow, if it is still there.
    pub fn get(&self, id: RuleId) -> Option<&Rule> {
        self.by_id.get(&id)
    }

    /// The flow, to be changed.
    pub fn get_mut(&mut self, id: RuleId) -> Option<&mut Rule> {
        self.by_id.get_mut(&id)
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
