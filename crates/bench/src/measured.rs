//! The measurement of a forwarding worker.

use ::datapath::WorkerStats;
use clap::ValueEnum;
use load::in_memory::Stages;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// What the packets come through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PortKind {
    /// Ports in memory
    Memory,
    /// DPDK's net_pcap
    Dpdk,
}

/// Counters of the worker in the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub packets: u64,
    pub sent: u64,
    pub dropped: u64,
    pub misses: u64,
}

impl Counted {
    /// Returns the difference of two readings.
    pub fn between(before: &WorkerStats, after: &WorkerStats) -> Counted {
        Counted {
            packets: after.received - before.received,
            sent: after.sent - before.sent,
            dropped: after.drops.total() - before.drops.total(),
            misses: after.misses - before.misses,
        }
    }
}

/// One run of traffic.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    pub elapsed: Duration,
    /// The processor time of the worker in it.
    pub processor: Duration,
    pub counted: Counted,
}

impl Played {
    /// Packets per second.
    pub fn rate(&self) -> f64 {
        self.counted.packets as f64 / self.elapsed.as_secs_f64()
    }

    /// Packets per second of the worker's own processor time.
    pub fn processor_rate(&self) -> f64 {
        self.counted.packets as f64 / self.processor.as_secs_f64()
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let Counted { packets, sent, dropped, misses } = self.counted;
        json!({
            "packets_per_second": self.rate(),
            "ns_per_packet": 1e9 / self.rate(),
            "packets": packets,
            "sent": sent,
            "dropped": dropped,
            "missed": misses,
            "elapsed_ms": self.elapsed.as_nanos() as f64 / 1e6,
            "processor_ms": self.processor.as_nanos() as f64 / 1e6,
        })
    }
}

/// The measurement of one worker.
pub struct Measured {
    pub played: Played,
    pub connections: u32,
    pub flows: usize,
    pub stages: Stages,
}

impl Measured {
    /// Values other than packet counters, for programs.
    pub fn describe(&self, port: PortKind, json: &mut Value) {
        let shares: BTreeMap<&str, f64> = self.stages.shares().into_iter().collect();
        json["connections"] = json!(self.connections);
        json["flows"] = json!(self.flows);
        json["port"] = match port {
            PortKind::Memory => "memory".into(),
            PortKind::Dpdk => "dpdk".into(),
        };
        json["stages"] = json!(shares);
        json["stages_ns_per_packet"] = json!(self.stages);
        json["udp_timeouts_s"] = json!({"first": 60, "single": 60, "multiple": 30});
    }

    /// The time of each stage of packet processing, as text.
    pub fn write_stages(&self, text: &mut String) {
        // Writing to a string cannot fail.
        for (name, share) in self.stages.shares() {
            let _ = writeln!(text, "  {name:11}{:5.1}%", share * 100.0);
        }
        let _ = writeln!(
            text,
            "(stages by the clock, played a second time: {:.1} ns per packet with its looks at the \
             clock)",
            self.stages.total()
        );
    }
}
