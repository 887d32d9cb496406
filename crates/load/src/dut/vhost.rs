//! A daemon with two vhost-user ports, connected to the generator's virtio devices through shared memory:
//! packets pass between the processes without the kernel.

use super::cores::Cores;
use super::daemon::Daemon;
use super::none::Cable;
use super::patch::Patch;
use super::{Device, Place, Wanted};
use crate::error::LoadError;
use crate::link::Link;
use port::{RxQueue, TxQueue};
use port_dpdk::{DpdkConfig, DpdkPort, EalOptions};
use port_vhost::{Clocks, VhostConfig, VhostPort, VhostRole};
use serde_json::json;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use testbed::namespaces::FOLDER;
use testbed::stock::Stock;

/// Path of Open vSwitch's daemon with DPDK in Debian.
pub const OVS: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
/// Memory of the device under test, in megabytes.
const DEVICE_MB: usize = 512;
/// Memory of the generator, in megabytes, for each [`ENTRIES`] ring entries. A device of two ports has a
/// packet buffer of 2.4 KB in each entry of its receive rings and may have one in each entry of its transmit
/// rings.
const GENERATOR_MB: usize = 256;
const ENTRIES: usize = 8192;
/// Default number of ring entries. At 300,000 connections per second a device receives 1.2 million packets
/// per second from either side. A side that loses its core for one time slice (4 ms at 250 Hz) finds up to
/// 4,800 packets: a ring of 1,024 entries, QEMU's maximum for a guest, would have dropped some, through no
/// fault of the device.
pub const RING: u16 = 4096;
/// How long both ends of a socket may take to connect.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the memory of the generator for this device, in megabytes.
fn generator_mb(wanted: &Wanted) -> usize {
    GENERATOR_MB * (usize::from(wanted.ring) * wanted.queues).div_ceil(ENTRIES).next_power_of_two()
}

/// Returns the number of 2 MB huge pages for all memory.
pub fn huge_pages(wanted: &Wanted) -> usize {
    (DEVICE_MB + generator_mb(wanted)) / 2 + 8
}

/// The names of the two sockets and of the generator's ports.
const SIDES: [&str; 2] = ["p0", "p1"];

/// Checks that this program was built with DPDK.
pub fn check() -> Result<(), LoadError> {
    match port_dpdk::version() {
        Some(_) => Ok(()),
        None => Err(LoadError::Options(
            "--ports vhost needs DPDK, which this program was built without; install libdpdk-dev \
             and build with `make build`, or use --ports veth or memory"
                .to_owned(),
        )),
    }
}

/// The daemon with `p0` and `p1`, whose other ends belong to the generator.
pub fn bring_up(wanted: &Wanted) -> Result<Place, LoadError> {
    check()?;
    let cores = Cores::new(wanted.workers, wanted.generators);
    let huge = start_dpdk(wanted, &cores)?;
    let mut daemon = Daemon::start(wanted, OVS, "openvswitch-switch-dpdk", Some(cores.clone()))?;
    let (mask, first) = (cores.device_mask(), Cores::new(1, 0).device_mask());
    let memory = if huge { "" } else { " --no-huge -m 512" };
    let set = Stock::new("ovs-vsctl --timeout=50 set Open_vSwitch .")
        .word(format!("other_config:dpdk-extra=\"--no-pci{memory}\""))
        .word(format!("other_config:pmd-cpu-mask={mask}"))
        .word(format!("other_config:dpdk-lcore-mask={first}"));
    let set = match huge {
        true => set
            .word(format!("other_config:dpdk-socket-mem={DEVICE_MB}"))
            .word(format!("other_config:dpdk-socket-limit={DEVICE_MB}")),
        false => set,
    };
    set.word("other_config:dpdk-init=true").run()?;
    let started = Stock::new("ovs-vsctl get Open_vSwitch . dpdk_initialized").run()?;
    if started.trim() != "true" {
        return Err(daemon.failure("the daemon under test could not start DPDK").into());
    }
    let affinity: Vec<String> = (0..wanted.queues)
        .filter_map(|queue| Some(format!("{queue}:{}", cores.device.get(queue)?)))
        .collect();
    let add = |name: &str| {
        format!(
            " -- add-port br0 {name} -- set interface {name} type=dpdkvhostuserclient \
             options:vhost-server-path={} options:n_rxq={} other_config:pmd-rxq-affinity={}",
            socket(name).display(),
            wanted.queues,
            // The database requires quotes around values with commas.
            format_args!("\"{}\"", affinity.join(",")),
        )
    };
    let ports = json!({
        "ports": "vhost",
        "ring": wanted.ring,
        "packed_ring": true,
        "huge_pages": huge,
        "socket_mem_mb": DEVICE_MB,
    });
    daemon.configure(&SIDES.map(add).concat(), ports)?;
    let mut ends = Vec::new();
    for name in SIDES {
        let error = Stock::new(&format!("ovs-vsctl get interface {name} error")).run()?;
        if error.trim() != "[]" {
            return Err(LoadError::Ended(format!("the device's port {name}: {}", error.trim())));
        }
        ends.push(virtio(name, wanted, &mut || daemon.check())?);
    }
    for (name, end) in SIDES.iter().zip(&ends) {
        let line = format!("ovs-vsctl get interface {name} link_state");
        wait(&format!("the link of {name}"), &mut || {
            daemon.check()?;
            Ok(end.facts()?.link_up && Stock::new(&line).run()?.trim() == "up")
        })?;
    }
    // The daemon assigns new queues to its workers a moment later.
    thread::sleep(Duration::from_millis(500));
    place(Box::new(daemon), &ends, wanted, cores)
}

/// The same ports with only a patch between them, on the device's cores: it measures the generator's ceiling
/// through them.
pub fn cable(wanted: &Wanted, prefix: &str) -> Result<Place, LoadError> {
    check()?;
    let cores = Cores::new(wanted.workers, wanted.generators);
    start_dpdk(wanted, &cores)?;
    let queues = wanted.queues as u16;
    let mut patched = Vec::new();
    for name in SIDES {
        // First the end that connects and retries, then the end that listens, which keeps other threads from
        // opening a port meanwhile.
        let config = VhostConfig {
            socket: socket(&format!("{prefix}{name}")),
            role: VhostRole::Client,
            rx_queues: queues,
            mtu: None,
            tx_retries: 8,
        };
        let vhost_end = VhostPort::open(
            &format!("{prefix}{name}-far"),
            config,
            Clocks::STILL,
            Box::new(|| ()),
        )?;
        let virtio_end = virtio(&format!("{prefix}{name}"), wanted, &mut || Ok(()))?;
        patched.push((virtio_end, vhost_end));
    }
    for (end, far) in &patched {
        wait("the cable's link", &mut || Ok(end.facts()?.link_up && far.0.is_link_up()))?;
    }
    let (ends, fars): (Vec<_>, Vec<_>) = patched.into_iter().unzip();
    let patch = Patch::start(fars, wanted, &cores)?;
    let device = Cable { ports: "vhost", _patch: Some(patch) };
    place(Box::new(device), &ends, wanted, cores)
}

/// Returns the generator's links, worker by worker.
fn place(
    device: Box<dyn Device>,
    ends: &[DpdkPort],
    wanted: &Wanted,
    cores: Cores,
) -> Result<Place, LoadError> {
    let mut place =
        Place { cores, queue_packets: Some(wanted.ring.into()), ..Place::of(device, None, None) };
    let [client, server] = ends else { return Ok(place) };
    let link = |end: &DpdkPort, worker: usize| -> Result<Link, LoadError> {
        let rx: Box<dyn RxQueue> = match worker < wanted.queues {
            true => Box::new(end.rx(worker as u16)?),
            false => Box::new(super::none::Silent),
        };
        let tx: Box<dyn TxQueue> = Box::new(end.tx()?);
        Ok(Link { rx, tx })
    };
    place.client = Some(link(client, 0)?);
    place.server = Some(link(server, 0)?);
    for worker in 1..wanted.generators {
        place.more.push((link(client, worker)?, link(server, worker)?));
    }
    Ok(place)
}

fn socket(name: &str) -> PathBuf {
    PathBuf::from(format!("{FOLDER}/{name}.sock"))
}

/// Starts DPDK in this process, in memory that can be shared. Returns whether it uses huge pages; otherwise
/// ordinary ones.
fn start_dpdk(wanted: &Wanted, cores: &Cores) -> Result<bool, LoadError> {
    static STARTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    if let Some(huge) = STARTED.get() {
        return Ok(*huge);
    }
    let huge = super::huge_pages::free() + 8 >= huge_pages(wanted);
    let megabytes = generator_mb(wanted);
    // With virtual addresses a ring may span several pages. With physical ones, a ring of 16,384 entries does
    // not fit into one page.
    let options = match huge {
        true => EalOptions {
            socket_mem: Some(megabytes.to_string()),
            socket_limit: Some(megabytes.to_string()),
            extra: Some("--no-pci --single-file-segments --iova-mode=va".to_owned()),
            ..EalOptions::default()
        },
        false => EalOptions {
            extra: Some(format!("--no-pci --no-huge -m {megabytes} --single-file-segments")),
            ..EalOptions::default()
        },
    };
    port_dpdk::start(&options, cores.generator.first().copied().unwrap_or(0))
        .map_err(|error| LoadError::Ended(error.to_string()))?;
    Ok(*STARTED.get_or_init(|| huge))
}

/// Opens the virtio device of this name. It listens, and exists once the other side has connected.
fn virtio(
    name: &str,
    wanted: &Wanted,
    alive: &mut dyn FnMut() -> Result<(), LoadError>,
) -> Result<DpdkPort, LoadError> {
    let (tell, told) = mpsc::channel();
    let (queues, path) = (wanted.queues as u16, socket(name));
    // A packed ring's descriptor is read and returned in one place (VIRTIO 1.1 section 2.7), so fewer cache
    // lines move between cores, for either switch.
    let ring = wanted.ring;
    let mut config = DpdkConfig::new(format!(
        "net_virtio_user_{name},path={},server=1,queues={queues},queue_size={ring},packed_vq=1",
        path.display()
    ));
    config.rx_queues = queues;
    (config.rx_descriptors, config.tx_descriptors) = (ring, ring);
    let shown = format!("the other side of {name}");
    let name = name.to_owned();
    // DPDK waits without limit for the other side; the waiting thread gives up after a time.
    thread::spawn(move || tell.send(DpdkPort::open(&name, &config, queues)));
    let mut opened = None;
    wait(&shown, &mut || {
        alive()?;
        opened = told.recv_timeout(Duration::from_millis(100)).ok();
        Ok(opened.is_some())
    })?;
    match opened {
        Some(port) => Ok(port?),
        None => Err(LoadError::Ended(format!("{shown} did not come"))),
    }
}

fn wait(what: &str, is_so: &mut dyn FnMut() -> Result<bool, LoadError>) -> Result<(), LoadError> {
    let start = Instant::now();
    while !is_so()? {
        if start.elapsed() > PATIENCE {
            return Err(LoadError::Ended(format!("{what} did not come up in {PATIENCE:?}")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
