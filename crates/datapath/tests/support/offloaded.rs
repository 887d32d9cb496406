//! A switch with a device before it that forwards by itself, for the cases of connection tracking
//! (`testdata/conntrack/*.toml`): packets go to the device first, and those that it does not forward through the
//! datapath, which offers connections. What is then known of a packet must be the same as without.
//!
//! The crates of such devices include this file, and beside it `support` of the crate `conntrack`.

use crate::support::case::{Device, failures, put_back};
use base::{Instant, PortNo, RecircId, WorkerId};
use conntrack::{Config, Conntrack};
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{
    Action, ConnectionRef, CtAction, Execute, Field, FlowCommand, FlowId, FlowKey, FlowOffload,
    FlowPut, Frame, Mask, Match, OffloadId, OffloadOffer, OffloadTraffic, Refusal, Upcall,
};
use packet::{Batch, Checksum, Packet};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Packets that are to be tracked by the nth action come in on this port and the nth after it.
pub const FIRST_IN: u32 = 1000;
/// Devices that they come in on, one for each action of a case.
pub const DEVICES: u32 = 12;
/// Packets of which the nth thing is known leave by this port and the nth after it.
const FIRST_OUT: u32 = 100_000;
/// The words of a key that connection tracking fills in.
const CT_WORDS: std::ops::Range<usize> = 1..9;
pub const MTU: u32 = 9000;

/// Cases that are different with offload, all in one thing: a segment outside the windows of a connection
/// of which a device forwards packets is not invalid.
pub const NOT_WITH_OFFLOAD: [&str; 13] = [
    "RSTs around what is due",
    "a window that shrinks",
    "an acknowledgement of what was never sent",
    "data sent again is taken one window back and no further",
    "random 13.29",
    "scaling that only the client offers is not used",
    "the edge of a window scaled by 0",
    "the edge of a window scaled by 1",
    "the edge of a window scaled by 7",
    "the edge of a window scaled by 14",
    "the window check can be turned off and on",
    "windows are scaled where both sides offer it",
    "windows that the two sides scale differently",
];

/// A device that tests give frames to.
pub trait Forwards: FlowOffload {
    /// What becomes of a frame from a port: whether it is forwarded, and how it is then.
    fn try_frame(&mut self, port: PortNo, frame: &[u8]) -> Option<(bool, Vec<u8>)>;

    /// Makes a port one that packets may be sent to.
    fn send_to(&mut self, port: PortNo);
}

/// A switch whose tables track, with a device before it.
pub struct Switch<'a, D: Forwards> {
    conntrack: Arc<Conntrack>,
    tables: RefCell<Tables>,
    device: &'a Mutex<D>,
    forwarded: &'a AtomicU64,
}

struct Tables {
    worker: Worker,
    out: Outbox,
    upcalls: Arc<UpcallQueue>,
    installed: HashSet<Match>,
    /// What packets are tracked by.
    actions: Vec<CtAction>,
    /// What is known of packets: the words of their keys.
    known: Vec<Vec<u64>>,
    rules: BTreeMap<OffloadId, (Vec<ConnectionRef>, PortNo)>,
}

impl<'a, D: Forwards> Switch<'a, D> {
    /// One without connections.
    pub fn new(config: Config, device: &'a Mutex<D>, forwarded: &'a AtomicU64) -> Self {
        let conntrack = Arc::new(Conntrack::new(7, config));
        let upcalls = Arc::new(UpcallQueue::new());
        let tracker = conntrack.tracker().expect("one thread is not too many");
        let config = WorkerConfig { offers: true, ..WorkerConfig::default() };
        let worker = Worker::new(WorkerId(0), tracker, Arc::clone(&upcalls), config, 7);
        let tables = Tables {
            worker,
            out: Outbox::new(),
            upcalls,
            installed: HashSet::new(),
            actions: Vec::new(),
            known: Vec::new(),
            rules: BTreeMap::new(),
        };
        Switch { conntrack, tables: RefCell::new(tables), device, forwarded }
    }

    fn device(&self) -> std::sync::MutexGuard<'_, D> {
        self.device.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes out rules that hold no more, as the control thread does.
    fn sweep(&self, tables: &mut Tables, now: Instant) {
        let mut device = self.device();
        let ids: Vec<OffloadId> = tables.rules.keys().copied().collect();
        for id in ids {
            let status = device.status(id);
            let connections = &tables.rules[&id].0;
            if !self.note(connections, now, status.traffic) || status.is_ended {
                device.remove(id);
                tables.rules.remove(&id);
            }
        }
    }

    fn note(&self, connections: &[ConnectionRef], now: Instant, traffic: OffloadTraffic) -> bool {
        let note = |it: &ConnectionRef| {
            self.conntrack.with_offloaded(now, |offloaded| offloaded.note(*it, traffic))
        };
        connections.iter().map(note).fold(true, |all, one| all & one)
    }

    /// Lets the device forward a packet; where it leaves.
    fn forward(
        &self,
        tables: &mut Tables,
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
        for (id, (connections, out)) in &tables.rules {
            let traffic = device.status(*id).traffic;
            if traffic.packets > 0 {
                assert!(self.note(connections, now, traffic), "it was swept a moment ago");
                assert_eq!(left_by.replace(*out), None, "one rule forwarded it");
            }
        }
        Some(tables.leaves(left_by.expect("a rule forwarded it"), Packet::from_bytes(&bytes)))
    }

    /// Installs what the worker offers.
    fn install(&self, tables: &mut Tables, now: Instant) {
        for OffloadOffer { rule, .. } in tables.worker.take_offers().unwrap_or_default() {
            let Some(Action::Output(out)) = rule.actions.last() else { continue };
            let mut device = self.device();
            device.send_to(*out);
            let connections: Vec<ConnectionRef> = rule.connections().collect();
            let check = |it: &ConnectionRef| {
                self.conntrack.with_offloaded(now, |offloaded| offloaded.check(*it))
            };
            let idle: Result<Vec<_>, Refusal> = connections.iter().map(check).collect();
            // Time is not the device's here.
            let Ok(id) = idle.and_then(|_| device.install(&rule, std::time::Duration::MAX)) else {
                continue;
            };
            let begin = |it: &ConnectionRef| {
                self.conntrack.with_offloaded(now, |offloaded| offloaded.begin(*it))
            };
            connections.iter().for_each(begin);
            tables.rules.insert(id, (connections, *out));
        }
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
        let mut tables = self.tables.borrow_mut();
        let before = frame.packet.data().to_vec();
        let nth = tables.number_of_action(action);
        self.sweep(&mut tables, now);
        let is_fresh = frame.key.ct_state().is_empty();
        // What a device said of checksums does not reach the device in these tests.
        let is_plain = frame.packet.offload.checksum == Checksum::Unverified;
        if is_fresh
            && is_plain
            && nth < DEVICES
            && let Some(sent) = self.forward(&mut tables, now, PortNo(FIRST_IN + nth), &before)
        {
            *frame = sent;
            return Vec::new();
        }
        let sent = tables.send(now, action, nth, frame);
        self.install(&mut tables, now);
        put_back(sent, frame, &before)
    }
}

impl<D: Forwards> Drop for Switch<'_, D> {
    fn drop(&mut self) {
        let mut device = self.device.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for id in self.tables.get_mut().rules.keys() {
            device.remove(*id);
        }
    }
}

impl Tables {
    fn number_of_action(&mut self, action: &CtAction) -> u32 {
        let known = self.actions.iter().position(|known| known == action);
        known.unwrap_or_else(|| {
            self.actions.push(action.clone());
            self.actions.len() - 1
        }) as u32
    }

    /// Sends a frame through the tables.
    fn send(&mut self, now: Instant, action: &CtAction, nth: u32, frame: &mut Frame) -> Vec<Frame> {
        let packet = std::mem::replace(&mut frame.packet, Packet::from_bytes(&[]));
        if frame.key.ct_state().is_empty() {
            let mut batch: Batch = [packet].into_iter().collect();
            self.worker.receive(now, PortNo(FIRST_IN + nth), &mut batch, &mut self.out);
        } else {
            let (key, actions) = (frame.key.clone(), track_by(action, nth));
            let execute = Execute { packet, key, actions, trace: None, stamps: None };
            self.worker.command(now, FlowCommand::Execute(Box::new(execute)), &mut self.out);
        }
        let (mut sent, mut waiting) = (Vec::new(), Vec::new());
        loop {
            self.take_sent(&mut sent);
            self.upcalls.pop(64, &mut waiting);
            if waiting.is_empty() {
                return sent;
            }
            for upcall in waiting.drain(..) {
                self.answer(now, upcall);
                self.take_sent(&mut sent);
            }
        }
    }

    /// A packet that leaves by a port, with what that says of it.
    fn leaves(&self, port: PortNo, packet: Packet) -> Frame {
        let mut frame = Frame::parse(packet, PortNo(1)).expect("whole headers");
        frame.key.words_mut()[CT_WORDS].copy_from_slice(&self.known[(port.0 - FIRST_OUT) as usize]);
        frame
    }

    fn take_sent(&mut self, sent: &mut Vec<Frame>) {
        let mut taken: Vec<(PortNo, Packet)> = Vec::new();
        for (port, batch) in self.out.batches_mut() {
            taken.extend(batch.drain(..).map(|packet| (port, packet)));
        }
        sent.extend(taken.into_iter().map(|(port, packet)| self.leaves(port, packet)));
    }

    fn answer(&mut self, now: Instant, upcall: Upcall) {
        let Upcall { key, packet, .. } = upcall;
        let mut mask = Mask::of(Field::RecircId);
        let actions = if key.recirc_id() == RecircId(0) {
            let always = [Field::InPort, Field::EthType, Field::NwFrag];
            always.into_iter().for_each(|field| mask.add(field));
            let nth = key.in_port().0 - FIRST_IN;
            track_by(&self.actions[nth as usize], nth)
        } else {
            let words = [Field::CtIpv6Src, Field::CtIpv6Dst, Field::CtTpSrc, Field::CtTpDst];
            words.into_iter().for_each(|field| mask.add(field));
            let more = [Field::CtState, Field::CtZone, Field::CtMark, Field::CtLabel];
            more.into_iter().chain([Field::CtNwProto]).for_each(|field| mask.add(field));
            [Action::Output(PortNo(FIRST_OUT + self.number_of(&key)))].into()
        };
        let matching = Match::new(&key, &mask);
        if self.installed.insert(matching.clone()) {
            let id = FlowId(self.installed.len() as u64);
            let put = FlowPut { id, matching, actions: Arc::clone(&actions) };
            self.worker.command(now, FlowCommand::Put(Box::new(put)), &mut self.out);
        }
        let execute = Execute { packet, key, actions, trace: None, stamps: None };
        self.worker.command(now, FlowCommand::Execute(Box::new(execute)), &mut self.out);
    }

    fn number_of(&mut self, key: &FlowKey) -> u32 {
        let words = &key.words()[CT_WORDS];
        let known = self.known.iter().position(|known| known == words);
        known.unwrap_or_else(|| {
            self.known.push(words.to_vec());
            self.known.len() - 1
        }) as u32
    }
}

fn track_by(action: &CtAction, nth: u32) -> Arc<[Action]> {
    [Action::Ct(Box::new(action.clone())), Action::Recirc(RecircId(nth + 1))].into()
}

/// Runs all cases with a device: those fail that are different with offload, and no other.
pub fn check_all(device: &Mutex<impl Forwards>) {
    let forwarded = AtomicU64::new(0);
    let failed = failures(|config| Switch::new(config, device, &forwarded));
    let failed: BTreeSet<&str> =
        failed.iter().map(|it| it.split_once(": ").map_or(&**it, |(_, name)| name)).collect();
    let expect: BTreeSet<&str> = NOT_WITH_OFFLOAD.into_iter().collect();
    assert_eq!(failed, expect);
    let forwarded = forwarded.into_inner();
    // Most cases end soon after a connection is established.
    assert!(forwarded > 15, "the device forwarded {forwarded} packets");
}
