//! The cells of the table: the search of each, its bounds, and the estimated time.

use super::MatrixArgs;
use clap::ValueEnum;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// How long connections live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lived {
    /// One request and one reply
    Short,
    /// 500 of each over 25 seconds
    Long,
}

/// Whether connections are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tracking {
    /// Connection tracking, with the published rules
    Ct,
    /// None
    Plain,
}

/// How a switch is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ports {
    /// vhost-user
    Vhost,
    /// In memory (only ours)
    Memory,
    /// veth pairs
    Veth,
}

/// Which switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Version {
    /// This program's
    Tidegate,
    /// The installed Open vSwitch's
    Ovs,
}

/// Workers of a switch, and queues of each of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Workers, a core each.
    pub workers: usize,
    /// Queues of each port.
    pub queues: usize,
}

impl Layout {
    /// One of each.
    pub const ONE: Layout = Layout { workers: 1, queues: 1 };
    /// The published ones.
    const PUBLISHED: [Layout; 7] = [
        Layout::ONE,
        Layout { workers: 2, queues: 1 },
        Layout { workers: 2, queues: 2 },
        Layout { workers: 4, queues: 2 },
        Layout { workers: 4, queues: 4 },
        Layout { workers: 8, queues: 4 },
        Layout { workers: 8, queues: 8 },
    ];

    /// Returns the published layouts for which there are enough cores; the generator needs as many as the
    /// switch.
    pub fn that_fit(cores: usize) -> Vec<Layout> {
        let fits = |layout: &Layout| *layout == Layout::ONE || 2 * layout.workers <= cores;
        Layout::PUBLISHED.into_iter().filter(fits).collect()
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Layout, String> {
        let (workers, queues) = text.split_once('x').unwrap_or((text, text));
        let number = |text: &str| text.parse().ok().filter(|n| (1..=64).contains(n));
        match (number(workers), number(queues)) {
            (Some(workers), Some(queues)) if queues <= workers => Ok(Layout { workers, queues }),
            (Some(_), Some(_)) => Err("each queue needs a worker: as many workers, or more".into()),
            _ => Err("write workers and queues as 4x2, from 1 to 64".into()),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.workers, self.queues)
    }
}

/// One search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// How long connections live.
    pub lived: Lived,
    /// Whether they are tracked.
    pub tracking: Tracking,
    /// By how many workers, from how many queues.
    pub layout: Layout,
    /// By which switch.
    pub version: Version,
    /// Reached how.
    pub ports: Ports,
}

impl Cell {
    /// Returns its name, which is also that of its file.
    pub fn name(&self) -> String {
        let lived = if self.lived == Lived::Short { "short" } else { "long" };
        let tracked = if self.tracking == Tracking::Ct { "ct" } else { "plain" };
        let (dut, ports) = (self.dut(), self.ports.word());
        format!("{lived}-{tracked}-{}-{dut}-{ports}", self.layout)
    }

    fn dut(&self) -> &'static str {
        if self.version == Version::Ovs { "ovs" } else { "tidegate" }
    }

    /// Returns the range of the search: what a device can carry there on present machines.
    fn bounds(&self) -> [f64; 2] {
        let workers = self.layout.workers as f64;
        match (self.lived, self.ports) {
            (Lived::Short, Ports::Memory | Ports::Vhost) => [2e3, (1e6 * workers).min(2e6)],
            (Lived::Short, Ports::Veth) => [100.0, 40e3],
            (Lived::Long, Ports::Memory | Ports::Vhost) => [100.0, 8e3 * workers],
            (Lived::Long, Ports::Veth) => [100.0, 2e3],
        }
    }

    /// Returns whether it is measured at all.
    pub fn is_meant(&self) -> bool {
        match self.ports {
            Ports::Vhost => true,
            // Another process has no ports in the memory of this one.
            Ports::Memory => self.version == Version::Tidegate,
            // A veth has one queue.
            Ports::Veth => self.layout == Layout::ONE,
        }
    }

    /// Returns the estimated time of its search on an idle machine: the bisections of its range, some of them
    /// repeated, each with its ramp, a settling time, the lives of connections before and after, and the time
    /// until the table is empty. If the generator is too late, every rate is tried twice.
    pub fn expected(&self, args: &MatrixArgs) -> Duration {
        let life_s = if self.lived == Lived::Long { 25.5 } else { 0.5 };
        let linger_s = if self.version == Version::Ovs { 5.0 } else { 1.5 };
        let stands_s = f64::from(args.ramp_up) + 1.5 + life_s;
        let trial_s = stands_s + f64::from(self.sample_s(args)) + life_s + linger_s;
        let [min, max] = self.bounds();
        // The answer is taken to be an eighth of the highest rate.
        let halvings = ((max - min) / (args.precision / 100.0 * max / 8.0)).log2().max(1.0);
        // Some trials are repeated, one confirms, and one measures the workers; starting the switch takes
        // time too.
        let most = args.max_iterations.map_or(f64::INFINITY, f64::from);
        Duration::from_secs_f64(15.0 + trial_s * ((halvings + 3.0).min(most) + 2.0))
    }

    fn sample_s(&self, args: &MatrixArgs) -> u32 {
        args.sample_time + if self.lived == Lived::Long { 25 } else { 0 }
    }

    /// Returns the command line of the search.
    pub fn arguments(&self, args: &MatrixArgs, file: &Path) -> Vec<String> {
        let [min, max] = self.bounds().map(|rate| rate.to_string());
        let (long, sample) = (self.lived == Lived::Long, self.sample_s(args));
        let mut all = vec!["cps-ndr".to_owned(), "--perf".to_owned()];
        let named = [
            ("-u", "1".to_owned()),
            ("-m", min),
            ("-M", max),
            ("--dut", self.dut().to_owned()),
            ("--ports", self.ports.word().to_owned()),
            ("--workers", self.layout.workers.to_string()),
            ("--queues", self.layout.queues.to_string()),
            ("-T", sample.to_string()),
            ("-e", args.error_threshold.to_string()),
            ("--precision", args.precision.to_string()),
            ("-r", args.ramp_up.to_string()),
            ("-o", file.display().to_string()),
        ];
        all.extend(named.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        if long {
            all.extend(["-n", "500", "-w", "50"].map(str::to_owned));
        }
        if let Some(most) = args.max_iterations {
            all.extend(["-i".to_owned(), most.to_string()]);
        }
        if self.tracking == Tracking::Plain {
            all.push("--no-ct".to_owned());
        }
        all
    }
}

impl Ports {
    fn word(self) -> &'static str {
        match self {
            Ports::Vhost => "vhost",
            Ports::Memory => "memory",
            Ports::Veth => "veth",
        }
    }
}
