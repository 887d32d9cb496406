//! The areas of a ring in the guest's memory, and the numbers in them.

use crate::fault::RingFault;
use crate::memory::{GuestMemory, Segment};
use std::sync::atomic::Ordering;
use vm_memory::{Bytes, VolatileSlice};

/// The parts of memory of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Areas {
    /// Descriptors.
    pub table: Segment,
    /// What the guest writes: the available ring, or its wishes for notifications.
    pub driver: Segment,
    /// What the switch writes: the used ring, or its wishes for notifications.
    pub device: Segment,
}

/// Access to the areas during a burst.
#[derive(Debug)]
pub struct View<'a> {
    pub table: VolatileSlice<'a>,
    pub driver: VolatileSlice<'a>,
    pub device: VolatileSlice<'a>,
}

impl Areas {
    /// Access to the areas.
    #[inline]
    pub fn view<'a>(&self, memory: &'a GuestMemory) -> Result<View<'a>, RingFault> {
        let area = |segment| memory.slice(segment).ok_or(RingFault::Place);
        Ok(View {
            table: area(self.table)?,
            driver: area(self.driver)?,
            device: area(self.device)?,
        })
    }
}

/// Reads a little-endian number.
#[inline]
pub fn load(area: &VolatileSlice<'_>, at: usize, order: Ordering) -> Result<u16, RingFault> {
    area.load::<u16>(at, order).map(u16::from_le).map_err(|_| RingFault::Place)
}

/// Writes a little-endian number.
#[inline]
pub fn store(
    area: &VolatileSlice<'_>,
    at: usize,
    value: u16,
    order: Ordering,
) -> Result<(), RingFault> {
    area.store(value.to_le(), at, order).map_err(|_| RingFault::Place)
}
