//! The `pmd-*` keys of `Open_vSwitch.other_config`.

use super::{Place, Reader};
use crate::{AutoBalance, Isolation, QueueOptions, RxqAssign, SleepMax};

impl Reader<'_> {
    pub(super) fn queue_options(&mut self, place: &Place<'_>) -> QueueOptions {
        let assign = self
            .parsed(
                place,
                "pmd-rxq-assign",
                "\"cycles\", \"group\" or \"roundrobin\"",
                RxqAssign::from_name,
            )
            .unwrap_or_default();
        let isolation = match place.row.map_str("other_config", "pmd-rxq-isolate") {
            Some("false") if assign == RxqAssign::Group => Isolation::Shared,
            Some("false") => {
                let words = "can only be false with pmd-rxq-assign=group; taken as true";
                self.warn(place, "other_config:pmd-rxq-isolate", words);
                Isolation::Isolated
            }
            _ => Isolation::Isolated,
        };
        let auto_balance = self.flag(place, "pmd-auto-lb").then(|| self.auto_balance(place));
        QueueOptions { assign, isolation, auto_balance, sleep_max: self.sleep_max(place) }
    }

    fn auto_balance(&mut self, place: &Place<'_>) -> AutoBalance {
        let default = AutoBalance::default();
        let most = AutoBalance::INTERVAL_MIN_MAX;
        let mut percent = |key: &str, default| self.config(place, key, 0..=100).unwrap_or(default);
        AutoBalance {
            load_percent: percent("pmd-auto-lb-load-threshold", default.load_percent),
            improvement_percent: percent(
                "pmd-auto-lb-improvement-threshold",
                default.improvement_percent,
            ),
            // Never more often than once a minute (ovs: lib/dpif-netdev.c).
            interval_min: self
                .config(place, "pmd-auto-lb-rebal-interval", 0..=most)
                .unwrap_or(default.interval_min)
                .max(1),
        }
    }

    /// `pmd-sleep-max`, or `pmd-maxsleep`, as Open vSwitch 3.1 called it.
    fn sleep_max(&mut self, place: &Place<'_>) -> SleepMax {
        let expected = "microseconds, or such as \"50,8:100\" with core 8 apart";
        let mut read = |key| self.parsed(place, key, expected, SleepMax::from_text);
        read("pmd-sleep-max").or_else(|| read("pmd-maxsleep")).unwrap_or_default()
    }
}
