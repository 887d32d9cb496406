//! The state machines of all ports, and when each must run. Work is proportional to the machines that are due.

use crate::bfd::Identity;
use crate::line::Line;
use crate::monitor::{Monitor, Outgoing, Report, Settings};
use base::Instant;
use flow::{MonitorId, ToProtocol};
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// The state machines of all ports.
#[derive(Debug)]
pub struct Monitors {
    ports: HashMap<MonitorId, Scheduled>,
    timers: BTreeSet<(Instant, MonitorId)>,
    /// The ports whose report changed.
    changed: BTreeSet<MonitorId>,
    /// The lines of the log that were not taken yet.
    lines: Vec<Line>,
    random: fastrand::Rng,
    discriminators: BTreeSet<u32>,
    sessions: u32,
}

#[derive(Debug)]
struct Scheduled {
    monitor: Monitor,
    due: Option<Instant>,
}

impl Monitors {
    /// No ports. The seed makes discriminators and the intervals between frames unpredictable.
    pub fn new(seed: u64) -> Monitors {
        Monitors {
            ports: HashMap::new(),
            timers: BTreeSet::new(),
            changed: BTreeSet::new(),
            lines: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            discriminators: BTreeSet::new(),
            sessions: 0,
        }
    }

    /// Adds a port, or changes its settings. Without a protocol it is removed.
    pub fn configure(&mut self, now: Instant, id: MonitorId, settings: Settings) {
        if settings.bfd.is_none() {
            return self.remove(id);
        }
        let identity = self.identity(id);
        match self.ports.get_mut(&id) {
            Some(scheduled) => scheduled.monitor.configure(now, settings, identity),
            None => {
                let monitor = Monitor::new(now, settings, identity);
                self.ports.insert(id, Scheduled { monitor, due: None });
            }
        }
        self.schedule(id);
    }

    /// A discriminator that no other session of the switch has, though the peers need only unique ones of each port.
    fn identity(&mut self, id: MonitorId) -> Identity {
        let seed = self.random.u64(..);
        if self.ports.get(&id).is_some_and(|it| it.monitor.bfd().is_some()) {
            return Identity { discriminator: 0, number: 0, seed };
        }
        self.sessions = self.sessions.wrapping_add(1);
        loop {
            let discriminator = self.random.u32(1..);
            if self.discriminators.insert(discriminator) {
                return Identity { discriminator, number: self.sessions - 1, seed };
            }
        }
    }

    /// Removes a port.
    pub fn remove(&mut self, id: MonitorId) {
        let Some(Scheduled { mut monitor, due }) = self.ports.remove(&id) else { return };
        self.lines.append(&mut monitor.take_lines());
        if let Some(bfd) = monitor.bfd() {
            self.discriminators.remove(&bfd.discriminator());
        }
        if let Some(due) = due {
            self.timers.remove(&(due, id));
        }
        self.changed.remove(&id);
    }

    /// Passes a frame to its machine.
    pub fn receive(&mut self, now: Instant, to: ToProtocol, frame: &[u8]) {
        if let Some(scheduled) = self.ports.get_mut(&to.monitor) {
            scheduled.monitor.receive(now, to.protocol, frame);
            self.schedule(to.monitor);
        }
    }

    /// Tells a port's machines how many packets it received.
    pub fn count(&mut self, now: Instant, id: MonitorId, received: u64) {
        if let Some(scheduled) = self.ports.get_mut(&id) {
            scheduled.monitor.count(now, received);
            self.schedule(id);
        }
    }

    /// Runs at most `ports_max` machines that are due, with the number of packets that their ports received, as far as
    /// it is known. Frames to send are appended to `out`.
    pub fn run(
        &mut self,
        now: Instant,
        ports_max: usize,
        mut received: impl FnMut(MonitorId) -> Option<u64>,
        out: &mut Vec<(MonitorId, Outgoing)>,
    ) {
        for _ in 0..ports_max {
            let Some(&(due, id)) = self.timers.first().filter(|(due, _)| *due <= now) else {
                return;
            };
            self.timers.remove(&(due, id));
            let Some(scheduled) = self.ports.get_mut(&id) else { continue };
            scheduled.due = None;
            let monitor = &mut scheduled.monitor;
            if monitor.needs_count()
                && let Some(received) = received(id)
            {
                monitor.count(now, received);
            }
            monitor.run(now, |frame| out.push((id, frame)));
            self.schedule(id);
        }
    }

    /// Returns when [`Self::run`] is to be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Notes when a machine is due, and what it reports.
    fn schedule(&mut self, id: MonitorId) {
        let Some(Scheduled { monitor, due }) = self.ports.get_mut(&id) else { return };
        let next = monitor.next_timeout();
        if next != *due {
            if let Some(due) = *due {
                self.timers.remove(&(due, id));
            }
            self.timers.extend(next.map(|next| (next, id)));
            *due = next;
        }
        if monitor.take_changed() {
            self.changed.insert(id);
        }
        self.lines.append(&mut monitor.take_lines());
    }

    /// Whether [`Self::take_changes`] returns something.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Returns the reports that changed since the last call.
    pub fn take_changes(&mut self) -> Vec<(MonitorId, Report)> {
        let changed = std::mem::take(&mut self.changed);
        let report = |id: MonitorId| Some((id, self.ports.get(&id)?.monitor.report()));
        changed.into_iter().filter_map(report).collect()
    }

    /// Takes what the log should say.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// Returns all ports' machines.
    pub fn iter(&self) -> impl Iterator<Item = &Monitor> {
        self.ports.values().map(|scheduled| &scheduled.monitor)
    }

    /// Makes the port with this name, or all, forward or not whatever BFD says, or ends that. Returns whether there is
    /// such a session.
    pub fn force_bfd(&mut self, now: Instant, name: Option<&str>, forced: Option<bool>) -> bool {
        let ids = self.ports.iter().filter(|(_, it)| {
            it.monitor.bfd().is_some() && name.is_none_or(|name| it.monitor.name() == name)
        });
        let ids: Vec<MonitorId> = ids.map(|(id, _)| *id).collect();
        for id in &ids {
            if let Some(bfd) = self.ports.get_mut(id).and_then(|it| it.monitor.bfd_mut()) {
                bfd.set_forwarding(now, forced);
            }
            self.schedule(*id);
        }
        !ids.is_empty()
    }
}

#[cfg(test)]
mod tests;
