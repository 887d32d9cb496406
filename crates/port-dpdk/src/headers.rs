//! The positions of a frame's headers, for devices that need them.

use wire::{ethertype, protocol};

/// The headers of a TCP or UDP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Headers {
    /// Bytes before the IP header.
    pub l2_bytes: u16,
    /// Bytes of the IP header, extensions included.
    pub l3_bytes: u16,
    /// Bytes of the TCP or UDP header.
    pub l4_bytes: u16,
    /// Whether it is IPv6.
    pub is_ipv6: bool,
    /// Whether it is TCP, and not UDP.
    pub is_tcp: bool,
}

impl Headers {
    /// Parses the headers; `None` for anything else, a truncated frame, or a fragment.
    pub fn of(frame: &[u8]) -> Option<Headers> {
        let mut at = 12;
        let mut ethertype = get_u16(frame, at)?;
        // At most two tags, as in the switch's flows.
        for _ in 0..2 {
            if ethertype::is_vlan(ethertype) {
                at += 4;
                ethertype = get_u16(frame, at)?;
            }
        }
        let l2 = at + 2;
        let (protocol, l3, is_ipv6) = match ethertype {
            ethertype::IPV4 => {
                let words = frame.get(l2)? & 0xf;
                // More fragments, or an offset (RFC 791 section 3.1).
                let fragment = get_u16(frame, l2 + 6)? & 0x3fff;
                if words < 5 || fragment != 0 {
                    return None;
                }
                (*frame.get(l2 + 9)?, usize::from(words) * 4, false)
            }
            ethertype::IPV6 => {
                let (protocol, bytes) = skip_extensions(frame.get(l2..)?)?;
                (protocol, bytes, true)
            }
            _ => return None,
        };
        let (is_tcp, l4) = match protocol {
            protocol::TCP => (true, usize::from(frame.get(l2 + l3 + 12)? >> 4) * 4),
            protocol::UDP => (false, 8),
            _ => return None,
        };
        if l4 < 8 || frame.len() < l2 + l3 + l4 {
            return None;
        }
        let short = |bytes: usize| u16::try_from(bytes).ok();
        Some(Headers {
            l2_bytes: short(l2)?,
            l3_bytes: short(l3)?,
            l4_bytes: short(l4)?,
            is_ipv6,
            is_tcp,
        })
    }
}

/// The transport protocol of an IPv6 packet and the offset of its header, behind hop-by-hop options, routing
/// and destination options (RFC 8200 section 4).
fn skip_extensions(packet: &[u8]) -> Option<(u8, usize)> {
    let (mut protocol, mut at) = (*packet.get(6)?, 40);
    for _ in 0..8 {
        if !matches!(
            protocol,
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS
        ) {
            return Some((protocol, at));
        }
        protocol = *packet.get(at)?;
        at += (usize::from(*packet.get(at + 1)?) + 1) * 8;
    }
    None
}

fn get_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::builder::PacketBuilder;

    fn check(frame: &[u8], expect: Option<(u16, u16, u16, bool, bool)>) {
        let found =
            Headers::of(frame).map(|h| (h.l2_bytes, h.l3_bytes, h.l4_bytes, h.is_ipv6, h.is_tcp));
        assert_eq!(found, expect, "{frame:02x?}");
        // Truncated anywhere, it never reads out of bounds.
        for len in 0..frame.len() {
            let _ = Headers::of(&frame[..len]);
        }
    }

    #[test]
    fn headers_are_found() {
        let a = base::MacAddr([2, 0, 0, 0, 0, 1]);
        let v4 = || PacketBuilder::eth(a, a).ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let udp = v4().udp(1, 2).payload([0; 30]).build();
        check(&udp, Some((14, 20, 8, false, false)));
        let mut tagged = udp.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        check(&tagged, Some((18, 20, 8, false, false)));
        tagged.splice(12..12, [0x88, 0xa8, 0, 6]);
        check(&tagged, Some((22, 20, 8, false, false)));
        let mut fragment = udp.clone();
        fragment[20] = 0x20;
        check(&fragment, None);
        let mut icmp = udp.clone();
        icmp[23] = 1;
        check(&icmp, None);
        check(&udp[..41], None);
        // TCP over IPv6 behind destination options of 8 bytes.
        let mut v6 = vec![0; 14 + 40 + 8 + 20];
        v6[12..14].copy_from_slice(&[0x86, 0xdd]);
        v6[14 + 6] = 60;
        v6[14 + 40] = 6;
        v6[14 + 48 + 12] = 5 << 4;
        check(&v6, Some((14, 48, 20, true, true)));
    }
}
