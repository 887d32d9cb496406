//! A daemon between two veth pairs, in namespaces of our own: this program's switch or Open
//! vSwitch's, set up alike by the stock tools. With the namespaces everything goes, also when this
//! program is killed.

use super::none::Cable;
use super::outside::open;
use super::{Device, DutKind, Place, Wanted, rules, setup};
use crate::demo::namespaces::{self, FOLDER};
use crate::demo::screen::Screen;
use crate::demo::stock::Stock;
use crate::demo::switch::Switch;
use crate::generate::error::LoadError;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Where Debian installs Open vSwitch's daemon.
const OVS: &str = "/usr/sbin/ovs-vswitchd";
/// How long an interrupted run has to say what there is.
const GRACE: Duration = Duration::from_secs(20);

/// Whether the caller is where devices may be made.
pub enum Inside {
    /// It is; everything is private.
    Here,
    /// It was not: the whole program was run again inside, and has ended like this.
    Ended(ExitCode),
}

impl Inside {
    /// Sees to it that we are inside.
    pub fn enter(screen: &Screen) -> Result<Inside, LoadError> {
        match namespaces::place() {
            namespaces::Place::Inside => {
                namespaces::make_private()?;
                Stock::new("ip link set lo up").run()?;
                Ok(Inside::Here)
            }
            namespaces::Place::Outside => Ok(Inside::Ended(namespaces::run_again(screen, GRACE)?)),
        }
    }
}

struct Daemon {
    wanted: Wanted,
    switch: Switch,
    version: String,
}

/// A veth pair beside the device, to measure the generator with ports of the same kind.
pub fn calibration_cable() -> Result<Place, LoadError> {
    cable("cal0", "cal1")
}

/// A veth pair from client to server.
pub fn cable(client: &str, server: &str) -> Result<Place, LoadError> {
    pair(client, server)?;
    Ok(Place {
        device: Box::new(Cable { ports: "veth" }),
        client: Some(open(client)?),
        server: Some(open(server)?),
    })
}

/// The daemon with `p0` and `p1`, whose other ends are the generator's.
pub fn bring_up(wanted: &Wanted) -> Result<Place, LoadError> {
    let program = (wanted.kind == DutKind::Ovs).then_some(Path::new(OVS));
    if program.is_some_and(|program| !program.exists()) {
        return Err(LoadError::Options(format!(
            "there is no {OVS}; install it: apt-get install openvswitch-switch"
        )));
    }
    pair("c0", "p0")?;
    pair("s0", "p1")?;
    let switch = Switch::start(program)?;
    let version = switch.version()?;
    let file = format!("{FOLDER}/rules");
    fs::write(&file, rules(wanted))
        .map_err(|source| LoadError::Write { file: file.clone().into(), source })?;
    let timeouts: Vec<String> =
        wanted.timeouts().map(|(name, seconds)| format!("{name}={seconds}")).collect();
    let lines = [
        "ovs-vsctl --timeout=15 add-br br0 -- set bridge br0 datapath_type=netdev \
         fail-mode=secure -- add-port br0 p0 -- add-port br0 p1"
            .to_owned(),
        "ovs-vsctl --timeout=15 -- --id=@m create Datapath datapath_version=0 \
         -- set Open_vSwitch . datapaths:netdev=@m"
            .to_owned(),
        format!("ovs-vsctl --timeout=15 add-zone-tp netdev zone=0 {}", timeouts.join(" ")),
        format!("ovs-appctl dpctl/ct-set-maxconns {}", wanted.maxconns),
        format!("ovs-ofctl add-flows br0 {file}"),
    ];
    for line in lines {
        Stock::new(&line).run()?;
    }
    let device = Daemon { wanted: *wanted, switch, version };
    Ok(Place { device: Box::new(device), client: Some(open("c0")?), server: Some(open("s0")?) })
}

/// Two devices joined by a cable, up, and silent: the kernel says nothing on them by itself.
fn pair(ours: &str, theirs: &str) -> Result<(), LoadError> {
    Stock::new(&format!("ip link add {ours} type veth peer name {theirs}")).run()?;
    for device in [ours, theirs] {
        let file = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
        // A kernel without IPv6 says nothing either.
        let _ = fs::write(file, "1");
        Stock::new(&format!("ip link set {device} up")).run()?;
    }
    Ok(())
}

impl Device for Daemon {
    fn describe(&self) -> Value {
        let kind = if self.wanted.kind == DutKind::Ovs { "ovs" } else { "tidegate" };
        let mut all = json!({ "kind": kind, "version": self.version, "ports": "veth" });
        if let (Some(all), Value::Object(setup)) = (all.as_object_mut(), setup(&self.wanted)) {
            all.extend(setup);
        }
        all
    }

    fn table(&mut self) -> Result<Option<u64>, LoadError> {
        let text = Stock::new("ovs-appctl dpctl/ct-get-nconns").run()?;
        Ok(text.trim().parse().ok())
    }

    fn flush(&mut self) -> Result<(), LoadError> {
        Stock::new("ovs-appctl dpctl/flush-conntrack").run()?;
        Ok(())
    }

    fn linger(&self) -> Duration {
        // Open vSwitch looks for expired connections now and then only.
        Duration::from_secs(if self.wanted.kind == DutKind::Ovs { 6 } else { 2 })
    }

    fn check(&mut self) -> Result<(), LoadError> {
        Ok(self.switch.must_run()?)
    }
}
