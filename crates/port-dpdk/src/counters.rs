//! What a device counted.

use crate::device::text_of;
use crate::ffi;
use crate::start::check;
use crate::{DpdkPort, Statistics};
use port::PortError;
use std::sync::atomic::Ordering;

/// Counters of its own that a device is asked for.
const NAMED_COUNTERS_MAX: usize = 4096;

impl DpdkPort {
    /// What the device counted.
    ///
    /// # Errors
    /// It is gone.
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

    /// The device's own counters of what is worth telling (errors, drops, sizes, queues), by name.
    /// A card may take its time to gather them.
    pub fn own_counters(&self) -> Vec<(String, u64)> {
        let port = self.device.port;
        // Without a guest there are no rings that could tell, and DPDK logs an error at each question.
        if self.device.lacks_guest() {
            return Vec::new();
        }
        // SAFETY: without room nothing is written.
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

/// What a card counts beside packets and bytes may be hundreds of things. Told is what Open
/// vSwitch tells (ovs: `lib/netdev-dpdk.c`, `netdev_dpdk_configure_xstats`): errors, drops, sizes,
/// kinds and queues.
fn is_worth_telling(name: &str) -> bool {
    let kinds = ["error", "dropped", "_size_", "multicast", "broadcast", "_management_"];
    kinds.iter().any(|kind| name.contains(kind))
        || name
            .strip_prefix("rx_q")
            .or(name.strip_prefix("tx_q"))
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
