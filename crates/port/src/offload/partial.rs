//! Detects partial checksums of virtual devices that do not report them.

use super::{Layout, UDP_CHECKSUM, get_u16};
use packet::Checksum;
use wire::protocol;

/// Where the checksum field lies in a TCP header (RFC 9293).
const TCP_CHECKSUM: u16 = 16;

/// Returns whether the transport checksum is partial, for drivers without checksum metadata, such as AF_XDP
/// on a veth: the field then contains the pseudo header's sum. Otherwise returns [`Checksum::Unverified`].
///
/// One complete checksum in 65,536 looks the same. That is harmless: completing it yields the same value.
pub fn find_partial(frame: &[u8]) -> Checksum {
    undone(frame).unwrap_or(Checksum::Unverified)
}

fn undone(frame: &[u8]) -> Option<Checksum> {
    let layout = Layout::of(frame)?;
    let offset = match layout.protocol {
        protocol::TCP => TCP_CHECKSUM,
        protocol::UDP => UDP_CHECKSUM,
        _ => return None,
    };
    let end = if layout.ipv6 {
        layout.network + 40 + usize::from(get_u16(frame, layout.network + 4)?)
    } else {
        // Fragments have no transport checksum of their own (flag MF, or a non-zero offset).
        if get_u16(frame, layout.network + 6)? & 0x3fff != 0 {
            return None;
        }
        layout.network + usize::from(get_u16(frame, layout.network + 2)?)
    };
    let length = end.checked_sub(layout.transport).filter(|_| end <= frame.len())?;
    let field = get_u16(frame, layout.transport + usize::from(offset))?;
    let is_undone = field == layout.pseudo_header_sum(frame, length)?;
    let start = u16::try_from(layout.transport).ok()?;
    is_undone.then_some(Checksum::Partial { start, offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::complete_checksum;
    use packet::Packet;
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
        frame.extend(vec![0x11; header_bytes]);
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
                let partial = Checksum::Partial { start: transport as u16, offset };
                assert_eq!(found, partial, "protocol {protocol}, IPv6 {ipv6}");

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
