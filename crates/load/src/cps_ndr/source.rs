//! Sources of a search's connections: this program's hosts, or a TRex server.

use super::CpsNdrArgs;
use crate::dut::Device;
use crate::endpoints::Endpoints;
use crate::error::LoadError;
use crate::generate::ceiling::Ceiling;
use crate::trex::Trex;
use crate::trial::{Plan, Trial, Watch};
use base::Instant;
use clap::ValueEnum;
use generator::Profile;
use generator::search::Sample;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// The generator of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GeneratorKind {
    /// This program's own hosts
    Own,
    /// The TRex server at --server, by its RPC
    Trex,
}

/// An opened generator.
pub enum Source {
    /// This program's hosts, at its ports.
    Hosts(Box<Endpoints>),
    /// A TRex server, at its own ports.
    Trex(Box<Trex>),
}

impl Source {
    /// Runs one trial.
    pub fn trial(&mut self, plan: &Plan, watch: &mut Watch<'_>) -> Result<Sample, LoadError> {
        match self {
            Source::Hosts(endpoints) => Trial::start(endpoints, plan, watch).run(),
            Source::Trex(trex) => trex.trial(plan, watch),
        }
    }

    /// Returns an error if a worker of this program's generator has ended.
    pub fn check(&mut self) -> Result<(), LoadError> {
        match self {
            Source::Hosts(endpoints) => endpoints.check(),
            Source::Trex(_) => Ok(()),
        }
    }

    /// Processes packets that arrive late. Returns their number.
    pub fn iterate(&mut self, now: Instant) -> Result<u64, LoadError> {
        match self {
            Source::Hosts(endpoints) => endpoints.iterate(now),
            Source::Trex(_) => Ok(0),
        }
    }
}

/// The device between the ports of a TRex server, of which this program knows nothing.
struct Beyond {
    server: String,
    about: Value,
}

impl Device for Beyond {
    fn describe(&self) -> Value {
        json!({
            "kind": "external",
            "generator": { "kind": "trex", "server": self.server, "version": self.about },
        })
    }

    fn table(&mut self) -> Result<Option<u64>, LoadError> {
        Ok(None)
    }
}

/// Connects to the named TRex server. The device between its ports is unknown.
pub fn trex(args: &CpsNdrArgs, profile: &Profile) -> Result<(Source, Box<dyn Device>), LoadError> {
    let server = args.place.server.as_deref().unwrap_or("localhost");
    let max_flows = args.max_flows.map(|most| most as u32);
    let trex = Trex::connect(server, args.sync_port, profile, args.ramp_up, max_flows)?;
    let device = Beyond { server: server.to_owned(), about: trex.about().clone() };
    Ok((Source::Trex(Box::new(trex)), Box::new(device)))
}

/// The ramp that the original script permits for TRex, in seconds. Some shorter ones crash the server
/// (trex-core: sch_rampup.cpp).
const TREX_RAMP: RangeInclusive<u32> = 3..=20;

/// Checks that a TRex server can follow these options.
pub fn check_trex(args: &CpsNdrArgs, profile: &Profile) -> Result<(), LoadError> {
    let place = &args.place;
    if !TREX_RAMP.contains(&args.ramp_up) {
        return Err(LoadError::Options(format!(
            "--ramp-up {}: a TRex server takes from {} to {} seconds",
            args.ramp_up,
            TREX_RAMP.start(),
            TREX_RAMP.end()
        )));
    }
    let refused = [
        (place.client.is_some(), "--client: its ports are in its own configuration"),
        (place.dut.is_some(), "--dut: the device is what stands between its ports"),
        (place.ports.is_some(), "--ports: they are in its own configuration"),
        (args.hosts.vlan.is_some(), "--vlan: it is in its own configuration"),
        (args.hosts.gateway.is_some(), "--gateway: it is in its own configuration"),
    ];
    match refused.into_iter().find(|(given, _)| *given) {
        Some((_, what)) => Err(LoadError::Options(format!("--generator trex takes no {what}"))),
        None => Ok(crate::trex::check(profile)?),
    }
}

/// The ceiling of a TRex server, which is unknown; the load of its cores shows whether it was the limit.
pub fn unknown_ceiling() -> Ceiling {
    Ceiling {
        connections_per_second: f64::INFINITY,
        packets_per_second: f64::INFINITY,
        packets_per_connection: 0.0,
        ports: "trex",
        workers: 1,
    }
}
