//! TCP connections whose windows the device checks: both directions are installed and removed together, and
//! the connection takes over the windows of the device.

use super::{Changes, Table, Waiting, direction, only};
use base::Instant;
use conntrack::{Conntrack, WindowsKept};
use flow::{FlowOffload, OffloadId, OffloadRefusal, Refusal, TcpWindows, WindowCheck};
use std::collections::HashMap;
use std::time::Duration;

/// How long a direction waits for the other one before it is offloaded alone.
const PAIR_WAIT: Duration = Duration::from_millis(500);
/// How long windows stay unchecked after the device returned them. A worker that judges a segment at that
/// moment stores values that it read before; a repeated change after this time persists.
const SETTLE: Duration = Duration::from_millis(50);

/// Connections being installed in or returned from the device.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Directions that wait for the other one, with their start times.
    parked: HashMap<(u32, bool), (Instant, Waiting)>,
    settling: Vec<Settling>,
}

/// The pair of an installed rule whose connection the device checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    /// The rule of the other direction.
    partner: OffloadId,
    kept: WindowsKept,
}

/// A connection whose windows the device has returned.
#[derive(Debug)]
pub(super) struct Settling {
    kept: WindowsKept,
    windows: TcpWindows,
    since: Instant,
}

impl Settling {
    /// Returns whether all workers have seen that windows are unchecked.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.since + SETTLE
    }
}

impl Pairs {
    /// Returns the number of directions that wait for the other one.
    pub fn len(&self) -> usize {
        self.parked.len()
    }

    /// Removes the waiting directions for which `keeps` is false.
    pub fn retain(&mut self, keeps: impl Fn(&Waiting) -> bool) {
        self.parked.retain(|_, (_, waiting)| keeps(waiting));
    }
}

impl Table {
    /// Returns the number of connections whose windows the device checks.
    pub fn checked(&self) -> usize {
        self.rules.values().filter(|held| held.checked.is_some()).count() / 2
    }

    /// Installs directions alone that waited too long for the other one.
    pub(super) fn give_up_pairs(&mut self, now: Instant, changes: &Changes) {
        let is_over = |since: Instant| now >= since + PAIR_WAIT;
        let alone: Vec<_> = self.pairs.parked.extract_if(|_, (since, _)| is_over(*since)).collect();
        for (_, (_, waiting)) in alone {
            // No state may be kept of deleted flows.
            if !changes.are_none_since(waiting.seen, &waiting.offer) {
                self.refuse(&waiting.offer, &Refusal::FlowChanged.into());
                continue;
            }
            self.refuse(&waiting.offer, &unchecked("the other direction was not offered in time"));
            self.waiting.push_front(Waiting { is_alone: true, ..waiting });
        }
    }

    /// Installs a direction together with the other one if the device may check their windows, or makes it
    /// wait for the other one. Returns it if it is to be installed alone.
    pub(super) fn pair(
        &mut self,
        device: &mut dyn FlowOffload,
        conntrack: &Conntrack,
        now: Instant,
        changes: &Changes,
        waiting: Waiting,
    ) -> Option<Waiting> {
        if waiting.is_alone {
            return Some(waiting);
        }
        let rule = &waiting.offer.rule;
        match device.window_check(rule) {
            WindowCheck::Never => return Some(waiting),
            WindowCheck::Refused(refusal) => {
                self.refuse(&waiting.offer, &only(Refusal::Unchecked, &refusal));
                return Some(waiting);
            }
            WindowCheck::Possible => {}
        }
        let here = direction(rule.connection);
        let there = (here.0, !here.1);
        if self.directions.contains_key(&there) {
            let refusal = unchecked("the other direction is offloaded already");
            self.refuse(&waiting.offer, &refusal);
            return Some(waiting);
        }
        if let Some((_, partner)) = self.pairs.parked.remove(&there) {
            match partner.check(conntrack, now, changes) {
                Ok(_) => return self.install_pair(device, conntrack, now, [waiting, partner]),
                Err(refusal) => self.refuse(&partner.offer, &refusal.into()),
            }
        }
        self.pairs.parked.insert(here, (now, waiting));
        None
    }

    /// Installs both directions. If the device does not check their windows, returns the first one, to be
    /// installed alone, and puts the other one at the head of the waiting offers.
    fn install_pair(
        &mut self,
        device: &mut dyn FlowOffload,
        conntrack: &Conntrack,
        now: Instant,
        [waiting, partner]: [Waiting; 2],
    ) -> Option<Waiting> {
        let connection = waiting.offer.rule.connection;
        self.settle(conntrack, now, |it| it.kept.id() == connection.id);
        let windows = conntrack.with_offloaded(now, |it| it.windows(connection));
        let is_reply = connection.is_reply;
        let installed = windows.ok_or_else(|| unchecked("its handshake was not seen")).and_then(
            |(kept, windows)| {
                let mut rules = [&waiting.offer.rule, &partner.offer.rule];
                rules.rotate_left(is_reply.into());
                let ids = device.install_checked(rules, &windows);
                ids.map(|ids| (ids, kept)).map_err(|it| only(Refusal::Unchecked, &it))
            },
        );
        match installed {
            Ok((mut ids, kept)) => {
                ids.rotate_left(is_reply.into());
                let checked = |partner| Some(Checked { partner, kept });
                self.hold(ids[0], waiting.offer, true, checked(ids[1]));
                self.hold(ids[1], partner.offer, true, checked(ids[0]));
                None
            }
            Err(refusal) => {
                self.refuse(&waiting.offer, &refusal);
                self.refuse(&partner.offer, &refusal);
                self.waiting.push_front(Waiting { is_alone: true, ..partner });
                Some(waiting)
            }
        }
    }

    /// Advances a connection's windows to those of the device. Returns whether the device's checks match the
    /// settings.
    pub(super) fn follow_windows(
        &self,
        device: &mut dyn FlowOffload,
        conntrack: &Conntrack,
        now: Instant,
        id: OffloadId,
        windows: &TcpWindows,
    ) -> bool {
        let Some(checked) = self.rules.get(&id).and_then(|it| it.checked) else { return true };
        let is_checked = conntrack.with_offloaded(now, |it| {
            it.advance(&checked.kept, windows);
            it.checks_windows(&checked.kept)
        });
        is_checked == windows.is_checked || device.set_checked(id, is_checked)
    }

    /// Removes the rule of the other direction when one of a pair is about to be removed. The switch checks
    /// the windows again; until it has the device's last ones, it does not check them.
    pub(super) fn end_pair(
        &mut self,
        device: &mut dyn FlowOffload,
        conntrack: &Conntrack,
        now: Instant,
        (id, Checked { partner, kept }): (OffloadId, Checked),
    ) {
        let was_checked = conntrack.with_offloaded(now, |it| it.loosen(&kept));
        // If the device lost the windows they stay unchecked, as after offload without checks.
        if let Some(windows) = device.end_checked(id)
            && was_checked
        {
            conntrack.with_offloaded(now, |it| it.advance(&kept, &windows));
            self.pairs.settling.push(Settling { kept, windows, since: now });
        }
        if let Some(held) = self.rules.get_mut(&partner) {
            held.checked = None;
            self.remove(device, partner, conntrack, now);
        }
    }

    /// Resumes window checks of connections whose windows the device returned.
    pub(super) fn settle(
        &mut self,
        conntrack: &Conntrack,
        now: Instant,
        is_meant: impl Fn(&Settling) -> bool,
    ) {
        let meant: Vec<Settling> = self.pairs.settling.extract_if(.., |it| is_meant(it)).collect();
        for Settling { kept, windows, .. } in meant {
            let has_rule = |is_reply| self.directions.contains_key(&(kept.id(), is_reply));
            conntrack.with_offloaded(now, |it| {
                it.advance(&kept, &windows);
                // The device may forward its packets again without checking windows.
                if ![false, true].into_iter().any(has_rule) {
                    it.tighten(&kept);
                }
            });
        }
    }
}

/// The refusal if the device was not asked to check windows.
fn unchecked(words: &str) -> OffloadRefusal {
    OffloadRefusal { kind: Refusal::Unchecked, words: Some(words.into()) }
}

#[cfg(test)]
mod tests;
