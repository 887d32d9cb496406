//! Properties of a device that are needed to open it as a port, and its promiscuous mode.

use port::PortError;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// The properties of a device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ifindex: u32,
    pub(crate) mtu: u32,
    /// Whether received frames may have partial checksums without saying so: a veth passes them as its peer's
    /// host sent them.
    pub(crate) leaves_checksums: bool,
    /// Number of receive queues, if the driver reports it.
    pub(crate) queues: Option<u32>,
}

impl Device {
    /// Returns the properties of a device in this thread's network namespace.
    pub(crate) fn look(name: &str) -> Result<Device, PortError> {
        let failed = |what| move |source: io::Error| system_error(name, what, source);
        let mut asked = request(name)?;
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                .map_err(|e| failed("open a socket")(e.into()))?;
        let ifindex = netdevice::name_to_index(&socket, name)
            .map_err(|e| failed("find the device")(e.into()))?;
        // SAFETY: SIOCGIFMTU reads the name from a request that lives until the call returns and writes the
        // MTU to it.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut asked) } < 0 {
            return Err(failed("read the MTU")(io::Error::last_os_error()));
        }
        // SAFETY: after SIOCGIFMTU succeeded, the MTU is the union's valid member.
        let mtu = unsafe { asked.ifr_ifru.ifru_mtu };
        let driver = ask::<49>(&socket, name, ETHTOOL_GDRVINFO);
        // After the command: the driver's name, 32 bytes (struct ethtool_drvinfo).
        let leaves_checksums = driver
            .map(|words| words[1].to_ne_bytes() == *b"veth" && words[2].to_ne_bytes()[0] == 0);
        // After the command and four maxima: receive, transmit, other and combined queues (struct
        // ethtool_channels).
        let channels = ask::<9>(&socket, name, ETHTOOL_GCHANNELS);
        Ok(Device {
            ifindex,
            mtu: mtu.unsigned_abs(),
            leaves_checksums: leaves_checksums.unwrap_or(false),
            queues: channels.map(|words| words[5] + words[8]).filter(|count| *count > 0),
        })
    }
}

/// Keeps a device promiscuous while the descriptor is open: a switch's port receives frames for any
/// destination.
pub(crate) fn make_promiscuous(name: &str, ifindex: u32) -> Result<OwnedFd, PortError> {
    let kind = (SocketType::RAW, SocketFlags::CLOEXEC);
    // Without a protocol it receives no frames.
    let socket = socket_with(AddressFamily::PACKET, kind.0, kind.1, None)
        .map_err(|e| system_error(name, "open a packet socket", e.into()))?;
    let membership = libc::packet_mreq {
        mr_ifindex: ifindex as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: setsockopt() reads one packet_mreq from a local that lives until it returns.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const membership).cast(),
            size_of::<libc::packet_mreq>() as libc::socklen_t,
        )
    };
    match rc {
        0 => Ok(socket),
        _ => Err(system_error(name, "make the device promiscuous", io::Error::last_os_error())),
    }
}

fn system_error(name: &str, what: &'static str, source: io::Error) -> PortError {
    let device = name.to_owned();
    match source.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => PortError::Gone { device },
        Some(libc::EPERM | libc::EACCES) => PortError::Invalid {
            device,
            reason: "packet sockets need CAP_NET_RAW; run as root or grant it".to_owned(),
        },
        _ => PortError::System { device, what, source },
    }
}

/// Returns a device request with the name; the rest is zero.
fn request(name: &str) -> Result<libc::ifreq, PortError> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_mtu: 0 },
    };
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['\0', '/']) {
        return Err(PortError::Invalid {
            device: name.to_owned(),
            reason: "not a device name: 1 to 15 bytes without '/'".to_owned(),
        });
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Makes a driver request whose answer has `WORDS` words. Returns `None` if the driver does not support it.
fn ask<const WORDS: usize>(socket: &OwnedFd, name: &str, command: u32) -> Option<[u32; WORDS]> {
    let mut request = request(name).ok()?;
    let mut answer = [0; WORDS];
    *answer.first_mut()? = command;
    request.ifr_ifru.ifru_data = (&raw mut answer).cast();
    // SAFETY: SIOCETHTOOL reads the request and, for the two commands used here, writes exactly their
    // structure, whose size is WORDS words, to the answer; both locals live until the call returns.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    (rc == 0).then_some(answer)
}
