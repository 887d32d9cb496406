//! Connection objects as the API describes them: windows after Guido van Rooij's "Real Stateful TCP Packet Filtering in
//! IP Filter", in the numbers of `struct rte_flow_tcp_dir_param`. Stricter than the switch where both may decide: a RST
//! must have exactly the number that is due, and nothing that was not sent is acknowledged.

use super::bytes::{Places, u16_at};
use port_dpdk::flow_rule::{CHANGES_STATE, ConnectionObject, ConnectionState, IN_WINDOW};

/// `RTE_FLOW_CONNTRACK_PKT_STATE_INVALID` and `_DISABLED`.
const INVALID: u32 = 4;
const DISABLED: u32 = 8;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// An object.
#[derive(Clone, Copy, Debug)]
pub struct Tracked {
    pub object: ConnectionObject,
    /// Rules that are made now are for the reply direction.
    pub is_turned: bool,
}

/// Whether `a` is `b` or behind it.
fn at_or_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) < 1 << 31
}

fn raise(value: &mut u32, to: u32) {
    if at_or_after(to, *value) {
        *value = to;
    }
}

fn u32_at(frame: &[u8], at: usize) -> u32 {
    u32::from(u16_at(frame, at)) << 16 | u32::from(u16_at(frame, at + 2))
}

impl Tracked {
    /// What the object says of a segment, by which it moves on.
    pub fn judge(&mut self, is_reply: bool, frame: &[u8]) -> u32 {
        let object = &mut self.object;
        if !object.enable {
            return DISABLED;
        }
        let places = Places::of(frame, 0).expect("the pattern says so");
        let l4 = places.l4;
        let (seq, ack, flags) = (u32_at(frame, l4 + 4), u32_at(frame, l4 + 8), frame[l4 + 13]);
        let payload = places.end - l4 - usize::from(frame[l4 + 12] >> 4) * 4;
        let controls = u32::from(flags & FIN != 0) + u32::from(flags & SYN != 0);
        let end = seq.wrapping_add(payload as u32).wrapping_add(controls);
        let (sender, receiver) = match is_reply {
            false => (&mut object.original, &mut object.reply),
            true => (&mut object.reply, &mut object.original),
        };
        let scale = if sender.scale == 15 { 0 } else { sender.scale };
        let window = u32::from(u16_at(frame, l4 + 14)) << scale;
        let fits = at_or_after(sender.reply_end, end)
            && at_or_after(seq, sender.sent_end.wrapping_sub(receiver.max_win))
            && (flags & ACK == 0
                || at_or_after(receiver.sent_end, ack)
                    && at_or_after(
                        ack,
                        receiver.sent_end.wrapping_sub(sender.max_win.max(66_000)),
                    ))
            && (flags & RST == 0 || seq == sender.sent_end)
            && flags & SYN == 0
            && flags & (ACK | RST) != 0;
        if !fits && !object.liberal_mode {
            object.enable = false;
            return INVALID;
        }
        raise(&mut sender.sent_end, end);
        sender.max_win = sender.max_win.max(window);
        if flags & ACK != 0 {
            raise(&mut sender.max_ack, ack);
            raise(&mut receiver.reply_end, ack.wrapping_add(window.max(1)));
            receiver.data_unacked = ack != receiver.sent_end;
        }
        object.last_direction = !is_reply;
        (object.last_seq, object.last_ack, object.last_end) = (seq, ack, end);
        let state = match flags {
            it if it & RST != 0 => ConnectionState::TimeWait,
            it if it & FIN != 0 => ConnectionState::FinWait,
            _ => object.state,
        };
        if std::mem::replace(&mut object.state, state) == state { IN_WINDOW } else { CHANGES_STATE }
    }
}
