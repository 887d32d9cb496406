//! Which worker polls which receive queue, as a pure function of both (ovs: `lib/dpif-netdev.c`,
//! `sched_numa_list_schedule`).

use base::PortNo;
use control::{Isolation, RxqAssign};
use std::cmp::Reverse;

/// A worker that queues can be given to; it is known by its place in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Core {
    /// Its processor; None where it may run on any.
    pub cpu: Option<u16>,
    /// The node of memory of that processor.
    pub numa: u16,
}

/// A receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    /// The port.
    pub port: PortNo,
    /// Its number.
    pub queue: u16,
    /// The node of memory of its device.
    pub numa: u16,
    /// How long workers were busy with it in the last minute.
    pub busy_ns: u64,
    /// The processor that it belongs to (`pmd-rxq-affinity`).
    pub pinned: Option<u16>,
    /// Whether it goes to the worker without a processor of its own, where there is one.
    pub is_slow: bool,
    /// The worker that has it now and keeps it if nothing speaks against that; None gives it out
    /// anew.
    pub stays: Option<usize>,
}

/// The worker of each queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assignment {
    /// The worker of each queue, in the order of the queues; None where no worker may poll it.
    pub workers: Vec<Option<usize>>,
    /// Whether each worker serves pinned queues only, or is the one that does not poll among those
    /// that do.
    pub isolated: Vec<bool>,
    /// Queues that are pinned to a processor on which no worker runs, by their place.
    pub unpinned: Vec<usize>,
}

/// Gives the queues to the workers.
pub fn assign(
    cores: &[Core],
    queues: &[Queue],
    way: RxqAssign,
    isolation: Isolation,
) -> Assignment {
    let mut desk = Desk::new(cores, queues.len());
    let mut rest = Vec::new();
    let main = cores.iter().position(|core| core.cpu.is_none());
    if let Some(main) = main {
        // Where others poll, nothing else is for it.
        desk.isolated[main] = cores.iter().any(|core| core.cpu.is_some());
    }
    for (place, queue) in queues.iter().enumerate() {
        if let Some(main) = main.filter(|_| queue.is_slow) {
            desk.give(place, queue, main);
            continue;
        }
        let Some(cpu) = queue.pinned else {
            rest.push(place);
            continue;
        };
        match cores.iter().position(|core| core.cpu == Some(cpu)) {
            Some(worker) => {
                desk.isolated[worker] |= isolation == Isolation::Isolated;
                desk.give(place, queue, worker);
            }
            None => {
                desk.unpinned.push(place);
                rest.push(place);
            }
        }
    }
    let stays = |queue: &Queue| queue.stays.filter(|worker| *worker < cores.len());
    let anyone_stays = rest.iter().any(|place| stays(&queues[*place]).is_some());
    let (mut fresh, mut left) = (Vec::new(), Vec::new());
    for place in rest {
        match stays(&queues[place]) {
            Some(worker) if !desk.isolated[worker] => left.push((place, worker)),
            _ => fresh.push(place),
        }
    }
    for (place, worker) in left {
        desk.give(place, &queues[place], worker);
    }
    if way != RxqAssign::RoundRobin {
        let order = |place: &usize| {
            let queue = &queues[*place];
            (Reverse(queue.busy_ns), queue.port, queue.queue)
        };
        fresh.sort_by_key(order);
    }
    for place in fresh {
        let queue = &queues[place];
        let worker = desk.node_for(queue).and_then(|node| match way {
            RxqAssign::Group => desk.lowest(node, queue.busy_ns > 0),
            // Beside queues that stay, walking the list would ignore what they weigh.
            _ if anyone_stays => desk.lowest(node, false),
            RxqAssign::Cycles => desk.nodes[node].step(&desk.isolated, true),
            RxqAssign::RoundRobin => desk.nodes[node].step(&desk.isolated, false),
        });
        if let Some(worker) = worker {
            desk.give(place, queue, worker);
        }
    }
    Assignment { workers: desk.workers, isolated: desk.isolated, unpinned: desk.unpinned }
}

/// Whether a queue that is not pinned goes to a worker on another node of several: what it costs there is
/// not known before it is tried.
pub fn crosses_nodes(assignment: &Assignment, cores: &[Core], queues: &[Queue]) -> bool {
    let polling = || cores.iter().filter(|core| core.cpu.is_some());
    let several = polling().any(|core| polling().any(|other| other.numa != core.numa));
    let held = queues.iter().zip(&assignment.workers);
    let crosses = |(queue, worker): (&Queue, &Option<usize>)| {
        worker.is_some_and(|worker| {
            let Core { cpu, numa } = cores[worker];
            cpu.is_some() && queue.pinned != cpu && queue.numa != numa
        })
    };
    several && held.into_iter().any(crosses)
}

/// How uneven the workers' loads are: the variance of their percentages. Workers with pinned
/// queues only don't count, since nothing can be taken from them.
pub fn unevenness(assignment: &Assignment, queues: &[Queue], worker_ns: &[u64]) -> u64 {
    let load = |worker: usize| {
        let held = queues.iter().zip(&assignment.workers).filter(|(_, w)| **w == Some(worker));
        let busy_ns: u64 = held.map(|(queue, _)| queue.busy_ns).sum();
        super::usage::percent(busy_ns, worker_ns[worker]).unwrap_or(0)
    };
    let open = (0..worker_ns.len()).filter(|worker| !assignment.isolated[*worker]);
    let loads: Vec<u64> = open.map(load).collect();
    let count = loads.len().max(1) as u64;
    let mean = loads.iter().sum::<u64>() / count;
    loads.iter().map(|load| load.abs_diff(mean).pow(2)).sum::<u64>() / count
}

/// Queues as they are being given out.
struct Desk<'a> {
    cores: &'a [Core],
    nodes: Vec<Node>,
    /// The node that a queue without workers on its own went to last.
    crossed: Option<usize>,
    workers: Vec<Option<usize>>,
    isolated: Vec<bool>,
    unpinned: Vec<usize>,
    /// What each worker has so far: queues, and time.
    held: Vec<(usize, u64)>,
}

/// A node of memory, and where the walk through its workers has come to.
struct Node {
    numa: u16,
    workers: Vec<usize>,
    at: usize,
    upwards: bool,
}

impl Desk<'_> {
    fn new(cores: &[Core], queues: usize) -> Desk<'_> {
        let mut numbers: Vec<u16> = cores.iter().map(|core| core.numa).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let on = |numa: u16| (0..cores.len()).filter(move |i| cores[*i].numa == numa).collect();
        let node = |numa| Node { numa, workers: on(numa), at: 0, upwards: true };
        Desk {
            cores,
            nodes: numbers.into_iter().map(node).collect(),
            crossed: None,
            workers: vec![None; queues],
            isolated: vec![false; cores.len()],
            unpinned: Vec::new(),
            held: vec![(0, 0); cores.len()],
        }
    }

    fn give(&mut self, place: usize, queue: &Queue, worker: usize) {
        debug_assert!(worker < self.cores.len());
        self.workers[place] = Some(worker);
        self.held[worker].0 += 1;
        self.held[worker].1 += queue.busy_ns;
    }

    /// The node whose workers may have the queue: its own, or else the next that has any.
    fn node_for(&mut self, queue: &Queue) -> Option<usize> {
        let has_any = |node: &Node| node.workers.iter().any(|worker| !self.isolated[*worker]);
        let own = self.nodes.iter().position(|node| node.numa == queue.numa);
        if let Some(own) = own.filter(|own| has_any(&self.nodes[*own])) {
            return Some(own);
        }
        let count = self.nodes.len();
        let first = self.crossed.map_or(0, |crossed| crossed + 1);
        let found = (0..count).map(|i| (first + i) % count).find(|i| has_any(&self.nodes[*i]))?;
        self.crossed = Some(found);
        Some(found)
    }

    /// The worker of a node with the least to do, by time or by the number of queues.
    fn lowest(&self, node: usize, by_time: bool) -> Option<usize> {
        let workers = self.nodes[node].workers.iter().copied();
        let open = workers.filter(|worker| !self.isolated[*worker]);
        open.min_by_key(|worker| {
            let (queues, ns) = self.held[*worker];
            if by_time { ns } else { queues as u64 }
        })
    }
}

impl Node {
    /// The next worker of the walk that has not to be left alone: up and down the list, so that
    /// the ends get two in a row, or round it.
    fn step(&mut self, isolated: &[bool], up_and_down: bool) -> Option<usize> {
        let last = self.workers.len().checked_sub(1)?;
        // Up and down, all workers have had their turn only after twice their number.
        for _ in 0..=last * 2 + 1 {
            let worker = self.workers[self.at];
            match (self.upwards, up_and_down) {
                (true, _) if self.at < last => self.at += 1,
                (true, true) => self.upwards = false,
                (true, false) => self.at = 0,
                (false, _) if self.at > 0 => self.at -= 1,
                (false, _) => self.upwards = true,
            }
            if !isolated[worker] {
                return Some(worker);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
