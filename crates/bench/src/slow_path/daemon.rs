//! A whole switch in a separate process, ours or Open vSwitch's, which plays pcap files and is queried
//! through its control socket.

use super::processor::Processor;
use crate::BenchError;
use clap::ValueEnum;
use daemon::Directories;
use daemon::unixctl::client::Client;
use load::dut::Inside;
use port_linux::affinity;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testbed::namespaces::RUN_FOLDER;
use testbed::stock::Stock;
use testbed::switch::{leading_number, number_after};
use testbed::{Screen, Switch};

/// Where Debian installs Open vSwitch's daemon with DPDK.
const OVS: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
/// Memory for Open vSwitch's packets, in megabytes: DPDK's net_pcap keeps a buffer for each packet that it
/// plays repeatedly, and Open vSwitch requests 262,144 of 3 KB if there is room.
const OVS_MB: usize = 2048;
/// Huge pages of 2 MB for them.
const OVS_PAGES: usize = OVS_MB / 2 + 8;

/// The switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Ours.
    Tidegate,
    /// Open vSwitch's, with DPDK.
    Ovs,
}

impl Kind {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tidegate => "tidegate",
            Kind::Ovs => "ovs",
        }
    }

    /// Returns the reason why it cannot run here; `None` if it can.
    pub fn missing(self) -> Option<String> {
        let is_missing = self == Kind::Ovs && !Path::new(OVS).exists();
        is_missing.then(|| {
            format!("there is no {OVS}; install it: apt-get install openvswitch-switch-dpdk")
        })
    }
}

/// A switch to compare with
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Peer {
    /// Debian's Open vSwitch with DPDK
    Ovs,
}

impl Peer {
    /// The switches to measure: ours and the requested peer, or why the peer cannot run.
    pub fn kinds(peer: Option<Peer>) -> (Vec<Kind>, Option<String>) {
        let peer = peer.map(|Peer::Ovs| Kind::Ovs);
        let missing = peer.and_then(Kind::missing);
        let measured = peer.filter(|_| missing.is_none());
        (std::iter::once(Kind::Tidegate).chain(measured).collect(), missing)
    }
}

/// Continues in namespaces of its own, with the huge pages that these switches need. The outer process ends
/// with [`BenchError::Ended`].
pub fn enter(work: &'static str, json: bool, kinds: &[Kind]) -> Result<(), BenchError> {
    let pages = if kinds.contains(&Kind::Ovs) { OVS_PAGES } else { 0 };
    let inside = Inside::enter(&Screen::of(work, json), pages);
    match inside.map_err(|error| BenchError::Load(Box::new(error)))? {
        Inside::Ended(code) => Err(BenchError::Ended(code)),
        _ => Ok(()),
    }
}

/// What a port plays.
#[derive(Clone, Copy, Debug)]
pub enum Plays<'a> {
    /// Nothing: it drops what is sent to it.
    Nothing,
    /// Nothing: it records what is sent to it in this file.
    Records(&'a Path),
    /// A file, once.
    Once(&'a Path),
    /// A file, repeatedly.
    Loop(&'a Path),
    /// A file, repeatedly, at its capture times. Open vSwitch's ports cannot.
    Paced(&'a Path),
    /// A file, repeatedly, with a bounded number of packets in flight, which rules return. Open vSwitch's
    /// ports cannot.
    Windowed(&'a Path, u32),
}

/// A running switch with the bridge `br0`.
pub struct UnderTest {
    kind: Kind,
    switch: Switch,
    client: Client,
}

/// Passes that missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Misses {
    /// Upcalls that were queued.
    pub queued: u64,
    /// Upcalls that were dropped because the queue was full.
    pub refused: u64,
}

impl UnderTest {
    /// Starts it with a worker that sleeps where no packet comes; Open vSwitch's main thread, without DPDK.
    pub fn start_sleeping(kind: Kind) -> Result<UnderTest, BenchError> {
        let mut it = UnderTest::launch(kind)?;
        it.add_bridge()?;
        Ok(it)
    }

    /// Starts a switch with one worker that polls, on the last usable processor.
    pub fn start(kind: Kind) -> Result<UnderTest, BenchError> {
        let mut it = UnderTest::launch(kind)?;
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        let worker = cpus.last().copied().unwrap_or(0);
        let mut set = Stock::new("ovs-vsctl --timeout=50 set Open_vSwitch .")
            .word(format!("other_config:pmd-cpu-mask={:#x}", 1u128 << worker));
        if kind == Kind::Ovs {
            let first = cpus.first().copied().unwrap_or(0);
            set = set
                .word("other_config:dpdk-extra=\"--no-pci\"")
                .word(format!("other_config:dpdk-lcore-mask={:#x}", 1u128 << first))
                .word(format!("other_config:dpdk-socket-mem={OVS_MB}"))
                .word("other_config:dpdk-init=true");
        }
        it.run(&set)?;
        it.add_bridge()?;
        Ok(it)
    }

    fn launch(kind: Kind) -> Result<UnderTest, BenchError> {
        let switch = Switch::start((kind == Kind::Ovs).then_some(Path::new(OVS)))?;
        let directories =
            Directories { run: PathBuf::from(RUN_FOLDER), ..Directories::from_environment() };
        Ok(UnderTest { kind, switch, client: Client::connect(None, &directories)? })
    }

    fn add_bridge(&mut self) -> Result<(), BenchError> {
        self.run(&Stock::new(
            "ovs-vsctl --timeout=50 add-br br0 -- set bridge br0 datapath_type=netdev \
             fail-mode=secure",
        ))
    }

    /// Returns its version.
    pub fn version(&self) -> Result<String, BenchError> {
        match self.kind {
            Kind::Tidegate => Ok(format!("Tidegate {}", env!("CARGO_PKG_VERSION"))),
            Kind::Ovs => Ok(self.switch.version()?),
        }
    }

    /// Adds a port `pNUMBER` with that OpenFlow number.
    pub fn add_port(&mut self, number: u16, plays: Plays<'_>) -> Result<(), BenchError> {
        let add = format!(
            "ovs-vsctl --timeout=50 add-port br0 p{number} -- set interface p{number} \
             ofport_request={number} type={}",
            match self.kind {
                Kind::Tidegate => "pcap",
                Kind::Ovs => "dpdk",
            }
        );
        let mut add = Stock::new(&add);
        for word in self.options(number, plays) {
            add = add.word(word);
        }
        self.run(&add)?;
        let error = Stock::new(&format!("ovs-vsctl get interface p{number} error")).run()?;
        match error.trim() {
            "[]" => Ok(()),
            why => Err(BenchError::WrongWork(format!("port p{number} does not open: {why}"))),
        }
    }

    fn options(&self, number: u16, plays: Plays<'_>) -> Vec<String> {
        let file = |path: &Path| path.display().to_string();
        if self.kind == Kind::Ovs {
            let devargs = match plays {
                Plays::Nothing => format!("net_null{number},no-rx=1"),
                Plays::Records(path) => format!("net_pcap{number},tx_pcap={}", file(path)),
                Plays::Once(path) => format!("net_pcap{number},rx_pcap={}", file(path)),
                Plays::Loop(path) | Plays::Paced(path) | Plays::Windowed(path, _) => {
                    format!("net_pcap{number},rx_pcap={},infinite_rx=1", file(path))
                }
            };
            return vec![format!("options:dpdk-devargs=\"{devargs}\"")];
        }
        let rx = |path: &Path, more: &[&str]| {
            let rx = format!("options:rx_pcap={}", file(path));
            std::iter::once(rx).chain(more.iter().map(|&it| it.to_owned())).collect()
        };
        let endless = "options:infinite_rx=true";
        let pace = |pace: &str| format!("options:rx_pace={pace}");
        match plays {
            Plays::Nothing => Vec::new(),
            Plays::Records(path) => vec![format!("options:tx_pcap={}", file(path))],
            Plays::Once(path) => rx(path, &[]),
            Plays::Loop(path) => rx(path, &[endless]),
            Plays::Paced(path) => rx(path, &[endless, &pace("recorded")]),
            Plays::Windowed(path, packets) => {
                rx(path, &[endless, &pace(&format!("window:{packets}"))])
            }
        }
    }

    /// Adds a device of the system under its own name.
    pub fn add_device(&mut self, name: &str) -> Result<(), BenchError> {
        self.run(&Stock::new(&format!("ovs-vsctl --timeout=50 add-port br0 {name}")))
    }

    /// Adds a rule.
    pub fn add_rule(&mut self, rule: &str) -> Result<(), BenchError> {
        self.run(&Stock::new("ovs-ofctl add-flow br0").word(rule))
    }

    /// Returns the packet counts of rules like this, each by its match.
    pub fn packets_of_each(&mut self, rules: &str) -> Result<BTreeMap<String, u64>, BenchError> {
        let text = Stock::new("ovs-ofctl --no-names dump-flows br0").word(rules).run()?;
        let count = |line| Some((after(line, "priority=")?, number_after(line, "n_packets=")?));
        let lines = text.lines().filter(|line| line.contains("n_packets="));
        lines.map(|line| count(line).ok_or_else(|| unreadable("dump-flows", line))).collect()
    }

    /// Deletes all megaflows, learned addresses and latencies.
    pub fn forget(&mut self) -> Result<(), BenchError> {
        self.ask("revalidator/purge", &[])?;
        self.ask("fdb/flush", &[])?;
        if self.kind == Kind::Tidegate {
            self.ask("tidegate/latency-clear", &[])?;
        }
        Ok(())
    }

    /// Returns the latency of upcalls, as JSON; null of Open vSwitch, which does not measure it.
    pub fn latency(&mut self) -> Result<serde_json::Value, BenchError> {
        if self.kind == Kind::Ovs {
            return Ok(serde_json::Value::Null);
        }
        let text = self.ask("tidegate/latency-show", &["json"])?;
        serde_json::from_str(&text).map_err(|_| unreadable("tidegate/latency-show", &text))
    }

    /// Loads rules from a file.
    pub fn add_flows(&mut self, file: &Path) -> Result<(), BenchError> {
        self.run(&Stock::new(&format!("ovs-ofctl add-flows br0 {}", file.display())))
    }

    /// Sets a port down: packets that a flow sends there are dropped.
    pub fn set_port_down(&mut self, number: u16) -> Result<(), BenchError> {
        self.run(&Stock::new(&format!("ovs-ofctl mod-port br0 {number} down")))
    }

    /// Makes each further flow match all fields of its packet.
    pub fn disable_megaflows(&mut self) -> Result<(), BenchError> {
        self.ask("upcall/disable-megaflows", &[]).map(drop)
    }

    /// Sets the flow limit.
    pub fn set_flow_limit(&mut self, flows: u64) -> Result<(), BenchError> {
        self.run(&Stock::new(&format!(
            "ovs-vsctl --timeout=50 set Open_vSwitch . other_config:flow-limit={flows}"
        )))?;
        self.ask("upcall/set-flow-limit", &[&flows.to_string()]).map(drop)
    }

    /// Sets the number of handlers.
    pub fn set_handlers(&mut self, handlers: u16) -> Result<(), BenchError> {
        let set = "ovs-vsctl --timeout=50 set Open_vSwitch .";
        self.run(&Stock::new(set).word(format!("other_config:n-handler-threads={handlers}")))
    }

    /// Sets the interval of statistics (0: never), and the idle timeout of megaflows in seconds, if they have
    /// one. Open vSwitch collects statistics while it revalidates, which cannot be disabled.
    pub fn set_upkeep(
        &mut self,
        interval_ms: u64,
        expires: bool,
        max_idle_s: u32,
    ) -> Result<(), BenchError> {
        let set = Stock::new("ovs-vsctl --timeout=50 set Open_vSwitch .")
            .word(format!("other_config:max-idle={}", u64::from(max_idle_s) * 1000));
        let set = match self.kind {
            Kind::Tidegate => set
                .word(format!("other_config:tidegate-stats-interval={interval_ms}"))
                .word(format!("other_config:tidegate-flow-expiry={expires}")),
            Kind::Ovs => {
                let every_ms = if interval_ms == 0 { i32::MAX as u64 } else { interval_ms };
                set.word(format!("other_config:max-revalidator={every_ms}"))
            }
        };
        self.run(&set)
    }

    /// Flushes a zone's connections.
    pub fn flush_zone(&mut self, zone: u16) -> Result<(), BenchError> {
        self.ask("dpctl/flush-conntrack", &[&format!("zone={zone}")]).map(drop)
    }

    /// The number of connections.
    pub fn connections(&mut self) -> Result<u64, BenchError> {
        let text = self.ask("dpctl/ct-get-nconns", &[])?;
        leading_number(&text).ok_or_else(|| unreadable("dpctl/ct-get-nconns", &text))
    }

    /// The number of megaflows.
    pub fn flows(&mut self) -> Result<u64, BenchError> {
        let text = self.ask("upcall/show", &[])?;
        number_after(&text, "(current ").ok_or_else(|| unreadable("upcall/show", &text))
    }

    /// Returns the workers' counters of misses; at most a second old.
    pub fn misses(&mut self) -> Result<Misses, BenchError> {
        let text = self.ask("dpif-netdev/pmd-stats-show", &[])?;
        let sum = |key: &str| text.split(key).skip(1).filter_map(leading_number).sum();
        Ok(Misses {
            queued: sum("miss with success upcall: "),
            refused: sum("miss with failed upcall: "),
        })
    }

    /// The number of packets that a port has sent.
    pub fn sent(&mut self, port: u16) -> Result<u64, BenchError> {
        let text = self.ask("dpctl/show", &["-s"])?;
        let of_port = text.split_once(&format!(": p{port} ")).map(|(_, rest)| rest);
        let sent = of_port.and_then(|rest| number_after(rest, "TX packets:"));
        sent.ok_or_else(|| unreadable("dpctl/show", &text))
    }

    /// Returns the resident memory of the process.
    pub fn resident_bytes(&self) -> Option<u64> {
        crate::memory::resident_bytes_of(&self.switch.pid().to_string())
    }

    /// Returns the processor time of its threads.
    pub fn processor(&self) -> Processor {
        Processor::of(self.switch.pid())
    }

    /// Stops it, so that another can be started.
    pub fn stop(self) -> Result<(), BenchError> {
        Ok(self.switch.stop()?)
    }

    fn ask(&mut self, command: &str, words: &[&str]) -> Result<String, BenchError> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let answer = self.client.ask(command, &words);
        // If the switch has ended, that is the more informative error.
        self.switch.must_run()?;
        Ok(answer?)
    }

    fn run(&mut self, line: &Stock) -> Result<(), BenchError> {
        let done = line.run();
        self.switch.must_run()?;
        done?;
        Ok(())
    }
}

/// Time until counters of workers are up to date.
pub const PUBLISHED_AFTER: Duration = Duration::from_millis(1200);

fn after(text: &str, word: &str) -> Option<String> {
    Some(text.split_once(word)?.1.to_owned())
}

fn unreadable(command: &str, answer: &str) -> BenchError {
    let answer: String = answer.chars().take(200).collect();
    BenchError::WrongWork(format!("the answer to {command} cannot be read: {answer}"))
}
