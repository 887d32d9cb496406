//! A guest's driver, for tests: it puts buffers into a ring and takes them back, in both formats.

use crate::areas::Areas;
use crate::chain::{DESCRIPTOR_BYTES, INDIRECT, NEXT, WRITE};
use crate::feature;
use crate::format::Format;
use crate::memory::{GuestMemory, Region, RegionPlace};
use crate::ring::Ring;
use std::collections::BTreeMap;
use std::sync::Arc;
use vm_memory::{Bytes, VolatileSlice};

/// The guest physical address of its memory, and the front-end's.
pub const BASE: u64 = 0x4000_0000;
pub const USER: u64 = 0x7f00_0000_0000;
pub const MEMORY: u64 = 4 << 20;
/// Offsets of the areas, of indirect tables and of buffers.
const TABLE: u64 = 0;
const DRIVER: u64 = 0x8_0000;
const DEVICE: u64 = 0xa_0000;
const INDIRECTS: u64 = 0x10_0000;
pub const BUFFERS: u64 = 0x20_0000;

/// A buffer of a chain: address, length, and whether the device writes it.
pub type Buffer = (u64, u32, bool);

pub struct Guest {
    pub memory: Arc<GuestMemory>,
    pub features: u64,
    pub size: u16,
    free: Vec<u16>,
    /// Descriptors of each chain in the ring, by its head or id.
    chains: BTreeMap<u16, Vec<u16>>,
    available: u16,
    used: u16,
    /// Of a packed ring: wrap counters.
    available_wrap: bool,
    used_wrap: bool,
    /// Chain lengths of a packed ring, by id.
    lengths: BTreeMap<u16, u16>,
}

pub fn memory() -> Arc<GuestMemory> {
    let place = RegionPlace { guest: BASE, length: MEMORY, user: USER, offset: 0 };
    Arc::new(GuestMemory::new(vec![Arc::new(Region::anonymous(place))]).unwrap())
}

impl Guest {
    pub fn new(features: u64, size: u16) -> Guest {
        Guest {
            memory: memory(),
            features,
            size,
            free: (0..size).rev().collect(),
            chains: BTreeMap::new(),
            available: 0,
            used: 0,
            available_wrap: true,
            used_wrap: true,
            lengths: BTreeMap::new(),
        }
    }

    fn is_packed(&self) -> bool {
        self.features & feature::RING_PACKED != 0
    }

    pub fn areas(&self) -> Areas {
        let [table, driver, device] = Format::lengths(self.features, self.size);
        let find = |offset, length| self.memory.find(BASE + offset, length).unwrap();
        Areas {
            table: find(TABLE, table),
            driver: find(DRIVER, driver),
            device: find(DEVICE, device),
        }
    }

    /// The switch's side of the ring.
    pub fn ring(&self) -> Ring {
        let base = if self.is_packed() { 0x8000_8000 } else { 0 };
        let memory = Arc::clone(&self.memory);
        let ring = Ring::new(self.features, self.size, base, self.areas(), memory);
        let mut ring = ring.unwrap();
        ring.set_enabled(true);
        ring
    }

    fn slice(&self, offset: u64, length: usize) -> VolatileSlice<'_> {
        let part = self.memory.find(BASE + offset, length as u32).unwrap();
        self.memory.slice(part).unwrap()
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) {
        self.slice(offset, bytes.len()).write_slice(bytes, 0).unwrap();
    }

    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.slice(offset, length).read_slice(&mut bytes, 0).unwrap();
        bytes
    }

    pub fn write_u16(&self, offset: u64, value: u16) {
        self.write(offset, &value.to_le_bytes());
    }

    pub fn read_u16(&self, offset: u64) -> u16 {
        u16::from_le_bytes(self.read(offset, 2).try_into().unwrap())
    }

    /// Writes a descriptor of a split table.
    pub fn describe(&self, slot: u64, address: u64, length: u32, flags: u16, next: u16) {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        let (at_flags, at_next) = if self.is_packed() { (14, 12) } else { (12, 14) };
        bytes[at_flags..at_flags + 2].copy_from_slice(&flags.to_le_bytes());
        bytes[at_next..at_next + 2].copy_from_slice(&next.to_le_bytes());
        self.write(slot, &bytes);
    }

    /// Makes an entry of a split ring available.
    pub fn offer(&mut self, head: u16) {
        let slot = u64::from(self.available % self.size);
        self.write_u16(DRIVER + 4 + 2 * slot, head);
        self.available = self.available.wrapping_add(1);
        self.set_available(self.available);
    }

    /// Asks the switch for notifications, or not to notify; of a split ring without events.
    pub fn want_notifications(&self, is_wanted: bool) {
        self.write_u16(DRIVER, u16::from(!is_wanted));
    }

    pub fn set_available(&self, index: u16) {
        self.write_u16(DRIVER + 2, index);
    }

    /// Number of free descriptors.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Puts a chain into the ring. With `indirect`, it is in a table of its own.
    pub fn post(&mut self, chain: &[Buffer], indirect: bool) -> u16 {
        let entries = if indirect { 1 } else { chain.len() };
        let slots: Vec<u16> = self.free.split_off(self.free.len() - entries);
        let head = slots[0];
        let table = INDIRECTS + u64::from(head) * 0x400;
        if indirect {
            for (at, (address, length, write)) in chain.iter().enumerate() {
                let more = if at + 1 < chain.len() { NEXT } else { 0 };
                let flags = more | if *write { WRITE } else { 0 };
                let slot = table + (at * DESCRIPTOR_BYTES) as u64;
                self.describe(slot, *address, *length, flags, at as u16 + 1);
            }
        }
        let table_bytes = (chain.len() * DESCRIPTOR_BYTES) as u32;
        let whole = [(BASE + table, table_bytes, false)];
        let (direct, extra) = if indirect { (&whole[..], INDIRECT) } else { (chain, 0) };
        if self.is_packed() {
            self.post_packed(head, direct, extra);
        } else {
            for (at, (address, length, write)) in direct.iter().enumerate() {
                let more = if at + 1 < direct.len() { NEXT } else { 0 };
                let flags = extra | more | if *write { WRITE } else { 0 };
                let next = slots.get(at + 1).copied().unwrap_or(0);
                let slot = TABLE + u64::from(slots[at]) * DESCRIPTOR_BYTES as u64;
                self.describe(slot, *address, *length, flags, next);
            }
            self.offer(head);
        }
        self.chains.insert(head, slots);
        head
    }

    fn post_packed(&mut self, id: u16, chain: &[Buffer], extra: u16) {
        self.lengths.insert(id, chain.len() as u16);
        for (at, (address, length, write)) in chain.iter().enumerate() {
            let more = if at + 1 < chain.len() { NEXT } else { 0 };
            let marks = if self.available_wrap { 1 << 7 } else { 1 << 15 };
            let flags = marks | extra | more | if *write { WRITE } else { 0 };
            let slot = TABLE + u64::from(self.available) * DESCRIPTOR_BYTES as u64;
            self.describe(slot, *address, *length, flags, id);
            self.available += 1;
            if self.available == self.size {
                (self.available, self.available_wrap) = (0, !self.available_wrap);
            }
        }
    }

    /// Takes what the device has used: ids and lengths.
    pub fn reap(&mut self) -> Vec<(u16, u32)> {
        let mut all = Vec::new();
        while let Some((id, length)) = self.reap_one() {
            let slots = self.chains.remove(&id).expect("used what is in the ring");
            self.free.extend(slots);
            all.push((id, length));
        }
        all
    }

    fn reap_one(&mut self) -> Option<(u16, u32)> {
        if self.is_packed() {
            let slot = TABLE + u64::from(self.used) * DESCRIPTOR_BYTES as u64;
            let flags = self.read_u16(slot + 14);
            let marks = [flags & 1 << 7 != 0, flags & 1 << 15 != 0];
            if marks != [self.used_wrap; 2] {
                return None;
            }
            let length = u32::from_le_bytes(self.read(slot + 8, 4).try_into().unwrap());
            let id = self.read_u16(slot + 12);
            self.used += self.lengths.remove(&id).expect("an id of the ring");
            if self.used >= self.size {
                (self.used, self.used_wrap) = (self.used - self.size, !self.used_wrap);
            }
            return Some((id, length));
        }
        if self.read_u16(DEVICE + 2) == self.used {
            return None;
        }
        let slot = DEVICE + 4 + 8 * u64::from(self.used % self.size);
        let id = u32::from_le_bytes(self.read(slot, 4).try_into().unwrap());
        let length = u32::from_le_bytes(self.read(slot + 4, 4).try_into().unwrap());
        self.used = self.used.wrapping_add(1);
        Some((id as u16, length))
    }
}
