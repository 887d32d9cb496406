//! The configuration of a port.

#[cfg(feature = "dpdk")]
use std::{os::unix::fs::FileTypeExt, os::unix::net::UnixStream, path::Path};

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

    /// Whether it is DPDK's own vhost-user device, whose library writes beyond its memory for a hostile guest.
    #[cfg(any(feature = "dpdk", test))]
    pub(crate) fn is_vhost(&self) -> bool {
        self.devargs.starts_with("net_vhost") || self.devargs.starts_with("eth_vhost")
    }
}

/// Removes a socket without a listener: a killed process has left it, and DPDK would take it for one in use.
#[cfg(feature = "dpdk")]
pub(crate) fn remove_left_socket(path: &Path) {
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
    fn the_vhost_device_of_dpdk_is_recognised() {
        assert!(DpdkConfig::new("net_vhost0,iface=/a").is_vhost());
        assert!(DpdkConfig::new("eth_vhost0,iface=/a").is_vhost());
        assert!(!DpdkConfig::new("0000:01:00.0").is_vhost());
    }

    #[cfg(feature = "dpdk")]
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
