//! Our own switch in this process, on a core of its own, joined to the generator by ports in
//! memory: the whole datapath with its misses, and nothing of the kernel.

use super::none::{DEPTH, link};
use super::{Device, Place, Wanted, rules, setup};
use crate::bench::switch::{Cable, PORTS, Switch};
use crate::clock;
use crate::generate::error::LoadError;
use conntrack::{Config, Conntrack, Event, Flush, Timeout, TimeoutPolicy};
use port::MemoryPort;
use port_linux::affinity::{allowed_cpus, pin_to_cpu};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often connections are looked through whose time ran out, as the switch does it.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

struct Running {
    wanted: Wanted,
    conntrack: Arc<Conntrack>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), LoadError>>>,
    pinned: bool,
}

/// Starts the switch on the first core that we may use; the caller stays on the last.
pub fn bring_up(wanted: &Wanted) -> Result<Place, LoadError> {
    let mut timeouts = TimeoutPolicy::new();
    for (name, seconds) in wanted.timeouts() {
        let timeout = Timeout::from_name(name)
            .map_err(|error| LoadError::Ended(format!("the timeout {name}: {error}")))?;
        timeouts.set(timeout, seconds);
    }
    let config = Config { connections_max: wanted.maxconns, timeouts, ..Config::default() };
    let switch = Switch::with(rules(wanted), config)?;
    let (client, client_far) = MemoryPort::pair(DEPTH);
    let (server, server_far) = MemoryPort::pair(DEPTH);
    let cable = |far: &MemoryPort, (_, port)| Cable {
        port,
        rx: Box::new(far.rx()),
        tx: Box::new(far.tx()),
    };
    let cables = [cable(&client_far, PORTS[0]), cable(&server_far, PORTS[1])];
    let conntrack = switch.share_conntrack();
    let stop = Arc::new(AtomicBool::new(false));
    let cpus = allowed_cpus().unwrap_or_default();
    let pinned = cpus.len() > 1;
    let (first, last) = (cpus.first().copied(), cpus.last().copied());
    let seen = Arc::clone(&stop);
    let thread = thread::Builder::new()
        .name("switch".to_owned())
        .spawn(move || {
            if let (true, Some(cpu)) = (pinned, first) {
                // Without it the scheduler decides, which is only less even.
                let _ = pin_to_cpu(cpu);
            }
            run(switch, cables, &seen)
        })
        .map_err(|error| LoadError::Ended(format!("cannot start the switch's thread: {error}")))?;
    if let (true, Some(cpu)) = (pinned, last) {
        let _ = pin_to_cpu(cpu);
    }
    let device = Running { wanted: *wanted, conntrack, stop, thread: Some(thread), pinned };
    Ok(Place { device: Box::new(device), client: Some(link(&client)), server: Some(link(&server)) })
}

fn run(mut switch: Switch, mut cables: [Cable; 2], stop: &AtomicBool) -> Result<(), LoadError> {
    let mut swept = clock::now();
    while !stop.load(Ordering::Relaxed) {
        let now = clock::now();
        let received = switch.turn(now, &mut cables, 0)? + switch.turn(now, &mut cables, 1)?;
        if now - swept >= SWEEP_EVERY {
            swept = now;
            switch.tick(now);
        }
        if received == 0 {
            thread::yield_now();
        }
    }
    Ok(())
}

impl Device for Running {
    fn describe(&self) -> Value {
        let mut all = json!({
            "kind": "tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "ports": "memory",
            "workers": 1,
            "cores_of_their_own": self.pinned,
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
        let flushed = self.conntrack.flush(clock::now(), &Flush::default());
        flushed.map(drop).map_err(|error| LoadError::Ended(format!("flushing failed: {error}")))
    }

    fn linger(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn check(&mut self) -> Result<(), LoadError> {
        match self.thread.take_if(|thread| thread.is_finished()).map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(_) => Err(LoadError::Ended("the switch's thread has ended".to_owned())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that failed has been asked about; its end is all that is wanted now.
            let _ = thread.join();
        }
    }
}
