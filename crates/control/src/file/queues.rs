//! The keys of `[switch]` about workers, their receive queues and the queue of upcalls.

use super::section::{Errors, Section};
use crate::{AutoBalance, Isolation, QueueOptions, RxqAssign, SleepMax, UpcallRateList};

pub(super) fn options(section: &mut Section<'_>, errors: &mut Errors<'_>) -> QueueOptions {
    let assign = section.one_of("pmd_rxq_assign", &RxqAssign::NAMES, errors).unwrap_or_default();
    let isolation = match section.boolean("pmd_rxq_isolate", errors) {
        Some(false) if assign == RxqAssign::Group => Isolation::Shared,
        Some(false) => {
            let words = "can only be false with pmd_rxq_assign = \"group\"; change one";
            section.refuse("pmd_rxq_isolate", words, errors);
            Isolation::Isolated
        }
        _ => Isolation::Isolated,
    };
    let default = AutoBalance::default();
    let most = AutoBalance::INTERVAL_MIN_MAX;
    let auto_balance = AutoBalance {
        enabled: section.boolean("pmd_auto_lb", errors).unwrap_or_default(),
        interval_min: section
            .integer("pmd_auto_lb_rebal_interval_min", 1..=most, errors)
            .unwrap_or(default.interval_min),
        load_percent: section
            .integer("pmd_auto_lb_load_threshold", 0..=100, errors)
            .unwrap_or(default.load_percent),
        improvement_percent: section
            .integer("pmd_auto_lb_improvement_threshold", 0..=100, errors)
            .unwrap_or(default.improvement_percent),
    };
    let sleep_max = section.parsed(
        "pmd_sleep_max",
        "microseconds, or such as \"50,8:100\" with core 8 apart",
        errors,
        SleepMax::from_text,
    );
    QueueOptions { assign, isolation, auto_balance, sleep_max: sleep_max.unwrap_or_default() }
}

/// The limits of upcalls.
pub(super) fn upcall_rates(section: &mut Section<'_>, errors: &mut Errors<'_>) -> UpcallRateList {
    let (expected, read) = (UpcallRateList::EXPECTED, UpcallRateList::parse);
    section.parsed("upcall_rates", expected, errors, read).unwrap_or_default()
}
