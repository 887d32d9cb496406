//! Sends a batch in one system call, with each frame's offload in its vnet header.

use crate::vnet;
use base::limits::BATCH_SIZE;
use packet::{Batch, Packet, Pool};
use port::{TxCounters, TxQueue};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A transmit queue of a [`super::PacketPort`].
pub struct PacketTx {
    socket: OwnedFd,
    slots: Box<Slots>,
}

impl PacketTx {
    pub(super) fn new(socket: OwnedFd) -> PacketTx {
        PacketTx { socket, slots: Box::new(Slots::empty()) }
    }
}

impl TxQueue for PacketTx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        self.slots.point_at(batch);
        let mut next = 0;
        while next < batch.len() {
            let sent = self.slots.send(&self.socket, next, batch);
            if let Ok(sent @ 1..) = usize::try_from(sent) {
                let done = &batch[next..(next + sent).min(batch.len())];
                counters.packets += done.len() as u64;
                counters.bytes += done.iter().map(|packet| packet.len() as u64).sum::<u64>();
                next += sent;
                continue;
            }
            let left = (batch.len() - next) as u64;
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                // The socket's buffer is full, so the following frames do not fit either.
                Some(libc::EAGAIN) => {
                    counters.dropped += left;
                    break;
                }
                // The device's queue dropped this frame.
                Some(libc::ENOBUFS | libc::ENOMEM) => {
                    counters.dropped += 1;
                    next += 1;
                }
                // Down or removed; the port's monitor finds out which.
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EBADF) => {
                    counters.errors += left;
                    break;
                }
                // Too long, too short, or an offload that contradicts the frame: only this frame is affected.
                _ => {
                    counters.errors += 1;
                    next += 1;
                }
            }
        }
        for packet in batch.drain(..) {
            pool.give(packet);
        }
        counters
    }
}

/// The structures that the kernel reads in one call.
struct Slots {
    headers: [[u8; vnet::HEADER_BYTES]; BATCH_SIZE],
    iovecs: [[libc::iovec; 2]; BATCH_SIZE],
    messages: [libc::mmsghdr; BATCH_SIZE],
}

// SAFETY: `point_at`, which borrows the slots exclusively, rewrites the raw pointers in them before every
// use, and they are not dereferenced afterwards; so the slots may move between threads.
unsafe impl Send for Slots {}

impl Slots {
    fn empty() -> Slots {
        // SAFETY: mmsghdr consists of integers and raw pointers, for all of which zero bytes are valid.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Slots {
            headers: [[0; vnet::HEADER_BYTES]; BATCH_SIZE],
            iovecs: [[iovec; 2]; BATCH_SIZE],
            messages: [message; BATCH_SIZE],
        }
    }

    /// Sets the first messages to these packets.
    fn point_at(&mut self, packets: &[Packet]) {
        let slots = self.messages.iter_mut().zip(&mut self.headers).zip(&mut self.iovecs);
        for (packet, ((message, header), iovec)) in packets.iter().zip(slots) {
            *header = vnet::encode(&packet.offload);
            let data = packet.data();
            iovec[0] = libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() };
            iovec[1] =
                libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
            message.msg_len = 0;
            message.msg_hdr.msg_iov = iovec.as_mut_ptr();
            message.msg_hdr.msg_iovlen = iovec.len() as _;
        }
    }

    /// Sends the packets of the last [`Slots::point_at`], from index `from`. Returns how many were sent, or
    /// -1 with errno. The packets are a parameter to keep them borrowed.
    fn send(&mut self, socket: &OwnedFd, from: usize, packets: &[Packet]) -> i32 {
        let count = packets.len().min(BATCH_SIZE).saturating_sub(from);
        // SAFETY: messages `from` to `from + count` are within the array and point to headers and iovecs of
        // these slots and to the data of `packets`, all borrowed until after the call and unchanged since
        // `point_at`; the kernel only reads them.
        unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr().add(from.min(BATCH_SIZE)),
                count as u32,
                libc::MSG_DONTWAIT as _,
            )
        }
    }
}
