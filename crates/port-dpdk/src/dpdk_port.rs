//! A port: a device with its queues, and what can be asked of it.

use crate::awaited::find_or_wait;
use crate::device::{Device, OPEN, facts_of, locks};
use crate::ffi::{self, text_of};
use crate::plug::{Found, close, find};
use crate::receive::DpdkRx;
use crate::send::DpdkTx;
use crate::setup::NOT_SUPPORTED;
use crate::start::{check, is_running};
use crate::{DpdkConfig, DpdkError, Facts};
use base::MacAddr;
use port::PortError;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

/// A DPDK port: a configured device that this port alone uses. It is closed when the port and all of its
/// queues are dropped.
#[derive(Debug)]
pub struct DpdkPort {
    pub(crate) device: Arc<Device>,
}

impl DpdkPort {
    /// Finds or attaches the device, configures it with one transmit queue per worker of `tx_queues`, as far
    /// as it has them, and starts it.
    ///
    /// # Errors
    /// DPDK is not running, the device does not exist or belongs to another port, or it does not support the
    /// configuration.
    pub fn open(name: &str, config: &DpdkConfig, tx_queues: u16) -> Result<DpdkPort, PortError> {
        DpdkPort::open_found(name, config, tx_queues, find)
    }

    /// The same, without waiting: some devices exist only after another program has connected to them
    /// (`net_virtio_user` with `server=1`). Until then this returns an error that says so;
    /// [`crate::look_at_awaited`] tells when to retry.
    ///
    /// # Errors
    /// Those of [`DpdkPort::open`], and that the other side has not connected yet.
    pub fn open_or_wait(
        name: &str,
        config: &DpdkConfig,
        tx_queues: u16,
    ) -> Result<DpdkPort, PortError> {
        DpdkPort::open_found(name, config, tx_queues, find_or_wait)
    }

    fn open_found(
        name: &str,
        config: &DpdkConfig,
        tx_queues: u16,
        find: impl FnOnce(&str) -> Found,
    ) -> Result<DpdkPort, PortError> {
        let invalid = |reason| PortError::Invalid { device: name.to_owned(), reason };
        if !is_running() {
            return Err(invalid(DpdkError::NotStarted.to_string()));
        }
        if config.devargs.is_empty() {
            let missing = "is missing 'options:dpdk-devargs'; the old 'dpdk<port_id>' names are \
                           not supported";
            return Err(invalid(format!("'{name}' {missing}")));
        }
        if config.is_vhost() {
            return Err(invalid(format!(
                "'{name}' is trying to use DPDK's own vhost-user device, with which a guest \
                 can overwrite the switch's memory; use a port of type dpdkvhostuserclient or dpdkvhostuser"
            )));
        }
        // No other thread may take the device between finding and marking it.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let (port, attached) = find(&config.devargs).map_err(&invalid)?;
        if let Some(other) = open.get(&port) {
            return Err(invalid(format!(
                "'{name}' is trying to use device '{}' which is already in use by '{other}'",
                config.devargs
            )));
        }
        let device = Device::set_up(name, port, attached, config, tx_queues);
        let device = device.map_err(|reason| {
            close(port, attached);
            invalid(reason)
        })?;
        open.insert(port, name.to_owned());
        Ok(DpdkPort { device: Arc::new(device) })
    }

    /// Reconfigures the device if its number of transmit queues must change.
    ///
    /// # Errors
    /// Queues of it are in use, or the device refuses.
    pub fn set_tx_queues(&mut self, tx_queues: u16) -> Result<(), PortError> {
        let name = self.device.name.clone();
        let invalid = |reason| PortError::Invalid { device: name.clone(), reason };
        let facts = facts_of(self.device.port).map_err(|error| invalid(error.to_string()))?;
        let wanted = tx_queues.clamp(1, facts.max_tx_queues.max(1));
        if usize::from(wanted) == self.device.tx_locks.len() {
            return Ok(());
        }
        // No thread may send or receive while the device is stopped.
        let Some(device) = Arc::get_mut(&mut self.device) else {
            return Err(invalid("its queues are still in use".to_owned()));
        };
        let (config, mtu) = (&device.config, device.mtu);
        let setup = device.buffers.configure(device.port, &facts, config, mtu, wanted);
        let setup = setup.map_err(invalid)?;
        device.tx_locks = locks(setup.tx_queues);
        device.rx_taken = (0..setup.rx_queues).map(|_| AtomicBool::new(false)).collect();
        Ok(())
    }

    /// The number of receive queues.
    pub fn rx_queues(&self) -> u16 {
        self.device.rx_taken.len() as u16
    }

    /// The receive queue of this number. Each has one owner at a time.
    ///
    /// # Errors
    /// There is none of this number, or it has an owner.
    pub fn rx(&self, queue: u16) -> Result<DpdkRx, PortError> {
        let free = |taken: &AtomicBool| !taken.swap(true, Ordering::AcqRel);
        if self.device.rx_taken.get(usize::from(queue)).is_some_and(free) {
            return Ok(DpdkRx::new(Arc::clone(&self.device), queue));
        }
        let reason = format!("receive queue {queue} is not there or is in use");
        Err(PortError::Invalid { device: self.device.name.clone(), reason })
    }

    /// A transmit queue: the next one in turn, so that queues are shared only if there are too few.
    ///
    /// # Errors
    /// There is none.
    pub fn tx(&self) -> Result<DpdkTx, PortError> {
        let next = self.device.tx_next.fetch_add(1, Ordering::Relaxed);
        let Some(queue) = usize::from(next).checked_rem(self.device.tx_locks.len()) else {
            let reason = "it has no transmit queue".to_owned();
            return Err(PortError::Invalid { device: self.device.name.clone(), reason });
        };
        Ok(DpdkTx::new(Arc::clone(&self.device), queue as u16))
    }

    /// The device's properties and state.
    ///
    /// # Errors
    /// The device is gone.
    pub fn facts(&self) -> Result<Facts, PortError> {
        let device = &self.device;
        let gone = |_| PortError::Gone { device: device.name.clone() };
        let facts = facts_of(device.port).map_err(gone)?;
        let admin_up = device.admin_up.load(Ordering::Relaxed);
        Ok(Facts {
            port: device.port,
            mac: MacAddr(facts.mac),
            mtu: device.mtu,
            max_mtu: facts.max_mtu,
            admin_up,
            link_up: admin_up && facts.link_up != 0,
            link_mbps: facts.link_mbps,
            full_duplex: facts.full_duplex != 0,
            numa: facts.numa,
            driver: text_of(&facts.driver),
            bus: text_of(&facts.bus),
            bus_info: text_of(&facts.bus_info),
            min_rx_buffer: facts.min_rx_buffer,
            max_rx_bytes: facts.max_rx_bytes,
            max_rx_queues: facts.max_rx_queues,
            max_tx_queues: facts.max_tx_queues,
            max_mac_addresses: facts.max_mac_addresses,
            rx_queues: device.rx_taken.len() as u16,
            tx_queues: device.tx_locks.len() as u16,
            receives_checksums: device.receives_checksums,
            sends_checksums: device.sends_checksums,
            cuts_tcp: device.cuts_tcp,
        })
    }

    /// The port's name.
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// Brings the device up or down. A device without such a switch is not used while it is down.
    ///
    /// # Errors
    /// The device refuses.
    pub fn set_up(&self, up: bool) -> Result<(), PortError> {
        self.device.admin_up.store(up, Ordering::Relaxed);
        // SAFETY: an order by number, which DPDK checks.
        let answer = unsafe { ffi::tidegate_dpdk_set_up(self.device.port, c_int::from(up)) };
        match check(answer) {
            Err(source) if source.raw_os_error() != Some(NOT_SUPPORTED) => {
                let what = if up { "bring it up" } else { "take it down" };
                Err(PortError::System { device: self.device.name.clone(), what, source })
            }
            _ => Ok(()),
        }
    }
}
