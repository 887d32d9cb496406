//! The table of offloaded connections, and what each depends on.

mod counts;
mod held;
mod pairs;

use super::changes::Changes;
use crate::worker_messages::Credit;
use base::{Instant, PortNo};
use conntrack::Conntrack;
use flow::{
    ConnectionRef, FlowId, FlowOffload, OffloadId, OffloadOffer, OffloadRefusal, OffloadStatus,
    OffloadTraffic, Refusal,
};
use held::{Held, Waiting};
use pairs::{Checked, Pairs};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;
use wire::protocol::TCP;

pub use counts::{FlowOffloads, Totals};

/// Maximum number of waiting offers.
const WAITING_MAX: usize = 16_384;
/// Minimum wait of an offer: most connections are shorter.
const WAIT: Duration = Duration::from_millis(50);

/// The flag that all segments forwarded by a device have.
const ACK: u16 = 0x10;

/// All offloaded connections.
#[derive(Debug, Default)]
pub struct Table {
    rules: BTreeMap<OffloadId, Held>,
    /// The rules by connection number and direction.
    directions: HashMap<(u32, bool), OffloadId>,
    flows: HashMap<FlowId, FlowOffloads>,
    waiting: VecDeque<Waiting>,
    pairs: Pairs,
    /// The last rule of the previous sweep.
    swept: Option<OffloadId>,
    credits: Vec<Credit>,
    totals: Totals,
}

/// The installed rule for the direction of an offer.
enum Known {
    /// The same rule.
    Same,
    /// The same rule, except for the tunnel that packets come out of, or for the mark.
    Other(OffloadId),
    /// A rule of other flows, connections or ports.
    Twice,
    /// No rule.
    None,
}

impl Table {
    /// Returns the counters of all offers.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns the number of waiting offers.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.pairs.len()
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

    /// Returns the flows of which the device forwards packets.
    pub fn offloaded(&self) -> impl Iterator<Item = FlowId> {
        self.flows.iter().filter(|(_, flow)| !flow.rules.is_empty()).map(|(id, _)| *id)
    }

    /// Returns whether the device forwards packets of a flow.
    pub fn is_offloaded(&self, id: FlowId) -> bool {
        self.flow(id).is_some_and(|flow| !flow.rules.is_empty())
    }

    /// Queues offers; most connections end while they wait.
    pub fn wait(&mut self, now: Instant, seen: u64, offers: Vec<OffloadOffer>, changes: &Changes) {
        for offer in offers {
            if self.waiting() < WAITING_MAX {
                self.waiting.push_back(Waiting { since: now, seen, offer, is_alone: false });
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
        self.give_up_pairs(now, changes);
        for _ in 0..at_most {
            let Some(waiting) = self.waiting.pop_front_if(|it| now >= it.since + WAIT) else {
                return;
            };
            let replaced = match self.compare(&waiting.offer) {
                Known::Same => continue,
                Known::Other(id) => Some(id),
                Known::Twice => {
                    let Waiting { seen, offer, .. } = &waiting;
                    self.refuse(offer, &current(changes, *seen, offer, Refusal::Twice).into());
                    continue;
                }
                Known::None => None,
            };
            let idle = match waiting.check(conntrack, now, changes) {
                Ok(idle) => idle,
                Err(refusal) => {
                    self.refuse(&waiting.offer, &refusal.into());
                    continue;
                }
            };
            if let Some(id) = replaced {
                self.remove(device, id, conntrack, now);
            }
            if let Some(waiting) = self.pair(device, conntrack, now, changes, waiting) {
                self.install_alone(device, conntrack, now, waiting.offer, idle);
            }
        }
    }

    /// Installs a rule for one direction, without window checks by the device.
    fn install_alone(
        &mut self,
        device: &mut dyn FlowOffload,
        conntrack: &Conntrack,
        now: Instant,
        offer: OffloadOffer,
        idle: Duration,
    ) {
        match device.install(&offer.rule, idle) {
            Ok(id) => {
                let only_marks = device.only_marks(id);
                if let Some(refusal) = &only_marks {
                    self.refuse(&offer, &only(Refusal::Marked, refusal));
                } else {
                    let begin = |it| conntrack.with_offloaded(now, |offloaded| offloaded.begin(it));
                    offer.rule.connections().for_each(begin);
                }
                self.hold(id, offer, only_marks.is_none(), None);
            }
            Err(refusal) => self.refuse(&offer, &refusal),
        }
    }

    /// Compares an offer with the rule of the same direction: a worker offers a cache entry again when it
    /// inserts it again, and the connection's packets may come out of another tunnel than before.
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

    fn hold(
        &mut self,
        id: OffloadId,
        offer: OffloadOffer,
        forwards: bool,
        checked: Option<Checked>,
    ) {
        let OffloadOffer { worker, rule, flows } = offer;
        for flow in &flows {
            self.flows.entry(*flow).or_default().rules.push(id);
        }
        self.directions.insert(direction(rule.connection), id);
        let connections = rule.connections().collect();
        let ports = rule.ports().collect();
        let tcp_flags = if rule.headers.protocol() == TCP { ACK } else { 0 };
        let (tunnel, mark) = (rule.tunnel, rule.mark.filter(|_| !forwards));
        let held = Held { worker, flows, connections, ports, tcp_flags, tunnel, mark, checked };
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

    /// Reads the counters of all rules.
    pub fn sweep_all(&mut self, device: &mut dyn FlowOffload, conntrack: &Conntrack, now: Instant) {
        self.swept = None;
        self.sweep(device, conntrack, now, usize::MAX);
    }

    /// Returns how many rules there are.
    pub fn rules(&self) -> usize {
        self.rules.len()
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
        self.settle(conntrack, now, |it| it.is_due(now));
        for id in part {
            // It may have been removed together with its connection's other direction.
            if !self.rules.contains_key(&id) {
                continue;
            }
            let OffloadStatus { traffic, is_ended, windows } = device.status(id);
            let is_followed =
                windows.is_none_or(|it| self.follow_windows(device, conntrack, now, id, &it));
            if !self.credit(id, traffic, conntrack, now) || is_ended || !is_followed {
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
        let Some(held) = self.rules.get_mut(&id) else { return };
        if let Some(checked) = held.checked.take() {
            self.end_pair(device, conntrack, now, (id, checked));
        }
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
        let is_other = |waiting: &Waiting| waiting.offer.rule.ports().all(|it| it != port);
        self.waiting.retain(is_other);
        self.pairs.retain(is_other);
    }

    /// Removes all rules and waiting offers.
    pub fn clear(&mut self, device: &mut dyn FlowOffload, conntrack: &Conntrack, now: Instant) {
        self.remove_where(device, conntrack, now, |_| true);
        self.waiting.clear();
        self.pairs.retain(|_| false);
        self.settle(conntrack, now, |_| true);
    }

    /// Removes the state of a deleted flow.
    pub fn forget_flow(&mut self, flow: FlowId) {
        self.flows.remove(&flow);
    }

    /// Removes the state of all flows, which were deleted with their workers.
    pub fn forget_flows(&mut self) {
        self.flows.clear();
        self.credits.clear();
    }

    /// Takes the credits for the workers.
    pub fn take_credits(&mut self) -> Vec<Credit> {
        std::mem::take(&mut self.credits)
    }
}

/// Why the device does less than it could: combines the reason with the device's message.
fn only(does: Refusal, OffloadRefusal { kind, words }: &OffloadRefusal) -> OffloadRefusal {
    let words = words.as_ref().map_or_else(|| kind.to_string(), |words| format!("{kind}: {words}"));
    OffloadRefusal { kind: does, words: Some(words.into()) }
}

/// Returns the reason for refusing an offer: this one, or that its flows changed, since no state may be kept
/// of deleted flows.
fn current(changes: &Changes, seen: u64, offer: &OffloadOffer, refusal: Refusal) -> Refusal {
    if changes.are_none_since(seen, offer) { refusal } else { Refusal::FlowChanged }
}

fn direction(connection: ConnectionRef) -> (u32, bool) {
    (connection.id, connection.is_reply)
}

#[cfg(test)]
pub(super) mod tests;
