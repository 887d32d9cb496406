//! Transmission: first answers that belong to no connection, then the connections in the send queue.

use super::{Answer, Host};
use crate::connection::Machine;
use crate::frame::{self, Flow, HEADERS};
use crate::tcp_send::Send;
use crate::time_wait::Closed;
use base::{Instant, MacAddr};
use packet::{Batch, Packet, Pool};

impl Host {
    /// Fills the batch's free room with packets to send, in buffers from `pool`.
    pub fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch, now: Instant) {
        while batch.remaining_capacity() > 0 {
            let Some(answer) = self.answers.pop_front() else { break };
            let mut packet = pool.take_for(HEADERS);
            match answer {
                Answer::Resolution(message) => {
                    frame::resolution(&mut packet, &self.wire, &message);
                }
                Answer::ToOthers(message) => {
                    frame::resolution(&mut packet, &self.wire, &message);
                    self.statistics.tx_foreign += 1;
                }
                Answer::Segment { flow, to, out } => {
                    frame::tcp(&mut packet, &self.wire, to, &flow, &out);
                }
            }
            self.push(packet, batch);
        }
        while batch.remaining_capacity() > 0 {
            let Some(id) = self.connections.first_ready() else { break };
            if self.transmit_of(id, pool, batch, now.as_nanos()) {
                self.connections.pop_ready();
            }
        }
    }

    /// Sends what this connection has to send, as far as the batch has room. Returns whether it sent
    /// everything.
    fn transmit_of(&mut self, id: u32, pool: &mut Pool, batch: &mut Batch, now: u64) -> bool {
        let Host { connections, settings: set, statistics: stats, wire, .. } = self;
        let Some(connection) = connections.get_mut(id) else { return true };
        let Some(to) = connection.to else { return true };
        let flow = &connection.flow;
        while batch.remaining_capacity() > 0 {
            let mut packet;
            let mut ended = None;
            match &mut connection.machine {
                Machine::Tcp(tcp) => {
                    let send = tcp.poll(now, set, stats);
                    let out = match &send {
                        Send::Nothing => return true,
                        Send::Segment(out) | Send::Last(out, _) | Send::Close(out, _) => out,
                    };
                    packet = pool.take_for(HEADERS + usize::from(out.length));
                    frame::tcp(&mut packet, wire, to, flow, out);
                    ended = (!matches!(send, Send::Segment(_))).then_some(send);
                }
                Machine::Udp(udp) => {
                    let client = self.opener.is_some();
                    let Some(message) = udp.poll(now, set) else { return true };
                    let length = if client { set.request_bytes } else { set.reply_bytes };
                    packet = pool.take_for(HEADERS + length as usize);
                    frame::udp(&mut packet, wire, to, flow, message, length as u16);
                }
            }
            stats.tx_packets += 1;
            stats.tx_bytes += packet.len() as u64;
            batch.push(packet);
            if let Some(send) = ended {
                let flow = *flow;
                self.sent_last(id, flow, to, send, now);
                return true;
            }
        }
        false
    }

    /// Ends a connection that has sent its last segment, at once or after TIME-WAIT.
    fn sent_last(&mut self, id: u32, flow: Flow, to: MacAddr, send: Send, now: u64) {
        match send {
            Send::Last(_, end) => self.end(id, end),
            Send::Close(out, end) => {
                let closed = Closed::new(flow, to, (out.seq, out.ack), out.window, end);
                // If no TIME-WAIT record is free, the connection keeps its slot until its timer ends it.
                self.connections.close(id, closed, now.saturating_add(self.settings.time_wait_ns));
            }
            Send::Segment(_) | Send::Nothing => {}
        }
    }

    fn push(&mut self, packet: Packet, batch: &mut Batch) {
        self.statistics.tx_packets += 1;
        self.statistics.tx_bytes += packet.len() as u64;
        batch.push(packet);
    }
}
