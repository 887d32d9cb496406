//! Code shared by the examples.

use flow::Frame;

/// Gives a packet another source address; updates the IP checksum.
pub fn set_source(frame: &mut Frame, number: u32) {
    let bytes = frame.packet.data_mut();
    let old = u32::from_be_bytes([bytes[26], bytes[27], bytes[28], bytes[29]]);
    let new = 0x0a00_0000 + number;
    let sum = u16::from_be_bytes([bytes[24], bytes[25]]);
    bytes[24..26].copy_from_slice(&wire::checksum::update_u32(sum, old, new).to_be_bytes());
    bytes[26..30].copy_from_slice(&new.to_be_bytes());
}
