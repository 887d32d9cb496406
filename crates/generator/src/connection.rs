//! All connections of one host in bounded memory: slots, the table that finds them by their
//! addresses and ports, their timers, and the queue of those that have something to send.

use crate::frame::Flow;
use crate::tcp::Tcp;
use crate::udp::Udp;
use crate::wheel::{BYTES_PER_TIMER, Wheel};
use base::{Instant, MacAddr};
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Memory of one connection in bytes: its slot, its timer, its places in the list of free slots
/// and in the queue to send, and its share of the table (at worst 16 / 7 buckets of 5 bytes).
pub const BYTES_PER_CONNECTION: usize =
    size_of::<Connection>() + BYTES_PER_TIMER + 2 * size_of::<u32>() + 12;

const _: () = assert!(BYTES_PER_CONNECTION <= 296, "a connection has grown");

/// What a connection speaks.
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

/// One connection.
pub(crate) struct Connection {
    pub flow: Flow,
    /// Where its frames go; `None` while that is asked for.
    pub to: Option<MacAddr>,
    queued: bool,
    alive: bool,
    pub machine: Machine,
}

/// The connections of one host.
pub(crate) struct Connections {
    slots: Vec<Connection>,
    free: Vec<u32>,
    capacity: usize,
    table: HashTable<u32>,
    wheel: Wheel,
    ready: VecDeque<u32>,
    seed: u64,
}

impl Connections {
    /// Room for `capacity` connections, which is taken now and never grows.
    pub fn new(capacity: usize, seed: u64, now: Instant) -> Connections {
        Connections {
            slots: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            capacity,
            table: HashTable::with_capacity(capacity),
            wheel: Wheel::new(capacity, now),
            ready: VecDeque::with_capacity(capacity),
            seed: seed | 1,
        }
    }

    /// Connections alive.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no room for one more.
    pub fn is_full(&self) -> bool {
        self.table.len() >= self.capacity
    }

    /// The connection with these addresses and ports.
    pub fn find(&self, flow: &Flow) -> Option<u32> {
        let same = |&id: &u32| self.slots.get(id as usize).is_some_and(|c| c.flow == *flow);
        self.table.find(hash(flow, self.seed), same).copied()
    }

    /// The connection in slot `id`, where one is alive there.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Connection> {
        self.slots.get_mut(id as usize).filter(|connection| connection.alive)
    }

    /// Takes a connection in, which must not be there yet; `None` where there is no room.
    pub fn insert(&mut self, flow: Flow, to: Option<MacAddr>, machine: Machine) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let mut connection = Connection { flow, to, queued: false, alive: true, machine };
        let id = match self.free.pop() {
            Some(id) => {
                let slot = self.slots.get_mut(id as usize)?;
                // It may stand in the queue for what was here before.
                connection.queued = slot.queued;
                *slot = connection;
                id
            }
            None => {
                self.slots.push(connection);
                (self.slots.len() - 1) as u32
            }
        };
        let (slots, seed) = (&self.slots, self.seed);
        self.table.insert_unique(hash(&flow, seed), id, |&id| hash(&slots[id as usize].flow, seed));
        Some(id)
    }

    /// Forgets a connection.
    pub fn remove(&mut self, id: u32) {
        let Some(connection) = self.slots.get_mut(id as usize).filter(|c| c.alive) else { return };
        connection.alive = false;
        let hash = hash(&connection.flow, self.seed);
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        self.free.push(id);
    }

    /// After a connection changed: it is asked what to send, and its timer is set.
    pub fn touch(&mut self, id: u32) {
        let Some(connection) = self.slots.get_mut(id as usize).filter(|c| c.alive) else { return };
        if !std::mem::replace(&mut connection.queued, true) {
            self.ready.push_back(id);
        }
        self.wheel.set(id, connection.machine.due());
    }

    /// Sets the timer alone.
    pub fn set_timer(&mut self, id: u32) {
        if let Some(connection) = self.slots.get(id as usize).filter(|c| c.alive) {
            self.wheel.set(id, connection.machine.due());
        }
    }

    /// The connection that has waited longest to be asked what to send; it stays first.
    pub fn first_ready(&self) -> Option<u32> {
        self.ready.front().copied()
    }

    /// The first in the queue has nothing more to send.
    pub fn pop_ready(&mut self) {
        if let Some(id) = self.ready.pop_front()
            && let Some(connection) = self.slots.get_mut(id as usize)
        {
            connection.queued = false;
        }
    }

    /// Puts the connections whose timers ran out into `fired`.
    pub fn advance(&mut self, now: Instant, fired: &mut Vec<u32>) {
        self.wheel.advance(now, fired);
        // A timer may fire early, or for what was in the slot before.
        let mut kept = 0;
        for index in 0..fired.len() {
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

    /// The slots of all connections alive.
    pub fn ids(&self) -> Vec<u32> {
        self.table.iter().copied().collect()
    }
}

/// Folded multiplications; the seed keeps a run's order its own.
fn hash(flow: &Flow, seed: u64) -> u64 {
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
    fold(low ^ 0x94d0_49bb_1331_11eb, high ^ ports.rotate_left(29) ^ seed)
}
