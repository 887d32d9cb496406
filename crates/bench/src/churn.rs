//! Short TCP connections: three packets to open each, four to close it.

use super::flame::PerfArgs;
use super::packets::{IP_CHECKSUM, IP_SOURCE, L4_SOURCE, Lot, put, take};
use super::progress::Progress;
use super::threads::{Run, Start, Worked, on_threads};
use super::{BenchError, Outcome, memory};
use ::conntrack::{Config, Conntrack, Event, Timeout, TimeoutPolicy, Tracker};
use base::MacAddr;
use flow::CtAction;
use serde_json::json;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use wire::TcpFlags;
use wire::builder::PacketBuilder;
use wire::checksum::{update_u16, update_u32};

/// Packets of a connection.
pub const PACKETS: u64 = 7;
/// Interval of the expiry of connections, as in the switch.
const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// Offset of the TCP checksum.
const TCP_CHECKSUM: usize = 50;
/// Source ports of one client address.
const PORTS: u64 = 60_000;

/// The work.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Threads.
    pub threads: u16,
    /// Packets of each thread, rounded up to whole batches of connections.
    pub packets: u64,
    /// Connections that each thread has open at a time, which is also the batch size.
    pub batch: usize,
    /// The timeout of everything but established connections, in seconds.
    pub close_s: u32,
}

impl Asked {
    /// Returns the number of groups of connections that each thread opens and closes.
    fn groups(&self) -> u64 {
        self.packets.div_ceil(PACKETS * self.batch as u64)
    }

    fn connections(&self) -> u64 {
        self.groups() * self.batch as u64 * u64::from(self.threads)
    }

    fn timeouts(&self) -> TimeoutPolicy {
        let mut policy = TimeoutPolicy::new();
        use Timeout::{TcpClose, TcpFinWait, TcpSynRecv, TcpSynSent, TcpTimeWait};
        for timeout in [TcpSynSent, TcpSynRecv, TcpFinWait, TcpTimeWait, TcpClose] {
            policy.set(timeout, self.close_s);
        }
        policy.set(Timeout::TcpEstablished, 30);
        policy
    }

    /// What one thread does.
    fn work(&self, tracker: &mut Tracker, thread: u16, start: &Start, seen: &Progress) -> Worked {
        let action = CtAction { commit: true, ..CtAction::default() };
        let mut lots = STEPS.map(|step| step.lot(self.batch));
        let first = u64::from(thread) * self.groups() * self.batch as u64;
        let (mut tracked, mut swept) = (0, clock::now());
        let begun = start.wait();
        for group in 0..self.groups() {
            let number = first + group * self.batch as u64;
            let now = clock::now();
            for (lot, step) in lots.iter_mut().zip(&STEPS) {
                for index in 0..self.batch {
                    lot.change(index, |bytes| step.set_client(bytes, number + index as u64));
                }
                tracker.execute(now, &action, lot.untracked());
                tracked += lot.len() as u64;
            }
            if thread == 0 && now - swept >= SWEEP_EVERY {
                swept = now;
                while tracker.conntrack().tick(now) > 0 {}
            }
            seen.advance(self.batch as u64);
        }
        begun.ended(tracked)
    }
}

/// Opens and closes the connections.
pub fn measure(asked: &Asked, perf: &PerfArgs) -> Result<Outcome, BenchError> {
    let bytes = memory::bytes_per_connection();
    let config = Config {
        // Expired connections that are not removed yet count too; their number depends on the speed.
        connections_max: u32::MAX / 2,
        timeouts: asked.timeouts(),
        ..Config::default()
    };
    let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), config));
    let progress = Progress::start("making connections", asked.connections());
    let looking = perf.start()?;
    let run = on_threads(&conntrack, 0..asked.threads, &[], |tracker, thread, start| {
        asked.work(tracker, thread, start, &progress)
    })?;
    let seen = looking.stop("tidegate bench conntrack --churn")?;
    drop(progress);
    check(&conntrack, asked)?;
    let left = conntrack.connections();
    drop(conntrack);
    let mut outcome = report(asked, &run, left, bytes);
    seen.add_to(&mut outcome);
    Ok(outcome)
}

/// All connections were made, and all packets were valid.
fn check(tracker: &Conntrack, asked: &Asked) -> Result<(), BenchError> {
    let counters = tracker.counters();
    let fine = [Event::Created, Event::Expired];
    if let Some((event, count)) =
        counters.iter().find(|(event, count)| *count > 0 && !fine.contains(event))
    {
        return Err(BenchError::WrongWork(format!("{} counted {count} times", event.name())));
    }
    let (made, asked) = (counters.get(Event::Created), asked.connections());
    if made != asked {
        return Err(BenchError::WrongWork(format!("{made} connections were made, not {asked}")));
    }
    Ok(())
}

fn report(asked: &Asked, run: &Run, left: u32, bytes: Option<f64>) -> Outcome {
    let connections = asked.connections();
    let rate = connections as f64 * 1e9 / run.elapsed_ns.max(1) as f64;
    let (ns, close) = (run.ns_per_packet(), asked.close_s);
    let mut text = format!("conntrack:  {:5} ms\n", run.elapsed_ns / 1_000_000);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{rate:.0} connections per second, of {PACKETS} packets each");
    let _ = writeln!(text, "{ns:.1} ns per packet, {} threads", run.threads);
    let _ = writeln!(
        text,
        "{connections} connections in all, {left} of them not yet forgotten at the end \
         (timeouts: {close} s closing or closed, 30 s established)"
    );
    let json = json!({
        "mode": "churn",
        "threads": run.threads,
        "batch": asked.batch,
        "packets": run.packets,
        "connections": connections,
        "connections_left": left,
        "elapsed_ms": run.elapsed_ns as f64 / 1e6,
        "ns_per_packet": ns,
        "packets_per_second": run.packets_per_second(),
        "bytes_per_connection": bytes,
        "connections_per_second": rate,
        "tcp_timeouts_s": {
            "syn_sent": close, "syn_recv": close, "established": 30,
            "fin_wait": close, "time_wait": close, "close": close,
        },
    });
    Outcome { text, json }
}

/// One of the seven packets.
#[derive(Clone, Copy, Debug)]
struct Step {
    from_client: bool,
    flags: TcpFlags,
    /// Sequence and acknowledgement number, from 1000 at the client and 9000 at the server.
    seq: u32,
    ack: u32,
}

const fn step(from_client: bool, flags: TcpFlags, seq: u32, ack: u32) -> Step {
    Step { from_client, flags, seq, ack }
}

const SYN_ACK: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);
const FIN_ACK: TcpFlags = TcpFlags(TcpFlags::FIN.0 | TcpFlags::ACK.0);

/// A connection from its first packet to its last.
const STEPS: [Step; PACKETS as usize] = [
    step(true, TcpFlags::SYN, 1000, 0),
    step(false, SYN_ACK, 9000, 1001),
    step(true, TcpFlags::ACK, 1001, 9001),
    step(true, FIN_ACK, 1001, 9001),
    step(false, TcpFlags::ACK, 9001, 1002),
    step(false, FIN_ACK, 9001, 1002),
    step(true, TcpFlags::ACK, 1002, 9002),
];

impl Step {
    fn lot(&self, batch: usize) -> Lot {
        let (client, server) = (Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(192, 168, 1, 2));
        let (source, destination) =
            if self.from_client { (client, server) } else { (server, client) };
        let ports = if self.from_client { (1024, 80) } else { (80, 1024) };
        let bytes = PacketBuilder::eth(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
            .ipv4(source, destination)
            .tcp(ports.0, ports.1)
            .flags(self.flags)
            .seq(self.seq)
            .ack(self.ack)
            .window(8192)
            .build();
        Lot::of(std::iter::repeat_n(bytes.as_slice(), batch))
    }

    /// Sets the client of the packet to `number`, and updates both checksums.
    fn set_client(&self, bytes: &mut [u8], number: u64) {
        let address = 0x0a00_0000 | ((number / PORTS) as u32 & 0x00ff_ffff);
        let port = 1024 + (number % PORTS) as u16;
        let (ip_at, port_at) = match self.from_client {
            true => (IP_SOURCE, L4_SOURCE),
            false => (IP_SOURCE + 4, L4_SOURCE + 2),
        };
        let old_address = u32::from_be_bytes(take(bytes, ip_at));
        let old_port = u16::from_be_bytes(take(bytes, port_at));
        let ip_sum = u16::from_be_bytes(take(bytes, IP_CHECKSUM));
        let tcp_sum = u16::from_be_bytes(take(bytes, TCP_CHECKSUM));
        put(bytes, IP_CHECKSUM, update_u32(ip_sum, old_address, address).to_be_bytes());
        // The address is part of TCP's pseudo header.
        let tcp_sum = update_u16(update_u32(tcp_sum, old_address, address), old_port, port);
        put(bytes, TCP_CHECKSUM, tcp_sum.to_be_bytes());
        put(bytes, ip_at, address.to_be_bytes());
        put(bytes, port_at, port.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Field;
    use wire::Addresses;
    use wire::checksum::{Verdict, verify_ipv4_header, verify_tcp};

    #[test]
    fn packets_stay_right_when_the_client_changes() {
        for step in STEPS {
            let mut lot = step.lot(1);
            for number in [0, 1, 59_999, 60_000, 12_345_678_901] {
                lot.change(0, |bytes| step.set_client(bytes, number));
                let frame = &lot.untracked()[0];
                let key = &frame.key;
                let (client, port) = match step.from_client {
                    true => (key.get(Field::Ipv4Src), key.tp_src()),
                    false => (key.get(Field::Ipv4Dst), key.tp_dst()),
                };
                assert_eq!(client as u64 & 0xff_ffff, (number / PORTS) & 0xff_ffff);
                assert_eq!(u64::from(port), 1024 + number % PORTS);
                assert_eq!(verify_ipv4_header(&frame.l3()[..20]), Verdict::Good);
                let addresses = Addresses::V4 {
                    source: (key.get(Field::Ipv4Src) as u32).into(),
                    destination: (key.get(Field::Ipv4Dst) as u32).into(),
                };
                let segment = frame.l4().unwrap();
                let pseudo = addresses.pseudo_sum(6, segment.len());
                assert_eq!(verify_tcp(pseudo, segment), Verdict::Good, "{step:?} {number}");
            }
        }
    }

    #[test]
    fn a_short_run_makes_and_ends_every_connection() {
        let cases = [(1, 1, 1, 1), (1, 700, 10, 100), (2, 1000, 32, 320)];
        for (threads, packets, batch, connections) in cases {
            let asked = Asked { threads, packets, batch, close_s: 1 };
            let Outcome { text, json } = measure(&asked, &PerfArgs::default()).unwrap();
            assert_eq!(json["connections"], connections, "{asked:?}");
            assert_eq!(json["packets"], connections * PACKETS, "{asked:?}");
            assert!(json["connections_per_second"].as_f64().unwrap() > 0.0);
            assert!(
                text.contains("connections per second") && text.contains("1 s closing"),
                "{text}"
            );
        }
    }
}
