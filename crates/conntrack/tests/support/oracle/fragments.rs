//! Fragments: held until their datagram is complete (RFC 791 section 3.2, RFC 8200 section 4.5, RFC 5722).

use super::reading;
use base::PortNo;
use conntrack::IpVersion;
use flow::Frame;
use packet::Packet;
use std::net::IpAddr;

const LIFETIME_MS: u64 = 15_000;

/// The datagram of a fragment: zone, addresses, protocol and identification.
type Datagram = (u16, IpAddr, IpAddr, u8, u32);

struct Piece {
    datagram: Datagram,
    offset: usize,
    is_last: bool,
    bytes: Vec<u8>,
    /// Offset of its data in its bytes.
    data: usize,
    len: usize,
}

pub struct Fragments {
    held: Vec<Piece>,
    /// IPv6 datagrams with overlaps.
    given_up: Vec<Datagram>,
    /// All datagrams, oldest first, each with the time of its first fragment.
    begun: Vec<(Datagram, u64)>,
    pub max: usize,
}

pub enum Taken {
    /// The packet is not a fragment.
    NoFragment,
    Held,
    /// The fragment is passed on alone, as invalid.
    Refused,
    Whole(Box<Whole>),
}

/// The most frequent property; among equals, that of the first datagram.
fn most<T: PartialEq>(all: &[Datagram], of: impl Fn(&Datagram) -> T) -> T {
    let count = |it: &Datagram| all.iter().filter(|other| of(other) == of(it)).count();
    let highest = all.iter().map(count).max();
    let first = all.iter().find(|it| Some(count(it)) == highest);
    of(first.expect("there is one at least"))
}

/// A complete datagram as one packet, and its fragments.
pub struct Whole {
    pub frame: Frame,
    pieces: Vec<Piece>,
}

impl Fragments {
    pub fn new() -> Fragments {
        Fragments { held: Vec::new(), given_up: Vec::new(), begun: Vec::new(), max: 1000 }
    }

    pub fn take(&mut self, now_ms: u64, zone: u16, frame: &Frame) -> Taken {
        let bytes = frame.packet.data();
        let (kind, ip) = reading::network(bytes);
        let place = match kind {
            0x0800 | 0x86dd => reading::place(bytes, ip, false),
            _ => None,
        };
        let Some(place) = place else { return Taken::NoFragment };
        let Some((offset, more, id)) = place.fragment else { return Taken::NoFragment };
        let (src, dst) = reading::addresses(bytes, ip);
        let piece = Piece {
            datagram: (zone, src, dst, place.protocol, id),
            offset,
            is_last: !more,
            data: place.l4,
            len: place.end - place.l4,
            bytes: bytes.to_vec(),
        };
        self.hold(now_ms, piece, place.end - ip)
    }

    fn hold(&mut self, now_ms: u64, piece: Piece, bytes: usize) -> Taken {
        let version = if piece.datagram.1.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        let least = if version == IpVersion::V4 { 1200 } else { 1280 };
        let datagram = piece.datagram;
        // A datagram's deadline counts from its first fragment.
        let is_over = |(_, since_ms): &&(Datagram, u64)| now_ms > since_ms + LIFETIME_MS;
        let over: Vec<Datagram> = self.begun.iter().filter(is_over).map(|it| it.0).collect();
        over.iter().for_each(|it| self.forget(it));
        let is_odd = !piece.is_last && !piece.len.is_multiple_of(8);
        if (!piece.is_last && bytes < least) || is_odd || piece.len == 0 {
            return Taken::Refused;
        }
        if !self.make_room(now_ms, datagram) || self.given_up.contains(&datagram) {
            return Taken::Refused;
        }
        let same = || self.held.iter().filter(|it| it.datagram == datagram);
        // An IPv6 duplicate must be an exact copy (RFC 8200 section 4.5).
        let data = |it: &Piece| it.bytes[it.data..it.data + it.len].to_vec();
        let is_same_data = |it: &Piece| version == IpVersion::V4 || data(it) == data(&piece);
        let is_again = |it: &Piece| {
            (it.offset, it.len, it.is_last) == (piece.offset, piece.len, piece.is_last)
                && is_same_data(it)
        };
        if same().any(is_again) {
            return Taken::Refused;
        }
        let end = piece.offset + piece.len;
        let overlaps = |it: &Piece| {
            let beyond = it.is_last && end > it.offset + it.len;
            let before = piece.is_last && it.offset + it.len > end;
            (it.offset < end && piece.offset < it.offset + it.len) || beyond || before
        };
        if same().any(overlaps) {
            if version == IpVersion::V6 {
                self.given_up.push(datagram);
                self.held.retain(|it| it.datagram != datagram);
            }
            return Taken::Refused;
        }
        self.held.push(piece);
        self.whole(datagram).map_or(Taken::Held, |whole| Taken::Whole(Box::new(whole)))
    }

    fn forget(&mut self, datagram: &Datagram) {
        self.held.retain(|it| it.datagram != *datagram);
        self.given_up.retain(|it| it != datagram);
        self.begun.retain(|(it, _)| it != datagram);
    }

    /// Adds a datagram. Drops the oldest of the source with the most fragments, in the zone with the most,
    /// until there is room for one more; returns false if that is the new datagram.
    fn make_room(&mut self, now_ms: u64, datagram: Datagram) -> bool {
        let is_new = self.begun.iter().all(|(it, _)| *it != datagram);
        if is_new {
            self.begun.push((datagram, now_ms));
        }
        while self.held.len() >= self.max || self.begun.len() > self.max {
            let all: Vec<Datagram> = self.begun.iter().map(|(it, _)| *it).collect();
            let zone = most(&all, |it| it.0);
            let of_zone: Vec<Datagram> = all.into_iter().filter(|it| it.0 == zone).collect();
            let source = most(&of_zone, |it| it.1);
            let oldest = *of_zone.iter().find(|it| it.1 == source).expect("it has some");
            if oldest == datagram {
                if is_new {
                    self.forget(&datagram);
                }
                return false;
            }
            self.forget(&oldest);
        }
        true
    }

    /// Removes and returns a datagram if it is complete.
    fn whole(&mut self, datagram: Datagram) -> Option<Whole> {
        let mut places: Vec<(usize, usize, bool)> = Vec::new();
        places.extend(
            self.held
                .iter()
                .filter(|it| it.datagram == datagram)
                .map(|it| (it.offset, it.len, it.is_last)),
        );
        places.sort_unstable();
        let mut next = 0;
        for &(offset, len, _) in &places {
            if offset != next {
                return None;
            }
            next += len;
        }
        if !places.last().is_some_and(|last| last.2) {
            return None;
        }
        let mut pieces: Vec<Piece> =
            self.held.extract_if(.., |it| it.datagram == datagram).collect();
        pieces.sort_by_key(|it| it.offset);
        self.forget(&datagram);
        Some(Whole { frame: join(&pieces), pieces })
    }
}

/// One packet of all fragments: the first one's headers, without the fragment header.
fn join(pieces: &[Piece]) -> Frame {
    let first = &pieces[0];
    let bytes = &first.bytes;
    let (_, ip) = reading::network(bytes);
    let is_v4 = bytes[ip] >> 4 == 4;
    let mut whole = bytes[..if is_v4 { first.data } else { ip + 40 }].to_vec();
    if is_v4 {
        whole[ip + 6..ip + 8].fill(0);
    } else {
        whole[ip + 6] = first.datagram.3;
    }
    for piece in pieces {
        whole.extend(&piece.bytes[piece.data..piece.data + piece.len]);
    }
    let len = (whole.len() - ip - if is_v4 { 0 } else { 40 }) as u16;
    let field = if is_v4 { ip + 2 } else { ip + 4 };
    whole[field..field + 2].copy_from_slice(&len.to_be_bytes());
    if is_v4 {
        whole[ip + 10..ip + 12].fill(0);
        let header = ip..ip + usize::from(whole[ip] & 15) * 4;
        let sum = wire::checksum::checksum(&whole[header]);
        whole[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    }
    Frame::parse(Packet::from_bytes(&whole), PortNo(1)).expect("an Ethernet header")
}

impl Whole {
    /// Returns the fragments again, with the result for the whole datagram.
    pub fn apart(self) -> Vec<Frame> {
        let Whole { frame: whole, pieces } = self;
        let from = whole.packet.data();
        let (_, ip) = reading::network(from);
        let begin = reading::place(from, ip, false).expect("it was put together").l4;
        let addresses = if from[ip] >> 4 == 4 { ip + 12..ip + 20 } else { ip + 8..ip + 40 };
        let part = |piece: Piece| {
            let mut bytes = piece.bytes.clone();
            bytes[addresses.clone()].copy_from_slice(&from[addresses.clone()]);
            let data = begin + piece.offset..begin + piece.offset + piece.len;
            bytes[piece.data..piece.data + piece.len].copy_from_slice(&from[data]);
            if bytes[ip] >> 4 == 4 {
                bytes[ip + 10..ip + 12].fill(0);
                let header = ip..ip + usize::from(bytes[ip] & 15) * 4;
                let sum = wire::checksum::checksum(&bytes[header]);
                bytes[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            }
            let packet = Packet::from_bytes(&bytes);
            let mut frame = Frame::parse(packet, PortNo(1)).expect("an Ethernet header");
            super::writing::copy_ct(&mut frame.key, &whole.key);
            frame
        };
        pieces.into_iter().map(part).collect()
    }
}
