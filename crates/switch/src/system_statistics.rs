//! System statistics for `Open_vSwitch.statistics` (ovs: `vswitchd/system-stats.c`; ovs-vswitchd.conf.db(5)).

use rustix::param::{clock_ticks_per_second, page_size};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Returns the statistics by key; unavailable ones are omitted.
pub fn collect(run_dir: &Path) -> BTreeMap<String, String> {
    let cpus = std::thread::available_parallelism().ok().map(|count| count.to_string());
    let whole = [
        ("cpu", cpus),
        ("load_average", read("/proc/loadavg").and_then(|text| load_average(&text))),
        ("memory", read("/proc/meminfo").and_then(|text| memory(&text))),
        ("file_systems", read("/proc/self/mounts").and_then(|text| file_systems(&text))),
    ];
    let whole = whole.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    whole.chain(processes(run_dir)).collect()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn load_average(text: &str) -> Option<String> {
    let three: Vec<&str> = text.split(' ').take(3).collect();
    (three.len() == 3).then(|| three.join(","))
}

/// Total, used and reclaimable memory, total and used swap, in kB.
fn memory(text: &str) -> Option<String> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    let (total, swap_total) = (field("MemTotal")?, field("SwapTotal")?);
    let used = total.saturating_sub(field("MemFree")?);
    let cache = field("Buffers")? + field("Cached")?;
    let swap_used = swap_total.saturating_sub(field("SwapFree")?);
    Some(format!("{total},{used},{cache},{swap_total},{swap_used}"))
}

/// Local writable file systems: mount point, size and use in kB.
fn file_systems(mounts: &str) -> Option<String> {
    let list: Vec<String> = mounts.lines().filter_map(file_system).collect();
    (!list.is_empty()).then(|| list.join(" "))
}

fn file_system(mount: &str) -> Option<String> {
    let mut fields = mount.split(' ');
    let (device, point, _kind) = (fields.next()?, fields.next()?, fields.next()?);
    if !device.starts_with("/dev/") || fields.next()?.split(',').any(|option| option == "ro") {
        return None;
    }
    // The kernel writes spaces as \040.
    let space = rustix::fs::statvfs(point.replace("\\040", " ")).ok()?;
    let kilobytes = |blocks: u64| blocks.saturating_mul(space.f_frsize) / 1024;
    let (total, free) = (kilobytes(space.f_blocks), kilobytes(space.f_bfree));
    let point = point.replace("\\040", "_").replace(',', "_");
    Some(format!("{point},{total},{}", total.saturating_sub(free)))
}

/// Returns the running processes with pidfiles in the run directory.
fn processes(run_dir: &Path) -> impl Iterator<Item = (String, String)> {
    let entries = fs::read_dir(run_dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_suffix(".pid")?;
        let pid: u32 = fs::read_to_string(entry.path()).ok()?.trim().parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let ticks_per_s = clock_ticks_per_second();
        let said = process(&stat, &uptime, page_size() as u64, ticks_per_s)?;
        Some((format!("process_{name}"), said))
    })
}

/// Virtual and resident memory in kB, processor time in ms, crashes (not counted), and run time in ms, twice
/// (Linux: proc(5), `/proc/pid/stat`).
fn process(stat: &str, uptime: &str, page_bytes: u64, ticks_per_s: u64) -> Option<String> {
    // Field 3 follows the name, which may contain parentheses and spaces.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let milliseconds = |ticks: u64| ticks * 1000 / ticks_per_s.max(1);
    let used_ms = milliseconds(field(14)? + field(15)?);
    let (virtual_kb, resident_kb) = (field(23)? / 1024, field(24)? * page_bytes / 1024);
    let up_s: f64 = uptime.split(' ').next()?.parse().ok()?;
    let runs_ms = ((up_s * 1000.0) as u64).saturating_sub(milliseconds(field(22)?));
    Some(format!("{virtual_kb},{resident_kb},{used_ms},0,{runs_ms},{runs_ms}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        assert_eq!(load_average("0.05 0.10 1.20 2/300 1234\n").as_deref(), Some("0.05,0.10,1.20"));
        let meminfo = "MemTotal:  1000 kB\nMemFree: 300 kB\nBuffers: 20 kB\nCached: 80 kB\n\
                       SwapCached: 5 kB\nSwapTotal: 50 kB\nSwapFree: 40 kB\n";
        assert_eq!(memory(meminfo).as_deref(), Some("1000,700,100,50,10"));
        assert_eq!(memory("MemTotal:  1000 kB\n"), None);
        let stat = "77 (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 1000 2048000 25 0 0";
        let said = process(stat, "20.50 1.00\n", 4096, 100);
        assert_eq!(said.as_deref(), Some("2000,100,2000,0,10500,10500"));
        assert_eq!(file_system("proc /proc proc rw 0 0"), None);
        assert_eq!(file_system("/dev/x / ext4 ro,relatime 0 0"), None);
    }

    #[test]
    fn this_system_tells_something() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("me.pid"), format!("{}\n", std::process::id())).unwrap();
        fs::write(folder.path().join("gone.pid"), "4194305\n").unwrap();
        let all = collect(folder.path());
        for key in ["cpu", "load_average", "memory", "process_me"] {
            assert!(all.get(key).is_some_and(|value| !value.is_empty()), "{key}: {all:?}");
        }
        assert!(!all.contains_key("process_gone"), "{all:?}");
    }
}
