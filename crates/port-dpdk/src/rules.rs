//! Rules of `rte_flow`: made, asked and ended.
//!
//! A rule lives as long as its port is set up. The list of all rules is kept here, so that a port that is
//! closed or set up anew ends its own first, and a handle that outlives its rule only finds nothing.

mod encode;

use crate::device::text_of;
use crate::ffi;
use crate::flow_rule::{DeviceRefusal, FlowDevice, FlowRule, RuleAction, RuleHandle, RuleState};
use crate::start::check;
use encode::Encoded;
use flow::Refusal;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All rules of all devices.
static MADE: Mutex<Made> = Mutex::new(Made { next: 0, rules: BTreeMap::new() });

/// EEXIST, ENOMEM and ENOSPC (asm-generic/errno-base.h).
const EXISTS: i32 = 17;
const NO_MEMORY: i32 = 12;
const NO_SPACE: i32 = 28;

struct Made {
    next: u64,
    rules: BTreeMap<u64, One>,
}

struct One {
    made: ffi::MadeRule,
    /// The port whose packets it is for.
    port: u16,
    ages: bool,
}

// SAFETY: the pointer in it is only handed back to DPDK, under the list's lock; DPDK lets any thread do that.
unsafe impl Send for One {}

/// The devices of DPDK, as far as they take rules.
#[derive(Debug, Default)]
pub struct DpdkRules(());

impl DpdkRules {
    /// Those of all ports.
    pub fn new() -> DpdkRules {
        DpdkRules(())
    }

    /// Asks a device whether it would take a rule.
    ///
    /// # Errors
    /// It would not, in its words.
    pub fn validate(&self, port: u16, rule: &FlowRule) -> Result<(), DeviceRefusal> {
        let (encoded, mut words) = (Encoded::of(rule), [0; ffi::WORDS]);
        let rule = encoded.rule();
        // SAFETY: the lists that the rule points to live in `encoded`, and `words` has the size that the shim
        // writes at most.
        let answer =
            unsafe { ffi::tidegate_rule_validate(port, &raw const rule, words.as_mut_ptr()) };
        check(answer).map_err(|error| refusal(&error, &words))
    }
}

fn made() -> MutexGuard<'static, Made> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a device did not take a rule (rte_flow.h, `rte_flow_validate`).
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

fn destroy(one: &One) -> Result<(), String> {
    let mut words = [0; ffi::WORDS];
    // SAFETY: a rule that DPDK made and that was in the list until now, so that nothing ended it before.
    let answer = unsafe { ffi::tidegate_rule_destroy(&raw const one.made, words.as_mut_ptr()) };
    check(answer).map_err(|error| refusal(&error, &words).words)
}

/// Ends all rules that a port has, or that were made through it. The caller is about to stop it.
pub(crate) fn forget(port: u16) {
    let is_its = |one: &One| one.port == port || one.made.owner == port;
    let gone: Vec<_> = made().rules.extract_if(.., |_, one| is_its(one)).collect();
    for (_, one) in gone {
        if let Err(words) = destroy(&one) {
            log::warn!(target: "netdev_offload", "DPDK: cannot remove a rule of port {port}: {words}");
        }
    }
}

impl FlowDevice for DpdkRules {
    fn create(&mut self, port: u16, rule: &FlowRule) -> Result<RuleHandle, DeviceRefusal> {
        self.validate(port, rule)?;
        let (encoded, mut words) = (Encoded::of(rule), [0; ffi::WORDS]);
        let mut new = ffi::MadeRule { rule: std::ptr::null_mut(), owner: port, spare: [0; 6] };
        let mut made = made();
        let plain = encoded.rule();
        // SAFETY: as in `validate`; the shim writes one structure of the type of `new`.
        let answer = unsafe {
            ffi::tidegate_rule_create(port, &raw const plain, words.as_mut_ptr(), &raw mut new)
        };
        check(answer).map_err(|error| refusal(&error, &words))?;
        let ages = rule.actions.iter().any(|action| matches!(action, RuleAction::Age { .. }));
        made.next += 1;
        let handle = made.next;
        made.rules.insert(handle, One { made: new, port, ages });
        Ok(RuleHandle(handle))
    }

    fn destroy(&mut self, rule: RuleHandle) -> Result<(), String> {
        let gone = made().rules.remove(&rule.0);
        gone.map_or(Ok(()), |one| destroy(&one))
    }

    fn flush(&mut self, port: u16) {
        forget(port);
    }

    fn query(&mut self, rule: RuleHandle) -> Option<RuleState> {
        let made = made();
        let one = made.rules.get(&rule.0)?;
        let mut state = ffi::RuleState::default();
        // SAFETY: a rule in the list, whose lock is held, and a structure of the type that the shim writes.
        let answer = unsafe {
            ffi::tidegate_rule_query(&raw const one.made, c_int::from(one.ages), &raw mut state)
        };
        check(answer).ok()?;
        let ffi::RuleState { packets, bytes, is_aged } = state;
        Some(RuleState { packets, bytes, is_aged: is_aged != 0 })
    }
}

#[cfg(test)]
mod tests;
