//! The vnet header: ten bytes before every frame that describe its offload (Linux:
//! `include/uapi/linux/virtio_net.h`, in native byte order on these interfaces).

use packet::{Checksum, Gso, GsoKind, Offload};

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 10;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Returns the offload in the received header of `frame`; `None` if it has a segmentation that the switch
/// does not support (the kernel's old UDP fragmentation, tunnels) or contradicts the frame.
pub(crate) fn decode(header: &[u8; HEADER_BYTES], frame: &[u8]) -> Option<Offload> {
    let [flags, gso_type, _, _, size0, size1, start0, start1, offset0, offset1] = *header;
    let checksum = if flags & NEEDS_CSUM != 0 {
        let start = u16::from_ne_bytes([start0, start1]);
        let offset = u16::from_ne_bytes([offset0, offset1]);
        if usize::from(start) + usize::from(offset) + 2 > frame.len() {
            return None;
        }
        Checksum::Partial { start, offset }
    } else if flags & DATA_VALID != 0 {
        Checksum::Good
    } else {
        Checksum::Unverified
    };
    if gso_type == GSO_NONE {
        return Some(Offload { checksum, gso: None });
    }
    let kind = match gso_type & !GSO_ECN {
        GSO_TCPV4 => GsoKind::TcpV4,
        GSO_TCPV6 => GsoKind::TcpV6,
        GSO_UDP_L4 => GsoKind::UdpL4,
        _ => return None,
    };
    let transport = match checksum {
        Checksum::Partial { start, .. } => Some(usize::from(start)),
        Checksum::Good | Checksum::Unverified => None,
    };
    let segment_bytes = u16::from_ne_bytes([size0, size1]);
    if segment_bytes == 0 {
        return None;
    }
    // The header's length field is only a hint, which the kernel sets to the linear part of its buffer: parse
    // the frame instead.
    let header_bytes = port::offload::gso_header_bytes(frame, kind, transport)?;
    let ecn = gso_type & GSO_ECN != 0;
    Some(Offload { checksum, gso: Some(Gso { kind, segment_bytes, header_bytes, ecn }) })
}

/// Returns the header for a frame with this offload.
pub(crate) fn encode(offload: &Offload) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    match offload.checksum {
        Checksum::Unverified => {}
        Checksum::Good => header[0] = DATA_VALID,
        Checksum::Partial { start, offset } => {
            header[0] = NEEDS_CSUM;
            header[6..8].copy_from_slice(&start.to_ne_bytes());
            header[8..10].copy_from_slice(&offset.to_ne_bytes());
        }
    }
    if let Some(gso) = offload.gso {
        header[1] = match gso.kind {
            GsoKind::TcpV4 => GSO_TCPV4,
            GsoKind::TcpV6 => GSO_TCPV6,
            GsoKind::UdpL4 => GSO_UDP_L4,
        };
        if gso.ecn {
            header[1] |= GSO_ECN;
        }
        header[2..4].copy_from_slice(&gso.header_bytes.to_ne_bytes());
        header[4..6].copy_from_slice(&gso.segment_bytes.to_ne_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv4 or IPv6 with a TCP header of 32 bytes or a UDP header, 100 bytes of payload.
    fn frame(kind: GsoKind) -> (Vec<u8>, u16) {
        let mut f = vec![0; 12];
        match kind {
            GsoKind::TcpV6 => {
                f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 132, 6, 64]);
                f.extend([0; 32]);
            }
            GsoKind::TcpV4 | GsoKind::UdpL4 => {
                let protocol = if kind == GsoKind::UdpL4 { 17 } else { 6 };
                f.extend([0x08, 0, 0x45, 0, 0, 152, 0, 0, 0, 0, 64, protocol]);
                f.extend([0; 10]);
            }
        }
        let transport = f.len() as u16;
        f.extend([0; 132]);
        f[usize::from(transport) + 12] = 0x80;
        (f, transport)
    }

    #[test]
    fn decode_is_the_inverse_of_encode() {
        let mut prng = port::fault::Prng::new(1);
        for round in 0..20_000 {
            let kind = [GsoKind::TcpV4, GsoKind::TcpV6, GsoKind::UdpL4][prng.below(3) as usize];
            let (bytes, transport) = frame(kind);
            let segmented = prng.below(2) == 1;
            let checksum = match prng.below(3) {
                0 => Checksum::Unverified,
                1 => Checksum::Good,
                // With segmentation the checksum starts at the transport header.
                _ if segmented => Checksum::Partial { start: transport, offset: 16 },
                _ => {
                    let start = prng.below(bytes.len() as u64 - 1);
                    let offset = prng.below(bytes.len() as u64 - 1 - start);
                    Checksum::Partial { start: start as u16, offset: offset as u16 }
                }
            };
            let header_bytes = transport + if kind == GsoKind::UdpL4 { 8 } else { 32 };
            let gso = segmented.then(|| Gso {
                kind,
                segment_bytes: 1 + prng.below(65535) as u16,
                header_bytes,
                ecn: prng.below(2) == 1,
            });
            let offload = Offload { checksum, gso };
            assert_eq!(decode(&encode(&offload), &bytes), Some(offload), "round {round}");
        }
    }

    #[test]
    fn any_header_over_any_frame_is_decoded_or_refused() {
        let mut prng = port::fault::Prng::new(2);
        let (full, _) = frame(GsoKind::TcpV4);
        for _ in 0..50_000 {
            let mut header = [0; HEADER_BYTES];
            header.iter_mut().for_each(|b| *b = prng.below(256) as u8);
            header[7] = prng.below(2) as u8;
            let bytes = &full[..prng.below(full.len() as u64 + 1) as usize];
            if let Some(offload) = decode(&header, bytes) {
                if let Checksum::Partial { start, offset } = offload.checksum {
                    assert!(usize::from(start) + usize::from(offset) + 2 <= bytes.len());
                }
                if let Some(gso) = offload.gso {
                    assert!(usize::from(gso.header_bytes) <= bytes.len() && gso.segment_bytes > 0);
                }
            }
        }
    }

    #[test]
    fn unknown_segmentation_is_refused() {
        let (bytes, _) = frame(GsoKind::TcpV4);
        for (gso_type, size) in [(3, 100), (2, 100), (0x7f, 100), (GSO_TCPV4, 0), (GSO_ECN, 100)] {
            let header = [0, gso_type, 0, 0, size, 0, 0, 0, 0, 0];
            assert_eq!(decode(&header, &bytes), None, "type {gso_type:#x} size {size}");
        }
    }
}
