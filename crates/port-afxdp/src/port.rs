//! A device as an AF_XDP port.

use crate::device::{self, Device};
use crate::failure::{Step, describe};
use crate::options::{XdpMode, XdpOptions};
use crate::program::Program;
use crate::receive::XdpRx;
use crate::send::{TxHalf, XdpTx};
use crate::socket::{Place, Queue, Socket};
use crate::umem::Chunk;
use ::port::PortError;
use rustix::net::sockopt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// Bytes of an Ethernet header with two VLAN tags, which the MTU does not include.
const HEADER_BYTES_MAX: u32 = 14 + 2 * 4;

/// A network device as a port through AF_XDP.
///
/// Opening works in the network namespace of the calling thread; the queues work from any thread. The program
/// is detached when the port and all its queues are dropped.
#[derive(Debug)]
pub struct XdpPort {
    mode: XdpMode,
    options: XdpOptions,
    mtu_max: u32,
    queues_there: Option<u32>,
    sockets: Vec<Arc<Socket>>,
    sending: Vec<Arc<Mutex<TxHalf>>>,
    _program: Program,
    _promiscuous: OwnedFd,
}

/// The kernel's counters of one queue's socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XdpCounts {
    /// Frames that were too long for their buffer, or for which memory was missing.
    pub rx_dropped: u64,
    /// Invalid descriptors in the fill ring.
    pub rx_invalid_descs: u64,
    /// Invalid descriptors in the transmit ring.
    pub tx_invalid_descs: u64,
    /// Frames dropped because the receive ring was full.
    pub rx_ring_full: u64,
}

impl XdpPort {
    /// Attaches to a device, which may be down. Returns the port and its receive queues, in order.
    ///
    /// # Errors
    /// The device does not exist, its MTU is too large, it is in use, it does not support the options, or
    /// this process lacks the privilege.
    pub fn open(name: &str, options: XdpOptions) -> Result<(XdpPort, Vec<XdpRx>), PortError> {
        let device = Device::look(name)?;
        let invalid = |reason| PortError::Invalid { device: name.to_owned(), reason };
        let chunk = Chunk::for_frames(device.mtu.saturating_add(HEADER_BYTES_MAX));
        let chunk = chunk.ok_or_else(|| {
            let most = Chunk::Large.frame_bytes_max() - HEADER_BYTES_MAX;
            invalid(format!("its MTU is {}, and AF_XDP takes at most {most}; lower it", device.mtu))
        })?;
        if let Some(there) = device.queues.filter(|there| *there < options.queues.into()) {
            return Err(invalid(format!(
                "options:n_rxq is {}, and it has {there}; lower the one, or add queues (ethtool -L)",
                options.queues
            )));
        }
        let (mode, program, queues) = match options.mode {
            Some(mode) => open_queues(name, &device, (mode, chunk), options, true)?,
            None => open_best(name, &device, chunk, options)?,
        };
        // Last, because the kernel announces it to all listeners: one that retries a failed port when its
        // device changes would otherwise be triggered by each attempt.
        let promiscuous = device::make_promiscuous(name, device.ifindex)?;
        let (mut sockets, mut sending, mut receiving) = (Vec::new(), Vec::new(), Vec::new());
        for Queue { socket, rx, tx } in queues {
            let half = TxHalf::new(Arc::clone(&socket), tx, options.need_wakeup);
            sending.push(Arc::new(Mutex::new(half)));
            sockets.push(Arc::clone(&socket));
            receiving.push(XdpRx::new(name.to_owned(), socket, rx, device.leaves_checksums));
        }
        let port = XdpPort {
            mode,
            options,
            mtu_max: chunk.frame_bytes_max() - HEADER_BYTES_MAX,
            queues_there: device.queues,
            sockets,
            sending,
            _program: program,
            _promiscuous: promiscuous,
        };
        Ok((port, receiving))
    }

    /// Returns the mode in use.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Returns the requested options.
    pub fn options(&self) -> XdpOptions {
        self.options
    }

    /// Returns the largest MTU for which the port was opened: with a larger one, frames are lost until it is
    /// reopened.
    pub fn mtu_max(&self) -> u32 {
        self.mtu_max
    }

    /// Returns the number of the device's receive queues that are not used, if known: their frames go to the
    /// kernel.
    pub fn unused_queues(&self) -> Option<u32> {
        let used = u32::from(self.options.queues);
        self.queues_there.map(|there| there.saturating_sub(used)).filter(|unused| *unused > 0)
    }

    /// Returns a transmit queue for the worker with this number. If there are more workers than queues, they
    /// share queues.
    pub fn tx(&self, worker: usize) -> XdpTx {
        // There is at least one queue.
        XdpTx::new(Arc::clone(&self.sending[worker % self.sending.len()]))
    }

    /// Returns the kernel's counters, queue by queue.
    pub fn counts(&self) -> Vec<XdpCounts> {
        let counts = |socket: &Arc<Socket>| {
            let Ok(counted) = sockopt::xdp_statistics(&socket.fd) else {
                return XdpCounts::default();
            };
            XdpCounts {
                rx_dropped: counted.rx_dropped,
                rx_invalid_descs: counted.rx_invalid_descs,
                tx_invalid_descs: counted.tx_invalid_descs,
                rx_ring_full: counted.rx_ring_full.unwrap_or(0),
            }
        };
        self.sockets.iter().map(counts).collect()
    }
}

type Opened = (XdpMode, Program, Vec<Queue>);

/// Opens in the fastest mode that works. If all fail, returns the error of the slowest.
fn open_best(
    name: &str,
    device: &Device,
    chunk: Chunk,
    options: XdpOptions,
) -> Result<Opened, PortError> {
    let [fastest, fast, slowest] = XdpMode::ALL;
    // A busy device or queue is waited for in one mode only, so that a failure takes about a second and not
    // three.
    open_queues(name, device, (fastest, chunk), options, false)
        .or_else(|_| open_queues(name, device, (fast, chunk), options, true))
        .or_else(|_| open_queues(name, device, (slowest, chunk), options, false))
}

fn open_queues(
    name: &str,
    device: &Device,
    (mode, chunk): (XdpMode, Chunk),
    options: XdpOptions,
    waits: bool,
) -> Result<Opened, PortError> {
    let program = Program::attach(name, device.ifindex, mode, waits)?;
    let mut queues = Vec::new();
    for number in 0..options.queues {
        let place = Place {
            ifindex: device.ifindex,
            queue: number,
            mode,
            chunk,
            need_wakeup: options.need_wakeup,
            waits,
        };
        let queue = Queue::open(name, place)?;
        program
            .serve(number, queue.socket.fd.as_fd())
            .map_err(|source| describe(name, Step::Load, source))?;
        queues.push(queue);
    }
    Ok((mode, program, queues))
}
