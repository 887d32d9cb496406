//! Parentheses in the text of datapath flows and actions.

use super::parse::{ParseError, error};

/// Maximum nesting (ovs: `lib/odp-util.c`, `MAX_ODP_NESTED`).
const NESTED_MAX: usize = 32;

/// Refuses text with parentheses nested too deeply: recursive functions parse, print and execute the
/// contents.
pub(super) fn check_nesting(text: &str) -> Result<(), ParseError> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' if depth == NESTED_MAX => return error(&text[at..], "parentheses nest too deeply"),
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// The position at which the parenthesis open at the start is closed.
pub(super) fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}
