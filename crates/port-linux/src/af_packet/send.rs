//! Sends a batch in one system call, with each frame's offload in its vnet header. TCP segments that can leave
//! as one large frame do.

use crate::socket;
use base::limits::BATCH_SIZE;
use packet::{Batch, Packet, Pool};
use port::offload::Merge;
use port::{TxCounters, TxQueue, vnet};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of an Ethernet header, which an MTU does not count.
const ETHERNET_BYTES: usize = 14;

/// A transmit queue of a [`super::PacketPort`].
pub struct PacketTx {
    socket: OwnedFd,
    device: String,
    slots: Box<Slots>,
}

impl PacketTx {
    pub(super) fn new(socket: OwnedFd, device: String) -> PacketTx {
        PacketTx { socket, device, slots: Box::new(Slots::empty()) }
    }
}

impl TxQueue for PacketTx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        // The kernel refuses frames that exceed the MTU, but not segments of a large frame.
        let most = || socket::mtu(&self.socket, &self.device).map_or(0, |mtu| mtu + ETHERNET_BYTES);
        let merge = Merge::of(batch, most);
        let frames = self.slots.point_at(batch, &merge);
        let mut next = 0;
        while next < frames {
            let sent = self.slots.send(&self.socket, next..frames, batch);
            if let Ok(sent @ 1..) = usize::try_from(sent) {
                for carried in self.slots.carried.iter().take((next + sent).min(frames)).skip(next)
                {
                    counters.packets += u64::from(carried.packets);
                    counters.bytes += u64::from(carried.bytes);
                }
                next += sent;
                continue;
            }
            let packets =
                |carried: &[Carried]| carried.iter().map(|it| u64::from(it.packets)).sum::<u64>();
            let waiting = &self.slots.carried[next..frames];
            let (one, left) = (packets(&waiting[..1]), packets(waiting));
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                // The socket's buffer is full, so the following frames do not fit either.
                Some(libc::EAGAIN) => {
                    counters.dropped += left;
                    break;
                }
                // The device's queue dropped this frame.
                Some(libc::ENOBUFS | libc::ENOMEM) => {
                    counters.dropped += one;
                    next += 1;
                }
                // Down or removed; the port's monitor finds out which.
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EBADF) => {
                    counters.errors += left;
                    break;
                }
                // Too long, too short, or an offload that contradicts the frame: only this frame is affected.
                _ => {
                    counters.errors += one;
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

/// What a message carries.
#[derive(Clone, Copy, Default)]
struct Carried {
    packets: u32,
    /// The bytes of these packets, with the headers that a merged frame has once.
    bytes: u32,
}

/// The structures that the kernel reads in one call.
struct Slots {
    headers: [[u8; vnet::HEADER_BYTES]; BATCH_SIZE],
    /// Of each message the header's, then those of its packets.
    iovecs: [libc::iovec; 2 * BATCH_SIZE],
    messages: [libc::mmsghdr; BATCH_SIZE],
    carried: [Carried; BATCH_SIZE],
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
            iovecs: [iovec; 2 * BATCH_SIZE],
            messages: [message; BATCH_SIZE],
            carried: [Carried::default(); BATCH_SIZE],
        }
    }

    /// Sets the first messages to the frames that these packets leave as. Returns the number of messages.
    fn point_at(&mut self, packets: &[Packet], merge: &Merge) -> usize {
        let mut slots = self.messages.iter_mut().zip(&mut self.headers).zip(&mut self.carried);
        let (mut rest, mut frames) = (&mut self.iovecs[..], 0);
        for (index, packet) in packets.iter().enumerate() {
            if !merge.begins_frame(index) {
                continue;
            }
            let Some(((message, header), carried)) = slots.next() else { break };
            *header = vnet::encode(packet);
            *carried = Carried::default();
            let mut used = 1;
            for (part, packet) in merge.parts(packets, index) {
                let Some(iovec) = rest.get_mut(used) else { break };
                *iovec =
                    libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
                carried.packets += 1;
                carried.bytes += packet.len() as u32;
                used += 1;
            }
            let (own, others) = std::mem::take(&mut rest).split_at_mut(used);
            own[0] = libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() };
            message.msg_len = 0;
            message.msg_hdr.msg_iov = own.as_mut_ptr();
            message.msg_hdr.msg_iovlen = used as _;
            (rest, frames) = (others, frames + 1);
        }
        frames
    }

    /// Sends these messages of the last [`Slots::point_at`]. Returns how many were sent, or -1 with errno. The
    /// packets are a parameter to keep them borrowed.
    fn send(&mut self, socket: &OwnedFd, messages: Range<usize>, _packets: &[Packet]) -> i32 {
        let Some(messages) = self.messages.get_mut(messages) else { return 0 };
        // SAFETY: these messages point to headers and iovecs of these slots and, through the iovecs, to the
        // data of the packets, all borrowed until after the call and unchanged since `point_at`; the kernel
        // only reads them.
        unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                libc::MSG_DONTWAIT as _,
            )
        }
    }
}
