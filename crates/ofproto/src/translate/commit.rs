//! Making the datapath's packet what the OpenFlow actions have made it.

use super::context::Context;
use flow::{Action, Field, FlowKey, Mask, SetField, VLAN_PRESENT};
use std::sync::LazyLock;
use wire::protocol;

/// A header, as the datapath rewrites one: its fields, and whether the packet has it.
struct Header {
    fields: &'static [Field],
    is_in: fn(&FlowKey) -> bool,
}

const ETHERNET: Header = Header {
    fields: &[Field::EthSrc, Field::EthDst],
    is_in: |key| key.get(Field::PacketType) == 0,
};
const MARK: Header = Header { fields: &[Field::PktMark], is_in: |_| true };
/// Those between, in the order in which Open vSwitch rewrites (ovs: `lib/odp-util.c`, `commit_odp_actions`).
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
        is_in: |key| key.eth_type() == 0x0800 && key.nw_proto() != 0,
    },
    Header {
        fields: &[Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label, Field::NwTos, Field::NwTtl],
        is_in: |key| key.eth_type() == 0x86dd && key.nw_proto() != 0,
    },
    // Which option there is comes before what stands in it.
    Header { fields: &[Field::NdReserved, Field::NdOptionsType], is_in: is_neighbor_discovery },
    Header { fields: &[Field::NdTarget, Field::NdSll, Field::NdTll], is_in: is_neighbor_discovery },
    Header {
        fields: &[Field::ArpSpa, Field::ArpTpa, Field::ArpOp, Field::ArpSha, Field::ArpTha],
        // One without an operation is left as it is, like IP without a protocol.
        is_in: |key| matches!(key.eth_type(), 0x0806 | 0x8035) && key.get(Field::ArpOp) != 0,
    },
    // Ports, or ICMP's type and code.
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

/// The fields of tags.
const TAGS: [Field; 4] = [Field::VlanTpid, Field::VlanTci, Field::VlanTpid1, Field::VlanTci1];

/// The fields that say which labels there are.
const LABELS: [Field; 4] = [Field::EthType, Field::MplsLse0, Field::MplsLse1, Field::MplsLse2];

fn is_neighbor_discovery(key: &FlowKey) -> bool {
    key.eth_type() == 0x86dd
        && key.nw_proto() == protocol::ICMPV6
        && matches!(key.tp_src(), 135 | 136)
}

impl Context<'_> {
    /// Appends the steps that make the datapath's packet what the key says. Of a field that changes
    /// all bits that matter are written: bits that no one looked at can't have been changed, and
    /// what was looked at is known (ovs: `lib/odp-util.c`, `commit`).
    pub fn commit(&mut self) {
        self.commit_packet_type();
        let words = self.key.words().iter().zip(self.base.words()).zip(COMMITTED.words());
        if words.fold(0, |changed, ((key, base), bits)| changed | (key ^ base) & bits) == 0 {
            return;
        }
        self.commit_header(&ETHERNET);
        // What is behind the last label can be rewritten when there is none any more.
        if !self.key.is_mpls() {
            self.commit_labels(false);
        }
        HEADERS.iter().for_each(|header| self.commit_header(header));
        self.commit_labels(false);
        self.commit_vlans();
        self.commit_header(&MARK);
    }

    /// Gives a packet its Ethernet header back that has none in the datapath.
    pub fn restore_ethernet(&mut self) {
        if self.base.get(Field::PacketType) != 0 && self.original.get(Field::PacketType) == 0 {
            // The header was taken away for a tunnel, and has the packet's own addresses.
            [Field::EthSrc, Field::EthDst].into_iter().for_each(|field| self.mask.add(field));
        }
        self.push_ethernet();
    }

    /// Gives a packet an Ethernet header that has none in the datapath.
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

    /// Takes the Ethernet header away from a packet that has one in the datapath.
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
        if !any || !(header.is_in)(&self.key) {
            return;
        }
        let icmp = header.fields.contains(&Field::TpSrc)
            && matches!(self.key.nw_proto(), protocol::ICMP | protocol::ICMPV6);
        let together = icmp || header.fields.contains(&Field::NshSpi);
        for &field in header.fields {
            // Open vSwitch writes ICMP's type and code together, and so looks at both.
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

    /// Takes tags away that differ, and puts the new ones there
    /// (ovs: `lib/odp-util.c`, `commit_vlan_action`).
    fn commit_vlans(&mut self) {
        let (have, want) = (tags(&self.base), tags(&self.key));
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

/// The packet's tags, the outer one first.
fn tags(key: &FlowKey) -> Vec<(u16, u16)> {
    let tags = [(key.vlan_tpid(), key.vlan_tci()), (key.vlan_tpid1(), key.vlan_tci1())];
    tags.into_iter().take_while(|(_, tci)| tci & VLAN_PRESENT != 0).collect()
}
