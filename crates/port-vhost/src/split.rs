//! A split ring (VIRTIO 1.2 section 2.7), from the device's side.

use crate::areas::{Areas, View, load, store};
use crate::chain::{Access, DESCRIPTOR_BYTES, Descriptor, INDIRECT, NEXT, Segments, Taken, Walk};
use crate::fault::RingFault;
use crate::memory::GuestMemory;
use std::sync::atomic::{Ordering, fence};

/// Offsets in the areas of driver and device.
const FLAGS: usize = 0;
const INDEX: usize = 2;
const ENTRIES: usize = 4;
const USED_BYTES: usize = 8;
/// The other side need not notify.
const NO_NOTIFICATION: u16 = 1;

/// The state of a ring. Everything taken is used in the same order, so one index tells both.
#[derive(Debug)]
pub struct Split {
    size: u16,
    has_events: bool,
    may_be_indirect: bool,
    /// The next available entry.
    next: u16,
    /// The available index that was read last.
    seen: u16,
    /// The next used entry.
    used: u16,
    /// The used index at the last decision on a notification.
    signalled: Option<u16>,
}

impl Split {
    /// Returns the lengths of the areas of a ring with this size: table, driver and device.
    pub fn lengths(size: u16) -> [u32; 3] {
        let size = u32::from(size);
        [16 * size, 6 + 2 * size, 6 + 8 * size]
    }

    /// A ring that goes on where the device stopped: at the used index. `base` is what the front-end knows.
    pub fn new(size: u16, has_events: bool, may_be_indirect: bool, base: u16) -> Split {
        let (next, signalled) = (base, None);
        Split { size, has_events, may_be_indirect, next, seen: next, used: next, signalled }
    }

    /// Reads where the device stopped. After a crash of the switch, the front-end's number is old.
    pub fn resume(&mut self, view: &View<'_>) -> Result<(), RingFault> {
        let used = load(&view.device, INDEX, Ordering::Acquire)?;
        (self.next, self.seen, self.used) = (used, used, used);
        Ok(())
    }

    /// The next available entry.
    pub fn position(&self) -> u16 {
        self.next
    }

    /// Returns to an earlier position, from which nothing was used.
    pub fn rewind(&mut self, position: u16) {
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
        if self.next == self.seen && !self.look(view)? {
            return Ok(None);
        }
        let slot = usize::from(self.next & (self.size - 1));
        let head = load(&view.driver, ENTRIES + 2 * slot, Ordering::Relaxed)?;
        let may_be_indirect = self.may_be_indirect;
        let mut walk = Walk { memory, segments, access, may_be_indirect, bytes: 0, descriptors: 0 };
        self.walk(view, head, &mut walk)?;
        let (bytes, descriptors) = (walk.bytes, walk.descriptors as u16);
        self.next = self.next.wrapping_add(1);
        Ok(Some(Taken { id: head, entries: 1, descriptors, bytes }))
    }

    /// Reads the available index. Returns whether there is a new entry.
    #[inline]
    fn look(&mut self, view: &View<'_>) -> Result<bool, RingFault> {
        let to = load(&view.driver, INDEX, Ordering::Acquire)?;
        if to.wrapping_sub(self.next) > self.size {
            return Err(RingFault::Index { from: self.next, to, size: self.size });
        }
        self.seen = to;
        Ok(to != self.next)
    }

    #[inline]
    fn walk<'a>(&self, view: &View<'a>, head: u16, walk: &mut Walk<'a>) -> Result<(), RingFault> {
        let (mut table, mut entries) = (view.table, u32::from(self.size));
        let (mut at, mut is_direct) = (head, true);
        loop {
            let found = if u32::from(at) < entries {
                Descriptor::read(&table, usize::from(at), false)
            } else {
                None
            };
            let descriptor = found.ok_or(RingFault::Descriptor(at))?;
            if descriptor.flags & INDIRECT != 0 {
                if !std::mem::replace(&mut is_direct, false) {
                    return Err(RingFault::Indirect);
                }
                (table, entries) = walk.table(&descriptor)?;
                at = 0;
                continue;
            }
            walk.add(&descriptor)?;
            if descriptor.flags & NEXT == 0 {
                return Ok(());
            }
            at = descriptor.link;
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
        let slot = usize::from(self.used & (self.size - 1));
        let offset = ENTRIES + USED_BYTES * slot;
        let mut entry = [0; USED_BYTES];
        entry[..4].copy_from_slice(&u32::from(taken.id).to_le_bytes());
        entry[4..].copy_from_slice(&written.to_le_bytes());
        let place = view.device.subslice(offset, USED_BYTES);
        place.map_err(|_| RingFault::Place)?.copy_from(&entry);
        memory.log_write(areas.device, offset, USED_BYTES);
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Shows the guest all chains that were given back.
    #[inline]
    pub fn publish(
        &mut self,
        view: &View<'_>,
        memory: &GuestMemory,
        areas: &Areas,
    ) -> Result<(), RingFault> {
        store(&view.device, INDEX, self.used, Ordering::Release)?;
        memory.log_write(areas.device, INDEX, 2);
        Ok(())
    }

    /// Whether the guest wants to be notified of what was published since the last call.
    #[inline]
    pub fn wants_notification(&mut self, view: &View<'_>) -> Result<bool, RingFault> {
        // The guest asks for notifications and then looks at the index; here it is the reverse.
        fence(Ordering::SeqCst);
        let before = self.signalled.replace(self.used);
        if !self.has_events {
            return Ok(load(&view.driver, FLAGS, Ordering::Relaxed)? & NO_NOTIFICATION == 0);
        }
        let event_at = ENTRIES + 2 * usize::from(self.size);
        let event = load(&view.driver, event_at, Ordering::Relaxed)?;
        Ok(before.is_none_or(|before| is_passed(event, self.used, before)))
    }

    /// Tells the guest whether to notify of new entries.
    pub fn ask_for_kicks(
        &mut self,
        view: &View<'_>,
        memory: &GuestMemory,
        areas: &Areas,
        asks: bool,
    ) -> Result<(), RingFault> {
        let (at, value) = if self.has_events {
            // The furthest event is the one before the next.
            let event = if asks { self.next } else { self.next.wrapping_sub(1) };
            (ENTRIES + USED_BYTES * usize::from(self.size), event)
        } else {
            (FLAGS, if asks { 0 } else { NO_NOTIFICATION })
        };
        store(&view.device, at, value, Ordering::Relaxed)?;
        memory.log_write(areas.device, at, 2);
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Forces a notification after the next use.
    pub fn forget_signalled(&mut self) {
        self.signalled = None;
    }
}

const _: () = assert!(DESCRIPTOR_BYTES == 16);

/// Whether an index that went from `before` to `now` passed `event` (VIRTIO 1.2 section 2.7.7.1).
#[inline]
pub fn is_passed(event: u16, now: u16, before: u16) -> bool {
    now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before)
}
