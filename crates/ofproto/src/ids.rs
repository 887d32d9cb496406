//! The numbers of bridges and flows.

/// Names a bridge; never used twice in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BridgeId(pub u32);

/// Identifies a flow; never reused in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleId(pub u64);

impl RuleId {
    /// Spreads consecutive ids.
    pub(crate) fn hash(self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
