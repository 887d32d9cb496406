//! A client joined directly to a server: measures the generator's own ceiling, and shows that it accounts for
//! every packet and connection, over a good network and over a bad one.

use crate::host::{Host, HostConfig, Role};
use crate::profile::{Profile, ProfileError};
use base::{Instant, MacAddr};
use packet::{Batch, Packet, Pool};
use std::collections::VecDeque;

/// Probability of each fault, in parts per million of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultRates {
    /// Packets that vanish.
    pub lose_ppm: u32,
    /// Packets that are duplicated.
    pub duplicate_ppm: u32,
    /// Packets that up to eight later ones overtake.
    pub reorder_ppm: u32,
}

/// One direction of the cable, with faults drawn from a seed. Packets are conserved: entered plus duplicated
/// equals left plus lost plus those inside.
#[derive(Debug)]
pub struct Faults {
    rates: FaultRates,
    random: fastrand::Rng,
    inside: VecDeque<Packet>,
    /// Packets put in.
    pub entered: u64,
    /// Packets taken out.
    pub left: u64,
    /// Packets that vanished.
    pub lost: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets that were overtaken.
    pub reordered: u64,
}

impl Faults {
    fn new(rates: FaultRates, seed: u64) -> Faults {
        Faults {
            rates,
            random: fastrand::Rng::with_seed(seed),
            inside: VecDeque::new(),
            entered: 0,
            left: 0,
            lost: 0,
            duplicated: 0,
            reordered: 0,
        }
    }

    /// Returns the number of packets inside.
    pub fn inside(&self) -> u64 {
        self.inside.len() as u64
    }

    fn happens(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.random.u32(..1_000_000) < ppm
    }

    fn put(&mut self, pool: &mut Pool, batch: &mut Batch) {
        self.entered += batch.len() as u64;
        if self.rates == FaultRates::default() {
            self.inside.extend(batch.drain(..));
            return;
        }
        for packet in batch.drain(..) {
            if self.happens(self.rates.lose_ppm) {
                self.lost += 1;
                pool.give(packet);
                continue;
            }
            if self.happens(self.rates.duplicate_ppm) {
                self.duplicated += 1;
                self.inside.push_back(pool.copy(&packet));
            }
            if self.happens(self.rates.reorder_ppm) {
                self.reordered += 1;
                let back = self.random.usize(1..=8);
                self.inside.insert(self.inside.len().saturating_sub(back), packet);
            } else {
                self.inside.push_back(packet);
            }
        }
    }

    fn take(&mut self, batch: &mut Batch) {
        let count = batch.remaining_capacity().min(self.inside.len());
        self.left += count as u64;
        batch.extend(self.inside.drain(..count));
    }
}

/// A client and a server on the two ends of a cable, driven by one thread.
pub struct SelfTest {
    /// The side that opens.
    pub client: Host,
    /// The side that accepts.
    pub server: Host,
    /// Client to server.
    pub forth: Faults,
    /// Server to client.
    pub back: Faults,
    pool: Pool,
    batch: Batch,
}

impl SelfTest {
    /// Both hosts with this profile, `capacity` connections each, and this network.
    pub fn new(
        profile: &Profile,
        capacity: usize,
        seed: u64,
        rates: FaultRates,
        now: Instant,
    ) -> Result<SelfTest, ProfileError> {
        let host = |role, last, seed| {
            let mac = MacAddr([2, 0, 0, 0, 0, last]);
            let profile = profile.clone();
            let config =
                HostConfig { role, mac, vlan: None, gateway: None, profile, seed, capacity };
            Host::new(config, now)
        };
        Ok(SelfTest {
            client: host(Role::Client, 1, seed)?,
            server: host(Role::Server, 2, seed ^ 0x1234_5678)?,
            forth: Faults::new(rates, seed.wrapping_add(1)),
            back: Faults::new(rates, seed.wrapping_add(2)),
            pool: Pool::new(4096),
            batch: Batch::new(),
        })
    }

    /// Runs timers at `now` and carries packets until both sides have nothing more to send, at most `rounds`
    /// times. Returns the number of packets carried.
    pub fn step(&mut self, now: Instant, rounds: usize) -> u64 {
        let before = self.forth.left + self.back.left;
        self.client.tick(now);
        self.server.tick(now);
        for _ in 0..rounds {
            let carried = self.carry(now);
            if carried == 0 {
                break;
            }
        }
        self.forth.left + self.back.left - before
    }

    fn carry(&mut self, now: Instant) -> u64 {
        let SelfTest { client, server, forth, back, pool, batch } = self;
        let mut cross = |from: &mut Host, to: &mut Host, cable: &mut Faults| {
            from.transmit(pool, batch, now);
            cable.put(pool, batch);
            cable.take(batch);
            let carried = batch.len() as u64;
            to.receive(pool, batch, now);
            carried
        };
        cross(client, server, forth) + cross(server, client, back)
    }

    /// Returns the counters that do not add up, by connection and by packet; empty if all do.
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut same = |what: &str, left: u64, right: u64| {
            if left != right {
                found.push(format!("{what}: {left} is not {right}"));
            }
        };
        let (client, server) = (self.client.statistics(), self.server.statistics());
        let ended = |s: &crate::Statistics| s.completed + s.failed.total();
        let alive = |host: &Host| host.alive() as u64;
        same("client connections", client.opened, ended(client) + alive(&self.client));
        same("server connections", server.accepted, ended(server) + alive(&self.server));
        for (name, cable, from, to) in
            [("forth", &self.forth, client, server), ("back", &self.back, server, client)]
        {
            same(&format!("{name}: sent"), from.tx_packets, cable.entered);
            let out = cable.left + cable.lost + cable.inside();
            same(&format!("{name}: carried"), cable.entered + cable.duplicated, out);
            same(&format!("{name}: received"), cable.left, to.rx_packets);
        }
        found
    }
}

#[cfg(test)]
mod tests;
