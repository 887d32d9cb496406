//! A profile of the busiest worker: `perf` samples by function, with those that wait for locks marked, and
//! the worker's own counters. Workers of this process also time each stage of the packet's path, which
//! replaces the functions where `perf` is not permitted.

use crate::in_memory::Stages;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use testbed::stock::Stock;

/// Samples per second.
const RATE: &str = "997";
/// Most functions that are kept.
const FUNCTIONS: usize = 15;
/// Parts of the names of functions that take, wait for or release locks.
const LOCKS: [&str; 9] = [
    "mutex",
    "spin",
    "rwlock",
    "futex",
    "lll_lock",
    "sem_wait",
    "lock_slow",
    "lock_contended",
    "cond_wait",
];

/// The profile of a worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The worker's name.
    pub worker: String,
    /// Its source: `perf` or the worker's stages.
    pub source: &'static str,
    /// Parts of the time, the largest first.
    pub parts: Vec<Part>,
    /// The worker's own counters, by name.
    pub counters: Vec<(String, f64)>,
}

/// A function, or a stage of the packet's path.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// The program or library that contains it; empty for a stage.
    pub object: String,
    /// Its share of the worker's time, in percent.
    pub percent: f64,
}

impl Part {
    /// Returns whether the function belongs to a lock.
    pub fn is_lock(&self) -> bool {
        LOCKS.iter().any(|piece| self.name.contains(piece))
    }
}

impl Profile {
    /// Builds a profile from samples, counters and stages. Stages replace missing samples.
    fn of(
        worker: &str,
        samples: Vec<Part>,
        mut counters: Vec<(String, f64)>,
        stages: Option<Stages>,
    ) -> Profile {
        let (mut parts, mut source) = (samples, "perf, cpu-clock");
        if parts.is_empty() {
            source = "the worker's counters";
        }
        if let Some(stages) = stages.filter(|stages| stages.total() > 0.0) {
            let shares = stages.shares();
            let ns = shares.map(|(name, share)| (name, share * stages.total()));
            counters.extend(ns.map(|(name, ns)| (format!("{name}, ns per packet"), ns.round())));
            if parts.is_empty() {
                source = "stages of a packet's way";
                let part = |(name, share): (&str, f64)| Part {
                    name: name.to_owned(),
                    object: String::new(),
                    percent: 100.0 * share,
                };
                parts = shares.map(part).to_vec();
                parts.sort_by(|a, b| b.percent.total_cmp(&a.percent));
            }
        }
        Profile { worker: worker.to_owned(), source, parts, counters }
    }

    /// Returns the profile as text, with locks marked by a star.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("the busiest worker, {} ({}):", self.worker, self.source)];
        for part in self.parts.iter().take(FUNCTIONS) {
            let mark = if part.is_lock() { '*' } else { ' ' };
            lines.push(format!("{mark}{:6.2}%  {}  {}", part.percent, part.object, part.name));
        }
        for (name, value) in &self.counters {
            lines.push(format!("  {name}: {value}"));
        }
        lines
    }

    /// Returns the profile as JSON.
    pub fn json(&self) -> Value {
        let part = |part: &Part| {
            json!({
                "name": part.name,
                "object": part.object,
                "percent": part.percent,
                "lock": part.is_lock(),
            })
        };
        let locks: f64 = self.parts.iter().filter(|part| part.is_lock()).map(|p| p.percent).sum();
        json!({
            "worker": self.worker,
            "source": self.source,
            "parts": self.parts.iter().take(FUNCTIONS).map(part).collect::<Vec<_>>(),
            "locks_percent": locks,
            "counters": self.counters.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        })
    }
}

/// The workers to profile.
pub struct Watch(Of);

enum Of {
    /// A daemon, by its process id.
    Daemon(u32),
    /// Workers in this process.
    Workers(Vec<Worker>),
}

/// A worker's thread.
pub struct Worker {
    id: u32,
    name: String,
    /// The processor to which it is pinned.
    core: Option<u32>,
    /// Its stage timing, where it has one.
    staged: Option<Arc<dyn Staged>>,
}

/// A worker that can time the stages of the packet's path.
pub trait Staged: Send + Sync {
    /// Resets and starts the timing, or stops it.
    fn watch(&self, on: bool);

    /// Returns nanoseconds per packet in each stage since the start.
    fn each(&self) -> Stages;

    /// Returns the number of packets so far: the busiest worker has received most.
    fn packets(&self) -> u64;
}

impl Worker {
    /// A thread of this process that times its stages.
    pub fn staged(id: u32, name: String, staged: Arc<dyn Staged>) -> Worker {
        Worker { id, name, core: None, staged: Some(staged) }
    }

    fn work(&self, pid: u32) -> u64 {
        self.staged.as_ref().map_or_else(|| processor_ns(pid, self.id), |it| it.packets())
    }

    fn watch(&self, on: bool) {
        if let Some(staged) = &self.staged {
            staged.watch(on);
        }
    }
}

impl Watch {
    /// The workers of the daemon with this process id.
    pub fn daemon(pid: u32) -> Watch {
        Watch(Of::Daemon(pid))
    }

    /// Threads of this process.
    pub fn threads(workers: Vec<Worker>) -> Watch {
        Watch(Of::Workers(workers))
    }

    /// Profiles for this long. Returns `None` if there is no worker.
    pub fn look(self, time: Duration) -> Option<Profile> {
        let (pid, is_daemon, workers) = match self.0 {
            Of::Daemon(pid) => (pid, true, workers(pid)),
            Of::Workers(workers) => (std::process::id(), false, workers),
        };
        if is_daemon {
            // A daemon that does not answer has no counters; other checks report it.
            let _ = Stock::new("ovs-appctl dpif-netdev/pmd-stats-clear").ask();
        }
        workers.iter().for_each(|worker| worker.watch(true));
        let before: Vec<u64> = workers.iter().map(|worker| worker.work(pid)).collect();
        let start = std::time::Instant::now();
        let ids: Vec<String> = workers.iter().map(|worker| worker.id.to_string()).collect();
        let samples = Samples::take(&ids.join(","), time);
        // Without samples, the counters still cover the whole time.
        std::thread::sleep(time.saturating_sub(start.elapsed()));
        workers.iter().for_each(|worker| worker.watch(false));
        let stats = match is_daemon {
            true => Stock::new("ovs-appctl dpif-netdev/pmd-stats-show").run().unwrap_or_default(),
            false => String::new(),
        };
        let counted = counters(&stats);
        let work = |index: usize| {
            let worker = &workers[index];
            let of_core = counted.iter().find(|(core, _)| Some(*core) == worker.core);
            let cycles = of_core.and_then(|(_, all)| {
                all.iter().find(|(name, _)| name == "processing cycles").map(|(_, cycles)| *cycles)
            });
            cycles.unwrap_or_else(|| worker.work(pid).saturating_sub(before[index]) as f64)
        };
        let busiest = (0..workers.len()).max_by(|a, b| work(*a).total_cmp(&work(*b)))?;
        let worker = &workers[busiest];
        let own = counted.into_iter().find(|(core, _)| Some(*core) == worker.core);
        let stages = worker.staged.as_ref().map(|staged| staged.each());
        let counters = own.map(|(_, all)| all).unwrap_or_default();
        Some(Profile::of(&worker.name, parts(&samples.report(), &worker.name), counters, stages))
    }
}

/// Returns the daemon's workers: threads with the name prefix that both daemons use.
fn workers(pid: u32) -> Vec<Worker> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let ids = tasks.into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    let mut all: Vec<Worker> = ids
        .filter_map(|id: u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/task/{id}/comm")).ok()?;
            let name = name.trim().to_owned();
            let status = fs::read_to_string(format!("/proc/{pid}/task/{id}/status")).ok()?;
            let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            let core = allowed.and_then(|list| list.trim().parse().ok());
            let is_worker = name.starts_with("pmd-") || name.starts_with("worker");
            is_worker.then_some(Worker { id, name, core, staged: None })
        })
        .collect();
    all.sort_by_key(|thread| thread.id);
    all
}

fn processor_ns(pid: u32, thread: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"));
    let first = text.ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
    first.unwrap_or(0)
}

/// Samples of threads, in a temporary file; `None` where `perf` is missing or not permitted.
struct Samples {
    file: Option<PathBuf>,
}

impl Samples {
    fn take(threads: &str, time: Duration) -> Samples {
        let file = std::env::temp_dir().join(format!("tidegate-perf-{}.data", std::process::id()));
        let recorded = Command::new("perf")
            .args(["record", "-q", "-e", "cpu-clock", "-F", RATE, "-t", threads, "-o"])
            .arg(&file)
            .args(["--", "sleep", &time.as_secs_f64().to_string()])
            .stdin(Stdio::null())
            .output();
        let is_there = recorded.is_ok_and(|output| output.status.success());
        Samples { file: is_there.then_some(file) }
    }

    fn report(&self) -> String {
        let Some(file) = &self.file else { return String::new() };
        let told = Command::new("perf")
            .args(["report", "--stdio", "--no-children", "-q", "-w", "0"])
            .args(["-s", "comm,dso,symbol", "-t", "|", "-i"])
            .arg(file)
            .stdin(Stdio::null())
            .output();
        told.map_or(String::new(), |it| String::from_utf8_lossy(&it.stdout).into_owned())
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // A file that remains does no harm.
            let _ = fs::remove_file(file);
        }
    }
}

/// Parses lines of `share|thread|object|symbol` of one thread; an empty name matches any thread.
fn parts(report: &str, thread: &str) -> Vec<Part> {
    let mut all: Vec<Part> = report
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut fields = line.split('|').map(str::trim);
            let percent = fields.next()?.strip_suffix('%')?.parse().ok()?;
            let of = fields.next()?;
            let object = fields.next()?.to_owned();
            // "[.]" and "[k]" before the symbol mark user and kernel code.
            let symbol = fields.next()?;
            let symbol = symbol.split_once("] ").map_or(symbol, |(_, name)| name);
            let is_of = thread.is_empty() || of == thread;
            is_of.then(|| Part { name: symbol.trim().to_owned(), object, percent })
        })
        .collect();
    // perf's shares are of all threads together.
    let total: f64 = all.iter().map(|part| part.percent).sum();
    for part in &mut all {
        part.percent *= 100.0 / total.max(1e-9);
    }
    all.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    all
}

/// Parses `pmd-stats-show`: by processor, each line's name and first number.
fn counters(text: &str) -> Vec<(u32, Vec<(String, f64)>)> {
    let mut all: Vec<(u32, Vec<(String, f64)>)> = Vec::new();
    for line in text.lines() {
        if let Some((_, core)) = line.split_once("core_id ") {
            if let Ok(core) = core.trim_end_matches(':').parse() {
                all.push((core, Vec::new()));
            }
        } else if !line.starts_with(' ') {
            // The main thread's counters are not a worker's.
            if !line.is_empty() {
                all.push((u32::MAX, Vec::new()));
            }
        } else if let (Some((name, value)), Some((_, into))) =
            (line.split_once(':'), all.last_mut())
        {
            let first = value.split_whitespace().next().and_then(|word| word.parse().ok());
            into.extend(first.map(|number| (name.trim().to_owned(), number)));
        }
    }
    all.retain(|(core, _)| *core != u32::MAX);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
    30.99%|pmd-c01/id:5  |libc.so.6           |[.] pthread_mutex_lock@@GLIBC_2.2.5
    12.27%|pmd-c01/id:5  |ovs-vswitchd        |[.] dp_netdev_process_rxq_port
    50.00%|pmd-c02/id:6  |ovs-vswitchd        |[.] miniflow_extract
     6.74%|pmd-c01/id:5  |[kernel.kallsyms]   |[k] syscall_exit_to_user_mode
";

    #[test]
    fn shares_are_of_the_chosen_thread_and_locks_are_marked() {
        let all = parts(REPORT, "pmd-c01/id:5");
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].name, "pthread_mutex_lock@@GLIBC_2.2.5");
        assert!((all[0].percent - 61.98).abs() < 0.01, "{}", all[0].percent);
        assert_eq!(all.iter().map(Part::is_lock).collect::<Vec<_>>(), [true, false, false]);
        let profile = Profile { parts: all, ..Profile::default() };
        let json = profile.json();
        assert!((json["locks_percent"].as_f64().unwrap() - 61.98).abs() < 0.01);
        assert_eq!(parts("# nothing\n\nwords\n", ""), []);
    }

    #[test]
    fn stages_stand_for_samples_that_are_missing() {
        let stages = Stages { ports: 10.0, lookup: 30.0, connection: 60.0, ..Stages::default() };
        let sampled = vec![Part { name: "f".into(), object: "o".into(), percent: 100.0 }];
        let it = Profile::of("pmd0", sampled, Vec::new(), Some(stages));
        assert_eq!(
            (it.source, it.parts.len(), it.parts[0].name.as_str()),
            ("perf, cpu-clock", 1, "f")
        );
        assert!(it.counters.contains(&("connection, ns per packet".to_owned(), 60.0)));
        let it = Profile::of("pmd0", Vec::new(), Vec::new(), Some(stages));
        let parts: Vec<_> = it.parts.iter().take(3).map(|p| (p.name.as_str(), p.percent)).collect();
        assert_eq!(parts, [("connection", 60.0), ("lookup", 30.0), ("ports", 10.0)]);
        assert_eq!(it.source, "stages of a packet's way");
        // Without packets there are no stages.
        let it = Profile::of("pmd0", Vec::new(), Vec::new(), Some(Stages::default()));
        assert_eq!((it.source, it.parts, it.counters), ("the worker's counters", vec![], vec![]));
    }

    #[test]
    fn counters_are_each_worker_s_own() {
        let text = "pmd thread numa_id 0 core_id 1:\n  packets received: 123\n  \
                    processing cycles: 456 (7.8%)\npmd thread numa_id 0 core_id 2:\n  \
                    packets received: 9\nmain thread:\n  packets received: 4\n";
        let all = counters(text);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].0, 1);
        assert_eq!(all[0].1[1], ("processing cycles".to_owned(), 456.0));
        assert_eq!(all[1], (2, vec![("packets received".to_owned(), 9.0)]));
        assert_eq!(counters(""), []);
    }
}
