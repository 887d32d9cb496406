//! `tidegate generate`: simulated clients and servers at real ports, and what became of every
//! connection.

pub mod ceiling;
pub mod crew;
pub mod error;
pub mod interrupt;
pub mod machine;
pub mod numbers;
mod outcome;
pub mod result;
pub mod sides;
pub mod steer;
pub mod trial;

use crate::demo::screen::Screen;
use crate::dut::{self, DutKind, Inside, Place, PortsKind, Wanted};
use base::MacAddr;
use ceiling::Ceiling;
use clap::Args;
pub use crew::sides_of;
use error::LoadError;
use generator::search::Sample;
use generator::{Host, HostConfig, Profile, Role};
use interrupt::Interrupt;
use numbers::{bounded, human};
use serde_json::json;
use sides::Sides;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use trial::{Live, Plan, Trial, Wall, Watch};

/// The client's Ethernet address where nothing else is said.
pub const CLIENT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The server's.
pub const SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// Connections that a server has room for at least. What is never used is never touched.
const SERVER_ROOM: usize = 1_000_000;
/// Connections that a side has room for at most, by default.
const ROOM: f64 = 2e6;

/// Simulate clients and servers that open, use and close connections
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate generate --self-test                          what the generator itself can do
  tidegate generate --rate 10k --seconds 5               through our own switch, in memory
  tidegate generate --client veth0 --server veth1 --rate 2k --profile http
  tidegate generate --profile http --print-profile > my.toml
  tidegate generate --client eth1 --profile my.toml --gateway 02:00:00:00:00:09 --json
  tidegate generate --dut ovs --ports veth --rate 2k     through Open vSwitch's own daemon
  tidegate generate --dut ovs --ports vhost --rate 20k   the same with DPDK, a core for each

Ports: DEVICE or packet:DEVICE (AF_PACKET), tap:NAME, afxdp:DEVICE, dpdk:DEVARGS. Profiles: short-lived, long-lived, http, dns,
or a TOML file with the keys that --print-profile shows. Connections that fail are shown by
kind; the exit status is 0 if there were none, 1 otherwise, 2 for options that cannot be meant, 3
where nothing could be measured.")]
pub struct GenerateArgs {
    /// What hosts do: short-lived, long-lived, http, dns or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "short-lived")]
    profile: String,
    #[command(flatten)]
    place: PlaceOptions,
    #[command(flatten)]
    hosts: HostOptions,
    /// New connections a second (2.4k, 1.2m); without it as many as --connections allows
    #[arg(long, value_name = "N", value_parser = |text: &str| bounded(text, 1.0, 2e7))]
    rate: Option<f64>,
    /// Connections alive at once [default: the profile's]
    #[arg(long, value_name = "N", value_parser = |text: &str| bounded(text, 1.0, 2e7))]
    connections: Option<f64>,
    /// How long connections are opened
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Measure the generator alone, with --profile or with all that come with the program
    #[arg(long, conflicts_with_all = ["client", "server", "dut", "rate", "connections"])]
    self_test: bool,
    /// Print the profile with all its keys, to write one's own from, and do nothing else
    #[arg(long, conflicts_with_all = ["self_test", "json"])]
    print_profile: bool,
    /// Print one JSON object; everything else goes to standard error
    #[arg(long)]
    json: bool,
}

/// Between which ports, and through what.
#[derive(Args, Clone, Debug)]
pub struct PlaceOptions {
    /// The clients' port
    #[arg(long, value_name = "PORT")]
    pub client: Option<String>,
    /// The servers' port
    #[arg(long, value_name = "PORT")]
    pub server: Option<String>,
    /// The device under test [default: tidegate; external where ports are named]
    #[arg(long, value_enum)]
    pub dut: Option<DutKind>,
    /// How the device is reached [default: memory; veth for ovs]
    #[arg(long, value_enum, conflicts_with_all = ["client", "server"])]
    pub ports: Option<PortsKind>,
    /// Forward without connection tracking
    #[arg(long)]
    pub no_ct: bool,
    /// Most connections in the device's table (ct-set-maxconns)
    #[arg(long, value_name = "N", default_value_t = dut::MAXCONNS)]
    pub maxconns: u32,
    /// The device's workers, a core each (memory, vhost)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// Queues of each of its ports [default: as many as workers]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub queues: Option<u16>,
    /// The generator's workers, a core each [default: as many as the device's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub generator_workers: Option<u16>,
    /// Entries of each ring between the device and the generator, a power of two (vhost)
    #[arg(long, value_name = "N", default_value_t = dut::RING, value_parser = ring)]
    pub ring: u16,
    /// Further words of DPDK's command line, for ports named dpdk:
    #[arg(long, value_name = "WORDS", default_value = dut::DPDK_EXTRA, allow_hyphen_values = true)]
    pub dpdk_extra: String,
}

/// What hosts are made from besides their profile.
#[derive(Args, Clone, Debug)]
pub struct HostOptions {
    /// Decides addresses, ports and sequence numbers: the same seed, the same run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The VLAN that both sides are in
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,
    /// The Ethernet address that clients send to [default: they ask, by ARP and ND]
    #[arg(long, value_name = "MAC")]
    pub gateway: Option<MacAddr>,
}

impl PlaceOptions {
    /// The device that is meant; none: named ports.
    pub fn wanted(&self) -> Result<Option<Wanted>, LoadError> {
        let named = self.client.is_some() || self.server.is_some();
        let kind = match (self.dut, named) {
            (None | Some(DutKind::External), true) => return Ok(None),
            (Some(_), true) => {
                return Err(LoadError::Options(
                    "--client and --server are ports of a device that is there already; leave \
                     --dut out or say --dut external"
                        .to_owned(),
                ));
            }
            (kind, false) => kind.unwrap_or(DutKind::Tidegate),
        };
        let by_itself = if kind == DutKind::Ovs { PortsKind::Veth } else { PortsKind::Memory };
        let ports = self.ports.unwrap_or(by_itself);
        let (plain, maxconns) = (self.no_ct, self.maxconns);
        let workers = usize::from(self.workers);
        let queues = self.queues.map_or(workers, usize::from);
        let generators = self.generator_workers.map_or(workers.max(queues), usize::from);
        if generators < queues {
            return Err(LoadError::Options(format!(
                "--generator-workers {generators} are fewer than --queues {queues}; each queue \
                 needs one that looks after it"
            )));
        }
        if ports == PortsKind::Veth && (workers, queues, generators) != (1, 1, 1) {
            return Err(LoadError::Options(
                "veth ports have one queue each; use --ports memory or vhost for several workers"
                    .to_owned(),
            ));
        }
        let timeout_s = None;
        Ok(Some(Wanted {
            kind,
            ports,
            plain,
            maxconns,
            timeout_s,
            workers,
            queues,
            generators,
            ring: self.ring,
        }))
    }

    /// Goes where devices may be made, if any have to be.
    pub fn enter(&self, screen: &Screen) -> Result<Inside, LoadError> {
        match self.wanted()? {
            Some(wanted) if wanted.ports.is_apart() => {
                Inside::enter(screen, wanted.ports.huge_pages())
            }
            _ => Ok(Inside::Here),
        }
    }

    /// Opens ports and brings up the device.
    pub fn open(&self) -> Result<Place, LoadError> {
        match self.wanted()? {
            Some(wanted) => dut::bring_up(&wanted),
            None => self.outside(),
        }
    }

    fn outside(&self) -> Result<Place, LoadError> {
        dut::outside(self.client.as_deref(), self.server.as_deref(), &self.dpdk_extra)
    }

    /// The same with one timeout, in seconds, in place of all the published ones.
    pub fn open_with_timeouts(&self, timeout_s: u32) -> Result<Place, LoadError> {
        match self.wanted()? {
            Some(wanted) => dut::bring_up(&Wanted { timeout_s: Some(timeout_s), ..wanted }),
            None => self.outside(),
        }
    }

    /// The ceiling with ports of the same kind, where there is a cable for them.
    pub fn ceiling(&self, profile: &Profile, hosts: &HostOptions) -> Result<Ceiling, LoadError> {
        let (place, ports) = match self.wanted()? {
            Some(wanted) => (dut::calibration_cable(&wanted)?, wanted.ports.word()),
            None => (dut::memory_cable(1), "memory"),
        };
        ceiling::measure(profile, hosts, place, ports, Duration::from_secs(1))
    }

    /// Devices that we bring up know no ARP rule: hosts must know each other.
    pub fn knows_neighbours(&self) -> bool {
        self.client.is_none() && self.server.is_none()
    }
}

/// What a virtio device may have (VIRTIO 1.1 section 2.6), and not too few for a burst.
fn ring(text: &str) -> Result<u16, String> {
    let number = text.parse::<u16>().unwrap_or(0);
    let is_good = number.is_power_of_two() && (64..=32_768).contains(&number);
    if is_good { Ok(number) } else { Err("a power of two from 64 to 32768".to_owned()) }
}

/// Reads a profile by name or from a file.
pub fn profile(name: &str) -> Result<Profile, LoadError> {
    let wrong = |source| LoadError::Profile { name: name.to_owned(), source };
    if let Some(built_in) = Profile::built_in(name) {
        return built_in.map_err(wrong);
    }
    let text = std::fs::read_to_string(name)
        .map_err(|source| LoadError::ReadProfile { file: Path::new(name).to_owned(), source })?;
    Profile::from_toml(&text).map_err(wrong)
}

/// How long a connection of this profile lives, as far as it waits by itself.
pub fn lifetime(profile: &Profile) -> Duration {
    let messages = u64::from(profile.messages);
    let waits = messages * u64::from(profile.server_wait_ms)
        + (messages - 1) * u64::from(profile.think_time_ms);
    Duration::from_millis(waits + u64::from(profile.time_wait_ms))
}

/// Both hosts, with room for so many connections.
pub fn hosts(
    profile: &Profile,
    options: &HostOptions,
    capacity: usize,
    known: bool,
) -> Result<(Host, Host), LoadError> {
    hosts_at(profile, options, capacity, known, crate::clock::now())
}

/// The same for a clock of the caller's own.
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
            // A server remembers exchanges for a while that its client has forgotten.
            capacity: if client { capacity } else { capacity.max(SERVER_ROOM) },
        };
        let wrong = |source| LoadError::Profile { name: profile.name.clone(), source };
        Host::new(config, now).map_err(wrong)
    };
    Ok((host(Role::Client)?, host(Role::Server)?))
}

/// Runs the verb.
pub fn run(args: &GenerateArgs) -> ExitCode {
    let screen = Screen::of("generate", args.json);
    let result = match (args.print_profile, args.self_test) {
        (true, _) => print_profile(args),
        (_, true) => self_test(args),
        (_, false) => generate(args, &screen),
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

fn self_test(args: &GenerateArgs) -> Result<ExitCode, LoadError> {
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
        let machine = machine::describe();
        let all = json!({ "verb": "generate --self-test", "machine": machine, "rows": rows });
        result::print(&format!("{all}\n"));
    } else {
        result::print(&ceiling::table(&rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn generate(args: &GenerateArgs, screen: &Screen) -> Result<ExitCode, LoadError> {
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
    // What the ranges cannot carry is refused before anything is brought up.
    profile.check().map_err(|source| LoadError::Profile { name: args.profile.clone(), source })?;
    if let Inside::Ended(code) = args.place.enter(screen)? {
        return Ok(code);
    }
    let interrupt = Interrupt::listen()?;
    let ceiling = args.place.ceiling(&profile, &args.hosts)?;
    let capacity = profile.connections_at_once as usize + 1000;
    let place = args.place.open()?;
    let known = args.place.knows_neighbours();
    let (mut device, mut sides) = sides_of(&profile, &args.hosts, capacity, known, place)?;
    let sample = drive(args, &profile, &mut sides, screen, &interrupt);
    device.check()?;
    let sample = match sample {
        Ok(sample) => sample,
        Err(error) => {
            // What was measured is kept: the counters up to here are shown before the error.
            outcome::show_counters(&sides, screen);
            return Err(error);
        }
    };
    Ok(outcome::show(args, &profile, &sides, device.as_mut(), &ceiling, &sample, screen))
}

fn drive(
    args: &GenerateArgs,
    profile: &Profile,
    sides: &mut Sides,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Sample, LoadError> {
    let lifetime = lifetime(profile);
    let plan = Plan {
        rate: args.rate,
        ramp: Duration::from_millis(profile.ramp_ms),
        settle_window: Duration::ZERO,
        lifetime: Duration::ZERO,
        sample: Duration::from_secs(args.seconds.into()),
        first_look: Duration::from_secs(args.seconds.into()),
        allowed: 1.0,
        drain: lifetime + Duration::from_secs(10),
    };
    let mut second = 0;
    let mut live = |it: &Live| {
        second += 1;
        screen.write(&format!("{second:>4} s {:<6} {}\n", it.phase.word(), live_line(it)));
    };
    let interrupted = || interrupt.is_set();
    let mut watch = Watch { clock: &Wall, live: &mut live, interrupted: &interrupted };
    Trial::start(sides, &plan, &mut watch).run()
}

/// Rates of the last second.
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
