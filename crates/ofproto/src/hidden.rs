//! The hidden flows in a bridge's internal table, and their counters: they account for packets that no flow
//! matches (ovs: `ofproto/ofproto-dpif.c`, `add_internal_flows`). And the flow of a bridge that fails open.

use base::{Instant, OfPort, TableId};
use flow::{Field, FlowStats, Match};
use openflow::Action;
use openflow::action::ToController;
use openflow::message::{FlowFlags, FlowStatsEntry, FlowStatsRequest, reason};
use std::time::Duration;

/// The internal table.
const TABLE: TableId = TableId(254);

/// The priority of the flow with which a bridge fails open (ovs: `ofproto/fail-open.h`).
pub const FAIL_OPEN_PRIORITY: u32 = 0x00f0_f0f0;

/// The fate of a packet that no flow matches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Miss {
    /// It was sent to a controller.
    ToController,
    /// It was dropped.
    Dropped,
    /// The bridge fails open, so that no flow was looked for.
    FailOpen,
}

/// The counters of one of them.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    packets: u64,
    bytes: u64,
    used: Option<Instant>,
}

/// The hidden flows of one bridge.
#[derive(Clone, Debug)]
pub(crate) struct HiddenFlows {
    created: Instant,
    to_controller: Carried,
    dropped: Carried,
    /// Since when the bridge fails open, and for which packets.
    fail_open: Option<(Instant, Carried)>,
}

impl HiddenFlows {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// The hidden flows of a new bridge.
    pub fn new(created: Instant) -> Self {
        let none = Carried::default();
        HiddenFlows { created, to_controller: none, dropped: none, fail_open: None }
    }

    /// Counts packets.
    pub fn count(&mut self, miss: Miss, more: &FlowStats, now: Instant) {
        let carried = match miss {
            Miss::ToController => &mut self.to_controller,
            Miss::Dropped => &mut self.dropped,
            Miss::FailOpen => match &mut self.fail_open {
                Some((_, carried)) => carried,
                None => return,
            },
        };
        carried.packets += more.packets;
        carried.bytes += more.bytes;
        carried.used = carried.used.max(Some(more.used.unwrap_or(now)));
    }

    /// Begins or ends to fail open.
    pub fn set_fail_open(&mut self, is_open: bool, now: Instant) {
        self.fail_open = is_open.then(|| self.fail_open.unwrap_or((now, Carried::default())));
    }

    /// The flow of a bridge that fails open: its age, packets and bytes.
    pub fn fail_open(&self, now: Instant) -> Option<(Duration, u64, u64)> {
        self.fail_open.map(|(since, carried)| (now - since, carried.packets, carried.bytes))
    }

    /// Those that a request for their table selects.
    pub fn asked(&self, request: &FlowStatsRequest, now: Instant) -> Vec<FlowStatsEntry> {
        let by_output = request.out_group.is_some()
            || !matches!(request.out_port, OfPort::NONE | OfPort::CONTROLLER);
        if request.table != Some(TABLE) || request.cookie & request.cookie_mask != 0 || by_output {
            return Vec::new();
        }
        let mut rows = self.all(now);
        rows.retain(|row| {
            let (row_match, asked) = (&row.matching, &request.matching);
            let to_controller = !row.actions.is_empty() || request.out_port == OfPort::NONE;
            let is_within = asked.mask().is_within(row_match.mask());
            to_controller && is_within && asked.matches(row_match.key())
        });
        rows
    }

    /// All of them, in the order of Open vSwitch's dumps.
    pub fn all(&self, now: Instant) -> Vec<FlowStatsEntry> {
        let reason = reason::IMPLICIT_MISS;
        let to_controller = Action::Controller(ToController { reason, ..ToController::default() });
        let none = Carried::default();
        let miss = |number| Match::any().with(Field::Reg0, number);
        vec![
            // A packet sent to this table by mistake is dropped.
            self.row(2, Match::any().with(Field::RecircId, 0), None, none, now),
            self.row(0, miss(1), Some(to_controller), self.to_controller, now),
            self.row(0, miss(2), None, self.dropped, now),
            // Fragments, if a bridge drops them all; none does here.
            self.row(0, miss(3), None, none, now),
        ]
    }

    fn row(
        &self,
        priority: u16,
        matching: Match,
        action: Option<Action>,
        carried: Carried,
        now: Instant,
    ) -> FlowStatsEntry {
        let age = now - self.created;
        FlowStatsEntry {
            table: TABLE,
            matching,
            priority,
            cookie: 0,
            duration_ns: age.as_millis() as u64 * 1_000_000,
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            idle_age_s: carried.used.map_or(age, |used| now - used).as_secs(),
            hard_age_s: age.as_secs(),
            importance: 0,
            flags: FlowFlags::empty(),
            packets: carried.packets,
            bytes: carried.bytes,
            actions: action.into_iter().collect(),
        }
    }
}
