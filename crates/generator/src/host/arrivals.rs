//! What a host does with a frame that it has read.

use super::{Answer, Host};
use crate::address::Address;
use crate::connection::Machine;
use crate::frame::{self, Flow, PROTOCOL_TCP, PROTOCOL_UDP, Resolution, SegmentOut};
use crate::frame_in::{Arrived, Content, Datagram, Segment};
use crate::statistics::End;
use crate::tcp::Tcp;
use crate::udp::Udp;
use base::MacAddr;

impl Host {
    pub(super) fn take(&mut self, arrived: &Arrived<'_>, now: u64) {
        if !self.addresses.contains(arrived.destination)
            && !matches!(arrived.content, Content::Answer { .. })
        {
            self.statistics.rx_foreign += 1;
            return;
        }
        let flow = |local_port, remote_port, protocol| Flow {
            local: arrived.destination,
            remote: arrived.source,
            local_port,
            remote_port,
            protocol,
        };
        match &arrived.content {
            Content::Tcp(segment) => {
                let flow = flow(segment.destination_port, segment.source_port, PROTOCOL_TCP);
                self.take_segment(&flow, arrived.source_mac, segment, now);
            }
            Content::Udp(datagram) => {
                let flow = flow(datagram.destination_port, datagram.source_port, PROTOCOL_UDP);
                self.take_datagram(&flow, arrived.source_mac, datagram, now);
            }
            // From the unspecified address it is a duplicate address check, and nobody's question.
            Content::Question if arrived.source == Address([0; 16]) => {}
            Content::Question => self.answer(Answer::Resolution(Resolution::Answer {
                local: arrived.destination,
                remote: arrived.source,
                to: arrived.source_mac,
            })),
            Content::Answer { mac } => {
                for id in self.neighbours.learn(arrived.source, *mac) {
                    self.resolved(id, arrived.source, *mac);
                }
            }
        }
    }

    fn take_segment(&mut self, flow: &Flow, from: MacAddr, segment: &Segment<'_>, now: u64) {
        let Some(id) = self.connections.find(flow) else {
            return self.take_first_segment(flow, from, segment, now);
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
            // Silently, as a full backlog is: the client tries again.
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
        self.answer(Answer::Reset { flow: *flow, to, out });
    }

    fn take_datagram(&mut self, flow: &Flow, from: MacAddr, datagram: &Datagram<'_>, now: u64) {
        let known = self.connections.find(flow).or_else(|| {
            let welcome = self.opener.is_none() && self.udp_ports.contains(flow.local_port);
            let udp = || Machine::Udp(Udp::accept(now, &self.settings));
            if welcome { self.accept(flow, from, udp()) } else { None }
        });
        let Some(id) = known else {
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
