//! The receive and transmit queues of one worker.

use super::usage::Usage;
use super::worker_report::QueueReport;
use base::{Instant, PortNo};
use datapath::{Outbox, Worker};
use flow::DropReason;
use port::{PortError, RxQueue, TxQueue};
use port_linux::Waiter;
use std::collections::HashMap;
use std::time::Duration;

/// How long a polling worker skips a kernel queue that was empty.
const KERNEL_REST: Duration = Duration::from_micros(20);

/// A receive queue, which moves between workers together with its usage.
pub struct RxSlot {
    /// The port.
    pub port: PortNo,
    /// The opening of the port to which it belongs; port numbers are reused.
    pub opening: u64,
    /// Its number at the port.
    pub queue: u16,
    /// The queue.
    pub rx: Box<dyn RxQueue>,
    /// Time that workers spent on it.
    pub usage: Usage,
    /// Packets received in this iteration.
    pub packets: u64,
    /// It is not polled before this time.
    rests_until: Instant,
}

/// What a worker sends to.
pub type TxQueues = HashMap<PortNo, Box<dyn TxQueue>>;

/// The queues of one worker.
#[derive(Default)]
pub struct Ports {
    /// Its receive queues.
    pub rx: Vec<RxSlot>,
    /// Its transmit queues.
    pub tx: TxQueues,
    /// Queues that failed in this iteration.
    pub failed: Vec<(PortNo, u64, PortError)>,
}

/// Attributes a worker's time in an iteration to queues.
pub struct RxqTimer {
    /// Start of the current span.
    pub since: Instant,
    /// The queue whose packets are being processed, if any.
    pub queue: Option<usize>,
}

impl RxqTimer {
    /// Starts an iteration.
    pub fn new(now: Instant) -> Self {
        RxqTimer { since: now, queue: None }
    }

    /// Starts processing packets of a queue. Its span includes the time before, in which they were received.
    pub fn begin(&mut self, place: usize, rx: &mut [RxSlot], clock: impl FnOnce() -> Instant) {
        if self.queue != Some(place) {
            self.end(rx, clock);
            self.queue = Some(place);
        }
    }

    /// Ends the span and adds it to its queue. Reads the clock only if a span is open.
    pub fn end(&mut self, rx: &mut [RxSlot], clock: impl FnOnce() -> Instant) {
        if let Some(place) = self.queue.take() {
            let since = std::mem::replace(&mut self.since, clock());
            rx[place].usage.add((self.since - since).as_nanos() as u64);
        }
    }
}

/// Sends the packets in the outbox.
pub fn send_all(worker: &mut Worker, tx: &mut TxQueues, out: &mut Outbox) {
    for (port, batch) in out.batches_mut() {
        let Some(tx) = tx.get_mut(&port) else {
            for packet in batch.drain(..) {
                worker.drop_packet(packet, DropReason::NoPort);
            }
            continue;
        };
        let sent = tx.send(worker.pool(), batch);
        let stats = worker.stats_mut();
        stats.sent += sent.packets;
        stats.sent_batches += u64::from(sent.packets > 0);
        stats.drops.count(DropReason::TxQueueFull, sent.dropped);
        stats.drops.count(DropReason::TxError, sent.errors);
    }
}

impl RxSlot {
    /// A queue that was not polled yet.
    pub fn new(port: PortNo, opening: u64, queue: u16, rx: Box<dyn RxQueue>) -> Self {
        let usage = Usage::default();
        RxSlot { port, opening, queue, rx, usage, packets: 0, rests_until: Instant::ZERO }
    }

    /// Returns whether a polling worker skips it now.
    pub fn is_at_rest(&self, now: Instant) -> bool {
        now < self.rests_until
    }

    /// Records that it was empty. A kernel queue is then skipped for a moment: polling it is a system call,
    /// which costs as much as several packets.
    pub fn rest(&mut self, now: Instant) {
        if self.rx.wake_fd().is_some() {
            self.rests_until = now + KERNEL_REST;
        }
    }

    /// Returns its token in the waiter.
    fn token(&self) -> u64 {
        u64::from(self.port.0) << 16 | u64::from(self.queue)
    }
}

impl Ports {
    /// Adds a receive queue.
    pub fn add_rx(&mut self, slot: RxSlot, waiter: &mut Waiter) {
        if let Some(fd) = slot.rx.wake_fd()
            && let Err(error) = waiter.watch(fd, slot.token())
        {
            log::error!(target: "dpif_netdev", "cannot watch port {}: {error}", slot.port);
        }
        self.rx.push(slot);
    }

    /// Removes and returns a receive queue.
    pub fn take_rx(&mut self, port: PortNo, queue: u16, waiter: &mut Waiter) -> Option<RxSlot> {
        let found = self.rx.iter().position(|slot| slot.port == port && slot.queue == queue)?;
        let slot = self.rx.remove(found);
        if let Some(fd) = slot.rx.wake_fd() {
            waiter.forget(fd);
        }
        Some(slot)
    }

    /// Closes the receive queues of a port.
    pub fn forget_rx(&mut self, port: PortNo, waiter: &mut Waiter) {
        self.rx.retain(|slot| {
            if slot.port == port
                && let Some(fd) = slot.rx.wake_fd()
            {
                waiter.forget(fd);
            }
            slot.port != port
        });
    }

    /// Divides the time of sending among the queues from which the packets came, by their number.
    pub fn share_out(&mut self, sending_ns: u64, packets: u64) {
        for slot in self.rx.iter_mut().filter(|slot| slot.packets > 0) {
            let share = u128::from(sending_ns) * u128::from(slot.packets) / u128::from(packets);
            slot.usage.add(share as u64);
        }
    }

    /// Returns how long the queues that cannot wake the worker need not be polled; `None` if there are no
    /// such queues.
    pub fn quiet_for(&self) -> Option<Duration> {
        let polled = self.rx.iter().filter(|slot| slot.rx.wake_fd().is_none());
        polled.map(|slot| slot.rx.quiet_for()).min()
    }

    /// Returns the reports of the queues.
    pub fn reports(&self) -> impl Iterator<Item = QueueReport> + '_ {
        self.rx.iter().map(|slot| QueueReport {
            port: slot.port,
            queue: slot.queue,
            usage: slot.usage.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Batch, Pool};
    use port::MemoryPort;
    use std::os::fd::RawFd;

    #[test]
    fn only_queues_of_the_kernel_rest() {
        struct Kernel;
        impl RxQueue for Kernel {
            fn receive(&mut self, _: &mut Pool, _: &mut Batch) -> Result<(), PortError> {
                Ok(())
            }
            fn wake_fd(&self) -> Option<RawFd> {
                Some(0)
            }
        }
        let now = Instant::from_millis(5);
        let mut kernel = RxSlot::new(PortNo(1), 1, 0, Box::new(Kernel));
        assert!(!kernel.is_at_rest(now));
        kernel.rest(now);
        assert!(kernel.is_at_rest(now) && kernel.is_at_rest(now + KERNEL_REST / 2));
        assert!(!kernel.is_at_rest(now + KERNEL_REST));
        let mut polled = RxSlot::new(PortNo(1), 1, 0, Box::new(MemoryPort::pair(1).0.rx()));
        polled.rest(now);
        assert!(!polled.is_at_rest(now));
    }

    #[test]
    fn time_goes_to_the_queues_whose_packets_took_it() {
        let (mut ports, mut waiter) = (Ports::default(), Waiter::new().unwrap());
        let (near, _far) = MemoryPort::pair(4);
        for (port, packets) in [(1, 30), (2, 10), (3, 0)] {
            let mut slot = RxSlot::new(PortNo(port), 1, 0, Box::new(near.rx()));
            slot.packets = packets;
            ports.add_rx(slot, &mut waiter);
        }
        ports.share_out(1000, 40);
        let mut spent = Vec::new();
        for slot in &mut ports.rx {
            spent.push((slot.port.0, slot.usage.end_interval()));
        }
        assert_eq!(spent, [(1, 750), (2, 250), (3, 0)]);

        // A queue that moves to another worker keeps its usage.
        let mut other = Ports::default();
        assert!(ports.take_rx(PortNo(1), 1, &mut waiter).is_none());
        let slot = ports.take_rx(PortNo(1), 0, &mut waiter).unwrap();
        other.add_rx(slot, &mut waiter);
        assert_eq!(other.reports().next().unwrap().usage.sum_ns(1), 750);
        assert_eq!(ports.rx.len(), 2);
        assert_eq!(ports.quiet_for(), Some(Duration::ZERO));
        ports.forget_rx(PortNo(2), &mut waiter);
        ports.forget_rx(PortNo(3), &mut waiter);
        assert_eq!(ports.quiet_for(), None);
    }

    #[test]
    fn the_clock_is_looked_at_where_one_queue_s_time_ends() {
        let (near, _far) = MemoryPort::pair(4);
        let slot = |port| RxSlot::new(PortNo(port), 1, 0, Box::new(near.rx()));
        let mut rx = [slot(1), slot(2)];
        let at = |ns| move || Instant::from_nanos(ns);
        let mut timer = RxqTimer::new(Instant::from_nanos(100));
        timer.end(&mut rx, || unreachable!("time of no queue"));
        timer.begin(1, &mut rx, || unreachable!("nor this"));
        timer.begin(1, &mut rx, || unreachable!("the same queue's"));
        timer.begin(0, &mut rx, at(130));
        timer.end(&mut rx, at(135));
        timer.end(&mut rx, || unreachable!("it was given already"));
        assert_eq!(rx.map(|mut slot| slot.usage.end_interval()), [5, 30]);
    }
}
