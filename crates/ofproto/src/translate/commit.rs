//! Commits: datapath actions that apply the changes made to the key.

use super::context::Context;
use flow::{Action, Field, FlowKey, Mask, SetField, VLAN_PRESENT};
use std::sync::LazyLock;
use wire::ethertype;
use wire::protocol;

/// A header that the datapath rewrites as one: its fields, and whether the packet has it.
struct Header {
    fields: &'static [Field],
    is_in: fn(&FlowKey) -> bool,
}

const ETHERNET: Header = Header {
    fields: &[Field::EthSrc, Field::EthDst],
    is_in: |key| key.get(Field::PacketType) == 0,
};
const MARK: Header = Header { fields: &[Field::PktMark], is_in: |_| true };
/// The headers in the order of Open vSwitch's rewrites (ovs: `lib/odp-util.c`, `commit_odp_actions`).
const HEADERS: [Header; 7] = [
    Header {
        fields: &[
            Field::NshFlags,
            Field::NshTtl,
            Field::NshSpi,
            Field::NshSi,
            Field::NshC1,
            Field::NshC2,
            Field::NshC3,
            Field::NshC4,
        ],
        is_in: FlowKey::is_nsh,
    },
    Header {
        fields: &[Field::Ipv4Src, Field::Ipv4Dst, Field::NwTos, Field::NwTtl],
        is_in: |key| key.eth_type() == ethertype::IPV4 && key.nw_proto() != 0,
    },
    Header {
        fields: &[Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label, Field::NwTos, Field::NwTtl],
        is_in: |key| key.eth_type() == ethertype::IPV6 && key.nw_proto() != 0,
    },
    // An option's type is written before its content.
    Header { fields: &[Field::NdReserved, Field::NdOptionsType], is_in: is_neighbour_discovery },
    Header {
        fields: &[Field::NdTarget, Field::NdSll, Field::NdTll],
        is_in: is_neighbour_discovery,
    },
    Header {
        fields: &[Field::ArpSpa, Field::ArpTpa, Field::ArpOp, Field::ArpSha, Field::ArpTha],
        // ARP without an operation is not rewritten, like IP without a protocol.
        is_in: |key| {
            matches!(key.eth_type(), ethertype::ARP | ethertype::RARP) && key.get(Field::ArpOp) != 0
        },
    },
    // Ports, or ICMP type and code.
    Header {
        fields: &[Field::TpSrc, Field::TpDst],
        is_in: |key| {
            key.is_ip()
                && matches!(
                    key.nw_proto(),
                    protocol::ICMP
                        | protocol::TCP
                        | protocol::UDP
                        | protocol::ICMPV6
                        | protocol::SCTP
                )
        },
    },
];

/// All fields that [`Context::commit`] compares.
static COMMITTED: LazyLock<Mask> = LazyLock::new(|| {
    let mut mask = Mask::new();
    let headers = HEADERS.iter().chain([&ETHERNET, &MARK]).flat_map(|header| header.fields);
    headers.chain(&TAGS).chain(&LABELS).for_each(|&field| mask.add(field));
    mask
});

/// The fields of VLAN tags.
const TAGS: [Field; 4] = [Field::VlanTpid, Field::VlanTci, Field::VlanTpid1, Field::VlanTci1];

/// The fields that describe the label stack.
const LABELS: [Field; 4] = [Field::EthType, Field::MplsLse0, Field::MplsLse1, Field::MplsLse2];

fn is_neighbour_discovery(key: &FlowKey) -> bool {
    key.eth_type() == ethertype::IPV6
        && key.nw_proto() == protocol::ICMPV6
        && matches!(key.tp_src(), 135 | 136)
}

impl Context<'_> {
    /// Appends the actions that make the datapath's packet equal to the key. All masked bits of a changed
    /// field are written: bits outside the mask cannot have changed, and those in the mask are known (ovs:
    /// `lib/odp-util.c`, `commit`).
    pub fn commit(&mut self) {
        self.commit_packet_type();
        let words = self.key.words().iter().zip(self.base.words()).zip(COMMITTED.words());
        if words.fold(0, |changed, ((key, base), bits)| changed | (key ^ base) & bits) == 0 {
            return;
        }
        self.commit_header(&ETHERNET);
        // Headers behind labels can be rewritten once no label is left.
        if !self.key.is_mpls() {
            self.commit_labels(false);
        }
        HEADERS.iter().for_each(|header| self.commit_header(header));
        self.commit_labels(false);
        self.commit_vlans();
        self.commit_header(&MARK);
    }

    /// Restores the packet's own Ethernet header in the datapath.
    pub fn restore_ethernet(&mut self) {
        if self.base.get(Field::PacketType) != 0 && self.original.get(Field::PacketType) == 0 {
            // The header was removed for a tunnel; it has the packet's own addresses.
            [Field::EthSrc, Field::EthDst].into_iter().for_each(|field| self.mask.add(field));
        }
        self.push_ethernet();
    }

    /// Adds an Ethernet header to a packet that has none in the datapath.
    pub fn push_ethernet(&mut self) {
        if self.base.get(Field::PacketType) == 0 {
            return;
        }
        let (source, destination) = (self.key.eth_src(), self.key.eth_dst());
        self.actions.push(Action::PushEth { source, destination });
        self.base.set(Field::EthSrc, source.to_u64().into());
        self.base.set(Field::EthDst, destination.to_u64().into());
        self.base.set(Field::PacketType, 0);
    }

    /// Removes the Ethernet header of a packet that has one in the datapath.
    pub fn pop_ethernet(&mut self) {
        if self.base.get(Field::PacketType) == 0 {
            self.actions.push(Action::PopEth);
            [Field::EthSrc, Field::EthDst].into_iter().for_each(|field| self.base.set(field, 0));
            self.base.set(Field::PacketType, self.key.eth_type().into());
        }
    }

    fn commit_header(&mut self, header: &Header) {
        let changed = |context: &Self, field| context.key.get(field) != context.base.get(field);
        let any = header.fields.iter().any(|&field| changed(self, field));
        if !any || !(header.is_in)(self.key) {
            return;
        }
        let icmp = header.fields.contains(&Field::TpSrc)
            && matches!(self.key.nw_proto(), protocol::ICMP | protocol::ICMPV6);
        let together = icmp || header.fields.contains(&Field::NshSpi);
        for &field in header.fields {
            // Open vSwitch writes ICMP type and code together, and so matches both.
            if icmp {
                self.mask.add_bits(field, 0xff);
            }
            let mask = self.mask.get(field);
            if mask != 0 && (together || changed(self, field)) {
                let set = SetField { field, value: self.key.get(field) & mask, mask };
                self.actions.push(Action::Set(set));
            }
            self.base.set(field, self.key.get(field));
        }
    }

    /// Pops tags that differ, and pushes the new ones (ovs: `lib/odp-util.c`, `commit_vlan_action`).
    fn commit_vlans(&mut self) {
        let (have, want) = (tags(self.base), tags(self.key));
        if have == want {
            return;
        }
        let same = have.iter().rev().zip(want.iter().rev()).take_while(|(a, b)| a == b).count();
        let places = [Field::VlanTci, Field::VlanTci1];
        for place in &places[..have.len() - same] {
            self.actions.push(Action::PopVlan);
            self.mask.add(*place);
        }
        for &(tpid, tci) in want[..want.len() - same].iter().rev() {
            self.actions.push(Action::PushVlan { tpid, tci });
        }
        for field in TAGS {
            self.base.set(field, self.key.get(field));
        }
    }
}

/// The packet's tags, outermost first.
fn tags(key: &FlowKey) -> Vec<(u16, u16)> {
    let tags = [(key.vlan_tpid(), key.vlan_tci()), (key.vlan_tpid1(), key.vlan_tci1())];
    tags.into_iter().take_while(|(_, tci)| tci & VLAN_PRESENT != 0).collect()
}
