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
                let words = "pmd-rxq-isolate can only be set false when using \
                             pmd-rxq-assign=group; taken as true";
                self.warn(place, "other_config", words);
                Isolation::Isolated
            }
            _ => Isolation::Isolated,
        };
        let (auto_balance, sleep_max) = (self.auto_balance(place), self.sleep_max(place));
        QueueOptions { assign, isolation, auto_balance, sleep_max }
    }

    fn auto_balance(&mut self, place: &Place<'_>) -> AutoBalance {
        let default = AutoBalance::default();
        let mut percent =
            |key: &str, default: u8| self.lenient(place, key, 100, default.into()) as u8;
        AutoBalance {
            load_percent: percent("pmd-auto-lb-load-threshold", default.load_percent),
            improvement_percent: percent(
                "pmd-auto-lb-improvement-threshold",
                default.improvement_percent,
            ),
            // At least one minute (ovs: lib/dpif-netdev.c).
            interval_min: self
                .lenient(
                    place,
                    "pmd-auto-lb-rebal-interval",
                    AutoBalance::INTERVAL_MIN_MAX,
                    default.interval_min,
                )
                .max(1),
            enabled: self.flag(place, "pmd-auto-lb"),
        }
    }

    /// Returns a number, or the default if it is negative or too large. As in Open vSwitch there is no
    /// warning, but the log shows the value in force.
    fn lenient(&mut self, place: &Place<'_>, key: &str, most: u32, default: u32) -> u32 {
        let given =
            place.row.map_str("other_config", key).and_then(|text| text.trim().parse().ok());
        match given {
            Some(number) if !(0..=i64::from(most)).contains(&number) => default,
            _ => self.config(place, key, 0..=most).unwrap_or(default),
        }
    }

    /// Parses `pmd-sleep-max`, or `pmd-maxsleep`, its name in Open vSwitch 3.1.
    fn sleep_max(&mut self, place: &Place<'_>) -> SleepMax {
        let expected = "microseconds, or such as \"50,8:100\" with core 8 apart";
        let mut read = |key| self.parsed(place, key, expected, SleepMax::from_text);
        read("pmd-sleep-max").or_else(|| read("pmd-maxsleep")).unwrap_or_default()
    }
}
