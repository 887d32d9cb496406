//! TAP devices: frames that the kernel sends through the device are received by the switch, and the reverse
//! (Linux: `Documentation/networking/tuntap.rst`).
//!
//! Frames have a vnet header, so the kernel's TCP passes and accepts up to 64 KB at once, without a computed
//! checksum. TCP segments that the kernel can accept as one large frame are written as one.

use crate::socket;
use base::limits::BATCH_SIZE;
use packet::{Batch, Offload, Packet, Pool};
use port::offload::Merge;
use port::vnet::{self, Backlog};
use port::{PortError, RxQueue, TxCounters, TxQueue};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const OFFLOADS: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
/// UDP segmentation, which the kernel knows since 6.2.
const OFFLOADS_USO: u32 = OFFLOADS | libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// The owner of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapKind {
    /// The switch (`type=internal`): the device outlives the process, so that its addresses and routes still
    /// exist when the switch restarts. [`TapPort::remove`] removes it.
    Internal,
    /// Another program (`type=tap`): a device that existed before stays; one that was created by opening it
    /// is removed when the last queue is closed.
    Tap,
}

/// Where the device of an open TAP port is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TapPlace {
    /// In the network namespace of the calling thread, under this name.
    Here(String),
    /// In another network namespace. Its queues work on.
    Elsewhere,
    /// It was removed, also by the end of its network namespace.
    Removed,
}

/// A TAP device as a port.
///
/// Opening works in the network namespace of the calling thread; all other methods work from any thread.
#[derive(Debug)]
pub struct TapPort {
    device: String,
    file: File,
    /// Frames that the receive queue dropped.
    rx_drops: Arc<AtomicU64>,
}

impl TapPort {
    /// Attaches to the TAP device with this name, or creates it. A new device is down; [`crate::Links`] sets
    /// its address and MTU and brings it up.
    pub fn open(device: &str, kind: TapKind) -> Result<TapPort, PortError> {
        let mut request = socket::device_request(device)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|source| explain_open(device, source))?;
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq, a local that lives until the call returns.
        let rc = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if rc < 0 {
            return Err(explain_attach(device, io::Error::last_os_error()));
        }
        let port = TapPort { device: device.to_owned(), file, rx_drops: Arc::default() };
        port.ask(libc::TUNSETOFFLOAD, OFFLOADS_USO as libc::c_ulong, "offer offloads")
            .or_else(|_| port.ask(libc::TUNSETOFFLOAD, OFFLOADS.into(), "offer offloads"))?;
        if kind == TapKind::Internal {
            port.ask(libc::TUNSETPERSIST, 1, "keep the device")?;
        }
        Ok(port)
    }

    /// Returns the device's name.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Returns the receive queue.
    pub fn rx(&self) -> Result<TapRx, PortError> {
        Ok(TapRx {
            device: self.device.clone(),
            file: self.another_handle()?,
            spare: None,
            backlog: Backlog::default(),
            rx_drops: Arc::clone(&self.rx_drops),
        })
    }

    /// Returns a transmit queue. Any number may be open.
    pub fn tx(&self) -> Result<TapTx, PortError> {
        Ok(TapTx { file: self.another_handle()? })
    }

    /// Returns the number of received frames that were dropped, since they have a segmentation that the switch
    /// does not support. The counters of the device do not include them.
    pub fn rx_drops(&self) -> u64 {
        self.rx_drops.load(Ordering::Relaxed)
    }

    /// Makes the device temporary: it is removed when the last of its queues is closed.
    pub fn remove(self) -> Result<(), PortError> {
        self.keep(false)
    }

    /// Sets whether the device outlives its queues.
    pub fn keep(&self, keeps: bool) -> Result<(), PortError> {
        self.ask(libc::TUNSETPERSIST, keeps.into(), "keep or remove the device")
    }

    /// Finds the device, which may have been renamed, moved or removed.
    pub fn place(&self) -> Result<TapPlace, PortError> {
        let failed = |what| move |source| socket::system_error(&self.device, what, source);
        let mut request = socket::device_request(&self.device)?;
        // SAFETY: TUNGETIFF writes one ifreq, a local that lives until the call returns.
        let rc = unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNGETIFF, &raw mut request) };
        if rc < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                // No device is attached any more.
                Some(libc::EBADFD) => Ok(TapPlace::Removed),
                _ => Err(failed("find the device")(error)),
            };
        }
        // SAFETY: TUNGETDEVNETNS takes no argument; the descriptor that it returns is new and has no other owner.
        let own = unsafe {
            let fd = libc::ioctl(self.file.as_raw_fd(), libc::TUNGETDEVNETNS);
            if fd < 0 {
                return Err(failed("find the device's namespace")(io::Error::last_os_error()));
            }
            OwnedFd::from_raw_fd(fd)
        };
        let numbers = |file: File| file.metadata().map(|it| (it.dev(), it.ino()));
        let here = File::open("/proc/thread-self/ns/net").and_then(numbers);
        if numbers(own.into()).map_err(failed("look at the device's namespace"))?
            != here.map_err(failed("look at the own namespace"))?
        {
            return Ok(TapPlace::Elsewhere);
        }
        Ok(TapPlace::Here(socket::request_name(&request)))
    }

    fn another_handle(&self) -> Result<File, PortError> {
        self.file
            .try_clone()
            .map_err(|source| socket::system_error(&self.device, "open a queue", source))
    }

    fn ask(
        &self,
        request: libc::Ioctl,
        value: libc::c_ulong,
        what: &'static str,
    ) -> Result<(), PortError> {
        // SAFETY: TUNSETOFFLOAD and TUNSETPERSIST, the requests made here, take their argument as a number
        // and access no memory of this process.
        let rc = unsafe { libc::ioctl(self.file.as_raw_fd(), request, value) };
        if rc < 0 { Err(socket::last_error(&self.device, what)) } else { Ok(()) }
    }
}

/// The receive queue of a [`TapPort`].
#[derive(Debug)]
pub struct TapRx {
    device: String,
    file: File,
    /// The empty packet of the last read that failed.
    spare: Option<Packet>,
    backlog: Backlog,
    rx_drops: Arc<AtomicU64>,
}

impl RxQueue for TapRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        self.backlog.continue_with(pool, batch);
        // Bounded, so that frames that are dropped cannot keep the worker here.
        for _ in 0..BATCH_SIZE.min(batch.remaining_capacity()) {
            if batch.is_full() {
                break;
            }
            let mut packet = self.spare.take().unwrap_or_else(|| pool.take());
            let mut header = [0; vnet::HEADER_BYTES];
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(packet.receive_area())];
            let read = self.file.read_vectored(&mut parts);
            match read {
                Ok(bytes) => {
                    let frame_bytes = bytes.saturating_sub(vnet::HEADER_BYTES);
                    packet.set_received(frame_bytes, Offload::default());
                    if let Some(received) = vnet::decode(&header, 0, &mut packet) {
                        self.backlog.receive(packet, received, batch);
                        self.backlog.continue_with(pool, batch);
                    } else {
                        self.rx_drops.fetch_add(1, Ordering::Relaxed);
                        self.spare = Some(packet);
                    }
                }
                Err(error) => {
                    self.spare = Some(packet);
                    return match error.raw_os_error() {
                        Some(libc::EAGAIN | libc::EINTR) => Ok(()),
                        // Detached (EBADFD) or unregistered (EIO): the device was removed.
                        Some(libc::EBADFD | libc::EIO) => {
                            Err(PortError::Gone { device: self.device.clone() })
                        }
                        // The frame has no vnet header; the kernel dropped it.
                        Some(libc::EINVAL) => {
                            self.rx_drops.fetch_add(1, Ordering::Relaxed);
                            Ok(())
                        }
                        _ => Err(socket::system_error(&self.device, "receive", error)),
                    };
                }
            }
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }
}

/// A transmit queue of a [`TapPort`].
#[derive(Debug)]
pub struct TapTx {
    file: File,
}

impl TxQueue for TapTx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        // The device takes frames of any length, so its MTU does not matter.
        let merge = Merge::of(batch, || usize::MAX);
        for (index, packet) in batch.iter().enumerate() {
            if !merge.begins_frame(index) {
                continue;
            }
            let header = vnet::encode(packet);
            let mut parts = [IoSlice::new(&[]); BATCH_SIZE + 1];
            parts[0] = IoSlice::new(&header);
            let (mut packets, mut bytes) = (0, 0);
            for ((part, packet), slot) in merge.parts(batch, index).zip(&mut parts[1..]) {
                *slot = IoSlice::new(part);
                packets += 1;
                bytes += packet.len() as u64;
            }
            match self.file.write_vectored(&parts[..=packets]) {
                Ok(_) => {
                    counters.packets += packets as u64;
                    counters.bytes += bytes;
                }
                // The queue is full, or the device is down (EIO), as a device that was not brought up yet
                // usually is.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EIO)) => {
                    counters.dropped += packets as u64;
                }
                Err(_) => counters.errors += packets as u64,
            }
        }
        for packet in batch.drain(..) {
            pool.give(packet);
        }
        counters
    }
}

fn explain_open(device: &str, source: io::Error) -> PortError {
    match source.kind() {
        io::ErrorKind::NotFound => PortError::Invalid {
            device: device.to_owned(),
            reason: "/dev/net/tun is not there; load the kernel module 'tun'".to_owned(),
        },
        _ => PortError::System { device: device.to_owned(), what: "open /dev/net/tun", source },
    }
}

fn explain_attach(device: &str, source: io::Error) -> PortError {
    let reason = match source.raw_os_error() {
        Some(libc::EINVAL) => "a device of this name exists and is not a TAP device",
        Some(libc::EBUSY) => "the TAP device is in use by another program",
        Some(libc::EPERM) => "TAP devices need CAP_NET_ADMIN; run as root or grant it",
        _ => return socket::system_error(device, "attach to the TAP device", source),
    };
    PortError::Invalid { device: device.to_owned(), reason: reason.to_owned() }
}
