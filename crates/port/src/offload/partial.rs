//! Partial checksums: which ones the switch carries on, how they are completed, and how they are detected on virtual
//! devices that do not report them.

use super::layout::{Layout, UDP_CHECKSUM, get_u16, put_u16};
use super::segment::inner_layout;
use packet::{Checksum, Packet};
use wire::checksum::{checksum, sctp_crc, udp_nonzero};
use wire::{protocol, sctp};

/// Completes a transport checksum that is [`Checksum::Partial`]; other states are unchanged.
///
/// The field already contains the pseudo header's sum, so only the sum from the transport header to the end of the
/// packet is missing. Nothing but the checksum field of a TCP or UDP header is ever written, and a packet without one
/// becomes [`Checksum::Unverified`]. A packet with `gso` gets the checksum of the large frame; use
/// [`super::segment`] for the checksums of segments.
pub fn complete_checksum(packet: &mut Packet) {
    if packet.offload.checksum != Checksum::Partial {
        return;
    }
    let completed = write_completed(packet.data_mut());
    packet.offload.checksum =
        if completed.is_some() { Checksum::Good } else { Checksum::Unverified };
}

fn write_completed(frame: &mut [u8]) -> Option<()> {
    let layout = Layout::of_whole(frame)?;
    let (start, end) = (layout.transport, layout.end(frame)?);
    let computed = checksum(frame.get(start..end)?);
    let offset = layout.checksum_offset()?;
    let computed = if offset == UDP_CHECKSUM { udp_nonzero(computed) } else { computed };
    put_u16(frame, start + usize::from(offset), computed)
}

/// Returns whether the frame has a whole TCP or UDP header, whose checksum may be partial.
pub fn is_whole(frame: &[u8]) -> bool {
    Layout::of_whole(frame).is_some()
}

/// Returns the start and offset of a partial checksum in a frame's outermost TCP or UDP header, and the header's
/// end. The frame may end before its packet.
pub(crate) fn partial_place(frame: &[u8]) -> Option<(u16, u16, u16)> {
    let layout = Layout::of(frame)?;
    let (start, end) = (layout.transport, layout.header_end(frame)?);
    Some((u16::try_from(start).ok()?, layout.checksum_offset()?, u16::try_from(end).ok()?))
}

/// Takes over a partial checksum that a sender states: the sum from `start` belongs `offset` bytes behind it. It stays
/// partial if that is the checksum of the frame's TCP or UDP header, and is completed at once otherwise, before
/// anything reads the frame. Returns false if it is outside of the frame.
pub(crate) fn state_partial(packet: &mut Packet, start: usize, offset: usize) -> bool {
    let layout = Layout::of_whole(packet.data());
    let is_transport = layout.is_some_and(|it| {
        it.transport == start && it.checksum_offset().map(usize::from) == Some(offset)
    });
    if is_transport {
        packet.offload.checksum = Checksum::Partial;
        return true;
    }
    complete_at(packet.data_mut(), start, offset).is_some()
}

/// Completes a checksum at any place. That of SCTP is a CRC32c; the kernel marks it in its buffer
/// (`csum_not_inet`), but not in a vnet header.
fn complete_at(frame: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let field = start.checked_add(offset)?;
    let covered = frame.get(start..)?;
    let is_sctp = |layout: &Layout| layout.transport == start && layout.protocol == protocol::SCTP;
    let sctp = (offset == sctp::CHECKSUM_OFFSET)
        .then(|| Layout::of(frame).filter(is_sctp).or_else(|| inner_layout(frame, start)))
        .flatten()
        .filter(is_sctp);
    if let Some(packet) = sctp.and_then(|layout| frame.get(start..layout.end(frame)?)) {
        let crc = sctp_crc(packet).to_le_bytes();
        frame.get_mut(field..field + crc.len())?.copy_from_slice(&crc);
        return Some(());
    }
    // As the kernel, which completes the checksum of any protocol so (Linux: `net/core/dev.c`,
    // `skb_checksum_help`).
    let computed = udp_nonzero(checksum(covered));
    put_u16(frame, field, computed)
}

/// Returns whether the transport checksum is partial, for drivers without checksum metadata, such as AF_XDP
/// on a veth: the field then contains the pseudo header's sum. Otherwise returns [`Checksum::Unverified`].
///
/// One complete checksum in 65,536 looks the same. That is harmless: completing it yields the same value.
pub fn find_partial(frame: &[u8]) -> Checksum {
    undone(frame).unwrap_or(Checksum::Unverified)
}

fn undone(frame: &[u8]) -> Option<Checksum> {
    let layout = Layout::of_whole(frame)?;
    let length = layout.end(frame)?.checked_sub(layout.transport)?;
    let field = get_u16(frame, layout.transport + usize::from(layout.checksum_offset()?))?;
    (field == layout.pseudo_header_sum(frame, length)?).then_some(Checksum::Partial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::layout::TCP_CHECKSUM;
    use wire::checksum::{combine, sum, udp_nonzero};

    /// Returns a frame with this protocol and payload, the transport offset, and the pseudo header's sum.
    fn frame(ipv6: bool, protocol: u8, payload: &[u8]) -> (Vec<u8>, usize, u16) {
        let header_bytes = if protocol == protocol::TCP { 20 } else { 8 };
        let length = (header_bytes + payload.len()) as u16;
        let mut frame = vec![2; 12];
        let addresses = if ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([0xfd; 32]);
            sum(&[0xfd; 32])
        } else {
            frame.extend([0x08, 0, 0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            frame.extend([0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            sum(&[10, 0, 0, 1, 10, 0, 0, 2])
        };
        let transport = frame.len();
        // The byte where TCP has its data offset says 20 bytes.
        frame.extend((0..header_bytes).map(|at| if at == 12 { 0x50 } else { 0x11 }));
        frame.extend(payload);
        (frame, transport, combine(addresses, combine(u16::from(protocol), length)))
    }

    #[test]
    fn sums_of_pseudo_headers_are_recognised_and_nothing_else() {
        for ipv6 in [false, true] {
            for (protocol, offset) in [(protocol::TCP, TCP_CHECKSUM), (protocol::UDP, UDP_CHECKSUM)]
            {
                let (mut bytes, transport, pseudo) = frame(ipv6, protocol, &[0x5a; 31]);
                let at = transport + usize::from(offset);
                bytes[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
                let found = find_partial(&bytes);
                assert_eq!(found, Checksum::Partial, "protocol {protocol}, IPv6 {ipv6}");

                let mut packet = Packet::from_bytes(&bytes);
                packet.offload.checksum = found;
                complete_checksum(&mut packet);
                let whole = combine(pseudo, sum(&packet.data()[transport..]));
                assert_eq!(whole, 0xffff, "protocol {protocol}, IPv6 {ipv6}");
                assert_eq!(find_partial(packet.data()), Checksum::Unverified);

                bytes[at] ^= 1;
                assert_eq!(find_partial(&bytes), Checksum::Unverified);
                bytes[at] ^= 1;
                for len in 0..bytes.len() {
                    assert_eq!(find_partial(&bytes[..len]), Checksum::Unverified, "{len} bytes");
                }
            }
        }
        let (mut bytes, transport, pseudo) = frame(false, protocol::UDP, &[0; 8]);
        bytes[transport + 6..transport + 8].copy_from_slice(&pseudo.to_be_bytes());
        bytes[20] = 0x20;
        assert_eq!(find_partial(&bytes), Checksum::Unverified, "a fragment");
        assert_eq!(find_partial(&[0; 60]), Checksum::Unverified);
    }

    #[test]
    fn a_complete_checksum_that_looks_undone_is_completed_to_itself() {
        // One payload in 65,536 has a checksum equal to the pseudo header's sum.
        let mut alike = 0;
        for word in 0..=u16::MAX {
            let (mut bytes, transport, pseudo) = frame(false, protocol::UDP, &word.to_be_bytes());
            bytes[transport + 6..transport + 8].fill(0);
            let checksum = udp_nonzero(!combine(pseudo, sum(&bytes[transport..])));
            bytes[transport + 6..transport + 8].copy_from_slice(&checksum.to_be_bytes());
            let found = find_partial(&bytes);
            if found != Checksum::Unverified {
                alike += 1;
                let mut packet = Packet::from_bytes(&bytes);
                packet.offload.checksum = found;
                complete_checksum(&mut packet);
                assert_eq!(packet.data(), bytes);
            }
        }
        assert_eq!(alike, 1);
    }
}
