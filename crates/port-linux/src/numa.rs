//! NUMA nodes of CPUs and devices. A machine without this information has one node, number 0.

use std::fs;

/// Returns the node of a CPU.
pub fn of_cpu(cpu: u16) -> u16 {
    let Ok(entries) = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")) else { return 0 };
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
    let node = |name: String| name.strip_prefix("node")?.parse().ok();
    entries.filter_map(Result::ok).filter_map(name).find_map(node).unwrap_or(0)
}

/// Returns the node of a network device; 0 for a virtual device.
pub fn of_device(device: &str) -> u16 {
    // The name must not lead to another path; no device has such a name.
    if device.contains(['/', '\0']) {
        return 0;
    }
    let text = fs::read_to_string(format!("/sys/class/net/{device}/device/numa_node"));
    // -1 means "none".
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_say_lies_on_node_0() {
        assert_eq!(of_device("lo"), 0);
        assert_eq!(of_device("../../etc"), 0);
        assert_eq!(of_cpu(u16::MAX), 0);
    }

    #[test]
    fn every_cpu_lies_on_the_node_that_lists_it() {
        for cpu in crate::affinity::allowed_cpus().unwrap() {
            let node = of_cpu(cpu as u16);
            let folder = format!("/sys/devices/system/node/node{node}");
            // A machine without NUMA has no such directory.
            if fs::metadata(&folder).is_ok() {
                assert!(fs::metadata(format!("{folder}/cpu{cpu}")).is_ok(), "CPU {cpu}");
            }
        }
    }
}
