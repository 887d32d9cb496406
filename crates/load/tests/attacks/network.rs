//! A whole switch in memory, whose time is an argument, and the packets that it receives.

use base::{Instant, MacAddr, PortNo, WorkerId, limits};
use conntrack::{Config as ConntrackConfig, Conntrack};
use load::in_memory::{Cable, Frames, Switch};
use packet::{Batch, Pool};
use port::{TxCounters, TxQueue};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use wire::TcpFlags;
use wire::builder::PacketBuilder;

/// Interval of the switch's periodic work.
pub const TICK: Duration = Duration::from_millis(100);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Connections are tracked; clients are on p0, servers on p1.
pub const TRACKED: &str = "table=0,priority=1,ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=1,ip,ct_state=+trk+new,in_port=p0,actions=ct(commit),output:p1
table=1,priority=1,ip,ct_state=+trk+est,in_port=p0,actions=output:p1
table=1,priority=1,ip,ct_state=+trk+est,in_port=p1,actions=output:p0
table=1,priority=0,actions=drop";

pub struct Count(Arc<AtomicU64>);

impl TxQueue for Count {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        for packet in batch.drain(..) {
            self.0.fetch_add(1, Relaxed);
            counters.packets += 1;
            counters.bytes += packet.len() as u64;
            pool.give(packet);
        }
        counters
    }
}

pub struct Network {
    pub switch: Switch,
    pub conntrack: Arc<Conntrack>,
    pub cables: Vec<Cable>,
    pub inputs: Vec<Frames>,
    pub sent: Vec<Arc<AtomicU64>>,
    pub now: Instant,
    ticked: Instant,
}

impl Network {
    pub fn new(ports: u16, flows: &str, connections_max: u32) -> Network {
        let config = ConntrackConfig { connections_max, ..ConntrackConfig::default() };
        let conntrack = Arc::new(Conntrack::new(7, config));
        let shared = Arc::clone(&conntrack);
        let switch = Switch::with_ports(ports, flows, WorkerId(0), shared).unwrap();
        let inputs: Vec<Frames> = (0..ports).map(|_| Frames::default()).collect();
        let sent: Vec<Arc<AtomicU64>> = (0..ports).map(|_| Arc::default()).collect();
        let cable = |(number, (frames, sent)): (usize, (&Frames, &Arc<AtomicU64>))| Cable {
            port: PortNo(number as u32 + 1),
            rx: Box::new(frames.clone()),
            tx: Box::new(Count(Arc::clone(sent))),
        };
        let cables = inputs.iter().zip(&sent).enumerate().map(cable).collect();
        let now = Instant::from_millis(1000);
        Network { switch, conntrack, cables, inputs, sent, now, ticked: now }
    }

    /// Sends frames into a port at this rate, and answers their misses.
    pub fn send(
        &mut self,
        port: usize,
        frames: impl IntoIterator<Item = Vec<u8>>,
        per_second: u64,
    ) {
        let mut frames = frames.into_iter().peekable();
        while frames.peek().is_some() {
            let count = frames.by_ref().take(limits::BATCH_SIZE).fold(0, |count, frame| {
                self.inputs[port].push(frame);
                count + 1
            });
            self.switch.iterate(self.now, &mut self.cables, port).unwrap();
            self.wait(Duration::from_nanos(count * 1_000_000_000 / per_second));
        }
    }

    /// Sends one frame. Returns the number of packets that left each port.
    pub fn send_one(&mut self, port: usize, frame: Vec<u8>) -> Vec<u64> {
        let before: Vec<u64> = self.sent.iter().map(|sent| sent.load(Relaxed)).collect();
        self.send(port, [frame], 1_000_000);
        self.sent.iter().zip(before).map(|(sent, before)| sent.load(Relaxed) - before).collect()
    }

    /// Advances time.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while end - self.ticked >= TICK {
            self.ticked = self.ticked + TICK;
            self.now = self.ticked;
            self.switch.keep_up(self.now);
            self.switch.settle(self.now);
            self.switch.tick(self.now);
        }
        self.now = end;
    }
}

pub fn mac(last: u32) -> MacAddr {
    let [_, a, b, c] = last.to_be_bytes();
    MacAddr([2, 0, 0, a, b, c])
}

pub fn udp(source: Ipv4Addr, ports: (u16, u16)) -> Vec<u8> {
    let ip = PacketBuilder::eth(mac(1), mac(2)).ipv4(source, SERVER);
    ip.udp(ports.0, ports.1).payload([0; 18]).build()
}

pub fn tcp(
    reply: bool,
    client: Ipv4Addr,
    port: u16,
    flags: TcpFlags,
    numbers: (u32, u32),
) -> Vec<u8> {
    let eth = if reply { (mac(2), mac(1)) } else { (mac(1), mac(2)) };
    let ends = if reply { (SERVER, client) } else { (client, SERVER) };
    let ports = if reply { (80, port) } else { (port, 80) };
    let ip = PacketBuilder::eth(eth.0, eth.1).ipv4(ends.0, ends.1);
    ip.tcp(ports.0, ports.1).flags(flags).seq(numbers.0).ack(numbers.1).build()
}

/// Opens a connection from p0 to p1.
pub fn open(network: &mut Network) {
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    for (reply, flags, numbers) in
        [(false, syn, (1000, 0)), (true, syn | ack, (5000, 1001)), (false, ack, (1001, 5001))]
    {
        let frame = tcp(reply, CLIENT, 4000, flags, numbers);
        let out = network.send_one(usize::from(reply), frame);
        assert_eq!(out[usize::from(!reply)], 1, "the handshake: {out:?}");
    }
}

/// A packet of the open connection passes in each direction.
pub fn check_open(network: &mut Network, when: &str) {
    for reply in [false, true] {
        let numbers = if reply { (5001, 1001) } else { (1001, 5001) };
        let out =
            network.send_one(usize::from(reply), tcp(reply, CLIENT, 4000, TcpFlags::ACK, numbers));
        assert_eq!(
            out[usize::from(!reply)],
            1,
            "the open connection {when}, reply {reply}: {out:?}"
        );
    }
}

/// A random address other than the client's and the server's.
pub fn stranger(random: &mut fastrand::Rng) -> Ipv4Addr {
    Ipv4Addr::from(0x2000_0000 | random.u32(..0x1000_0000))
}
