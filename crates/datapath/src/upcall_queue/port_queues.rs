//! The upcalls that one thread answers: a bounded list for each class and port, served in turn.

use super::QueueFull;
use super::class::Class;
use base::PortNo;
use base::limits::{UPCALLS, UPCALLS_PER_PORT};
use flow::Upcall;
use hashbrown::HashMap;
use std::collections::VecDeque;

/// The upcalls of one class from one port.
#[derive(Debug)]
struct PortQueue {
    class: Class,
    port: PortNo,
    waiting: VecDeque<Upcall>,
    /// Room that is reserved for upcalls to come.
    reserved: usize,
    dropped: u64,
}

/// All lists.
#[derive(Debug, Default)]
pub(super) struct PortQueues {
    queues: Vec<PortQueue>,
    place_of: HashMap<(Class, PortNo), usize>,
    /// Those in which something waits, the next one to be served first.
    turns: VecDeque<usize>,
    /// How many wait in all, and with those whose room is reserved.
    waiting: usize,
    total: usize,
    /// The thread that answers is to look up.
    pub is_woken: bool,
}

impl PortQueue {
    fn len(&self) -> usize {
        self.waiting.len() + self.reserved
    }
}

impl PortQueues {
    /// Reserves room; gives the upcall that lost its place for it.
    pub fn reserve(&mut self, class: Class, port: PortNo) -> Result<Option<Upcall>, QueueFull> {
        let place = self.place(class, port);
        let length = self.queues[place].len();
        let longest = match self.total >= UPCALLS {
            true => self.longest().filter(|longest| self.queues[*longest].len() > length + 1),
            false => None,
        };
        if length >= UPCALLS_PER_PORT || (self.total >= UPCALLS && longest.is_none()) {
            self.queues[place].dropped += 1;
            return Err(QueueFull);
        }
        let evicted = longest.and_then(|longest| self.drop_newest(longest));
        self.queues[place].reserved += 1;
        self.total += 1;
        Ok(evicted)
    }

    /// Uses reserved room; says whether nothing waited before.
    pub fn push(&mut self, class: Class, port: PortNo, upcall: Upcall) -> bool {
        let Some(&place) = self.place_of.get(&(class, port)) else { return false };
        let queue = &mut self.queues[place];
        // The port went meanwhile, and the room with it.
        if queue.reserved == 0 {
            return false;
        }
        queue.reserved -= 1;
        queue.waiting.push_back(upcall);
        if queue.waiting.len() == 1 {
            self.turns.push_back(place);
        }
        self.waiting += 1;
        self.waiting == 1
    }

    /// Takes up to `budget` upcalls, one from each list in turn.
    pub fn pop(&mut self, budget: usize, out: &mut Vec<Upcall>) {
        for _ in 0..budget {
            let Some(place) = self.turns.pop_front() else { return };
            let queue = &mut self.queues[place];
            let Some(upcall) = queue.waiting.pop_front() else { continue };
            if !queue.waiting.is_empty() {
                self.turns.push_back(place);
            }
            self.waiting -= 1;
            self.total -= 1;
            out.push(upcall);
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Upcalls dropped because there was no room, by port.
    pub fn dropped(&self) -> impl Iterator<Item = (PortNo, u64)> {
        let queues = self.queues.iter().filter(|queue| queue.dropped > 0);
        queues.map(|queue| (queue.port, queue.dropped))
    }

    /// Forgets a port with what waits for it.
    pub fn remove_port(&mut self, port: PortNo) {
        self.queues.retain(|queue| queue.port != port);
        let places = self.queues.iter().enumerate();
        self.place_of = places.map(|(place, queue)| ((queue.class, queue.port), place)).collect();
        let places = self.queues.iter().enumerate();
        let busy = places.filter(|(_, queue)| !queue.waiting.is_empty());
        self.turns = busy.map(|(place, _)| place).collect();
        self.waiting = self.queues.iter().map(|queue| queue.waiting.len()).sum();
        self.total = self.queues.iter().map(PortQueue::len).sum();
    }

    fn place(&mut self, class: Class, port: PortNo) -> usize {
        *self.place_of.entry((class, port)).or_insert_with(|| {
            let waiting = VecDeque::new();
            self.queues.push(PortQueue { class, port, waiting, reserved: 0, dropped: 0 });
            self.queues.len() - 1
        })
    }

    /// The longest list in which something waits.
    fn longest(&self) -> Option<usize> {
        self.turns.iter().copied().max_by_key(|place| self.queues[*place].len())
    }

    fn drop_newest(&mut self, place: usize) -> Option<Upcall> {
        let queue = &mut self.queues[place];
        let upcall = queue.waiting.pop_back()?;
        queue.dropped += 1;
        if queue.waiting.is_empty() {
            self.turns.retain(|turn| *turn != place);
        }
        self.waiting -= 1;
        self.total -= 1;
        Some(upcall)
    }
}
