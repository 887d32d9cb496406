//! The processors for workers: those of the machine, or a simulated list for tests (ovs: `lib/ovs-numa.c`).

use super::worker_messages::WorkerMode;
use port_linux::{affinity, numa};
use std::collections::BTreeMap;

/// Upper limit of NUMA node numbers (ovs: `lib/ovs-numa.c`, `MAX_NUMA_NODES`).
const NODES_MAX: u16 = 128;

/// The available processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Processors {
    /// Those that this process may use.
    #[default]
    Machine,
    /// The NUMA node of each simulated processor, from 0 (`--dummy-numa`).
    MadeUp(Vec<u16>),
}

impl Processors {
    /// Parses the argument of `--dummy-numa`; as in Open vSwitch, invalid nodes are skipped.
    pub fn made_up(list: &str) -> Processors {
        let node = |text: &str| text.trim().parse().ok().filter(|node| *node < NODES_MAX);
        Processors::MadeUp(list.split(',').filter_map(node).collect())
    }

    /// Returns the processors and their NUMA nodes.
    pub fn all(&self) -> BTreeMap<u16, u16> {
        match self {
            Processors::Machine => {
                let cpus = affinity::allowed_cpus().unwrap_or_default();
                let cpus = cpus.into_iter().filter_map(|cpu| u16::try_from(cpu).ok());
                cpus.map(|cpu| (cpu, numa::of_cpu(cpu))).collect()
            }
            Processors::MadeUp(nodes) => (0..).zip(nodes.iter().copied()).collect(),
        }
    }

    /// Logs the processors, in Open vSwitch's words.
    pub fn announce(&self) {
        let all = self.all();
        let mut nodes: BTreeMap<u16, usize> = BTreeMap::new();
        all.values().for_each(|node| *nodes.entry(*node).or_default() += 1);
        for (node, count) in &nodes {
            log::info!(target: "ovs_numa", "Discovered {count} CPU cores on NUMA node {node}");
        }
        let (nodes, cores) = (nodes.len(), all.len());
        log::info!(target: "ovs_numa", "Discovered {nodes} NUMA nodes and {cores} CPU cores");
    }
}

/// Returns the first processor of each node.
pub fn first_of_each_node(all: &BTreeMap<u16, u16>) -> BTreeMap<u16, u16> {
    // Of a node's processors the lowest comes last and is kept.
    let by_node: BTreeMap<u16, u16> = all.iter().rev().map(|(cpu, node)| (*node, *cpu)).collect();
    by_node.into_iter().map(|(node, cpu)| (cpu, node)).collect()
}

/// Logs which polling workers were stopped and started, in Open vSwitch's words (ovs: `lib/dpif-netdev.c`,
/// `reconfigure_pmd_threads`).
pub fn announce_workers(before: &[WorkerMode], after: &[WorkerMode]) {
    let polling = |modes: &[WorkerMode]| -> BTreeMap<usize, u16> {
        let place = |mode: &WorkerMode| match mode {
            WorkerMode::Polling { cpu, numa, .. } => Some((*cpu, *numa)),
            WorkerMode::Sleeping => None,
        };
        modes.iter().filter_map(place).collect()
    };
    let (before, after) = (polling(before), polling(after));
    let tell = |cpu: usize, numa: u16, what: &str| {
        log::info!(
            target: "dpif_netdev",
            "PMD thread on numa_id: {numa}, core id: {cpu:2} {what}."
        );
    };
    for (cpu, numa) in before.iter().filter(|(cpu, _)| !after.contains_key(cpu)) {
        tell(*cpu, *numa, "destroyed");
    }
    for (cpu, numa) in after.iter().filter(|(cpu, _)| !before.contains_key(cpu)) {
        tell(*cpu, *numa, "created");
    }
    let mut nodes: BTreeMap<u16, usize> = BTreeMap::new();
    after.values().for_each(|numa| *nodes.entry(*numa).or_default() += 1);
    for (numa, count) in nodes.into_iter().filter(|_| before != after) {
        log::info!(target: "dpif_netdev", "There are {count} pmd threads on numa node {numa}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_list_gives_each_processor_its_node() {
        let made_up = Processors::made_up("1,x,1,0,8, 8");
        assert_eq!(made_up, Processors::MadeUp(vec![1, 1, 0, 8, 8]));
        assert_eq!(made_up.all(), [(0, 1), (1, 1), (2, 0), (3, 8), (4, 8)].into());
        let first = first_of_each_node(&made_up.all());
        assert_eq!(first, [(0, 1), (2, 0), (3, 8)].into());
        assert_eq!(Processors::made_up("128,127"), Processors::MadeUp(vec![127]));
    }

    #[test]
    fn the_machine_has_what_the_system_says() {
        let cpus = affinity::allowed_cpus().unwrap();
        let all = Processors::Machine.all();
        assert!(all.keys().map(|cpu| usize::from(*cpu)).eq(cpus));
    }
}
