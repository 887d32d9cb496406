//! The upcalls for one thread: a bounded list per class and port. Classes are served in turn, and within a
//! class its ports.

use super::QueueFull;
use base::PortNo;
#[cfg(not(loom))]
use base::limits::{UPCALLS, UPCALLS_PER_PORT};
use flow::{QueueClass, Upcall};
use hashbrown::HashMap;
use std::collections::VecDeque;

const CLASSES: usize = QueueClass::ALL.len();

/// The room that an empty list keeps.
const CAPACITY_KEPT: usize = 64;

/// In builds for the model checker two upcalls fill the queue, so that few steps cover every case.
#[cfg(loom)]
const UPCALLS: usize = 2;
#[cfg(loom)]
const UPCALLS_PER_PORT: usize = 2;

/// The upcalls of one class from one port.
#[derive(Debug)]
struct PortQueue {
    class: QueueClass,
    port: PortNo,
    waiting: VecDeque<Upcall>,
    /// Number of reserved places.
    reserved: usize,
    dropped: u64,
}

/// All lists.
#[derive(Debug, Default)]
pub(super) struct PortQueues {
    queues: Vec<PortQueue>,
    place_of: HashMap<(QueueClass, PortNo), usize>,
    /// By class, its non-empty lists, the next to serve first.
    turns: [VecDeque<usize>; CLASSES],
    /// The class to serve next, and whether the last upcall was of a control protocol.
    next_class: usize,
    was_control: bool,
    /// Number of upcalls, and the number including reservations.
    waiting: usize,
    total: usize,
}

impl PortQueue {
    fn len(&self) -> usize {
        self.waiting.len() + self.reserved
    }
}

impl PortQueues {
    /// Reserves room. Returns the upcall evicted for it.
    pub fn reserve(
        &mut self,
        class: QueueClass,
        port: PortNo,
    ) -> Result<Option<Upcall>, QueueFull> {
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

    /// Counts a refused upcall.
    pub fn refuse(&mut self, class: QueueClass, port: PortNo) {
        let place = self.place(class, port);
        self.queues[place].dropped += 1;
    }

    /// Uses reserved room. Returns whether the lists were empty before.
    pub fn push(&mut self, class: QueueClass, port: PortNo, upcall: Upcall) -> bool {
        let Some(&place) = self.place_of.get(&(class, port)) else { return false };
        let queue = &mut self.queues[place];
        // The port was removed meanwhile, with its reservations.
        if queue.reserved == 0 {
            return false;
        }
        queue.reserved -= 1;
        queue.waiting.push_back(upcall);
        if queue.waiting.len() == 1 {
            self.turns[class as usize].push_back(place);
        }
        self.waiting += 1;
        self.waiting == 1
    }

    /// Takes up to `budget` upcalls, one from each class in turn, and of each class one from each port in turn.
    pub fn pop(&mut self, budget: usize, out: &mut Vec<Upcall>) {
        for _ in 0..budget.min(self.waiting) {
            let Some(class) = self.take_turn() else { return };
            let Some(place) = self.turns[class].pop_front() else { return };
            let queue = &mut self.queues[place];
            let Some(upcall) = queue.waiting.pop_front() else { continue };
            if !queue.waiting.is_empty() {
                self.turns[class].push_back(place);
            } else if queue.waiting.capacity() > CAPACITY_KEPT {
                // After a storm, half of it each time that the list is emptied.
                queue.waiting.shrink_to(queue.waiting.capacity() / 2);
            }
            self.waiting -= 1;
            self.total -= 1;
            out.push(upcall);
        }
    }

    /// The class to serve. Control protocols, which detect lost links by silence, take precedence, but while
    /// other upcalls wait only every other one is theirs, so a storm of them does not starve the others.
    fn take_turn(&mut self) -> Option<usize> {
        const CONTROL: usize = QueueClass::Control as usize;
        if !self.was_control && !self.turns[CONTROL].is_empty() {
            self.was_control = true;
            return Some(CONTROL);
        }
        let classes = (0..CLASSES).map(|n| (self.next_class + n) % CLASSES);
        let is_next = |class: &usize| *class != CONTROL && !self.turns[*class].is_empty();
        let next = classes.into_iter().find(is_next);
        self.was_control = next.is_none();
        match next {
            Some(class) => self.next_class = class + 1,
            None if self.turns[CONTROL].is_empty() => return None,
            None => return Some(CONTROL),
        }
        next
    }

    /// Whether there are no upcalls.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Upcalls dropped for lack of room, by port.
    pub fn dropped(&self) -> impl Iterator<Item = (PortNo, u64)> {
        let queues = self.queues.iter().filter(|queue| queue.dropped > 0);
        queues.map(|queue| (queue.port, queue.dropped))
    }

    /// Removes a port's state and waiting upcalls.
    pub fn remove_port(&mut self, port: PortNo) {
        self.queues.retain(|queue| queue.port != port);
        let places = self.queues.iter().enumerate();
        self.place_of = places.map(|(place, queue)| ((queue.class, queue.port), place)).collect();
        let places = self.queues.iter().enumerate();
        self.turns = Default::default();
        for (place, queue) in places.filter(|(_, queue)| !queue.waiting.is_empty()) {
            self.turns[queue.class as usize].push_back(place);
        }
        self.waiting = self.queues.iter().map(|queue| queue.waiting.len()).sum();
        self.total = self.queues.iter().map(PortQueue::len).sum();
    }

    fn place(&mut self, class: QueueClass, port: PortNo) -> usize {
        *self.place_of.entry((class, port)).or_insert_with(|| {
            let waiting = VecDeque::new();
            self.queues.push(PortQueue { class, port, waiting, reserved: 0, dropped: 0 });
            self.queues.len() - 1
        })
    }

    /// The longest non-empty list.
    fn longest(&self) -> Option<usize> {
        self.turns.iter().flatten().copied().max_by_key(|place| self.queues[*place].len())
    }

    fn drop_newest(&mut self, place: usize) -> Option<Upcall> {
        let queue = &mut self.queues[place];
        let upcall = queue.waiting.pop_back()?;
        queue.dropped += 1;
        if queue.waiting.is_empty() {
            self.turns[queue.class as usize].retain(|turn| *turn != place);
        }
        self.waiting -= 1;
        self.total -= 1;
        Some(upcall)
    }
}
