//! OpenFlow sessions, as the tasks of their sockets use them.

use super::openflow_tasks::Service;
use super::{Switch, configure, controllers};
use control::Controller;
use ofproto::connection::{CloseReason, ConnId, ConnectionKind};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

impl Switch {
    /// Starts a session on a new connection. Returns its number, and what is notified of output; `None` for a snoop
    /// connection if no controller is configured.
    pub fn open_session(&mut self, service: &Service) -> Option<(ConnId, Rc<Notify>)> {
        let bridge = service.bridge;
        let mut settings = service.settings;
        // The bridge's versions may have changed since its listener was started.
        let running = self.configured.bridges.values().find(|running| running.id == bridge);
        if let Some(running) = running {
            settings.versions = configure::versions(&running.settings);
            if settings.kind == ConnectionKind::Snoop && !running.has_primary_controller() {
                vlog::limited!(
                    (1, 5), clock::now(), target: "connmgr", log::Level::Info,
                    "no controller connection to snoop"
                );
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
        Some((id, output))
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

    /// Returns what a session's task does next. It takes output if all earlier output is written, or if the connection
    /// is to be closed.
    pub fn session_turn(&mut self, id: ConnId, is_written: bool) -> Turn {
        let closing = self.connections.is_closing(id).cloned();
        let output = match is_written || closing.is_some() {
            true => self.connections.take_output(id, &self.ofproto),
            false => Vec::new(),
        };
        if !output.is_empty() && self.connections.has_requests(id) {
            self.with_sessions(|sessions, switch| sessions.resume(id, switch));
            self.settle();
        } else if self.connections.has_work() {
            // Output may have made room for more.
            self.upkeep_wake.notify_one();
        }
        let wants_input = self.connections.wants_input(id);
        Turn { output, closing, wants_input, is_idle: self.connections.is_idle(id) }
    }

    /// Continues a request that lasts, and work on many megaflows, by a bounded step.
    pub fn keep_up(&mut self) {
        if self.connections.has_work() {
            self.with_sessions(|sessions, switch| {
                sessions.go_on(switch);
            });
            // Its task reads on.
            let went_on = self.outputs.get(&self.connections.went_on());
            went_on.into_iter().for_each(|output| output.notify_one());
            self.watch_misses();
        }
        self.settle();
    }

    /// The peer of a session took bytes.
    pub fn session_written(&mut self, id: ConnId) {
        self.connections.note_written(id, clock::now());
    }

    /// Records how a connection to a controller, or an attempt at one, ended.
    pub fn controller_failed(&mut self, service: &Service, error: Option<String>) {
        if let Some(target) = service.target.clone() {
            let history = self.configured.history.entry((service.bridge, target)).or_default();
            history.last_error = error;
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

/// What a session's task does next.
pub struct Turn {
    /// Bytes to write.
    pub output: Vec<u8>,
    /// Why to close the connection then, if it is to be closed.
    pub closing: Option<CloseReason>,
    /// Whether to read.
    pub wants_input: bool,
    /// Whether all that was received is handled and answered.
    pub is_idle: bool,
}
