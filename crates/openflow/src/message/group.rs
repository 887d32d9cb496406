//! Groups, which forward packets in one or several of several ways.

use crate::action::Action;
use crate::oxm::{by_name, specs};
use base::OfPort;
use flow::{Field, FlowKey, Match};

/// OFPG_MAX: the highest group number.
pub const GROUP_MAX: u32 = 0xffff_ff00;
/// OFPG_ALL: all groups, in requests.
pub const GROUP_ALL: u32 = 0xffff_fffc;
/// OFPG_BUCKET_MAX: the highest bucket number.
pub const BUCKET_MAX: u32 = 0xffff_ff00;

/// The command of a group-mod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupCommand {
    /// Add a group, which must not exist.
    Add,
    /// Replace the buckets of an existing group.
    Modify,
    /// Add or modify (Open vSwitch's extension).
    AddOrModify,
    /// Delete a group, or all, with the flows that output to it.
    Delete,
    /// Insert buckets at a position (OpenFlow 1.5).
    InsertBucket(BucketPlace),
    /// Remove buckets (OpenFlow 1.5).
    RemoveBucket(BucketPlace),
}

/// The position of inserted buckets, or the buckets to remove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BucketPlace {
    /// After the bucket with this number, or exactly that bucket.
    Id(u32),
    /// The first.
    First,
    /// The last.
    Last,
    /// All; only for removal.
    All,
}

/// The type of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupType {
    /// Executes all buckets.
    All,
    /// Selects one by a hash of the packet.
    Select,
    /// Executes its only bucket.
    Indirect,
    /// Selects the first live bucket.
    FastFailover,
}

impl GroupType {
    /// All types, by their number on the wire.
    pub const ALL: [GroupType; 4] =
        [GroupType::All, GroupType::Select, GroupType::Indirect, GroupType::FastFailover];

    /// Returns the name in `ovs-ofctl`'s syntax.
    pub fn name(self) -> &'static str {
        match self {
            GroupType::All => "all",
            GroupType::Select => "select",
            GroupType::Indirect => "indirect",
            GroupType::FastFailover => "ff",
        }
    }
}

/// A bucket of a group.
#[derive(Clone, PartialEq, Debug)]
pub struct Bucket {
    /// Its number, unique within the group.
    pub id: u32,
    /// Its share of a select group's packets.
    pub weight: u16,
    /// The bucket is live while this port is live; `NONE` is no port.
    pub watch_port: OfPort,
    /// The bucket is live while this group has a live bucket.
    pub watch_group: Option<u32>,
    /// Its action set.
    pub actions: Vec<Action>,
}

impl Bucket {
    /// Returns whether it has a watch port or watch group.
    pub fn is_watched(&self) -> bool {
        self.watch_port != OfPort::NONE || self.watch_group.is_some()
    }
}

/// The selection method of a select group (Netronome's extension).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The method.
    pub method: SelectionMethod,
    /// For `dp_hash`, the algorithm (upper 32 bits) and its basis; for `hash`, the basis.
    pub param: u64,
    /// The fields of `hash`; empty for the default.
    pub fields: Vec<HashField>,
}

/// Which component computes the hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SelectionMethod {
    /// Translation, so that each hash value needs a megaflow of its own.
    Hash,
    /// The datapath, per packet.
    DpHash,
}

/// The bits of a field that are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashField {
    /// The field.
    pub field: Field,
    /// Open vSwitch's name, which distinguishes ports of TCP, UDP and SCTP.
    pub name: &'static str,
    /// The bits.
    pub mask: u128,
}

impl HashField {
    /// Returns the whole field with this name of Open vSwitch.
    pub fn named(name: &str) -> Option<HashField> {
        let spec = by_name(name)?;
        let field = spec.bits_field();
        Some(HashField { field, name: spec.name, mask: field.all_ones() })
    }

    /// Returns whether a packet has the field.
    pub fn is_in(&self, key: &FlowKey) -> bool {
        let whole = |field: Field| (field, key.get(field));
        let told = [Field::EthType, Field::NwProto, Field::NwFrag, Field::VlanTci, Field::TpSrc];
        let packet = told.map(whole).into_iter().fold(Match::any(), |all, (field, value)| {
            all.with_masked(field, value, field.all_ones())
        });
        by_name(self.name).is_some_and(|spec| spec.prerequisite.met_by(&packet))
    }

    /// Returns its position among all fields, which is the order of hashing and formatting.
    pub(crate) fn place(&self) -> usize {
        specs().iter().position(|spec| spec.name == self.name).unwrap_or(usize::MAX)
    }
}

/// Adds, modifies or deletes groups.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupMod {
    /// The command.
    pub command: GroupCommand,
    /// The group; [`GROUP_ALL`] deletes all.
    pub group: u32,
    /// Its type.
    pub kind: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// Its selection method.
    pub selection: Option<Selection>,
}

/// The description of a group.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupDesc {
    /// Its number.
    pub group: u32,
    /// Its type.
    pub kind: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// Its selection method, if it was set.
    pub selection: Option<Selection>,
}

/// The statistics of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStats {
    /// Its number.
    pub group: u32,
    /// Number of flows that output to it.
    pub references: u32,
    /// Time since its creation, in nanoseconds; not in OpenFlow 1.1 and 1.2.
    pub duration_ns: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}
