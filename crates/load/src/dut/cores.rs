//! Assignment of processors: the device under test gets the first of those that this process may use, the
//! generator the last.

use port_linux::affinity::{allowed_cpus, pin_to_cpu};
use std::sync::OnceLock;

/// The processors of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Processors of the device's workers, in order.
    pub device: Vec<usize>,
    /// Processors of the generator's workers, in order; the first is the main thread's.
    pub generator: Vec<usize>,
    /// Whether no two threads share a processor.
    pub apart: bool,
}

impl Cores {
    /// No thread is pinned.
    pub fn any() -> Cores {
        Cores { device: Vec::new(), generator: Vec::new(), apart: false }
    }

    /// Processors for `device` workers of the device and `generator` workers of the generator.
    pub fn new(device: usize, generator: usize) -> Cores {
        Cores::of(Cores::allowed(), device, generator)
    }

    /// Returns the processors that this process could use at its start. A pinned thread gets the same answer.
    pub fn allowed() -> &'static [usize] {
        static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
        ALLOWED.get_or_init(|| allowed_cpus().unwrap_or_default())
    }

    fn of(allowed: &[usize], device: usize, generator: usize) -> Cores {
        let cpu = |index: usize| allowed.get(index % allowed.len().max(1)).copied();
        let from_last = |index: usize| cpu(allowed.len() - 1 - index % allowed.len().max(1));
        Cores {
            device: (0..device).filter_map(cpu).collect(),
            generator: if allowed.is_empty() {
                Vec::new()
            } else {
                (0..generator).filter_map(from_last).collect()
            },
            apart: device + generator <= allowed.len(),
        }
    }

    /// Pins the calling thread to the processor of the device's worker `worker`, if no threads share one.
    pub fn pin_device(&self, worker: usize) {
        self.pin(self.device.get(worker));
    }

    /// Pins the calling thread to the processor of the generator's worker `worker`, if no threads share one.
    pub fn pin_generator(&self, worker: usize) {
        self.pin(self.generator.get(worker));
    }

    fn pin(&self, cpu: Option<&usize>) {
        if let (true, Some(&cpu)) = (self.apart, cpu) {
            // If pinning fails, the scheduler decides, and results vary more.
            let _ = pin_to_cpu(cpu);
        }
    }

    /// Returns the device's processors in the syntax of `taskset -c` and `perf -C`.
    pub fn device_list(&self) -> String {
        let words: Vec<String> = self.device.iter().map(usize::to_string).collect();
        words.join(",")
    }

    /// Returns the device's processors as a `pmd-cpu-mask`.
    pub fn device_mask(&self) -> String {
        let mut digits = vec![0u8; self.device.iter().max().map_or(1, |most| most / 4 + 1)];
        for cpu in &self.device {
            digits[cpu / 4] |= 1 << (cpu % 4);
        }
        let digits: String = digits.iter().rev().map(|digit| format!("{digit:x}")).collect();
        format!("0x{digits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_share_nothing_where_there_is_enough() {
        let check =
            |allowed: &[usize], workers: (usize, usize), expect: (&[usize], &[usize], bool)| {
                let it = Cores::of(allowed, workers.0, workers.1);
                assert_eq!((&*it.device, &*it.generator, it.apart), expect);
            };
        check(&[0, 1], (1, 1), (&[0], &[1], true));
        check(&[2, 5, 7, 9], (2, 2), (&[2, 5], &[9, 7], true));
        check(&[0, 1], (2, 2), (&[0, 1], &[1, 0], false));
        check(&[3], (2, 1), (&[3, 3], &[3], false));
        check(&[], (1, 1), (&[], &[], false));
    }

    #[test]
    fn masks_are_hexadecimal() {
        let mask = |cpus: &[usize]| Cores::of(cpus, cpus.len(), 0).device_mask();
        assert_eq!(mask(&[0]), "0x1");
        assert_eq!(mask(&[1, 2, 13]), "0x2006");
        assert_eq!(mask(&[70]), "0x400000000000000000");
        assert_eq!(Cores::of(&[4, 6], 2, 0).device_list(), "4,6");
    }
}
