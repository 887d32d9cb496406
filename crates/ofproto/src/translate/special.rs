//! Frames of protocols, which go to state machines before any table is looked at (ovs:
//! `ofproto/ofproto-dpif-xlate.c`, `process_special`).

use super::context::Context;
use crate::port::Port;
use flow::{Action, FRAG_LATER, Field, Protocol, ToProtocol};
use protocols::bfd;
use wire::{ethertype, protocol};

impl Context<'_> {
    /// Sends a frame of a protocol of the port to its state machine. Returns whether it is one. The mask gets the bits
    /// that this depends on.
    pub fn process_special(&mut self, port: &Port) -> bool {
        let Some(monitored) = &port.spec.monitor else { return false };
        let is_bfd = monitored.bfd.is_some_and(|filter| self.is_bfd(filter));
        if is_bfd {
            let to = ToProtocol { monitor: monitored.id, protocol: Protocol::Bfd };
            self.actions.push(Action::Protocol(to));
            self.protocol = Some(to.protocol);
        }
        is_bfd
    }

    /// Whether the packet is one of a session (ovs: `lib/bfd.c`, `bfd_should_process_flow`). Each field that decides is
    /// matched. Open vSwitch omits the IP address where it is another one, so that a flow for such a packet can take
    /// the session's packets.
    fn is_bfd(&mut self, filter: bfd::Filter) -> bool {
        if let Some(destination) = filter.remote_destination {
            self.mask.add(Field::EthDst);
            if self.key.eth_dst() != destination {
                return false;
            }
        }
        if self.key.eth_type() != ethertype::IPV4 {
            return false;
        }
        self.mask.add(Field::NwProto);
        if self.key.nw_proto() != protocol::UDP || self.key.nw_frag() & FRAG_LATER != 0 {
            return false;
        }
        self.mask.add(Field::TpDst);
        if self.key.tp_dst() != bfd::PORT {
            return false;
        }
        if let Some(address) = filter.address {
            self.mask.add(Field::Ipv4Dst);
            if self.key.get(Field::Ipv4Dst) != u32::from(address).into() {
                return false;
            }
        }
        if filter.check_tunnel_key {
            self.mask.add(Field::TunId);
            return self.key.get(Field::TunId) == 0;
        }
        true
    }
}

#[cfg(test)]
mod tests;
