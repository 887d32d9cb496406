//! A daemon between two veth pairs, in namespaces of our own: this program's switch or Open
//! vSwitch's, set up alike by the stock tools. With the namespaces everything goes, also when this
//! program is killed.

use super::daemon::Daemon;
use super::huge_pages::Loan;
use super::none::Cable;
use super::outside::open;
use super::{Place, Wanted};
use crate::generate::error::LoadError;
use serde_json::json;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;
use testbed::Screen;
use testbed::namespaces;
use testbed::stock::Stock;

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
    /// Sees to it that we are inside, with so many huge pages free where the system gives them.
    pub fn enter(screen: &Screen, huge_pages: usize) -> Result<Inside, LoadError> {
        match namespaces::place() {
            namespaces::Place::Inside => {
                namespaces::make_private()?;
                Stock::new("ip link set lo up").run()?;
                Ok(Inside::Here)
            }
            namespaces::Place::Outside => {
                // Outside, so that they are given back also when all inside is killed.
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

/// The daemon with `p0` and `p1`, whose other ends are the generator's.
pub fn bring_up(wanted: &Wanted) -> Result<Place, LoadError> {
    pair("c0", "p0")?;
    pair("s0", "p1")?;
    let mut daemon = Daemon::start(wanted, OVS, "openvswitch-switch", None)?;
    daemon.configure("-- add-port br0 p0 -- add-port br0 p1", json!({ "ports": "veth" }))?;
    Ok(Place::of(Box::new(daemon), Some(open("c0")?), Some(open("s0")?)))
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
