//! `rte_flow` rules in DPDK's devices.
//!
//! A rule exists as long as its port is configured. All rules are listed here, so that a port that is closed
//! or reconfigured removes its own first, and a stale handle finds nothing.

mod encode;
mod objects;

use crate::ffi::{self, text_of};
use crate::flow_rule::{
    ConnectionObject, DeviceRefusal, FlowDevice, FlowRule, ObjectHandle, RuleAction, RuleHandle,
    RuleState,
};
use crate::start::check;
use encode::Encoded;
use flow::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All rules and connection objects of all devices. The lock is held while DPDK is called for one of them.
static RULES: Mutex<Rules> =
    Mutex::new(Rules { next: 0, rules: BTreeMap::new(), objects: BTreeMap::new() });

/// EEXIST, ENOMEM and ENOSPC (asm-generic/errno-base.h).
const EXISTS: i32 = 17;
const NO_MEMORY: i32 = 12;
const NO_SPACE: i32 = 28;

/// The rules, by handle.
struct Rules {
    next: u64,
    rules: BTreeMap<u64, Made>,
    /// The connection objects, by handle.
    objects: BTreeMap<u64, objects::MadeObject>,
}

/// An installed rule.
struct Made {
    made: ffi::MadeRule,
    /// The port of its packets.
    port: u16,
    ages: bool,
    /// The connection object that it refers to.
    object: Option<u64>,
}

// SAFETY: the pointer in it is only passed to DPDK, while the list's lock is held, and DPDK binds no rule to a
// thread.
unsafe impl Send for Made {}

/// The `rte_flow` rules of DPDK's devices.
#[derive(Debug, Default)]
pub struct DpdkRules(());

impl DpdkRules {
    /// The rules of all ports.
    pub fn new() -> DpdkRules {
        DpdkRules(())
    }

    /// Validates a rule without installing it (`rte_flow_validate`).
    ///
    /// # Errors
    /// The device's refusal.
    #[cfg(test)]
    pub(crate) fn validate(&self, port: u16, rule: &FlowRule) -> Result<(), DeviceRefusal> {
        let list = rules();
        let encoded = Encoded::of(rule, |it| list.handle(it)).ok_or_else(no_object)?;
        let (rule, mut words) = (encoded.rule(), [0; ffi::WORDS]);
        // SAFETY: the lists that the rule points to live in `encoded`, and `words` has the size that the shim
        // writes at most.
        let answer =
            unsafe { ffi::tidegate_rule_validate(port, &raw const rule, words.as_mut_ptr()) };
        check(answer).map_err(|error| refusal(&error, &words))
    }
}

/// The refusal of a rule that refers to a connection object removed with its port.
fn no_object() -> DeviceRefusal {
    DeviceRefusal { kind: Refusal::Device, words: "its connection object is gone".to_owned() }
}

fn rules() -> MutexGuard<'static, Rules> {
    RULES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a device refused a rule (rte_flow.h, `rte_flow_validate`).
fn refusal(error: &io::Error, words: &[c_char]) -> DeviceRefusal {
    let kind = match error.raw_os_error() {
        Some(EXISTS) => Refusal::Twice,
        Some(NO_MEMORY | NO_SPACE) => Refusal::Full,
        _ => Refusal::Device,
    };
    let words = match text_of(words) {
        words if words.is_empty() => error.to_string(),
        words => words,
    };
    DeviceRefusal { kind, words }
}

impl Made {
    /// Returns whether the rule applies to packets of a port, or was created through it.
    fn is_of(&self, port: u16) -> bool {
        self.port == port || self.made.owner == port
    }

    /// Removes the rule from its device. The error is the device's message. The list's lock is held.
    fn destroy(&self) -> Result<(), String> {
        let mut words = [0; ffi::WORDS];
        // SAFETY: the rule is in the list, from which it is taken only after it was destroyed; `words` is as in
        // `validate`.
        let answer =
            unsafe { ffi::tidegate_rule_destroy(&raw const self.made, words.as_mut_ptr()) };
        check(answer).map_err(|error| refusal(&error, &words).words)
    }
}

impl Rules {
    /// The number of a new handle.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Flushes each device through which rules of a port were created. That removes the rules of the device's
    /// other ports, too. If a device fails, its rules stay in the list.
    fn flush(&mut self, port: u16) {
        let its = self.rules.values().filter(|rule| rule.is_of(port));
        for owner in its.map(|rule| rule.made.owner).collect::<BTreeSet<_>>() {
            let mut words = [0; ffi::WORDS];
            // SAFETY: an order by number; `words` is as in `validate`.
            let answer = unsafe { ffi::tidegate_rules_flush(owner, words.as_mut_ptr()) };
            match check(answer) {
                Ok(()) => self.rules.retain(|_, rule| rule.made.owner != owner),
                Err(error) => log::error!(
                    target: "netdev_offload",
                    "DPDK: cannot flush the rules of port {owner}: {}; some may still forward packets",
                    refusal(&error, &words).words
                ),
            }
        }
    }
}

/// Removes all rules and connection objects that apply to packets of a port or were created through it, and
/// with an object the rules of other ports that refer to it. The caller is about to stop the port.
pub(crate) fn remove_rules(port: u16) {
    let mut list = rules();
    let objects = list.objects_of(port);
    list.rules.retain(|_, rule| {
        let is_meant = rule.is_of(port) || rule.object.is_some_and(|it| objects.contains(&it));
        let destroyed = if is_meant { rule.destroy() } else { return true };
        if let Err(words) = &destroyed {
            log::warn!(target: "netdev_offload", "DPDK: cannot remove a rule of port {port}: {words}");
        }
        destroyed.is_err()
    });
    list.flush(port);
    // Remaining rules created through the port end with it, and DPDK frees them.
    list.rules.retain(|_, rule| rule.made.owner != port);
    list.remove_objects(port, &objects);
}

impl FlowDevice for DpdkRules {
    fn create(&mut self, port: u16, rule: &FlowRule) -> Result<RuleHandle, DeviceRefusal> {
        let mut list = rules();
        let encoded = Encoded::of(rule, |it| list.handle(it)).ok_or_else(no_object)?;
        let mut words = [0; ffi::WORDS];
        let mut made = ffi::MadeRule { rule: std::ptr::null_mut(), owner: port, spare: [0; 6] };
        let plain = encoded.rule();
        // SAFETY: as in `validate`; the shim writes one structure of the type of `made`.
        let answer = unsafe {
            ffi::tidegate_rule_create(port, &raw const plain, words.as_mut_ptr(), &raw mut made)
        };
        check(answer).map_err(|error| refusal(&error, &words))?;
        let ages = rule.actions.iter().any(|action| matches!(action, RuleAction::Age { .. }));
        let object = rule.actions.iter().find_map(|action| match action {
            RuleAction::Check(object) => Some(object.0),
            _ => None,
        });
        let handle = list.number();
        list.rules.insert(handle, Made { made, port, ages, object });
        Ok(RuleHandle(handle))
    }

    fn destroy(&mut self, rule: RuleHandle) -> Result<(), String> {
        let mut list = rules();
        list.rules.get(&rule.0).map_or(Ok(()), Made::destroy)?;
        list.rules.remove(&rule.0);
        Ok(())
    }

    fn flush(&mut self, port: u16) {
        rules().flush(port);
    }

    fn query(&mut self, rule: RuleHandle) -> Option<RuleState> {
        let list = rules();
        let rule = list.rules.get(&rule.0)?;
        let mut state = ffi::RuleState::default();
        // SAFETY: a rule in the list, whose lock is held, and a structure of the type that the shim writes.
        let answer = unsafe {
            ffi::tidegate_rule_query(&raw const rule.made, c_int::from(rule.ages), &raw mut state)
        };
        check(answer).ok()?;
        let ffi::RuleState { packets, bytes, is_aged } = state;
        Some(RuleState { packets, bytes, is_aged: is_aged != 0 })
    }

    fn create_object(
        &mut self,
        port: u16,
        peer: u16,
        object: &ConnectionObject,
    ) -> Result<ObjectHandle, DeviceRefusal> {
        rules().create_object(port, peer, object)
    }

    fn turn_object(&mut self, object: ObjectHandle) -> Result<(), DeviceRefusal> {
        rules().object(object)?.turn()
    }

    fn update_object(
        &mut self,
        object: ObjectHandle,
        state: &ConnectionObject,
    ) -> Result<(), DeviceRefusal> {
        rules().object(object)?.update(state)
    }

    fn query_object(&mut self, object: ObjectHandle) -> Option<ConnectionObject> {
        rules().object(object).ok()?.query()
    }

    fn destroy_object(&mut self, object: ObjectHandle) -> Result<(), String> {
        let mut list = rules();
        list.object(object).map_or(Ok(()), objects::MadeObject::destroy)?;
        list.objects.remove(&object.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
