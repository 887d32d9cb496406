//! Receives up to 32 frames per system call, each directly into its packet's buffer.

use super::auxiliary::{TAG_BYTES, Tag};
use super::drops::Refusals;
use crate::socket;
use base::limits::BATCH_SIZE;
use packet::{Batch, Offload, Packet, Pool};
use port::vnet::{self, Backlog, Received};
use port::{PortError, RxQueue};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Room for the requested control message (40 bytes) and some reserve.
const CONTROL_BYTES: usize = 64;

/// The receive queue of a [`super::PacketPort`].
pub struct PacketRx {
    socket: OwnedFd,
    device: String,
    /// Empty packets for the next frames, at most a batch of them from the pool.
    armed: Vec<Packet>,
    slots: Box<Slots>,
    backlog: Backlog,
    refusals: Arc<Refusals>,
    /// Whether the device went down, which is reported once.
    is_down: bool,
}

impl PacketRx {
    pub(super) fn new(socket: OwnedFd, device: String, refusals: Arc<Refusals>) -> PacketRx {
        PacketRx {
            socket,
            device,
            armed: Vec::with_capacity(BATCH_SIZE),
            slots: Box::new(Slots::empty()),
            backlog: Backlog::default(),
            refusals,
            is_down: false,
        }
    }

    /// Returns whether the socket has lost its device: the kernel sets the index to -1 when the device is
    /// removed or moved to another namespace (Linux: `net/packet/af_packet.c`, `packet_notifier`).
    fn device_is_gone(&self) -> bool {
        let mut address = libc::sockaddr_ll {
            sll_family: 0,
            sll_protocol: 0,
            sll_ifindex: 0,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: getsockname() writes at most `length` bytes to a local of that size that lives until it
        // returns.
        let rc = unsafe {
            libc::getsockname(self.socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length)
        };
        rc < 0 || address.sll_ifindex <= 0
    }

    /// Distinguishes an empty queue from a failed one after a receive call without frames.
    fn explain(&mut self, error: io::Error) -> Result<(), PortError> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) if !self.is_down => Ok(()),
            Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN) => {
                self.is_down = true;
                if self.device_is_gone() {
                    Err(PortError::Gone { device: self.device.clone() })
                } else {
                    Ok(())
                }
            }
            // The frame has no vnet header (a tunnel's segmentation); the kernel dropped it.
            Some(libc::EINVAL) => {
                self.refusals.count_unsupported();
                Ok(())
            }
            _ => Err(socket::system_error(&self.device, "receive", error)),
        }
    }
}

impl RxQueue for PacketRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        self.backlog.continue_with(pool, batch);
        let room = batch.remaining_capacity();
        if room == 0 {
            return Ok(());
        }
        while self.armed.len() < room {
            self.armed.push(pool.take());
        }
        let received = self.slots.receive(&self.socket, &mut self.armed[..room]);
        if received < 0 {
            return self.explain(io::Error::last_os_error());
        }
        self.is_down = false;
        for (slot, mut packet) in self.armed.drain(..received as usize).enumerate() {
            match self.slots.finish(slot, &mut packet) {
                Ok((received, tags)) => {
                    if tags > 0 {
                        self.refusals.count_tags(tags);
                    }
                    self.backlog.receive(packet, received, batch);
                }
                Err(Refused::Truncated) => {
                    self.refusals.count_truncated();
                    pool.give(packet);
                }
                Err(Refused::Unsupported) => {
                    self.refusals.count_unsupported();
                    pool.give(packet);
                }
            }
        }
        self.backlog.continue_with(pool, batch);
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }
}

enum Refused {
    Truncated,
    Unsupported,
}

/// A buffer for control messages with the alignment of their header.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// The structures that the kernel reads and writes in one call.
struct Slots {
    headers: [[u8; vnet::HEADER_BYTES]; BATCH_SIZE],
    control: [Control; BATCH_SIZE],
    iovecs: [[libc::iovec; 2]; BATCH_SIZE],
    messages: [libc::mmsghdr; BATCH_SIZE],
}

// SAFETY: every call of `receive`, which borrows the slots exclusively, rewrites the raw pointers in them,
// and they are not dereferenced after the call; so the slots may move between threads.
unsafe impl Send for Slots {}

impl Slots {
    fn empty() -> Slots {
        // SAFETY: mmsghdr consists of integers and raw pointers, for all of which zero bytes are valid.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Slots {
            headers: [[0; vnet::HEADER_BYTES]; BATCH_SIZE],
            control: [Control([0; CONTROL_BYTES]); BATCH_SIZE],
            iovecs: [[iovec; 2]; BATCH_SIZE],
            messages: [message; BATCH_SIZE],
        }
    }

    /// Receives into the packets' buffers. Returns the number of frames, or -1 with errno.
    fn receive(&mut self, socket: &OwnedFd, packets: &mut [Packet]) -> i32 {
        let count = packets.len().min(BATCH_SIZE);
        let slots = self.headers.iter_mut().zip(&mut self.control).zip(&mut self.iovecs);
        for (((message, packet), ((header, control), iovec)), _) in
            self.messages.iter_mut().zip(packets).zip(slots).zip(0..count)
        {
            let area = packet.receive_area();
            iovec[0] = libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() };
            iovec[1] = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: area.len() };
            message.msg_len = 0;
            message.msg_hdr.msg_iov = iovec.as_mut_ptr();
            message.msg_hdr.msg_iovlen = iovec.len() as _;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL_BYTES as _;
            message.msg_hdr.msg_flags = 0;
        }
        // SAFETY: the first `count` messages point to headers, control buffers, iovecs and packet buffers
        // that this function borrows exclusively until after the call, each with its true length; the kernel
        // writes nowhere else. No timeout is passed.
        unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        }
    }

    /// Completes a packet after a frame was received into its buffer. Returns what is received of it, and how many
    /// VLAN tags it begins with, at most two.
    fn finish(&self, slot: usize, packet: &mut Packet) -> Result<(Received, u64), Refused> {
        let message = &self.messages[slot];
        if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            return Err(Refused::Truncated);
        }
        let frame_bytes = (message.msg_len as usize).saturating_sub(vnet::HEADER_BYTES);
        packet.set_received(frame_bytes, Offload::default());
        let control = &self.control[slot].0;
        #[allow(clippy::unnecessary_cast, reason = "C libraries differ in its type")]
        let filled = (message.msg_hdr.msg_controllen as usize).min(CONTROL_BYTES);
        // The kernel counted the checksum's start without the tag.
        let (inserted, tags) = match Tag::in_control(&control[..filled]) {
            Some(tag) if tag.put_back(packet) => {
                (TAG_BYTES, 1 + u64::from(Tag::is_followed(packet)))
            }
            Some(_) => return Err(Refused::Unsupported),
            None => (0, 0),
        };
        let received = vnet::decode(&self.headers[slot], inserted, packet);
        Ok((received.ok_or(Refused::Unsupported)?, tags))
    }
}
