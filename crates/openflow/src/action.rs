//! Actions and instructions, the same for every version of OpenFlow.
//!
//! Instructions stand in the same list as actions, in the order in which OpenFlow 1.3 carries them
//! out, as Open vSwitch keeps them (ovs: `include/openvswitch/ofp-actions.h`).

mod choice;
mod learn;

pub use choice::{Bundle, BundleAlgorithm, HashFields, Multipath, MultipathAlgorithm};
pub use learn::{Learn, LearnSource, LearnSpec};

pub(crate) use learn::match_bits;

use base::{MacAddr, OfPort, TableId};
use flow::{Field, NatRange};
use std::net::Ipv4Addr;

/// Some of the bits of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// The lowest bit, counted from the field's least significant.
    pub offset: u32,
    /// How many bits.
    pub bits: u32,
}

impl Subfield {
    /// The whole field.
    pub fn whole(field: Field) -> Self {
        Subfield { field, offset: 0, bits: field.bits() }
    }

    /// The field's bits that are meant.
    pub fn mask(&self) -> u128 {
        (u128::MAX >> (128 - self.bits.clamp(1, 128))) << self.offset
    }
}

/// How a field assignment was written, and is written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetForm {
    /// `set_field:VALUE[/MASK]->FIELD`
    SetField,
    /// `load:VALUE->FIELD[BITS]`
    Load,
}

/// Sends the packet to a controller (`controller(...)`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToController {
    /// At most so many bytes of the packet.
    pub max_len: u16,
    /// To controllers of this id.
    pub controller_id: u16,
    /// OpenFlow 1.3's reason number; 1 is "action".
    pub reason: u8,
    /// Bytes that the controller gets back.
    pub userdata: Vec<u8>,
    /// Freeze the packet until the controller resumes it.
    pub pause: bool,
}

/// Where `ct` takes its zone from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneSource {
    /// The number itself.
    Immediate(u16),
    /// Sixteen bits of a field.
    Field(Subfield),
}

/// `ct(...)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ct {
    /// Remember the connection.
    pub commit: bool,
    /// Begin anew where the connection runs the other way.
    pub force: bool,
    /// The zone.
    pub zone: ZoneSource,
    /// Resubmit what was tracked to this table; the packet before `ct` goes on by itself.
    pub table: Option<TableId>,
    /// The port number of the application-layer helper (21 FTP, 69 TFTP), or 0.
    pub alg: u16,
    /// `nat` and what `exec(...)` sets.
    pub exec: Vec<Action>,
}

/// `conjunction(...)`: packets that match a flow of each clause match `conj_id=ID`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conjunction {
    /// The conjunctive match.
    pub id: u32,
    /// Which clause of it the flow is part of, from 0.
    pub clause: u8,
    /// How many clauses there are, 2 to 64.
    pub clauses: u8,
}

/// One action or instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Output to a port, real or reserved; `max_len` counts only for CONTROLLER.
    Output {
        /// The port.
        port: OfPort,
        /// Bytes for a controller.
        max_len: u16,
    },
    /// Output to the port whose number a field holds.
    OutputReg {
        /// The number.
        source: Subfield,
        /// Bytes for a controller.
        max_len: u16,
    },
    /// Output what comes first of the packet (`output(port=,max_len=)`).
    OutputTrunc {
        /// The port, no reserved one but LOCAL and IN_PORT.
        port: OfPort,
        /// At most so many bytes, at least an Ethernet header.
        max_len: u32,
    },
    /// Send to a controller, with more said than `Output` can.
    Controller(ToController),
    /// Assign bits of a field.
    Set {
        /// The field.
        field: Field,
        /// New bits, in place.
        value: u128,
        /// Which bits are assigned.
        mask: u128,
        /// How it is written.
        form: SetForm,
    },
    /// Copy bits from field to field (`move`).
    Move {
        /// From here.
        source: Subfield,
        /// To here, as many bits.
        target: Subfield,
    },
    /// Push bits onto the stack.
    StackPush(Subfield),
    /// Pop bits off the stack.
    StackPop(Subfield),
    /// OpenFlow 1.0's `mod_vlan_vid`; adds a tag where none is.
    SetVlanVid(u16),
    /// OpenFlow 1.0's `mod_vlan_pcp`; adds a tag where none is.
    SetVlanPcp(u8),
    /// Take the outer tag away, if there is one (`strip_vlan`, `pop_vlan`).
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
    /// Decrement the TTL; a packet whose TTL would be 0 goes to these controllers instead.
    DecTtl(Vec<u16>),
    /// Look the packet up once more, as from another port or in another table.
    Resubmit {
        /// As from this port; `None` keeps it.
        in_port: Option<OfPort>,
        /// In this table; `None` is the current one.
        table: Option<TableId>,
        /// Look up with the connection's original tuple (`resubmit(,N,ct)`).
        with_ct_orig: bool,
    },
    /// Track the packet.
    Ct(Ct),
    /// Forget what `ct` said.
    CtClear,
    /// Within `ct(...)`: translate; `None` restores what was set up.
    Nat(Option<NatRange>),
    /// Say whether the packet has more bytes (`check_pkt_larger`).
    CheckPktLarger {
        /// More than so many.
        bytes: u16,
        /// The bit that says so.
        target: Subfield,
    },
    /// Take a tunnel's option away (`delete_field`).
    DeleteField(Field),
    /// For tests: look the packet up once more before going on (`debug_recirc`).
    DebugRecirc,
    /// For tests: no megaflow stands for the packet (`debug_slow`).
    DebugSlow,
    /// Carry these out on a copy.
    Clone(Vec<Action>),
    /// Send to a group.
    Group(u32),
    /// Go on only as fast as a meter allows (an instruction before OpenFlow 1.5).
    Meter(u32),
    /// Does nothing; carries bytes.
    Note(Vec<u8>),
    /// Add a flow.
    Learn(Box<Learn>),
    /// The flow is part of a conjunctive match.
    Conjunction(Conjunction),
    /// Send to one of some ports, or tell which.
    Bundle(Box<Bundle>),
    /// Choose a link.
    Multipath(Multipath),
    /// Choose the queue of later outputs.
    SetQueue(u32),
    /// Choose the queue that packets have at first.
    PopQueue,
    /// OpenFlow 1.0's output to a port through one of its queues.
    Enqueue {
        /// The port.
        port: OfPort,
        /// Its queue.
        queue: u32,
    },
    /// Give the flow shorter timeouts when a packet has FIN or RST; 0 leaves one as it is.
    FinTimeout {
        /// The idle timeout then, in seconds.
        idle_s: u16,
        /// The hard timeout then, in seconds.
        hard_s: u16,
    },
    /// Stop looking at this flow's further actions.
    Exit,
    /// Instruction: empty the action set.
    ClearActions,
    /// Instruction: merge into the action set.
    WriteActions(Vec<Action>),
    /// Instruction: assign metadata.
    WriteMetadata {
        /// New bits.
        value: u64,
        /// Which.
        mask: u64,
    },
    /// Instruction: go on in a later table.
    GotoTable(TableId),
}
