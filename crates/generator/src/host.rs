//! One side of the traffic: many simulated clients, or many servers, behind one port.
//!
//! The driver of a host calls in a loop, with the current time: [`Host::receive`] for packets that arrived,
//! [`Host::tick`] for timers and new connections, and [`Host::transmit`] until it fills no further batch.

mod arrivals;
mod departures;

use crate::address::{Address, AddressRange, PortRange};
use crate::connection::{Connections, Machine};
use crate::frame::{Flow, PROTOCOL_TCP, PROTOCOL_UDP, Resolution, SegmentOut, Wire};
use crate::frame_in::{self, Discard};
use crate::late::Late;
use crate::neighbours::{Lookup, Neighbours, Overdue};
use crate::pacer::Pacer;
use crate::profile::{Profile, ProfileError};
use crate::statistics::{End, Statistics};
use crate::tcp::{Settings, Tcp};
use crate::tuples::Tuples;
use crate::udp::Udp;
use arrayvec::ArrayVec;
use base::limits::BATCH_SIZE;
use base::{Instant, MacAddr};
use packet::{Batch, Checksum, Offload, Pool};
use std::collections::VecDeque;

/// Most answers that wait to be sent; further ones are dropped and counted.
const ANSWERS: usize = 4096;
/// Number of combinations of addresses and ports that one open tries.
const TRIES: usize = 64;
/// Most connections opened in one tick, so that answers are not delayed.
const OPENS_A_TICK: u64 = 256;

/// Which side of the traffic a host simulates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Opens connections.
    Client,
    /// Accepts them.
    Server,
}

/// The configuration of a host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Which side it is.
    pub role: Role,
    /// Its Ethernet address, shared by all its IP addresses.
    pub mac: MacAddr,
    /// The VLAN in which it sends and receives; `None` is untagged.
    pub vlan: Option<u16>,
    /// Destination MAC address of a client's frames; `None` resolves each server's address (ARP, ND). Servers
    /// answer to the source of a packet.
    pub gateway: Option<MacAddr>,
    /// The traffic that it generates.
    pub profile: Profile,
    /// Seed for addresses, ports and sequence numbers: the same seed gives the same run.
    pub seed: u64,
    /// Most connections; each takes [`crate::BYTES_PER_CONNECTION`].
    pub capacity: usize,
}

/// One side of the traffic.
pub struct Host {
    wire: Wire,
    addresses: AddressRange,
    /// Addresses of the other side.
    peers: AddressRange,
    tcp_ports: PortRange,
    udp_ports: PortRange,
    settings: Settings,
    connections: Connections,
    neighbours: Neighbours,
    answers: VecDeque<Answer>,
    fired: Vec<u32>,
    /// The time by which timers run.
    late: Late,
    random: fastrand::Rng,
    opener: Option<Opener>,
    statistics: Statistics,
}

/// State that only a client has.
struct Opener {
    opening: bool,
    gateway: Option<MacAddr>,
    pacer: Option<Pacer>,
    /// Opens that earlier pacers missed.
    missed_before: u64,
    at_once: usize,
    /// Number of connections to open in total.
    total: u64,
    udp_percent: f64,
    /// Rises by the percentage of UDP with each open; at 100 the next connection is UDP.
    udp_turn: f64,
    tcp: Tuples,
    udp: Tuples,
}

/// A queued frame that belongs to no connection.
enum Answer {
    Resolution(Resolution),
    /// To an address outside the generator's ranges.
    ToOthers(Resolution),
    Segment {
        flow: Flow,
        to: MacAddr,
        out: SegmentOut,
    },
}

/// The connection that a frame belongs to, and the frame's sender.
struct Known {
    flow: Flow,
    hash: u32,
    from: MacAddr,
}

impl Host {
    /// A host that is idle until it is driven. A client opens its first connections in its first tick, at
    /// `now` or later.
    pub fn new(config: HostConfig, now: Instant) -> Result<Host, ProfileError> {
        let HostConfig { role, mac, vlan, gateway, profile, seed, capacity } = config;
        profile.check()?;
        let room = capacity.clamp(1, u32::MAX as usize / 2);
        let tuples = |ports, seed| {
            Tuples::new(profile.clients, profile.client_ports, profile.servers, ports, seed)
        };
        let opener = (role == Role::Client).then(|| Opener {
            opening: true,
            gateway,
            pacer: profile.connections_per_second.map(|r| Pacer::new(r, profile.ramp_ms, now)),
            missed_before: 0,
            at_once: room.min(profile.connections_at_once as usize),
            total: u64::MAX,
            udp_percent: profile.udp_percent,
            udp_turn: 0.0,
            tcp: tuples(profile.tcp_ports, seed),
            udp: tuples(profile.udp_ports, seed ^ 0x5555_5555),
        });
        let text = if role == Role::Client { &profile.request_text } else { &profile.reply_text };
        let text = text.as_ref().map(|text| text.as_bytes().into());
        Ok(Host {
            wire: Wire { mac, vlan, text },
            addresses: if role == Role::Client { profile.clients } else { profile.servers },
            peers: if role == Role::Client { profile.servers } else { profile.clients },
            tcp_ports: profile.tcp_ports,
            udp_ports: profile.udp_ports,
            settings: Settings::new(&profile),
            connections: Connections::new(room, seed, now),
            neighbours: Neighbours::default(),
            answers: VecDeque::with_capacity(ANSWERS),
            fired: Vec::new(),
            late: Late::new(now),
            random: fastrand::Rng::with_seed(seed),
            opener,
            statistics: Statistics::default(),
        })
    }

    /// Sets the other side's addresses where they are more than those of this host's profile, because several
    /// hosts share them.
    pub fn set_peers(&mut self, peers: AddressRange) {
        self.peers = peers;
    }

    /// Returns the counters since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the number of connections alive.
    pub fn alive(&self) -> usize {
        self.connections.len()
    }

    /// Returns the opens that were due and missed because the host was not driven often enough.
    pub fn missed_opens(&self) -> u64 {
        let Some(opener) = &self.opener else { return 0 };
        opener.missed_before + opener.pacer.as_ref().map_or(0, Pacer::missed)
    }

    /// From `now` on, a client opens `per_second` connections per second, after a linear rise from 0 over
    /// `ramp_ms`. Connections that are already open continue.
    pub fn open_at(&mut self, per_second: u64, ramp_ms: u64, now: Instant) {
        self.settings.spreads_waits = true;
        if let Some(opener) = &mut self.opener {
            let missed = opener.pacer.as_ref().map_or(0, Pacer::missed);
            opener.missed_before += missed;
            opener.opening = true;
            opener.pacer = Some(Pacer::new(per_second, ramp_ms, now));
        }
    }

    /// Opens no further connections. Those alive continue to their end.
    pub fn stop_opening(&mut self) {
        if let Some(opener) = &mut self.opener {
            opener.opening = false;
        }
    }

    /// Stops opening connections once `opened` were opened in total.
    pub fn stop_opening_after(&mut self, opened: u64) {
        if let Some(opener) = &mut self.opener {
            opener.total = opened;
        }
    }

    /// Ends all connections at once without sending anything to their peers.
    pub fn abort_all(&mut self) {
        for id in self.connections.ids() {
            self.end(id, End::Aborted);
        }
        for id in self.connections.closed.ids() {
            self.connections.closed.remove(id);
            self.statistics.count_end(End::Aborted);
        }
    }

    /// Processes packets that arrived and returns their buffers to `pool`.
    ///
    /// The connections of the whole batch are looked up before the first packet is read, so that their cache
    /// misses overlap.
    pub fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, now: Instant) {
        let mut hashes: ArrayVec<Option<u32>, BATCH_SIZE> = ArrayVec::new();
        for packet in batch.iter() {
            let flow = frame_in::likely_flow(packet.data(), self.wire.vlan);
            let hash = flow.map(|flow| self.connections.hash(&flow));
            hash.into_iter().for_each(|hash| self.connections.prefetch_chain(hash));
            hashes.push(hash);
        }
        for hash in hashes.iter().flatten() {
            self.connections.prefetch_connection(*hash);
        }
        self.statistics.rx_packets += batch.len() as u64;
        for (packet, hash) in batch.drain(..).zip(hashes) {
            self.statistics.rx_bytes += packet.len() as u64;
            self.read(packet.data(), &packet.offload, hash, now.as_nanos());
            pool.give(packet);
        }
    }

    #[inline]
    fn read(&mut self, frame: &[u8], offload: &Offload, hash: Option<u32>, now: u64) {
        // The kernel has not computed this checksum yet, so it was never on a wire.
        let verify = offload.checksum == Checksum::Unverified;
        if let (None, Some(hash)) = (self.wire.vlan, hash)
            && let Some((from, flow, segment)) = frame_in::read_plain(frame, verify)
        {
            if self.addresses.contains(flow.local) {
                self.take_segment(&Known { flow, hash, from }, &segment, now);
            } else {
                self.count_for_others(flow.local);
            }
            return;
        }
        match frame_in::read(frame, self.wire.vlan, verify) {
            Ok(arrived) => self.take(&arrived, now),
            Err(Discard::Malformed) => self.statistics.rx_malformed += 1,
            Err(Discard::BadChecksum) => self.statistics.rx_bad_checksum += 1,
            Err(Discard::Foreign) => self.statistics.rx_foreign += 1,
        }
    }

    /// Runs timers and opens the connections that are due.
    pub fn tick(&mut self, now: Instant) {
        let mut fired = std::mem::take(&mut self.fired);
        fired.clear();
        self.connections.advance(self.late.now(now), &mut fired);
        let now_ns = now.as_nanos();
        for &id in &fired {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            let (set, stats) = (&self.settings, &mut self.statistics);
            let end = match &mut connection.machine {
                Machine::Tcp(tcp) => tcp.on_timer(now_ns, set, stats),
                Machine::Udp(udp) => udp.on_timer(now_ns, set, stats),
            };
            match end {
                Some(end) => self.end(id, end),
                None => self.connections.touch(id),
            }
        }
        self.fired = fired;
        while let Some(end) = self.connections.closed.pop(now_ns) {
            self.statistics.count_end(end);
        }
        for overdue in self.neighbours.overdue(now_ns) {
            match overdue {
                Overdue::Ask { local, wanted } => {
                    self.answer(Answer::Resolution(Resolution::Ask { local, wanted }));
                }
                Overdue::GiveUp(waiting) => {
                    waiting.into_iter().for_each(|id| self.end_unresolved(id));
                }
            }
        }
        self.open_due(now);
    }

    fn answer(&mut self, answer: Answer) {
        if self.answers.len() < ANSWERS {
            self.answers.push_back(answer);
        } else {
            self.statistics.answers_dropped += 1;
        }
    }

    fn end(&mut self, id: u32, end: End) {
        self.connections.remove(id);
        self.statistics.count_end(end);
    }

    fn end_unresolved(&mut self, id: u32) {
        // The slot may belong to another connection by now, which has its MAC address already.
        if self.connections.get_mut(id).is_some_and(|connection| connection.to.is_none()) {
            self.end(id, End::Unresolved);
        }
    }

    fn open_due(&mut self, now: Instant) {
        let alive = self.connections.len();
        let opened = self.statistics.opened;
        // Once the last connection is opened, nothing more is due and nothing can be missed.
        let opens = |opener: &&mut Opener| opener.opening && opened < opener.total;
        let Some(opener) = self.opener.as_mut().filter(opens) else { return };
        let room = opener.at_once.saturating_sub(alive) as u64;
        let opens = match &mut opener.pacer {
            Some(pacer) => {
                let due = pacer.due(now);
                self.statistics.at_limit += due.saturating_sub(room);
                due.min(room)
            }
            None => room.min(OPENS_A_TICK),
        };
        let opens = opens.min(opener.total.saturating_sub(self.statistics.opened));
        for _ in 0..opens {
            self.open(now.as_nanos());
        }
    }

    fn open(&mut self, now: u64) {
        let Some(opener) = &mut self.opener else { return };
        opener.udp_turn += opener.udp_percent;
        let is_udp = opener.udp_turn >= 100.0;
        if is_udp {
            opener.udp_turn -= 100.0;
        }
        let (tuples, protocol) = match is_udp {
            true => (&mut opener.udp, PROTOCOL_UDP),
            false => (&mut opener.tcp, PROTOCOL_TCP),
        };
        let free = (0..TRIES).find_map(|_| {
            let tuple = tuples.next();
            let flow = Flow {
                local: tuple.client,
                remote: tuple.server,
                local_port: tuple.client_port,
                remote_port: tuple.server_port,
                protocol,
            };
            // A combination that is used for the first time cannot be taken.
            (!tuples.comes_again || !self.connections.is_taken(&flow)).then_some(flow)
        });
        let Some(flow) = free else {
            self.statistics.tuples_exhausted += 1;
            return;
        };
        let gateway = opener.gateway;
        let machine = match is_udp {
            true => Machine::Udp(Udp::connect(now)),
            false => Machine::Tcp(Tcp::connect(self.random.u32(..), now, &self.settings)),
        };
        let Some(id) = self.connections.insert(flow, gateway, machine) else { return };
        self.statistics.opened += 1;
        if gateway.is_none() {
            match self.neighbours.look_up(flow.remote, flow.local, id, now) {
                Lookup::Known(mac) => self.resolved(id, flow.remote, mac),
                Lookup::Wait => {}
                Lookup::Ask => {
                    let ask = Resolution::Ask { local: flow.local, wanted: flow.remote };
                    self.answer(Answer::Resolution(ask));
                }
                Lookup::Full => self.end(id, End::Unresolved),
            }
        }
        self.connections.touch(id);
    }

    fn resolved(&mut self, id: u32, address: Address, mac: MacAddr) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.flow.remote == address
        {
            connection.to = Some(mac);
            self.connections.touch(id);
        }
    }
}

#[cfg(test)]
mod tests;
