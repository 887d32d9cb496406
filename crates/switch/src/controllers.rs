//! Controllers of bridges: their connections, and a bridge's behaviour without one.

use super::Switch;
use super::configure::versions;
use super::openflow_tasks::{self, Service};
use crate::stream::Target;
use control::{BridgeSettings, Controller, ControllerKind};
use ofproto::connection::{Rate, Settings};
use ofproto::{BridgeId, ControllerState};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The default port of OpenFlow controllers (IANA).
const OPENFLOW_PORT: u16 = 6653;
/// How long a bridge without probes waits before it fails open. Open vSwitch counts whole seconds, and waits for the first
/// one (ovs: `ofproto/fail-open.c`, `fail_open_run`).
const FAIL_OPEN_MIN: Duration = Duration::from_secs(1);

impl Switch {
    /// Applies a bridge's controllers: connects new ones, disconnects removed ones, and updates the settings
    /// of the others.
    pub(super) fn set_controllers(&mut self, name: &str, settings: &BridgeSettings) {
        let Some(id) = self.bridge_id(name) else { return };
        let Some(mut running) = self.configured.bridges.remove(name) else { return };
        running.controllers.retain(|target, task| {
            let stays = settings.controllers.iter().any(|c| c.target == *target);
            if !stays {
                task.abort();
            }
            stays
        });
        for controller in &settings.controllers {
            if !self.is_restoring
                && !running.controllers.contains_key(&controller.target)
                && let Some(task) = self.start_controller(id, controller, settings)
            {
                running.controllers.insert(controller.target.clone(), task);
            }
        }
        self.configured.bridges.insert(name.to_owned(), running);
        let sessions = &self.configured.sessions;
        for (session, (_, target)) in sessions.iter().filter(|(_, to)| to.0 == id) {
            match settings.controllers.iter().find(|c| c.target == *target) {
                Some(to) => {
                    self.connections.reconfigure(*session, session_settings(to, settings));
                }
                None => self.connections.remove(*session),
            }
        }
        self.controllers_changed(id);
    }

    /// Starts the controllers that waited until flows were restored.
    pub(super) fn start_controllers(&mut self) {
        let bridges = self.configured.bridges.iter();
        let all: Vec<_> = bridges.map(|(name, run)| (name.clone(), run.settings.clone())).collect();
        for (name, settings) in all {
            self.set_controllers(&name, &settings);
        }
    }

    /// Returns the current settings of a controller.
    pub(super) fn controller_of(
        &self,
        service: &Service,
    ) -> Option<(&Controller, &BridgeSettings)> {
        let target = service.target.as_ref()?;
        let mut bridges = self.configured.bridges.values();
        let settings = &bridges.find(|running| running.id == service.bridge)?.settings;
        let controller = settings.controllers.iter().find(|c| c.target == *target)?;
        Some((controller, settings))
    }

    fn start_controller(
        &mut self,
        bridge: BridgeId,
        controller: &Controller,
        settings: &BridgeSettings,
    ) -> Option<JoinHandle<()>> {
        let target = match Target::parse(&controller.target, OPENFLOW_PORT)
            .map(|target| target.beside(&self.settings.run_dir))
        {
            Ok(target) => target,
            Err(error) => {
                log::error!(target: "bridge", "controller: {error}");
                return None;
            }
        };
        let bridge_name = self.ofproto.bridge(bridge).map(|b| b.config.name.clone())?;
        if let Err(why) = self.settings.confine(&target, &bridge_name) {
            log::error!(target: "bridge", "bridge {bridge_name}: {why}");
            return None;
        }
        let tls = self.tls().clone();
        let sessions = session_settings(controller, settings);
        let target_name = Some(controller.target.clone());
        let service =
            Service { bridge, name: bridge_name, settings: sessions, target: target_name };
        self.spawn(|shared| match target.is_passive() {
            true => openflow_tasks::listen(shared, target, &tls, service),
            false => openflow_tasks::connect(shared, target, service),
        })
    }

    /// Updates a bridge after a change of its controllers' connections. A bridge that fails open takes over
    /// three probe intervals after it lost its last primary controller (ovs: `ofproto/fail-open.c`).
    pub fn controllers_changed(&mut self, id: BridgeId) {
        let now = clock::now();
        let Some(name) = self.ofproto.bridge(id).map(|b| b.config.name.clone()) else { return };
        let connected = self.configured.sessions.iter().any(|(session, (bridge, target))| {
            let status = self.connections.status(*session);
            *bridge == id && !target.starts_with('p') && status.is_some_and(|s| s.is_connected())
        });
        let Some(running) = self.configured.bridges.get_mut(&name) else { return };
        let controllers = running.settings.controllers.iter();
        let primary = controllers.filter(|c| c.kind == ControllerKind::Primary);
        let probe_ms = primary.map(|c| c.probe_ms).max();
        running.alone_since = match connected || probe_ms.is_none() {
            true => None,
            false => running.alone_since.or(Some(now)),
        };
        let patience = Duration::from_millis(3 * u64::from(probe_ms.unwrap_or(0)));
        let alone = running.alone_since.map(|since| now - since);
        let is_standalone = running.settings.fail_mode == ofproto::FailMode::Standalone;
        let fail_open = is_standalone && alone.is_some_and(|it| it >= patience.max(FAIL_OPEN_MIN));
        running.fail_open.tell(&name, fail_open, alone.unwrap_or_default());
        let state = ControllerState {
            configured: probe_ms.is_some(),
            fail_open,
            wants_misses: self.connections.wants_misses(id),
            connected,
        };
        self.ofproto.set_controllers(id, state, now);
    }

    /// Sends misses to a controller that requests them, from the next one on.
    pub(super) fn watch_misses(&mut self) {
        let bridges = self.configured.bridges.values().map(|bridge| bridge.id);
        let is_other = |id: &BridgeId| {
            let told = self.ofproto.bridge(*id).map(|bridge| bridge.controllers().wants_misses);
            told.is_some_and(|told| told != self.connections.wants_misses(*id))
        };
        let changed: Vec<BridgeId> = bridges.filter(is_other).collect();
        changed.into_iter().for_each(|id| self.controllers_changed(id));
    }

    /// Lets bridges without controllers take over when it is due. Called periodically.
    pub(super) fn watch_controllers(&mut self) {
        let ids: Vec<BridgeId> = self.configured.bridges.values().map(|b| b.id).collect();
        ids.into_iter().for_each(|id| self.controllers_changed(id));
    }
}

/// Returns the settings of sessions with a controller.
pub(super) fn session_settings(controller: &Controller, bridge: &BridgeSettings) -> Settings {
    let probe_ms = u64::from(controller.probe_ms);
    // The burst's default is Open vSwitch's (ovs: `ofproto/pinsched.c`).
    let rate = controller.rate_limit_pps.filter(|per_s| *per_s > 0).map(|per_s| Rate {
        per_s,
        burst: controller.burst_limit.filter(|burst| *burst > 0).unwrap_or(per_s / 4).max(1),
    });
    Settings {
        versions: versions(bridge),
        probe: (probe_ms > 0).then(|| Duration::from_millis(probe_ms)),
        queue: controller.queue_size.unwrap_or(bridge.controller_queue_size) as usize,
        rate,
        is_async: controller.async_messages,
        ..Settings::controller()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_the_settings_of_its_controller() {
        let bridge = BridgeSettings { controller_queue_size: 64, ..BridgeSettings::default() };
        let plain = Controller::new("tcp:10.0.0.1");
        let unset = session_settings(&plain, &bridge);
        assert_eq!(unset.probe, Some(Duration::from_secs(5)));
        assert_eq!((unset.queue, unset.is_async, unset.rate), (64, true, None));
        let set = Controller {
            probe_ms: 0,
            queue_size: Some(9),
            async_messages: false,
            rate_limit_pps: Some(200),
            burst_limit: Some(70),
            ..plain.clone()
        };
        let given = session_settings(&set, &bridge);
        assert_eq!((given.probe, given.queue, given.is_async), (None, 9, false));
        assert_eq!(given.rate, Some(Rate { per_s: 200, burst: 70 }));
        // The default burst is a quarter of the rate; a rate of 0 is unlimited.
        let rate = |rate_limit_pps| {
            let controller = Controller { rate_limit_pps, burst_limit: None, ..plain.clone() };
            session_settings(&controller, &bridge).rate
        };
        assert_eq!(rate(Some(200)), Some(Rate { per_s: 200, burst: 50 }));
        assert_eq!(rate(Some(1)), Some(Rate { per_s: 1, burst: 1 }));
        assert_eq!(rate(Some(0)), None);
    }
}
