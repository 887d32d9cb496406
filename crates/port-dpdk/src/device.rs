//! A configured device.

use crate::awaited::{Found, find_or_wait};
use crate::buffers::Buffers;
use crate::ffi;
use crate::receive::DpdkRx;
use crate::send::DpdkTx;
use crate::setup::{self, NOT_SUPPORTED, RX_CHECKSUMS, TX_CHECKSUMS, TX_CUT_NEEDS};
use crate::start::{check, is_running, take_words};
use crate::{DpdkConfig, DpdkError, Facts, guest, rte_flow};
use base::MacAddr;
use port::{PortError, TxCounters};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a frame besides its IP packet: Ethernet header and two VLAN tags.
const FRAME_OVERHEAD: usize = 14 + 8;
/// Retries when a guest accepts only part of a burst (ovs: `lib/netdev-dpdk.c`, `VHOST_ENQ_RETRY_DEF`).
const VHOST_RETRIES: u16 = 8;
/// The open ports, by DPDK's port number.
static OPEN: Mutex<BTreeMap<u16, String>> = Mutex::new(BTreeMap::new());

/// A DPDK port: a configured device that this port alone uses. It is closed when the port and all of its
/// queues are dropped.
#[derive(Debug)]
pub struct DpdkPort {
    pub(crate) device: Arc<Device>,
}

/// The state that a port and its queues share.
#[derive(Debug)]
pub(crate) struct Device {
    /// The port's name.
    pub name: String,
    /// DPDK's number.
    pub port: u16,
    /// The pool into which packets to be sent are copied.
    pub buffers: Buffers,
    /// Whether it verifies transport checksums.
    receives_checksums: bool,
    /// Whether it completes transport checksums.
    pub sends_checksums: bool,
    /// Whether it segments large TCP packets.
    pub cuts_tcp: bool,
    /// Its configured MTU.
    mtu: u16,
    /// The longest frame that may be sent, in bytes.
    pub frame_max: usize,
    /// Number of retries for the rest of a burst.
    pub retries: u16,
    /// Whether workers may send and receive.
    pub admin_up: AtomicBool,
    /// Packets dropped because the device did not accept them in time.
    pub tx_dropped: AtomicU64,
    /// Packets that the device cannot send.
    pub tx_refused: AtomicU64,
    /// One lock per transmit queue, held while sending: there may be more workers than queues.
    pub tx_locks: Vec<TxLock>,
    /// One flag per receive queue: whether it has an owner.
    pub rx_taken: Vec<AtomicBool>,
    tx_next: AtomicU16,
    attached: bool,
    config: DpdkConfig,
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
        // No other thread may take the device before it is marked as used.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let (port, attached) = find(&config.devargs).map_err(&invalid)?;
        if let Some(other) = open.get(&port) {
            return Err(invalid(format!(
                "'{name}' is trying to use device '{}' which is already in use by '{other}'",
                config.devargs
            )));
        }
        // A guest may connect as soon as the device is started.
        guest::expect(port, config.vhost_socket());
        let device = Device::set_up(name, port, attached, config, tx_queues);
        let device = device.map_err(|reason| {
            guest::forget(port);
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

    /// The protocol error of the guest behind a vhost-user port, until another guest has none.
    pub fn guest_fault(&self) -> Option<String> {
        guest::fault(self.device.port)
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

impl Device {
    /// Whether it is a vhost-user device.
    pub fn is_guest(&self) -> bool {
        self.config.is_vhost()
    }

    /// Whether it is a vhost-user device whose other side is not connected.
    pub fn lacks_guest(&self) -> bool {
        self.is_guest() && !facts_of(self.port).is_ok_and(|facts| facts.link_up != 0)
    }

    /// Counts packets that were not sent, some of which the device refused.
    pub fn count_unsent(&self, unsent: u64, refused: u64, counters: &mut TxCounters) {
        let left = unsent - refused;
        counters.errors += refused;
        counters.dropped += left;
        self.tx_refused.fetch_add(refused, Ordering::Relaxed);
        self.tx_dropped.fetch_add(left, Ordering::Relaxed);
    }

    fn set_up(
        name: &str,
        port: u16,
        attached: bool,
        config: &DpdkConfig,
        tx_queues: u16,
    ) -> Result<Device, String> {
        let facts = facts_of(port).map_err(|error| format!("it does not answer: {error}"))?;
        let mtu = setup::mtu(config, &facts)?;
        let buffers = Buffers::for_mtu(mtu, facts.min_rx_buffer, facts.numa).map_err(|_| {
            "no memory for packet buffers; reserve more huge pages (vm.nr_hugepages), or raise \
             other_config:dpdk-socket-limit"
                .to_owned()
        })?;
        let setup = buffers.configure(port, &facts, config, mtu, tx_queues)?;
        if setup.rx_queues < config.rx_queues {
            let (has, asked) = (setup.rx_queues, config.rx_queues);
            log::warn!(target: "netdev_dpdk", "{name}: {has} receive queues, not {asked} as asked");
        }
        log::info!(
            target: "netdev_dpdk",
            "Port {port}: {name} ({}), {} receive and {} transmit queues",
            text_of(&facts.driver), setup.rx_queues, setup.tx_queues
        );
        Ok(Device {
            name: name.to_owned(),
            port,
            buffers,
            receives_checksums: setup.rx_offloads & RX_CHECKSUMS == RX_CHECKSUMS,
            sends_checksums: setup.tx_offloads & TX_CHECKSUMS == TX_CHECKSUMS,
            cuts_tcp: setup.tx_offloads & TX_CUT_NEEDS == TX_CUT_NEEDS,
            mtu,
            frame_max: usize::from(mtu) + FRAME_OVERHEAD,
            retries: if config.is_vhost() { VHOST_RETRIES } else { 0 },
            admin_up: AtomicBool::new(true),
            tx_dropped: AtomicU64::new(0),
            tx_refused: AtomicU64::new(0),
            tx_locks: locks(setup.tx_queues),
            rx_taken: (0..setup.rx_queues).map(|_| AtomicBool::new(false)).collect(),
            tx_next: AtomicU16::new(0),
            attached,
            config: config.clone(),
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Closed before it is unmarked: only then may another port open it.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        close(self.port, self.attached);
        guest::forget(self.port);
        open.remove(&self.port);
    }
}

/// A worker locks this for each of its bursts, so no two locks share a cache line, nor a pair of lines that a
/// processor prefetches together; those of ports opened by one thread would.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct TxLock(Mutex<()>);

impl TxLock {
    #[inline]
    pub fn take(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn locks(count: u16) -> Vec<TxLock> {
    (0..count.max(1)).map(|_| TxLock::default()).collect()
}

/// DPDK's port number of the device with these arguments, which is attached if it does not exist, and whether
/// it was.
pub(crate) fn find(devargs: &str) -> Found {
    let attaching = |why: String| format!("Error attaching device '{devargs}' to DPDK: {why}");
    let text = CString::new(devargs).map_err(|_| attaching("it has a zero byte".to_owned()))?;
    let (mut port, mut attached) = (0, 0);
    take_words();
    // SAFETY: the shim reads a string that ends in a zero and writes two numbers, all of which
    // outlive the call.
    let answer =
        unsafe { ffi::tidegate_dpdk_find(text.as_ptr(), &raw mut port, &raw mut attached) };
    check(answer).map_err(|error| attaching(with_words(&error)))?;
    Ok((port, attached != 0))
}

pub(crate) fn close(port: u16, attached: bool) {
    rte_flow::remove_rules(port);
    // SAFETY: an order by number. The caller holds the device alone: no other thread received its
    // number, or all that had it are gone.
    unsafe { ffi::tidegate_dpdk_close(port, c_int::from(attached)) }
}

fn facts_of(port: u16) -> io::Result<ffi::Facts> {
    let mut facts = MaybeUninit::uninit();
    // SAFETY: the shim writes all of one structure of this type, which both sides assert, also
    // when it answers with an error.
    unsafe {
        check(ffi::tidegate_dpdk_facts(port, facts.as_mut_ptr()))?;
        Ok(facts.assume_init())
    }
}

/// The text up to its terminating zero.
pub(crate) fn text_of(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|c| *c as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

/// An error, with the messages that DPDK logged about it.
pub(crate) fn with_words(error: &io::Error) -> String {
    match take_words().as_str() {
        "" => error.to_string(),
        words => format!("{error} ({words})"),
    }
}
