//! Configuration of a device: its MTU, its queues and its offloads.

use crate::buffers::{Buffers, MTU_MAX};
use crate::start::{check, take_words, with_words};
use crate::{DpdkConfig, ffi, rte_flow};

// DPDK's capability bits (rte_ethdev.h); csrc/device.c asserts them.
pub const RX_CHECKSUMS: u64 = 1 << 2 | 1 << 3;
pub const RX_SCATTER: u64 = 1 << 13;
pub const TX_IPV4_CHECKSUM: u64 = 1 << 1;
pub const TX_CHECKSUMS: u64 = 1 << 2 | 1 << 3;
pub const TX_CUT_TCP: u64 = 1 << 5;
pub const TX_CHAINS: u64 = 1 << 15;
pub const TX_CUT_NEEDS: u64 = TX_CUT_TCP | TX_CHAINS | TX_IPV4_CHECKSUM | TX_CHECKSUMS;

/// With a larger MTU, frames may need several of a device's buffers (IEEE 802.3).
const ETHERNET_MTU: u16 = 1500;
/// ENOTSUP (asm-generic/errno.h).
pub const NOT_SUPPORTED: i32 = 95;

/// The MTU for a device.
///
/// # Errors
/// The device does not support it.
pub fn mtu(config: &DpdkConfig, facts: &ffi::Facts) -> Result<u16, String> {
    let Some(asked) = config.mtu else { return Ok(facts.mtu) };
    let (least, most) = (facts.min_mtu, facts.max_mtu.min(MTU_MAX));
    let within = u16::try_from(asked).ok().filter(|mtu| (least..=most).contains(mtu));
    within.ok_or_else(|| {
        format!(
            "an MTU of {asked} bytes is not one of its own, which are {least} to {most}; set \
             mtu_request to one of them"
        )
    })
}

impl Buffers {
    /// Configures a device for an MTU and with these buffers, using the requested offloads that it supports.
    pub fn configure(
        self,
        port: u16,
        facts: &ffi::Facts,
        config: &DpdkConfig,
        mtu: u16,
        tx_queues: u16,
    ) -> Result<ffi::Setup, String> {
        let jumbo = mtu > ETHERNET_MTU;
        let cut = if facts.tx_offloads & TX_CUT_NEEDS == TX_CUT_NEEDS { TX_CUT_NEEDS } else { 0 };
        let mut setup = ffi::Setup {
            rx_offloads: facts.rx_offloads & (RX_CHECKSUMS | if jumbo { RX_SCATTER } else { 0 }),
            tx_offloads: facts.tx_offloads & (TX_CHECKSUMS | TX_CHAINS | cut),
            rss_types: facts.rss_types,
            pool: self.as_ptr(),
            rx_queues: config.rx_queues.clamp(1, facts.max_rx_queues.max(1)),
            tx_queues: tx_queues.clamp(1, facts.max_tx_queues.max(1)),
            rx_descriptors: config.rx_descriptors,
            tx_descriptors: config.tx_descriptors,
            mtu: if mtu == facts.mtu { 0 } else { mtu },
            watches_link: 0,
            failed_step: 0,
            spare: [0; 4],
        };
        // A driver may discard rules when its port stops (`rte_flow` guide, "Caveats").
        rte_flow::remove_rules(port);
        take_words();
        // SAFETY: the shim reads and writes one structure of this type, which both sides assert;
        // the pool in it lives for ever. No queue of the device is in use: it is new, or its
        // owner holds it alone.
        let answer = unsafe { ffi::tidegate_dpdk_configure(port, &raw mut setup) };
        let Err(error) = check(answer) else { return Ok(setup) };
        if error.raw_os_error() == Some(NOT_SUPPORTED) && setup.failed_step == ffi::STEP_MTU {
            return Err(format!(
                "its MTU cannot be changed; it is {} bytes, so remove mtu_request",
                facts.mtu
            ));
        }
        let step = ffi::STEPS.get(usize::from(setup.failed_step)).copied().unwrap_or("use it");
        Err(format!("DPDK could not {step}: {}", with_words(&error)))
    }
}
