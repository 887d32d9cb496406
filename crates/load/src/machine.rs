//! The machine on which a result was measured.

use crate::dut::Cores;
use serde_json::{Value, json};
use std::fs;

/// Describes the machine for results.
pub fn describe() -> Value {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": ")).map(|(_, name)| name);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    json!({
        "cpu": model,
        "cores": Cores::allowed().len(),
        "kernel": kernel.trim(),
        // Shows whether other programs were active.
        "load_average": load.split(' ').next().and_then(|text| text.parse::<f64>().ok()),
    })
}
