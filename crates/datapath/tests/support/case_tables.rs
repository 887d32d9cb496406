//! Flow tables for the cases of connection tracking (`testdata/conntrack/*.toml`): they track each packet, and
//! show what is then known of it by the port that it leaves by.

#[path = "bench.rs"]
mod bench;

use base::{Instant, PortNo, RecircId};
use bench::Bench;
use conntrack::Conntrack;
use datapath::WorkerConfig;
use flow::{Action, CtAction, Execute, Field, FlowCommand, FlowKey, Frame, Mask, Match, Upcall};
use packet::Packet;
use std::collections::HashSet;
use std::sync::Arc;

/// Packets for the nth action come in on this port plus n.
pub const FIRST_IN: u32 = 1000;
/// Packets with the nth content of connection fields leave by this port plus n.
const FIRST_OUT: u32 = 100_000;
/// The words of a key that connection tracking writes.
const CT_WORDS: std::ops::Range<usize> = 1..9;

/// A worker, with the flows that are installed in it.
pub struct CaseWorker {
    pub bench: Bench,
    installed: HashSet<Match>,
}

impl CaseWorker {
    /// A worker without flows.
    pub fn new(conntrack: &Arc<Conntrack>, id: u16, config: WorkerConfig) -> Self {
        CaseWorker { bench: Bench::with(conntrack, id, config), installed: HashSet::new() }
    }
}

/// The tables. Their flows are made when packets miss.
#[derive(Default)]
pub struct CaseTables {
    /// The actions that packets are tracked by.
    actions: Vec<CtAction>,
    /// The contents of packets' connection fields.
    known: Vec<Vec<u64>>,
}

impl CaseTables {
    /// Returns the number of an action.
    pub fn number_of_action(&mut self, action: &CtAction) -> u32 {
        number_in(&mut self.actions, action)
    }

    /// Sends a frame through a worker. A frame that was tracked before takes the way of packets that the
    /// control thread executes.
    pub fn send(
        &mut self,
        to: &mut CaseWorker,
        now: Instant,
        action: &CtAction,
        frame: &mut Frame,
    ) -> Vec<Frame> {
        let nth = self.number_of_action(action);
        let packet = std::mem::replace(&mut frame.packet, Packet::from_bytes(&[]));
        to.bench.now = now;
        if frame.key.ct_state().is_empty() {
            to.bench.receive(FIRST_IN + nth, [packet]);
        } else {
            let (key, actions) = (Box::new(frame.key.clone()), track_by(action, nth));
            execute(&mut to.bench, packet, key, actions);
        }
        let mut sent = Vec::new();
        loop {
            self.take_sent(to, &mut sent);
            let waiting = to.bench.misses();
            if waiting.is_empty() {
                return sent;
            }
            for upcall in waiting {
                self.answer(to, upcall);
                self.take_sent(to, &mut sent);
            }
        }
    }

    /// Returns a packet that leaves by a port as a frame with the connection fields that the port stands for.
    pub fn leaves(&self, port: PortNo, packet: Packet) -> Frame {
        let mut frame = Frame::parse(packet, PortNo(1)).expect("whole headers");
        frame.key.words_mut()[CT_WORDS].copy_from_slice(&self.known[(port.0 - FIRST_OUT) as usize]);
        frame
    }

    fn take_sent(&self, from: &mut CaseWorker, sent: &mut Vec<Frame>) {
        let packets = from.bench.take_sent().into_iter();
        sent.extend(packets.map(|(port, packet)| self.leaves(port, packet)));
    }

    fn answer(&mut self, to: &mut CaseWorker, upcall: Upcall) {
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
        if to.installed.insert(matching.clone()) {
            to.bench.put(to.installed.len() as u64, matching, Arc::clone(&actions));
        }
        execute(&mut to.bench, packet, key, actions);
    }

    /// Returns the number of the key's connection fields.
    fn number_of(&mut self, key: &FlowKey) -> u32 {
        number_in(&mut self.known, &key.words()[CT_WORDS].to_vec())
    }
}

fn execute(bench: &mut Bench, packet: Packet, key: Box<FlowKey>, actions: Arc<[Action]>) {
    let execute = Execute { packet, key, actions, flow: None, trace: None, stamps: None };
    bench.command(FlowCommand::Execute(execute));
}

/// Returns the position of an item, which is added if it is missing.
fn number_in<T: Clone + PartialEq>(list: &mut Vec<T>, item: &T) -> u32 {
    let known = list.iter().position(|known| known == item);
    known.unwrap_or_else(|| {
        list.push(item.clone());
        list.len() - 1
    }) as u32
}

fn track_by(action: &CtAction, nth: u32) -> Arc<[Action]> {
    [Action::Ct(Box::new(action.clone())), Action::Recirc(RecircId(nth + 1))].into()
}
