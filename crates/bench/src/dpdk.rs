//! Ports of the measured switch through DPDK: files that `net_pcap` plays repeatedly.

use super::BenchError;
use super::traffic::Traffic;
use load::in_memory::{Cable, PORTS};
use port::pcap::{Capture, PcapTx};
use port::{PortError, RxQueue, TxQueue};
use port_dpdk::{DpdkConfig, DpdkPort, EalOptions};
use port_linux::affinity;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

static OPENING: Mutex<()> = Mutex::new(());

/// The two ports of a worker, and the files that they play.
pub struct DpdkPorts {
    ports: [DpdkPort; 2],
    /// Files that this program made, removed with the ports.
    _files: Option<Files>,
}

/// Starts DPDK; `words` are further ones of its command line.
pub fn start(words: &str) -> Result<(), BenchError> {
    let cpu = affinity::allowed_cpus().ok().and_then(|cpus| cpus.first().copied());
    let options = EalOptions { extra: Some(words.to_owned()), ..EalOptions::default() };
    port_dpdk::start(&options, cpu.unwrap_or(0))?;
    Ok(())
}

impl DpdkPorts {
    /// Opens a worker's ports with their traffic: `given` files, or what was made.
    pub fn open(
        worker: u16,
        traffic: &Traffic,
        given: Option<[&Path; 2]>,
    ) -> Result<DpdkPorts, BenchError> {
        // DPDK's drivers open one device at a time.
        let _turn = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let files = if given.is_some() { None } else { Some(Files::write(traffic)?) };
        let paths = files.as_ref().map(|files| files.paths.each_ref().map(PathBuf::as_path));
        let [forward, reverse] = given.or(paths).unwrap_or([Path::new(""); 2]);
        let open = |index: usize, path: &Path| {
            let path = path.display();
            let number = usize::from(worker) * PORTS.len() + index;
            let devargs = format!("net_pcap_bench{number},rx_pcap={path},infinite_rx=1");
            DpdkPort::open(PORTS[index].0, &DpdkConfig::new(devargs), 1)
        };
        Ok(DpdkPorts { ports: [open(0, forward)?, open(1, reverse)?], _files: files })
    }

    /// The peers of the two ports. The device counts and drops what is sent.
    pub fn cables(&self) -> Result<[Cable; 2], PortError> {
        let cable = |index: usize| -> Result<Cable, PortError> {
            let rx: Box<dyn RxQueue> = Box::new(self.ports[index].rx(0)?);
            let tx: Box<dyn TxQueue> = Box::new(self.ports[index].tx()?);
            Ok(Cable { port: PORTS[index].1, rx, tx })
        };
        Ok([cable(0)?, cable(1)?])
    }
}

/// Files in a folder that is removed with them.
struct Files {
    folder: PathBuf,
    paths: [PathBuf; 2],
}

impl Files {
    fn write(traffic: &Traffic) -> Result<Files, PortError> {
        let name = format!("tidegate-bench-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let folder = std::env::temp_dir().join(name);
        let files = Files { paths: ["fwd.pcap", "rev.pcap"].map(|name| folder.join(name)), folder };
        let failed = |source| PortError::System {
            device: files.folder.display().to_string(),
            what: "write the traffic",
            source,
        };
        std::fs::create_dir(&files.folder).map_err(failed)?;
        for (path, capture) in files.paths.iter().zip([&traffic.forward, &traffic.reverse]) {
            write(path, capture).map_err(failed)?;
        }
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A folder that cannot be removed does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn write(path: &Path, capture: &Capture) -> std::io::Result<()> {
    let mut file = PcapTx::new(std::fs::File::create(path)?, || Duration::ZERO)?;
    for index in 0..capture.len() {
        if let Some((_, frame)) = capture.frame(index) {
            file.record(Duration::ZERO, frame)?;
        }
    }
    Ok(())
}
