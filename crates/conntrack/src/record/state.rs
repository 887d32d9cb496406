//! A connection's kind, progress and mark, in one word.

use crate::protocols::connection::{Helper, Protocol};
use crate::protocols::query::{Exchange, Query};
use flow::NatKind;

/// The mark, and in 32 bits the connection's kind, progress and index.
///
/// Mark, progress, the label's bits and "unreported" may change; the rest stays while the connection
/// lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State(pub u64);

/// How connection tracking treats a protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Tcp = 0,
    Icmp = 1,
    Other = 2,
    Sctp = 3,
}

impl State {
    const KIND: u64 = 0b11;
    /// The connection's creation is not reported yet.
    pub(super) const UNREPORTED: u64 = 1 << 2;
    const PROGRESS_SHIFT: u32 = 3;
    const PROGRESS: u64 = 0b11 << Self::PROGRESS_SHIFT;
    /// TCP, which has no progress here: windows are not checked, since a device forwards some of
    /// its segments.
    pub const LOOSE: u64 = 0b10 << Self::PROGRESS_SHIFT;
    const NAT_SHIFT: u32 = 5;
    const NAT: u64 = 0b11 << Self::NAT_SHIFT;
    const HELPER_SHIFT: u32 = 7;
    const HELPER: u64 = 0b11 << Self::HELPER_SHIFT;
    const EXPECTED: u64 = 1 << 9;
    /// The label was set at least once.
    pub(super) const LABELLED: u64 = 1 << 10;
    /// A thread is writing the label.
    pub(super) const LABEL_BUSY: u64 = 1 << 11;
    const HEADER_SHIFT: u32 = 12;
    const HEADER: u64 = 0xf_ffff << Self::HEADER_SHIFT;
    const MARK_SHIFT: u32 = 32;

    /// The number of indexes that a record can name.
    pub const HEADERS: u32 = 1 << 20;

    pub fn new(protocol: &Protocol, nat: Option<NatKind>, helper: Option<Helper>) -> State {
        let (kind, progress) = match protocol {
            Protocol::Tcp(_) => (Kind::Tcp, 0),
            Protocol::Icmp(query) => (Kind::Icmp, *query as u64),
            Protocol::Other(exchange) => (Kind::Other, *exchange as u64),
            Protocol::Sctp(_) => (Kind::Sctp, 0),
        };
        let nat = match nat {
            None => 0,
            Some(NatKind::Src) => 1,
            Some(NatKind::Dst) => 2,
        };
        let helper = match helper {
            None => 0,
            Some(Helper::Ftp) => 1,
            Some(Helper::Tftp) => 2,
        };
        let progress = progress << Self::PROGRESS_SHIFT;
        State(kind as u64 | progress | nat << Self::NAT_SHIFT | helper << Self::HELPER_SHIFT)
    }

    #[must_use]
    pub fn with_mark(self, mark: u32) -> State {
        State(self.0 & 0xffff_ffff | u64::from(mark) << Self::MARK_SHIFT)
    }

    /// Marks the connection's creation as not yet reported, if a watcher is registered.
    #[must_use]
    pub fn unreported(self, is_watched: bool) -> State {
        State(self.0 | if is_watched { Self::UNREPORTED } else { 0 })
    }

    /// Marks the connection as expected.
    #[must_use]
    pub fn expected(self) -> State {
        State(self.0 | Self::EXPECTED)
    }

    #[must_use]
    pub fn with_header(self, header: u32) -> State {
        State(self.0 & !Self::HEADER | u64::from(header) << Self::HEADER_SHIFT & Self::HEADER)
    }

    #[inline]
    pub fn mark(self) -> u32 {
        (self.0 >> Self::MARK_SHIFT) as u32
    }

    /// The number of the zone index that the connection is in.
    #[inline]
    pub fn header(self) -> u32 {
        ((self.0 & Self::HEADER) >> Self::HEADER_SHIFT) as u32
    }

    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 & Self::KIND {
            0 => Kind::Tcp,
            1 => Kind::Icmp,
            3 => Kind::Sctp,
            _ => Kind::Other,
        }
    }

    pub fn nat(self) -> Option<NatKind> {
        match (self.0 & Self::NAT) >> Self::NAT_SHIFT {
            0 => None,
            1 => Some(NatKind::Src),
            _ => Some(NatKind::Dst),
        }
    }

    /// The state bits whose packets take the slow path; NAT bits only if the action has NAT.
    pub fn slow_path_bits(has_nat: bool) -> u64 {
        Self::HELPER | Self::EXPECTED | if has_nat { Self::NAT } else { 0 }
    }

    /// The state of a TCP connection whose windows are not checked.
    #[must_use]
    pub fn loose(self) -> State {
        State(self.0 | Self::LOOSE)
    }

    /// The state of a TCP connection whose windows are checked again.
    #[must_use]
    pub fn strict(self) -> State {
        State(self.0 & !Self::LOOSE)
    }

    #[inline(always)]
    pub fn has_any(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    /// Whether it has had a label.
    #[inline(always)]
    pub fn is_labelled(self) -> bool {
        self.0 & Self::LABELLED != 0
    }

    /// Whether a thread is writing the label.
    pub(super) fn is_label_busy(self) -> bool {
        self.0 & Self::LABEL_BUSY != 0
    }

    /// Whether another connection announced it.
    #[inline]
    pub fn is_expected(self) -> bool {
        self.0 & Self::EXPECTED != 0
    }

    #[inline]
    pub fn has_helper(self) -> bool {
        self.0 & Self::HELPER != 0
    }

    /// Zero if the connection has no handshake, a packet in this direction does not change its
    /// progress, it is in the index of this number and has no helper.
    #[inline(always)]
    pub fn differs_from_settled(self, number: u32, is_reply: bool) -> u64 {
        const MULTIPLE: u64 = (Exchange::Multiple as u64) << State::PROGRESS_SHIFT;
        const _: () = assert!(Exchange::Single as u64 == 0 && MULTIPLE.is_power_of_two());
        // A packet in the reply direction needs an answered connection; one in the original
        // direction does not.
        let answered = if is_reply { MULTIPLE } else { 0 };
        let mask = Self::HEADER | Self::HELPER | Self::KIND | Self::PROGRESS & !MULTIPLE | answered;
        let wanted = u64::from(number) << Self::HEADER_SHIFT | Kind::Other as u64 | answered;
        (self.0 ^ wanted) & mask
    }

    /// Zero if the connection is in the index of this number and has no helper.
    #[inline(always)]
    pub fn differs_from_plain(self, number: u32) -> u64 {
        let wanted = u64::from(number) << Self::HEADER_SHIFT;
        (self.0 ^ wanted) & (Self::HEADER | Self::HELPER)
    }

    /// Returns whether the ALGs may keep state of it beside its record: it has a helper or was expected.
    #[inline(always)]
    pub fn may_have_alg_state(self) -> bool {
        self.0 & (Self::HELPER | Self::EXPECTED) != 0
    }

    pub fn helper(self) -> Option<Helper> {
        match (self.0 & Self::HELPER) >> Self::HELPER_SHIFT {
            0 => None,
            1 => Some(Helper::Ftp),
            _ => Some(Helper::Tftp),
        }
    }

    #[inline]
    pub fn exchange(self) -> Exchange {
        match (self.0 & Self::PROGRESS) >> Self::PROGRESS_SHIFT {
            0 => Exchange::Single,
            _ => Exchange::Multiple,
        }
    }

    #[inline]
    pub fn query(self) -> Query {
        match (self.0 & Self::PROGRESS) >> Self::PROGRESS_SHIFT {
            0 => Query::First,
            _ => Query::Reply,
        }
    }

    /// For a connection without handshake whose progress a packet in this direction does not
    /// change, returns whether it is answered; otherwise `None`.
    #[inline(always)]
    pub fn is_settled(self, is_reply: bool) -> Option<bool> {
        const SINGLE: u64 = Kind::Other as u64 | (Exchange::Single as u64) << State::PROGRESS_SHIFT;
        const MULTIPLE: u64 =
            Kind::Other as u64 | (Exchange::Multiple as u64) << State::PROGRESS_SHIFT;
        match self.0 & (Self::KIND | Self::PROGRESS) {
            MULTIPLE => Some(true),
            SINGLE if !is_reply => Some(false),
            _ => None,
        }
    }

    /// The state with another progress.
    #[inline]
    #[must_use]
    pub fn with_progress(self, progress: u8) -> State {
        State(self.0 & !Self::PROGRESS | u64::from(progress) << Self::PROGRESS_SHIFT)
    }
}
