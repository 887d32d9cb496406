//! The configuration of a port.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Default number of descriptors per queue (ovs: `lib/netdev-dpdk.c`, `NIC_PORT_DEFAULT_RXQ_SIZE`).
pub const DEFAULT_DESCRIPTORS: u16 = 2048;

/// The configuration of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DpdkConfig {
    /// The device by DPDK's name: a PCI address, a virtual device with its arguments, or "class=eth,mac=" and
    /// an address (`options:dpdk-devargs`).
    pub devargs: String,
    /// Receive queues (`options:n_rxq`); a device with fewer gets fewer.
    pub rx_queues: u16,
    /// Descriptors of each receive queue (`options:n_rxq_desc`).
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue (`options:n_txq_desc`).
    pub tx_descriptors: u16,
    /// The MTU, in bytes of IP packet (`mtu_request`); `None` keeps the device's own.
    pub mtu: Option<u32>,
}

impl DpdkConfig {
    /// A device with one receive queue and the defaults.
    pub fn new(devargs: impl Into<String>) -> Self {
        DpdkConfig {
            devargs: devargs.into(),
            rx_queues: 1,
            rx_descriptors: DEFAULT_DESCRIPTORS,
            tx_descriptors: DEFAULT_DESCRIPTORS,
            mtu: None,
        }
    }

    /// The socket of a vhost-user device.
    #[cfg(feature = "dpdk")]
    pub(crate) fn vhost_socket(&self) -> Option<&str> {
        let mut arguments = self.devargs.split(',').filter(|_| self.is_vhost());
        arguments.find_map(|argument| argument.strip_prefix("iface="))
    }

    /// Whether it is a vhost-user device. Its other side is a guest, which may be slow for a moment.
    #[cfg(any(feature = "dpdk", test))]
    pub(crate) fn is_vhost(&self) -> bool {
        self.devargs.starts_with("net_vhost") || self.devargs.starts_with("eth_vhost")
    }
}

/// Which side creates the socket of a vhost-user port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VhostRole {
    /// The guest's side; the switch connects, and reconnects whenever that side returns.
    Client,
    /// The switch.
    Server,
}

/// The device arguments of a vhost-user port; `number` distinguishes the devices of a process.
///
/// # Errors
/// DPDK cannot parse such a path.
pub fn vhost_devargs(
    number: u32,
    socket: &Path,
    role: VhostRole,
    queues: u16,
) -> Result<String, String> {
    /// Maximum length of a socket's path, including the terminating zero (unix(7)).
    const PATH_BYTES: usize = 108;
    let shown = socket.display();
    let Some(path) = socket.to_str() else {
        return Err(format!("the path of the socket, {shown}, is not UTF-8; use another"));
    };
    if path.len() >= PATH_BYTES {
        return Err(format!("the path of the socket, {shown}, is longer than 107 bytes"));
    }
    if path.is_empty() || path.contains([',', '=', '[', ']', '(', ')', '\'', '"']) {
        return Err(format!(
            "\"{shown}\" cannot be the path of a socket here; use one without commas, equals \
             signs, quotes and brackets"
        ));
    }
    let client = u8::from(role == VhostRole::Client);
    let queues = queues.max(1);
    Ok(format!("net_vhost_tidegate{number},iface={path},queues={queues},client={client}"))
}

/// Removes a socket without a listener: a killed process has left it, and DPDK would take it for one in use.
pub fn remove_left_socket(path: &Path) {
    let is_socket = path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        // If this fails, DPDK reports the error.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_become_devices() {
        let args = vhost_devargs(3, Path::new("/run/a.sock"), VhostRole::Client, 2);
        assert_eq!(args.unwrap(), "net_vhost_tidegate3,iface=/run/a.sock,queues=2,client=1");
        let args = vhost_devargs(0, Path::new("a"), VhostRole::Server, 0);
        assert_eq!(args.unwrap(), "net_vhost_tidegate0,iface=a,queues=1,client=0");
        for bad in ["", "/a,b", "/a=b", "/a[0]", &"a".repeat(108)] {
            assert!(vhost_devargs(0, Path::new(bad), VhostRole::Client, 1).is_err(), "{bad}");
        }
        assert!(DpdkConfig::new("net_vhost0,iface=/a").is_vhost());
        assert!(!DpdkConfig::new("0000:01:00.0").is_vhost());
    }

    #[test]
    fn only_sockets_that_nobody_listens_at_are_removed() {
        use std::os::unix::net::UnixListener;
        let folder = tempfile::tempdir().unwrap();
        let [left, used, file] = ["left", "used", "file"].map(|name| folder.path().join(name));
        drop(UnixListener::bind(&left).unwrap());
        let listener = UnixListener::bind(&used).unwrap();
        std::fs::write(&file, "text").unwrap();
        for path in [&left, &used, &file, &folder.path().join("nosuch")] {
            remove_left_socket(path);
        }
        assert!(!left.exists() && used.exists() && file.exists());
        drop(listener);
    }
}
