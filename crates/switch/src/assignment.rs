//! Assignment of receive queues to workers, as a pure function (ovs: `lib/dpif-netdev.c`,
//! `sched_numa_list_schedule`).

use base::PortNo;
use control::{Isolation, RxqAssign};
use std::cmp::Reverse;

/// A worker, identified by its index in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Core {
    /// Its processor; `None` if it is not pinned.
    pub cpu: Option<u16>,
    /// The NUMA node of that processor.
    pub numa: u16,
}

/// A receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    /// The port.
    pub port: PortNo,
    /// Its number.
    pub queue: u16,
    /// The NUMA node of its device.
    pub numa: u16,
    /// Time that workers spent on it in the last minute.
    pub busy_ns: u64,
    /// The processor to which it is pinned (`pmd-rxq-affinity`).
    pub pinned: Option<u16>,
    /// Whether it is assigned to the worker without a processor, if there is one.
    pub is_slow: bool,
    /// The current worker, which keeps it if possible; `None` assigns it again.
    pub stays: Option<usize>,
}

/// An assignment of queues to workers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assignment {
    /// The worker of each queue, in the order of the queues; `None` if no worker may poll it.
    pub workers: Vec<Option<usize>>,
    /// Whether each worker polls only pinned queues, or is the sleeping one among polling ones.
    pub isolated: Vec<bool>,
    /// Indexes of queues that are pinned to a processor without a worker.
    pub unpinned: Vec<usize>,
}

/// Assigns the queues to the workers.
pub fn assign(
    cores: &[Core],
    queues: &[Queue],
    way: RxqAssign,
    isolation: Isolation,
) -> Assignment {
    let mut sched = Scheduler::new(cores, queues.len());
    let mut rest = Vec::new();
    let main = cores.iter().position(|core| core.cpu.is_none());
    if let Some(main) = main {
        // If other workers poll, it gets no other queues.
        sched.isolated[main] = cores.iter().any(|core| core.cpu.is_some());
    }
    for (place, queue) in queues.iter().enumerate() {
        if let Some(main) = main.filter(|_| queue.is_slow) {
            sched.give(place, queue, main);
            continue;
        }
        let Some(cpu) = queue.pinned else {
            rest.push(place);
            continue;
        };
        match cores.iter().position(|core| core.cpu == Some(cpu)) {
            Some(worker) => {
                sched.isolated[worker] |= isolation == Isolation::Isolated;
                sched.give(place, queue, worker);
            }
            None => {
                sched.unpinned.push(place);
                rest.push(place);
            }
        }
    }
    let stays = |queue: &Queue| queue.stays.filter(|worker| *worker < cores.len());
    let anyone_stays = rest.iter().any(|place| stays(&queues[*place]).is_some());
    let (mut fresh, mut left) = (Vec::new(), Vec::new());
    for place in rest {
        match stays(&queues[place]) {
            Some(worker) if !sched.isolated[worker] => left.push((place, worker)),
            _ => fresh.push(place),
        }
    }
    for (place, worker) in left {
        sched.give(place, &queues[place], worker);
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
        let worker = sched.node_for(queue).and_then(|node| match way {
            RxqAssign::Group => sched.lowest(node, queue.busy_ns > 0),
            // The round-robin walk would ignore the load of queues that stay.
            _ if anyone_stays => sched.lowest(node, false),
            RxqAssign::Cycles => sched.nodes[node].step(&sched.isolated, true),
            RxqAssign::RoundRobin => sched.nodes[node].step(&sched.isolated, false),
        });
        if let Some(worker) = worker {
            sched.give(place, queue, worker);
        }
    }
    Assignment { workers: sched.workers, isolated: sched.isolated, unpinned: sched.unpinned }
}

/// Returns whether a queue that is not pinned is assigned to another NUMA node of several: its load there is
/// unknown.
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

/// Returns the variance of the workers' loads in percent. Isolated workers are not counted, because nothing
/// can be moved from them.
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

/// An assignment in progress.
struct Scheduler<'a> {
    cores: &'a [Core],
    nodes: Vec<Node>,
    /// The node that last received a queue whose own node has no workers.
    crossed: Option<usize>,
    workers: Vec<Option<usize>>,
    isolated: Vec<bool>,
    unpinned: Vec<usize>,
    /// Number of queues and load of each worker so far.
    held: Vec<(usize, u64)>,
}

/// A NUMA node and the position in the walk through its workers.
struct Node {
    numa: u16,
    workers: Vec<usize>,
    at: usize,
    upwards: bool,
}

impl Scheduler<'_> {
    fn new(cores: &[Core], queues: usize) -> Scheduler<'_> {
        let mut numbers: Vec<u16> = cores.iter().map(|core| core.numa).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let on = |numa: u16| (0..cores.len()).filter(move |i| cores[*i].numa == numa).collect();
        let node = |numa| Node { numa, workers: on(numa), at: 0, upwards: true };
        Scheduler {
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

    /// Returns the node for the queue: its own, or else the next with available workers.
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

    /// Returns the least loaded worker of a node, by time or by number of queues.
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
    /// Returns the next worker of the walk that is not isolated: back and forth, so that the ends get two in
    /// a row, or round-robin.
    fn step(&mut self, isolated: &[bool], up_and_down: bool) -> Option<usize> {
        let last = self.workers.len().checked_sub(1)?;
        // Back and forth, every worker is visited only after twice their number of steps.
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
