//! What several fuzz targets share.

#![forbid(unsafe_code)]

pub mod configuration;
pub mod dice;
pub mod json;
pub mod known;
pub mod lines;
pub mod openflow_stream;
pub mod status;
pub mod switch;
pub mod texts;
pub mod toml;
pub mod tracked;

/// Puts what was mutated behind `prefix`, as far as there is room, and gives the size of all.
fn put_back(data: &mut [u8], max_size: usize, prefix: usize, mutated: &[u8]) -> usize {
    let end = max_size.min(data.len()).min(prefix + mutated.len());
    data[prefix..end].copy_from_slice(&mutated[..end - prefix]);
    end
}
