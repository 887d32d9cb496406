//! `tidegate bench`: the cost of connection tracking and of the datapath, measured without a network, and the
//! published table of connection rates ([`matrix`]).
//!
//! Each benchmark is one module: [`conntrack`] and [`zones`] do what Open vSwitch's own benchmarks do, packet
//! by packet, so that results can be compared; [`datapath`] plays traffic through a whole worker. The
//! measured crates are those of the switch and contain nothing for the benchmarks.
#![forbid(unsafe_code)]

mod churn;
mod conntrack;
mod datapath;
mod dpdk;
mod error;
mod flame;
mod inserts;
mod matrix;
mod measured;
mod memory;
mod offload;
mod packets;
mod progress;
pub mod report;
mod rfc;
mod rounds;
mod slow_path;
mod summary;
mod threads;
mod traffic;
mod tunnel;
mod work;
mod zones;

use clap::Args;
pub use error::BenchError;
use load::provenance::Provenance;
use std::io::{self, Write};
use std::process::ExitCode;
use work::Work;

/// Measure connection tracking and the datapath by themselves, or a whole table of rates
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench conntrack 1 33554432 32             lookups by one thread
  tidegate bench zones 10000 290 100                 commits, lookups and flushes, zone by zone
  tidegate bench datapath --ct                       packets from port to port, tracked
  tidegate bench flow-setup --hold                   flows per second, for packets that need one each
  tidegate bench stats                               what collecting statistics costs
  tidegate bench upcall                              how long upcalls take in an ARP storm
  tidegate bench failover                            how long packets wait while zones fail over
  tidegate bench offload                             what forwarding costs, and offloaded
  tidegate bench matrix results                      connections per second, ours and theirs
  tidegate bench rfc --list                          tests of the benchmarking RFCs")]
pub struct BenchArgs {
    #[command(subcommand)]
    work: Work,
}

/// A measurement, ready to be printed.
#[derive(Debug)]
pub struct Outcome {
    /// Lines for people.
    text: String,
    /// The same for programs.
    json: serde_json::Value,
}

/// Measures and prints the result. The exit status is 0 on success.
pub fn run(args: &BenchArgs, provenance: &Provenance) -> ExitCode {
    let json = args.work.prints_json();
    let text = match args.work.measure(provenance) {
        Ok(outcome) if json => format!("{}\n", outcome.json),
        Ok(outcome) => outcome.text,
        Err(BenchError::Ended(code)) => return code,
        Err(BenchError::Partly(outcome, why)) => {
            let text = if json { format!("{}\n", outcome.json) } else { outcome.text };
            // A reader that has closed the pipe still gets the error on standard error.
            let _ = io::stdout().write_all(text.as_bytes());
            eprintln!("tidegate bench: {why}");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("tidegate bench: {error}");
            return ExitCode::FAILURE;
        }
    };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader (`| head`) has seen enough.
        Err(_) => ExitCode::FAILURE,
    }
}
