//! A packed ring (VIRTIO 1.2 section 2.8), from the device's side.

use crate::areas::{Areas, View, load, store};
use crate::chain::{
    Access, DESCRIPTOR_BYTES, Descriptor, INDIRECT, NEXT, Segments, Taken, WRITE, Walk,
};
use crate::fault::RingFault;
use crate::memory::GuestMemory;
use crate::split::is_passed;
use std::sync::atomic::{Ordering, fence};

/// Bits of a descriptor's flags: one equals its side's wrap counter.
const AVAILABLE: u16 = 1 << 7;
const USED: u16 = 1 << 15;
/// Offsets in a descriptor.
const LENGTH: usize = 8;
const ID: usize = 12;
const FLAGS: usize = 14;
/// Offsets and values of the areas for event suppression.
const EVENT: usize = 0;
const EVENT_FLAGS: usize = 2;
const EVENTS_OFF: u16 = 1;
const EVENTS_AT_DESCRIPTOR: u16 = 2;
const WRAP: u16 = 1 << 15;

/// A place in the ring, with the wrap counter there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    at: u16,
    wrap: bool,
}

/// The state of a ring.
#[derive(Debug)]
pub struct Packed {
    size: u16,
    may_be_indirect: bool,
    next: Place,
    used: Place,
    /// The first used descriptor that is not published yet, and its flags.
    unpublished: Option<(u16, u16)>,
    /// The used place at the last decision on a notification.
    signalled: Option<u16>,
}

impl Place {
    fn of(bits: u16) -> Place {
        Place { at: bits & !WRAP, wrap: bits & WRAP != 0 }
    }

    fn bits(self) -> u16 {
        self.at | if self.wrap { WRAP } else { 0 }
    }

    /// The place `count` entries later, of at most `size`.
    fn after(self, count: u16, size: u16) -> Place {
        let at = self.at + count;
        if at >= size { Place { at: at - size, wrap: !self.wrap } } else { Place { at, ..self } }
    }
}

impl Packed {
    /// Returns the lengths of the areas of a ring with this size: table, driver and device.
    pub fn lengths(size: u16) -> [u32; 3] {
        [16 * u32::from(size), 4, 4]
    }

    /// A ring that goes on at `base`: the next available place with its wrap counter in bit 15 (vhost-user,
    /// `VHOST_USER_SET_VRING_BASE`). The other half is the next used place, which is the same, since everything
    /// taken is used at once; some front-ends leave it zero. `None` if the place is outside of the ring.
    pub fn new(size: u16, may_be_indirect: bool, base: u32) -> Option<Packed> {
        let next = Place::of(base as u16);
        let (used, unpublished, signalled) = (next, None, None);
        let state = Packed { size, may_be_indirect, next, used, unpublished, signalled };
        (next.at < size).then_some(state)
    }

    /// The number for [`Packed::new`].
    pub fn base(&self) -> u32 {
        u32::from(self.next.bits()) | u32::from(self.used.bits()) << 16
    }

    /// The next place.
    pub fn position(&self) -> Place {
        self.next
    }

    /// Returns to an earlier position, from which nothing was used.
    pub fn rewind(&mut self, position: Place) {
        self.next = position;
    }

    /// Takes the next available chain; `None` if there is none.
    #[inline]
    pub fn take(
        &mut self,
        view: &View<'_>,
        memory: &GuestMemory,
        access: Access,
        segments: &mut Segments,
    ) -> Result<Option<Taken>, RingFault> {
        let Place { at, wrap } = self.next;
        let flags_at = usize::from(at) * DESCRIPTOR_BYTES + FLAGS;
        let flags = load(&view.table, flags_at, Ordering::Acquire)?;
        if (flags & AVAILABLE != 0) != wrap || (flags & USED != 0) == wrap {
            return Ok(None);
        }
        let may_be_indirect = self.may_be_indirect;
        let mut walk = Walk { memory, segments, access, may_be_indirect, bytes: 0, descriptors: 0 };
        let (id, entries) = self.walk(view, &mut walk)?;
        let (bytes, descriptors) = (walk.bytes, walk.descriptors as u16);
        self.next = self.next.after(entries, self.size);
        Ok(Some(Taken { id, entries, descriptors, bytes }))
    }

    /// Returns the buffer id and the number of entries.
    #[inline]
    fn walk<'a>(&self, view: &View<'a>, walk: &mut Walk<'a>) -> Result<(u16, u16), RingFault> {
        let (mut at, mut entries) = (self.next.at, 0);
        loop {
            // A chain that is as long as the ring would come back to its first descriptor.
            if entries == self.size {
                return Err(RingFault::Long);
            }
            entries += 1;
            let read = |table, at| {
                Descriptor::read(table, usize::from(at), true).ok_or(RingFault::Descriptor(at))
            };
            let descriptor = read(&view.table, at)?;
            if descriptor.flags & INDIRECT != 0 {
                let (table, count) = walk.table(&descriptor)?;
                for inner in 0..count {
                    let inner = u16::try_from(inner).map_err(|_| RingFault::Long)?;
                    let inner = read(&table, inner)?;
                    if inner.flags & INDIRECT != 0 {
                        return Err(RingFault::Indirect);
                    }
                    walk.add(&inner)?;
                }
            } else {
                walk.add(&descriptor)?;
            }
            if descriptor.flags & NEXT == 0 {
                return Ok((descriptor.link, entries));
            }
            at = if at + 1 == self.size { 0 } else { at + 1 };
        }
    }

    /// Gives a chain back with `written` bytes. The guest sees it after [`Self::publish`].
    #[inline]
    pub fn put_used(
        &mut self,
        view: &View<'_>,
        memory: &GuestMemory,
        areas: &Areas,
        (taken, written): (&Taken, u32),
    ) -> Result<(), RingFault> {
        let Place { at, wrap } = self.used;
        let offset = usize::from(at) * DESCRIPTOR_BYTES;
        let mut flags = if wrap { AVAILABLE | USED } else { 0 };
        if written > 0 {
            flags |= WRITE;
        }
        let mut entry = [0; FLAGS - LENGTH];
        entry[..ID - LENGTH].copy_from_slice(&written.to_le_bytes());
        entry[ID - LENGTH..].copy_from_slice(&taken.id.to_le_bytes());
        let place = view.table.subslice(offset + LENGTH, FLAGS - LENGTH);
        place.map_err(|_| RingFault::Place)?.copy_from(&entry);
        // The guest stops at the first descriptor that is not used, so its flags come last.
        if self.unpublished.is_none() {
            self.unpublished = Some((at, flags));
        } else {
            store(&view.table, offset + FLAGS, flags, Ordering::Release)?;
        }
        memory.log_write(areas.table, offset + LENGTH, DESCRIPTOR_BYTES - LENGTH);
        self.used = self.used.after(taken.entries, self.size);
        Ok(())
    }

    /// Shows the guest all chains that were given back.
    #[inline]
    pub fn publish(&mut self, view: &View<'_>) -> Result<(), RingFault> {
        let Some((at, flags)) = self.unpublished.take() else { return Ok(()) };
        let offset = usize::from(at) * DESCRIPTOR_BYTES + FLAGS;
        store(&view.table, offset, flags, Ordering::Release)
    }

    /// Whether the guest wants to be notified of what was published since the last call.
    #[inline]
    pub fn wants_notification(&mut self, view: &View<'_>) -> Result<bool, RingFault> {
        fence(Ordering::SeqCst);
        let (before, now) = (self.signalled.replace(self.used.at), self.used.at);
        let flags = load(&view.driver, EVENT_FLAGS, Ordering::Acquire)?;
        if flags != EVENTS_AT_DESCRIPTOR {
            return Ok(flags != EVENTS_OFF);
        }
        let event = Place::of(load(&view.driver, EVENT, Ordering::Relaxed)?);
        // Places before the last wrap are lower by the ring's size.
        let earlier =
            |at: u16, is_earlier: bool| at.wrapping_sub(if is_earlier { self.size } else { 0 });
        let event = earlier(event.at, event.wrap != self.used.wrap);
        Ok(before.is_none_or(|before| is_passed(event, now, earlier(before, now <= before))))
    }

    /// Tells the guest whether to notify of new entries.
    pub fn ask_for_kicks(
        &mut self,
        view: &View<'_>,
        memory: &GuestMemory,
        areas: &Areas,
        asks: bool,
    ) -> Result<(), RingFault> {
        let flags = if asks { 0 } else { EVENTS_OFF };
        store(&view.device, EVENT_FLAGS, flags, Ordering::Relaxed)?;
        memory.log_write(areas.device, EVENT_FLAGS, 2);
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Forces a notification after the next use.
    pub fn forget_signalled(&mut self) {
        self.signalled = None;
    }
}
