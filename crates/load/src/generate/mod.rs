//! `tidegate generate`: simulated clients and servers at real ports, and the result of every connection.

pub mod ceiling;
pub mod interrupt;
pub mod numbers;
mod outcome;
mod place;
pub mod result;
pub mod steer;
pub mod workers;

use crate::dut::{self, Inside};
use crate::endpoints::Endpoints;
use crate::error::LoadError;
use crate::provenance::Provenance;
use crate::trial::{Live, Plan, Trial, Wall, Watch};
use base::MacAddr;
use clap::Args;
use generator::search::Sample;
use generator::{Host, HostConfig, Profile, Role};
use interrupt::Interrupt;
use numbers::{bounded, human, whole};
pub use place::{HostOptions, PlaceOptions};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use testbed::Screen;
pub use workers::endpoints_of;

/// The client's default Ethernet address.
pub const CLIENT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The server's default Ethernet address.
pub const SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// Minimum capacity of a server, in connections. Memory that is not used is not touched.
const SERVER_ROOM: usize = 1_000_000;
/// Default maximum capacity of a side, in connections.
const ROOM: f64 = 2e6;

/// Simulate clients and servers that open, use and close connections
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate generate --self-test                          the generator's own ceiling
  tidegate generate --rate 10k --seconds 5               through this program's switch, in memory
  tidegate generate --client veth0 --server veth1 --rate 2k --profile http
  tidegate generate --profile http --print-profile > my.toml
  tidegate generate --client eth1 --profile my.toml --gateway 02:00:00:00:00:09 --json
  tidegate generate --dut ovs --ports veth --rate 2k     through Open vSwitch's own daemon
  tidegate generate --dut ovs --ports vhost --rate 20k   the same with DPDK, a core for each

Ports: DEVICE or packet:DEVICE (AF_PACKET), tap:NAME, afxdp:DEVICE, dpdk:DEVARGS. Profiles: \
short-lived, long-lived, http, dns, or a TOML file with the keys that --print-profile shows. \
Connections that fail are shown by kind. With --rate the exit status is 0 if that rate passed, 1 if \
the device did not carry it, 3 if the generator did not send it; without, 0 if no connection failed, \
1 otherwise. It is 2 for invalid options, 3 if nothing could be measured, and 130 after an \
interrupt: the figures printed then are marked, and are not a result.")]
pub struct GenerateArgs {
    /// What hosts do: short-lived, long-lived, http, dns or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "short-lived")]
    profile: String,
    #[command(flatten)]
    place: PlaceOptions,
    #[command(flatten)]
    hosts: HostOptions,
    /// New connections per second (2.4k, 1.2m); without it as many as --connections allows
    #[arg(long, value_name = "N", value_parser = |text: &str| bounded(text, 1.0, 2e7))]
    rate: Option<f64>,
    /// Connections alive at once [default: the profile's]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounded(text, 1.0, 2e7))]
    connections: Option<f64>,
    /// Seconds to measure; with a rate, from when it has been constant for a connection's whole life
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole::<u32>(1..=86_400))]
    seconds: u32,
    /// Measure the generator alone, with --profile or with all built-in profiles
    #[arg(long, conflicts_with_all = ["client", "server", "dut", "rate", "connections"])]
    self_test: bool,
    /// Print the profile with all its keys, as a template for one's own, and do nothing else
    #[arg(long, conflicts_with_all = ["self_test", "json"])]
    print_profile: bool,
    /// Print one JSON object; everything else goes to standard error
    #[arg(long)]
    json: bool,
}

/// Reads a profile by name or from a file.
pub fn profile(name: &str) -> Result<Profile, LoadError> {
    let wrong = |source| LoadError::Profile { name: name.to_owned(), source };
    if let Some(built_in) = Profile::built_in(name) {
        return built_in.map_err(wrong);
    }
    let text = daemon::bounded::read_text(Path::new(name))
        .map_err(|source| LoadError::ReadProfile { file: Path::new(name).to_owned(), source })?;
    Profile::from_toml(&text).map_err(wrong)
}

/// Returns the lifetime of a connection of this profile, from its configured waits.
pub fn lifetime(profile: &Profile) -> Duration {
    let messages = u64::from(profile.messages);
    let waits = messages * u64::from(profile.server_wait_ms)
        + (messages - 1) * u64::from(profile.think_time_ms);
    Duration::from_millis(waits + u64::from(profile.time_wait_ms))
}

/// Both hosts, with capacity for `capacity` connections.
pub fn hosts(
    profile: &Profile,
    options: &HostOptions,
    capacity: usize,
    known: bool,
) -> Result<(Host, Host), LoadError> {
    hosts_at(profile, options, capacity, known, clock::now())
}

/// As [`hosts`], with the caller's time.
pub fn hosts_at(
    profile: &Profile,
    options: &HostOptions,
    capacity: usize,
    known: bool,
    now: base::Instant,
) -> Result<(Host, Host), LoadError> {
    let host = |role| {
        let client = role == Role::Client;
        let config = HostConfig {
            role,
            mac: if client { CLIENT_MAC } else { SERVER_MAC },
            vlan: options.vlan,
            gateway: options.gateway.or(known.then_some(SERVER_MAC)),
            profile: profile.clone(),
            seed: if client { options.seed } else { options.seed ^ 0x1234_5678 },
            // A server keeps exchanges for a while that its client has forgotten.
            capacity: if client { capacity } else { capacity.max(SERVER_ROOM) },
        };
        let wrong = |source| LoadError::Profile { name: profile.name.clone(), source };
        Host::new(config, now).map_err(wrong)
    };
    Ok((host(Role::Client)?, host(Role::Server)?))
}

/// Runs the verb.
pub fn run(args: &GenerateArgs, provenance: &Provenance) -> ExitCode {
    let screen = Screen::of("generate", args.json);
    let result = match (args.print_profile, args.self_test) {
        (true, _) => print_profile(args),
        (_, true) => self_test(args, provenance),
        (_, false) => generate(args, &screen, provenance),
    };
    result.unwrap_or_else(|error| {
        screen.problem(&error.to_string());
        ExitCode::from(error.status())
    })
}

fn print_profile(args: &GenerateArgs) -> Result<ExitCode, LoadError> {
    let text = profile(&args.profile)?.to_toml();
    let wrong = |source| LoadError::Profile { name: args.profile.clone(), source };
    result::print(&text.map_err(wrong)?);
    Ok(ExitCode::SUCCESS)
}

fn self_test(args: &GenerateArgs, provenance: &Provenance) -> Result<ExitCode, LoadError> {
    let named = args.profile != "short-lived";
    let names = if named { vec![args.profile.as_str()] } else { Profile::BUILT_IN.to_vec() };
    let time = Duration::from_secs(args.seconds.min(3).into());
    let workers = args.place.generator_workers.map_or(1, usize::from);
    let mut rows = Vec::new();
    for name in names {
        eprintln!("self-test: {name} ...");
        let profile = profile(name)?;
        let cable = || dut::memory_cable(workers);
        rows.push(ceiling::self_test(&profile, &args.hosts, &cable, time)?);
    }
    if args.json {
        let rows: Vec<_> = rows.iter().map(ceiling::Row::json).collect();
        let (seed, rows) = (Some(args.hosts.seed), json!({ "rows": rows }));
        let all = provenance.stamp("generate --self-test", seed, rows);
        result::print(&format!("{all}\n"));
    } else {
        result::print(&ceiling::table(&rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn generate(
    args: &GenerateArgs,
    screen: &Screen,
    provenance: &Provenance,
) -> Result<ExitCode, LoadError> {
    let mut profile = profile(&args.profile)?;
    let lifetime = lifetime(&profile);
    if let Some(rate) = args.rate {
        let alive = rate * (lifetime.as_secs_f64() + 1.0) * 1.2;
        profile.connections_at_once =
            args.connections.unwrap_or(alive.clamp(f64::from(profile.connections_at_once), ROOM))
                as u32;
    } else if let Some(connections) = args.connections {
        profile.connections_at_once = connections as u32;
    }
    // Rates that the ranges of addresses and ports cannot carry are refused before anything is started.
    profile.check().map_err(|source| LoadError::Profile { name: args.profile.clone(), source })?;
    if let Inside::Ended(code) = args.place.enter(screen)? {
        return Ok(code);
    }
    let interrupt = Interrupt::listen()?;
    let ceiling = args.place.ceiling(&profile, &args.hosts)?;
    let capacity = profile.connections_at_once as usize + 1000;
    let place = args.place.open(&|| interrupt.is_set())?;
    let known = args.place.knows_neighbours();
    let profile_rate = profile.connections_per_second.map(|rate| rate as f64);
    let rate = args.rate.or(profile_rate);
    let (mut device, mut endpoints) = endpoints_of(&profile, &args.hosts, capacity, known, place)?;
    let sample = drive(args, rate, &profile, &mut endpoints, screen, &interrupt);
    device.check()?;
    let sample = match sample {
        Ok(sample) => sample,
        Err(error) => {
            // The counters so far are printed before the error.
            outcome::show_counters(&endpoints, screen);
            return Err(error);
        }
    };
    let outcome = outcome::Outcome {
        args,
        provenance,
        profile: &profile,
        endpoints: &endpoints,
        ceiling: &ceiling,
        sample: &sample,
        interrupted: interrupt.is_set(),
    };
    Ok(outcome.show(device.as_mut(), screen))
}

fn drive(
    args: &GenerateArgs,
    rate: Option<f64>,
    profile: &Profile,
    endpoints: &mut Endpoints,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Sample, LoadError> {
    let lifetime = lifetime(profile);
    let plan = Plan {
        rate,
        ramp: Duration::from_millis(profile.ramp_ms),
        settle_window: Duration::ZERO,
        // Only after a whole lifetime do as many connections end as are opened.
        lifetime: if rate.is_some() { lifetime } else { Duration::ZERO },
        sample: Duration::from_secs(args.seconds.into()),
        limits: None,
        drain: lifetime + Duration::from_secs(10),
    };
    let mut second = 0;
    let mut live = |it: &Live| {
        second += 1;
        screen.write(&format!("{second:>4} s {:<6} {}\n", it.phase.word(), live_line(it)));
    };
    let interrupted = || interrupt.is_set();
    let mut watch = Watch { clock: &Wall, live: &mut live, interrupted: &interrupted };
    Trial::start(endpoints, &plan, &mut watch).run()
}

/// Returns the rates of the last second.
pub fn live_line(it: &Live) -> String {
    let w = &it.window;
    let per_second = |count: u64| human(count as f64 / w.seconds.max(1e-9));
    format!(
        "{}/s opened, {}/s completed, {} active, TX {}p/s, RX {}p/s, generator {:.0}% busy",
        per_second(w.opened),
        per_second(w.completed),
        human(w.active as f64),
        per_second(w.tx_packets),
        per_second(w.rx_packets),
        w.busy * 100.0
    )
}
