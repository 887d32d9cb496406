//! Call stacks merged into a tree, with the number of samples of each node.

use std::collections::BTreeMap;

/// Functions of the profiler, and the return from its signal. What they call is not work of the run.
const PROFILER: [&str; 4] = ["pprof::", "perf_signal_handler", "__restore_rt", "backtrace::"];
/// Where the functions of this program begin.
const OURS: &str = "tidegate::";

/// A function and its callees.
#[derive(Debug, Default)]
pub struct Call {
    /// The number of samples in it or in its callees.
    pub looks: u64,
    /// Its callees, by name.
    pub callees: BTreeMap<String, Call>,
}

/// All calls.
#[derive(Debug, Default)]
pub struct Tree {
    /// The root, which stands for the whole run.
    pub root: Call,
}

impl Tree {
    /// Nothing seen.
    pub fn new() -> Tree {
        Tree::default()
    }

    /// Returns the number of samples.
    pub fn looks(&self) -> u64 {
        self.root.looks
    }

    /// Adds a stack (outermost function first) with its number of samples. Frames outside of this program's
    /// first function are omitted.
    pub fn add(&mut self, stack: impl Iterator<Item = String>, looks: u64) {
        let is_profiler = |name: &String| PROFILER.iter().any(|part| name.contains(part));
        let stack: Vec<String> = stack.take_while(|name| !is_profiler(name)).collect();
        let first = stack.iter().position(|name| name.contains(OURS)).unwrap_or(0);
        let mut call = &mut self.root;
        call.looks += looks;
        for name in stack.into_iter().skip(first) {
            call = call.callees.entry(name).or_default();
            call.looks += looks;
        }
    }
}

impl Call {
    /// Returns the depth of the tree, its root included.
    pub fn depth(&self) -> usize {
        1 + self.callees.values().map(Call::depth).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(tree: &mut Tree, stack: &str, looks: u64) {
        tree.add(stack.split(' ').map(str::to_owned), looks);
    }

    #[test]
    fn stacks_that_begin_alike_are_summed_up() {
        let mut tree = Tree::new();
        add(&mut tree, "clone std::start tidegate::run conntrack::find table::index", 3);
        add(&mut tree, "clone tidegate::run conntrack::find", 2);
        add(&mut tree, "main <tidegate::Lot>::next __restore_rt pprof::note", 1);
        add(&mut tree, "unknown memcpy", 4);
        assert_eq!(tree.looks(), 10);
        assert_eq!(tree.root.depth(), 4);
        let names: Vec<_> = tree.root.callees.keys().collect();
        assert_eq!(names, ["<tidegate::Lot>::next", "tidegate::run", "unknown"]);
        let find = &tree.root.callees["tidegate::run"].callees["conntrack::find"];
        assert_eq!((find.looks, find.callees["table::index"].looks), (5, 3));
        assert!(tree.root.callees["<tidegate::Lot>::next"].callees.is_empty());
    }
}
