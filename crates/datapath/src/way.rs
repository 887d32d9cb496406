//! Where packets go, in one word.

use crate::walks::WalkId;
use classifier::Handle;

/// One flow that is all of the way, or a walk through several; or nothing that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way(u64);

/// What a [`Way`] stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// One flow.
    Flow(Handle),
    /// Several.
    Walk(WalkId),
}

/// Neither flows nor walks are ever so many that this bit of their place is set.
const IS_WALK: u64 = 1 << 31;

impl Way {
    /// Nothing that is known.
    pub const NONE: Way = Way(u64::MAX);

    /// Through this flow.
    pub fn flow(handle: Handle) -> Way {
        Way(handle.to_word())
    }

    /// Through these.
    pub fn walk(walk: WalkId) -> Way {
        Way(u64::from(walk.generation) << 32 | IS_WALK | u64::from(walk.slot))
    }

    /// Whether nothing is known.
    #[inline]
    pub fn is_none(self) -> bool {
        self == Way::NONE
    }

    /// What it stands for.
    #[inline]
    pub fn route(self) -> Option<Route> {
        if self.is_none() {
            return None;
        }
        if self.0 & IS_WALK == 0 {
            return Some(Route::Flow(Handle::from_word(self.0)));
        }
        let slot = (self.0 & !IS_WALK) as u32;
        Some(Route::Walk(WalkId { slot, generation: (self.0 >> 32) as u32 }))
    }
}
