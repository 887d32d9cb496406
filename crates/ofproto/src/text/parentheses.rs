//! Parentheses in the text of datapath flows and actions.

use super::parse::{ParseError, error};

/// Parentheses within each other (ovs: `lib/odp-util.c`, `MAX_ODP_NESTED`).
const NESTED_MAX: usize = 32;

/// Refuses text whose parentheses nest too deeply: what stands in them is read, printed and carried out by
/// functions that call themselves.
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

/// Where the parenthesis that is open at the start is closed.
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
