//! Handlers: answer misses from a snapshot, on any thread.
//!
//! Misses are translated without a lock. Megaflows are installed under the lock of all megaflows, and the
//! commands for workers are sent under it too, so that each worker receives the commands about a flow in
//! order. The thread that owns the state applies the packets' other effects ([`Ofproto::apply_credits`]).

mod translation_log;

use self::translation_log::TranslationLog;
use crate::datapath_mask::add_tags;
use crate::effect::Effect;
use crate::exact::exact_mask;
use crate::ids::BridgeId;
use crate::installed::NewFlow;
use crate::snapshot::{Locked, Shared, Snapshot};
use crate::translate::{Keys, Memory, Notes, Translation, TunnelSender, World, translate};
use crate::upcall::links;
use crate::{Ofproto, Outbox};
use base::{Instant, MacAddr, WorkerId};
use flow::{AnswerFlow, DropReason, Execute, FlowCommand, FlowId, FlowStats, Stamps, Upcall};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use table::Passage;

/// Answers misses.
#[derive(Debug)]
pub struct Handler {
    shared: Arc<Shared>,
    snapshot: table::Snapshot<Snapshot>,
    /// Under way from the first translation with a snapshot until its answers are installed.
    passage: Passage,
    answers: Vec<Answer>,
    /// Buffers for translations: as many as the most answers installed at once.
    spare: Vec<Memory>,
    keys: Box<Keys>,
    /// Commands for workers besides the answers; empty after [`Self::install`], but keeps its capacity.
    commands: Vec<(WorkerId, FlowCommand)>,
    log: TranslationLog,
}

/// The answer to a miss, to be installed.
#[derive(Debug)]
struct Answer {
    upcall: Upcall,
    /// The translation, with the megaflow's mask.
    memory: Memory,
    /// Whether a megaflow is to be installed.
    installs: bool,
    tunnel_sender: Option<TunnelSender>,
    /// Whether the packet's effects are to be applied at once.
    is_urgent: bool,
    stamps: Option<Stamps>,
    /// The time of the translation.
    at: Instant,
}

/// A megaflow installed later than this after its translation is revalidated even without a change, since the
/// frozen states that it names are kept only a little longer.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// What the caller has to do after misses were answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct After {
    /// The thread that owns the state has to apply effects at once.
    pub wake_owner: bool,
    /// Megaflows are to be revalidated.
    pub wake_revalidators: bool,
    /// No more misses may be answered before the owner has applied the effects.
    pub wait: bool,
}

impl Handler {
    pub(crate) fn new(shared: &Arc<Shared>, passage: Passage) -> Self {
        Handler {
            shared: Arc::clone(shared),
            snapshot: shared.read(),
            passage,
            answers: Vec::new(),
            spare: Vec::new(),
            keys: Box::default(),
            commands: Vec::new(),
            log: TranslationLog::default(),
        }
    }

    /// Translates a miss and keeps the answer until [`Self::install`]. Returns the miss if only the thread
    /// that owns the state may answer it: the packet makes `learn` add a flow, which must be in its table
    /// before the packet goes on, or comes from a port that the snapshot does not have. The times are stored with
    /// the answer.
    pub fn translate(
        &mut self,
        now: Instant,
        upcall: Upcall,
        stamps: Option<Stamps>,
    ) -> Option<Upcall> {
        self.translate_or_refuse(now, upcall, true, stamps)
    }

    /// Like [`Self::translate`] on the thread that owns the state, which answers every miss.
    pub(crate) fn translate_own(&mut self, now: Instant, upcall: Upcall) {
        self.translate_or_refuse(now, upcall, false, None);
    }

    fn translate_or_refuse(
        &mut self,
        now: Instant,
        upcall: Upcall,
        refuses: bool,
        stamps: Option<Stamps>,
    ) -> Option<Upcall> {
        // Answers that are installed together come from one snapshot.
        if self.answers.is_empty() {
            self.passage.begin();
            self.refresh();
        }
        let unseen = upcall.key.unseen_bytes();
        let packet_len = Some(upcall.packet.data().len().saturating_sub(unseen));
        let world = World { packet_len, ..self.snapshot.world(now) };
        let memory = self.spare.pop().unwrap_or_default();
        let mut translation = translate(world, &upcall.key, Notes::Off, memory, &mut self.keys);
        if translation.has_errors && self.log.is_due(now) {
            translation_log::tell(world, &upcall.key);
        }
        let teaches =
            |it: &Effect| matches!(it, Effect::LearnFlow { .. } | Effect::HitLearned { .. });
        // A port may send before the snapshot has it. The owner answers once it is done with adding the port.
        let is_unknown = translation.error == Some(DropReason::NoPort);
        if refuses && (is_unknown || translation.links.effects.iter().any(teaches)) {
            return Some(upcall);
        }
        let tunnel_sender = translation.tunnel_sender;
        let is_urgent = translation.links.effects.iter().any(|it| self.changes_state(it, &upcall))
            || tunnel_sender.is_some_and(|it| self.is_news(it.bridge, it.ip, it.mac, &upcall));
        let installs = translation.may_install();
        if !self.snapshot.features.wildcards {
            *translation.mask = exact_mask(&upcall.key, &translation.mask);
        }
        add_tags(&mut translation.mask);
        let Translation { actions, mask, links: of_tables, .. } = translation;
        let memory = Memory { actions, mask, links: links(of_tables, &upcall.key) };
        let answer = Answer { upcall, memory, installs, tunnel_sender, is_urgent, stamps, at: now };
        self.answers.push(answer);
        None
    }

    /// Drops an upcall. [`Self::install`] tells the worker, so that later packets of the flow do not wait for
    /// an answer.
    pub fn refuse(&mut self, upcall: Upcall) {
        self.commands.extend(upcall.refusal());
    }

    /// Releases a snapshot that is not the newest.
    pub fn refresh(&mut self) {
        self.shared.refresh(&mut self.snapshot);
    }

    /// Whether an effect changes what translation reads, or sends packets.
    fn changes_state(&self, effect: &Effect, upcall: &Upcall) -> bool {
        /// FIN and RST.
        const ENDS: u16 = 0x005;
        match *effect {
            Effect::Learn { bridge, vlan, mac, port } => {
                let bridge = self.snapshot.bridges.get(bridge);
                bridge.is_some_and(|bridge| bridge.would_learn(vlan, mac, port))
            }
            Effect::NeighbourSeen { bridge, ip, mac } => self.is_news(bridge, ip, mac, upcall),
            Effect::FinTimeout { .. } => upcall.key.tcp_flags() & ENDS != 0,
            Effect::LearnFlow { .. } | Effect::HitLearned { .. } => true,
            Effect::NeighbourWanted { .. } => true,
            Effect::Lookup { .. }
            | Effect::Miss { .. }
            | Effect::Group { .. }
            | Effect::Patch { .. }
            | Effect::Tunnel { .. }
            | Effect::Mirror { .. }
            | Effect::NeighbourUsed { .. } => false,
        }
    }

    /// Whether a bridge has another or no address for a neighbour.
    fn is_news(&self, bridge: BridgeId, ip: IpAddr, mac: MacAddr, upcall: &Upcall) -> bool {
        let neighbours = &self.snapshot.underlay.neighbours;
        self.snapshot.bridges.get(bridge).is_some_and(|bridge| {
            neighbours.lookup(upcall.received, &bridge.config.name, ip) != Some(mac)
        })
    }

    /// Installs the megaflows of all answers, and sends the commands for workers: each miss's packet together
    /// with its flow. `send` is called once, under the lock of all megaflows, and must be short.
    pub fn install(
        &mut self,
        now: Instant,
        send: impl FnOnce(&mut Vec<(WorkerId, FlowCommand)>),
    ) -> After {
        let Handler { shared, snapshot, passage, answers, spare, commands, .. } = self;
        let mut megaflows = shared.lock();
        for answer in answers.drain(..) {
            spare.push(answer.install(now, snapshot, &mut megaflows, commands));
        }
        send(commands);
        commands.clear();
        passage.end();
        After {
            wake_owner: megaflows.credits.is_urgent(),
            wake_revalidators: !megaflows.work.is_empty(),
            wait: megaflows.credits.is_full(),
        }
    }

    /// Whether no more misses may be answered before the owner has applied the effects.
    pub fn is_to_wait(&self) -> bool {
        self.shared.lock().credits.is_full()
    }
}

impl Answer {
    /// Installs the megaflow and queues the worker's command. Returns the buffers.
    fn install(
        self,
        now: Instant,
        snapshot: &table::Snapshot<Snapshot>,
        megaflows: &mut Locked<'_>,
        commands: &mut Vec<(WorkerId, FlowCommand)>,
    ) -> Memory {
        let packet = FlowStats {
            packets: 1,
            bytes: self.upcall.packet.len().saturating_sub(self.upcall.key.unseen_bytes()) as u64,
            used: Some(self.upcall.received),
            tcp_flags: self.upcall.key.tcp_flags(),
        };
        let id = self.put(now, snapshot, megaflows);
        let crate::snapshot::Megaflows { installed, credits, .. } = &mut **megaflows;
        if let Some(sender) = self.tunnel_sender {
            credits.add_sender(sender, self.upcall.received);
        }
        if self.is_urgent {
            credits.hurry();
        }
        let Answer {
            upcall: Upcall { worker, packet: bytes, key, trace, .. }, memory, stamps, ..
        } = self;
        let shared = id.and_then(|id| Some((id, installed.shared_by(id)?)));
        let (flow, actions) = match shared {
            Some((id, shared)) => {
                credits.add(shared.links, &packet);
                let mask = Arc::clone(shared.mask);
                (Some(AnswerFlow { id, mask }), Arc::clone(shared.actions))
            }
            None => {
                credits.add(&installed.shared_links(&memory.links), &packet);
                (None, installed.shared_actions(&memory.actions))
            }
        };
        let execute = Execute { packet: bytes, key, actions, flow, trace, stamps };
        commands.push((worker, FlowCommand::Execute(execute)));
        memory
    }

    /// Stores the megaflow, unless the flow limit is reached. Its actions and links are shared with flows
    /// that have the same.
    fn put(
        &self,
        now: Instant,
        snapshot: &table::Snapshot<Snapshot>,
        megaflows: &mut Locked<'_>,
    ) -> Option<FlowId> {
        if !self.installs {
            return None;
        }
        let (worker, key) = (self.upcall.worker, &self.upcall.key);
        let Memory { actions, mask, links } = &self.memory;
        let is_stale = megaflows.is_stale(snapshot) || now - self.at > FRESH_FOR;
        let crate::snapshot::Megaflows { installed, work, .. } = &mut **megaflows;
        // More packets missed before the flow was installed. If the tables changed meanwhile, the flow is
        // revalidated, so that the commands about a flow come from one thread at a time.
        let hash = installed.hash(worker, key, mask);
        if let Some(id) = installed.find(hash, worker, key, mask) {
            let known = installed.actions_of(id);
            if known.is_none_or(|known| **known != **actions) {
                work.again(id, installed);
            }
            return None;
        }
        if installed.len() >= snapshot.flow_limit {
            installed.counters.over_limit += 1;
            return None;
        }
        let flow = NewFlow { worker, hash, key, mask, actions, links, created: now };
        let id = installed.insert(flow, &snapshot.recirc);
        installed.arm(id, now, now + snapshot.max_idle);
        if is_stale {
            work.again(id, installed);
        }
        Some(id)
    }
}

impl Ofproto {
    /// A handler for any thread, starting with the published snapshot.
    pub fn handler(&self) -> Handler {
        Handler::new(&self.shared, self.passages.join())
    }

    /// Sends the queued questions for neighbours.
    pub fn ask_wanted_neighbours(&mut self, now: Instant, out: &mut Outbox) {
        self.ask_neighbours(now, out);
    }

    /// Applies the effects of packets that handlers answered since the last call.
    pub fn apply_credits(&mut self, now: Instant) {
        let (credits, senders) = {
            let credits = &mut self.megaflows_mut().credits;
            (credits.take(), credits.take_senders())
        };
        for (links, sum) in credits {
            self.credit(&links, &sum, now);
        }
        for (sender, received) in senders {
            self.tunnel_sender_seen(received, sender);
        }
    }
}

#[cfg(test)]
mod tests;
