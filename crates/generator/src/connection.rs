//! All connections of one host in bounded memory: slots, an index by addresses and ports, timers, the queue
//! of connections that have something to send, and connections in TIME-WAIT.

use crate::chains::{self, Chains};
use crate::frame::Flow;
use crate::tcp::Tcp;
use crate::time_wait::{BYTES_PER_CLOSED, Closed, TimeWait};
use crate::udp::Udp;
use crate::wheel::{BYTES_PER_TIMER, Wheel};
use base::{Instant, MacAddr};
use std::collections::VecDeque;

/// Bytes per connection: its slot, timer, index entry, its places in the free list and in the send queue, and
/// its TIME-WAIT record.
pub const BYTES_PER_CONNECTION: usize = size_of::<Connection>()
    + BYTES_PER_TIMER
    + 2 * size_of::<u32>()
    + chains::BYTES_PER_NUMBER
    + BYTES_PER_CLOSED;

const _: () = assert!(BYTES_PER_CONNECTION <= 312, "a connection has grown");
const _: () = assert!(size_of::<Connection>() == 192, "more than three cache lines");

/// Connections that the send queue holds before it allocates more memory.
const READY: usize = 4096;

/// How many expired timers ahead of the current one a connection is prefetched.
const AHEAD: usize = 8;

/// The protocol state machine of a connection.
pub(crate) enum Machine {
    Tcp(Tcp),
    Udp(Udp),
}

impl Machine {
    fn due(&self) -> u64 {
        match self {
            Machine::Tcp(tcp) => tcp.due(),
            Machine::Udp(udp) => udp.due(),
        }
    }
}

/// One connection, in whole cache lines.
#[repr(align(64))]
pub(crate) struct Connection {
    pub flow: Flow,
    /// Destination MAC address of its frames; `None` until address resolution has answered.
    pub to: Option<MacAddr>,
    queued: bool,
    alive: bool,
    pub machine: Machine,
}

/// The connections of one host. The memory in use follows the number of connections, not the capacity: the
/// slot that was freed last is allocated first.
pub(crate) struct Connections {
    slots: Vec<Connection>,
    free: Vec<u32>,
    capacity: usize,
    chains: Chains,
    wheel: Wheel,
    ready: VecDeque<u32>,
    /// Connections in TIME-WAIT.
    pub closed: TimeWait,
    seed: u64,
}

impl Connections {
    /// Allocates `capacity` connections. Only the send queue may grow later. Memory that is not used is not
    /// touched.
    pub fn new(capacity: usize, seed: u64, now: Instant) -> Connections {
        Connections {
            slots: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            capacity,
            chains: Chains::new(capacity),
            wheel: Wheel::new(capacity, now),
            ready: VecDeque::with_capacity(READY.min(capacity)),
            closed: TimeWait::new(capacity),
            seed: seed | 1,
        }
    }

    /// Returns the number of connections alive, those in TIME-WAIT included.
    pub fn len(&self) -> usize {
        self.chains.len() + self.closed.len()
    }

    /// Returns whether no further connection fits.
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// Returns the hash that [`Connections::find`] takes.
    #[inline]
    pub fn hash(&self, flow: &Flow) -> u32 {
        hash(flow, self.seed)
    }

    /// Prefetches the head of this hash's chain.
    #[inline]
    pub fn prefetch_chain(&self, hash: u32) {
        self.chains.prefetch(hash);
    }

    /// Prefetches the first connection in this hash's chain.
    #[inline]
    pub fn prefetch_connection(&self, hash: u32) {
        let Some(id) = self.chains.first(hash) else { return };
        if let Some(connection) = self.slots.get(id as usize) {
            table::prefetch_whole(connection);
        }
        self.wheel.prefetch(id);
    }

    /// Returns the connection with these addresses and ports; `hash` is [`Connections::hash`] of `flow`.
    #[inline]
    pub fn find(&self, flow: &Flow, hash: u32) -> Option<u32> {
        let is_meant = |id: u32| self.slots.get(id as usize).is_some_and(|c| c.flow == *flow);
        self.chains.find(hash, is_meant)
    }

    /// Returns whether a connection with these addresses and ports is alive or in TIME-WAIT.
    pub fn is_taken(&self, flow: &Flow) -> bool {
        let hash = self.hash(flow);
        self.find(flow, hash).is_some() || self.closed.find(flow, hash).is_some()
    }

    /// Returns the connection in slot `id`, if one is alive there.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Connection> {
        self.slots.get_mut(id as usize).filter(|connection| connection.alive)
    }

    /// Inserts a connection that is not in the table. Returns its slot, or `None` where the table is full.
    pub fn insert(&mut self, flow: Flow, to: Option<MacAddr>, machine: Machine) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let hash = self.hash(&flow);
        let id = match self.free.pop() {
            Some(id) => {
                let slot = self.slots.get_mut(id as usize)?;
                // The slot's previous connection may still have its entry in the send queue.
                let queued = slot.queued;
                *slot = Connection { flow, to, queued, alive: true, machine };
                id
            }
            None => {
                self.slots.push(Connection { flow, to, queued: false, alive: true, machine });
                (self.slots.len() - 1) as u32
            }
        };
        self.chains.insert(id, hash);
        Some(id)
    }

    /// Removes a connection.
    pub fn remove(&mut self, id: u32) {
        let Some(connection) = self.slots.get_mut(id as usize).filter(|c| c.alive) else { return };
        connection.alive = false;
        self.chains.remove(id);
        self.free.push(id);
    }

    /// Replaces a connection by its TIME-WAIT record, which expires at `until`. Returns false, and changes
    /// nothing, where no record is free.
    pub fn close(&mut self, id: u32, closed: Closed, until: u64) -> bool {
        let hash = self.hash(&closed.flow);
        let is_closed = self.closed.push(closed, hash, until);
        if is_closed {
            self.remove(id);
        }
        is_closed
    }

    /// Queues a changed connection for sending. Its timer is set after that.
    #[inline]
    pub fn touch(&mut self, id: u32) {
        let Some(connection) = self.slots.get_mut(id as usize).filter(|c| c.alive) else { return };
        if !std::mem::replace(&mut connection.queued, true) {
            self.ready.push_back(id);
        }
    }

    /// Returns the connection at the head of the send queue, and leaves it there.
    #[inline]
    pub fn first_ready(&self) -> Option<u32> {
        self.ready.front().copied()
    }

    /// Removes the head of the send queue, which has nothing more to send, and sets its timer.
    #[inline]
    pub fn pop_ready(&mut self) {
        let Some(id) = self.ready.pop_front() else { return };
        let Some(connection) = self.slots.get_mut(id as usize) else { return };
        connection.queued = false;
        if connection.alive {
            self.wheel.set(id, connection.machine.due());
        }
    }

    /// Puts the connections whose timers ran out into `fired`.
    pub fn advance(&mut self, now: Instant, fired: &mut Vec<u32>) {
        self.wheel.advance(now, fired);
        // A timer may fire early, or for the slot's previous connection.
        let mut kept = 0;
        for index in 0..fired.len() {
            if let Some(ahead) =
                fired.get(index + AHEAD).and_then(|&id| self.slots.get(id as usize))
            {
                table::prefetch_whole(ahead);
            }
            let id = fired[index];
            let Some(connection) = self.slots.get(id as usize).filter(|c| c.alive) else {
                continue;
            };
            let due = connection.machine.due();
            if due <= now.as_nanos() {
                fired[kept] = id;
                kept += 1;
            } else {
                self.wheel.set(id, due);
            }
        }
        fired.truncate(kept);
    }

    /// Returns the slots of all connections alive except those in TIME-WAIT.
    pub fn ids(&self) -> Vec<u32> {
        (0u32..).zip(&self.slots).filter(|(_, c)| c.alive).map(|(id, _)| id).collect()
    }
}

/// A hash by folded multiplication. The seed makes each run's order its own.
fn hash(flow: &Flow, seed: u64) -> u32 {
    let fold = |a: u64, b: u64| {
        let wide = u128::from(a) * u128::from(b);
        (wide as u64) ^ (wide >> 64) as u64
    };
    let word = |bytes: &[u8; 16], at: usize| {
        let half = bytes.get(at..at + 8).and_then(|half| half.first_chunk::<8>());
        u64::from_ne_bytes(half.copied().unwrap_or_default())
    };
    let ports = u64::from(flow.local_port) << 32
        | u64::from(flow.remote_port) << 8
        | u64::from(flow.protocol);
    let (local, remote) = (&flow.local.0, &flow.remote.0);
    let low = fold(word(local, 8) ^ 0x9e37_79b9_7f4a_7c15, word(remote, 8) ^ seed);
    let high = fold(word(local, 0) ^ 0xbf58_476d_1ce4_e5b9, word(remote, 0) ^ ports ^ seed << 17);
    fold(low ^ 0x94d0_49bb_1331_11eb, high ^ ports.rotate_left(29) ^ seed) as u32
}
