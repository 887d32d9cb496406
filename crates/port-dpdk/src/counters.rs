//! A device's counters.

use crate::ffi::{self, text_of};
use crate::start::check;
use crate::{DpdkPort, Statistics};
use port::PortError;
use std::sync::atomic::Ordering;

/// Maximum number of extended counters of a device.
const NAMED_COUNTERS_MAX: usize = 4096;

impl DpdkPort {
    /// The device's counters.
    ///
    /// # Errors
    /// The device is gone.
    pub fn statistics(&self) -> Result<Statistics, PortError> {
        let device = &self.device;
        let mut counters = ffi::Counters::default();
        // SAFETY: the shim writes one structure of this type, which both sides assert.
        let answer = unsafe { ffi::tidegate_dpdk_counters(device.port, &raw mut counters) };
        check(answer).map_err(|_| PortError::Gone { device: device.name.clone() })?;
        let ffi::Counters { rx_packets, tx_packets, rx_bytes, tx_bytes, .. } = counters;
        Ok(Statistics {
            rx_packets,
            tx_packets,
            rx_bytes,
            tx_bytes,
            rx_dropped: counters.rx_missed + counters.rx_no_buffer,
            tx_dropped: device.tx_dropped.load(Ordering::Relaxed),
            rx_errors: counters.rx_errors,
            tx_errors: counters.tx_errors + device.tx_refused.load(Ordering::Relaxed),
        })
    }

    /// The device's extended counters worth reporting (errors, drops, sizes, queues), by name. A network card
    /// may take a while to collect them.
    pub fn own_counters(&self) -> Vec<(String, u64)> {
        let port = self.device.port;
        // SAFETY: with no room for results, the shim writes nothing.
        let count = unsafe { ffi::tidegate_dpdk_named_counters(port, std::ptr::null_mut(), 0) };
        let count = usize::try_from(count).unwrap_or(0).min(NAMED_COUNTERS_MAX);
        let mut counters = vec![ffi::NamedCounter { name: [0; 64], value: 0 }; count];
        // SAFETY: the shim writes at most as many structures as there is room for.
        let written =
            unsafe { ffi::tidegate_dpdk_named_counters(port, counters.as_mut_ptr(), count as u32) };
        let written = usize::try_from(written).unwrap_or(0);
        let told = counters.iter().take(written).map(|c| (text_of(&c.name), c.value));
        told.filter(|(name, _)| is_worth_telling(name)).collect()
    }
}

/// Whether a counter is reported. A card may have hundreds; the reported ones are Open vSwitch's (ovs:
/// `lib/netdev-dpdk.c`, `netdev_dpdk_configure_xstats`): errors, drops, sizes, types and queues.
fn is_worth_telling(name: &str) -> bool {
    let kinds = ["error", "dropped", "_size_", "multicast", "broadcast", "_management_"];
    kinds.iter().any(|kind| name.contains(kind))
        || name
            .strip_prefix("rx_q")
            .or(name.strip_prefix("tx_q"))
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
