//! What an interface keeps of the protocols that monitor it.

use flow::MonitorId;
use ofproto::Monitored;
use std::collections::BTreeMap;

/// What an interface keeps of its monitor.
#[derive(Clone, Debug)]
pub struct PortMonitor {
    /// The number of its machines, if it has any.
    pub id: Option<MonitorId>,
    /// Whether the protocols let groups choose the port.
    pub alive: bool,
    /// `Interface.bfd_status`.
    pub bfd_status: BTreeMap<String, String>,
}

impl Default for PortMonitor {
    fn default() -> Self {
        PortMonitor { id: None, alive: true, bfd_status: BTreeMap::new() }
    }
}

impl PortMonitor {
    /// Returns what translation needs to know.
    pub fn of_port(&self, interface: &control::Interface) -> Option<Monitored> {
        let bfd = interface.bfd.as_ref().map(protocols::bfd::Config::filter);
        Some(Monitored { id: self.id?, bfd })
    }
}
