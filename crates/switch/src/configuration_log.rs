//! What the log says of the configuration, in the words that Open vSwitch's tests and tools look for.

use base::OfPort;
use log::Level;

/// Why an interface of a reserved name is not there. The log tells it; the database tells only that there
/// is no port, as Open vSwitch's does.
pub const RESERVED: &str = "";

/// Names that no interface may have: those of datapaths and, with Open vSwitch, of the devices behind its
/// tunnels (ovs: `ofproto/ofproto-dpif.c`, `init`).
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

/// Whether no interface may have this name.
pub fn is_reserved(name: &str) -> bool {
    NAMES.contains(&name)
}

/// An interface that was added to a bridge, or could not be.
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

/// A setting that is not taken as it stands.
pub fn warning(text: &str) {
    // A bridge whose identifier is no good has another one, as Open vSwitch's has without a word.
    let level = if text.contains("datapath-id") { Level::Info } else { Level::Warn };
    log::log!(target: "bridge", level, "{text}");
}
