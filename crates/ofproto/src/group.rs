//! Groups of a bridge: what each is, which bucket a select group takes, and what they have carried.

use crate::rule::RuleId;
use base::Instant;
use flow::{FlowStats, HashAlgorithm};
use openflow::Action;
use openflow::message::{
    Bucket, GroupDesc, GroupMod, GroupStats, GroupType, Selection, SelectionMethod,
};
use std::collections::{BTreeMap, BTreeSet};

/// The most values of the datapath's hash where the controller asks for it, and where it does not
/// (ovs: `ofproto/ofproto-dpif.c`, `MAX_SELECT_GROUP_HASH_VALUES`, `group_set_selection_method`).
const HASHES_MAX: u64 = 256;
const HASHES_MIN: u64 = 16;

/// A group.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Its number.
    pub id: u32,
    /// Which of its buckets it uses.
    pub kind: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// How it was told to choose.
    pub selection: Option<Selection>,
    /// When it was added.
    pub created: Instant,
    pub(crate) choice: Choice,
    carried: Carried,
    /// What each bucket has carried.
    carried_by: Vec<Carried>,
}

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Carried {
    packets: u64,
    bytes: u64,
}

/// How a select group chooses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// By a hash of addresses and ports, taken in translation.
    Default,
    /// By a hash of the fields of its selection, taken in translation.
    Fields,
    /// By the datapath's hash: a place for each of its values, a power of two of them, with the
    /// bucket's place in the list.
    DpHash { algorithm: HashAlgorithm, basis: u32, places: Box<[u16]> },
}

impl Group {
    /// A group as it was asked for, with these buckets.
    pub fn new(from: &GroupMod, buckets: Vec<Bucket>, created: Instant) -> Self {
        let choice = match from.kind {
            GroupType::Select => choose(from.group, &buckets, from.selection.as_ref()),
            _ => Choice::Default,
        };
        Group {
            id: from.group,
            kind: from.kind,
            selection: from.selection.clone(),
            created,
            choice,
            carried: Carried::default(),
            carried_by: vec![Carried::default(); buckets.len()],
            buckets,
        }
    }

    /// More packets went through it, through one of its buckets or (`None`) through all.
    pub fn count(&mut self, bucket: Option<u32>, more: &FlowStats) {
        self.carried.add(more);
        for (of, carried) in self.buckets.iter().zip(&mut self.carried_by) {
            if bucket.is_none_or(|id| of.id == id) {
                carried.add(more);
            }
        }
    }

    /// The group as it is told.
    pub fn describe(&self) -> GroupDesc {
        let (buckets, selection) = (self.buckets.clone(), self.selection.clone());
        GroupDesc { group: self.id, kind: self.kind, buckets, selection }
    }
}

impl Carried {
    fn add(&mut self, more: &FlowStats) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// How a select group chooses, told in the words of Open vSwitch's log.
fn choose(id: u32, buckets: &[Bucket], selection: Option<&Selection>) -> Choice {
    let say = |text: String| log::debug!(target: "ofproto_dpif", "{text}");
    say(format!("Constructing select group {id}"));
    let (algorithm, basis) = match selection {
        None => {
            say("No selection method specified. Trying dp_hash.".to_owned());
            (HashAlgorithm::SymmetricL4, 0)
        }
        Some(it) if it.method == SelectionMethod::DpHash => {
            say("Selection method specified: dp_hash.".to_owned());
            let number = (it.param >> 32) as u32;
            let algorithm = HashAlgorithm::from_number(number).unwrap_or_else(|| {
                say(format!("Invalid dp_hash algorithm {number}. Defaulting to OVS_HASH_ALG_L4"));
                HashAlgorithm::L4
            });
            (algorithm, it.param as u32)
        }
        Some(it) => {
            say("Selection method specified: hash.".to_owned());
            if it.fields.is_empty() {
                say("No hash fields. Falling back to default hash method.".to_owned());
                return Choice::Default;
            }
            let names: Vec<&str> = it.fields.iter().map(|field| field.name).collect();
            say(format!("Hash fields: {}", names.join(",")));
            return Choice::Fields;
        }
    };
    match spread(buckets) {
        Ok(places) => {
            let (count, number) = (places.len(), algorithm.number());
            say(format!("Use dp_hash with {count} hash values using algorithm {number}."));
            Choice::DpHash { algorithm, basis, places }
        }
        Err(why) => {
            say(why);
            say("Falling back to default hash method.".to_owned());
            Choice::Default
        }
    }
}

/// Spreads hash values over buckets by their weights with Webster's method
/// (ovs: `ofproto/ofproto-dpif.c`, `group_setup_dp_hash_table`).
fn spread(buckets: &[Bucket]) -> Result<Box<[u16]>, String> {
    if buckets.is_empty() || buckets.len() > usize::from(u16::MAX) {
        return Err("  Don't apply dp_hash method without buckets.".to_owned());
    }
    let weights = || buckets.iter().map(|bucket| u64::from(bucket.weight));
    let total: u64 = weights().sum();
    let Some(least) = weights().filter(|&weight| weight > 0).min() else {
        return Err("  Total weight is zero. No active buckets.".to_owned());
    };
    log::debug!(target: "ofproto_dpif", "  Minimum weight: {least}, total weight: {total}");
    let count = total.div_ceil(least).next_power_of_two().max(HASHES_MIN);
    if count > HASHES_MAX {
        return Err(format!("  Too many hash values required: {count}"));
    }
    log::debug!(target: "ofproto_dpif", "  Using {count} hash values:");
    let mut hits = vec![0u64; buckets.len()];
    let mut places = Vec::new();
    for _ in 0..count {
        // The share of the next value that a bucket would have, as weight over an odd divisor.
        let share = |i: usize| (u64::from(buckets[i].weight), 2 * hits[i] + 1);
        let larger = |(a, of): (u64, u64), (b, other): (u64, u64)| a * other > b * of;
        let winner = (1..buckets.len())
            .fold(0, |best, i| if larger(share(i), share(best)) { i } else { best });
        hits[winner] += 1;
        places.push(winner as u16);
    }
    for (bucket, hits) in buckets.iter().zip(&hits) {
        let target = (count * u64::from(bucket.weight)) as f64 / total as f64;
        log::debug!(
            target: "ofproto_dpif",
            "  Bucket {}: weight={}, target={target:.2} hits={hits}", bucket.id, bucket.weight
        );
    }
    Ok(places.into())
}

/// All groups of a bridge.
#[derive(Debug, Default)]
pub struct Groups {
    by_id: BTreeMap<u32, Group>,
    /// Flows that send to a group.
    users: BTreeMap<u32, BTreeSet<RuleId>>,
}

impl Groups {
    /// The group of this number.
    pub fn get(&self, id: u32) -> Option<&Group> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Group> {
        self.by_id.get_mut(&id)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.by_id.values()
    }

    /// Puts a group in, in place of that of its number; gives the one that was there.
    pub(crate) fn put(&mut self, group: Group) -> Option<Group> {
        self.by_id.insert(group.id, group)
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Group> {
        self.by_id.remove(&id)
    }

    /// The flows that send to a group.
    pub(crate) fn users(&self, id: u32) -> Vec<RuleId> {
        self.users.get(&id).into_iter().flatten().copied().collect()
    }

    /// A flow with these actions came, or (`is_there` false) went.
    pub(crate) fn note_flow(&mut self, rule: RuleId, actions: &[Action], is_there: bool) {
        each_group(actions, &mut |group| {
            let users = self.users.entry(group).or_default();
            if is_there {
                users.insert(rule);
            } else {
                users.remove(&rule);
            }
            if users.is_empty() {
                self.users.remove(&group);
            }
        });
    }

    /// What a group has carried.
    pub(crate) fn stats(&self, group: &Group, now: Instant) -> GroupStats {
        let pair = |carried: &Carried| (carried.packets, carried.bytes);
        let (packets, bytes) = pair(&group.carried);
        GroupStats {
            group: group.id,
            references: self.users.get(&group.id).map_or(0, |users| users.len() as u32),
            // Whole milliseconds, as Open vSwitch counts them.
            duration_ns: (now - group.created).as_millis() as u64 * 1_000_000,
            packets,
            bytes,
            buckets: group.carried_by.iter().map(pair).collect(),
        }
    }
}

/// Hands out the groups that actions send to.
pub(crate) fn each_group(actions: &[Action], take: &mut dyn FnMut(u32)) {
    for action in actions {
        match action {
            Action::Group(group) => take(*group),
            Action::Clone(inner) | Action::WriteActions(inner) => each_group(inner, take),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::OfPort;

    fn weighted(weights: &[u16]) -> Vec<Bucket> {
        let bucket = |(id, &weight): (u32, &u16)| Bucket {
            id,
            weight,
            watch_port: OfPort::NONE,
            watch_group: None,
            actions: Vec::new(),
        };
        (0..).zip(weights).map(bucket).collect()
    }

    #[test]
    fn hash_values_are_spread_by_weight() {
        let cases: [(&[u16], Option<&[usize]>); 6] = [
            (&[1, 1], Some(&[8, 8])),
            (&[5, 10, 25, 60, 0], Some(&[2, 3, 8, 19, 0])),
            (&[100], Some(&[16])),
            (&[1, 1000], None),
            (&[0, 0], None),
            (&[], None),
        ];
        for (weights, expect) in cases {
            let got = spread(&weighted(weights)).ok().map(|places| {
                let count = |i| places.iter().filter(|&&place| usize::from(place) == i).count();
                (0..weights.len()).map(count).collect::<Vec<_>>()
            });
            assert_eq!(got.as_deref(), expect, "{weights:?}");
        }
    }
}
