//! A flood of SYN segments beside real connections (RFC 3511 section 5.5): attackers that never answer, and a
//! target that answers each SYN.
//!
//! Attack segments go to the address and port of the real servers, from source addresses that no real client
//! has, so that the address alone identifies them. The driver of a [`Flood`] passes it everything that
//! arrives on either side before the hosts receive it.

use crate::address::{AddressRange, PortRange};
use crate::frame::{self, ACK, Flow, PROTOCOL_TCP, SYN, SegmentOut, Wire};
use crate::frame_in::{self, Content};
use crate::pacer::Pacer;
use crate::profile::Profile;
use crate::tuples::Tuples;
use base::{Instant, MacAddr};
use packet::{Batch, Checksum, Pool};
use std::collections::VecDeque;

/// Attackers' addresses, from the block reserved for benchmarks (RFC 2544 appendix C.2.2).
const ATTACKERS: ([u8; 4], [u8; 4]) = ([198, 18, 128, 1], [198, 18, 255, 254]);
/// Most answers of the target that wait to be sent; further ones are dropped.
const ANSWERS: usize = 4096;
/// The TCP options of an attack's SYN and of its answer (RFC 9293 section 3.7.1).
const OPTIONS: Option<(u16, Option<u8>)> = Some((1460, None));

/// The configuration of a flood.
#[derive(Clone, Debug)]
pub struct FloodConfig {
    /// The attackers' Ethernet address, the same as the clients'.
    pub client_mac: MacAddr,
    /// The target's Ethernet address.
    pub server_mac: MacAddr,
    /// Destination Ethernet address of attack segments.
    pub gateway: MacAddr,
    /// The VLAN of both sides.
    pub vlan: Option<u16>,
    /// Seed for the order of attackers and ports.
    pub seed: u64,
}

/// The counters of an attack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloodCounts {
    /// Attack SYNs sent.
    pub sent: u64,
    /// Attack SYNs that were due and not sent in time.
    pub missed: u64,
    /// Attack SYNs that the device forwarded to the target.
    pub forwarded: u64,
    /// SYN/ACKs that came back to an attacker, from the target or from the device itself.
    pub answered: u64,
}

/// The attackers and their target.
pub struct Flood {
    config: FloodConfig,
    tuples: Tuples,
    attackers: AddressRange,
    pacer: Option<Pacer>,
    due: u64,
    answers: VecDeque<(Flow, MacAddr, u32)>,
    random: fastrand::Rng,
    counts: FloodCounts,
}

impl Flood {
    /// A flood at the servers of this profile; `None` where they are not IPv4.
    pub fn new(config: FloodConfig, profile: &Profile) -> Option<Flood> {
        let target = profile.servers.get(0);
        let target = AddressRange::single(target.as_v4()?);
        let port = profile.tcp_ports.get(0);
        let attackers = AddressRange::between(ATTACKERS.0, ATTACKERS.1);
        let (sources, ports) = (PortRange::new(1024, 65_535), PortRange::new(port, port));
        Some(Flood {
            tuples: Tuples::new(attackers, sources, target, ports, config.seed),
            attackers,
            pacer: None,
            due: 0,
            answers: VecDeque::with_capacity(ANSWERS),
            random: fastrand::Rng::with_seed(config.seed),
            counts: FloodCounts::default(),
            config,
        })
    }

    /// Sends `per_second` SYNs per second from `now` on, and resets the counters.
    pub fn start(&mut self, per_second: u64, now: Instant) {
        self.counts = FloodCounts::default();
        self.pacer = Some(Pacer::new(per_second, 0, now));
    }

    /// Stops sending SYNs.
    pub fn stop(&mut self) {
        self.counts = self.counts();
        self.pacer = None;
        self.due = 0;
        self.answers.clear();
    }

    /// Returns what was counted since [`Flood::start`].
    pub fn counts(&self) -> FloodCounts {
        let missed = self.pacer.as_ref().map_or(self.counts.missed, Pacer::missed);
        FloodCounts { missed, ..self.counts }
    }

    /// Fills the batch's free room with SYNs that are due.
    pub fn attack(&mut self, pool: &mut Pool, batch: &mut Batch, now: Instant) {
        let Some(pacer) = &mut self.pacer else { return };
        self.due = pacer.due_again(self.due, now);
        let wire = Wire { mac: self.config.client_mac, vlan: self.config.vlan, text: None };
        while self.due > 0 && batch.remaining_capacity() > 0 {
            let tuple = self.tuples.next();
            let flow = Flow {
                local: tuple.client,
                remote: tuple.server,
                local_port: tuple.client_port,
                remote_port: tuple.server_port,
                protocol: PROTOCOL_TCP,
            };
            let seq = self.random.u32(..);
            let syn = SegmentOut {
                seq,
                flags: SYN,
                window: 65_535,
                options: OPTIONS,
                ..SegmentOut::default()
            };
            let mut packet = pool.take();
            frame::tcp(&mut packet, &wire, self.config.gateway, &flow, &syn);
            packet.offload.checksum = Checksum::Unverified;
            batch.push(packet);
            self.due -= 1;
            self.counts.sent += 1;
        }
    }

    /// Fills the batch's free room with the target's answers.
    pub fn answer(&mut self, pool: &mut Pool, batch: &mut Batch) {
        let wire = Wire { mac: self.config.server_mac, vlan: self.config.vlan, text: None };
        while batch.remaining_capacity() > 0 {
            let Some((flow, to, ack)) = self.answers.pop_front() else { break };
            let seq = self.random.u32(..);
            let out = SegmentOut {
                seq,
                ack,
                flags: SYN | ACK,
                window: 65_535,
                options: OPTIONS,
                ..SegmentOut::default()
            };
            let mut packet = pool.take();
            frame::tcp(&mut packet, &wire, to, &flow, &out);
            packet.offload.checksum = Checksum::Unverified;
            batch.push(packet);
        }
    }

    /// Removes the attack's segments from packets that arrived at the servers' side.
    pub fn sift_server(&mut self, pool: &mut Pool, batch: &mut Batch) {
        for packet in batch.take() {
            match self.attack_of(packet.data()) {
                None => batch.push(packet),
                Some((flow, mac, seq)) => {
                    self.counts.forwarded += 1;
                    if self.answers.len() < ANSWERS {
                        self.answers.push_back((flow, mac, seq.wrapping_add(1)));
                    }
                    pool.give(packet);
                }
            }
        }
    }

    /// Removes answers to attackers from packets that arrived at the clients' side. Attackers do not answer
    /// them.
    pub fn sift_client(&mut self, pool: &mut Pool, batch: &mut Batch) {
        for packet in batch.take() {
            let arrived = frame_in::read(packet.data(), self.config.vlan, false);
            match arrived {
                Ok(arrived) if self.attackers.contains(arrived.destination) => {
                    self.counts.answered += 1;
                    pool.give(packet);
                }
                _ => batch.push(packet),
            }
        }
    }

    /// Returns the flow as the target sees it, the sender's MAC address and the sequence number; `None` where
    /// the frame is not an attack's.
    fn attack_of(&self, frame: &[u8]) -> Option<(Flow, MacAddr, u32)> {
        let arrived = frame_in::read(frame, self.config.vlan, false).ok()?;
        let Content::Tcp(segment) = arrived.content else { return None };
        if !self.attackers.contains(arrived.source) {
            return None;
        }
        let flow = Flow {
            local: arrived.destination,
            remote: arrived.source,
            local_port: segment.destination_port,
            remote_port: segment.source_port,
            protocol: PROTOCOL_TCP,
        };
        Some((flow, arrived.source_mac, segment.seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_are_told_from_what_is_real_on_both_sides() {
        let config = FloodConfig {
            client_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            server_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            gateway: MacAddr([2, 0, 0, 0, 0, 2]),
            vlan: Some(9),
            seed: 1,
        };
        let profile = Profile::default();
        let mut flood = Flood::new(config.clone(), &profile).unwrap();
        let (mut pool, mut batch) = (Pool::new(64), Batch::new());
        flood.start(10_000, Instant::from_nanos(0));
        flood.attack(&mut pool, &mut batch, Instant::from_millis(1));
        assert_eq!((batch.len(), flood.counts().sent), (10, 10));
        // A real client's SYN among them.
        let real = Flow {
            local: profile.clients.get(0),
            remote: profile.servers.get(0),
            local_port: 5000,
            remote_port: profile.tcp_ports.get(0),
            protocol: PROTOCOL_TCP,
        };
        let wire = Wire { mac: config.client_mac, vlan: Some(9), text: None };
        let mut packet = pool.take();
        let syn = SegmentOut { flags: SYN, options: OPTIONS, ..SegmentOut::default() };
        frame::tcp(&mut packet, &wire, config.gateway, &real, &syn);
        batch.push(packet);
        flood.sift_server(&mut pool, &mut batch);
        assert_eq!((batch.len(), flood.counts().forwarded), (1, 10));
        batch.clear();
        flood.answer(&mut pool, &mut batch);
        assert_eq!(batch.len(), 10);
        let arrived = frame_in::read(batch[0].data(), Some(9), true).unwrap();
        let Content::Tcp(segment) = arrived.content else { panic!("{arrived:?}") };
        assert_eq!((segment.flags, segment.source_port), (SYN | ACK, 8080));
        assert_eq!(arrived.source, profile.servers.get(0));
        flood.sift_client(&mut pool, &mut batch);
        assert_eq!((batch.len(), flood.counts().answered), (0, 10));
        flood.stop();
        flood.attack(&mut pool, &mut batch, Instant::from_millis(2));
        assert!(batch.is_empty() && flood.counts().sent == 10);
        // SYNs that were due in a long gap between two calls count as missed.
        flood.start(10_000, Instant::from_millis(2));
        flood.attack(&mut pool, &mut batch, Instant::from_millis(1002));
        assert!(flood.counts().missed > 9000);
    }
}
