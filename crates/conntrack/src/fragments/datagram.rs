//! A datagram that is being reassembled.

use super::IpVersion;
use super::piece::{DatagramKey, Piece, Place, data_of};
use super::shares::Serial;
use super::status::{Arrival, HeldDatagram};
use flow::Frame;

/// The fragments of one datagram, in order and without overlaps.
#[derive(Debug)]
pub(super) struct Datagram {
    pieces: Vec<Piece>,
    /// The number of bytes received.
    bytes: usize,
    /// The datagram's length, once the last fragment has come.
    total: Option<usize>,
    /// Fragments overlapped: the whole datagram is dropped.
    given_up: bool,
    serial: Serial,
}

/// The result of adding a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The fragment is held; its packet is empty.
    Held,
    /// The fragment is held, and completes the datagram.
    Complete,
    /// The fragment overlaps another; `dropped` fragments were dropped with it.
    Overlaps { dropped: u32 },
    /// The fragment contradicts the others.
    Refused,
}

impl Datagram {
    pub fn new(serial: Serial) -> Self {
        Datagram { pieces: Vec::new(), bytes: 0, total: None, given_up: false, serial }
    }

    /// The number of held fragments.
    pub fn len(&self) -> u32 {
        self.pieces.len() as u32
    }

    /// Whether no fragment was added or refused yet.
    pub fn is_new(&self) -> bool {
        self.pieces.is_empty() && !self.given_up
    }

    /// Its deadline and number.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    pub fn into_pieces(self) -> Vec<Piece> {
        self.pieces
    }

    /// Adds a fragment, of which it holds a copy of minimal size.
    pub fn add(&mut self, place: Place, frame: &mut Frame) -> Outcome {
        if self.given_up {
            return Outcome::Refused;
        }
        let at = self.pieces.partition_point(|piece| piece.place.start < place.start);
        let overlaps_before = at > 0 && self.pieces[at - 1].place.end > place.start;
        let overlaps_after = self.pieces.get(at).is_some_and(|piece| piece.place.start < place.end);
        if overlaps_before || overlaps_after {
            return self.overlap(at, place, frame);
        }
        if !self.fits_the_end(&place) {
            return Outcome::Refused;
        }
        if place.is_last {
            self.total = Some(place.end);
        }
        self.bytes += place.end - place.start;
        let held = Frame {
            packet: frame.packet.compact_copy(),
            key: frame.key.clone(),
            layers: frame.layers,
            connection: None,
            received: frame.received,
        };
        frame.packet.truncate(0);
        self.pieces.insert(at, Piece { place, frame: held });
        if self.total == Some(self.bytes) { Outcome::Complete } else { Outcome::Held }
    }

    /// An IPv4 datagram goes on without the fragment. An IPv6 datagram is dropped, with fragments
    /// still to come (RFC 5722 section 4), unless the fragment is an exact copy of another, as RFC
    /// 8200 section 4.5 allows.
    fn overlap(&mut self, at: usize, place: Place, frame: &Frame) -> Outcome {
        let is_copy = self.pieces.get(at).is_some_and(|piece| {
            (piece.place.start, piece.place.end) == (place.start, place.end)
                && piece.data() == data_of(&place, frame)
        });
        if place.key.version() == IpVersion::V4 || is_copy {
            return Outcome::Overlaps { dropped: 0 };
        }
        let dropped = self.len();
        self.pieces = Vec::new();
        self.given_up = true;
        Outcome::Overlaps { dropped }
    }

    /// Whether no fragment lies beyond the last fragment's end, and only one is the last.
    fn fits_the_end(&self, place: &Place) -> bool {
        let behind_all = self.pieces.last().is_none_or(|piece| piece.place.end <= place.start);
        match self.total {
            Some(total) => !place.is_last && place.end <= total,
            None => !place.is_last || behind_all,
        }
    }

    /// The datagram as dumps show it.
    pub fn describe(&self, key: &DatagramKey) -> HeldDatagram {
        let first = self.pieces.first().is_some_and(|piece| piece.place.start == 0);
        let arrival = match (first, self.total.is_some()) {
            _ if self.given_up => Arrival::GivenUp,
            (true, true) => Arrival::FirstAndLast,
            (true, false) => Arrival::First,
            (false, true) => Arrival::Last,
            (false, false) => Arrival::Other,
        };
        HeldDatagram { key: *key, fragments: self.len(), arrival }
    }
}
