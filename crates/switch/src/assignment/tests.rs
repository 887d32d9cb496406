use super::*;

/// Workers on these processors of node 0.
fn cores(cpus: &[u16]) -> Vec<Core> {
    cpus.iter().map(|cpu| Core { cpu: Some(*cpu), numa: 0 }).collect()
}

/// Queue 0 of ports 1, 2, ... with these loads.
fn queues(busy_ns: &[u64]) -> Vec<Queue> {
    let queue = |(index, busy_ns): (usize, &u64)| Queue {
        port: PortNo(index as u32 + 1),
        queue: 0,
        numa: 0,
        busy_ns: *busy_ns,
        pinned: None,
        is_slow: false,
        stays: None,
    };
    busy_ns.iter().enumerate().map(queue).collect()
}

fn pinned(mut queues: Vec<Queue>, pins: &[(usize, u16)]) -> Vec<Queue> {
    pins.iter().for_each(|(place, cpu)| queues[*place].pinned = Some(*cpu));
    queues
}

fn staying(mut queues: Vec<Queue>, workers: &[Option<usize>]) -> Vec<Queue> {
    queues.iter_mut().zip(workers).for_each(|(queue, worker)| queue.stays = *worker);
    queues
}

use Isolation::{Isolated, Shared};
use RxqAssign::{Cycles, Group, RoundRobin};

/// Compares each queue's processor, `-` for none.
fn check(cores: &[Core], queues: &[Queue], way: RxqAssign, isolation: Isolation, expect: &str) {
    let found = assign(cores, queues, way, isolation);
    let name = |worker: &Option<usize>| match worker.and_then(|worker| cores[worker].cpu) {
        Some(cpu) => cpu.to_string(),
        None => "-".to_owned(),
    };
    let text = found.workers.iter().map(name).collect::<Vec<_>>().join(" ");
    assert_eq!(text, expect, "{way:?} {isolation:?} {queues:?}");
}

#[test]
fn each_way_gives_queues_out_as_documented() {
    // The example of Open vSwitch's manual (Documentation/topics/dpdk/pmd.rst): two queues of four ports each
    // with these loads, three cores.
    let busy = [30, 80, 60, 70, 10, 20];
    let three = cores(&[1, 2, 7]);
    check(&three, &queues(&busy), RoundRobin, Isolated, "1 2 7 1 2 7");
    // 80 70 60 up, 30 20 10 down.
    check(&three, &queues(&busy), Cycles, Isolated, "7 1 7 2 1 2");
    // 80 70 60, then 30 to the least loaded (60), 20 to 70, 10 to 80.
    check(&three, &queues(&busy), Group, Isolated, "7 1 7 2 1 2");
    // One heavy queue and many light ones: only `group` leaves the heavy one alone.
    let busy = [90, 10, 10, 10];
    check(&cores(&[1, 2]), &queues(&busy), Cycles, Isolated, "1 2 2 1");
    check(&cores(&[1, 2]), &queues(&busy), Group, Isolated, "1 2 2 2");
    check(&cores(&[1, 2]), &queues(&busy), RoundRobin, Isolated, "1 2 1 2");
    // Without measured loads the number of queues counts.
    check(&cores(&[1, 2]), &queues(&[0; 4]), Group, Isolated, "1 2 1 2");
    check(&cores(&[1, 2]), &queues(&[0; 4]), Cycles, Isolated, "1 2 2 1");
    check(&cores(&[1]), &queues(&[5, 6, 7]), Cycles, Isolated, "1 1 1");
    check(&[], &queues(&[5]), Cycles, Isolated, "-");
    check(&three, &[], Cycles, Isolated, "");
}

#[test]
fn pinned_queues_have_their_processor_and_may_have_it_alone() {
    let two = cores(&[1, 2]);
    for way in [Cycles, Group, RoundRobin] {
        let pins = pinned(queues(&[50, 5, 5, 5]), &[(1, 2)]);
        check(&two, &pins, way, Isolated, "1 2 1 1");
    }
    // Shared: the heavy queue goes to the worker whose pinned queue is lighter.
    let pins = pinned(queues(&[50, 5, 20, 20]), &[(1, 2)]);
    check(&two, &pins, Group, Shared, "1 2 2 2");
    // All workers are isolated: none is left for the rest.
    let pins = pinned(queues(&[1, 1, 1]), &[(0, 1), (1, 2)]);
    check(&two, &pins, Cycles, Isolated, "1 2 -");
    check(&two, &pins, Group, Shared, "1 2 1");
    // No worker on that processor: assigned like others, and reported.
    let pins = pinned(queues(&[1, 1]), &[(0, 9)]);
    check(&two, &pins, RoundRobin, Isolated, "1 2");
    let found = assign(&two, &pins, RoundRobin, Isolated);
    assert_eq!((found.unpinned, found.isolated), (vec![0], vec![false, false]));
    // A worker without a processor cannot have pinned queues.
    let sleeping = [Core { cpu: None, numa: 0 }];
    let found = assign(&sleeping, &pins, Cycles, Isolated);
    assert_eq!((found.workers, found.unpinned), (vec![Some(0), Some(0)], vec![0]));
}

#[test]
fn what_a_worker_has_stays_there_when_a_port_comes() {
    let two = cores(&[1, 2]);
    for way in [Cycles, Group, RoundRobin] {
        let present = staying(queues(&[90, 5, 5, 0]), &[Some(0), Some(1), Some(1), None]);
        check(&two, &present, way, Isolated, "1 2 2 1");
    }
    // With measured loads, `group` uses them.
    let present = staying(queues(&[90, 5, 5, 7]), &[Some(0), Some(1), Some(1), None]);
    check(&two, &present, Group, Isolated, "1 2 2 2");
    // A worker that becomes isolated by a newly pinned queue loses the others; a worker that is gone does
    // too.
    let present = staying(queues(&[9, 9, 9]), &[Some(0), Some(1), None]);
    check(&two, &pinned(present.clone(), &[(2, 2)]), Cycles, Isolated, "1 1 2");
    check(&cores(&[1]), &present, Cycles, Isolated, "1 1 1");
}

#[test]
fn queues_stay_on_their_node_of_memory_while_there_is_a_worker() {
    let two_nodes = [
        Core { cpu: Some(0), numa: 0 },
        Core { cpu: Some(1), numa: 1 },
        Core { cpu: Some(2), numa: 0 },
        Core { cpu: Some(3), numa: 1 },
    ];
    let on = |mut queues: Vec<Queue>, nodes: &[u16]| {
        queues.iter_mut().zip(nodes).for_each(|(queue, numa)| queue.numa = *numa);
        queues
    };
    let six = on(queues(&[0; 6]), &[0, 1, 0, 1, 0, 1]);
    check(&two_nodes, &six, RoundRobin, Isolated, "0 1 2 3 0 1");
    // A node without workers: those of other nodes take turns.
    let five = on(queues(&[0; 5]), &[7, 7, 7, 7, 1]);
    check(&two_nodes, &five, RoundRobin, Isolated, "0 1 2 3 1");
    // A node whose only workers are isolated counts as one without workers.
    let pins = pinned(on(queues(&[0; 4]), &[1, 1, 1, 1]), &[(0, 1), (1, 3)]);
    check(&two_nodes, &pins, RoundRobin, Isolated, "1 3 0 2");
}

#[test]
fn unevenness_is_the_variance_of_the_loads_that_can_be_moved() {
    let four = queues(&[90, 10, 10, 10]);
    let check = |workers: &[usize], isolated: &[bool], expect| {
        let workers = workers.iter().copied().map(Some).collect();
        let assignment = Assignment { workers, isolated: isolated.to_vec(), unpinned: Vec::new() };
        assert_eq!(unevenness(&assignment, &four, &[100, 100]), expect, "{assignment:?}");
    };
    check(&[0, 1, 1, 0], &[false, false], 1600);
    check(&[0, 1, 1, 1], &[false, false], 900);
    check(&[0, 0, 0, 0], &[false, false], 3600);
    check(&[0, 1, 1, 1], &[true, false], 0);
    let assignment = assign(&cores(&[1, 2]), &four, Group, Isolated);
    assert_eq!(unevenness(&assignment, &four, &[0, 0]), 0, "nothing is known of the workers");
}

#[test]
fn queues_of_no_polling_port_go_to_the_worker_that_sleeps() {
    let mut with_main = cores(&[1, 2]);
    with_main.push(Core { cpu: None, numa: 0 });
    let mut mixed = queues(&[0; 4]);
    (mixed[1].is_slow, mixed[3].is_slow) = (true, true);
    check(&with_main, &mixed, Cycles, Isolated, "1 - 2 -");
    assert_eq!(assign(&with_main, &mixed, Cycles, Isolated).workers[1], Some(2));
    // It gets all queues if no worker polls; if all poll there is no such worker.
    check(&[Core { cpu: None, numa: 0 }], &mixed, Cycles, Isolated, "- - - -");
    check(&cores(&[1, 2]), &mixed, RoundRobin, Isolated, "1 2 1 2");
}

#[test]
fn queues_of_a_node_without_workers_cross() {
    let core = |cpu, numa| Core { cpu: Some(cpu), numa };
    let crosses = |cores: &[Core], queues: &[Queue]| {
        crosses_nodes(&assign(cores, queues, Group, Shared), cores, queues)
    };
    let elsewhere = [core(0, 1), core(1, 2)];
    assert!(crosses(&elsewhere, &queues(&[0, 0])));
    assert!(!crosses(&elsewhere, &pinned(queues(&[0, 0]), &[(0, 0), (1, 1)])));
    // One node has all, or the queues' own node has workers.
    assert!(!crosses(&[core(0, 1), core(1, 1)], &queues(&[0, 0])));
    assert!(!crosses(&[core(0, 0), core(1, 1)], &queues(&[0, 0])));
}
