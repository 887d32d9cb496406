//! Identifies the flows that a packet hits in one word.

use crate::flow_paths::FlowPathRef;
use classifier::Handle;

/// One flow, a flow path, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathId(u64);

/// The kinds of a [`PathId`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathKind {
    /// One flow.
    Flow(Handle),
    /// Several flows.
    Path(FlowPathRef),
}

/// Set in the ids of flow paths. Flows and flow paths are too few for their own numbers to reach it.
const IS_PATH: u64 = 1 << 31;

impl PathId {
    /// No flow.
    pub const NONE: PathId = PathId(u64::MAX);

    /// The id of a single flow.
    pub fn flow(handle: Handle) -> PathId {
        PathId(handle.to_word())
    }

    /// The id of a flow path.
    pub fn path(path: FlowPathRef) -> PathId {
        PathId(u64::from(path.generation) << 32 | IS_PATH | u64::from(path.slot))
    }

    /// Whether it is [`PathId::NONE`].
    #[inline]
    pub fn is_none(self) -> bool {
        self == PathId::NONE
    }

    /// The flow or flow path.
    #[inline]
    pub fn kind(self) -> Option<PathKind> {
        if self.is_none() {
            return None;
        }
        if self.0 & IS_PATH == 0 {
            return Some(PathKind::Flow(Handle::from_word(self.0)));
        }
        let slot = (self.0 & !IS_PATH) as u32;
        Some(PathKind::Path(FlowPathRef { slot, generation: (self.0 >> 32) as u32 }))
    }
}
