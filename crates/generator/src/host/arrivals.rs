//! Processing of a parsed frame.

use super::{Answer, Host, Known};
use crate::address::Address;
use crate::connection::Machine;
use crate::frame::{self, Flow, Resolution, SegmentOut};
use crate::frame_in::{Arrived, Content, Datagram, Segment};
use crate::statistics::End;
use crate::tcp::Tcp;
use crate::time_wait::Closed;
use crate::udp::Udp;
use base::MacAddr;

impl Host {
    pub(super) fn take(&mut self, arrived: &Arrived<'_>, now: u64) {
        if !self.addresses.contains(arrived.destination)
            && !matches!(arrived.content, Content::Answer { .. })
        {
            return self.count_for_others(arrived.destination);
        }
        let known = || {
            let flow = arrived.flow();
            Known { flow, hash: self.connections.hash(&flow), from: arrived.source_mac }
        };
        match &arrived.content {
            Content::Tcp(segment) => self.take_segment(&known(), segment, now),
            Content::Udp(datagram) => self.take_datagram(&known(), datagram, now),
            Content::Question => self.take_question(arrived),
            // No host here resolves addresses outside the other side's range.
            Content::Answer { .. } if !self.peers.contains(arrived.source) => {
                self.statistics.rx_foreign += 1;
            }
            Content::Answer { mac } => {
                for id in self.neighbours.learn(arrived.source, *mac) {
                    self.resolved(id, arrived.source, *mac);
                }
            }
        }
    }

    /// Counts a packet for an address that is none of this host's.
    pub(super) fn count_for_others(&mut self, destination: Address) {
        if self.peers.contains(destination) {
            self.statistics.rx_returned += 1;
        } else {
            self.statistics.rx_foreign += 1;
        }
    }

    /// Answers a question for one of this host's addresses. Questions from outside the test (a router's) are
    /// answered too, but counted as foreign.
    fn take_question(&mut self, arrived: &Arrived<'_>) {
        let answer = Resolution::Answer {
            local: arrived.destination,
            remote: arrived.source,
            to: arrived.source_mac,
        };
        if self.peers.contains(arrived.source) {
            return self.answer(Answer::Resolution(answer));
        }
        self.statistics.rx_foreign += 1;
        // A solicitation from the unspecified address is duplicate address detection (RFC 4862 section 5.4.2)
        // and needs no answer.
        if arrived.source != Address([0; 16]) {
            self.answer(Answer::ToOthers(answer));
        }
    }

    #[inline]
    pub(super) fn take_segment(&mut self, known: &Known, segment: &Segment<'_>, now: u64) {
        let (flow, from) = (&known.flow, known.from);
        let Some(id) = self.connections.find(flow, known.hash) else {
            return match self.connections.closed.find(flow, known.hash) {
                Some(id) => self.take_late_segment(id, segment),
                None => self.take_first_segment(flow, from, segment, now),
            };
        };
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Machine::Tcp(tcp) = &mut connection.machine else { return };
        match tcp.on_segment(segment, now, &self.settings, &mut self.statistics) {
            Some(end) => {
                if end == End::Corrupted {
                    self.reset(flow, from, segment);
                }
                self.end(id, end);
            }
            None => self.connections.touch(id),
        }
    }

    /// A segment for a connection in TIME-WAIT: if it occupies sequence space, the last acknowledgement was
    /// lost and is sent again (RFC 9293 section 3.10.7.4).
    fn take_late_segment(&mut self, id: u32, segment: &Segment<'_>) {
        let Some(&closed) = self.connections.closed.get(id) else { return };
        let ahead = segment.seq.wrapping_sub(closed.ack);
        if segment.flags & frame::RST != 0 {
            if ahead >= self.settings.window {
                self.statistics.rx_unacceptable += 1;
            } else if let Some(end) = self.connections.closed.remove(id) {
                self.statistics.count_end(end);
            }
            return;
        }
        let takes_numbers =
            segment.flags & (frame::SYN | frame::FIN) != 0 || !segment.payload.is_empty();
        if takes_numbers {
            self.statistics.rx_duplicate += 1;
            let Closed { flow, to, seq, ack, window, .. } = closed;
            let out = SegmentOut { seq, ack, flags: frame::ACK, window, ..SegmentOut::default() };
            self.answer(Answer::Segment { flow, to, out });
        } else if segment.flags & frame::ACK == 0 {
            self.statistics.rx_unacceptable += 1;
        }
    }

    fn take_first_segment(&mut self, flow: &Flow, from: MacAddr, segment: &Segment<'_>, now: u64) {
        let is_syn = segment.flags & (frame::SYN | frame::ACK | frame::RST) == frame::SYN;
        if self.opener.is_some() || !is_syn || !self.tcp_ports.contains(flow.local_port) {
            self.statistics.rx_no_connection += 1;
            return self.reset(flow, from, segment);
        }
        let tcp = Tcp::accept(self.random.u32(..), segment, now, &self.settings);
        self.accept(flow, from, Machine::Tcp(tcp));
    }

    fn accept(&mut self, flow: &Flow, from: MacAddr, machine: Machine) -> Option<u32> {
        let id = self.connections.insert(*flow, Some(from), machine);
        match id {
            Some(id) => {
                self.statistics.accepted += 1;
                self.connections.touch(id);
            }
            // Dropped without an answer, as by a full backlog: the client retries.
            None => self.statistics.table_full += 1,
        }
        id
    }

    /// Answers a segment that belongs to no connection (RFC 9293 section 3.10.7.1).
    fn reset(&mut self, flow: &Flow, to: MacAddr, segment: &Segment<'_>) {
        if segment.flags & frame::RST != 0 {
            return;
        }
        let out = if segment.flags & frame::ACK != 0 {
            SegmentOut { seq: segment.ack, flags: frame::RST, ..SegmentOut::default() }
        } else {
            let syn_and_fin = (segment.flags & (frame::SYN | frame::FIN)).count_ones();
            let ack = segment.seq.wrapping_add(segment.payload.len() as u32 + syn_and_fin);
            SegmentOut { ack, flags: frame::RST | frame::ACK, ..SegmentOut::default() }
        };
        self.answer(Answer::Segment { flow: *flow, to, out });
    }

    fn take_datagram(&mut self, known: &Known, datagram: &Datagram<'_>, now: u64) {
        let (flow, from) = (&known.flow, known.from);
        let found = self.connections.find(flow, known.hash).or_else(|| {
            let welcome = self.opener.is_none() && self.udp_ports.contains(flow.local_port);
            let udp = || Machine::Udp(Udp::accept(known.hash, now, &self.settings));
            if welcome { self.accept(flow, from, udp()) } else { None }
        });
        let Some(id) = found else {
            self.statistics.rx_no_connection += 1;
            return;
        };
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Machine::Udp(udp) = &mut connection.machine else { return };
        match udp.on_datagram(datagram, now, &self.settings, &mut self.statistics) {
            Some(end) => self.end(id, end),
            None => self.connections.touch(id),
        }
    }
}
