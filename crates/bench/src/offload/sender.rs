//! The client, which sends datagrams at a rate, and the server, which answers the first of them.

use super::place::Place;
use crate::BenchError;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::Duration;

const PORTS: [u16; 2] = [4000, 5000];
/// Interval of bursts.
const BURST_EVERY: Duration = Duration::from_millis(1);
/// Requests that are answered, so that the connection is established and offloaded.
const QUESTIONS: usize = 20;

/// The result of sending.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Packets that were sent.
    pub sent: u64,
    /// Those that arrived.
    pub arrived: u64,
    /// Those that the device forwarded.
    pub offloaded: u64,
    /// Processor time of the sending thread and of the switch.
    pub cpu: Duration,
}

/// Sends packets with this payload at a rate in packets per second.
pub fn run(
    place: &mut Place,
    (rate, payload): (u32, usize),
    time: Duration,
) -> Result<Sent, BenchError> {
    let [client, server] = place.addresses();
    let failed = |what: &'static str| {
        move |error: io::Error| BenchError::WrongWork(format!("cannot {what}: {error}"))
    };
    let there = on("server", move || {
        let socket = UdpSocket::bind((server, PORTS[1]))?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        Ok(socket)
    })
    .map_err(failed("listen on the server"))?;
    let here = on("client", move || {
        let socket = UdpSocket::bind((client, PORTS[0]))?;
        socket.connect((server, PORTS[1]))?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        Ok(socket)
    })
    .map_err(failed("open a socket on the client"))?;
    establish(&here, &there, payload).map_err(failed("send from client to server and back"))?;
    place.settle()?;
    let before = (place.arrived()?, place.offloaded()?, place.switch_time());
    let (sent, sending) = send(here, payload, rate, time);
    // Wait until packets in flight have arrived.
    std::thread::sleep(Duration::from_millis(100));
    let cpu = sending + (place.switch_time() - before.2);
    let (arrived, offloaded) = (place.arrived()? - before.0, place.offloaded()? - before.1);
    if arrived * 2 < sent {
        let words = format!("of {sent} packets {arrived} arrived; send fewer by --rate");
        return Err(BenchError::WrongWork(words));
    }
    Ok(Sent { sent, arrived, offloaded, cpu })
}

/// Does something on a thread in a host's network namespace. A socket made there stays there.
fn on<T: Send + 'static>(
    host: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let thread = std::thread::spawn(move || {
        let namespace = std::fs::File::open(Place::namespace(host))?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    });
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread failed")))
}

/// Exchanges requests and replies.
fn establish(here: &UdpSocket, there: &UdpSocket, payload: usize) -> io::Result<()> {
    let (question, mut room) = (vec![1; payload], [0; 2048]);
    for _ in 0..QUESTIONS {
        here.send(&question)?;
        let (_, from) = there.recv_from(&mut room)?;
        there.send_to(&question, from)?;
        here.recv(&mut room)?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Sends on a separate thread. Returns the number of packets and the processor time.
fn send(socket: UdpSocket, payload: usize, rate: u32, time: Duration) -> (u64, Duration) {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let (begun, data) = (clock::now(), vec![2; payload]);
        let (mut sent, mut attempts) = (0_u64, 0_u64);
        let before = clock::thread_time();
        loop {
            let elapsed = clock::now() - begun;
            if elapsed >= time {
                break;
            }
            let due = (elapsed.as_nanos() * u128::from(rate) / 1_000_000_000) as u64;
            while attempts < due {
                attempts += 1;
                sent += u64::from(socket.send(&data).is_ok());
            }
            std::thread::sleep(BURST_EVERY);
        }
        let _ = tell.send((sent, clock::thread_time() - before));
    });
    told.recv().unwrap_or_default()
}
