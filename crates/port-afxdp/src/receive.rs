//! The receiving half of a queue.

use crate::socket::{RxRings, Socket};
use packet::{Batch, Offload, Pool};
use port::{PortError, RxQueue, offload};
use rustix::net::{RecvFlags, recv, sockopt};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Empty polls between two checks whether the device still exists.
const LOOK_AFTER: u32 = 256;

/// A receive queue of an [`crate::XdpPort`].
#[derive(Debug)]
pub struct XdpRx {
    device: String,
    socket: Arc<Socket>,
    rings: RxRings,
    /// Whether received frames may have partial checksums.
    completes_checksums: bool,
    /// Number of empty polls in a row.
    empty: u32,
}

impl XdpRx {
    pub(crate) fn new(
        device: String,
        socket: Arc<Socket>,
        rings: RxRings,
        completes_checksums: bool,
    ) -> Self {
        XdpRx { device, socket, rings, completes_checksums, empty: 0 }
    }

    /// Checks whether the device still exists: its removal leaves an error in the socket.
    fn check_device(&mut self) -> Result<(), PortError> {
        self.empty = 0;
        match sockopt::socket_error(&self.socket.fd) {
            Ok(Err(_)) => Err(PortError::Gone { device: self.device.clone() }),
            _ => Ok(()),
        }
    }
}

impl RxQueue for XdpRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let before = batch.len();
        while !batch.is_full() {
            let Some(descriptor) = self.rings.received.pop() else { break };
            let mut packet = pool.take();
            // SAFETY: the descriptor was just taken from the receive ring, and the frame is returned below.
            let bytes = unsafe {
                let (address, len) = (descriptor.addr, descriptor.len);
                self.socket.umem.read(address, len, packet.receive_area())
            };
            packet.set_received(bytes, Offload::default());
            if self.completes_checksums {
                packet.offload.checksum = offload::find_partial(packet.data());
            }
            batch.push(packet);
            // The ring has an entry for every frame. An address within the frame is sufficient: the kernel
            // uses the frame's start.
            let _ = self.rings.fill.push(descriptor.addr);
        }
        if batch.len() > before {
            self.rings.received.release();
            self.rings.fill.submit();
            self.empty = 0;
        } else {
            self.empty += 1;
        }
        if self.rings.fill.needs_wakeup() {
            // The only possible error is "not now".
            let _ = recv(&self.socket.fd, &mut [0u8; 0], RecvFlags::DONTWAIT);
        }
        if self.empty >= LOOK_AFTER { self.check_device() } else { Ok(()) }
    }

    fn wake_fd(&self) -> Option<RawFd> {
        Some(self.socket.fd.as_raw_fd())
    }
}
