//! Information from a device's driver (Linux: `include/uapi/linux/ethtool.h`).

use crate::socket;
use std::os::fd::AsRawFd;

const ETHTOOL_GSET: u32 = 0x1;
const ETHTOOL_GDRVINFO: u32 = 0x3;
const DRVINFO_BYTES: usize = 196;
const SETTINGS_BYTES: usize = 44;

/// A driver and its versions, as `ethtool -i` shows them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Driver {
    /// The driver's name, such as `veth`.
    pub name: String,
    /// The driver's version.
    pub version: String,
    /// The device's firmware version.
    pub firmware_version: String,
}

/// The duplex mode of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duplex {
    /// One at a time.
    Half,
    /// Both at once.
    Full,
}

/// Returns the driver, its version and the device's firmware version (`struct ethtool_drvinfo`).
pub(crate) fn driver(device: &str) -> Option<Driver> {
    let answer = ask::<DRVINFO_BYTES>(device, ETHTOOL_GDRVINFO)?;
    Some(Driver {
        name: text(&answer, 4),
        version: text(&answer, 36),
        firmware_version: text(&answer, 68),
    })
}

/// Returns speed in Mbit/s and duplex, if the driver reports them (`struct ethtool_cmd`).
pub(crate) fn speed_and_duplex(device: &str) -> (Option<u32>, Option<Duplex>) {
    let Some(answer) = ask::<SETTINGS_BYTES>(device, ETHTOOL_GSET) else { return (None, None) };
    let half = |at: usize| u32::from(u16::from_ne_bytes([answer[at], answer[at + 1]]));
    let speed = half(28) << 16 | half(12);
    let duplex = match answer[14] {
        0 => Some(Duplex::Half),
        1 => Some(Duplex::Full),
        _ => None,
    };
    // SPEED_UNKNOWN is all ones, in either width.
    (Some(speed).filter(|s| !matches!(s, 0 | 0xffff | 0xffff_ffff)), duplex)
}

/// A buffer for the largest answer, aligned for the kernel's 32-bit fields.
#[repr(C, align(8))]
struct Answer<const BYTES: usize>([u8; BYTES]);

/// Makes a request whose answer has `BYTES` bytes. Returns `None` if the driver does not support it.
fn ask<const BYTES: usize>(device: &str, command: u32) -> Option<[u8; BYTES]> {
    let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0).ok()?;
    let mut request = socket::device_request(device).ok()?;
    let mut answer = Answer([0; BYTES]);
    answer.0.get_mut(..4)?.copy_from_slice(&command.to_ne_bytes());
    request.ifr_ifru.ifru_data = (&raw mut answer).cast();
    // SAFETY: SIOCETHTOOL reads the request and, for the two commands used here, writes exactly their
    // structure, whose size is BYTES, to the answer; both locals live until the call returns.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    (rc == 0).then_some(answer.0)
}

/// Returns the text of a 32-byte field.
fn text(answer: &[u8], at: usize) -> String {
    let field = answer.get(at..at + 32).unwrap_or_default();
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
