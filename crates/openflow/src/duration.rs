//! Durations on the wire.

use crate::bytes::{Input, Output};
use crate::error::OfError;

/// Reads seconds and nanoseconds. Returns nanoseconds.
pub(crate) fn take_duration(input: &mut Input<'_>) -> Result<u64, OfError> {
    let (s, ns) = (u64::from(input.u32()?), u64::from(input.u32()?));
    Ok(s * 1_000_000_000 + ns)
}

pub(crate) fn put_duration(out: &mut Vec<u8>, ns: u64) {
    out.put_u32((ns / 1_000_000_000) as u32);
    out.put_u32((ns % 1_000_000_000) as u32);
}
