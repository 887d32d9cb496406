//! Short runs for `valgrind --tool=callgrind`, which counts instructions independently of other load: `rings
//! to|from split|packed BYTES COUNT` sends frames to a guest or receives them from it, in batches of 32. The guest's
//! part is done by the kernel, which callgrind does not count. Prints nanoseconds per frame, those of the guest
//! included.

use packet::{Batch, Offload, Pool};
use port::{RxQueue, TxQueue};
use port_vhost::{Clocks, VhostConfig, VhostPort, VhostRole};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::pwrite;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Frames of a batch.
const BATCH: u16 = 32;
/// Entries of each ring.
const ENTRIES: u16 = 256;
/// Bytes of each ring with its buffers, and the places in it.
const RING: u64 = 1 << 20;
const DRIVER: u64 = 0x4000;
const DEVICE: u64 = 0x8000;
const BUFFERS: u64 = 0x1_0000;
const BUFFER: u64 = 2048;
/// The header before each frame.
const HEADER: u64 = 12;
/// The guest's memory is at this address, for the guest and for its program.
const MEMORY: u64 = 1 << 32;
/// Features of a Linux guest: mergeable buffers, indirect descriptors, event index, version 1, and that the program
/// knows protocol features; and packed rings.
const FEATURES: u64 = 1 << 15 | 1 << 28 | 1 << 29 | 1 << 30 | 1 << 32;
const PACKED: u64 = 1 << 34;

struct Guest {
    front_end: UnixStream,
    file: OwnedFd,
    is_packed: bool,
    /// The ring that is used: 0 receives and 1 sends.
    ring: u64,
    frame_bytes: u64,
    /// Entries made available.
    available: u16,
}

impl Guest {
    fn say(&self, request: u32, payload: &[u64], file: Option<BorrowedFd<'_>>) {
        let header = [request, 1, 8 * payload.len() as u32].into_iter().flat_map(u32::to_le_bytes);
        let numbers = payload.iter().flat_map(|number| number.to_le_bytes());
        let bytes: Vec<u8> = header.chain(numbers).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
        if !files.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
        }
        let parts = [IoSlice::new(&bytes)];
        sendmsg(&self.front_end, &parts, &mut ancillary, SendFlags::empty()).expect("sent");
    }

    fn come_up(&mut self) {
        self.say(2, &[FEATURES | if self.is_packed { PACKED } else { 0 }], None);
        self.say(5, &[1, MEMORY, 2 * RING, MEMORY, 0], Some(self.file.as_fd()));
        let kick = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        for ring in 0..2 {
            let at = MEMORY + ring * RING;
            let base = if self.is_packed { 0x8000_8000 } else { 0 };
            self.say(8, &[ring | u64::from(ENTRIES) << 32], None);
            self.say(10, &[ring | base << 32], None);
            self.say(9, &[ring, at, at + DEVICE, at + DRIVER, 0], None);
            self.say(12, &[ring], Some(kick.as_fd()));
            self.say(18, &[ring | 1 << 32], None);
        }
        if self.is_packed {
            // It wants no notifications.
            self.write(DRIVER + 2, &1u16.to_le_bytes());
        } else {
            for slot in 0..ENTRIES {
                self.write(16 * u64::from(slot), &self.descriptor(slot, 0));
                self.write(DRIVER + 4 + 2 * u64::from(slot), &slot.to_le_bytes());
            }
        }
        // The answer comes after everything before it was done.
        self.say(1, &[], None);
        self.front_end.read_exact(&mut [0; 20]).expect("an answer");
    }

    /// A descriptor, with these flags of a packed ring.
    fn descriptor(&self, slot: u16, marks: u16) -> [u8; 16] {
        let address = MEMORY + self.ring * RING + BUFFERS + BUFFER * u64::from(slot);
        let length = if self.ring == 0 { BUFFER } else { HEADER + self.frame_bytes } as u32;
        let flags = marks | if self.ring == 0 { 2 } else { 0 };
        let (third, fourth) = if self.is_packed { (slot, flags) } else { (flags, 0) };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes[12..14].copy_from_slice(&third.to_le_bytes());
        bytes[14..].copy_from_slice(&fourth.to_le_bytes());
        bytes
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        pwrite(&self.file, bytes, self.ring * RING + at).expect("written");
    }

    /// Makes a batch of buffers available.
    fn offer(&mut self, laps: &[Vec<u8>; 2]) {
        let slot = usize::from(self.available % ENTRIES);
        let lap = usize::from(self.available / ENTRIES % 2);
        self.available = self.available.wrapping_add(BATCH);
        if self.is_packed {
            self.write(16 * slot as u64, &laps[lap][16 * slot..][..16 * usize::from(BATCH)]);
        } else {
            self.write(DRIVER + 2, &self.available.to_le_bytes());
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, format, bytes, count] = words.as_slice() else {
        panic!("rings to|from split|packed BYTES COUNT");
    };
    let frame_bytes: usize = bytes.parse().expect("a number of bytes");
    let batches = count.parse::<u32>().expect("a number of frames") / u32::from(BATCH);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("guest");
    let config = VhostConfig {
        socket: socket.clone(),
        role: VhostRole::Server,
        rx_queues: 1,
        mtu: None,
        tx_retries: 8,
    };
    let (port, mut queues) =
        VhostPort::open("guest", config, Clocks::STILL, Box::new(|| ())).expect("a port");
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory");
    ftruncate(&file, 2 * RING).expect("memory");
    let mut guest = Guest {
        front_end: UnixStream::connect(&socket).expect("a connection"),
        file,
        is_packed: format == "packed",
        ring: u64::from(way == "from"),
        frame_bytes: frame_bytes as u64,
        available: 0,
    };
    guest.come_up();
    assert!(port.is_link_up(), "the guest is not up");
    // The flags of a lap's descriptors: available, or the reverse.
    let laps = [1 << 7, 1 << 15].map(|marks| {
        (0..ENTRIES).flat_map(|slot| guest.descriptor(slot, marks)).collect::<Vec<u8>>()
    });
    let (mut tx, rx) = (port.tx(0), &mut queues[0]);
    let (mut pool, mut batch) = (Pool::new(usize::from(BATCH)), Batch::new());
    let start = std::time::Instant::now();
    for _ in 0..batches {
        guest.offer(&laps);
        if way == "to" {
            for _ in 0..BATCH {
                let mut packet = pool.take();
                packet.set_received(frame_bytes, Offload::default());
                batch.push(packet);
            }
            let counters = tx.send(&mut pool, &mut batch);
            assert_eq!(counters.packets, u64::from(BATCH), "sent");
        } else {
            rx.receive(&mut pool, &mut batch).expect("received");
            assert_eq!(batch.len(), usize::from(BATCH), "received");
            batch.drain(..).for_each(|packet| pool.give(packet));
        }
    }
    let each = start.elapsed().as_nanos() / u128::from((batches * u32::from(BATCH)).max(1));
    println!("{way} a guest, {format} ring, {frame_bytes} bytes: {each} ns");
}
