//! Adding, changing and deleting groups (ovs: `ofproto/ofproto.c`, `ofproto_group_mod_start`).

use crate::Ofproto;
use crate::change::{Change, Used};
use crate::dependency::Dependency;
use crate::flow_mod::{Undo, no_bridge};
use crate::group::{Group, Groups};
use crate::ids::BridgeId;
use crate::rule::each_group;
use base::Instant;
use openflow::message::{
    Bucket, BucketPlace, GROUP_ALL, GROUP_MAX, GroupCommand, GroupDesc, GroupMod, GroupStats,
};
use openflow::{Action, ErrorCode, OfError, place_options};

impl Ofproto {
    /// Carries out an OpenFlow group-mod.
    pub fn group_mod(
        &mut self,
        id: BridgeId,
        group_mod: &GroupMod,
        now: Instant,
    ) -> Result<(), OfError> {
        match self.begin_group_mod(id, group_mod, now)? {
            Some(change) => self.change(change, now),
            None => Ok(()),
        }
    }

    /// Changes a group, or begins to delete groups with the flows that send to them.
    pub(crate) fn begin_group_mod(
        &mut self,
        id: BridgeId,
        group_mod: &GroupMod,
        now: Instant,
    ) -> Result<Option<Change>, OfError> {
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        let mut placed = group_mod.clone();
        for bucket in &mut placed.buckets {
            place_options(&mut bucket.actions, bridge.tunnel_options())?;
        }
        let group_mod = &placed;
        let number = group_mod.group;
        let old = bridge.groups.get(number);
        let new = match (group_mod.command, old) {
            (GroupCommand::Delete, _) => {
                let numbers = self.chosen_groups(id, number).map(|group| group.id).collect();
                return Ok(Some(Change::delete_used(id, Used::Group, numbers)));
            }
            (GroupCommand::Add, Some(_)) => {
                let reason = format!("group-mod: group {number} is there already");
                return Err(OfError::new(ErrorCode::GroupExists, reason));
            }
            (GroupCommand::Add | GroupCommand::AddOrModify, None) => {
                if number > GROUP_MAX {
                    let reason = format!("group-mod: there can't be a group {number:#x}");
                    return Err(OfError::new(ErrorCode::GroupInvalid, reason));
                }
                Group::new(group_mod, group_mod.buckets.clone(), now)
            }
            (_, None) => {
                let reason = format!("group-mod: there is no group {number}");
                return Err(OfError::new(ErrorCode::GroupUnknown, reason));
            }
            (GroupCommand::Modify | GroupCommand::AddOrModify, Some(old)) => {
                Group::new(group_mod, group_mod.buckets.clone(), old.created)
            }
            (GroupCommand::InsertBucket(place), Some(old)) => {
                let buckets = with_buckets(&old.buckets, &group_mod.buckets, place)?;
                replaced(old, buckets, group_mod.command)
            }
            (GroupCommand::RemoveBucket(place), Some(old)) => {
                let buckets = without_buckets(&old.buckets, place)?;
                replaced(old, buckets, group_mod.command)
            }
        };
        self.put_group(id, number, Some(new));
        Ok(None)
    }

    /// Sets or removes a group, recorded for a rollback.
    pub(crate) fn put_group(&mut self, id: BridgeId, number: u32, group: Option<Group>) {
        let Some(bridge) = self.bridges.get_mut(id) else { return };
        let old = match group {
            Some(group) => bridge.groups.put(group),
            None => bridge.groups.remove(number),
        };
        self.changes.one(Dependency::Group { bridge: id, group: number });
        self.remember(Undo::Group { bridge: id, number, group: old.map(Box::new) });
    }

    /// Checks that the groups in actions exist (ovs: `ofproto/ofproto.c`, `ofproto_check_ofpacts`).
    pub(crate) fn check_groups(&self, id: BridgeId, actions: &[Action]) -> Result<(), OfError> {
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        let mut missing = None;
        each_group(actions, &mut |group| {
            if bridge.groups.get(group).is_none() {
                missing = missing.or(Some(group));
            }
        });
        match missing {
            Some(group) => {
                let reason = format!("actions send to group {group}, which is not there");
                Err(OfError::new(ErrorCode::ActionBadOutGroup, reason))
            }
            None => Ok(()),
        }
    }

    /// Descriptions of one group, or of all.
    pub fn group_descs(&self, id: BridgeId, number: u32) -> Vec<GroupDesc> {
        self.chosen_groups(id, number).map(Group::describe).collect()
    }

    /// Statistics of one group, or of all.
    pub fn group_stats(&self, id: BridgeId, number: u32, now: Instant) -> Vec<GroupStats> {
        let Some(ledger) = self.ledger(id) else { return Vec::new() };
        let chosen = self.chosen_groups(id, number);
        chosen.map(|group| group.stats(ledger.group_users.count(group.id), now)).collect()
    }

    fn chosen_groups(&self, id: BridgeId, number: u32) -> impl Iterator<Item = &Group> {
        let groups = self.bridges.get(id).map(|bridge| &bridge.groups);
        let one = groups.filter(|_| number != GROUP_ALL).and_then(|it| it.get(number));
        let all = groups.filter(|_| number == GROUP_ALL).into_iter().flat_map(Groups::iter);
        one.into_iter().chain(all)
    }
}

/// The group with new buckets; type and selection stay.
fn replaced(old: &Group, buckets: Vec<Bucket>, command: GroupCommand) -> Group {
    let GroupDesc { group, kind, selection, .. } = old.describe();
    let like = GroupMod { command, group, kind, buckets: Vec::new(), selection };
    Group::new(&like, buckets, old.created)
}

fn unknown_bucket(id: u32) -> OfError {
    let reason = format!("group-mod: the group has no bucket {id}");
    OfError::new(ErrorCode::GroupUnknownBucket, reason)
}

/// The buckets with others inserted behind one of them, at the beginning or at the end.
fn with_buckets(
    old: &[Bucket],
    new: &[Bucket],
    place: BucketPlace,
) -> Result<Vec<Bucket>, OfError> {
    if let Some(twice) = new.iter().find(|new| old.iter().any(|old| old.id == new.id)) {
        let reason = format!("group-mod: the group has a bucket {} already", twice.id);
        return Err(OfError::new(ErrorCode::GroupBucketExists, reason));
    }
    let at = match place {
        BucketPlace::First => 0,
        BucketPlace::Last | BucketPlace::All => old.len(),
        BucketPlace::Id(id) => {
            let found = old.iter().position(|bucket| bucket.id == id);
            found.ok_or_else(|| unknown_bucket(id))? + 1
        }
    };
    let mut buckets = old.to_vec();
    buckets.splice(at..at, new.iter().cloned());
    Ok(buckets)
}

fn without_buckets(old: &[Bucket], place: BucketPlace) -> Result<Vec<Bucket>, OfError> {
    let mut buckets = old.to_vec();
    match place {
        BucketPlace::All => buckets.clear(),
        BucketPlace::First => drop(buckets.drain(..buckets.len().min(1))),
        BucketPlace::Last => drop(buckets.pop()),
        BucketPlace::Id(id) => {
            let found = buckets.iter().position(|bucket| bucket.id == id);
            buckets.remove(found.ok_or_else(|| unknown_bucket(id))?);
        }
    }
    Ok(buckets)
}

#[cfg(test)]
mod tests;
