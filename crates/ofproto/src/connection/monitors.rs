//! Flow monitors: updates about the flows that a peer watches (ovs: `ofproto/connmgr.c`, `ofmonitor_report`;
//! `ofproto/ofproto.c`, `handle_flow_monitor_request`).
//!
//! The changes of one request go into one message. When too many updates wait to be written, monitoring
//! pauses: the peer is notified and receives only deletions until it has read everything, and then the
//! additions and changes that it missed.

use super::dumps::{Dump, Since};
use super::session::Session;
use super::{Connections, Switch};
use crate::Ofproto;
use crate::events::FlowChange;
use crate::ids::BridgeId;
use crate::rule::{Rule, outputs_to};
use crate::table::is_within;
use base::limits;
use flow::OptionMapping;
use openflow::message::{
    FlowEvent, FlowMonitor, FlowMonitorCommand, FlowMonitorFlags as Flags, FlowUpdate, Message,
    StatsReply, WatchedFlow,
};
use openflow::{ErrorCode, OfError};
use std::collections::BTreeMap;

/// Maximum number of monitors per connection.
const MONITORS: usize = 4096;
/// Bytes of updates that may wait before monitoring pauses.
const WAITING_BYTES: usize = 128 << 10;

/// The flow monitors of a connection.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    by_id: BTreeMap<u32, FlowMonitor>,
    /// The changes made by the current request.
    updates: Vec<FlowUpdate>,
    /// Whether the connection's own changes are sent in abbreviated form.
    is_abbreviated: bool,
    /// Bytes of updates in the output.
    waiting_bytes: usize,
    /// The [`Rule::order`] of the last change sent.
    last_order: u64,
    /// The last change before monitoring paused, while it is paused.
    paused: Option<u64>,
}

impl Monitors {
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The peer has taken all updates.
    pub fn written(&mut self) {
        self.waiting_bytes = 0;
    }

    fn begin(&mut self, monitor: &FlowMonitor) -> Result<(), OfError> {
        if self.by_id.contains_key(&monitor.id) {
            return Err(refused(ErrorCode::MonitorExists, monitor.id, "is there already"));
        }
        if self.by_id.len() >= MONITORS {
            return Err(refused(ErrorCode::RequestEperm, monitor.id, "is one too many"));
        }
        self.by_id.insert(monitor.id, monitor.clone());
        Ok(())
    }

    fn end(&mut self, id: u32) -> Result<FlowMonitor, OfError> {
        let unknown = || refused(ErrorCode::MonitorUnknown, id, "is not there");
        self.by_id.remove(&id).ok_or_else(unknown)
    }

    fn carry_out(&mut self, requests: &[FlowMonitor]) -> Result<(), OfError> {
        for monitor in requests {
            let table = monitor.flows.table.filter(|it| usize::from(it.0) >= limits::TABLES);
            if let Some(table) = table {
                let what = format!("watches table {table}, which is not there");
                return Err(refused(ErrorCode::BadTableId, monitor.id, &what));
            }
            match monitor.command {
                FlowMonitorCommand::Add => self.begin(monitor)?,
                FlowMonitorCommand::Modify => {
                    self.end(monitor.id)?;
                    self.begin(monitor)?;
                }
                FlowMonitorCommand::Delete => {
                    self.end(monitor.id)?;
                }
            }
        }
        Ok(())
    }

    /// Records an update for the monitors that watch such a change.
    fn note(&mut self, change: &FlowChange, is_own: bool) {
        let rule = &change.flow;
        self.last_order = self.last_order.max(rule.order);
        let removed = matches!(change.event, FlowEvent::Removed(_));
        if self.paused.is_some_and(|at| !removed || rule.added > at) {
            return;
        }
        let watching = self.by_id.values().filter(|monitor| watches(monitor, change));
        let flags = watching.fold(Flags::empty(), |flags, monitor| flags | monitor.flags);
        if flags.is_empty() {
            return;
        }
        if !is_own || flags.contains(Flags::OWN) || self.paused.is_some() {
            let with_actions = flags.contains(Flags::ACTIONS);
            self.updates.push(update(change.event, rule, &change.options, with_actions));
        } else if !self.is_abbreviated {
            self.is_abbreviated = true;
            self.updates.push(FlowUpdate::Abbreviated { xid: change.xid });
        }
    }
}

/// The update about a flow that monitor number `at` of a request found, unless one before it did: each flow is told
/// once, with its actions if one of the monitors wants them.
pub(super) fn initial(
    monitors: &[FlowMonitor],
    at: usize,
    since: Since,
    rule: &Rule,
    options: &[OptionMapping],
) -> Option<FlowUpdate> {
    let event = monitors.get(at).and_then(|monitor| since.event(monitor, rule))?;
    let tells = |monitor: &FlowMonitor| {
        let flows = &monitor.flows;
        since.event(monitor, rule).is_some()
            && flows.table.is_none_or(|table| table == rule.table)
            && rule.is_asked(flows)
            && is_within(&rule.matching.unpack(), &flows.matching)
    };
    if monitors.len() > 1 && monitors[..at].iter().any(tells) {
        return None;
    }
    let mut all = monitors.iter().enumerate().filter(|(n, it)| *n == at || tells(it));
    let with_actions = all.any(|(_, monitor)| monitor.flags.contains(Flags::ACTIONS));
    Some(update(event, rule, options, with_actions))
}

impl Since {
    /// The event of a flow that is there, if a monitor tells of it.
    fn event(self, monitor: &FlowMonitor, rule: &Rule) -> Option<FlowEvent> {
        let flags = monitor.flags;
        match self {
            Since::Begin => flags.contains(Flags::INITIAL).then_some(FlowEvent::Initial),
            Since::Pause(at) if rule.added > at => {
                flags.intersects(Flags::ADD | Flags::MODIFY).then_some(FlowEvent::Added)
            }
            Since::Pause(at) => {
                let is_told = rule.order > at && flags.contains(Flags::MODIFY);
                is_told.then_some(FlowEvent::Modified)
            }
        }
    }
}

fn refused(code: ErrorCode, id: u32, what: &str) -> OfError {
    OfError::new(code, format!("flow monitor {id:#x} {what}"))
}

/// Whether a monitor reports the change. The output port is compared before and after it.
fn watches(monitor: &FlowMonitor, change: &FlowChange) -> bool {
    let (flows, rule, before) = (&monitor.flows, &change.flow, change.before.as_deref());
    let kind = match change.event {
        FlowEvent::Initial => Flags::INITIAL,
        FlowEvent::Added => Flags::ADD,
        FlowEvent::Removed(_) => Flags::REMOVED,
        FlowEvent::Modified => Flags::MODIFY,
    };
    monitor.flags.contains(kind)
        && flows.table.is_none_or(|table| table == rule.table)
        && rule.sends_to(flows.out_group)
        && (rule.outputs_to(flows.out_port)
            || before.is_some_and(|it| outputs_to(it, flows.out_port)))
        && is_within(&rule.matching.unpack(), &flows.matching)
}

fn update(
    event: FlowEvent,
    rule: &Rule,
    options: &[OptionMapping],
    with_actions: bool,
) -> FlowUpdate {
    let flow = WatchedFlow {
        table: rule.table,
        matching: rule.matching.unpack().with_options_apart(options),
        priority: rule.priority,
        cookie: rule.cookie,
        idle_timeout_s: rule.idle_timeout_s,
        hard_timeout_s: rule.hard_timeout_s,
        actions: if with_actions { rule.actions.to_vec() } else { Vec::new() },
    };
    FlowUpdate::Flow { event, flow: Box::new(flow) }
}

impl Connections {
    /// Ends a flow monitor.
    pub(super) fn cancel_monitor(
        &mut self,
        session: &mut Session,
        id: u32,
        core: &mut Ofproto,
    ) -> Result<(), OfError> {
        session.monitors.end(id)?;
        self.watch(session.bridge, &session.monitors, core);
        Ok(())
    }

    /// Adds, changes and cancels monitors: all that a request names, or none. Replies with the existing
    /// flows.
    pub(super) fn change_monitors(
        &mut self,
        session: &mut Session,
        requests: &[FlowMonitor],
        switch: &mut Switch<'_>,
    ) -> Result<Dump, OfError> {
        let mut placed = requests.to_vec();
        for monitor in &mut placed {
            let flows = switch.core.placed_request(session.bridge, &monitor.flows)?;
            monitor.flows = flows.into_owned();
        }
        let requests = &placed[..];
        let before = session.monitors.by_id.clone();
        if let Err(error) = session.monitors.carry_out(requests) {
            session.monitors.by_id = before;
            return Err(error);
        }
        self.watch(session.bridge, &session.monitors, switch.core);
        let begun = requests.iter().filter(|it| it.command != FlowMonitorCommand::Delete);
        let begun: Vec<FlowMonitor> = begun.cloned().collect();
        Ok(Dump::of_watched(session.bridge, begun, Since::Begin, switch.core))
    }

    /// Enables reports of flow changes while a session watches them.
    pub(super) fn watch(&self, bridge: BridgeId, monitors: &Monitors, core: &mut Ofproto) {
        let mut others = self.sessions.values().filter(|session| session.bridge == bridge);
        let is_watched = !monitors.is_empty() || others.any(|other| !other.monitors.is_empty());
        core.watch_flows(bridge, is_watched);
    }
}

impl Session {
    /// A flow of the bridge was added, changed or removed.
    pub fn note_change(&mut self, change: &FlowChange, is_own: bool) {
        if !self.monitors.is_empty() {
            self.monitors.note(change, is_own);
        }
    }

    /// Sends the changes of a request, which may be over, and pauses if too much output waits.
    pub fn send_updates(&mut self, is_over: bool) {
        if self.is_told_later {
            return;
        }
        self.monitors.is_abbreviated &= !is_over;
        let updates = std::mem::take(&mut self.monitors.updates);
        if updates.is_empty() {
            return;
        }
        self.monitors.waiting_bytes += self.send_reply(updates);
        if self.monitors.paused.is_none() && self.monitors.waiting_bytes > WAITING_BYTES {
            self.monitors.paused = Some(self.monitors.last_order);
            self.send_reply(vec![FlowUpdate::Paused]);
        }
    }

    /// Sends the changes that were left out while monitoring was paused, if it was. The peer has read everything else.
    pub fn resume_monitors(&mut self, core: &Ofproto) -> Option<Dump> {
        let paused = self.monitors.paused.take()?;
        let monitors = self.monitors.by_id.values().cloned().collect();
        Some(Dump::of_watched(self.bridge, monitors, Since::Pause(paused), core))
    }

    /// Sends a part of the flows that are there: as parts of a reply, or by themselves.
    pub fn tell_part(&mut self, xid: u32, updates: Vec<FlowUpdate>, is_reply: bool) {
        let sent = match is_reply {
            true => {
                let message = Message::StatsReply(StatsReply::FlowMonitor(updates));
                self.reply_part(xid, &message);
                0
            }
            false => self.send_reply(updates),
        };
        self.monitors.waiting_bytes += sent;
    }

    /// Sends the message. Returns its length in the output.
    fn send_reply(&mut self, updates: Vec<FlowUpdate>) -> usize {
        let Some(version) = self.version() else { return 0 };
        self.write(version, 0, &Message::StatsReply(StatsReply::FlowMonitor(updates)))
    }
}
