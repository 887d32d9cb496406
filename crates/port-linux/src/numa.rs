//! On which node of memory (NUMA) a CPU or a device lies. A machine that does not say has one
//! node, number 0.

use std::fs;

/// The node of a CPU.
pub fn of_cpu(cpu: u16) -> u16 {
    let Ok(entries) = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")) else { return 0 };
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
    let node = |name: String| name.strip_prefix("node")?.parse().ok();
    entries.filter_map(Result::ok).filter_map(name).find_map(node).unwrap_or(0)
}

/// The node of a network device; one that is no piece of hardware lies on node 0.
pub fn of_device(device: &str) -> u16 {
    // A name cannot lead elsewhere: no device is called so.
    if device.contains(['/', '\0']) {
        return 0;
    }
    let text = fs::read_to_string(format!("/sys/class/net/{device}/device/numa_node"));
    // -1 is "none".
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
            // A machine without such nodes has no folder for them.
            if fs::metadata(&folder).is_ok() {
                assert!(fs::metadata(format!("{folder}/cpu{cpu}")).is_ok(), "CPU {cpu}");
            }
        }
    }
}
