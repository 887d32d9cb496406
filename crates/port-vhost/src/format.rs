//! The two formats of rings behind one set of operations.

use crate::areas::{Areas, View};
use crate::chain::{Access, Segments, Taken};
use crate::fault::RingFault;
use crate::feature;
use crate::memory::GuestMemory;
use crate::packed::{self, Packed};
use crate::split::Split;

/// A ring of either format.
#[derive(Debug)]
pub enum Format {
    /// Descriptors, available ring and used ring.
    Split(Split),
    /// One ring for all.
    Packed(Packed),
}

/// A position to return to.
#[derive(Clone, Copy, Debug)]
pub enum Position {
    /// Of a split ring.
    Split(u16),
    /// Of a packed ring.
    Packed(packed::Place),
}

impl Format {
    /// A ring with these features, at the front-end's base.
    pub fn new(features: u64, size: u16, base: u32) -> Result<Format, RingFault> {
        let may_be_indirect = features & feature::INDIRECT_DESC != 0;
        if features & feature::RING_PACKED != 0 {
            let packed = Packed::new(size, may_be_indirect, base);
            return packed.map(Format::Packed).ok_or(RingFault::Place);
        }
        if !size.is_power_of_two() {
            return Err(RingFault::Place);
        }
        let has_events = features & feature::EVENT_IDX != 0;
        Ok(Format::Split(Split::new(size, has_events, may_be_indirect, base as u16)))
    }

    /// Returns the lengths of the areas of a ring with these features: table, driver and device.
    pub fn lengths(features: u64, size: u16) -> [u32; 3] {
        let is_packed = features & feature::RING_PACKED != 0;
        if is_packed { Packed::lengths(size) } else { Split::lengths(size) }
    }

    /// Finds in a split ring's memory where it goes on.
    pub fn resume(&mut self, view: &View<'_>) -> Result<(), RingFault> {
        match self {
            Format::Split(split) => split.resume(view),
            Format::Packed(_) => Ok(()),
        }
    }

    /// The base for the front-end.
    pub fn base(&self) -> u32 {
        match self {
            Format::Split(split) => split.position().into(),
            Format::Packed(packed) => packed.base(),
        }
    }

    /// The next position.
    #[inline]
    pub fn position(&self) -> Position {
        match self {
            Format::Split(split) => Position::Split(split.position()),
            Format::Packed(packed) => Position::Packed(packed.position()),
        }
    }

    /// Returns to an earlier position, from which nothing was used.
    #[inline]
    pub fn rewind(&mut self, position: Position) {
        match (self, position) {
            (Format::Split(split), Position::Split(to)) => split.rewind(to),
            (Format::Packed(packed), Position::Packed(to)) => packed.rewind(to),
            _ => {}
        }
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
        match self {
            Format::Split(split) => split.take(view, memory, access, segments),
            Format::Packed(packed) => packed.take(view, memory, access, segments),
        }
    }

    /// Gives a chain back with a number of written bytes.
    #[inline]
    pub fn put_used(
        &mut self,
        view: &View<'_>,
        memory: &GuestMemory,
        areas: &Areas,
        used: (&Taken, u32),
    ) -> Result<(), RingFault> {
        match self {
            Format::Split(split) => split.put_used(view, memory, areas, used),
            Format::Packed(packed) => packed.put_used(view, memory, areas, used),
        }
    }

    /// Shows the guest what was given back. Returns whether it wants to be notified.
    #[inline]
    pub fn publish(
        &mut self,
        view: &View<'_>,
        memory: &GuestMemory,
        areas: &Areas,
    ) -> Result<bool, RingFault> {
        match self {
            Format::Split(split) => {
                split.publish(view, memory, areas)?;
                split.wants_notification(view)
            }
            Format::Packed(packed) => {
                packed.publish(view)?;
                packed.wants_notification(view)
            }
        }
    }

    /// Tells the guest whether to notify of new entries.
    pub fn ask_for_kicks(
        &mut self,
        view: &View<'_>,
        memory: &GuestMemory,
        areas: &Areas,
        asks: bool,
    ) -> Result<(), RingFault> {
        match self {
            Format::Split(split) => split.ask_for_kicks(view, memory, areas, asks),
            Format::Packed(packed) => packed.ask_for_kicks(view, memory, areas, asks),
        }
    }

    /// Forces a notification after the next use.
    pub fn forget_signalled(&mut self) {
        match self {
            Format::Split(split) => split.forget_signalled(),
            Format::Packed(packed) => packed.forget_signalled(),
        }
    }
}
