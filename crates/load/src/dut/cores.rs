//! Which processor does what: the device under test from the first that we may use, the generator
//! from the last.

use port_linux::affinity::{allowed_cpus, pin_to_cpu};
use std::sync::OnceLock;

/// Processors of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The device's workers, in order.
    pub device: Vec<usize>,
    /// The generator's, in order; the first of them is the thread that everybody waits for.
    pub generator: Vec<usize>,
    /// No two threads share one.
    pub apart: bool,
}

impl Cores {
    /// No thread is tied to any.
    pub fn any() -> Cores {
        Cores { device: Vec::new(), generator: Vec::new(), apart: false }
    }

    /// For so many workers on each side.
    pub fn new(device: usize, generator: usize) -> Cores {
        Cores::of(Cores::allowed(), device, generator)
    }

    /// Processors that we may use, as they were at first: a thread that was tied to one may ask.
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

    /// Ties the calling thread to the device's processor of this number, where it has its own.
    pub fn pin_device(&self, worker: usize) {
        self.pin(self.device.get(worker));
    }

    /// Ties the calling thread to the generator's processor of this number, where it has its own.
    pub fn pin_generator(&self, worker: usize) {
        self.pin(self.generator.get(worker));
    }

    fn pin(&self, cpu: Option<&usize>) {
        if let (true, Some(&cpu)) = (self.apart, cpu) {
            // Without it the scheduler decides, which is only less even.
            let _ = pin_to_cpu(cpu);
        }
    }

    /// The device's processors as `taskset -c` and `perf -C` take them.
    pub fn device_list(&self) -> String {
        let words: Vec<String> = self.device.iter().map(usize::to_string).collect();
        words.join(",")
    }

    /// The device's processors as `pmd-cpu-mask` takes them.
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
