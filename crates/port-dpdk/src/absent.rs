//! Replaces DPDK in a build without it: the same names, and every operation fails.

use crate::flow_rule::{
    ConnectionObject, DeviceRefusal, FlowDevice, FlowRule, ObjectHandle, RuleHandle, RuleState,
};
use crate::{DpdkConfig, DpdkError, EalOptions, Facts, Statistics};
use flow::Refusal;
use packet::{Batch, Pool};
use port::{PortError, RxQueue, TxCounters, TxQueue};
use std::os::fd::RawFd;

/// Starts DPDK, which this build does not have.
///
/// # Errors
/// Always: this build has no DPDK.
pub fn start(_options: &EalOptions, _cpu: usize) -> Result<String, DpdkError> {
    Err(DpdkError::Absent)
}

/// The version of DPDK: none.
pub fn version() -> Option<String> {
    None
}

/// Whether DPDK runs: never.
pub fn is_running() -> bool {
    false
}

/// Polls awaited devices: there are none.
pub fn look_at_awaited(_wanted: &[&str]) -> bool {
    false
}

/// A DPDK port. This build has none.
#[derive(Debug)]
pub enum DpdkPort {}

/// A receive queue of a DPDK port. This build has none.
#[derive(Debug)]
pub enum DpdkRx {}

/// A transmit queue of a DPDK port. This build has none.
#[derive(Debug)]
pub enum DpdkTx {}

impl DpdkPort {
    /// Opens a port, which always fails in this build.
    ///
    /// # Errors
    /// Always: this build has no DPDK.
    pub fn open(name: &str, _config: &DpdkConfig, _tx_queues: u16) -> Result<DpdkPort, PortError> {
        let reason = DpdkError::Absent.to_string();
        Err(PortError::Invalid { device: name.to_owned(), reason })
    }

    /// Opens a port, which always fails in this build.
    ///
    /// # Errors
    /// Always: this build has no DPDK.
    pub fn open_or_wait(
        name: &str,
        config: &DpdkConfig,
        tx_queues: u16,
    ) -> Result<DpdkPort, PortError> {
        DpdkPort::open(name, config, tx_queues)
    }

    /// See the same method in `device.rs`.
    pub fn set_tx_queues(&mut self, _tx_queues: u16) -> Result<(), PortError> {
        match *self {}
    }

    /// See the same method in `device.rs`.
    pub fn rx_queues(&self) -> u16 {
        match *self {}
    }

    /// See the same method in `device.rs`.
    pub fn rx(&self, _queue: u16) -> Result<DpdkRx, PortError> {
        match *self {}
    }

    /// See the same method in `device.rs`.
    pub fn tx(&self) -> Result<DpdkTx, PortError> {
        match *self {}
    }

    /// See the same method in `device.rs`.
    pub fn facts(&self) -> Result<Facts, PortError> {
        match *self {}
    }

    /// See the same method in `counters.rs`.
    pub fn statistics(&self) -> Result<Statistics, PortError> {
        match *self {}
    }

    /// See the same method in `counters.rs`.
    pub fn own_counters(&self) -> Vec<(String, u64)> {
        match *self {}
    }

    /// See the same method in `device.rs`.
    pub fn name(&self) -> &str {
        match *self {}
    }

    /// See the same method in `device.rs`.
    pub fn set_up(&self, _up: bool) -> Result<(), PortError> {
        match *self {}
    }
}

/// The `rte_flow` rules of DPDK's devices. There are none in this build, so it is never used.
#[derive(Debug, Default)]
pub struct DpdkRules(());

impl DpdkRules {
    /// The rules of all ports.
    pub fn new() -> DpdkRules {
        DpdkRules(())
    }
}

fn absent() -> DeviceRefusal {
    DeviceRefusal { kind: Refusal::Device, words: DpdkError::Absent.to_string() }
}

impl FlowDevice for DpdkRules {
    fn create(&mut self, _port: u16, _rule: &FlowRule) -> Result<RuleHandle, DeviceRefusal> {
        Err(absent())
    }

    fn destroy(&mut self, _rule: RuleHandle) -> Result<(), String> {
        Ok(())
    }

    fn flush(&mut self, _port: u16) {}

    fn query(&mut self, _rule: RuleHandle) -> Option<RuleState> {
        None
    }

    fn create_object(
        &mut self,
        _port: u16,
        _peer: u16,
        _object: &ConnectionObject,
    ) -> Result<ObjectHandle, DeviceRefusal> {
        Err(absent())
    }

    fn turn_object(&mut self, _object: ObjectHandle) -> Result<(), DeviceRefusal> {
        Err(absent())
    }

    fn update_object(
        &mut self,
        _object: ObjectHandle,
        _state: &ConnectionObject,
    ) -> Result<(), DeviceRefusal> {
        Err(absent())
    }

    fn query_object(&mut self, _object: ObjectHandle) -> Option<ConnectionObject> {
        None
    }

    fn destroy_object(&mut self, _object: ObjectHandle) -> Result<(), String> {
        Ok(())
    }
}

impl RxQueue for DpdkRx {
    fn receive(&mut self, _pool: &mut Pool, _batch: &mut Batch) -> Result<(), PortError> {
        match *self {}
    }

    fn wake_fd(&self) -> Option<RawFd> {
        match *self {}
    }
}

impl TxQueue for DpdkTx {
    fn send(&mut self, _pool: &mut Pool, _batch: &mut Batch) -> TxCounters {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_dpdk_every_port_says_so() {
        let refused = DpdkPort::open("dpdk0", &DpdkConfig::new("net_null0"), 1).unwrap_err();
        assert!(refused.to_string().starts_with("dpdk0: this build of the switch has no DPDK"));
        assert!(matches!(start(&EalOptions::default(), 0), Err(DpdkError::Absent)));
        assert!(version().is_none() && !is_running());
    }
}
