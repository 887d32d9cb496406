//! Stateless test traffic (RFC 2544) and the two phases of tests of stateful gateways (RFC 9693):
//! numbered frames at a rate, between an initiator and a responder.
//!
//! The initiator sends each of its flows once ([`Order::EachOnce`], phase 1). The responder stores the flows
//! that it receives in its state table, as NAT may have changed them, and can then send on
//! each of them: once each, to see whether the device knows it, or at random (phase 2). The driver of a
//! [`Station`] calls it like a [`crate::Host`]: receive, then transmit until it fills no further batch.

mod network;
mod test_frame;
#[cfg(test)]
mod tests;

use crate::address::{AddressRange, PortRange};
use crate::frame::{self, Resolution, Wire};
use crate::frame_in::{self, Content, Discard};
use crate::pacer::Pacer;
use crate::tuples::Tuples;
use base::Histogram;
use base::{Instant, MacAddr};
pub use network::Network;
use packet::{Batch, Checksum, Packet, Pool};
use test_frame::{FourTuple, Label, Template};

/// Most flows of a station: 40,000 source ports times 100 destination ports.
pub const FLOWS_MAX: u32 = 4_000_000;
/// Source ports of flows, first and count; limited so that the number of flows is known (RFC 9693 section
/// 4.1).
const SOURCE_PORTS: (u16, u32) = (10_000, 40_000);
/// The first destination port.
const DESTINATION_PORT: u16 = 1;
/// Most questions for the station's address that wait for an answer.
const ANSWERS: usize = 16;

/// The configuration of a station.
#[derive(Clone, Copy, Debug)]
pub struct StationConfig {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Destination MAC address. The responder uses the source of received frames instead, once there are
    /// some.
    pub to: MacAddr,
    /// The VLAN in which it sends and receives; `None` is untagged.
    pub vlan: Option<u16>,
    /// Bytes of each frame with FCS, without a VLAN tag; at least [`Network::frame_bytes_min`].
    pub frame_bytes: u16,
    /// The same for both stations.
    pub network: Network,
    /// Seed for the order of flows: the same seed gives the same order.
    pub seed: u64,
}

/// The order in which flows are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Every flow once, however long it takes; late frames also count as missed.
    EachOnce,
    /// Random flows, for a number of frames; a frame that cannot be sent in time is skipped.
    Random {
        /// Frames that are due.
        frames: u64,
    },
}

/// The counters of one station in one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamStatistics {
    /// Test frames sent.
    pub sent: u64,
    /// Test frames of the phase that arrived, each counted once.
    pub received: u64,
    /// Test frames of the phase that arrived again.
    pub duplicates: u64,
    /// Test frames of an earlier phase.
    pub stale: u64,
    /// This station's own frames that came back to it.
    pub returned: u64,
    /// Frames that do not belong to the test.
    pub foreign: u64,
    /// Frames that cannot be parsed or have a wrong checksum.
    pub garbage: u64,
    /// One-way latency.
    pub latency_ns: Histogram,
}

/// One end of a test.
pub struct Station {
    config: StationConfig,
    role: StationRole,
    addresses: AddressRange,
    template: Template,
    /// Flows as this station's frames name them; `None` for those that a responder has not learned.
    flows: Vec<Option<FourTuple>>,
    sending: Option<Sending>,
    phase: u16,
    /// Frames of this phase identify flows: phase 1.
    learning: bool,
    /// One bit per frame number that arrived in this phase.
    seen: Vec<u64>,
    answers: Vec<Resolution>,
    random: fastrand::Rng,
    statistics: StreamStatistics,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StationRole {
    Initiator,
    Responder,
}

#[derive(Debug)]
struct Sending {
    order: Order,
    pacer: Option<Pacer>,
    due: u64,
    number: u64,
    /// The next flow to look at, where each is sent once.
    next_flow: usize,
}

impl Station {
    /// The station that opens flows: `flows` of them, in a pseudorandom order.
    pub fn initiator(config: StationConfig, flows: u32) -> Station {
        let flows = flows.clamp(1, FLOWS_MAX);
        let mut tuples = tuples(config.network, flows, config.seed);
        let flow = |_| {
            let tuple = tuples.next();
            Some(FourTuple {
                source: tuple.client,
                destination: tuple.server,
                source_port: tuple.client_port,
                destination_port: tuple.server_port,
            })
        };
        let flows = (0..flows).map(flow).collect();
        Station::new(config, StationRole::Initiator, flows)
    }

    /// The station that learns flows as they arrive, at most `flows`.
    pub fn responder(config: StationConfig, flows: u32) -> Station {
        let flows = vec![None; flows.clamp(1, FLOWS_MAX) as usize];
        Station::new(config, StationRole::Responder, flows)
    }

    fn new(config: StationConfig, role: StationRole, flows: Vec<Option<FourTuple>>) -> Station {
        Station {
            template: Template::new(&config),
            config,
            role,
            addresses: match role {
                StationRole::Initiator => config.network.initiators(),
                StationRole::Responder => config.network.responders(),
            },
            flows,
            sending: None,
            phase: 0,
            learning: false,
            seen: Vec::new(),
            answers: Vec::with_capacity(ANSWERS),
            random: fastrand::Rng::with_seed(config.seed),
            statistics: StreamStatistics::default(),
        }
    }

    /// Returns the number of flows on which this station can send.
    pub fn flows(&self) -> usize {
        self.flows.iter().flatten().count()
    }

    /// Begins a phase in which up to `expected` frames arrive, and resets the counters. Both stations of a
    /// test use the same number for a phase, one that no earlier phase had.
    pub fn begin(&mut self, phase: u16, expected: u64) {
        self.phase = phase;
        self.learning = false;
        self.sending = None;
        self.statistics = StreamStatistics::default();
        self.seen.clear();
        self.seen.resize(expected.div_ceil(64) as usize, 0);
    }

    /// As [`Station::begin`] for phase 1, in which a responder stores every flow that it receives.
    pub fn begin_learning(&mut self, phase: u16, expected: u64) {
        self.begin(phase, expected);
        self.learning = self.role == StationRole::Responder;
    }

    /// Sends frames of the phase at this rate from `now` on; without a rate, as fast as the driver calls.
    pub fn send(&mut self, order: Order, per_second: Option<u64>, now: Instant) {
        let pacer = per_second.map(|rate| Pacer::new(rate.max(1), 0, now));
        self.sending = Some(Sending { order, pacer, due: 0, number: 0, next_flow: 0 });
    }

    /// Returns whether all frames were sent.
    pub fn is_done(&self) -> bool {
        let Some(sending) = &self.sending else { return true };
        match sending.order {
            Order::EachOnce => sending.next_flow >= self.flows.len(),
            Order::Random { frames } => sending.number + sending.missed() >= frames,
        }
    }

    /// Returns the frames that were due and not sent because the driver called too late.
    pub fn missed(&self) -> u64 {
        self.sending.as_ref().map_or(0, Sending::missed)
    }

    /// Returns the counters of this phase.
    pub fn statistics(&self) -> &StreamStatistics {
        &self.statistics
    }

    /// Processes packets that arrived and returns their buffers to `pool`.
    pub fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, now: Instant) {
        for packet in batch.drain(..) {
            self.take(&packet, now);
            pool.give(packet);
        }
    }

    fn take(&mut self, packet: &Packet, now: Instant) {
        // The kernel has not computed this checksum yet, so it was never on a wire.
        let verify = packet.offload.checksum == Checksum::Unverified;
        let arrived = match frame_in::read(packet.data(), self.config.vlan, verify) {
            Ok(arrived) => arrived,
            Err(Discard::Foreign) => {
                self.statistics.foreign += 1;
                return;
            }
            Err(Discard::Malformed | Discard::BadChecksum) => {
                self.statistics.garbage += 1;
                return;
            }
        };
        let datagram = match arrived.content {
            Content::Udp(datagram) => datagram,
            Content::Question if self.addresses.contains(arrived.destination) => {
                if self.answers.len() < ANSWERS {
                    self.answers.push(Resolution::Answer {
                        local: arrived.destination,
                        remote: arrived.source,
                        to: arrived.source_mac,
                    });
                }
                return;
            }
            Content::Question | Content::Answer { .. } | Content::Tcp(_) => {
                self.statistics.foreign += 1;
                return;
            }
        };
        let Some(label) = Label::read(datagram.payload) else {
            self.statistics.foreign += 1;
            return;
        };
        let (ours, theirs) = (self.label_phase(true), self.label_phase(false));
        if label.phase != theirs {
            let count = if label.phase == ours {
                &mut self.statistics.returned
            } else {
                &mut self.statistics.stale
            };
            *count += 1;
            return;
        }
        if !self.first_time(label.number) {
            self.statistics.duplicates += 1;
            return;
        }
        self.statistics.received += 1;
        self.statistics.latency_ns.record(now.as_nanos().saturating_sub(label.sent_ns));
        if self.learning {
            let flow = FourTuple {
                source: arrived.source,
                destination: arrived.destination,
                source_port: datagram.source_port,
                destination_port: datagram.destination_port,
            };
            // A device with NAT may have rewritten it; only a flow of the configured IP version can be answered.
            let flow = Some(flow).filter(|flow| flow.is_v6() == self.config.network.is_v6);
            self.learn(label.number, flow.map(FourTuple::reversed), arrived.source_mac);
        }
    }

    /// Stores a flow in the state table under the number of its frame.
    fn learn(&mut self, number: u64, flow: Option<FourTuple>, mac: MacAddr) {
        let entry = usize::try_from(number).ok().and_then(|at| self.flows.get_mut(at));
        if let Some(entry) = entry {
            *entry = flow;
            self.template.set_destination(mac);
        }
    }

    fn first_time(&mut self, number: u64) -> bool {
        let Some(word) = usize::try_from(number / 64).ok().and_then(|at| self.seen.get_mut(at))
        else {
            return false;
        };
        let bit = 1 << (number % 64);
        let first = *word & bit == 0;
        *word |= bit;
        first
    }

    /// Returns the phase in this station's labels (`own`), or in the other station's.
    fn label_phase(&self, own: bool) -> u16 {
        self.phase << 1 | u16::from((self.role == StationRole::Initiator) != own)
    }

    /// Fills the batch's free room with frames that are due, in buffers from `pool`.
    pub fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch, now: Instant) {
        let wire = Wire { mac: self.config.mac, vlan: self.config.vlan, text: None };
        while batch.remaining_capacity() > 0 {
            let Some(answer) = self.answers.pop() else { break };
            let mut packet = pool.take();
            frame::resolution(&mut packet, &wire, &answer);
            batch.push(packet);
        }
        if self.is_done() {
            return;
        }
        let phase = self.label_phase(true);
        let Some(sending) = &mut self.sending else { return };
        sending.look(now);
        while batch.remaining_capacity() > 0 && sending.due > 0 {
            let Some(flow) = sending.pick(&self.flows, &mut self.random) else { break };
            let label = Label { phase, number: sending.number, sent_ns: now.as_nanos() };
            sending.number += 1;
            sending.due -= 1;
            let mut packet = pool.take();
            self.template.write(&mut packet, &flow, &label);
            packet.offload.checksum = Checksum::Unverified;
            self.statistics.sent += 1;
            batch.push(packet);
        }
    }
}

impl Sending {
    fn missed(&self) -> u64 {
        self.pacer.as_ref().map_or(0, Pacer::missed)
    }

    /// Updates the number of frames that are due.
    fn look(&mut self, now: Instant) {
        match &mut self.pacer {
            Some(pacer) => self.due = pacer.due_again(self.due, now),
            None => self.due = u64::MAX,
        }
        if let Order::Random { frames } = self.order {
            let missed = self.pacer.as_ref().map_or(0, Pacer::missed);
            self.due = self.due.min(frames.saturating_sub(self.number + missed));
        }
    }

    /// Returns the flow of the next frame; `None` where none is left.
    fn pick(
        &mut self,
        flows: &[Option<FourTuple>],
        random: &mut fastrand::Rng,
    ) -> Option<FourTuple> {
        match self.order {
            Order::EachOnce => {
                let rest = flows.get(self.next_flow..).unwrap_or_default();
                // The frame's number is the flow's index, so that the other station stores it in the same
                // place.
                let skipped = rest.iter().position(Option::is_some);
                self.next_flow += skipped.map_or(rest.len(), |at| at + 1);
                let found = flows.get(self.next_flow.checked_sub(1)?).copied().flatten();
                skipped.and(found)
            }
            Order::Random { .. } => {
                let at = random.usize(..flows.len().max(1));
                // Frames lost in phase 1 leave gaps in the table: the next entry is used instead.
                let (before, after) = flows.split_at_checked(at)?;
                after.iter().chain(before).copied().flatten().next()
            }
        }
    }
}

/// Returns the first `flows` combinations of addresses and ports, each once.
fn tuples(network: Network, flows: u32, seed: u64) -> Tuples {
    let sources = flows.min(SOURCE_PORTS.1);
    let destinations = flows.div_ceil(sources);
    let range = |first: u16, count: u32| PortRange::new(first, first + (count - 1) as u16);
    Tuples::new(
        network.initiators(),
        range(SOURCE_PORTS.0, sources),
        network.responders(),
        range(DESTINATION_PORT, destinations),
        seed,
    )
}
