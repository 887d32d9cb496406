//! Any other device between two ports that the user names. Every kind of port that a name can select is
//! opened here.

use super::{Device, Place};
use crate::error::LoadError;
use crate::link::Link;
use packet::{Batch, Pool};
use port::{PortError, RxQueue};
use port_afxdp::{XdpOptions, XdpPort, XdpRx};
use port_dpdk::{DpdkConfig, DpdkPort, EalOptions};
use port_linux::affinity::allowed_cpus;
use port_linux::{Links, PacketPort, TapKind, TapPort};
use serde_json::{Value, json};
use std::os::fd::RawFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Default further arguments of DPDK's command line: no network card is taken from the kernel, and other
/// processes can share the memory.
pub const DPDK_EXTRA: &str = "--no-pci --single-file-segments";

/// How often a thread that waits for a port checks whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An external device, of which only the ports are known.
#[derive(Debug)]
struct External {
    client: Option<String>,
    server: Option<String>,
}

impl Device for External {
    fn describe(&self) -> Value {
        json!({ "kind": "external", "client_port": self.client, "server_port": self.server })
    }

    fn table(&mut self) -> Result<Option<u64>, LoadError> {
        Ok(None)
    }
}

/// The device between these ports.
pub fn outside(
    client: Option<&str>,
    server: Option<&str>,
    dpdk_extra: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<Place, LoadError> {
    if client.is_some() && client == server {
        let same = "--client and --server name the same port; each side needs one of its own";
        return Err(LoadError::Options(same.to_owned()));
    }
    let device = External { client: client.map(str::to_owned), server: server.map(str::to_owned) };
    let open = |name: &str| match name.strip_prefix("dpdk:") {
        Some(devargs) => open_dpdk(devargs, dpdk_extra, interrupted),
        None => open(name),
    };
    let (client, server) = (client.map(open).transpose()?, server.map(open).transpose()?);
    Ok(Place::of(Box::new(device), client, server))
}

/// Opens the DPDK device with these arguments, in Open vSwitch's syntax. DPDK waits without limit for the
/// peer of some devices (a listening virtio device); an interrupt abandons that wait.
fn open_dpdk(
    devargs: &str,
    extra: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<Link, LoadError> {
    let cpu = allowed_cpus().ok().and_then(|cpus| cpus.last().copied()).unwrap_or(0);
    let options = EalOptions { extra: Some(extra.to_owned()), ..EalOptions::default() };
    port_dpdk::start(&options, cpu).map_err(|error| {
        LoadError::Ended(format!("dpdk:{devargs}: {}", error.on_command_line("--dpdk-extra")))
    })?;
    let (tell, told) = mpsc::channel();
    let name = devargs.to_owned();
    thread::spawn(move || tell.send(DpdkPort::open(&name, &DpdkConfig::new(&name), 1)));
    let port = loop {
        match told.recv_timeout(LOOK_EVERY) {
            Ok(port) => break port?,
            Err(mpsc::RecvTimeoutError::Timeout) if !interrupted() => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err(LoadError::Ended(format!(
                    "dpdk:{devargs}: interrupted while DPDK opened it; a device that listens \
                     waits for its other side to come"
                )));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(LoadError::Ended(format!("dpdk:{devargs}: opening it failed")));
            }
        }
    };
    Ok(Link { rx: Box::new(port.rx(0)?), tx: Box::new(port.tx()?) })
}

/// Opens the port of this name: `DEVICE` or `packet:DEVICE`, `tap:NAME` or `afxdp:DEVICE`. A new kind of port
/// is a new arm.
pub fn open(name: &str) -> Result<Link, LoadError> {
    let (kind, device) = name.split_once(':').unwrap_or(("packet", name));
    match kind {
        "packet" => {
            let port = PacketPort::open(device)?;
            must_be_up(device)?;
            Ok(Link { rx: Box::new(port.rx()?), tx: Box::new(port.tx()?) })
        }
        "tap" => {
            let port = TapPort::open(device, TapKind::Tap)?;
            Links::open()?.set_up(device, true)?;
            Ok(Link { rx: Box::new(port.rx()?), tx: Box::new(port.tx()?) })
        }
        "afxdp" => {
            let (port, mut queues) = XdpPort::open(device, XdpOptions::default())?;
            must_be_up(device)?;
            let Some(rx) = queues.pop() else { return Err(no_queue(name)) };
            let tx = port.tx(0);
            Ok(Link { rx: Box::new(Held { queue: rx, _port: port }), tx: Box::new(tx) })
        }
        _ => Err(LoadError::Options(format!(
            "{name}: there is no kind of port \"{kind}\"; name a network device, packet:DEVICE, \
             tap:NAME, afxdp:DEVICE or dpdk:DEVARGS"
        ))),
    }
}

/// A queue and its port, whose XDP program would leave the device if the port were dropped.
#[derive(Debug)]
struct Held {
    queue: XdpRx,
    _port: XdpPort,
}

impl RxQueue for Held {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        self.queue.receive(pool, batch)
    }

    fn wake_fd(&self) -> Option<RawFd> {
        self.queue.wake_fd()
    }
}

fn no_queue(name: &str) -> LoadError {
    LoadError::Ended(format!("{name} has no receive queue"))
}

fn must_be_up(device: &str) -> Result<(), LoadError> {
    let link = Links::open()?.by_name(device)?;
    if link.admin_up {
        return Ok(());
    }
    let reason = format!("the device is down; bring it up: ip link set {device} up");
    Err(PortError::Invalid { device: device.to_owned(), reason }.into())
}
