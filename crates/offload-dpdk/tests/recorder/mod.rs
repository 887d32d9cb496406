//! A device that does with frames what the rules say that it has, read from DPDK's description of items and
//! actions. It fills up, fails, forgets and ages on demand, and lacks what it is told to lack.

#![allow(dead_code)]

mod bytes;
mod change;
mod compare;
mod objects;

use flow::Refusal;
use objects::Tracked;
use port_dpdk::flow_rule::{
    ConnectionObject, DeviceRefusal, FlowDevice, FlowRule, ObjectHandle, RuleAction, RuleHandle,
    RuleState,
};
use std::collections::{BTreeMap, BTreeSet};

/// The device.
#[derive(Default)]
pub struct Recorder {
    /// Its rules, with the ports whose packets they are for.
    pub rules: BTreeMap<RuleHandle, (u16, FlowRule, RuleState)>,
    /// The port through which rules of its switch are made; otherwise each port has its own.
    pub proxy: Option<u16>,
    /// Rules that it has room for.
    pub room: Option<usize>,
    /// Says why it does not take a rule.
    pub lacks: Option<fn(&FlowRule) -> Option<&'static str>>,
    /// It removes no single rule.
    pub is_stuck: bool,
    /// It cannot be flushed.
    pub keeps_rules: bool,
    /// How often it was asked to make a rule.
    pub asked: u64,
    /// The number of the rule or object that was made last.
    pub last: u64,
    /// Its connection objects.
    pub objects: BTreeMap<ObjectHandle, Tracked>,
    /// The rules that are for packets of an object's reply direction.
    pub replies: BTreeSet<RuleHandle>,
    /// Segments that objects judged.
    pub judged: u64,
    /// Why it makes no objects.
    pub lacks_objects: Option<(Refusal, &'static str)>,
    /// It does not turn objects, changes none, tells of none.
    pub turns_none: bool,
    pub changes_none: bool,
    pub tells_none: bool,
}

/// What a device did with a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It gave it to the switch.
    Switch,
    /// It sent it by a port.
    Sent(u16, Vec<u8>),
    /// It dropped it.
    Dropped,
    /// It gave it to the switch with a mark.
    Marked(u32),
}

impl Recorder {
    /// What becomes of a frame that a port receives.
    pub fn receive(&mut self, port: u16, frame: &[u8]) -> Fate {
        let (mut group, mut said) = (0, None);
        loop {
            let its = self.rules.iter_mut().filter(|(_, (of, rule, _))| {
                let is_asked = rule.group == group && (rule.transfers || *of == port);
                is_asked && compare::matches(&rule.items, port, frame, said)
            });
            let found = its.min_by_key(|(_, (_, rule, _))| rule.priority);
            let Some((handle, (_, rule, state))) = found else {
                assert_eq!(group, 0, "what happens to a packet that jumped is said");
                return Fate::Switch;
            };
            let marks = rule.actions.contains(&RuleAction::Rss);
            assert!(marks || rule.actions.contains(&RuleAction::Count), "rules are counted");
            state.packets += 1;
            state.bytes += frame.len() as u64;
            state.is_aged = false;
            match rule.actions[..] {
                [RuleAction::Count, RuleAction::Check(object), RuleAction::Jump(to)] => {
                    let object = self.objects.get_mut(&object).expect("it is there with its rules");
                    self.judged += 1;
                    said = Some(object.judge(self.replies.contains(handle), frame));
                    group = to;
                }
                _ => return change::carry_out(&rule.actions, frame),
            }
        }
    }

    /// Every rule had no packet for its time.
    pub fn age(&mut self) {
        for (_, rule, state) in self.rules.values_mut() {
            state.is_aged = rule.actions.iter().any(|it| matches!(it, RuleAction::Age { .. }));
        }
    }
}

impl FlowDevice for Recorder {
    fn create(&mut self, port: u16, rule: &FlowRule) -> Result<RuleHandle, DeviceRefusal> {
        self.asked += 1;
        let refuse = |kind, words: &str| Err(DeviceRefusal { kind, words: words.to_owned() });
        if let Some(words) = self.lacks.and_then(|lacks| lacks(rule)) {
            return refuse(Refusal::Device, words);
        }
        if self.room.is_some_and(|room| self.rules.len() >= room) {
            return refuse(Refusal::Full, "no room for rules");
        }
        self.last += 1;
        let handle = RuleHandle(self.last);
        for action in &rule.actions {
            if let RuleAction::Check(object) = action
                && self.objects[object].is_turned
            {
                self.replies.insert(handle);
            }
        }
        self.rules.insert(handle, (port, rule.clone(), RuleState::default()));
        Ok(handle)
    }

    fn destroy(&mut self, rule: RuleHandle) -> Result<(), String> {
        if self.is_stuck {
            return Err("the firmware does not answer".to_owned());
        }
        self.rules.remove(&rule);
        Ok(())
    }

    fn flush(&mut self, port: u16) {
        if self.keeps_rules {
            return;
        }
        let proxy = self.proxy;
        let owner = |of: u16, rule: &FlowRule| proxy.filter(|_| rule.transfers).unwrap_or(of);
        let its =
            self.rules.values().filter(|(of, rule, _)| *of == port || owner(*of, rule) == port);
        let owners: BTreeSet<u16> = its.map(|(of, rule, _)| owner(*of, rule)).collect();
        self.rules.retain(|_, (of, rule, _)| !owners.contains(&owner(*of, rule)));
    }

    fn query(&mut self, rule: RuleHandle) -> Option<RuleState> {
        self.rules.get(&rule).map(|(_, _, state)| *state)
    }

    fn create_object(
        &mut self,
        _port: u16,
        _peer: u16,
        object: &ConnectionObject,
    ) -> Result<ObjectHandle, DeviceRefusal> {
        if let Some((kind, words)) = self.lacks_objects {
            return Err(DeviceRefusal { kind, words: words.to_owned() });
        }
        self.last += 1;
        let handle = ObjectHandle(self.last);
        self.objects.insert(handle, Tracked { object: *object, is_turned: false });
        Ok(handle)
    }

    fn turn_object(&mut self, object: ObjectHandle) -> Result<(), DeviceRefusal> {
        if self.turns_none {
            let words = "no other direction".to_owned();
            return Err(DeviceRefusal { kind: Refusal::Device, words });
        }
        self.objects.get_mut(&object).expect("it was made").is_turned = true;
        Ok(())
    }

    fn update_object(
        &mut self,
        object: ObjectHandle,
        state: &ConnectionObject,
    ) -> Result<(), DeviceRefusal> {
        if self.changes_none {
            let words = "no changes".to_owned();
            return Err(DeviceRefusal { kind: Refusal::Device, words });
        }
        self.objects.get_mut(&object).expect("it was made").object = *state;
        Ok(())
    }

    fn query_object(&mut self, object: ObjectHandle) -> Option<ConnectionObject> {
        self.objects.get(&object).filter(|_| !self.tells_none).map(|it| it.object)
    }

    fn destroy_object(&mut self, object: ObjectHandle) -> Result<(), String> {
        let refers = |rule: &FlowRule| rule.actions.contains(&RuleAction::Check(object));
        if self.rules.values().any(|(_, rule, _)| refers(rule)) {
            return Err("a rule refers to it".to_owned());
        }
        self.objects.remove(&object).map(drop).ok_or_else(|| "it was removed before".to_owned())
    }
}
