//! A daemon between two veth pairs, in network namespaces: this program's switch or Open vSwitch's, both
//! configured by the stock tools. Everything ends with the namespaces, even if this program is killed.

use super::daemon::Daemon;
use super::huge_pages::Loan;
use super::none::Cable;
use super::outside::open;
use super::{Place, Wanted};
use crate::error::LoadError;
use serde_json::json;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;
use testbed::Screen;
use testbed::namespaces;
use testbed::stock::Stock;

/// Path of Open vSwitch's daemon in Debian.
const OVS: &str = "/usr/sbin/ovs-vswitchd";
/// How long an interrupted run may take to print its results.
const GRACE: Duration = Duration::from_secs(20);

/// Whether the caller runs where it may create devices.
pub enum Inside {
    /// Inside namespaces; everything is private.
    Here,
    /// Outside: the program was run again inside, and ended with this status.
    Ended(ExitCode),
}

impl Inside {
    /// Enters the namespaces, with `huge_pages` free huge pages if the system provides them.
    pub fn enter(screen: &Screen, huge_pages: usize) -> Result<Inside, LoadError> {
        match namespaces::place() {
            namespaces::Place::Inside => {
                namespaces::make_private()?;
                Stock::new("ip link set lo up").run()?;
                Ok(Inside::Here)
            }
            namespaces::Place::Outside => {
                // The loan is outside, so that the pages are returned even if every process inside is killed.
                let _loan = Loan::for_free(huge_pages);
                Ok(Inside::Ended(namespaces::run_again(screen, GRACE)?))
            }
        }
    }
}

/// A veth pair from client to server.
pub fn cable(client: &str, server: &str) -> Result<Place, LoadError> {
    pair(client, server)?;
    let device = Box::new(Cable { ports: "veth", _patch: None });
    Ok(Place::of(device, Some(open(client)?), Some(open(server)?)))
}

/// The daemon with `p0` and `p1`, whose other ends belong to the generator.
pub fn bring_up(wanted: &Wanted) -> Result<Place, LoadError> {
    pair("c0", "p0")?;
    pair("s0", "p1")?;
    let mut daemon = Daemon::start(wanted, OVS, "openvswitch-switch", None)?;
    daemon.configure("-- add-port br0 p0 -- add-port br0 p1", json!({ "ports": "veth" }))?;
    Ok(Place::of(Box::new(daemon), Some(open("c0")?), Some(open("s0")?)))
}

/// A veth pair, up and silent: the kernel sends nothing on it by itself.
fn pair(ours: &str, theirs: &str) -> Result<(), LoadError> {
    Stock::new(&format!("ip link add {ours} type veth peer name {theirs}")).run()?;
    for device in [ours, theirs] {
        let file = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
        // A kernel without IPv6 sends no such packets.
        let _ = fs::write(file, "1");
        Stock::new(&format!("ip link set {device} up")).run()?;
    }
    Ok(())
}
