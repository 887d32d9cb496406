//! Rewrites an announced endpoint in a segment, and moves sequence numbers.

use super::sequence::SeqSkew;
use crate::protocols::tcp::Segment;
use flow::Frame;
use packet::Checksum;
use wire::{Ipv4, Ipv6, Tcp, UpperLayer, ethertype, tcp};

/// TCP options of one byte (RFC 9293 section 3.1), and selective acknowledgements.
const OPTION_END: u8 = 0;
const OPTION_NOTHING: u8 = 1;
const OPTION_SACK: u8 = 5;

/// The rewrite of a line, also of its retransmissions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rewrite {
    /// The sequence number of the line's segment, as its sender counts.
    pub seq: u32,
    /// The position of the text in the payload.
    pub at: usize,
    pub old: Vec<u8>,
    pub text: String,
}

impl Rewrite {
    /// The number of bytes that the line grows by.
    pub fn grows_by(&self) -> i32 {
        self.text.len() as i32 - self.old.len() as i32
    }
}

/// Rewrites a segment; `forward` moves the numbers of its sender, `back` those of the other side.
pub(super) fn apply(
    frame: &mut Frame,
    rewrite: Option<&Rewrite>,
    forward: &SeqSkew,
    back: &SeqSkew,
) {
    let Some(l4) = frame.layers.l4.map(usize::from) else { return };
    let Some(Ok(tcp)) = frame.l4().map(Tcp::new_checked) else { return };
    let (seq, ack, header) = (tcp.seq(), tcp.ack(), tcp.header_len());
    let acknowledges = frame.l4().and_then(Segment::of).is_some_and(|it| it.acknowledges());
    let rewrite = rewrite.filter(|it| {
        it.seq == seq && tcp.payload().get(it.at..).is_some_and(|rest| rest.starts_with(&it.old))
    });
    if rewrite.is_none() && forward.is_none() && back.is_none() {
        return;
    }
    let mut grown = false;
    if let Some(rewrite) = rewrite {
        if !replace(frame, l4 + header + rewrite.at, &rewrite.old, rewrite.text.as_bytes()) {
            return;
        }
        grown = set_ip_length(frame, rewrite.grows_by());
    }
    let l3 = usize::from(frame.layers.l3);
    let Some(segment) = frame.l3_mut().get_mut(l4 - l3..) else { return };
    if let Ok(mut tcp) = Tcp::new_checked(&mut *segment) {
        tcp.set_seq(forward.forward(seq));
        if acknowledges {
            tcp.set_ack(back.back(ack));
        }
    }
    if let Some(options) = segment.get_mut(tcp::HEADER_LEN..header) {
        move_selective(options, back);
    }
    finish_checksum(frame, grown);
}

/// Replaces `old` at `at`. Returns false if there is no room.
fn replace(frame: &mut Frame, at: usize, old: &[u8], new: &[u8]) -> bool {
    let moved = match new.len().checked_sub(old.len()) {
        Some(more) => frame.packet.insert(at, more),
        None => frame.packet.remove(at, old.len() - new.len()),
    };
    let place = frame.packet.data_mut().get_mut(at..at + new.len()).filter(|_| moved);
    let Some(place) = place else { return false };
    place.copy_from_slice(new);
    true
}

/// Changes the IP packet's length by `by` bytes. Returns whether it changed.
fn set_ip_length(frame: &mut Frame, by: i32) -> bool {
    let longer = |length: usize| (length as i32 + by) as u16;
    match frame.key.eth_type() {
        ethertype::IPV4 => {
            let Ok(mut ip) = Ipv4::new_quoted(frame.l3_mut()) else { return false };
            let length = longer(ip.total_len());
            ip.set_total_len(length);
            ip.set_checksum(0);
            let sum = wire::checksum::checksum(ip.header());
            ip.set_checksum(sum);
        }
        _ => {
            let Ok(mut ip) = Ipv6::new_quoted(frame.l3_mut()) else { return false };
            let length = longer(ip.payload_len());
            ip.set_payload_len(length);
        }
    }
    by != 0
}

/// Moves the edges of selective acknowledgements back (RFC 2018 section 3).
fn move_selective(options: &mut [u8], back: &SeqSkew) {
    let mut rest = options;
    loop {
        match *rest {
            [OPTION_NOTHING, ..] => rest = &mut rest[1..],
            [kind, length, ..] if kind != OPTION_END => {
                let length = usize::from(length);
                if length < 2 || length > rest.len() {
                    return;
                }
                let (option, behind) = rest.split_at_mut(length);
                if kind == OPTION_SACK {
                    for edge in option[2..].chunks_exact_mut(4) {
                        let number = edge.first_chunk().map_or(0, |&it| u32::from_be_bytes(it));
                        edge.copy_from_slice(&back.back(number).to_be_bytes());
                    }
                }
                rest = behind;
            }
            _ => return,
        }
    }
}

/// The checksum offload covers a length that may have changed.
fn finish_checksum(frame: &mut Frame, grown: bool) {
    let partial = frame.packet.offload.checksum == Checksum::Partial;
    if partial && !grown {
        return;
    }
    let l3 = frame.l3_mut();
    if let Ok(upper) = UpperLayer::find(l3) {
        upper.fill_checksum(l3);
        if partial {
            frame.packet.offload.checksum = Checksum::Good;
        }
    }
}
