//! Short TCP connections through a worker, in memory: the cost of one in nanoseconds and, under `valgrind
//! --tool=callgrind --collect-atstart=no --toggle-collect='*Switch*iterate*'`, in instructions. Usage: `short
//! CONNECTIONS BATCH 6`, where BATCH is the largest batch (default 32) and 6 selects IPv6. First run `cargo
//! build --release -p datapath --example short`.
//!
//! Each connection has eight packets: SYN, SYN-ACK, ACK, request, reply, FIN, FIN, ACK. Thousands are open at
//! a time, so the packets of a batch belong to as many connections and are mostly of different kinds. The
//! clock stands for 250,000 connections per second; closed ones are kept for one second, expired ones are
//! swept every 100 ms, and the caches adapt every 10 ms. Only the switch's part is timed.

use base::limits::BATCH_SIZE;
use base::{Instant, PortNo, RecircId, WorkerId};
use conntrack::{Config, Conntrack, Timeout, TimeoutPolicy};
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{Action, CtAction, CtState, DropReason, Field, FlowCommand, FlowId, FlowPut, Match};
use packet::Batch;
use std::sync::Arc;
use std::time::Duration;

/// Recirculation id of tracked packets.
const TRACKED: RecircId = RecircId(1);
/// Connections begun at a time, and the interval.
const AT_A_TIME: u64 = 8;
const STEP: Duration = Duration::from_micros(32);
/// Steps between two packets of a connection.
const STEPS_BETWEEN: u64 = 100;
/// The packets of a connection, and their input ports.
const PACKETS: [(u32, &str); 8] = [
    (1, "S seq=1"),
    (2, "SA seq=100 ack=2"),
    (1, "A seq=2 ack=101"),
    (1, "PA seq=2 ack=101 len=20"),
    (2, "PA seq=101 ack=22 len=20"),
    (1, "FA seq=22 ack=121"),
    (2, "FA seq=121 ack=23"),
    (1, "A seq=23 ack=122"),
];

/// The packet format of an IP version.
struct Family {
    ethertype: u16,
    /// Source and destination of the packets of each port.
    between: [&'static str; 2],
    /// Offsets of the last four bytes of the client's address, and of its port.
    client: [(usize, usize); 2],
}

const IPV4: Family = Family {
    ethertype: 0x0800,
    between: ["10.0.0.1:1000>10.9.0.1:80", "10.9.0.1:80>10.0.0.1:1000"],
    client: [(26, 34), (30, 36)],
};
const IPV6: Family = Family {
    ethertype: 0x86dd,
    between: ["[fd00::1]:1000>[fd00::9:1]:80", "[fd00::9:1]:80>[fd00::1]:1000"],
    client: [(34, 54), (50, 56)],
};

/// The device under test: a worker and its connections.
struct Switch {
    conntrack: Arc<Conntrack>,
    worker: Worker,
    out: Outbox,
    sent: u64,
}

fn main() {
    let connections: u64 =
        std::env::args().nth(1).map_or(1_000_000, |word| word.parse().expect("a number"));
    let batch_max: usize =
        std::env::args().nth(2).map_or(BATCH_SIZE, |word| word.parse().expect("a number"));
    let family = if std::env::args().nth(3).as_deref() == Some("6") { IPV6 } else { IPV4 };
    let mut switch = Switch::new(&family);
    let kinds = PACKETS.map(|(port, text)| {
        let text = format!("{} {text}", family.between[port as usize - 1]);
        (port, wire::text::parse(&text).expect("a packet"))
    });
    let mut random = fastrand::Rng::with_seed(7);
    let mut now = Instant::from_millis(1_000_000);
    // Measurement starts when all connections are in progress and old ones expire.
    let warm_up = (connections / 4).max(26_000.max(AT_A_TIME * STEPS_BETWEEN * kinds.len() as u64))
        / AT_A_TIME;
    let (mut elapsed, mut arriving) = (Duration::ZERO, [Vec::new(), Vec::new()]);
    let (mut ticked, mut swept) = (now, now);
    for step in 0..warm_up + connections / AT_A_TIME {
        now = now + STEP;
        for (kind, (port, bytes)) in (0..).zip(&kinds) {
            let Some(begun) = u64::checked_sub(step, kind * STEPS_BETWEEN) else { break };
            let client = family.client[*port as usize - 1];
            let these = (0..AT_A_TIME).map(|i| (begun * AT_A_TIME + i, client, bytes));
            arriving[*port as usize - 1].extend(these);
        }
        for (port, arriving) in (1..).zip(&mut arriving) {
            random.shuffle(arriving);
            for packets in arriving.chunks(batch_max) {
                let made =
                    packets.iter().map(|(n, client, bytes)| switch.packet(bytes, *client, *n));
                let mut batch: Batch = made.collect();
                if step < warm_up {
                    switch.worker.receive(now, PortNo(port), &mut batch, &mut switch.out);
                } else {
                    let start = std::time::Instant::now();
                    switch.iterate(now, PortNo(port), &mut batch);
                    elapsed += start.elapsed();
                }
                switch.take_back();
            }
            arriving.clear();
        }
        if now - swept >= Duration::from_millis(100) {
            swept = now;
            let start = std::time::Instant::now();
            switch.turn_of_the_clock(now);
            if step >= warm_up {
                elapsed += start.elapsed();
            }
        }
        if now - ticked >= Duration::from_millis(10) {
            ticked = now;
            switch.worker.tick_alone();
        }
    }
    switch.report(elapsed.as_nanos() as f64, (warm_up * AT_A_TIME, connections));
}

impl Switch {
    fn new(family: &Family) -> Switch {
        let mut timeouts = TimeoutPolicy::new();
        use Timeout::{TcpClose, TcpFinWait, TcpSynRecv, TcpSynSent, TcpTimeWait};
        for timeout in [TcpSynSent, TcpSynRecv, TcpFinWait, TcpTimeWait, TcpClose] {
            timeouts.set(timeout, 1);
        }
        let config = Config { timeouts, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(7, config));
        let tracker = conntrack.tracker().expect("one thread is not too many");
        let (config, upcalls) = (WorkerConfig::default(), Arc::new(UpcallQueue::new()));
        let mut worker = Worker::new(WorkerId(0), tracker, upcalls, config, 7);
        for (id, (matching, actions)) in (1..).zip(flows(family.ethertype)) {
            let put = FlowPut { id: FlowId(id), matching, actions: actions.into() };
            worker.command(Instant::ZERO, FlowCommand::Put(Box::new(put)), &mut Outbox::new());
        }
        Switch { conntrack, worker, out: Outbox::new(), sent: 0 }
    }

    /// One packet of a connection.
    fn packet(
        &mut self,
        bytes: &[u8],
        (address, port): (usize, usize),
        number: u64,
    ) -> packet::Packet {
        let mut packet = self.worker.pool().take();
        packet.receive_copy(bytes);
        let data = packet.data_mut();
        data[address + 1..address + 4].copy_from_slice(&(number as u32 >> 14).to_be_bytes()[1..]);
        data[port..port + 2].copy_from_slice(&(1024 + number as u16 % (1 << 14)).to_be_bytes());
        assert!(wire::builder::fill_checksums(&mut data[14..]));
        packet
    }

    /// The measured part.
    #[inline(never)]
    fn iterate(&mut self, now: Instant, port: PortNo, batch: &mut Batch) {
        self.worker.receive(now, port, batch, &mut self.out);
    }

    /// Also measured.
    #[inline(never)]
    fn turn_of_the_clock(&mut self, now: Instant) {
        while self.conntrack.tick(now) > 0 {}
    }

    fn take_back(&mut self) {
        for (_, batch) in self.out.batches_mut() {
            self.sent += batch.len() as u64;
            batch.drain(..).for_each(|packet| self.worker.pool().give(packet));
        }
    }

    fn report(&self, elapsed_ns: f64, (warm_up, connections): (u64, u64)) {
        let stats = self.worker.stats();
        let begun = warm_up + connections;
        let on_the_way = AT_A_TIME * STEPS_BETWEEN * (PACKETS.len() as u64 - 1);
        assert_eq!(stats.drops.total(), 0, "{:?}", stats.drops.get(DropReason::NoAction));
        assert_eq!((stats.misses, self.sent), (0, stats.received));
        assert!(stats.received >= (begun - on_the_way) * PACKETS.len() as u64);
        let passes = stats.exact_hits + stats.megaflow_hits;
        println!(
            "{connections} connections, {:.0} ns each, {:.0} a second; of {passes} passes {:.1}% \
             known, {:.1}% in the exact-match cache; {} connections at the end",
            elapsed_ns / connections as f64,
            connections as f64 * 1e9 / elapsed_ns,
            100.0 * stats.unified_hits as f64 / passes as f64,
            100.0 * (stats.exact_hits - stats.unified_hits) as f64 / passes as f64,
            self.conntrack.connections(),
        );
    }
}

/// The flows that let clients of port 1 open connections to servers of port 2.
fn flows(ethertype: u16) -> Vec<(Match, Vec<Action>)> {
    let mut flows = Vec::new();
    let from = |port: u32, recirc: RecircId| {
        Match::any()
            .with(Field::InPort, port.into())
            .with(Field::RecircId, recirc.0.into())
            .with(Field::EthType, ethertype.into())
            .with(Field::NwFrag, 0)
    };
    let commit = CtAction { commit: true, ..CtAction::default() };
    for (port, to) in [(1u32, 2u32), (2, 1)] {
        let output = Action::Output(PortNo(to));
        let untracked =
            from(port, RecircId(0)).with_masked(Field::CtState, 0, CtState::TRK.bits().into());
        let ct = Action::Ct(Box::default());
        flows.push((untracked, vec![ct, Action::Recirc(TRACKED)]));
        let state = |state: CtState| {
            let of = (CtState::NEW | CtState::EST | CtState::TRK).bits().into();
            let is = (state | CtState::TRK).bits().into();
            from(port, TRACKED).with_masked(Field::CtState, is, of)
        };
        flows.push((state(CtState::EST), vec![output.clone()]));
        if port == 1 {
            let commit = Action::Ct(Box::new(commit.clone()));
            flows.push((state(CtState::NEW), vec![commit, output]));
        }
    }
    flows
}
