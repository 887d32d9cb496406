//! The group action.

use super::action_set::in_order;
use super::context::Context;
use super::fields::{has_field, whole};
use super::freeze::Why;
use super::report::NoteKind;
use crate::dependency::Dependency;
use crate::effect::Effect;
use crate::group::{Choice, Group};
use base::OfPort;
use flow::{DropReason, Field, HashAlgorithm, VLAN_PRESENT, Words};
use openflow::action::Subfield;
use openflow::message::{Bucket, GroupType};
use wire::{ethertype, protocol};

/// Maximum length of a chain of groups that watch each other (ovs: `MAX_LIVENESS_RECURSION`).
const LIVENESS_DEPTH: usize = 64;

impl<'a> Context<'a> {
    /// Sends the packet to a group. Returns whether the group exists.
    pub fn group(&mut self, id: u32, last: bool) -> bool {
        if !self.may_resubmit() {
            return true;
        }
        let Some(group) = self.find_group(id) else {
            self.notes.add(NoteKind::Warning, || format!("output to nonexistent group {id}"));
            return false;
        };
        match group.kind {
            GroupType::All | GroupType::Indirect => {
                for (i, bucket) in group.buckets.iter().enumerate() {
                    self.bucket(bucket, last && i + 1 == group.buckets.len());
                }
                self.count_group(group, None);
            }
            GroupType::Select => {
                if let Some(bucket) = self.select(group) {
                    self.one_bucket(group, bucket, last);
                }
            }
            GroupType::FastFailover => {
                let live = self.first_live(group, 0);
                self.one_bucket(group, live, last);
            }
        }
        true
    }

    fn find_group(&mut self, id: u32) -> Option<&'a Group> {
        let bridge = self.bridge;
        self.depend(Dependency::Group { bridge: bridge.id, group: id });
        bridge.groups.get(id)
    }

    fn count_group(&mut self, group: &Group, bucket: Option<u32>) {
        let (bridge, generation) = (self.bridge.id, group.generation);
        self.effects.push(Effect::Group { bridge, group: group.id, generation, bucket });
    }

    fn one_bucket(&mut self, group: &Group, bucket: Option<&Bucket>, last: bool) {
        let Some(bucket) = bucket else {
            self.notes.add(NoteKind::Detail, || "no live bucket".to_owned());
            return;
        };
        self.notes.add(NoteKind::Detail, || format!("using bucket {}", bucket.id));
        self.bucket(bucket, last);
        self.count_group(group, Some(bucket.id));
    }

    /// Executes a bucket on the current packet; its changes end with it (ovs: `xlate_group_bucket`).
    fn bucket(&mut self, bucket: &Bucket, last: bool) {
        self.notes.enter(NoteKind::Bucket, || format!("bucket {}", bucket.id));
        let (key, varying) = (self.key.clone(), self.varying.clone());
        let was_mpls = self.shims.was_mpls;
        let actions = in_order(&bucket.actions);
        let aside = self.begin_aside();
        let in_bucket = std::mem::replace(&mut self.in_bucket, true);
        self.depth += 1;
        self.execute(&actions, last);
        self.depth -= 1;
        self.in_bucket = in_bucket;
        self.finish_freezing();
        self.end_aside(aside, last);
        (*self.key, *self.varying, self.shims.was_mpls) = (key, varying, was_mpls);
        self.exit = false;
        // Exceeding a limit ends the translation; other errors end only the bucket.
        let ends = |error: &DropReason| {
            use DropReason::{RecircUnknown, ResubmitDepth, Resubmits};
            matches!(error, ResubmitDepth | Resubmits | RecircUnknown)
        };
        self.error = self.error.filter(ends);
        self.notes.leave();
    }

    /// The bucket of a select group; `Some(None)` if none is live, `None` if the datapath has to hash the
    /// packet first and translation is freezing.
    #[expect(clippy::option_option, reason = "no bucket is an answer")]
    fn select(&mut self, group: &'a Group) -> Option<Option<&'a Bucket>> {
        if self.waits_for_labels() {
            return None;
        }
        match &group.choice {
            Choice::Default => {
                let hash = self.default_hash();
                Some(self.best_live(group, hash))
            }
            Choice::Fields => {
                let hash = self.fields_hash(group);
                Some(self.best_live(group, hash))
            }
            Choice::DpHash { algorithm, basis, places } => {
                // A hash of 0 means that the packet has none.
                let hash = self.key.get(Field::DpHash) as usize;
                if hash == 0 {
                    self.freeze_for(Why::Hash { algorithm: *algorithm, basis: *basis });
                    return None;
                }
                let mask = places.len() - 1;
                self.mask.add_bits(Field::DpHash, mask as u128);
                // The next places belong to other buckets, also by weight.
                Some((0..places.len()).find_map(|i| {
                    let bucket = group.buckets.get(usize::from(places[(hash + i) & mask]))?;
                    self.is_live(group, bucket, 0).then_some(bucket)
                }))
            }
        }
    }

    /// The default hash. Adds its fields to the mask (ovs: `lib/flow.c`, `flow_mask_hash_fields`).
    fn default_hash(&mut self) -> u32 {
        let is_v4 = self.key.eth_type() == ethertype::IPV4;
        self.mask.add(Field::EthSrc);
        self.mask.add(Field::EthDst);
        if self.key.is_ip() {
            let addresses = match is_v4 {
                true => [Field::Ipv4Src, Field::Ipv4Dst],
                false => [Field::Ipv6Src, Field::Ipv6Dst],
            };
            addresses.into_iter().for_each(|field| self.mask.add(field));
            self.mask.add(Field::NwProto);
            if self.key.nw_proto() != protocol::UDP {
                let bits =
                    if is_v4 && self.key.nw_proto() == protocol::ICMP { 0xff } else { 0xffff };
                self.mask.add_bits(Field::TpSrc, bits);
                self.mask.add_bits(Field::TpDst, bits);
            }
        }
        for field in [Field::VlanTci, Field::VlanTci1] {
            self.mask.add_bits(field, u128::from(0x0fff | VLAN_PRESENT));
        }
        let key = &self.key;
        let mut words = Words::new(HashAlgorithm::SymmetricL4.hash(key, 0));
        words.add(key.get(Field::EthSrc) ^ key.get(Field::EthDst));
        words.add_word(u32::from((key.vlan_tci() ^ key.vlan_tci1()) & 0x0fff));
        words.finish(0)
    }

    fn fields_hash(&mut self, group: &Group) -> u32 {
        let selection = group.selection.as_ref();
        let param = selection.map_or(0, |selection| selection.param);
        let mut words = Words::new(0);
        words.add(param.into());
        for hashed in selection.into_iter().flat_map(|selection| &selection.fields) {
            let field = hashed.field;
            if has_field(field, self.key, &mut self.mask) && hashed.is_in(self.key) {
                if field.tun_metadata_index().is_some() {
                    let option = Subfield::whole(field);
                    let value = self.read(option);
                    for at in (0..option.bits).step_by(128) {
                        words.add(value.shift_right(at).low());
                    }
                    self.look_at_part(option);
                    continue;
                }
                words.add(whole(self.key, field) & hashed.mask);
                self.look_at(field, hashed.mask);
            }
        }
        words.finish(0)
    }

    /// The live bucket with the highest product of weight and hash
    /// (ovs: `group_best_live_bucket`).
    fn best_live(&mut self, group: &'a Group, hash: u32) -> Option<&'a Bucket> {
        let mut best: Option<(u32, &Bucket)> = None;
        for bucket in &group.buckets {
            if !self.is_live(group, bucket, 0) {
                self.report_dead(bucket);
                continue;
            }
            let mut words = Words::new(hash);
            words.add_word(bucket.id);
            let score = (words.finish(8) & 0xffff) * u32::from(bucket.weight);
            if best.is_none_or(|(before, _)| score >= before) {
                best = Some((score, bucket));
            }
            self.notes.add(NoteKind::Detail, || format!("bucket {}: score {score}", bucket.id));
        }
        best.map(|(_, bucket)| bucket)
    }

    fn first_live(&mut self, group: &'a Group, depth: usize) -> Option<&'a Bucket> {
        for bucket in &group.buckets {
            if self.is_live(group, bucket, depth) {
                return Some(bucket);
            }
            self.report_dead(bucket);
        }
        None
    }

    fn is_live(&mut self, group: &Group, bucket: &Bucket, depth: usize) -> bool {
        if depth >= LIVENESS_DEPTH {
            self.notes.add(NoteKind::Error, || {
                format!("bucket chaining exceeded {LIVENESS_DEPTH} links")
            });
            return false;
        }
        if group.kind == GroupType::Select && bucket.weight == 0 {
            return false;
        }
        if !bucket.is_watched() {
            return true;
        }
        let by_port = match bucket.watch_port {
            OfPort::NONE => false,
            OfPort::CONTROLLER => self.bridge.controllers.connected,
            port => {
                self.depend(Dependency::Link { bridge: self.bridge.id, port });
                self.bridge.port(port).is_some_and(|port| port.spec.is_up())
            }
        };
        by_port
            || bucket.watch_group.is_some_and(|id| {
                let watched = self.find_group(id);
                watched.is_some_and(|group| self.first_live(group, depth + 1).is_some())
            })
    }

    fn report_dead(&mut self, bucket: &Bucket) {
        self.notes.add(NoteKind::Detail, || {
            let mut why = Vec::new();
            if bucket.watch_port != OfPort::NONE {
                why.push(format!("port {}", bucket.watch_port));
            }
            if let Some(group) = bucket.watch_group {
                why.push(format!("port {group}"));
            }
            format!("bucket {}: not live due to {}", bucket.id, why.join(" and "))
        });
    }
}
