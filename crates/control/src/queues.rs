//! How receive queues are given to workers, and how long workers rest between looking at them
//! (`pmd-*` keys of `Open_vSwitch.other_config`, `Interface.other_config:pmd-rxq-affinity`).

use std::collections::BTreeMap;

/// Settings about workers and the receive queues that they poll. The defaults are Open vSwitch's
/// (ovs: `lib/dpif-netdev.c`, `dpif_netdev_set_config`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// How queues are assigned to workers (`pmd-rxq-assign`).
    pub assign: RxqAssign,
    /// Whether a worker with a pinned queue shares its core with no other queue than pinned ones
    /// (`pmd-rxq-isolate`).
    pub isolation: Isolation,
    /// When queues are given out anew without being asked for.
    pub auto_balance: AutoBalance,
    /// How long polling workers may sleep when little comes (`pmd-sleep-max`).
    pub sleep_max: SleepMax,
}

/// How queues that are not pinned are given to workers (`pmd-rxq-assign`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RxqAssign {
    /// The busiest first, up and down the list of workers.
    #[default]
    Cycles,
    /// The busiest first, each to the worker with the least to do.
    Group,
    /// In order, round the list of workers.
    RoundRobin,
}

/// What a pinned queue means for its worker (`pmd-rxq-isolate`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// It gets pinned queues only.
    #[default]
    Isolated,
    /// It gets others too; [`RxqAssign::Group`] alone can weigh that.
    Shared,
}

/// When queues are given out anew by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoBalance {
    /// Whether they are at all (`pmd-auto-lb`).
    pub enabled: bool,
    /// Minutes between two attempts (`pmd-auto-lb-rebal-interval`).
    pub interval_min: u32,
    /// A worker as busy as this for a minute makes an attempt worth while, in percent
    /// (`pmd-auto-lb-load-threshold`).
    pub load_percent: u8,
    /// How much evener the load has to become, in percent of its variance
    /// (`pmd-auto-lb-improvement-threshold`).
    pub improvement_percent: u8,
}

/// How long polling workers may sleep, in microseconds; 0 not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SleepMax {
    /// Workers on cores that are not named.
    pub default_us: u32,
    /// Workers on these cores.
    pub cores: BTreeMap<u16, u32>,
}

impl RxqAssign {
    /// The names, as `pmd-rxq-assign` has them.
    pub const NAMES: [(&str, RxqAssign); 3] = [
        ("cycles", RxqAssign::Cycles),
        ("group", RxqAssign::Group),
        ("roundrobin", RxqAssign::RoundRobin),
    ];

    /// The way of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, way)| *way)
    }

    /// Its name.
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
    /// The longest [`Self::interval_min`].
    pub const INTERVAL_MIN_MAX: u32 = 20_000;
}

impl SleepMax {
    /// The longest sleep, in microseconds: the control side may have to wait for a worker.
    pub const LONGEST_US: u32 = 10_000;

    /// Reads `50`, or `50,8:100,9:0`: all workers, and those on cores 8 and 9. Longer sleeps are
    /// cut to [`Self::LONGEST_US`], as in Open vSwitch. None where it is something else.
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

    /// How long the worker on this core may sleep, in microseconds.
    pub fn of_core(&self, core: u16) -> u32 {
        self.cores.get(&core).copied().unwrap_or(self.default_us)
    }
}

/// Reads `0:3,1:7`: queue 0 belongs to core 3, queue 1 to core 7. None where it is something
/// else.
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
