//! The types that the classifier, connection tracking, the OpenFlow tables and the datapath share: the fields
//! that flows match on ([`FlowKey`], [`Mask`], [`Match`]), the actions ([`Action`]), and the messages between
//! the datapath and the tables ([`Upcall`], [`FlowPut`], [`FlowStats`]).

#![forbid(unsafe_code)]

mod action;
mod connection;
mod ct;
mod ct_flush;
mod ct_state;
mod drop;
mod extract;
mod field;
mod frame;
mod hash;
mod headers;
mod key;
mod latency;
mod layers;
mod matching;
mod meter;
mod offload;
mod option;
mod packed;
mod packed_match;
mod protocol;
mod queue_class;
mod raw_options;
mod tunnel;
mod upcall;
mod vlan_limit;
mod wide;

pub use action::{Action, CheckLen, ControllerAction, SetField};
pub use connection::ConnectionRef;
pub use ct::{CtAction, Masked, Nat, NatKind, NatRange, PortSelection, Tuple, TupleL4, TupleMatch};
pub use ct_flush::CtFlush;
pub use ct_state::CtState;
pub use drop::{DropCounters, DropReason};
pub use field::{Field, WORDS};
pub use frame::{Frame, FrameBatch};
pub use hash::{HashAlgorithm, Words};
pub use headers::{HEADER_WORDS, Headers, IPV4_WORDS};
pub use key::{
    CtFields, ETH_TYPE_NONE, FRAG_ANY, FRAG_LATER, FlowKey, MPLS_LABELS, Mask, TUN_CSUM,
    TUN_DONT_FRAGMENT, TUN_KEY, TUN_OAM, VLAN_PRESENT,
};
pub use latency::{Stamps, UpcallClass};
pub use layers::Layers;
pub use matching::Match;
pub use meter::{Meter, MeterBand, MeterConfig, MeterCount, MeterRef};
pub use offload::{
    FlowOffload, MARK_IN_WINDOW, MARK_MAX, NatRewrite, OffloadId, OffloadOffer, OffloadRefusal,
    OffloadRule, OffloadStatus, OffloadTraffic, OffloadTunnel, Refusal, TcpWindow, TcpWindows,
    WindowCheck,
};
pub use option::{OptionMapping, OptionMatch};
pub use packed::PackedKey;
pub use packed_match::PackedMatch;
pub use protocol::{MonitorId, Protocol, ToProtocol};
pub use queue_class::QueueClass;
pub use tunnel::{SetTunnel, TunnelEnd, TunnelKind, TunnelPush, TunnelSequence};
pub use upcall::{
    AnswerFlow, Execute, FlowCommand, FlowDump, FlowId, FlowPut, FlowStats, TraceId, Upcall,
    UpcallKind,
};
pub use vlan_limit::VlanLimit;
pub use wide::Wide;
