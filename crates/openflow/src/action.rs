//! Actions and instructions, the same for every version of OpenFlow.
//!
//! Instructions are in the same list as actions, in OpenFlow 1.3's order of execution, as in Open vSwitch
//! (ovs: `include/openvswitch/ofp-actions.h`).

mod choice;
mod controller;
mod learn;
mod sample;

pub use choice::{Bundle, BundleAlgorithm, HashFields, Multipath, MultipathAlgorithm};
pub use controller::ToController;
pub use learn::{Learn, LearnSource, LearnSpec};
pub use sample::{ObservationId, Sample, SampleDirection};

pub(crate) use learn::match_bits;

use base::{MacAddr, OfPort, TableId};
use flow::{Field, NatRange, OptionMapping, Wide};
use std::net::Ipv4Addr;

/// A range of bits of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// The lowest bit, from the field's least significant bit.
    pub offset: u32,
    /// Number of bits.
    pub bits: u32,
    /// Bytes of the tunnel option that the field stands for in the bridge's TLV table; 0 for other fields, and
    /// where the table is not known.
    pub option_len: u8,
}

impl Subfield {
    /// Bits of a field.
    pub const fn new(field: Field, offset: u32, bits: u32) -> Self {
        Subfield { field, offset, bits, option_len: 0 }
    }

    /// The whole field.
    pub fn whole(field: Field) -> Self {
        let is_option = field.tun_metadata_index().is_some();
        let bits = if is_option { u32::from(OptionMapping::LEN_MAX) * 8 } else { field.bits() };
        Subfield::new(field, 0, bits)
    }

    /// Returns the mask of these bits in the field, which is no tunnel option.
    #[inline]
    pub fn mask(&self) -> u128 {
        let ones = u128::MAX.checked_shr(u128::BITS.saturating_sub(self.bits)).unwrap_or(0);
        ones.checked_shl(self.offset).unwrap_or(0)
    }

    /// Returns the mask of these bits in the field.
    pub fn wide_mask(&self) -> Wide {
        Wide::low_ones(self.bits).shift_left(self.offset)
    }
}

/// The assignment of bits of a tunnel option's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetOption {
    /// `tun_metadata<index>`.
    pub index: u8,
    /// Bytes of the value on the wire.
    pub len: u8,
    /// New bits, in place.
    pub value: Wide,
    /// The bits that are assigned: [`Wide::ONES`] for the whole value, however long it is.
    pub mask: Wide,
    /// The syntax.
    pub form: SetForm,
}

impl SetOption {
    /// Returns whether the whole value is assigned, however long it is.
    pub fn is_whole(&self) -> bool {
        self.mask == Wide::ONES
    }
}

/// The syntax of a field assignment, which is kept when it is written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetForm {
    /// `set_field:VALUE[/MASK]->FIELD`
    SetField,
    /// The same with a mask that covers the field, but not all bits of the bytes in which it is sent
    Masked,
    /// `set_field` as `NXAST_REG_LOAD2`, which is also the form before OpenFlow 1.5
    Load2,
    /// The same with a mask as that of [`Self::Masked`]
    Load2Masked,
    /// `load:VALUE->FIELD[BITS]`
    Load,
    /// `set_tunnel:VALUE`, of the tunnel key alone
    SetTunnel,
    /// `set_tunnel64:VALUE`
    SetTunnel64,
}

impl SetForm {
    /// Returns whether a mask is written although it covers the field.
    pub(crate) fn is_masked(self) -> bool {
        matches!(self, SetForm::Masked | SetForm::Load2Masked)
    }
}

/// The source of `ct`'s zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneSource {
    /// A constant.
    Immediate(u16),
    /// Sixteen bits of a field.
    Field(Subfield),
}

/// `ct(...)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ct {
    /// Commit the connection.
    pub commit: bool,
    /// Delete a committed connection whose original direction is the opposite one.
    pub force: bool,
    /// The zone.
    pub zone: ZoneSource,
    /// Recirculate the tracked packet to this table; the packet itself continues without the result.
    pub table: Option<TableId>,
    /// The port number of the ALG (21 FTP, 69 TFTP), or 0.
    pub alg: u16,
    /// The actions in `exec(...)`, and `nat`.
    pub exec: Vec<Action>,
}

/// `conjunction(...)`: a packet that matches a flow of each clause matches `conj_id=ID`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conjunction {
    /// The id of the conjunctive match.
    pub id: u32,
    /// The flow's clause, from 0.
    pub clause: u8,
    /// The number of clauses, 2 to 64.
    pub clauses: u8,
}

/// A property of `encap(nsh)` (ovs: `include/openvswitch/ofp-ed-props.h`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NshProperty {
    /// The header's MD type.
    MdType(u8),
    /// A context header of MD type 2.
    Tlv {
        /// Its class.
        class: u16,
        /// Its type.
        kind: u8,
        /// Its value, at most [`NshProperty::VALUE_MAX`] bytes.
        value: Vec<u8>,
    },
}

impl NshProperty {
    /// The longest value: the property's length has 8 bits.
    pub const VALUE_MAX: usize = 240;
}

/// One action or instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Output to a port; `max_len` applies only to CONTROLLER.
    Output {
        /// The port.
        port: OfPort,
        /// Most bytes for a controller.
        max_len: u16,
    },
    /// Output to the port in a field.
    OutputReg {
        /// The field with the port number.
        source: Subfield,
        /// Most bytes for a controller.
        max_len: u16,
    },
    /// Output the beginning of the packet (`output(port=,max_len=)`).
    OutputTrunc {
        /// The port; of the reserved ports only LOCAL and IN_PORT.
        port: OfPort,
        /// Most bytes, at least an Ethernet header.
        max_len: u32,
    },
    /// Send to a controller, with more options than `Output`.
    Controller(ToController),
    /// Assign bits of a field.
    Set {
        /// The field.
        field: Field,
        /// New bits, in place.
        value: u128,
        /// The bits that are assigned.
        mask: u128,
        /// The syntax.
        form: SetForm,
    },
    /// Assign bits of a tunnel option.
    SetOption(Box<SetOption>),
    /// Copy bits from field to field (`move`).
    Move {
        /// Source bits.
        source: Subfield,
        /// Target bits, as many as the source's.
        target: Subfield,
        /// It was a copy-field, of OpenFlow 1.5 or the ONF's for 1.3. The ONF's is then the form in 1.3.
        is_copy: bool,
    },
    /// Push bits onto the stack.
    StackPush(Subfield),
    /// Pop bits off the stack.
    StackPop(Subfield),
    /// OpenFlow 1.0's `mod_vlan_vid`; adds a tag if there is none.
    SetVlanVid(u16),
    /// OpenFlow 1.0's `mod_vlan_pcp`; adds a tag if there is none.
    SetVlanPcp(u8),
    /// Remove the outer tag, if there is one (`strip_vlan`, `pop_vlan`).
    StripVlan,
    /// Add a tag of this Ethernet type.
    PushVlan(u16),
    /// `mod_dl_src`
    SetEthSrc(MacAddr),
    /// `mod_dl_dst`
    SetEthDst(MacAddr),
    /// `mod_nw_src`
    SetIpv4Src(Ipv4Addr),
    /// `mod_nw_dst`
    SetIpv4Dst(Ipv4Addr),
    /// `mod_nw_tos`: the upper six bits, in place.
    SetIpDscp(u8),
    /// `mod_nw_ecn`
    SetIpEcn(u8),
    /// `mod_nw_ttl`
    SetIpTtl(u8),
    /// `mod_tp_src`
    SetTpSrc(u16),
    /// `mod_tp_dst`
    SetTpDst(u16),
    /// Decrement the TTL; a packet whose TTL would become 0 is sent to these controllers instead.
    DecTtl(Vec<u16>),
    /// Look the packet up again, with another input port or in another table.
    Resubmit {
        /// The input port; `None` keeps it.
        in_port: Option<OfPort>,
        /// The table; `None` is the current one.
        table: Option<TableId>,
        /// Look up with the connection's original tuple (`resubmit(,N,ct)`).
        with_ct_orig: bool,
    },
    /// Track the packet.
    Ct(Ct),
    /// Clear the connection tracking state.
    CtClear,
    /// NAT within `ct(...)`; `None` applies the connection's existing NAT.
    Nat(Option<NatRange>),
    /// Test whether the packet is larger (`check_pkt_larger`).
    CheckPktLarger {
        /// Than this many bytes.
        bytes: u16,
        /// The bit that receives the result.
        target: Subfield,
    },
    /// Remove a tunnel option (`delete_field`), as a whole.
    DeleteField(Subfield),
    /// For tests: recirculate the packet (`debug_recirc`).
    DebugRecirc,
    /// For tests: process the packet in the slow path (`debug_slow`).
    DebugSlow,
    /// Add an Ethernet header to a packet without one (`encap(ethernet)`).
    EncapEthernet {
        /// The header's length as the controller gave it, which has no effect.
        header_bytes: u16,
    },
    /// Add an MPLS label in front of a packet, an Ethernet header included (`encap(mpls)`, `encap(mpls_mc)`).
    EncapMpls {
        /// Ethernet type of MPLS.
        ethertype: u16,
        /// The header's length as the controller gave it, which has no effect.
        header_bytes: u16,
    },
    /// Add an NSH header in front of a packet, an Ethernet header included (`encap(nsh)`).
    EncapNsh {
        /// The header's length as the controller gave it, which has no effect.
        header_bytes: u16,
        /// Other properties that the controller gave.
        properties: Vec<NshProperty>,
    },
    /// Decrement the TTL of NSH; a packet whose TTL would become 0 is sent to the controller instead.
    DecNshTtl,
    /// Add an MPLS label with this Ethernet type.
    PushMpls(u16),
    /// Remove the outermost MPLS label; the packet then has this Ethernet type.
    PopMpls(u16),
    /// `set_mpls_label`, 20 bits
    SetMplsLabel(u32),
    /// `set_mpls_tc`, 3 bits
    SetMplsTc(u8),
    /// `set_mpls_ttl`
    SetMplsTtl(u8),
    /// Decrement the TTL of the outermost MPLS label; a packet whose TTL would become 0 is sent to the
    /// controller instead.
    DecMplsTtl,
    /// Remove the outermost header (`decap`). The packet then has this OpenFlow packet type, or with
    /// [`Self::NEXT_PROTOCOL`] the one in the header.
    Decap(u32),
    /// Execute actions on a copy.
    Clone(Vec<Action>),
    /// Send to a group.
    Group(u32),
    /// Apply a meter (an instruction before OpenFlow 1.5).
    Meter(u32),
    /// No effect; contains arbitrary bytes.
    Note(Vec<u8>),
    /// Add a flow.
    Learn(Box<Learn>),
    /// The flow is part of a conjunctive match.
    Conjunction(Conjunction),
    /// Select one of several ports and output to it, or store it in a field.
    Bundle(Box<Bundle>),
    /// Select a link.
    Multipath(Multipath),
    /// Report a part of the packets to collectors.
    Sample(Box<Sample>),
    /// Set the queue of later outputs.
    SetQueue(u32),
    /// Restore the packet's original queue.
    PopQueue,
    /// OpenFlow 1.0's output to a queue of a port.
    Enqueue {
        /// The port.
        port: OfPort,
        /// Its queue.
        queue: u32,
    },
    /// Reduce the flow's timeouts when a packet has FIN or RST; 0 keeps a timeout.
    FinTimeout {
        /// The idle timeout then, in seconds.
        idle_s: u16,
        /// The hard timeout then, in seconds.
        hard_s: u16,
    },
    /// Skip the flow's further actions.
    Exit,
    /// Instruction: clear the action set.
    ClearActions,
    /// Instruction: merge into the action set.
    WriteActions(Vec<Action>),
    /// Instruction: assign metadata.
    WriteMetadata {
        /// New bits.
        value: u64,
        /// The bits that are assigned.
        mask: u64,
    },
    /// Instruction: continue in a later table.
    GotoTable(TableId),
}

impl Action {
    /// The packet type that stands for the one in the removed header (ovs: `PT_USE_NEXT_PROTO`).
    pub const NEXT_PROTOCOL: u32 = 0xfffe;

    /// Returns the assignment of a value to bits of a field, which it fits.
    pub fn assign(target: Subfield, value: Wide, form: SetForm) -> Action {
        let mask = target.wide_mask();
        let value = value.shift_left(target.offset) & mask;
        match target.field.tun_metadata_index() {
            Some(index) => {
                let longest = OptionMapping::LEN_MAX;
                let len = if target.option_len == 0 { longest } else { target.option_len };
                let is_whole = mask == Wide::low_ones(u32::from(len) * 8);
                let mask = if is_whole { Wide::ONES } else { mask };
                Action::SetOption(Box::new(SetOption { index, len, value, mask, form }))
            }
            None => {
                let (value, mask) = (value.low(), mask.low());
                Action::Set { field: target.field, value, mask, form }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_a_field_is_the_low_part_of_the_wide_one() {
        for bits in [0, 1, 16, 64, 127, 128, 129, 992] {
            for offset in [0, 1, 63, 127, 128, 200] {
                let part = Subfield::new(Field::Ipv6Src, offset, bits);
                assert_eq!(part.mask(), part.wide_mask().low(), "{bits} bits at {offset}");
            }
        }
    }
}
