//! The flow syntax of `ovs-ofctl` (`ovs-ofctl(8)`, `ovs-fields(7)`, `ovs-actions(7)`): parsing, and
//! formatting exactly as `ovs-ofctl dump-flows` prints.

mod actions;
mod assign;
mod choice;
mod ct;
mod encap;
mod flow;
mod format_actions;
mod format_match;
mod group;
mod learn;
mod length;
mod matching;
mod mpls;
mod named_bits;
mod sample;
mod span;
mod value;

pub use actions::parse_actions;
pub use flow::{format_flow, parse_flow};
pub use format_actions::format_actions;
pub use format_match::format_match;
pub use group::{format_group, parse_group};
pub use matching::parse_match;
pub use named_bits::NamedBits;

use base::OfPort;
use std::fmt;

/// Returns the number of a port by name.
pub type PortNames<'a> = &'a dyn Fn(&str) -> Option<OfPort>;

/// An error in a text, with its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// Byte position of the error, from 1.
    pub column: usize,
    /// The error.
    pub what: String,
    /// A suggestion; empty if there is none.
    pub hint: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.what)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, " ({})", self.hint) }
    }
}

impl std::error::Error for TextError {}

#[cfg(test)]
mod tests;
