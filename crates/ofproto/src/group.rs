//! Groups of a bridge: their configuration, bucket selection and counters.

use crate::carried::Carried;
use base::Instant;
use flow::{FlowStats, HashAlgorithm};
use openflow::message::{
    Bucket, GroupDesc, GroupMod, GroupStats, GroupType, Selection, SelectionMethod,
};
use std::sync::Arc;
use table::{HashTrie, Remains};

/// The limits of the datapath's hash: if the controller asks for it, and if not (ovs:
/// `ofproto/ofproto-dpif.c`, `MAX_SELECT_GROUP_HASH_VALUES`, `group_set_selection_method`).
const HASHES_MAX: u64 = 256;
const HASHES_MIN: u64 = 16;

/// A group.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Its number.
    pub id: u32,
    /// Its type, which decides which buckets are used.
    pub kind: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// The selection method of the request.
    pub selection: Option<Selection>,
    /// When it was added.
    pub created: Instant,
    pub(crate) choice: Choice,
    /// Differs after each change of the bridge's groups, since a changed group counts from zero. 0 in a group that was
    /// never among them.
    pub(crate) generation: u64,
    /// The counters of the group, then of each bucket.
    carried: Arc<[Carried]>,
}

/// How a select group selects a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// By a hash of addresses and ports, computed in translation.
    Default,
    /// By a hash of the selection's fields, computed in translation.
    Fields,
    /// By the datapath's hash. `places` maps each hash value, a power of two of them, to a bucket's index.
    DpHash { algorithm: HashAlgorithm, basis: u32, places: Box<[u16]> },
}

impl Group {
    /// A group from a request, with these buckets.
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
            generation: 0,
            carried: (0..=buckets.len()).map(|_| Carried::since(created)).collect(),
            buckets,
        }
    }

    /// Counts packets for the group and one bucket, or (`None`) all buckets.
    pub fn count(&self, bucket: Option<u32>, more: &FlowStats, now: Instant) {
        let Some((all, each)) = self.carried.split_first() else { return };
        all.add(more, now);
        for (of, carried) in self.buckets.iter().zip(each) {
            if bucket.is_none_or(|id| of.id == id) {
                carried.add(more, now);
            }
        }
    }

    /// Its statistics, with the number of flows that send to it.
    pub(crate) fn stats(&self, references: u32, now: Instant) -> GroupStats {
        let mut each = self.carried.iter().map(Carried::pair);
        let (packets, bytes) = each.next().unwrap_or_default();
        GroupStats {
            group: self.id,
            references,
            // Whole milliseconds, as Open vSwitch counts them.
            duration_ns: (now - self.created).as_millis() as u64 * 1_000_000,
            packets,
            bytes,
            buckets: each.collect(),
        }
    }

    /// The group as OpenFlow describes it.
    pub fn describe(&self) -> GroupDesc {
        let (buckets, selection) = (self.buckets.clone(), self.selection.clone());
        GroupDesc { group: self.id, kind: self.kind, buckets, selection }
    }
}

/// Selects the method, and logs it in Open vSwitch's words.
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
        // The priority of the next value for a bucket: its weight over an odd divisor.
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

/// All groups of a bridge. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    by_id: HashTrie<Arc<Group>>,
    last_generation: u64,
}

fn hash(id: u32) -> u64 {
    u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Groups {
    /// The group of this number.
    pub fn get(&self, id: u32) -> Option<&Group> {
        self.by_id.find(hash(id), |group| group.id == id).map(|group| &**group)
    }

    /// All groups, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        let mut all: Vec<&Group> = self.by_id.iter().map(|group| &**group).collect();
        all.sort_unstable_by_key(|group| group.id);
        all.into_iter()
    }

    /// Frees them a part at a time.
    pub(crate) fn hand_over(self, remains: &mut Remains) {
        self.by_id.hand_over(remains);
    }

    /// Adds a group, or replaces the one with its number, which is returned.
    pub(crate) fn put(&mut self, mut group: Group) -> Option<Group> {
        if group.generation == 0 {
            self.last_generation += 1;
            group.generation = self.last_generation;
        }
        let old = self.remove(group.id);
        self.by_id.insert(hash(group.id), Arc::new(group));
        old
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Group> {
        self.by_id.remove(hash(id), |group| group.id == id).map(Arc::unwrap_or_clone)
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
