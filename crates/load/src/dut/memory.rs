//! This program's switch in this process, one core per worker, connected to the generator by ports in memory:
//! the whole datapath with its misses, without the kernel.

use super::cores::Cores;
use super::none::{DEPTH, Silent, link};
use super::profile;
use super::{Device, Place, Wanted, rules, setup};
use crate::error::LoadError;
use crate::in_memory::{Cable, PORTS, Switch};
use crate::in_memory::{Stages, Watch};
use crate::link::Link;
use base::{Instant, WorkerId};
use conntrack::{Config, Conntrack, CtFlush, Event, Timeout, TimeoutPolicy};
use port::{MemoryPort, RxQueue};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Interval at which expired connections are removed, as in the switch.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// Connections removed between two polls of the ports, so that the queues hold the packets that arrive
/// meanwhile.
const EXPIRED_AT_ONCE: usize = 256;

struct Running {
    wanted: Wanted,
    cores: Cores,
    conntrack: Arc<Conntrack>,
    stop: Arc<AtomicBool>,
    workers: Vec<Worker>,
}

struct Worker {
    thread: Option<JoinHandle<Result<(), LoadError>>>,
    seen: Arc<Seen>,
}

/// State of a worker that other threads read.
#[derive(Default)]
struct Seen {
    /// The thread's id.
    thread: AtomicU32,
    /// Packets received.
    packets: AtomicU64,
    /// Whether stages are timed: the worker reads the clock after each, which costs time.
    is_watched: AtomicBool,
    /// Total time of each stage since timing began, and the number of packets.
    stages: Mutex<(Stages, u64)>,
}

impl Seen {
    /// Adds the stages of an iteration that received packets.
    fn add(&self, stages: &Stages, packets: u64) {
        // Other threads take the lock only when timing starts and ends.
        let mut sum = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        sum.0.add(stages);
        sum.1 += packets;
    }
}

impl profile::Staged for Seen {
    fn watch(&self, on: bool) {
        if on {
            *self.stages.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
        }
        self.is_watched.store(on, Ordering::Relaxed);
    }

    fn each(&self) -> Stages {
        let sum = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        sum.0.each(sum.1)
    }

    fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }
}

/// Starts the switch on the first usable processors; the generator runs on the last.
pub fn bring_up(wanted: &Wanted) -> Result<Place, LoadError> {
    let mut timeouts = TimeoutPolicy::new();
    for (name, seconds) in wanted.timeouts() {
        let timeout = Timeout::from_name(name)
            .map_err(|error| LoadError::Ended(format!("the timeout {name}: {error}")))?;
        timeouts.set(timeout, seconds);
    }
    let config = Config { connections_max: wanted.maxconns, timeouts, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), config));
    let cores = Cores::new(wanted.workers, wanted.generators);
    // Each queue of a port is a cable, whose near end is the generator's.
    let port = || (0..wanted.queues).map(|_| MemoryPort::pair(DEPTH)).collect::<Vec<_>>();
    let ports = [port(), port()];
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for index in 0..wanted.workers {
        let switch =
            Switch::sharing(rules(wanted), WorkerId(index as u16), Arc::clone(&conntrack))?;
        let cables = cables(wanted, &ports, index);
        let (stop, seen) = (Arc::clone(&stop), Arc::new(Seen::default()));
        let (cores, shown) = (cores.clone(), Arc::clone(&seen));
        let thread = thread::Builder::new()
            .name(format!("pmd{index}"))
            .spawn(move || {
                cores.pin_device(index);
                run(switch, cables, &stop, &shown)
            })
            .map_err(|error| {
                LoadError::Ended(format!("cannot start a worker of the switch: {error}"))
            })?;
        workers.push(Worker { thread: Some(thread), seen });
    }
    let mut links = (0..wanted.generators).map(|worker| {
        // Generator workers beyond the number of queues only send; other workers hand over their frames.
        let at = |port: &[(MemoryPort, MemoryPort)]| {
            let near = &port[worker % wanted.queues].0;
            let rx: Box<dyn RxQueue> =
                if worker < wanted.queues { Box::new(near.rx()) } else { Box::new(Silent) };
            Link { rx, ..link(near) }
        };
        (at(&ports[0]), at(&ports[1]))
    });
    let (client, server) = links.next().unzip();
    let more = links.collect();
    let device = Running { wanted: *wanted, cores: cores.clone(), conntrack, stop, workers };
    Ok(Place { device: Box::new(device), client, server, more, cores, queue_packets: None })
}

/// The pairs of queues from which a worker receives. It sends to a queue of its own if there are enough.
fn cables(
    wanted: &Wanted,
    ports: &[Vec<(MemoryPort, MemoryPort)>; 2],
    worker: usize,
) -> Vec<[Cable; 2]> {
    let of_port = |port: usize| {
        let number = move |queue: &usize| (port * wanted.queues + queue) % wanted.workers;
        (0..wanted.queues).filter(move |queue| number(queue) == worker).collect::<Vec<_>>()
    };
    let queues = [of_port(0), of_port(1)];
    let count = queues.iter().map(Vec::len).max().unwrap_or(0);
    let cable = |port: usize, turn: usize| {
        let far = |queue: usize| &ports[port][queue].1;
        let rx: Box<dyn RxQueue> = match queues[port].get(turn) {
            Some(&queue) => Box::new(far(queue).rx()),
            None => Box::new(Silent),
        };
        Cable { port: PORTS[port].1, rx, tx: Box::new(far(worker % wanted.queues).tx()) }
    };
    (0..count).map(|turn| [cable(0, turn), cable(1, turn)]).collect()
}

fn run(
    mut switch: Switch,
    mut cables: Vec<[Cable; 2]>,
    stop: &AtomicBool,
    seen: &Seen,
) -> Result<(), LoadError> {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    seen.thread.store(thread.unsigned_abs(), Ordering::Relaxed);
    let (mut swept, mut behind) = (clock::now(), false);
    while !stop.load(Ordering::Relaxed) {
        let now = clock::now();
        let mut received = 0;
        let is_watched = seen.is_watched.load(Ordering::Relaxed);
        for both in &mut cables {
            received += match is_watched {
                false => switch.iterate(now, both, 0)? + switch.iterate(now, both, 1)?,
                true => turn_watched(&mut switch, now, both, seen)?,
            };
        }
        switch.expire_own(now, received);
        if behind || now - swept >= SWEEP_EVERY {
            if !behind {
                switch.sort();
            }
            swept = now;
            behind = switch.expire(now, EXPIRED_AT_ONCE);
        }
        if received == 0 {
            thread::yield_now();
        } else {
            seen.packets.fetch_add(received as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// One iteration with the time of its stages. Iterations without packets do not count.
fn turn_watched(
    switch: &mut Switch,
    now: Instant,
    cables: &mut [Cable; 2],
    seen: &Seen,
) -> Result<usize, LoadError> {
    let mut received = 0;
    for port in 0..cables.len() {
        let mut watch = Watch::new();
        let packets = switch.turn_timed(now, cables, port, &mut watch)?;
        if packets > 0 {
            seen.add(watch.stages(), packets as u64);
        }
        received += packets;
    }
    Ok(received)
}

impl Device for Running {
    fn describe(&self) -> Value {
        let mut all = json!({
            "kind": "tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "ports": "memory",
            "workers": self.wanted.workers,
            "queues": self.wanted.queues,
            "generator_workers": self.wanted.generators,
            "cores_of_their_own": self.cores.apart,
            "cores": self.cores.device,
            "generator_cores": self.cores.generator,
        });
        if let (Some(all), Value::Object(setup)) = (all.as_object_mut(), setup(&self.wanted)) {
            all.extend(setup);
        }
        all
    }

    fn table(&mut self) -> Result<Option<u64>, LoadError> {
        Ok(Some(self.conntrack.connections().into()))
    }

    fn refused(&mut self) -> u64 {
        self.conntrack.counters().get(Event::Full)
    }

    fn flush(&mut self) -> Result<(), LoadError> {
        let flushed = self.conntrack.flush(clock::now(), &CtFlush::default());
        flushed.map(drop).map_err(|error| LoadError::Ended(format!("flushing failed: {error}")))
    }

    fn linger(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn check(&mut self) -> Result<(), LoadError> {
        for worker in &mut self.workers {
            match worker.thread.take_if(|thread| thread.is_finished()).map(JoinHandle::join) {
                None => {}
                Some(Ok(Err(error))) => return Err(error),
                Some(_) => {
                    return Err(LoadError::Ended("a worker of the switch has ended".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn watch(&mut self) -> Option<profile::Watch> {
        let threads = self.workers.iter().enumerate().map(|(index, worker)| {
            let thread = worker.seen.thread.load(Ordering::Relaxed);
            let seen: Arc<dyn profile::Staged> = Arc::clone(&worker.seen) as _;
            profile::Worker::staged(thread, format!("pmd{index}"), seen)
        });
        Some(profile::Watch::threads(threads.collect()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A thread that failed was reported by `check`; here it only has to end.
                let _ = thread.join();
            }
        }
    }
}
