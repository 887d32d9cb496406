//! What the database shows of controllers.

use super::Switch;
use base::Instant;
use control::{Controller, ControllerKind, ControllerStatus};
use ofproto::BridgeId;
use std::collections::BTreeMap;

impl Switch {
    /// Reports changes of controllers' connections, and statistics that are due. Called periodically.
    pub fn report_controllers(&mut self) {
        let statuses = self.controller_statuses();
        let connected: Vec<bool> = statuses.values().map(|status| status.is_connected).collect();
        if connected != self.configured.connected {
            self.configured.connected = connected;
            self.mark_stale();
        }
        self.report();
    }

    /// Returns the status of all controllers, by bridge and target.
    pub(super) fn controller_statuses(&self) -> BTreeMap<(String, String), ControllerStatus> {
        let mut statuses = BTreeMap::new();
        for (name, bridge) in &self.desired.bridges {
            let Some(id) = self.bridge_id(name) else { continue };
            for controller in &bridge.settings.controllers {
                let key = (name.clone(), controller.target.clone());
                statuses.insert(key, self.controller_status(id, controller));
            }
        }
        statuses
    }

    /// Returns the status of a controller. For a passive target no connection is reported (ovs:
    /// `ofproto/connmgr.c`, `ofproto_get_controller_info`).
    fn controller_status(&self, id: BridgeId, controller: &Controller) -> ControllerStatus {
        if controller.kind == ControllerKind::Service {
            return ControllerStatus { is_connected: false, role: None, status: BTreeMap::new() };
        }
        let sessions = self.configured.sessions.iter();
        let mut own = sessions.filter(|(_, to)| to.0 == id && to.1 == controller.target);
        let found = own.find_map(|(session, _)| self.connections.status(*session));
        let connected = found.filter(|status| status.is_connected());
        let history = self.configured.history.get(&(id, controller.target.clone()));
        let history = history.cloned().unwrap_or_default();
        let seconds = |at: Option<Instant>| at.map(|at| (clock::now() - at).as_secs().to_string());
        let state = if connected.is_some() { "ACTIVE" } else { "BACKOFF" };
        let facts = [
            ("state", Some(state.to_owned())),
            ("sec_since_connect", seconds(history.connected)),
            ("sec_since_disconnect", seconds(history.disconnected)),
            ("last_error", history.last_error),
        ];
        let status = facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?)));
        ControllerStatus {
            is_connected: connected.is_some(),
            role: connected.map(|status| controller_role(status.role)),
            status: status.collect(),
        }
    }
}

fn controller_role(role: openflow::message::Role) -> control::ControllerRole {
    match role {
        openflow::message::Role::Primary => control::ControllerRole::Primary,
        openflow::message::Role::Secondary => control::ControllerRole::Secondary,
        _ => control::ControllerRole::Other,
    }
}
