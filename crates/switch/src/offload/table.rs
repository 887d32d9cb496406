//! The table of offloaded connections, and what each depends on.

mod counts;

use super::changes::Changes;
use base::{Instant, PortNo, WorkerId};
use conntrack::Conntrack;
use flow::{
    ConnectionRef, FlowId, FlowOffload, OffloadId, OffloadOffer, OffloadRefusal, OffloadRule,
    OffloadStatus, OffloadTraffic, OffloadTunnel, Refusal,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;
use wire::protocol::TCP;

pub use counts::{Credit, FlowOffloads, Totals};

/// Most offers that wait.
const WAITING_MAX: usize = 16_384;
/// How long an offer waits at least: most connections are shorter.
const WAIT: Duration = Duration::from_millis(50);

/// The flag that all segments forwarded by a device have.
const ACK: u16 = 0x10;

/// All offloaded connections.
#[derive(Debug, Default)]
pub struct Table {
    rules: BTreeMap<OffloadId, Held>,
    /// The rules by their first connection's number and direction.
    directions: HashMap<(u32, bool), OffloadId>,
    flows: HashMap<FlowId, FlowOffloads>,
    waiting: VecDeque<Waiting>,
    /// The rule that the last sweep ended at.
    swept: Option<OffloadId>,
    credits: Vec<Credit>,
    totals: Totals,
}

/// An installed rule.
#[derive(Debug)]
struct Held {
    worker: WorkerId,
    flows: Vec<FlowId>,
    connections: Vec<ConnectionRef>,
    ports: Vec<PortNo>,
    tcp_flags: u16,
    /// The tunnel that its packets come out of. Its headers are credited to the first flow.
    tunnel: Option<OffloadTunnel>,
    /// The mark that the device puts on its packets, which it does not forward.
    mark: Option<u32>,
}

/// What is installed for the direction of an offer.
enum Known {
    /// The same rule.
    Same,
    /// The same rule but for the tunnel that packets come out of, or for the mark that they get.
    Other(OffloadId),
    /// A rule of other flows, connections or ports.
    Twice,
    /// No rule.
    None,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    /// Number of commands that the worker had received.
    seen: u64,
    offer: OffloadOffer,
}

impl Table {
    /// Returns the counters of all offers.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns the number of waiting offers.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns how many connections are offloaded in one direction, and how many in both.
    pub fn connections(&self) -> (usize, usize) {
        let other = |&(id, is_reply): &(u32, bool)| (id, !is_reply);
        let is_both = |key: &&(u32, bool)| self.directions.contains_key(&other(key));
        let both = self.directions.keys().filter(is_both).count();
        (self.directions.len() - both, both / 2)
    }

    /// Returns the offload state of a flow.
    pub fn flow(&self, id: FlowId) -> Option<&FlowOffloads> {
        self.flows.get(&id)
    }

    /// Returns whether the device forwards packets of a flow.
    pub fn is_offloaded(&self, id: FlowId) -> bool {
        self.flow(id).is_some_and(|flow| !flow.rules.is_empty())
    }

    /// Queues offers; most connections end while they wait.
    pub fn wait(&mut self, now: Instant, seen: u64, offers: Vec<OffloadOffer>, changes: &Changes) {
        for offer in offers {
            if self.waiting.len() < WAITING_MAX {
                self.waiting.push_back(Waiting { since: now, seen, offer });
            } else {
                self.refuse(&offer, &current(changes, seen, &offer, Refusal::Full).into());
            }
        }
    }

    /// Installs up to `at_most` offers that have waited long enough.
    pub fn install(
        &mut self,
        device: &mut dyn FlowOffload,
        conntrack: &Conntrack,
        now: Instant,
        changes: &Changes,
        at_most: usize,
    ) {
        for _ in 0..at_most {
            let Some(waiting) = self.waiting.pop_front_if(|it| now >= it.since + WAIT) else {
                return;
            };
            let Waiting { seen, offer, .. } = &waiting;
            let replaced = match self.compare(offer) {
                Known::Same => continue,
                Known::Other(id) => Some(id),
                Known::Twice => {
                    self.refuse(offer, &current(changes, *seen, offer, Refusal::Twice).into());
                    continue;
                }
                Known::None => None,
            };
            let is_current = changes.are_none_since(*seen, offer).then_some(());
            let checked = is_current
                .ok_or(Refusal::FlowChanged)
                .and_then(|()| check(conntrack, now, &offer.rule));
            if let (Some(id), Ok(_)) = (replaced, &checked) {
                self.remove(device, id, conntrack, now);
            }
            let installed = checked
                .map_err(OffloadRefusal::from)
                .and_then(|idle| device.install(&offer.rule, idle));
            match installed {
                Ok(id) => {
                    let only_marks = device.only_marks(id);
                    if let Some(refusal) = &only_marks {
                        self.refuse(offer, &marked(refusal));
                    } else {
                        let begin =
                            |it| conntrack.with_offloaded(now, |offloaded| offloaded.begin(it));
                        offer.rule.connections().for_each(begin);
                    }
                    self.hold(id, waiting.offer, only_marks.is_none());
                }
                Err(refusal) => self.refuse(offer, &refusal),
            }
        }
    }

    /// Compares an offer with the rule of the same direction: a worker offers a cache entry again when it inserts
    /// it again, and the packets of a connection may come out of another tunnel than before.
    fn compare(&self, OffloadOffer { worker, rule, flows }: &OffloadOffer) -> Known {
        let Some(id) = self.directions.get(&direction(rule.connection)) else { return Known::None };
        let Some(held) = self.rules.get(id) else { return Known::None };
        let is_alike = (held.worker, &held.flows) == (*worker, flows)
            && held.connections.iter().copied().eq(rule.connections())
            && held.ports.iter().copied().eq(rule.ports());
        match is_alike {
            true if held.tunnel == rule.tunnel && held.has_mark_of(rule) => Known::Same,
            true => Known::Other(*id),
            false => Known::Twice,
        }
    }

    fn hold(&mut self, id: OffloadId, offer: OffloadOffer, forwards: bool) {
        let OffloadOffer { worker, rule, flows } = offer;
        for flow in &flows {
            self.flows.entry(*flow).or_default().rules.push(id);
        }
        self.directions.insert(direction(rule.connection), id);
        let connections = rule.connections().collect();
        let ports = rule.ports().collect();
        let tcp_flags = if rule.headers.protocol() == TCP { ACK } else { 0 };
        let (tunnel, mark) = (rule.tunnel, rule.mark.filter(|_| !forwards));
        let held = Held { worker, flows, connections, ports, tcp_flags, tunnel, mark };
        self.rules.insert(id, held);
        self.totals.installed += 1;
    }

    fn refuse(&mut self, offer: &OffloadOffer, refused: &OffloadRefusal) {
        let OffloadRefusal { kind: refusal, ref words } = *refused;
        *self.totals.refused.entry(refusal).or_default() += 1;
        // A flow that changed may have been deleted, and its entry would never be removed.
        if refusal != Refusal::FlowChanged {
            for flow in &offer.flows {
                let refused = &mut self.flows.entry(*flow).or_default().refused;
                let refused = refused.entry(refusal).or_default();
                refused.count += 1;
                refused.words.clone_from(words);
            }
        }
    }

    /// Reads the counters of up to `at_most` rules, continuing after the last sweep. Removes rules whose
    /// connection ended or changed for the flows.
    pub fn sweep(
        &mut self,
        device: &mut dyn FlowOffload,
        conntrack: &Conntrack,
        now: Instant,
        at_most: usize,
    ) {
        let from = self.swept.map_or(Bound::Unbounded, Bound::Excluded);
        let part: Vec<OffloadId> =
            self.rules.range((from, Bound::Unbounded)).map(|(id, _)| *id).take(at_most).collect();
        // At the end, the next sweep starts again.
        self.swept = part.last().copied().filter(|_| part.len() == at_most);
        for id in part {
            let OffloadStatus { traffic, is_ended } = device.status(id);
            if !self.credit(id, traffic, conntrack, now) || is_ended {
                self.remove(device, id, conntrack, now);
            }
        }
    }

    /// Credits what a rule forwarded. Returns whether its connections are unchanged.
    fn credit(
        &mut self,
        id: OffloadId,
        traffic: OffloadTraffic,
        conntrack: &Conntrack,
        now: Instant,
    ) -> bool {
        let Some(held) = self.rules.get(&id) else { return false };
        let &Held { worker, tcp_flags, ref flows, ref connections, ref tunnel, .. } = held;
        let outer_bytes = tunnel.as_ref().map(|tunnel| tunnel.header_bytes);
        let outer = traffic.packets * outer_bytes.unwrap_or(0) as u64;
        let inner = OffloadTraffic { bytes: traffic.bytes.saturating_sub(outer), ..traffic };
        let note = |connection: &ConnectionRef| {
            conntrack.with_offloaded(now, |it| it.note(*connection, inner))
        };
        let are_same = connections.iter().map(note).fold(true, |all, one| all & one);
        if traffic.packets > 0 {
            self.totals.traffic.add(traffic);
            for (nth, flow) in flows.iter().enumerate() {
                // The flow that decapsulates counts the outer packets.
                let is_outer = nth == 0 && outer_bytes.is_some();
                let (traffic, tcp_flags) = if is_outer { (traffic, 0) } else { (inner, tcp_flags) };
                self.flows.entry(*flow).or_default().traffic.add(traffic);
                self.credits.push(Credit { worker, flow: *flow, traffic, tcp_flags });
            }
        }
        are_same
    }

    fn remove(
        &mut self,
        device: &mut dyn FlowOffload,
        id: OffloadId,
        conntrack: &Conntrack,
        now: Instant,
    ) {
        let traffic = device.remove(id);
        self.credit(id, traffic, conntrack, now);
        let Some(held) = self.rules.remove(&id) else { return };
        self.totals.removed += 1;
        if let Some(connection) = held.connections.first()
            && self.directions.get(&direction(*connection)) == Some(&id)
        {
            self.directions.remove(&direction(*connection));
        }
        for flow in &held.flows {
            if let Some(flow) = self.flows.get_mut(flow) {
                flow.rules.retain(|rule| *rule != id);
            }
        }
    }

    fn remove_where(
        &mut self,
        device: &mut dyn FlowOffload,
        conntrack: &Conntrack,
        now: Instant,
        is_meant: impl Fn(&Held) -> bool,
    ) {
        let meant: Vec<OffloadId> =
            self.rules.iter().filter(|(_, held)| is_meant(held)).map(|(id, _)| *id).collect();
        meant.into_iter().for_each(|id| self.remove(device, id, conntrack, now));
    }

    /// Removes the rules that depend on a flow. Returns whether there were any.
    pub fn remove_flow(
        &mut self,
        device: &mut dyn FlowOffload,
        flow: FlowId,
        conntrack: &Conntrack,
        now: Instant,
    ) -> bool {
        let rules = self.flows.get_mut(&flow).map(|flow| std::mem::take(&mut flow.rules));
        let rules = rules.unwrap_or_default();
        rules.iter().for_each(|id| self.remove(device, *id, conntrack, now));
        !rules.is_empty()
    }

    /// Removes the rules of packets received from or sent to a port, and the offers for such rules.
    pub fn remove_port(
        &mut self,
        device: &mut dyn FlowOffload,
        port: PortNo,
        conntrack: &Conntrack,
        now: Instant,
    ) {
        self.remove_where(device, conntrack, now, |held| held.ports.contains(&port));
        // The number may be reused for another port.
        self.waiting.retain(|waiting| waiting.offer.rule.ports().all(|it| it != port));
    }

    /// Removes all rules and waiting offers.
    pub fn clear(&mut self, device: &mut dyn FlowOffload, conntrack: &Conntrack, now: Instant) {
        self.remove_where(device, conntrack, now, |_| true);
        self.waiting.clear();
    }

    /// Forgets a flow that was deleted.
    pub fn forget_flow(&mut self, flow: FlowId) {
        self.flows.remove(&flow);
    }

    /// Forgets all flows, which were deleted with their workers.
    pub fn forget_flows(&mut self) {
        self.flows.clear();
        self.credits.clear();
    }

    /// Takes the credits for the workers.
    pub fn take_credits(&mut self) -> Vec<Credit> {
        std::mem::take(&mut self.credits)
    }
}

impl Held {
    /// Returns whether packets get the mark of an offered rule, if they get any.
    fn has_mark_of(&self, rule: &OffloadRule) -> bool {
        self.mark.is_none_or(|mark| rule.mark == Some(mark))
    }
}

/// Why packets are only marked, in the words of why they are not forwarded.
fn marked(OffloadRefusal { kind, words }: &OffloadRefusal) -> OffloadRefusal {
    let words = words.as_ref().map_or_else(|| kind.to_string(), |words| format!("{kind}: {words}"));
    OffloadRefusal { kind: Refusal::Marked, words: Some(words.into()) }
}

/// Returns why an offer is refused: for this reason, or because its flows changed, since flows that were deleted
/// must not be remembered.
fn current(changes: &Changes, seen: u64, offer: &OffloadOffer, refusal: Refusal) -> Refusal {
    if changes.are_none_since(seen, offer) { refusal } else { Refusal::FlowChanged }
}

fn direction(connection: ConnectionRef) -> (u32, bool) {
    (connection.id, connection.is_reply)
}

/// Checks a rule's connections. Returns the idle time after which the first of them expires.
fn check(conntrack: &Conntrack, now: Instant, rule: &OffloadRule) -> Result<Duration, Refusal> {
    conntrack.with_offloaded(now, |it| {
        let mut idle = Duration::MAX;
        for connection in rule.connections() {
            idle = idle.min(it.check(connection)?);
        }
        Ok(idle)
    })
}

#[cfg(test)]
pub(super) mod tests;
