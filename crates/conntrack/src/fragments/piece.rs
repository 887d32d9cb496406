//! A fragment's place in its datagram.

use super::IpVersion;
use base::Zone;
use flow::Frame;
use std::net::IpAddr;
use wire::checksum::{self, Verdict};
use wire::{Ipv4, Ipv6, ethertype};

/// The identity of a datagram (RFC 791 section 3.2, RFC 8200 section 4.5) and its place in the
/// switch: the same datagram may pass several zones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DatagramKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// The identification.
    pub id: u32,
    /// The protocol of IPv4; 0 for IPv6, whose identity does not include it.
    pub protocol: u8,
    /// The zone.
    pub zone: u16,
    /// The pass through the datapath.
    pub recirc_id: u32,
}

impl DatagramKey {
    /// Its IP version.
    pub fn version(&self) -> IpVersion {
        if self.src.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
    }
}

/// A fragment's place in its datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub key: DatagramKey,
    /// The first byte and one after the last, within the fragmented bytes.
    pub start: usize,
    pub end: usize,
    pub is_last: bool,
    /// The offset in the frame where those bytes begin.
    pub data_at: usize,
    /// The fragment's size with its IP header.
    pub ip_bytes: usize,
}

impl Place {
    /// Parses a fragment's headers. Returns `None` for an invalid fragment: no bytes, not a
    /// multiple of 8 bytes though more follow, or an end beyond the largest datagram.
    pub fn read(frame: &Frame, zone: Zone) -> Option<Place> {
        let l3 = usize::from(frame.layers.l3);
        let recirc_id = frame.key.recirc_id().0;
        let place = match frame.key.eth_type() {
            ethertype::IPV4 => {
                let ip = Ipv4::new_checked(frame.l3()).ok()?;
                if checksum::verify_ipv4_header(ip.header()) == Verdict::Bad {
                    return None;
                }
                let start = ip.fragment_offset();
                Place {
                    key: DatagramKey {
                        src: ip.source().into(),
                        dst: ip.destination().into(),
                        id: ip.id().into(),
                        protocol: ip.protocol(),
                        zone: zone.0,
                        recirc_id,
                    },
                    start,
                    end: start + ip.payload().len(),
                    is_last: !ip.more_fragments(),
                    data_at: l3 + ip.header_len(),
                    ip_bytes: ip.total_len(),
                }
            }
            _ => {
                let ip = Ipv6::new_checked(frame.l3()).ok()?;
                let header = ip.extensions().ok()?.fragment_header?;
                let data = header.at + wire::ipv6::FRAGMENT_HEADER_LEN;
                Place {
                    key: DatagramKey {
                        src: ip.source().into(),
                        dst: ip.destination().into(),
                        id: header.id,
                        protocol: 0,
                        zone: zone.0,
                        recirc_id,
                    },
                    start: header.offset,
                    end: header.offset + ip.payload_len().checked_sub(data)?,
                    is_last: !header.more,
                    data_at: l3 + wire::ipv6::HEADER_LEN + data,
                    ip_bytes: wire::ipv6::HEADER_LEN + ip.payload_len(),
                }
            }
        };
        let bytes = place.end - place.start;
        let fits = place.is_last || bytes.is_multiple_of(8);
        (bytes > 0 && fits && place.end <= usize::from(u16::MAX)).then_some(place)
    }
}

/// A fragment that is held.
#[derive(Debug)]
pub(super) struct Piece {
    pub place: Place,
    pub frame: Frame,
}

impl Piece {
    /// The fragment's bytes of the datagram.
    pub fn data(&self) -> &[u8] {
        data_of(&self.place, &self.frame)
    }
}

/// The fragment's bytes of the datagram.
pub(super) fn data_of<'a>(place: &Place, frame: &'a Frame) -> &'a [u8] {
    let end = place.data_at + (place.end - place.start);
    frame.packet.data().get(place.data_at..end).unwrap_or_default()
}
