//! Access to fields of the packet in translation.

use super::context::Context;
use super::report::NoteKind;
use crate::lookup::is_of_pipeline;
use base::OfPort;
use flow::{FRAG_LATER, Field, FlowKey, Mask, VLAN_PRESENT, Wide};
use openflow::action::Subfield;
use wire::ethertype;
use wire::protocol;

impl Context<'_> {
    /// Assigns masked bits of a field, if the packet has it.
    pub fn set_field(&mut self, field: Field, value: u128, bits: u128) {
        if !has_field(field, self.key, &mut self.mask) {
            self.notes.add(NoteKind::Warning, || {
                format!("unmet prerequisites for {}, set_field ignored", field.name())
            });
            return;
        }
        let bits = bits & assignable(field);
        self.look_at_protocol(field);
        self.look_at_target(field, bits);
        let old = whole(self.key, field);
        let varied = self.varying.get(field);
        self.write(field, (old & !bits) | (value & bits));
        if is_of_pipeline(field) {
            self.varying.set(field, varied & !bits);
        }
    }

    /// As in Open vSwitch, an assignment to an IP or ARP field adds the protocol to the mask, because it
    /// decides which checksums cover the field (ovs: `lib/meta-flow.c`, `mf_set_mask_l3_prereqs`).
    pub fn look_at_protocol(&mut self, field: Field) {
        use Field as F;
        match field {
            F::Ipv4Src
            | F::Ipv4Dst
            | F::Ipv6Src
            | F::Ipv6Dst
            | F::Ipv6Label
            | F::IpDscp
            | F::IpEcn
            | F::NwTos
            | F::NwTtl
                if self.key.is_ip() =>
            {
                self.mask.add(F::NwProto);
            }
            F::ArpOp | F::ArpSha | F::ArpTha | F::ArpSpa | F::ArpTpa => self.mask.add(F::ArpOp),
            _ => {}
        }
    }

    /// Copies bits between fields, if the packet has both.
    pub fn move_field(&mut self, source: Subfield, target: Subfield) {
        let has_target = has_field(target.field, self.key, &mut self.mask);
        if !has_target || !has_field(source.field, self.key, &mut self.mask) {
            return;
        }
        if is_of_connection(source.field) {
            let bits = source.mask() & !self.ct_written.of(source.field);
            self.look_at(source.field, bits);
        } else {
            self.look_at_part(source);
        }
        if is_option(target.field) {
            self.look_at_part(target);
        } else {
            self.look_at_target(target.field, target.mask());
        }
        let varies = self.varies(source);
        if is_option(source.field) || is_option(target.field) {
            self.write_part(target, self.read(source), varies);
        } else {
            self.write_subfield(target, read(self.key, source), varies);
        }
        self.report_subfield(target);
    }

    /// Whether bits depend on the packet.
    fn varies(&self, source: Subfield) -> bool {
        !is_of_pipeline(source.field) || self.varying.get(source.field) & source.mask() != 0
    }

    pub fn push(&mut self, source: Subfield) {
        self.look_at_part(source);
        self.stack_varies |= self.varies(source);
        self.stack.push(self.read(source));
    }

    pub fn pop(&mut self, target: Subfield) {
        match self.stack.pop() {
            Some(value) => self.load_wide(target, value, self.stack_varies),
            None => self.notes.add(NoteKind::Error, || "stack underflow".to_owned()),
        }
    }

    /// Adds bits of a field to the mask.
    pub fn look_at(&mut self, field: Field, bits: u128) {
        self.mask.add_bits(field, bits & field.all_ones());
        if is_vlan(field) {
            self.mask.add_bits(Field::VlanTci, VLAN_PRESENT.into());
        }
    }

    /// Adds written bits of a field to the mask. Those of the connection's mark and label are not the packet's: `ct`
    /// commits them.
    fn look_at_target(&mut self, field: Field, bits: u128) {
        if is_of_connection(field) {
            self.ct_written.add(field, bits);
        } else {
            self.look_at(field, bits);
        }
    }

    fn report_subfield(&mut self, target: Subfield) {
        if self.notes.is_wanted() {
            let value = self.read(target);
            self.notes.add(NoteKind::Detail, || crate::describe::describe_value(target, value));
        }
    }

    /// Assigns a computed value, and notes it; `varies` says whether it depends on the packet.
    pub fn load(&mut self, target: Subfield, value: u128, varies: bool) {
        if is_option(target.field) {
            return self.load_wide(target, value.into(), varies);
        }
        self.look_at_part(target);
        self.write_subfield(target, value, varies);
        self.report_subfield(target);
    }

    fn load_wide(&mut self, target: Subfield, value: Wide, varies: bool) {
        if is_option(target.field) {
            self.look_at_part(target);
        } else {
            self.look_at_target(target.field, target.mask());
        }
        self.write_part(target, value, varies);
        self.report_subfield(target);
    }

    /// Assigns bits of a field other than a tunnel option.
    pub fn write_subfield(&mut self, target: Subfield, value: u128, varies: bool) {
        let old = whole(self.key, target.field);
        let varied = self.varying.get(target.field) & !target.mask();
        let placed = (value << target.offset) & target.mask();
        self.write(target.field, (old & !target.mask()) | placed);
        if is_of_pipeline(target.field) {
            self.varying.set(target.field, varied | if varies { target.mask() } else { 0 });
        }
    }

    fn write(&mut self, field: Field, value: u128) {
        let value = match field {
            // An invalid port number becomes NONE (ovs: `lib/meta-flow.c`, `mf_set_flow_value`).
            Field::InPortOxm => OfPort::from_wire32(value as u32).unwrap_or(OfPort::NONE).0.into(),
            _ => value,
        };
        // The caller may narrow this down.
        match is_of_pipeline(field) {
            true => self.varying.add(field),
            false => self.is_rewritten = true,
        }
        // An IPv4 address is stored in the place of an IPv6 one, and replaces it.
        match field {
            Field::TunSrc => self.key.set(Field::TunIpv6Src, value),
            Field::TunDst => self.key.set(Field::TunIpv6Dst, value),
            _ => self.key.set(field, value),
        }
        if is_vlan(field) {
            fix_tpid(self.key);
        }
    }
}

/// The bits of a field that an assignment changes.
fn assignable(field: Field) -> u128 {
    match field {
        Field::NwTos => 0xfc,
        field => field.all_ones(),
    }
}

/// Whether a field is one that `ct` commits.
fn is_of_connection(field: Field) -> bool {
    matches!(field, Field::CtMark | Field::CtLabel)
}

/// Whether a field stands for a tunnel option, whose value may exceed 128 bits.
fn is_option(field: Field) -> bool {
    field.tun_metadata_index().is_some()
}

/// The value of some bits of a field.
pub(crate) fn read(key: &FlowKey, source: Subfield) -> u128 {
    (whole(key, source.field) & source.mask()) >> source.offset
}

/// A field as OpenFlow shows it: 32-bit port fields have the numbers of OpenFlow 1.1 and later.
pub(super) fn whole(key: &FlowKey, field: Field) -> u128 {
    match key.get(field) {
        port if matches!(field, Field::InPortOxm | Field::ActsetOutput) => {
            OfPort(port as u16).to_wire32().into()
        }
        packet_type if field == Field::PacketType => {
            openflow::packet_type_to_wire(packet_type as u16).into()
        }
        value => value,
    }
}

fn is_vlan(field: Field) -> bool {
    matches!(field, Field::VlanTci | Field::VlanVid | Field::VlanVidPresent | Field::VlanPcp)
}

/// Keeps the tag's Ethernet type consistent: present if and only if the tag is.
pub(crate) fn fix_tpid(key: &mut FlowKey) {
    if key.vlan_tci() & VLAN_PRESENT == 0 {
        key.set_vlan_tpid(0);
    } else if key.vlan_tpid() == 0 {
        key.set_vlan_tpid(ethertype::VLAN);
    }
}

/// Whether the packet has the field. Adds the deciding fields to the mask (ovs: `lib/meta-flow.c`,
/// `mf_are_prereqs_ok`). The Ethernet type and the fragment bits are always in the mask.
pub(super) fn has_field(field: Field, key: &FlowKey, mask: &mut Mask) -> bool {
    use Field as F;
    let (is_v4, is_v6) = (key.eth_type() == ethertype::IPV4, key.eth_type() == ethertype::IPV6);
    let is_arp = matches!(key.eth_type(), ethertype::ARP | ethertype::RARP);
    match field {
        F::EthSrc | F::EthDst | F::EthType | F::VlanTci | F::VlanVid | F::VlanVidPresent => {
            key.get(F::PacketType) == 0
        }
        F::MplsLabel | F::MplsTc | F::MplsBos | F::MplsTtl => key.is_mpls(),
        F::NshFlags
        | F::NshTtl
        | F::NshMdtype
        | F::NshNp
        | F::NshSpi
        | F::NshSi
        | F::NshC1
        | F::NshC2
        | F::NshC3
        | F::NshC4 => key.is_nsh(),
        // Fields with shared places: the field's name decides which packets have it.
        F::ArpSpa | F::ArpTpa | F::ArpSha | F::ArpTha | F::ArpOp => is_arp,
        F::Ipv4Src | F::Ipv4Dst => is_v4,
        F::Ipv6Src | F::Ipv6Dst | F::Ipv6Label => is_v6,
        F::NwProto | F::NwTos | F::NwTtl | F::NwFrag | F::IpDscp | F::IpEcn => is_v4 || is_v6,
        F::TpSrc | F::TpDst | F::TcpFlags => {
            has_l4(key, mask)
                && matches!(key.nw_proto(), protocol::TCP | protocol::UDP | protocol::SCTP)
        }
        F::IcmpType | F::IcmpCode => {
            has_l4(key, mask)
                && key.nw_proto() == if is_v4 { protocol::ICMP } else { protocol::ICMPV6 }
        }
        F::NdTarget | F::NdSll | F::NdTll | F::NdReserved | F::NdOptionsType => {
            if !has_l4(key, mask) || !is_v6 || key.nw_proto() != protocol::ICMPV6 {
                return false;
            }
            mask.add_bits(F::TpSrc, 0xff);
            mask.add_bits(F::TpDst, 0xff);
            let of = match field {
                F::NdSll => 135..=135,
                F::NdTll => 136..=136,
                _ => 135..=136,
            };
            key.tp_dst() == 0 && of.contains(&key.tp_src())
        }
        F::VlanPcp => {
            if key.get(F::PacketType) != 0 {
                return false;
            }
            mask.add_bits(F::VlanTci, VLAN_PRESENT.into());
            key.vlan_tci() & VLAN_PRESENT != 0
        }
        _ => true,
    }
}

fn has_l4(key: &FlowKey, mask: &mut Mask) -> bool {
    if !key.is_ip() {
        return false;
    }
    mask.add(Field::NwProto);
    key.nw_frag() & FRAG_LATER == 0
}
