//! One queue's socket: its memory, its four rings, and its binding to the device.

use crate::failure::{Step, describe, patiently};
use crate::options::XdpMode;
use crate::ring::{Consumer, Producer};
use crate::umem::{Chunk, Umem};
use port::PortError;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Number of receive frames, and entries of their rings.
pub(crate) const RX_FRAMES: u32 = 2048;
/// Number of transmit frames, and entries of their rings.
pub(crate) const TX_FRAMES: u32 = 1024;

/// The part that both halves of a queue share.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) fd: OwnedFd,
    pub(crate) umem: Umem,
}

/// The receiving half's rings: empty frames to the kernel, filled ones back.
#[derive(Debug)]
pub(crate) struct RxRings {
    pub(crate) fill: Producer<u64>,
    pub(crate) received: Consumer<XdpDesc>,
}

/// The sending half's rings: filled frames to the kernel, sent ones back.
#[derive(Debug)]
pub(crate) struct TxRings {
    pub(crate) send: Producer<XdpDesc>,
    pub(crate) completed: Consumer<u64>,
}

/// A bound socket with its rings; the kernel has all receive frames.
pub(crate) struct Queue {
    pub(crate) socket: Arc<Socket>,
    pub(crate) rx: RxRings,
    pub(crate) tx: TxRings,
}

/// The binding of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) ifindex: u32,
    pub(crate) queue: u16,
    pub(crate) mode: XdpMode,
    pub(crate) chunk: Chunk,
    pub(crate) need_wakeup: bool,
    /// Whether to wait for a queue that is in use: it may have been closed a moment ago.
    pub(crate) waits: bool,
}

impl Queue {
    /// Opens and binds a socket.
    pub(crate) fn open(device: &str, place: Place) -> Result<Queue, PortError> {
        let mut queue =
            Self::set_up(place.chunk).map_err(|source| describe(device, Step::Socket, source))?;
        queue.rx.fill_all(place.chunk);
        let step = Step::Bind { queue: place.queue, mode: place.mode };
        let mut flags = match place.mode {
            XdpMode::NativeWithZerocopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
            XdpMode::Native | XdpMode::Generic => SocketAddrXdpFlags::XDP_COPY,
        };
        if place.need_wakeup {
            flags |= SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        }
        let address = SocketAddrXdp::new(flags, place.ifindex, place.queue.into());
        let attempt = || Ok(bind(&queue.socket.fd, &address)?);
        patiently(place.waits, attempt).map_err(|source| describe(device, step, source))?;
        Ok(queue)
    }

    fn set_up(chunk: Chunk) -> io::Result<Queue> {
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let umem = Umem::new(RX_FRAMES + TX_FRAMES, chunk)?;
        let registration = XdpUmemReg {
            addr: umem.address(),
            len: umem.bytes(),
            chunk_size: chunk.bytes(),
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&fd, registration)?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, RX_FRAMES)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, TX_FRAMES)?;
        sockopt::set_xdp_rx_ring_size(&fd, RX_FRAMES)?;
        sockopt::set_xdp_tx_ring_size(&fd, TX_FRAMES)?;
        let at = sockopt::xdp_mmap_offsets(&fd)?;
        // SAFETY: the offsets are the kernel's for these rings of this socket, whose sizes were just set;
        // their descriptors are frame addresses for the memory's two rings and `struct xdp_desc` for the
        // socket's two; each is mapped here, once.
        let (rx, tx) = unsafe {
            let fill = Producer::map(fd.as_fd(), XDP_UMEM_PGOFF_FILL_RING, &at.fr, RX_FRAMES)?;
            let completed =
                Consumer::map(fd.as_fd(), XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, TX_FRAMES)?;
            let received = Consumer::map(fd.as_fd(), XDP_PGOFF_RX_RING, &at.rx, RX_FRAMES)?;
            let send = Producer::map(fd.as_fd(), XDP_PGOFF_TX_RING, &at.tx, TX_FRAMES)?;
            (RxRings { fill, received }, TxRings { send, completed })
        };
        Ok(Queue { socket: Arc::new(Socket { fd, umem }), rx, tx })
    }
}

impl RxRings {
    /// Passes all receive frames to the kernel.
    fn fill_all(&mut self, chunk: Chunk) {
        for index in 0..RX_FRAMES {
            // The ring has as many entries as there are frames.
            let _ = self.fill.push(u64::from(index) * u64::from(chunk.bytes()));
        }
        self.fill.submit();
    }
}

/// Returns the addresses of the transmit frames.
pub(crate) fn tx_frames(umem: &Umem) -> Vec<u64> {
    let frames = RX_FRAMES..RX_FRAMES + TX_FRAMES;
    frames.map(|index| u64::from(index) * u64::from(umem.chunk_bytes())).collect()
}
