//! Hosts with empty neighbour caches that all start a TCP transfer at once and retransmit like a kernel.

use base::{Instant, MacAddr};
use load::in_memory::{Cable, Frames};
use packet::{Batch, Pool};
use port::{TxCounters, TxQueue};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::TcpFlags;
use wire::builder::PacketBuilder;

/// Retransmission timeout of an ARP request (Linux: `net.ipv4.neigh.default.retrans_time_ms`) and of a SYN
/// (RFC 6298 section 2).
const RETRANSMIT: Duration = Duration::from_secs(1);
/// Maximum number of transmissions of a request (`mcast_solicit`), and here also of a SYN.
const TRIES: u32 = 3;
/// Segments of a transfer, each acknowledged.
const SEGMENTS: u32 = 10;
/// Bytes of a segment.
const SEGMENT: usize = 1000;
const PORT: u16 = 5001;

// Offsets into Ethernet frames: of ARP, and of TCP over IPv4 without options.
const ETH_TYPE: usize = 12;
const ARP_OPERATION: usize = 21;
const ARP_SENDER_MAC: usize = 22;
const ARP_TARGET: usize = 38;
const IP_DESTINATION: usize = 30;
const TCP_SOURCE: usize = 34;
const TCP_FLAGS: usize = 47;

/// The frames in flight to and from a host.
#[derive(Clone, Debug, Default)]
struct Wire {
    to_host: Frames,
    from_host: Frames,
}

/// The state of a host's transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It sends ARP requests; this is the number of the current one.
    Resolving(u32),
    /// It sends SYNs; this is the number of the current one.
    Opening(u32),
    /// The number of acknowledged segments.
    Sending(u32),
    Done,
    Failed,
}

struct Host {
    mac: MacAddr,
    address: Ipv4Addr,
    peer: Ipv4Addr,
    peer_mac: Option<MacAddr>,
    state: State,
    /// The time of its next transmission.
    timer: Instant,
    wire: Wire,
}

/// Counters of all hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Transfers that were completed.
    pub done: usize,
    /// Hosts that gave up.
    pub failed: usize,
    /// Retransmitted ARP requests.
    pub arp_retransmissions: u32,
    /// Retransmitted SYNs.
    pub syn_retransmissions: u32,
}

/// All hosts, each with its own port.
pub struct Hosts {
    hosts: Vec<Host>,
    counts: Counts,
}

impl Hosts {
    /// Creates this many hosts, each of which starts a transfer to another one: all of them now, or one after
    /// the other over some time. With `is_known`, they already know each other's Ethernet addresses.
    pub fn start(count: u16, is_known: bool, now: Instant, over: Duration) -> Hosts {
        let mac = |n: u16| MacAddr([2, 0, 0, 1, (n >> 8) as u8, n as u8]);
        let address = |n: u16| Ipv4Addr::from(0x0a00_0001 + u32::from(n));
        let host = |n: u16| {
            let peer = (n + count / 2) % count;
            Host {
                mac: mac(n),
                address: address(n),
                peer: address(peer),
                peer_mac: is_known.then(|| mac(peer)),
                state: State::Resolving(0),
                timer: now + over * u32::from(n) / u32::from(count),
                wire: Wire::default(),
            }
        };
        let mut hosts = Hosts { hosts: (0..count).map(host).collect(), counts: Counts::default() };
        hosts.tick(now);
        hosts
    }

    /// The switch's ends of their cables.
    pub fn cables(&self) -> Vec<Cable> {
        let cable = |(n, host): (usize, &Host)| {
            let wire = host.wire.clone();
            let address = host.address;
            Cable {
                port: base::PortNo(n as u32 + 1),
                rx: Box::new(wire.from_host),
                tx: Box::new(ToHost { address, frames: wire.to_host }),
            }
        };
        self.hosts.iter().enumerate().map(cable).collect()
    }

    /// Whether a host has sent frames that were not received yet.
    pub fn has_sent(&self, host: usize) -> bool {
        self.hosts.get(host).is_some_and(|host| !host.wire.from_host.is_empty())
    }

    /// Makes hosts receive frames and answer.
    pub fn answer(&mut self, now: Instant) {
        for host in &mut self.hosts {
            while let Some(frame) = host.wire.to_host.pop() {
                host.hear(&frame, now, &mut self.counts);
            }
        }
    }

    /// Makes hosts retransmit what was not answered in time.
    pub fn tick(&mut self, now: Instant) {
        for host in self.hosts.iter_mut().filter(|host| host.timer <= now) {
            host.send_again(now, &mut self.counts);
        }
    }

    /// Returns the time of the next retransmission; `None` if all are done.
    pub fn next_timer(&self) -> Option<Instant> {
        let busy = self.hosts.iter().filter(|host| !host.is_over());
        busy.map(|host| host.timer).min()
    }

    /// The results so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether every transfer has ended.
    pub fn are_over(&self) -> bool {
        self.hosts.iter().all(Host::is_over)
    }
}

impl Host {
    fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Failed)
    }

    fn send_again(&mut self, now: Instant, counts: &mut Counts) {
        match (self.state, self.peer_mac) {
            (State::Resolving(_), Some(_)) => self.open(1, now),
            (State::Resolving(tries) | State::Opening(tries), _) if tries >= TRIES => {
                counts.failed += 1;
                self.state = State::Failed;
            }
            (State::Resolving(tries), None) => {
                counts.arp_retransmissions += u32::from(tries > 0);
                self.state = State::Resolving(tries + 1);
                self.timer = now + RETRANSMIT;
                let broadcast = MacAddr([0xff; 6]);
                let frame = PacketBuilder::eth(self.mac, broadcast);
                self.send(frame.arp_request(self.address, self.peer));
            }
            (State::Opening(tries), _) => {
                counts.syn_retransmissions += 1;
                self.open(tries + 1, now);
            }
            // TCP's own timers: cables lose nothing, and the switch drops only what it refuses.
            (State::Sending(_), _) => {
                self.timer = now + RETRANSMIT;
                self.send_segment();
            }
            (State::Done | State::Failed, _) => self.timer = now + Duration::from_secs(3600),
        }
    }

    fn hear(&mut self, frame: &[u8], now: Instant, counts: &mut Counts) {
        let eth_type = crate::packets::take::<2>(frame, ETH_TYPE);
        let from = MacAddr(crate::packets::take(frame, 6));
        if eth_type == [0x08, 0x06] {
            let mac = MacAddr(crate::packets::take(frame, ARP_SENDER_MAC));
            let sender = Ipv4Addr::from(crate::packets::take::<4>(frame, ARP_SENDER_MAC + 6));
            let is_request = frame.get(ARP_OPERATION) == Some(&1);
            if is_request {
                let reply = PacketBuilder::eth(self.mac, mac).arp_reply(self.address, sender);
                self.send(reply);
            } else if sender == self.peer && self.peer_mac.is_none() {
                self.peer_mac = Some(mac);
                self.open(1, now);
            }
            return;
        }
        let source = u16::from_be_bytes(crate::packets::take(frame, TCP_SOURCE));
        let sender = Ipv4Addr::from(crate::packets::take::<4>(frame, IP_DESTINATION - 4));
        let flags = frame.get(TCP_FLAGS).copied().unwrap_or(0);
        let is_syn = TcpFlags(flags.into()).contains(TcpFlags::SYN);
        // A packet of a transfer that this host serves.
        if source != PORT {
            let flags = if is_syn { TcpFlags::SYN | TcpFlags::ACK } else { TcpFlags::ACK };
            self.send(self.segment((from, sender), (PORT, source), flags, 0));
            return;
        }
        match self.state {
            State::Opening(_) if is_syn => {
                self.state = State::Sending(0);
                self.timer = now + RETRANSMIT;
                self.send_segment();
            }
            State::Sending(segments) if !is_syn && segments + 1 < SEGMENTS => {
                self.state = State::Sending(segments + 1);
                self.timer = now + RETRANSMIT;
                self.send_segment();
            }
            State::Sending(_) if !is_syn => {
                counts.done += 1;
                self.state = State::Done;
            }
            _ => {}
        }
    }

    fn open(&mut self, tries: u32, now: Instant) {
        let Some(mac) = self.peer_mac else { return };
        (self.state, self.timer) = (State::Opening(tries), now + RETRANSMIT);
        self.send(self.segment((mac, self.peer), (self.port(), PORT), TcpFlags::SYN, 0));
    }

    fn send_segment(&self) {
        let Some(mac) = self.peer_mac else { return };
        let ports = (self.port(), PORT);
        self.send(self.segment((mac, self.peer), ports, TcpFlags::ACK, SEGMENT));
    }

    /// The port of its own transfer.
    fn port(&self) -> u16 {
        40_000 + u16::from(self.mac.0[5])
    }

    fn segment(
        &self,
        to: (MacAddr, Ipv4Addr),
        ports: (u16, u16),
        flags: TcpFlags,
        bytes: usize,
    ) -> Vec<u8> {
        let ip = PacketBuilder::eth(self.mac, to.0).ipv4(self.address, to.1);
        ip.tcp(ports.0, ports.1).flags(flags).payload(vec![0; bytes]).build()
    }

    fn send(&self, frame: Vec<u8>) {
        self.wire.from_host.push(frame);
    }
}

/// The receive filter of a host's network card: frames for its own address. Broadcasts for others end here,
/// as a kernel ignores them.
struct ToHost {
    address: Ipv4Addr,
    frames: Frames,
}

impl TxQueue for ToHost {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        for packet in batch.drain(..) {
            let frame = packet.data();
            counters.packets += 1;
            counters.bytes += frame.len() as u64;
            let is_arp = frame.get(ETH_TYPE..ETH_TYPE + 2) == Some(&[0x08, 0x06]);
            let at = if is_arp { ARP_TARGET } else { IP_DESTINATION };
            if frame.get(at..at + 4) == Some(&self.address.octets()) {
                self.frames.push(frame.to_vec());
            }
            pool.give(packet);
        }
        counters
    }
}
