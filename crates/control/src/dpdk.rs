//! The configuration of DPDK (`dpdk-` and `vhost-` options) and of its ports.

use crate::{Interface, InterfaceKind};
use port_dpdk::EalOptions;
use std::path::PathBuf;

/// Whether DPDK is started, and its options (`Open_vSwitch.other_config`). DPDK itself checks the texts. They
/// take effect once, because DPDK cannot be restarted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DpdkOptions {
    /// Whether DPDK is started (`dpdk-init`).
    pub init: DpdkInit,
    /// The options of its start.
    pub eal: EalOptions,
    /// Directory of the sockets of `dpdkvhostuser` ports, relative to the run directory (`vhost-sock-dir`).
    pub vhost_socket_dir: Option<String>,
}

/// Whether DPDK is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DpdkInit {
    /// No.
    #[default]
    No,
    /// If possible (`try`): a failure is a warning.
    Try,
    /// Yes (`true`): a failure is an error. The switch continues without DPDK.
    Yes,
}

/// The configuration of a DPDK port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DpdkInterface {
    /// The device that DPDK has probed, or plugs in, by these arguments (`dpdk-devargs`).
    pub devargs: String,
    /// Receive queues (`n_rxq`).
    pub rx_queues: u16,
    /// Descriptors of each receive queue (`n_rxq_desc`).
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue (`n_txq_desc`).
    pub tx_descriptors: u16,
}

/// The configuration of a port of a guest behind vhost-user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VhostInterface {
    /// Path of the socket that the guest's side creates (`vhost-server-path`); `None` if the guest connects to a
    /// socket of the switch, named like the port.
    pub server_path: Option<PathBuf>,
    /// Receive queues (`n_rxq`).
    pub rx_queues: u16,
    /// Retries when a guest accepts only part of a burst (`tx-retries-max`).
    pub tx_retries: u16,
}

/// Default and maximum number of descriptors per queue (ovs: `lib/netdev-dpdk.c`,
/// `NIC_PORT_DEFAULT_RXQ_SIZE`, `NIC_PORT_MAX_Q_SIZE`).
const DESCRIPTORS: u16 = 2048;
const DESCRIPTORS_MAX: u16 = 4096;
/// Default and maximum number of retries (ovs: `lib/netdev-dpdk.c`, `VHOST_ENQ_RETRY_DEF`, `VHOST_ENQ_RETRY_MAX`).
const TX_RETRIES: u16 = 8;
const TX_RETRIES_MAX: u16 = 32;

impl DpdkOptions {
    /// Reads the options. `get` returns the value for a name, given in the database's and in the file's form.
    pub(crate) fn read(mut get: impl FnMut(&'static str, &'static str) -> Option<String>) -> Self {
        let init = get("dpdk-init", "dpdk_init").unwrap_or_default();
        DpdkOptions {
            init: match init.to_ascii_lowercase().as_str() {
                "true" => DpdkInit::Yes,
                "try" => DpdkInit::Try,
                _ => DpdkInit::No,
            },
            eal: EalOptions {
                socket_mem: get("dpdk-socket-mem", "dpdk_socket_mem"),
                alloc_mem: get("dpdk-alloc-mem", "dpdk_alloc_mem"),
                socket_limit: get("dpdk-socket-limit", "dpdk_socket_limit"),
                lcore_mask: get("dpdk-lcore-mask", "dpdk_lcore_mask"),
                hugepage_dir: get("dpdk-hugepage-dir", "dpdk_hugepage_dir"),
                extra: get("dpdk-extra", "dpdk_extra"),
            },
            vhost_socket_dir: get("vhost-sock-dir", "vhost_sock_dir"),
        }
    }
}

impl DpdkInterface {
    /// Returns the DPDK port of an interface's options; `None` if it is not a DPDK port.
    ///
    /// # Errors
    /// A required option is missing; the text names it.
    pub fn of(interface: &Interface) -> Option<Result<Self, String>> {
        if interface.kind != InterfaceKind::Dpdk {
            return None;
        }
        let name = &interface.name;
        let option = |key: &str| option(interface, key);
        let devargs = option("dpdk-devargs").cloned().ok_or_else(|| {
            format!(
                "'{name}' is missing 'options:dpdk-devargs'. The old 'dpdk<port_id>' names are not \
                 supported"
            )
        });
        let descriptors = |key: &str| {
            let number: Option<u16> = option(key).and_then(|text| text.parse().ok());
            // As in Open vSwitch, an invalid number is replaced by the default.
            number.filter(|n| n.is_power_of_two() && *n <= DESCRIPTORS_MAX).unwrap_or(DESCRIPTORS)
        };
        Some(devargs.map(|devargs| DpdkInterface {
            devargs,
            rx_queues: rx_queues(interface),
            rx_descriptors: descriptors("n_rxq_desc"),
            tx_descriptors: descriptors("n_txq_desc"),
        }))
    }
}

impl VhostInterface {
    /// Returns the vhost-user port of an interface's options; `None` if it is not one.
    ///
    /// # Errors
    /// A required option is missing, or the name cannot be a socket's; the text names it.
    pub fn of(interface: &Interface) -> Option<Result<Self, String>> {
        let name = &interface.name;
        let server_path = match interface.kind {
            InterfaceKind::DpdkVhostUserClient => match option(interface, "vhost-server-path") {
                Some(path) => Ok(Some(PathBuf::from(path))),
                None => Err(format!("'{name}' is missing 'options:vhost-server-path'")),
            },
            InterfaceKind::DpdkVhostUser if name.contains(['/', '\\']) => Err(format!(
                "\"{name}\" is not a valid name for a vhost-user port; it becomes a file's, so it \
                 must not have '/' or '\\'"
            )),
            InterfaceKind::DpdkVhostUser => Ok(None),
            _ => return None,
        };
        let retries = option(interface, "tx-retries-max").and_then(|text| text.parse().ok());
        Some(server_path.map(|server_path| VhostInterface {
            server_path,
            rx_queues: rx_queues(interface),
            // As in Open vSwitch, an invalid number is replaced by the default.
            tx_retries: retries.filter(|retries| *retries <= TX_RETRIES_MAX).unwrap_or(TX_RETRIES),
        }))
    }
}

fn option<'a>(interface: &'a Interface, key: &str) -> Option<&'a String> {
    interface.options.get(key).filter(|value| !value.is_empty())
}

fn rx_queues(interface: &Interface) -> u16 {
    let asked: Option<u16> = option(interface, "n_rxq").and_then(|text| text.parse().ok());
    asked.unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: InterfaceKind, options: &[(&str, &str)], expect: Result<&str, &str>) {
        let mut interface = Interface::new("p0", kind);
        interface.options =
            options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let got = DpdkInterface::of(&interface).unwrap();
        let got = got.map(|d| {
            let numbers = (d.rx_queues, d.rx_descriptors, d.tx_descriptors);
            format!("{} {numbers:?}", d.devargs)
        });
        match expect {
            Ok(text) => assert_eq!(got.as_deref(), Ok(text)),
            Err(piece) => assert!(got.clone().unwrap_err().contains(piece), "{got:?}"),
        }
    }

    #[test]
    fn options_make_the_device() {
        use InterfaceKind::Dpdk;
        let args = ("dpdk-devargs", "net_null0");
        check(Dpdk, &[args], Ok("net_null0 (1, 2048, 2048)"));
        check(
            Dpdk,
            &[args, ("n_rxq", "4"), ("n_rxq_desc", "512"), ("n_txq_desc", "4096")],
            Ok("net_null0 (4, 512, 4096)"),
        );
        check(
            Dpdk,
            &[args, ("n_rxq", "0"), ("n_rxq_desc", "8192"), ("n_txq_desc", "100")],
            Ok("net_null0 (1, 2048, 2048)"),
        );
        check(Dpdk, &[], Err("missing 'options:dpdk-devargs'"));
        check(Dpdk, &[("dpdk-devargs", "")], Err("missing 'options:dpdk-devargs'"));
        assert_eq!(DpdkInterface::of(&Interface::new("p", InterfaceKind::System)), None);
        assert_eq!(DpdkInterface::of(&Interface::new("p", InterfaceKind::DpdkVhostUser)), None);
    }

    #[test]
    fn options_make_the_port_of_a_guest() {
        use InterfaceKind::{Dpdk, DpdkVhostUser, DpdkVhostUserClient};
        let path = ("vhost-server-path", "/a");
        let retries = |text| ("tx-retries-max", text);
        for (kind, options, expect) in [
            (DpdkVhostUserClient, vec![path], "Some(\"/a\") 1 8"),
            (DpdkVhostUserClient, vec![path, ("n_rxq", "2"), retries("0")], "Some(\"/a\") 2 0"),
            (DpdkVhostUser, vec![retries("32")], "None 1 32"),
            (DpdkVhostUser, vec![retries("33")], "None 1 8"),
            (DpdkVhostUser, vec![retries("-1"), ("n_rxq", "0")], "None 1 8"),
        ] {
            let mut interface = Interface::new("p0", kind);
            interface.options =
                options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let got = VhostInterface::of(&interface).unwrap().unwrap();
            let got = format!("{:?} {} {}", got.server_path, got.rx_queues, got.tx_retries);
            assert_eq!(got, expect, "{options:?}");
        }
        for wrong in
            [Interface::new("p", DpdkVhostUserClient), Interface::new("a/b", DpdkVhostUser)]
        {
            assert!(VhostInterface::of(&wrong).unwrap().is_err(), "{}", wrong.name);
        }
        assert_eq!(VhostInterface::of(&Interface::new("p", Dpdk)), None);
    }

    #[test]
    fn dpdk_is_started_only_where_that_is_said() {
        for (text, init) in [
            (None, DpdkInit::No),
            (Some("false"), DpdkInit::No),
            (Some("yes"), DpdkInit::No),
            (Some("TRUE"), DpdkInit::Yes),
            (Some("try"), DpdkInit::Try),
        ] {
            let get = |key: &str, _: &str| text.filter(|_| key == "dpdk-init").map(str::to_owned);
            assert_eq!(DpdkOptions::read(get).init, init, "{text:?}");
        }
        let options = DpdkOptions::read(|key, _| Some(key.to_owned()));
        assert_eq!(options.eal.extra.as_deref(), Some("dpdk-extra"));
        assert_eq!(options.vhost_socket_dir.as_deref(), Some("vhost-sock-dir"));
    }
}
