//! The queues that one worker polls and sends to.

use super::usage::Usage;
use super::worker_report::QueueReport;
use base::{Instant, PortNo};
use datapath::{Outbox, Worker};
use flow::DropReason;
use port::{PortError, RxQueue, TxQueue};
use port_linux::Waiter;
use std::collections::HashMap;
use std::time::Duration;

/// How long a polling worker leaves a queue of the kernel's alone that had nothing.
const KERNEL_REST: Duration = Duration::from_micros(20);

/// A receive queue, which goes from worker to worker with what it took of their time.
pub struct RxSlot {
    /// The port.
    pub port: PortNo,
    /// Which opening of a port of this number it belongs to.
    pub opening: u64,
    /// Its number at that port.
    pub queue: u16,
    /// The queue.
    pub rx: Box<dyn RxQueue>,
    /// How long workers were busy with it.
    pub usage: Usage,
    /// Packets of this turn.
    pub packets: u64,
    /// Until when it is left alone.
    rests_until: Instant,
}

/// What a worker sends to.
pub type TxQueues = HashMap<PortNo, Box<dyn TxQueue>>;

/// The ports that one worker serves.
#[derive(Default)]
pub struct Ports {
    /// What it receives from.
    pub rx: Vec<RxSlot>,
    /// What it sends to.
    pub tx: TxQueues,
    /// Queues that failed in this turn.
    pub failed: Vec<(PortNo, u64, PortError)>,
}

/// Whose packets a worker is at in a turn.
pub struct Shift {
    /// Since when.
    pub since: Instant,
    /// The place of their queue; none while they have none.
    pub queue: Option<usize>,
}

impl Shift {
    /// A turn begins.
    pub fn new(now: Instant) -> Self {
        Shift { since: now, queue: None }
    }

    /// The worker is at packets of a queue. The first has the time before as well, in which its
    /// packets were received.
    pub fn begin(&mut self, place: usize, rx: &mut [RxSlot], clock: impl FnOnce() -> Instant) {
        if self.queue != Some(place) {
            self.end(rx, clock);
            self.queue = Some(place);
        }
    }

    /// Gives the time until now to the queue whose packets the worker was at, if it was at any. Only
    /// then it looks at the clock.
    pub fn end(&mut self, rx: &mut [RxSlot], clock: impl FnOnce() -> Instant) {
        if let Some(place) = self.queue.take() {
            let since = std::mem::replace(&mut self.since, clock());
            rx[place].usage.add((self.since - since).as_nanos() as u64);
        }
    }
}

/// Sends the packets that lie in the outbox.
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

    /// Whether a polling worker need not look at it now.
    pub fn is_at_rest(&self, now: Instant) -> bool {
        now < self.rests_until
    }

    /// It had nothing. A queue of the kernel's is left alone for a moment then: each look at it is
    /// a system call, which costs as much as several packets of other queues.
    pub fn rest(&mut self, now: Instant) {
        if self.rx.wake_fd().is_some() {
            self.rests_until = now + KERNEL_REST;
        }
    }

    /// The token by which the waiter calls it.
    fn token(&self) -> u64 {
        u64::from(self.port.0) << 16 | u64::from(self.queue)
    }
}

impl Ports {
    /// Receives from a queue from now on.
    pub fn add_rx(&mut self, slot: RxSlot, waiter: &mut Waiter) {
        if let Some(fd) = slot.rx.wake_fd()
            && let Err(error) = waiter.watch(fd, slot.token())
        {
            log::error!(target: "dpif_netdev", "cannot watch port {}: {error}", slot.port);
        }
        self.rx.push(slot);
    }

    /// Gives a queue away.
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

    /// Adds the time in which the packets of this turn were sent to the queues that they came
    /// from, by their number.
    pub fn share_out(&mut self, sending_ns: u64, packets: u64) {
        for slot in self.rx.iter_mut().filter(|slot| slot.packets > 0) {
            let share = u128::from(sending_ns) * u128::from(slot.packets) / u128::from(packets);
            slot.usage.add(share as u64);
        }
    }

    /// How long queues that nothing can wake the worker for may be left alone; None where there
    /// are none.
    pub fn quiet_for(&self) -> Option<Duration> {
        let polled = self.rx.iter().filter(|slot| slot.rx.wake_fd().is_none());
        polled.map(|slot| slot.rx.quiet_for()).min()
    }

    /// What is told of the queues.
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

        // A queue that goes to another worker takes its time along.
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
        let mut shift = Shift::new(Instant::from_nanos(100));
        shift.end(&mut rx, || unreachable!("time of no queue"));
        shift.begin(1, &mut rx, || unreachable!("nor this"));
        shift.begin(1, &mut rx, || unreachable!("the same queue's"));
        shift.begin(0, &mut rx, at(130));
        shift.end(&mut rx, at(135));
        shift.end(&mut rx, || unreachable!("it was given already"));
        assert_eq!(rx.map(|mut slot| slot.usage.end_interval()), [5, 30]);
    }
}
