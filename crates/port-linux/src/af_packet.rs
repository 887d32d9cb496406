//! A network device of the system as a port, through AF_PACKET sockets (packet(7)).
//!
//! The receiving socket gets every frame that the device receives, whatever its destination, but none that
//! this machine sends through it. VLAN tags that the kernel removed are restored, and partial checksums and
//! segmentation are passed on in [`packet::Offload`].
//!
//! Sending uses the device's queueing discipline. `PACKET_QDISC_BYPASS` would drop every frame that the
//! device cannot send unchanged: each GSO frame on a card without TSO, and each frame while a card's ring is
//! full. On veth, which has no queueing discipline, it would save little.

mod auxiliary;
mod drops;
mod receive;
mod send;

pub use drops::PacketRxDrops;
pub use receive::PacketRx;
pub use send::PacketTx;

use crate::socket;
use drops::DropCounter;
use port::PortError;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Size of the receive buffer, in bytes. A 64 KB frame is charged with its buffers, so this holds about 200
/// of them.
const RECEIVE_BUFFER_BYTES: i32 = 16 << 20;
/// Size of the send buffer, in bytes.
const SEND_BUFFER_BYTES: i32 = 4 << 20;

/// A network device as a port.
///
/// The device is promiscuous while the port has a receive queue. All methods work in the network namespace of the
/// calling thread; the queues work from any thread.
#[derive(Debug)]
pub struct PacketPort {
    device: String,
    ifindex: i32,
    drops: DropCounter,
}

impl PacketPort {
    /// Finds the device, which may be down, and checks that it is an Ethernet device and that this process
    /// may use it.
    pub fn open(device: &str) -> Result<PacketPort, PortError> {
        let (ifindex, drops) = (socket::device_index(device)?, DropCounter::default());
        let port = PacketPort { device: device.to_owned(), ifindex, drops };
        let link = crate::Links::open()?.by_name(device)?;
        if !link.is_ethernet {
            return Err(PortError::Invalid {
                device: device.to_owned(),
                reason: "not an Ethernet device; attach one that is".to_owned(),
            });
        }
        drop(port.open_socket()?);
        Ok(port)
    }

    /// Returns the device's name.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Returns the device's index in its network namespace.
    pub fn ifindex(&self) -> i32 {
        self.ifindex
    }

    /// Returns the receive queue. A port has only one: a second one would receive every frame again.
    pub fn rx(&self) -> Result<PacketRx, PortError> {
        let failed = |what| move |source| socket::system_error(&self.device, what, source);
        let fd = self.open_socket()?;
        socket::set_option(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1i32)
            .map_err(failed("ask for VLAN tags"))?;
        socket::set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1i32)
            .map_err(failed("leave out sent frames"))?;
        let membership = libc::packet_mreq {
            mr_ifindex: self.ifindex,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket::set_option(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, membership)
            .map_err(failed("make the device promiscuous"))?;
        socket::set_buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            .map_err(failed("size the receive buffer"))?;
        let refusals = self.drops.watch(&fd).map_err(failed("count drops"))?;
        // This is the last step, because from here on frames arrive.
        self.bind(&fd, libc::ETH_P_ALL as u16).map_err(failed("bind to the device"))?;
        Ok(PacketRx::new(fd, self.device.clone(), refusals))
    }

    /// Returns the frames that the receive queue dropped since the port was opened. The counters of the device
    /// do not include them.
    pub fn rx_drops(&self) -> PacketRxDrops {
        self.drops.read()
    }

    /// Returns the number of VLAN tags of the frames that the receive queue took since the port was opened: of each
    /// the tag that the kernel passed beside it, and one more behind that.
    pub fn tags(&self) -> u64 {
        self.drops.tags()
    }

    /// Returns a transmit queue with a socket of its own. Any number may be open.
    pub fn tx(&self) -> Result<PacketTx, PortError> {
        let failed = |what| move |source| socket::system_error(&self.device, what, source);
        let fd = self.open_socket()?;
        socket::set_buffer(&fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER_BYTES)
            .map_err(failed("size the send buffer"))?;
        // Protocol 0 receives no frames.
        self.bind(&fd, 0).map_err(failed("bind to the device"))?;
        Ok(PacketTx::new(fd, self.device.clone()))
    }

    /// Opens a socket with vnet headers that receives no frames yet: with another protocol than 0 it would
    /// receive frames of all devices until it is bound.
    fn open_socket(&self) -> Result<OwnedFd, PortError> {
        let fd = socket::open(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)
            .map_err(|source| self.explain_permission(source))?;
        socket::set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1i32)
            .map_err(|source| socket::system_error(&self.device, "ask for vnet headers", source))?;
        Ok(fd)
    }

    fn explain_permission(&self, source: io::Error) -> PortError {
        if source.kind() == io::ErrorKind::PermissionDenied {
            return PortError::Invalid {
                device: self.device.clone(),
                reason: "packet sockets need CAP_NET_RAW; run as root or grant it".to_owned(),
            };
        }
        socket::system_error(&self.device, "open a packet socket", source)
    }

    fn bind(&self, fd: &OwnedFd, protocol: u16) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: self.ifindex,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: bind() reads one sockaddr_ll from a local that lives until it returns; the descriptor is
        // open.
        let rc = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
