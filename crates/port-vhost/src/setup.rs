//! What the front-end told about a ring.

use crate::areas::Areas;
use crate::doorbell::Doorbell;
use crate::fault::RingFault;
use crate::format::Format;
use crate::memory::GuestMemory;
use crate::message::RingAddresses;
use std::sync::Arc;

/// What a ring was told.
#[derive(Debug, Default)]
pub struct Setup {
    pub entries: u16,
    pub base: u32,
    pub addresses: Option<RingAddresses>,
    /// Whether the guest may have put entries into it: the ring is started.
    pub is_kicked: bool,
    pub is_enabled: bool,
    pub call: Option<Arc<Doorbell>>,
}

impl Setup {
    /// Whether the ring was told everything that it needs.
    pub fn is_complete(&self) -> bool {
        self.is_kicked && self.entries > 0 && self.addresses.is_some()
    }

    /// Finds its areas in the guest's memory.
    pub fn areas(&self, features: u64, memory: &GuestMemory) -> Result<Areas, RingFault> {
        let addresses = self.addresses.unwrap_or_default();
        let [table, driver, device] = Format::lengths(features, self.entries);
        // Their alignments (VIRTIO 1.2 sections 2.7 and 2.8).
        let find = |address, length, alignment| {
            memory.find_user(address, length, alignment).ok_or(RingFault::Place)
        };
        Ok(Areas {
            table: find(addresses.table, table, 16)?,
            driver: find(addresses.driver, driver, 2)?,
            device: find(addresses.device, device, 4)?,
        })
    }
}
