//! Dumps of many flows in parts: replies to requests for flows and their sums, and the flows that a monitor begins with.

use super::jobs::Progress;
use super::session::Session;
use super::{Switch, monitors};
use crate::ids::BridgeId;
use crate::selection::Selection;
use crate::statistics::Aggregate;
use crate::{Ofproto, Rule};
use openflow::message::{
    FlowFlags, FlowMonitor, FlowStatsEntry, FlowStatsRequest, FlowUpdate, Message, StatsReply,
};
use std::mem;
use std::sync::Arc;

/// A dump. It reads the flows of the time when it began; their counters are those of the time of sending.
#[derive(Debug)]
pub(super) struct Dump {
    bridge: BridgeId,
    selection: Option<Selection>,
    of: Of,
}

#[derive(Debug)]
enum Of {
    /// Flows, and then the hidden ones.
    Flows {
        hidden: Vec<FlowStatsEntry>,
        nicira: bool,
    },
    Sum {
        sum: Aggregate,
        nicira: bool,
    },
    /// The flows of these monitors, of which the selection is that of the one at `at`.
    Watched {
        monitors: Vec<FlowMonitor>,
        at: usize,
        since: Since,
    },
}

/// Which flows a monitor is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Since {
    /// All, when it begins.
    Begin,
    /// Those added or changed after this one ([`Rule::order`]), after a pause.
    Pause(u64),
}

impl Dump {
    /// A reply with flows.
    pub fn of_flows(
        bridge: BridgeId,
        request: &FlowStatsRequest,
        nicira: bool,
        switch: &Switch<'_>,
    ) -> Dump {
        let hidden = switch.core.hidden(bridge, request, switch.now);
        Dump::new(bridge, request, Of::Flows { hidden, nicira }, switch.core)
    }

    /// A reply with their sums.
    pub fn of_sum(
        bridge: BridgeId,
        request: &FlowStatsRequest,
        nicira: bool,
        switch: &Switch<'_>,
    ) -> Dump {
        let mut sum = Aggregate::default();
        for row in switch.core.hidden(bridge, request, switch.now) {
            sum.flows += 1;
            sum.packets += row.packets;
            sum.bytes += row.bytes;
        }
        Dump::new(bridge, request, Of::Sum { sum, nicira }, switch.core)
    }

    /// Updates about flows for these monitors; none for no monitors.
    pub fn of_watched(
        bridge: BridgeId,
        monitors: Vec<FlowMonitor>,
        since: Since,
        core: &Ofproto,
    ) -> Dump {
        let selection = monitors.first().and_then(|it| core.visible(bridge, &it.flows));
        Dump { bridge, selection, of: Of::Watched { monitors, at: 0, since } }
    }

    fn new(bridge: BridgeId, request: &FlowStatsRequest, of: Of, core: &Ofproto) -> Dump {
        Dump { bridge, selection: core.visible(bridge, request), of }
    }

    /// Sends a part, until all steps are spent.
    pub fn go_on(
        &mut self,
        session: Option<&mut Session>,
        xid: u32,
        left: &mut usize,
        switch: &mut Switch<'_>,
    ) -> Progress {
        let Some(session) = session else { return self.end(switch.core, None) };
        if matches!(self.of, Of::Watched { .. }) {
            return self.watch_on(session, xid, left, switch);
        }
        let (mut flows, now) = (Vec::new(), switch.now);
        let has_more = self.selection.as_mut().is_some_and(|selection| {
            selection.go_on(left, |rule| match &mut self.of {
                Of::Sum { sum, .. } => sum.add(rule),
                Of::Flows { .. } | Of::Watched { .. } => flows.push(rule.stats(now)),
            })
        });
        for flow in &mut flows {
            let matching = mem::take(&mut flow.matching);
            flow.matching = switch.core.told_match(self.bridge, matching);
        }
        match &mut self.of {
            Of::Flows { nicira, .. } if has_more => {
                if !flows.is_empty() {
                    let reply = StatsReply::Flow { flows, nicira: *nicira };
                    session.reply_part(xid, &Message::StatsReply(reply));
                }
                Progress::Goes
            }
            _ if has_more => Progress::Goes,
            Of::Flows { hidden, nicira } => {
                flows.append(hidden);
                let reply = StatsReply::Flow { flows, nicira: *nicira };
                self.end(switch.core, Some(reply))
            }
            Of::Sum { sum: Aggregate { packets, bytes, flows }, nicira } => {
                let (packets, bytes, flows, nicira) = (*packets, *bytes, *flows, *nicira);
                self.end(switch.core, Some(StatsReply::Aggregate { packets, bytes, flows, nicira }))
            }
            Of::Watched { .. } => Progress::Goes,
        }
    }

    fn watch_on(
        &mut self,
        session: &mut Session,
        xid: u32,
        left: &mut usize,
        switch: &mut Switch<'_>,
    ) -> Progress {
        let Of::Watched { monitors, at, since } = &mut self.of else { return Progress::Goes };
        // What changes meanwhile is told after this.
        session.is_told_later = true;
        let bridge = switch.core.bridges().get(self.bridge);
        let options = bridge.map(|it| Arc::clone(&it.tunnel_options)).unwrap_or_default();
        let mut updates = Vec::new();
        while *left > 0
            && let Some(selection) = &mut self.selection
        {
            let has_more = selection.go_on(left, |rule| {
                updates.extend(monitors::initial(&monitors[..], *at, *since, rule, &options));
            });
            if has_more {
                break;
            }
            let next = monitors.get(*at + 1);
            let next = next.and_then(|next| switch.core.visible(self.bridge, &next.flows));
            *at += 1;
            let ended = mem::replace(&mut self.selection, next);
            ended.into_iter().for_each(|it| switch.core.free(it));
        }
        let (has_more, since) = (self.selection.is_some(), *since);
        if since == Since::Begin && !has_more {
            return Progress::Ended(Ok(Some(Message::StatsReply(StatsReply::FlowMonitor(
                updates,
            )))));
        }
        if !updates.is_empty() {
            session.tell_part(xid, updates, since == Since::Begin);
        }
        match has_more {
            true => Progress::Goes,
            false => {
                session.tell_part(xid, vec![FlowUpdate::Resumed], false);
                Progress::Ended(Ok(None))
            }
        }
    }

    fn end(&mut self, core: &mut Ofproto, reply: Option<StatsReply>) -> Progress {
        self.selection.take().into_iter().for_each(|it| core.free(it));
        Progress::Ended(Ok(reply.map(Message::StatsReply)))
    }

    /// Frees the snapshot a part at a time.
    pub fn hand_over(self, core: &mut Ofproto) {
        self.selection.into_iter().for_each(|it| core.free(it));
    }
}

impl Aggregate {
    /// Adds a flow; uncounted packets are left out (ovs: `ofproto/ofproto.c`, `handle_aggregate_stats_request`).
    pub(crate) fn add(&mut self, rule: &Rule) {
        self.flows += 1;
        let count = |flag, count| if rule.flags.contains(flag) { 0 } else { count };
        self.packets += count(FlowFlags::NO_PKT_COUNTS, rule.carried.packets());
        self.bytes += count(FlowFlags::NO_BYT_COUNTS, rule.carried.bytes());
    }
}
