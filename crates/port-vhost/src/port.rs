//! A port: a guest behind a socket, and what can be asked of it.

use crate::counters::RingCounts;
use crate::feature;
use crate::front_end::{FrontEnd, Side};
use crate::notifier::Notifier;
use crate::pace::Clocks;
use crate::queues::{VhostRx, VhostTx};
use crate::shared::{Shared, Status};
use crate::socket::listen_at;
use ::port::PortError;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Bytes of a frame besides its IP packet: Ethernet header and two VLAN tags.
const FRAME_OVERHEAD: u32 = 14 + 8;
/// The MTU of a port without a configured one, and the possible ones.
const MTU: u32 = 1500;
const MTU_LEAST: u32 = 68;
const MTU_MAX: u32 = 65_521;
/// How long a removed port's thread may take to end.
const END_TIME: Duration = Duration::from_millis(200);
/// Maximum length of a socket's path, including the terminating zero (unix(7)).
const PATH_BYTES: usize = 108;

/// The sockets in use, with the names of their ports.
static SOCKETS: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// Which side creates the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VhostRole {
    /// The front-end; the port connects, and connects again whenever the front-end returns.
    Client,
    /// The port.
    Server,
}

/// The configuration of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VhostConfig {
    /// The path of the socket.
    pub socket: PathBuf,
    /// Which side creates it.
    pub role: VhostRole,
    /// Receive queues. A guest's further queues share them.
    pub rx_queues: u16,
    /// The MTU, in bytes of IP packet.
    pub mtu: Option<u32>,
    /// Retries when a guest accepts only part of a burst (`options:tx-retries-max`).
    pub tx_retries: u16,
}

/// A port. Its thread ends after it is dropped; its queues then carry no packets.
#[derive(Debug)]
pub struct VhostPort {
    name: String,
    config: VhostConfig,
    mtu: u32,
    shared: Arc<Shared>,
    stops: Arc<AtomicBool>,
    /// Closed when the thread has ended. The lock is for shared references, and never contended.
    ended: Mutex<mpsc::Receiver<Infallible>>,
    /// The entry in [`SOCKETS`].
    _claim: Claim,
}

/// The lost packets of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Invalid frames of the guest.
    pub rx_errors: u64,
    /// Packets for which the guest had no room.
    pub tx_full: u64,
    /// Packets longer than the MTU.
    pub tx_mtu_exceeded: u64,
    /// Packets that could not be segmented or do not fit into the guest's buffers.
    pub tx_errors: u64,
    /// Retries of sending.
    pub tx_retries: u64,
}

#[derive(Debug)]
struct Claim(PathBuf);

impl Claim {
    fn new(path: &Path, name: &str) -> Result<Claim, String> {
        let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = sockets.get(path) {
            return Err(format!("{} is the socket of port '{other}' already", path.display()));
        }
        sockets.insert(path.to_owned(), name.to_owned());
        Ok(Claim(path.to_owned()))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        SOCKETS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

impl VhostPort {
    /// Opens a port. `notify` is called on another thread when its link or status changed, and again only
    /// after [`VhostPort::answer_notification`].
    ///
    /// # Errors
    /// The socket cannot be created or is in use, or the configuration is invalid.
    pub fn open(
        name: &str,
        config: VhostConfig,
        clocks: Clocks,
        notify: Box<dyn Fn() + Send>,
    ) -> Result<(VhostPort, Vec<VhostRx>), PortError> {
        let invalid = |reason| PortError::Invalid { device: name.to_owned(), reason };
        let failed =
            |what| move |source| PortError::System { device: name.to_owned(), what, source };
        check_path(&config.socket).map_err(invalid)?;
        let mtu = config.mtu.unwrap_or(MTU);
        if !(MTU_LEAST..=MTU_MAX).contains(&mtu) {
            return Err(invalid(format!(
                "an MTU of {mtu} bytes is not one of its own, which are {MTU_LEAST} to {MTU_MAX}; \
                 set mtu_request to one of them"
            )));
        }
        let claim = Claim::new(&config.socket, name).map_err(invalid)?;
        let side = match config.role {
            VhostRole::Client => Side::Client,
            VhostRole::Server => Side::Server(listen_at(&config.socket).map_err(invalid)?),
        };
        let frame_max = (mtu + FRAME_OVERHEAD) as usize;
        let shared = Arc::new(Shared::new(frame_max).map_err(failed("create an eventfd"))?);
        let wake = shared.wake_fd().try_clone().map_err(failed("create an eventfd"))?;
        let notifier = Notifier::new(wake, clocks);
        let notifier = notifier.map_err(|error| invalid(without_notifier(&error)))?;
        let stops = Arc::new(AtomicBool::new(false));
        let (alive, ended) = mpsc::channel();
        let front_end = FrontEnd {
            name: name.to_owned(),
            path: config.socket.clone(),
            side,
            offered: feature::OFFERED,
            shared: Arc::clone(&shared),
            notifier: Arc::new(notifier),
            stops: Arc::clone(&stops),
            alive,
            notify,
        };
        let thread = std::thread::Builder::new().name("vhost-events".to_owned());
        thread.spawn(move || front_end.run()).map_err(failed("start a thread"))?;
        let queues = usize::from(config.rx_queues.max(1));
        let rx = (0..queues).map(|queue| VhostRx::new(Arc::clone(&shared), queue, queues));
        let rx = rx.collect();
        let (name, ended) = (name.to_owned(), Mutex::new(ended));
        Ok((VhostPort { name, config, mtu, shared, stops, ended, _claim: claim }, rx))
    }

    /// The transmit queue of the worker with this number.
    pub fn tx(&self, worker: usize) -> VhostTx {
        VhostTx::new(Arc::clone(&self.shared), worker, self.config.tx_retries)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its configuration.
    pub fn config(&self) -> &VhostConfig {
        &self.config
    }

    /// Its MTU, in bytes of IP packet.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Whether packets can pass.
    pub fn is_link_up(&self) -> bool {
        self.is_admin_up() && self.has_guest()
    }

    /// Whether a guest uses its rings.
    pub fn has_guest(&self) -> bool {
        self.shared.link_up.load(Ordering::Relaxed)
    }

    /// Whether it is administratively up.
    pub fn is_admin_up(&self) -> bool {
        self.shared.admin_up.load(Ordering::Relaxed)
    }

    /// Brings it up or down. Packets that the guest sends while it is down are lost.
    pub fn set_up(&self, up: bool) {
        self.shared.admin_up.store(up, Ordering::Relaxed);
    }

    /// Lets `notify` be called again. The state must be read afterwards.
    pub fn answer_notification(&self) {
        self.shared.has_news.store(false, Ordering::Release);
    }

    /// What is known of the guest.
    pub fn status(&self) -> Status {
        self.shared.status().clone()
    }

    /// What the guest did wrong, until another guest does better; or why none can come.
    pub fn problem(&self) -> Option<String> {
        let status = self.shared.status();
        let fault = status.fault.as_ref().map(ToString::to_string);
        fault.or_else(|| status.problem.clone())
    }

    /// The counters of pairs of rings, up to the last that was used: of what the guest sent, and of what it got.
    pub fn ring_counts(&self) -> Vec<(RingCounts, RingCounts)> {
        let mut counts: Vec<_> = self
            .shared
            .rings
            .chunks(2)
            .map(|pair| match pair {
                [receives, sends] => (sends.counters.read(), receives.counters.read()),
                _ => Default::default(),
            })
            .collect();
        let used = counts.iter().rposition(|pair| *pair != Default::default());
        counts.truncate(used.map_or(0, |last| last + 1).max(self.shared.pairs()).max(1));
        counts
    }

    /// Its lost packets.
    pub fn lost(&self) -> Lost {
        let losses = &self.shared.losses;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Lost {
            rx_errors: read(&losses.rx_errors),
            tx_full: read(&losses.tx_dropped),
            tx_mtu_exceeded: read(&losses.tx_mtu_exceeded),
            tx_errors: read(&losses.tx_errors),
            tx_retries: read(&losses.tx_retries),
        }
    }
}

impl Drop for VhostPort {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Release);
        self.shared.wake();
        // A front-end can pass a file that the kernel is slow to examine or to close, such as one of FUSE or a socket
        // with SO_LINGER, and so occupy the thread. Then it ends later; it has no rings that a worker knows any more.
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(END_TIME) == Err(mpsc::RecvTimeoutError::Timeout) {
            log::warn!(
                target: "netdev_dpdk",
                "{}: a file of its front-end is slow to be closed; the port goes on without", self.name
            );
        }
        if self.config.role == VhostRole::Server {
            // Another program may have removed it.
            let _ = std::fs::remove_file(&self.config.socket);
        }
    }
}

fn check_path(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match path.as_os_str().len() {
        0 => Err("the path of the socket is empty".to_owned()),
        PATH_BYTES.. => Err(format!("the path of the socket, {shown}, is longer than 107 bytes")),
        _ => Ok(()),
    }
}

/// Why guests cannot be notified.
fn without_notifier(error: &std::io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::EAGAIN) => "raise the limit (sysctl fs.aio-max-nr)",
        _ => "this needs the system calls io_setup and io_submit (CONFIG_AIO, seccomp)",
    };
    format!(
        "the kernel's asynchronous I/O, which notifies guests, is not available: {error}; {remedy}"
    )
}
