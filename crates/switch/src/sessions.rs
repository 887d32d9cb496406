//! OpenFlow sessions, as the tasks of their sockets use them.

use super::openflow_tasks::{Service, Session};
use super::{Switch, configure, controllers};
use control::Controller;
use ofproto::connection::{ConnId, ConnectionKind};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

impl Switch {
    /// Starts a session on a new connection. Returns `None` for a snoop connection if no controller is
    /// configured.
    pub fn open_session(&mut self, service: &Service) -> Option<Session> {
        let bridge = service.bridge;
        let mut settings = service.settings;
        // The bridge's versions may have changed since its listener was started.
        let running = self.configured.bridges.values().find(|running| running.id == bridge);
        if let Some(running) = running {
            settings.versions = configure::versions(&running.settings);
            if settings.kind == ConnectionKind::Snoop && !running.has_primary_controller() {
                log::info!(target: "connmgr", "no controller connection to snoop");
                return None;
            }
        }
        if let Some((controller, bridge)) = self.controller_of(service) {
            settings = controllers::session_settings(controller, bridge);
        }
        let id = self.connections.open(bridge, settings, clock::now());
        let output = Rc::new(Notify::new());
        self.outputs.insert(id, Rc::clone(&output));
        if let Some(target) = &service.target {
            self.configured.sessions.insert(id, (bridge, target.clone()));
            let history = self.configured.history.entry((bridge, target.clone())).or_default();
            // The last error is kept until there is another one (ovs: `lib/rconn.c`).
            history.connected = Some(clock::now());
        }
        self.controllers_changed(bridge);
        Some(Session { id, output })
    }

    /// Returns the longest wait between two attempts to connect to a controller: whole seconds, at least one
    /// (ovs: `vswitchd/bridge.c`, `bridge_configure_remotes`).
    pub fn backoff_max(&self, service: &Service) -> Duration {
        let controller = self.controller_of(service).map(|(controller, _)| controller);
        let wait_ms = controller.map_or(Controller::MAX_BACKOFF_MS, |c| c.max_backoff_ms);
        Duration::from_secs((wait_ms / 1000).max(1).into())
    }

    /// Processes bytes received by a session.
    pub fn session_input(&mut self, id: ConnId, bytes: &[u8]) {
        self.with_sessions(|sessions, switch| sessions.receive(id, bytes, switch));
        self.watch_misses();
        self.settle();
    }

    /// Returns whether more input should be read for a session.
    pub fn session_wants_input(&self, id: ConnId) -> bool {
        self.connections.wants_input(id)
    }

    /// Returns the bytes to send for a session, and whether to close the connection then.
    pub fn session_output(&mut self, id: ConnId) -> (Vec<u8>, bool) {
        let output = self.connections.take_output(id, &self.ofproto);
        (output, self.connections.is_closing(id).is_some())
    }

    /// Records a failed attempt to connect to a controller.
    pub fn controller_failed(&mut self, service: &Service, error: String) {
        if let Some(target) = service.target.clone() {
            let history = self.configured.history.entry((service.bridge, target)).or_default();
            history.last_error = Some(error);
        }
    }

    /// Ends a session.
    pub fn close_session(&mut self, id: ConnId) {
        self.connections.close(id, &mut self.ofproto);
        self.outputs.remove(&id);
        if let Some((bridge, target)) = self.configured.sessions.remove(&id) {
            let history = self.configured.history.entry((bridge, target)).or_default();
            history.disconnected = Some(clock::now());
            self.controllers_changed(bridge);
        }
        self.settle();
    }
}
