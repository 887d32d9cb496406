//! Network namespaces for tests: each belongs to a thread and ends with it, however a test ends.

// Each test file uses only a part of this module.
#![allow(dead_code)]

use packet::{Batch, Checksum, GsoKind, Pool};
use port::{RxQueue, TxCounters, TxQueue};
use port_linux::{Waiter, Waker};
use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

type Task = Box<dyn FnOnce() + Send>;

/// A thread in its own network namespace.
pub struct Namespace {
    /// The thread's id, by which `ip` finds the namespace.
    pub thread_id: i32,
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// A new namespace, or `None`, after printing why, if this process may not create one.
    pub fn new() -> Option<Namespace> {
        let (tasks, inbox) = channel::<Task>();
        let (started, start) = channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: unshare() takes a number; the new namespace affects only this thread.
            let rc = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            // SAFETY: gettid() takes no arguments and cannot fail.
            let thread_id = unsafe { libc::gettid() };
            started.send((rc == 0).then_some(thread_id)).unwrap();
            inbox.into_iter().for_each(|task| task());
        });
        let Some(thread_id) = start.recv().unwrap() else {
            skipped("network namespaces need root");
            return None;
        };
        let namespace = Namespace { thread_id, tasks: Some(tasks), thread: Some(thread) };
        namespace.ip("link set lo up");
        Some(namespace)
    }

    /// Runs `task` in the namespace and returns its result. A panic is passed on.
    pub fn run<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        let task = Box::new(move || done.send(task()).unwrap());
        self.tasks.as_ref().unwrap().send(task).expect("the namespace's thread has died");
        result.recv().expect("the task in the namespace panicked")
    }

    /// Runs `task` in the namespace in a separate thread.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.run(|| std::thread::spawn(task))
    }

    /// Runs `ip` with these arguments, which must succeed.
    pub fn ip(&self, words: &str) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        self.run(move || {
            let out = Command::new("ip").args(&words).output().expect("ip (iproute2) is missing");
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "ip {words:?}: {said}");
        });
    }
}

/// Returns whether TAP devices can be created, after printing why if not.
pub fn has_tun() -> bool {
    let there = std::path::Path::new("/dev/net/tun").exists();
    if !there {
        skipped("TAP devices need /dev/net/tun");
    }
    there
}

/// Written past the test harness, which would capture it.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.tasks.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A receive and a transmit queue of one port.
pub type Queues = (Box<dyn RxQueue>, Box<dyn TxQueue>);

/// The packets that were forwarded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub partial: u64,
    pub large_tcp4: u64,
    pub large_tcp6: u64,
    pub large_udp: u64,
    pub longest: usize,
    pub sent: TxCounters,
}

/// A thread that forwards all packets between two ports and sleeps when there are none.
pub struct Forwarder {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<Seen>,
}

impl Forwarder {
    pub fn start(mut ports: [Queues; 2]) -> Forwarder {
        let mut waiter = Waiter::new().unwrap();
        for (i, (rx, _)) in ports.iter().enumerate() {
            waiter.watch(rx.wake_fd().unwrap(), i as u64).unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, waker) = (stop.clone(), waiter.waker());
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let (mut pool, mut batch) = (Pool::new(128), Batch::new());
            let mut ready: Vec<usize> = Vec::new();
            while !stopped.load(Ordering::Acquire) {
                let woken = waiter.wait(Some(Duration::from_secs(1))).unwrap();
                ready.clear();
                ready.extend(woken.ready.iter().map(|&token| token as usize));
                for &from in &ready {
                    ports[from].0.receive(&mut pool, &mut batch).unwrap();
                    seen.look_at(&batch);
                    seen.sent += ports[1 - from].1.send(&mut pool, &mut batch);
                }
            }
            seen
        });
        Forwarder { stop, waker, thread }
    }

    pub fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        self.thread.join().unwrap()
    }
}

impl Seen {
    fn look_at(&mut self, batch: &Batch) {
        for packet in batch {
            self.longest = self.longest.max(packet.len());
            let partial = packet.offload.checksum == Checksum::Partial;
            self.partial += u64::from(partial);
            match packet.offload.gso.map(|gso| gso.kind) {
                Some(GsoKind::TcpV4) => self.large_tcp4 += 1,
                Some(GsoKind::TcpV6) => self.large_tcp6 += 1,
                Some(GsoKind::UdpL4) => self.large_udp += 1,
                None => {}
            }
        }
    }
}
