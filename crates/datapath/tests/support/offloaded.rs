//! A switch with a device in front of it that forwards by itself, for the cases of connection tracking
//! (`testdata/conntrack/*.toml`). Packets go to the device first; those that it does not forward go through
//! the datapath, which offers connections. The resulting connection fields must be the same as without the
//! device.
//!
//! The crates of such devices include this file, and beside it `support` of the crate `conntrack`.

#[path = "case_tables.rs"]
mod case_tables;

use crate::support::case::{Device, failures, put_back};
use base::{Instant, PortNo};
pub use case_tables::FIRST_IN;
use case_tables::{CaseTables, CaseWorker};
use conntrack::{Config, Conntrack, WindowsKept};
use datapath::WorkerConfig;
use flow::{
    Action, ConnectionRef, CtAction, FlowOffload, Frame, OffloadId, OffloadOffer, OffloadRule,
    OffloadTraffic, WindowCheck,
};
use packet::{Checksum, Packet};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The number of input devices, one for each action of a case.
pub const DEVICES: u32 = 12;
pub const MTU: u32 = 9000;

/// Cases whose results differ with offload to a device that does not check windows, all for the same reason: once it
/// forwards packets of a connection, a segment outside its windows is not invalid.
pub const NOT_WITH_OFFLOAD: [&str; 10] = [
    "RSTs around what is due",
    "a window that shrinks",
    "an acknowledgement of what was never sent",
    "data sent again is taken one window back and no further",
    "the edge of a window scaled by 0",
    "the edge of a window scaled by 1",
    "the edge of a window scaled by 7",
    "the edge of a window scaled by 14",
    "windows are scaled where both sides offer it",
    "windows that the two sides scale differently",
];

/// A device that forwards frames by its rules.
pub trait Forwards {
    /// The device, as the switch knows it.
    fn offload(&mut self) -> &mut dyn FlowOffload;

    /// Processes a frame from a port. Returns whether it was forwarded, and its bytes afterwards.
    fn try_frame(&mut self, port: PortNo, frame: &[u8]) -> Option<(bool, Vec<u8>)>;

    /// Permits a port as an output.
    fn send_to(&mut self, port: PortNo);

    /// Whether it checks the windows of connections that are installed in both directions together.
    fn checks_windows(&self) -> bool {
        false
    }

    /// The mark of the frame that was processed last.
    fn mark(&self) -> u32 {
        0
    }
}

/// A switch whose flow tables track packets, behind a device.
pub struct Switch<'a, D: Forwards> {
    conntrack: Arc<Conntrack>,
    state: RefCell<State>,
    device: &'a Mutex<D>,
    forwarded: &'a AtomicU64,
}

struct State {
    worker: CaseWorker,
    tables: CaseTables,
    rules: BTreeMap<OffloadId, (Vec<ConnectionRef>, PortNo)>,
    /// Directions that wait for the other one, by connection and direction.
    parked: BTreeMap<(u32, bool), OffloadRule>,
    /// The other direction of connections whose windows the device checks.
    checked: BTreeMap<OffloadId, (OffloadId, WindowsKept)>,
}

impl<'a, D: Forwards> Switch<'a, D> {
    /// Returns a switch without connections.
    pub fn new(config: Config, device: &'a Mutex<D>, forwarded: &'a AtomicU64) -> Self {
        let conntrack = Arc::new(Conntrack::new(7, config));
        let config = WorkerConfig { offers: true, ..WorkerConfig::default() };
        let worker = CaseWorker::new(&conntrack, 0, config);
        let state = State {
            worker,
            tables: CaseTables::default(),
            rules: BTreeMap::new(),
            parked: BTreeMap::new(),
            checked: BTreeMap::new(),
        };
        Switch { conntrack, state: RefCell::new(state), device, forwarded }
    }

    fn device(&self) -> std::sync::MutexGuard<'_, D> {
        self.device.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Removes rules that are no longer valid, as the control thread does.
    fn sweep(&self, state: &mut State, now: Instant) {
        let mut device = self.device();
        let ids: Vec<OffloadId> = state.rules.keys().copied().collect();
        for id in ids {
            let Some((connections, _)) = state.rules.get(&id) else { continue };
            let status = device.offload().status(id);
            let is_same = self.note(connections, now, status.traffic);
            if let (Some(windows), Some((_, kept))) = (status.windows, state.checked.get(&id)) {
                let is_checked = self.conntrack.with_offloaded(now, |it| {
                    it.advance(kept, &windows);
                    it.checks_windows(kept)
                });
                assert!(device.offload().set_checked(id, is_checked));
            }
            if is_same && !status.is_ended {
                continue;
            }
            let mut ends = vec![id];
            if let Some((partner, kept)) = state.checked.remove(&id) {
                state.checked.remove(&partner);
                ends.push(partner);
                let windows = device.offload().end_checked(id).unwrap();
                self.conntrack.with_offloaded(now, |it| it.advance(&kept, &windows));
            }
            for id in ends {
                device.offload().remove(id);
                state.rules.remove(&id);
            }
        }
    }

    /// Installs a direction with the other one if the device may check their windows. Returns the rules that are to be
    /// installed alone.
    fn pair(&self, state: &mut State, now: Instant, rule: OffloadRule) -> Vec<OffloadRule> {
        let mut device = self.device();
        if !device.checks_windows() {
            return vec![rule];
        }
        let ConnectionRef { id, is_reply, .. } = rule.connection;
        let windows = self.conntrack.with_offloaded(now, |it| it.windows(rule.connection));
        let (Some((kept, windows)), WindowCheck::Possible) =
            (windows, device.offload().window_check(&rule))
        else {
            return vec![rule];
        };
        let Some(other) = state.parked.remove(&(id, !is_reply)) else {
            state.parked.insert((id, is_reply), rule);
            return Vec::new();
        };
        if other.connection.generation != rule.connection.generation {
            return vec![rule];
        }
        let mut rules = [&rule, &other];
        rules.rotate_left(is_reply.into());
        let Ok(ids) = device.offload().install_checked(rules, &windows) else {
            return vec![rule, other];
        };
        for (nth, rule) in rules.into_iter().enumerate() {
            let Some(Action::Output(out)) = rule.actions.last() else { panic!("it is checked") };
            state.rules.insert(ids[nth], (vec![rule.connection], *out));
            state.checked.insert(ids[nth], (ids[1 - nth], kept));
        }
        Vec::new()
    }

    fn note(&self, connections: &[ConnectionRef], now: Instant, traffic: OffloadTraffic) -> bool {
        let note = |it: &ConnectionRef| {
            self.conntrack.with_offloaded(now, |offloaded| offloaded.note(*it, traffic))
        };
        connections.iter().map(note).fold(true, |all, one| all & one)
    }

    /// Offers a packet to the device. Returns the frame that it forwarded, if it did.
    fn forward(
        &self,
        state: &mut State,
        now: Instant,
        port: PortNo,
        packet: &[u8],
    ) -> Option<Frame> {
        let mut device = self.device();
        let (is_forwarded, bytes) = device.try_frame(port, packet)?;
        if !is_forwarded {
            assert_eq!(bytes, packet, "it is passed up as it came");
            return None;
        }
        self.forwarded.fetch_add(1, Ordering::Relaxed);
        let mut left_by = None;
        for (id, (connections, out)) in &state.rules {
            let traffic = device.offload().status(*id).traffic;
            if traffic.packets > 0 {
                assert!(self.note(connections, now, traffic), "it was swept a moment ago");
                assert_eq!(left_by.replace(*out), None, "one rule forwarded it");
            }
        }
        Some(state.tables.leaves(left_by.expect("a rule forwarded it"), Packet::from_bytes(&bytes)))
    }

    /// Installs the rules that the worker offers.
    fn install(&self, state: &mut State, now: Instant) {
        let offers = state.worker.bench.worker.take_offers().unwrap_or_default();
        for OffloadOffer { rule, .. } in offers {
            let Some(&Action::Output(out)) = rule.actions.last() else { continue };
            // The table of the switch refuses a second rule of a direction.
            if state.rules.values().any(|(known, _)| known.first() == Some(&rule.connection)) {
                continue;
            }
            self.device().send_to(out);
            let check = |it| self.conntrack.with_offloaded(now, |offloaded| offloaded.check(it));
            if rule.connections().any(|it| check(it).is_err()) {
                continue;
            }
            for rule in self.pair(state, now, rule) {
                self.install_alone(state, now, &rule);
            }
        }
    }

    fn install_alone(&self, state: &mut State, now: Instant, rule: &OffloadRule) {
        let Some(&Action::Output(out)) = rule.actions.last() else { return };
        let mut device = self.device();
        // The device does not expire rules here.
        let Ok(id) = device.offload().install(rule, std::time::Duration::MAX) else { return };
        if device.offload().only_marks(id).is_some() {
            device.offload().remove(id);
            return;
        }
        let begin = |it| self.conntrack.with_offloaded(now, |offloaded| offloaded.begin(it));
        rule.connections().for_each(begin);
        state.rules.insert(id, (rule.connections().collect(), out));
    }
}

impl<D: Forwards> Deref for Switch<'_, D> {
    type Target = Conntrack;

    fn deref(&self) -> &Conntrack {
        &self.conntrack
    }
}

impl<D: Forwards> Device for Switch<'_, D> {
    fn track(&self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame> {
        let mut state = self.state.borrow_mut();
        let before = frame.packet.data().to_vec();
        let nth = state.tables.number_of_action(action);
        self.sweep(&mut state, now);
        let is_fresh = frame.key.ct_state().is_empty();
        // Checksum offload flags do not reach the device in these tests.
        let is_plain = frame.packet.offload.checksum == Checksum::Unverified;
        if is_fresh
            && is_plain
            && nth < DEVICES
            && let Some(sent) = self.forward(&mut state, now, PortNo(FIRST_IN + nth), &before)
        {
            *frame = sent;
            return Vec::new();
        }
        frame.packet.mark = self.device().mark();
        let State { worker, tables, .. } = &mut *state;
        let sent = tables.send(worker, now, action, frame);
        self.install(&mut state, now);
        put_back(sent, frame, &before)
    }
}

impl<D: Forwards> Drop for Switch<'_, D> {
    fn drop(&mut self) {
        let mut device = self.device.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for id in self.state.get_mut().rules.keys() {
            device.offload().remove(*id);
        }
    }
}

/// Runs all cases with a device. Exactly these cases must fail.
pub fn check_all(device: &Mutex<impl Forwards>, differ: &[&str]) {
    let forwarded = AtomicU64::new(0);
    let failed = failures(|config| Switch::new(config, device, &forwarded));
    let failed: BTreeSet<&str> =
        failed.iter().map(|it| it.split_once(": ").map_or(&**it, |(_, name)| name)).collect();
    let expect: BTreeSet<&str> = differ.iter().copied().collect();
    assert_eq!(failed, expect);
    let forwarded = forwarded.into_inner();
    // Most cases end soon after their connection is established, so few packets are offloaded.
    assert!(forwarded > 10, "the device forwarded {forwarded} packets");
}
