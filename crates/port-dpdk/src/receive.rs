//! Receiving a burst from the device. Packets keep the device's buffers if these are single and unshared;
//! others are copied.

use crate::device::Device;
use crate::ffi::{self, BURST, Received};
use crate::headers::Headers;
use packet::{Batch, Checksum, Gso, GsoKind, Head, Offload, Packet, Pool};
use port::{PortError, RxQueue, offload};
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A receive queue of a DPDK port. It must be polled.
#[derive(Debug)]
pub struct DpdkRx {
    device: Arc<Device>,
    queue: u16,
    burst: Box<Burst>,
}

/// Per-packet results of a call that the packet heads do not contain; reused, so that it need not be cleared.
struct Burst([Received; BURST]);

// SAFETY: the pointers are of use only within one call of `receive`, which fills them in and
// gives back what they point to.
unsafe impl Send for Burst {}

impl std::fmt::Debug for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Burst")
    }
}

impl DpdkRx {
    pub(crate) fn new(device: Arc<Device>, queue: u16) -> Self {
        let nothing = Received {
            data: std::ptr::null(),
            head: std::ptr::null_mut(),
            mbuf: std::ptr::null_mut(),
            first: 0,
            total: 0,
            segment_bytes: 0,
            vlan_tci: 0,
            place: 0,
            checksum: 0,
            has_vlan: 0,
        };
        DpdkRx { device, queue, burst: Box::new(Burst([nothing; BURST])) }
    }
}

impl Drop for DpdkRx {
    fn drop(&mut self) {
        if let Some(taken) = self.device.rx_taken.get(usize::from(self.queue)) {
            taken.store(false, Ordering::Release);
        }
    }
}

impl RxQueue for DpdkRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let DpdkRx { device, queue, burst } = self;
        let (before, mut other_count) = (batch.len(), 0);
        // SAFETY: this queue has one owner, who borrows it exclusively; behind the batch's packets
        // there is room for so many more, and `burst` has more; the device is open for as long as
        // this holds it. A packet is a pointer to its head, or null.
        let answer = unsafe {
            ffi::tidegate_dpdk_receive(
                device.port,
                *queue,
                batch.as_mut_ptr().add(before).cast(),
                burst.0.as_mut_ptr(),
                batch.remaining_capacity().min(BURST) as u16,
                &raw mut other_count,
            )
        };
        let Ok(count) = usize::try_from(answer) else {
            return Err(PortError::Gone { device: device.name.clone() });
        };
        // SAFETY: so many were written, each the head of a buffer that the shim says may be kept, or
        // null, which is no packet.
        unsafe { batch.set_len(before + count) };
        batch[before..].iter_mut().for_each(Packet::forget_offload);
        if other_count > 0 {
            burst.take_others(usize::from(other_count), pool, &mut batch[before..]);
        }
        if !device.admin_up.load(Ordering::Relaxed) {
            batch.truncate(before);
        }
        if other_count > 0 {
            batch.retain(|packet| !packet.is_empty());
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}

impl Burst {
    /// Puts packets that need more work into their places.
    fn take_others(&mut self, count: usize, pool: &mut Pool, places: &mut [Packet]) {
        for frame in &self.0[..count] {
            let Some(place) = places.get_mut(usize::from(frame.place)) else { continue };
            if let Some(head) = NonNull::new(frame.head.cast()) {
                *place = keep(frame, head);
                continue;
            }
            *place = copy(frame, pool);
            let mut mbuf = frame.mbuf;
            // SAFETY: it was received just now and not kept; there is no pointer into it.
            unsafe { ffi::tidegate_dpdk_release(&raw mut mbuf, 1) };
        }
    }
}

/// A packet that keeps the frame's buffer.
#[inline]
fn keep(frame: &Received, head: NonNull<Head>) -> Packet {
    // SAFETY: the shim filled it in, and says that its buffer is this frame's alone and may be
    // kept; it is not released here.
    let mut packet = unsafe { Packet::from_head(head) };
    finish(frame, &mut packet);
    packet
}

/// A packet with a copy of the frame's bytes; empty if the frame is too long.
#[inline]
fn copy(frame: &Received, pool: &mut Pool) -> Packet {
    let mut packet = pool.take();
    let total = frame.total as usize;
    let Some(area) = packet.receive_area().get_mut(..total) else {
        pool.give(packet);
        return Packet::none();
    };
    if frame.first == frame.total {
        // SAFETY: the shim says that so many bytes lie there, in an mbuf that is not released
        // before this returns.
        area.copy_from_slice(unsafe { std::slice::from_raw_parts(frame.data, total) });
    } else {
        // SAFETY: the mbuf is one that was received and not released; there is room for `total`
        // bytes, all of which are written, for a chain is as long as its first buffer says.
        let copied = unsafe { ffi::tidegate_dpdk_copy(frame.mbuf, area.as_mut_ptr(), frame.total) };
        debug_assert_eq!(copied, frame.total);
    }
    packet.set_received(total, Offload::default());
    finish(frame, &mut packet);
    packet
}

/// Converts the device's flags of the frame.
fn finish(frame: &Received, packet: &mut Packet) {
    packet.offload = state(frame, packet.data());
    // A VLAN tag that the device stripped is part of the frame.
    if frame.has_vlan != 0 && packet.len() >= 12 && packet.insert(12, 4) {
        let tci = frame.vlan_tci.to_be_bytes();
        packet.data_mut()[12..16].copy_from_slice(&[0x81, 0x00, tci[0], tci[1]]);
    }
}

fn state(frame: &Received, bytes: &[u8]) -> Offload {
    let good = frame.checksum == ffi::CHECKSUM_GOOD;
    if frame.checksum != ffi::CHECKSUM_PARTIAL && frame.segment_bytes == 0 {
        let checksum = if good { Checksum::Good } else { Checksum::Unverified };
        return Offload { checksum, gso: None };
    }
    // Only virtual devices set these flags. They must match the frame.
    let Some(headers) = Headers::of(bytes) else { return Offload::default() };
    let checksum = match frame.checksum {
        ffi::CHECKSUM_PARTIAL if offload::is_whole(bytes) => Checksum::Partial,
        _ if good => Checksum::Good,
        _ => Checksum::Unverified,
    };
    let kind = match (headers.is_tcp, headers.is_ipv6) {
        (true, false) => GsoKind::TcpV4,
        (true, true) => GsoKind::TcpV6,
        (false, _) => GsoKind::UdpL4,
    };
    let gso = Gso { kind, segment_bytes: frame.segment_bytes, ecn: false };
    let gso =
        Some(gso).filter(|gso| gso.segment_bytes != 0 && offload::is_segmentable(bytes, *gso));
    Offload { checksum, gso }
}
