//! What must be known of a device before it becomes a port, and the little that is set.

use port::PortError;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// A device's facts.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ifindex: u32,
    pub(crate) mtu: u32,
    /// Whether frames may come with checksums left undone, and do not say so: a veth hands over
    /// what its peer's host gave it, as it is.
    pub(crate) leaves_checksums: bool,
    /// How many receive queues it has, where its driver says.
    pub(crate) queues: Option<u32>,
}

impl Device {
    /// Looks at a device of this thread's network namespace.
    pub(crate) fn look(name: &str) -> Result<Device, PortError> {
        let failed = |what| move |source: io::Error| system_error(name, what, source);
        let mut asked = request(name)?;
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                .map_err(|e| failed("open a socket")(e.into()))?;
        let ifindex = netdevice::name_to_index(&socket, name)
            .map_err(|e| failed("find the device")(e.into()))?;
        // SAFETY: SIOCGIFMTU reads the name in a request that lives until the call returns and
        // writes the MTU into it.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut asked) } < 0 {
            return Err(failed("read the MTU")(io::Error::last_os_error()));
        }
        // SAFETY: after SIOCGIFMTU succeeded, the MTU is the union's valid member.
        let mtu = unsafe { asked.ifr_ifru.ifru_mtu };
        let driver = ask::<49>(&socket, name, ETHTOOL_GDRVINFO);
        // Behind the command: the driver's name, 32 bytes (struct ethtool_drvinfo).
        let leaves_checksums = driver
            .map(|words| words[1].to_ne_bytes() == *b"veth" && words[2].to_ne_bytes()[0] == 0);
        // Behind the command and four maxima: receive, transmit, other and combined queues
        // (struct ethtool_channels).
        let channels = ask::<9>(&socket, name, ETHTOOL_GCHANNELS);
        Ok(Device {
            ifindex,
            mtu: mtu.unsigned_abs(),
            leaves_checksums: leaves_checksums.unwrap_or(false),
            queues: channels.map(|words| words[5] + words[8]).filter(|count| *count > 0),
        })
    }
}

/// Keeps a device promiscuous while it is open: a switch's port receives what is addressed to
/// others.
pub(crate) fn make_promiscuous(name: &str, ifindex: u32) -> Result<OwnedFd, PortError> {
    let kind = (SocketType::RAW, SocketFlags::CLOEXEC);
    // Without a protocol it receives nothing.
    let socket = socket_with(AddressFamily::PACKET, kind.0, kind.1, None)
        .map_err(|e| system_error(name, "open a packet socket", e.into()))?;
    let membership = libc::packet_mreq {
        mr_ifindex: ifindex as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: setsockopt() reads one packet_mreq at a local that lives until it returns.
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

/// A device request with the name filled in and the rest zero.
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

/// Asks the driver something whose answer has `WORDS` words; None where it has no answer.
fn ask<const WORDS: usize>(socket: &OwnedFd, name: &str, command: u32) -> Option<[u32; WORDS]> {
    let mut request = request(name).ok()?;
    let mut answer = [0; WORDS];
    *answer.first_mut()? = command;
    request.ifr_ifru.ifru_data = (&raw mut answer).cast();
    // SAFETY: SIOCETHTOOL reads the request and, for the two commands asked here, writes exactly
    // their structure, whose size is WORDS words, into the answer; both locals live until the
    // call returns.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    (rc == 0).then_some(answer)
}
