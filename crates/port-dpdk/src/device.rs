//! A device that is set up.

use crate::DpdkConfig;
use crate::buffers::Buffers;
use crate::ffi::{self, text_of};
use crate::plug::close;
use crate::setup::{self, RX_CHECKSUMS, TX_CHECKSUMS, TX_CUT_NEEDS};
use crate::start::check;
use port::TxCounters;
use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a frame besides its IP packet: Ethernet header and two VLAN tags.
const FRAME_OVERHEAD: usize = 14 + 8;
/// The open ports, by DPDK's port number.
pub(crate) static OPEN: Mutex<BTreeMap<u16, String>> = Mutex::new(BTreeMap::new());

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
    pub receives_checksums: bool,
    /// Whether it completes transport checksums.
    pub sends_checksums: bool,
    /// Whether it segments large TCP packets.
    pub cuts_tcp: bool,
    /// Its configured MTU.
    pub mtu: u16,
    /// The longest frame that may be sent, in bytes.
    pub frame_max: usize,
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
    pub tx_next: AtomicU16,
    attached: bool,
    pub config: DpdkConfig,
}

impl Device {
    /// Counts packets that were not sent, some of which the device refused.
    pub fn count_unsent(&self, unsent: u64, refused: u64, counters: &mut TxCounters) {
        let left = unsent - refused;
        counters.errors += refused;
        counters.dropped += left;
        self.tx_refused.fetch_add(refused, Ordering::Relaxed);
        self.tx_dropped.fetch_add(left, Ordering::Relaxed);
    }

    pub fn set_up(
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

pub(crate) fn locks(count: u16) -> Vec<TxLock> {
    (0..count.max(1)).map(|_| TxLock::default()).collect()
}

pub(crate) fn facts_of(port: u16) -> io::Result<ffi::Facts> {
    let mut facts = MaybeUninit::uninit();
    // SAFETY: the shim writes all of one structure of this type, which both sides assert, also
    // when it answers with an error.
    unsafe {
        check(ffi::tidegate_dpdk_facts(port, facts.as_mut_ptr()))?;
        Ok(facts.assume_init())
    }
}
