//! Groups: what flows send packets to that is to be sent on in one of several ways.

use crate::action::Action;
use crate::oxm::{by_name, specs};
use base::OfPort;
use flow::{Field, FlowKey, Match};

/// OFPG_MAX: the highest number that a group may have.
pub const GROUP_MAX: u32 = 0xffff_ff00;
/// OFPG_ALL: all groups, where a request names one.
pub const GROUP_ALL: u32 = 0xffff_fffc;
/// OFPG_BUCKET_MAX: the highest number that a bucket may have.
pub const BUCKET_MAX: u32 = 0xffff_ff00;

/// What a group-mod does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupCommand {
    /// Add; a group of that number must not be there.
    Add,
    /// Give a group that is there other buckets.
    Modify,
    /// Either of these (Open vSwitch's extension).
    AddOrModify,
    /// Delete a group, or all, with the flows that send to it.
    Delete,
    /// Add buckets at a place (OpenFlow 1.5).
    InsertBucket(BucketPlace),
    /// Take buckets out (OpenFlow 1.5).
    RemoveBucket(BucketPlace),
}

/// Where buckets are put, or which are taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BucketPlace {
    /// Behind the bucket of this number, or just that one.
    Id(u32),
    /// The first.
    First,
    /// The last.
    Last,
    /// All; buckets can't be put there.
    All,
}

/// Which of its buckets a group uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupType {
    /// All of them.
    All,
    /// One, by a hash of the packet.
    Select,
    /// Its only one.
    Indirect,
    /// The first that is live.
    FastFailover,
}

impl GroupType {
    /// All of them, by their number on the wire.
    pub const ALL: [GroupType; 4] =
        [GroupType::All, GroupType::Select, GroupType::Indirect, GroupType::FastFailover];

    /// As `ovs-ofctl` writes it.
    pub fn name(self) -> &'static str {
        match self {
            GroupType::All => "all",
            GroupType::Select => "select",
            GroupType::Indirect => "indirect",
            GroupType::FastFailover => "ff",
        }
    }
}

/// One of the ways of a group.
#[derive(Clone, PartialEq, Debug)]
pub struct Bucket {
    /// Its number; those of one group differ.
    pub id: u32,
    /// Its share of a select group's packets.
    pub weight: u16,
    /// It is live while this port is; `NONE` is none.
    pub watch_port: OfPort,
    /// It is live while this group has a live bucket.
    pub watch_group: Option<u32>,
    /// An action set.
    pub actions: Vec<Action>,
}

impl Bucket {
    /// Whether it says when it is live.
    pub fn is_watched(&self) -> bool {
        self.watch_port != OfPort::NONE || self.watch_group.is_some()
    }
}

/// How a select group chooses (Netronome's extension).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// By what.
    pub method: SelectionMethod,
    /// For `dp_hash` the algorithm (upper 32 bits) and its basis, for `hash` the basis.
    pub param: u64,
    /// What `hash` looks at; nothing is the default.
    pub fields: Vec<HashField>,
}

/// Who works out the hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SelectionMethod {
    /// Translation, so that each hash is a megaflow of its own.
    Hash,
    /// The datapath, packet by packet.
    DpHash,
}

/// Bits of a field that a hash looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashField {
    /// The field.
    pub field: Field,
    /// Open vSwitch's name, which tells apart ports of TCP, UDP and SCTP.
    pub name: &'static str,
    /// Which bits.
    pub mask: u128,
}

impl HashField {
    /// The whole field of this name, one of Open vSwitch's.
    pub fn named(name: &str) -> Option<HashField> {
        let spec = by_name(name)?;
        let field = spec.bits_field();
        Some(HashField { field, name: spec.name, mask: field.all_ones() })
    }

    /// Whether a packet has the field.
    pub fn is_in(&self, key: &FlowKey) -> bool {
        let whole = |field: Field| (field, key.get(field));
        let told = [Field::EthType, Field::NwProto, Field::NwFrag, Field::VlanTci, Field::TpSrc];
        let packet = told.map(whole).into_iter().fold(Match::any(), |all, (field, value)| {
            all.with_masked(field, value, field.all_ones())
        });
        by_name(self.name).is_some_and(|spec| spec.prerequisite.met_by(&packet))
    }

    /// Its place among all fields, in which order they are hashed and told.
    pub(crate) fn place(&self) -> usize {
        specs().iter().position(|spec| spec.name == self.name).unwrap_or(usize::MAX)
    }
}

/// Adds, changes or deletes groups.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupCommand,
    /// Which group; [`GROUP_ALL`] are all, on deletion.
    pub group: u32,
    /// Its type.
    pub kind: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// How it chooses.
    pub selection: Option<Selection>,
}

/// A group as it is told.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupDesc {
    /// Its number.
    pub group: u32,
    /// Its type.
    pub kind: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// How it chooses, where it was told.
    pub selection: Option<Selection>,
}

/// What a group has carried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStats {
    /// Its number.
    pub group: u32,
    /// How many flows send to it.
    pub references: u32,
    /// How long it exists, in nanoseconds; OpenFlow 1.1 and 1.2 don't tell.
    pub duration_ns: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}
