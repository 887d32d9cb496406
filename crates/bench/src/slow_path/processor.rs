//! Processor time of a switch in a separate process.

use testbed::switch::leading_number;

/// Processor time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Processor {
    /// Of the threads that poll ports, in seconds.
    pub workers_s: f64,
    /// Of all other threads.
    pub others_s: f64,
}

impl Processor {
    /// Reads the time of a process's threads.
    pub fn of(pid: u32) -> Processor {
        let mut sum = Processor::default();
        let tasks = std::fs::read_dir(format!("/proc/{}/task", pid));
        for task in tasks.into_iter().flatten().flatten() {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name));
            // A thread that ended meanwhile has none.
            let (Ok(name), Ok(times)) = (read("comm"), read("schedstat")) else { continue };
            let seconds = leading_number(&times).unwrap_or(0) as f64 / 1e9;
            if name.starts_with("pmd-") {
                sum.workers_s += seconds;
            } else {
                sum.others_s += seconds;
            }
        }
        sum
    }

    /// Returns the difference to an earlier reading.
    pub fn since(self, before: Processor) -> Processor {
        Processor {
            workers_s: self.workers_s - before.workers_s,
            others_s: self.others_s - before.others_s,
        }
    }
}
