//! Log messages about the settings of receive queues, in Open vSwitch's words (ovs: `lib/dpif-netdev.c`,
//! `dpif_netdev_set_config`).

use super::Switch;
use control::{AutoBalance, Isolation, QueueOptions};

impl Switch {
    /// Logs changed settings; for the first bridge, all of them.
    pub(super) fn announce_queue_options(&mut self) {
        let options = &self.desired.options.queues;
        if self.desired.bridges.is_empty() || self.announced.as_ref() == Some(options) {
            return;
        }
        for line in lines(self.announced.as_ref(), options) {
            log::info!(target: "dpif_netdev", "{line}");
        }
        self.announced = Some(options.clone());
    }
}

/// Returns the lines for a change of the settings; `before` is `None` if nothing was logged yet.
fn lines(before: Option<&QueueOptions>, now: &QueueOptions) -> Vec<String> {
    let mut lines = Vec::new();
    let isolation = before.map(|before| before.isolation).unwrap_or_default();
    if isolation != now.isolation {
        let verb = match now.isolation {
            Isolation::Isolated => "isolates",
            Isolation::Shared => "does not isolate",
        };
        lines.push(format!("pmd-rxq-affinity {verb} PMD core"));
    }
    let balance = now.auto_balance;
    let was = before.map(|before| before.auto_balance);
    let differs = |of: fn(AutoBalance) -> u32| was.map(of) != Some(of(balance));
    let mut set = |name: &str, value: String| {
        lines.push(format!("PMD auto load balance {name} set to {value}"));
    };
    if differs(|it| it.interval_min) {
        set("interval", format!("{} mins", balance.interval_min));
    }
    if differs(|it| it.improvement_percent.into()) {
        set("improvement threshold", format!("{}%", balance.improvement_percent));
    }
    if differs(|it| it.load_percent.into()) {
        set("load threshold", format!("{}%", balance.load_percent));
    }
    if was != Some(balance) {
        lines.push(match balance.enabled {
            true => format!(
                "PMD auto load balance is enabled, interval {} mins, pmd load threshold {}%, \
                 improvement threshold {}%.",
                balance.interval_min, balance.load_percent, balance.improvement_percent
            ),
            false => "PMD auto load balance is disabled.".to_owned(),
        });
    }
    let sleep_us = now.sleep_max.default_us;
    if before.map(|before| before.sleep_max.default_us) != Some(sleep_us) {
        let state = if sleep_us > 0 { "enabled" } else { "disabled" };
        lines.push(format!("PMD max sleep request is {sleep_us} usecs."));
        lines.push(format!("PMD load based sleeps are {state}."));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::SleepMax;

    #[test]
    fn the_first_time_all_is_told_and_then_what_changed() {
        let before = QueueOptions::default();
        assert_eq!(
            lines(None, &before),
            [
                "PMD auto load balance interval set to 1 mins",
                "PMD auto load balance improvement threshold set to 25%",
                "PMD auto load balance load threshold set to 95%",
                "PMD auto load balance is disabled.",
                "PMD max sleep request is 0 usecs.",
                "PMD load based sleeps are disabled.",
            ]
        );
        let now = QueueOptions {
            isolation: Isolation::Shared,
            auto_balance: AutoBalance { enabled: true, interval_min: 7, ..AutoBalance::default() },
            sleep_max: SleepMax { default_us: 50, ..SleepMax::default() },
            ..before.clone()
        };
        assert_eq!(
            lines(Some(&before), &now),
            [
                "pmd-rxq-affinity does not isolate PMD core",
                "PMD auto load balance interval set to 7 mins",
                "PMD auto load balance is enabled, interval 7 mins, pmd load threshold 95%, \
                 improvement threshold 25%.",
                "PMD max sleep request is 50 usecs.",
                "PMD load based sleeps are enabled.",
            ]
        );
        assert_eq!(lines(Some(&now), &now), Vec::<String>::new());
    }
}
