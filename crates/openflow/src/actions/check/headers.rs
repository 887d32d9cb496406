//! Actions that add or remove a packet's first header.

use super::State;
use crate::action::Action;
use crate::oxm::Prerequisite;
use flow::Field;
use wire::ethertype;

/// An unknown packet type.
const UNKNOWN: u16 = 0xffff;

impl State {
    /// Checks actions on headers in front of IP's.
    pub(super) fn header(&mut self, action: &Action) {
        match action {
            Action::EncapEthernet { .. } => self.matching.wildcard(Field::PacketType),
            Action::EncapMpls { ethertype, .. } => self.encapsulated(*ethertype),
            Action::EncapNsh { .. } => self.encapsulated(ethertype::NSH),
            Action::Decap(_) => self.decap(),
            Action::PushMpls(ethertype) => {
                self.old("push_mpls", Prerequisite::Ethernet);
                self.becomes(*ethertype);
            }
            Action::PopMpls(ethertype) => {
                self.old("pop_mpls", Prerequisite::Ethernet);
                self.old("pop_mpls", Prerequisite::Mpls);
                self.becomes(*ethertype);
            }
            Action::DecNshTtl => self.old("dec_nsh_ttl", Prerequisite::Nsh),
            Action::SetMplsLabel(_)
            | Action::SetMplsTc(_)
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl => self.old("an action on an MPLS label", Prerequisite::Mpls),
            _ => {}
        }
    }

    /// Records that the packet has this type and no Ethernet header.
    fn encapsulated(&mut self, ethertype: u16) {
        self.becomes(ethertype);
        self.matching.wildcard(Field::PacketType);
        self.matching.set_masked(Field::PacketType, ethertype.into(), u128::MAX);
    }

    /// Records that this header directly follows Ethernet's. The headers behind it are unknown.
    fn becomes(&mut self, ethertype: u16) {
        self.matching.wildcard(Field::EthType);
        self.matching.wildcard(Field::NwProto);
        self.matching.set_masked(Field::EthType, ethertype.into(), u128::MAX);
    }

    /// The type after an Ethernet header is known; after another header, only the packet contains it
    /// (ovs: `lib/ofp-actions.c`, `check_DECAP`).
    fn decap(&mut self) {
        let ethertype = match self.matching.key().get(Field::PacketType) {
            0 => self.matching.key().get(Field::EthType),
            _ => UNKNOWN.into(),
        };
        self.matching.wildcard(Field::PacketType);
        let packet_type = if ethertype == 0 { UNKNOWN.into() } else { ethertype };
        self.matching.set_masked(Field::PacketType, packet_type, u128::MAX);
    }
}
