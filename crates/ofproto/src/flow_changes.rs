//! Changes of flows, for the flow monitors of OpenFlow connections.

use crate::Ofproto;
use crate::events::{Event, FlowChange};
use crate::ids::BridgeId;
use crate::rule::Rule;
use openflow::action::Action;
use openflow::message::FlowEvent;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The bridges whose changes are reported.
#[derive(Debug, Default)]
pub(crate) struct FlowChanges {
    watched: BTreeSet<BridgeId>,
    /// The transaction id of the current request.
    xid: u32,
}

impl Ofproto {
    /// Turns [`Event::FlowChanged`] for a bridge on or off.
    pub(crate) fn watch_flows(&mut self, bridge: BridgeId, is_watched: bool) {
        if is_watched {
            self.flow_changes.watched.insert(bridge);
        } else {
            self.flow_changes.watched.remove(&bridge);
        }
    }

    /// Sets the request that makes the following changes.
    pub(crate) fn set_request(&mut self, xid: u32) {
        self.flow_changes.xid = xid;
    }

    /// Reports a change, if a session watches the bridge. `before` holds the previous actions.
    pub(crate) fn report_change(
        &mut self,
        event: FlowEvent,
        flow: &Rule,
        before: Option<Arc<[Action]>>,
    ) {
        if self.flow_changes.watched.contains(&flow.bridge) {
            let (flow, xid) = (flow.clone(), self.flow_changes.xid);
            let bridge = self.bridges.get(flow.bridge);
            let options =
                bridge.map_or_else(|| Arc::new([]) as _, |it| Arc::clone(&it.tunnel_options));
            let change = FlowChange { event, flow, before, options, xid };
            self.events.push(Event::FlowChanged(Box::new(change)));
        }
    }
}
