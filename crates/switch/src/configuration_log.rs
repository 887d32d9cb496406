//! Log messages about the configuration, in the words that Open vSwitch's tests and tools look for.

use base::OfPort;
use log::Level;

/// The error of an interface with a reserved name. It is logged; as in Open vSwitch, the database only shows
/// that there is no port.
pub const RESERVED: &str = "";

/// Reserved names: those of datapaths and, in Open vSwitch, of the devices of its tunnels (ovs:
/// `ofproto/ofproto-dpif.c`, `init`).
const NAMES: [&str; 8] = [
    "ovs-netdev",
    "ovs-dummy",
    "genev_sys",
    "gre_sys",
    "lisp_sys",
    "vxlan_sys",
    "gtpu_sys",
    "srv6_sys",
];

/// Returns whether the name is reserved.
pub fn is_reserved(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Logs that an interface was added to a bridge, or could not be.
pub fn interface(bridge: &str, name: &str, state: &Result<OfPort, String>) {
    match state {
        Ok(number) => {
            let number = number.0;
            log::info!(target: "bridge", "bridge {bridge}: added interface {name} on port {number}");
        }
        Err(error) if error == RESERVED => {
            log::warn!(target: "bridge", "could not create interface {name}, name is reserved");
        }
        Err(error) => log::warn!(target: "bridge", "{error}"),
    }
}

/// Logs a setting that is not used as it is.
pub fn warning(text: &str) {
    // An invalid datapath id is replaced, which Open vSwitch does without a warning.
    let level = if text.contains("datapath-id") { Level::Info } else { Level::Warn };
    log::log!(target: "bridge", level, "{text}");
}
