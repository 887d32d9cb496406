//! Assignment of receive queues to workers, and PMD sleep (`pmd-*` keys of `Open_vSwitch.other_config`,
//! `Interface.other_config:pmd-rxq-affinity`).

use std::collections::BTreeMap;

/// Settings of workers and their receive queues. The defaults are Open vSwitch's (ovs: `lib/dpif-netdev.c`,
/// `dpif_netdev_set_config`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// The assignment algorithm (`pmd-rxq-assign`).
    pub assign: RxqAssign,
    /// Whether a worker with a pinned queue polls only pinned queues (`pmd-rxq-isolate`).
    pub isolation: Isolation,
    /// Automatic reassignment.
    pub auto_balance: AutoBalance,
    /// How long polling workers may sleep under low load (`pmd-sleep-max`).
    pub sleep_max: SleepMax,
}

/// The algorithm that assigns queues without a pinned core (`pmd-rxq-assign`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RxqAssign {
    /// The busiest queue first, back and forth through the list of workers.
    #[default]
    Cycles,
    /// The busiest queue first, each to the least loaded worker.
    Group,
    /// In order of queues, round-robin over the workers.
    RoundRobin,
}

/// Whether a worker with a pinned queue also gets others (`pmd-rxq-isolate`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// It gets only pinned queues.
    #[default]
    Isolated,
    /// It gets others too; only [`RxqAssign::Group`] can weigh them.
    Shared,
}

/// Automatic reassignment of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoBalance {
    /// Whether it is enabled (`pmd-auto-lb`).
    pub enabled: bool,
    /// Minutes between two attempts (`pmd-auto-lb-rebal-interval`).
    pub interval_min: u32,
    /// Load of a worker, over a minute and in percent, from which an attempt is made
    /// (`pmd-auto-lb-load-threshold`).
    pub load_percent: u8,
    /// Required reduction of the load's variance, in percent (`pmd-auto-lb-improvement-threshold`).
    pub improvement_percent: u8,
}

/// Maximum sleep of polling workers, in microseconds; 0 disables sleep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SleepMax {
    /// Maximum for workers on other cores.
    pub default_us: u32,
    /// Maximum for workers on these cores.
    pub cores: BTreeMap<u16, u32>,
}

impl RxqAssign {
    /// The names in `pmd-rxq-assign`.
    pub const NAMES: [(&str, RxqAssign); 3] = [
        ("cycles", RxqAssign::Cycles),
        ("group", RxqAssign::Group),
        ("roundrobin", RxqAssign::RoundRobin),
    ];

    /// Parses a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, way)| *way)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            RxqAssign::Cycles => "cycles",
            RxqAssign::Group => "group",
            RxqAssign::RoundRobin => "roundrobin",
        }
    }
}

impl Default for AutoBalance {
    fn default() -> Self {
        AutoBalance { enabled: false, interval_min: 1, load_percent: 95, improvement_percent: 25 }
    }
}

impl AutoBalance {
    /// Maximum of [`Self::interval_min`].
    pub const INTERVAL_MIN_MAX: u32 = 20_000;
}

impl SleepMax {
    /// Longest sleep, in microseconds, because the control thread may have to wait for a worker.
    pub const LONGEST_US: u32 = 10_000;

    /// Parses `50`, or `50,8:100,9:0`: a default, and values for the workers on cores 8 and 9. As in Open
    /// vSwitch, longer sleeps are cut to [`Self::LONGEST_US`]. Returns `None` for other texts.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut sleeps = SleepMax::default();
        let us = |text: &str| text.trim().parse::<u32>().ok().map(|us| us.min(Self::LONGEST_US));
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once(':') {
                None => sleeps.default_us = us(part)?,
                Some((core, most)) => {
                    sleeps.cores.insert(core.trim().parse().ok()?, us(most)?);
                }
            }
        }
        Some(sleeps)
    }

    /// Returns the maximum sleep of the worker on this core, in microseconds.
    pub fn of_core(&self, core: u16) -> u32 {
        self.cores.get(&core).copied().unwrap_or(self.default_us)
    }
}

/// Parses `0:3,1:7`: queue 0 is pinned to core 3, queue 1 to core 7. Returns `None` for other texts.
pub(crate) fn affinity_from_text(text: &str) -> Option<BTreeMap<u16, u16>> {
    let pairs = text.split([',', ' ']).filter(|part| !part.is_empty());
    pairs
        .map(|pair| {
            let (queue, core) = pair.split_once([':', '='])?;
            Some((queue.trim().parse().ok()?, core.trim().parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_are_read_for_all_cores_and_for_some() {
        let check = |text: &str, expect: Option<(u32, &[(u16, u32)])>| {
            let expect = expect.map(|(default_us, cores)| SleepMax {
                default_us,
                cores: cores.iter().copied().collect(),
            });
            assert_eq!(SleepMax::from_text(text), expect, "{text:?}");
        };
        check("0", Some((0, &[])));
        check("50", Some((50, &[])));
        check("20000", Some((10_000, &[])));
        check("50,8:100, 9:0", Some((50, &[(8, 100), (9, 0)])));
        check("8:99999", Some((0, &[(8, 10_000)])));
        check("", Some((0, &[])));
        check("-1", None);
        check("8:", None);
        check("a", None);
        let sleeps = SleepMax::from_text("50,8:100").unwrap();
        assert_eq!((sleeps.of_core(8), sleeps.of_core(9)), (100, 50));
    }

    #[test]
    fn queues_are_pinned_to_cores() {
        let check = |text: &str, expect: Option<&[(u16, u16)]>| {
            let expect = expect.map(|pairs| pairs.iter().copied().collect());
            assert_eq!(affinity_from_text(text), expect, "{text:?}");
        };
        check("0:3,1:7", Some(&[(0, 3), (1, 7)]));
        check("0:3, 1:7", Some(&[(0, 3), (1, 7)]));
        check("", Some(&[]));
        check("0", None);
        check("0:", None);
        check("x:3", None);
        check("0:70000", None);
    }

    #[test]
    fn ways_of_giving_out_queues_have_names() {
        for (name, way) in RxqAssign::NAMES {
            assert_eq!((RxqAssign::from_name(name), way.name()), (Some(way), name));
        }
        assert_eq!(RxqAssign::from_name("random"), None);
    }
}
