//! The fields of a TCP segment that connection tracking needs.

use super::Scale;
use crate::counters::Event;
use wire::tcp::HEADER_LEN;
use wire::{Tcp, TcpFlags};

/// The fields of a segment that connection tracking needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(super) seq: u32,
    pub ack: u32,
    pub(super) flags: TcpFlags,
    pub(super) window: u16,
    pub(super) payload_bytes: u32,
    /// The window scale option of a SYN.
    pub(super) scale: Scale,
}

impl Segment {
    /// Parses a segment; `None` if its header is incomplete.
    #[inline(always)]
    pub fn of(l4: &[u8]) -> Option<Segment> {
        let header: &[u8; HEADER_LEN] = l4.first_chunk()?;
        let [_, seq, ack, rest, _] = header.as_chunks::<4>().0.first_chunk::<5>()?;
        let rest = u32::from_be_bytes(*rest);
        let header_len = (rest >> 28) as usize * 4;
        if header_len < HEADER_LEN || header_len > l4.len() {
            return None;
        }
        let flags = TcpFlags((rest >> 16) as u16 & TcpFlags::MASK);
        Some(Segment {
            seq: u32::from_be_bytes(*seq),
            ack: u32::from_be_bytes(*ack),
            flags,
            window: rest as u16,
            payload_bytes: (l4.len() - header_len) as u32,
            scale: if flags.contains(TcpFlags::SYN) { scale_of(l4) } else { Scale::NONE },
        })
    }

    #[inline(always)]
    pub(super) fn has(&self, flag: TcpFlags) -> bool {
        self.flags.intersects(flag)
    }

    /// Whether its acknowledgement number counts: it has ACK, and is not the RST with ACK and
    /// number 0 that broken stacks send.
    #[inline(always)]
    pub fn acknowledges(&self) -> bool {
        self.has(TcpFlags::ACK) && !(self.ack == 0 && self.has(TcpFlags::RST))
    }

    /// Whether it has neither SYN, FIN nor RST.
    #[inline]
    pub fn is_usual(&self) -> bool {
        !self.has(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST)
    }

    /// The sequence number after the segment: SYN and FIN take one each (RFC 9293 section 3.4).
    #[inline(always)]
    pub(super) fn end(&self) -> u32 {
        let controls = u32::from(self.has(TcpFlags::SYN)) + u32::from(self.has(TcpFlags::FIN));
        self.seq.wrapping_add(self.payload_bytes).wrapping_add(controls)
    }

    /// Whether its combination of flags is invalid.
    #[inline(always)]
    pub fn has_odd_flags(&self) -> bool {
        ODD_FLAGS >> (self.flags.0 % u64::BITS as u16) & 1 != 0
    }

    /// Whether a connection may begin with it: any but the handshake's SYN with ACK, since a
    /// connection may be picked up after its handshake.
    pub fn begins(&self) -> Result<(), Event> {
        if self.has_odd_flags() {
            Err(Event::TcpFlags)
        } else if self.flags.contains(TcpFlags::SYN | TcpFlags::ACK) {
            Err(Event::TcpNewSynAck)
        } else {
            Ok(())
        }
    }
}

/// The window scale option of a SYN.
#[inline(never)]
fn scale_of(l4: &[u8]) -> Scale {
    let shift = Tcp::new_checked(l4).ok().and_then(|tcp| tcp.window_scale());
    shift.map_or(Scale::NONE, Scale::known)
}

/// A bit for each combination of the lower six flags, set if it is invalid.
const ODD_FLAGS: u64 = {
    let (mut odd, mut bits) = (0, 0);
    while bits < u64::BITS {
        odd |= (is_odd(TcpFlags(bits as u16)) as u64) << bits;
        bits += 1;
    }
    odd
};

const fn is_odd(flags: TcpFlags) -> bool {
    const NEED_ACK: u16 = TcpFlags::FIN.0 | TcpFlags::PSH.0 | TcpFlags::URG.0;
    const ODD_WITH_SYN: u16 = TcpFlags::RST.0 | TcpFlags::FIN.0;
    let (has_syn, has_ack) = (flags.contains(TcpFlags::SYN), flags.contains(TcpFlags::ACK));
    if has_syn && flags.intersects(TcpFlags(ODD_WITH_SYN)) {
        return true;
    }
    if !has_syn && !has_ack && !flags.contains(TcpFlags::RST) {
        return true;
    }
    !has_ack && flags.intersects(TcpFlags(NEED_ACK))
}
