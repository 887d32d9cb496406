//! The socket calls and device requests that the safe crates do not have.

use port::PortError;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Returns the error for a system call on `device` that has just failed.
pub(crate) fn last_error(device: &str, what: &'static str) -> PortError {
    system_error(device, what, io::Error::last_os_error())
}

/// Returns the error for a system call on `device` that failed with `source`.
pub(crate) fn system_error(device: &str, what: &'static str, source: io::Error) -> PortError {
    if source.raw_os_error().is_some_and(is_gone) {
        PortError::Gone { device: device.to_owned() }
    } else {
        PortError::System { device: device.to_owned(), what, source }
    }
}

/// Returns whether an error number means that the device does not exist (any more).
pub(crate) fn is_gone(errno: i32) -> bool {
    matches!(errno, libc::ENXIO | libc::ENODEV)
}

/// Opens a socket that closes on exec.
pub(crate) fn open(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket() takes only numbers; the descriptor it returns is new and has no other owner.
    unsafe {
        let fd = libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Sets a socket option to a plain value.
pub(crate) fn set_option<T: Copy>(
    socket: impl AsFd,
    level: i32,
    option: i32,
    value: T,
) -> io::Result<()> {
    // SAFETY: setsockopt() reads size_of::<T>() bytes from a reference that lives until it returns; the
    // descriptor is borrowed, so open.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets a socket's buffer to the requested size, or to the largest that an ordinary user may have.
pub(crate) fn set_buffer(
    socket: impl AsFd + Copy,
    forced_option: i32,
    option: i32,
    bytes: i32,
) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, forced_option, bytes)
        .or_else(|_| set_option(socket, libc::SOL_SOCKET, option, bytes))
}

/// Returns a device request with the device's name; the rest is zero.
pub(crate) fn device_request(device: &str) -> Result<libc::ifreq, PortError> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: 0 },
    };
    let wrong = match device.len() {
        // Controllers look for the text of ENAMETOOLONG (ovs: `lib/netdev-linux.c`).
        libc::IFNAMSIZ.. => Some("File name too long: a device's name has at most 15 bytes"),
        0 => Some("a device's name cannot be empty"),
        _ if device.contains(['\0', '/']) => Some("a device's name has no '/'"),
        _ => None,
    };
    if let Some(reason) = wrong {
        return Err(PortError::Invalid { device: device.to_owned(), reason: reason.to_owned() });
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Returns the name in a device request that the kernel filled.
pub(crate) fn request_name(request: &libc::ifreq) -> String {
    let bytes: Vec<u8> = request.ifr_name.iter().map(|&byte| byte as u8).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Returns the index of a device in this thread's network namespace.
pub(crate) fn device_index(device: &str) -> Result<i32, PortError> {
    let mut request = device_request(device)?;
    let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)
        .map_err(|source| system_error(device, "open a socket", source))?;
    // SAFETY: SIOCGIFINDEX reads the name from a request that lives until the call returns and writes the
    // index to it.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX, &raw mut request) };
    if rc < 0 {
        return Err(last_error(device, "find the device"));
    }
    // SAFETY: after SIOCGIFINDEX succeeded, the index is the union's valid member.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// Returns the MTU of a device in the socket's network namespace. The kernel takes no lock to answer.
pub(crate) fn mtu(socket: &OwnedFd, device: &str) -> Option<usize> {
    let mut request = device_request(device).ok()?;
    // SAFETY: SIOCGIFMTU reads the name from a request that lives until the call returns and writes the MTU to
    // it.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) };
    if rc < 0 {
        return None;
    }
    // SAFETY: after SIOCGIFMTU succeeded, the MTU is the union's valid member.
    usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_device_can_have_are_refused_and_missing_devices_are_gone() {
        for bad in ["", "sixteen-bytes-xx", "a/b", "a\0b"] {
            assert!(matches!(device_index(bad), Err(PortError::Invalid { .. })), "{bad:?}");
        }
        assert!(matches!(device_index("tport-missing"), Err(PortError::Gone { .. })));
        assert_eq!(device_index("lo").unwrap(), 1);
    }
}
