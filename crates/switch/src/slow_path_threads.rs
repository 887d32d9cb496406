//! Which threads answer misses and revalidate flows.

use super::Settings;
use control::SwitchOptions;
use datapath::Answers;

/// The threads of the slow path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlowPath {
    /// Which threads answer misses.
    pub answers: Answers,
    /// Number of revalidator threads; 0 leaves it to the control thread.
    pub revalidators: u16,
}

/// With fewer processors each worker answers its own misses by default: other threads would take its time, and a
/// change of thread for each answer takes more of it than the answer.
const PROCESSORS_MIN: usize = 3;
/// Most threads of each kind by default: they install flows under one lock, so more of them would wait for
/// each other.
const THREADS_MAX: usize = 4;

/// The stack of a thread that translates: as much as that of the control thread. Translation nests as deep as
/// patches and `resubmit` do.
pub const STACK_BYTES: usize = 8 << 20;

impl SlowPath {
    /// Returns the configured threads for this number of workers. As in Open vSwitch, the default depends on
    /// the number of processors (`ofproto/ofproto-dpif-upcall.c`, `udpif_set_threads`). On few of them each
    /// worker answers its own misses, a bounded time in each iteration. `None` is for tests, in which answers must
    /// follow the order of commands.
    pub fn wanted(options: &SwitchOptions, workers: usize, processors: Option<usize>) -> SlowPath {
        let by_default = processors.filter(|count| *count >= PROCESSORS_MIN).map(|count| {
            let revalidators = count / 4 + 1;
            [count - revalidators, revalidators].map(|threads| threads.min(THREADS_MAX) as u16)
        });
        let answers = match options.handler_threads.or(by_default.map(|[handlers, _]| handlers)) {
            None if processors.is_none() => Answers::Owner,
            None | Some(0) => Answers::Workers(workers as u16),
            Some(count) => Answers::Handlers(count),
        };
        let by_default = by_default.filter(|_| !options.hw_offload);
        let by_default = by_default.map_or(0, |[_, revalidators]| revalidators);
        let revalidators = match options.revalidator_threads.unwrap_or(by_default) {
            // With offload, the control thread must remove a flow's rules from the device before the flow
            // changes.
            1.. if options.hw_offload => {
                log::warn!(
                    target: "ofproto_dpif_upcall",
                    "n-revalidator-threads: with hw-offload the control thread revalidates"
                );
                0
            }
            count => count,
        };
        SlowPath { answers, revalidators }
    }

    /// Returns the threads of a switch that is not configured yet, with its first worker. Options that are all
    /// defaults are no change to it.
    pub fn at_start(settings: &Settings) -> SlowPath {
        SlowPath::wanted(&SwitchOptions::default(), 1, settings.thread_processors())
    }

    /// Returns the number of handlers besides the control thread, which has the next number.
    pub fn others(self) -> u16 {
        match self.answers {
            Answers::Owner => 0,
            Answers::Handlers(count) | Answers::Workers(count) => count,
        }
    }

    /// Describes the threads for `upcall/show`.
    pub fn describe(self) -> String {
        let misses = match self.answers {
            Answers::Owner => "the control thread".to_owned(),
            Answers::Handlers(1) => "1 handler".to_owned(),
            Answers::Handlers(count) => format!("{count} handlers"),
            Answers::Workers(_) => "each worker".to_owned(),
        };
        let flows = match self.revalidators {
            0 => "the control thread".to_owned(),
            1 => "1 revalidator".to_owned(),
            count => format!("{count} revalidators"),
        };
        format!("misses answered by {misses}, flows revalidated by {flows}")
    }
}

impl Settings {
    /// Returns the number of processors for threads, or `None` in tests ([`SlowPath::wanted`]).
    pub(super) fn thread_processors(&self) -> Option<usize> {
        (!self.dummy.is_enabled()).then(|| self.processors.all().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_configured_follows_from_the_processors() {
        use Answers::{Handlers, Owner, Workers};
        // Configured handlers and revalidators, processors, whether flows are offloaded; expected handlers
        // and revalidators.
        let cases = [
            (None, None, None, false, Owner, 0),
            (None, None, Some(1), false, Workers(5), 0),
            (Some(2), None, Some(1), false, Handlers(2), 0),
            (None, None, Some(2), false, Workers(5), 0),
            (None, None, Some(3), false, Handlers(2), 1),
            (None, None, Some(4), false, Handlers(2), 2),
            (None, None, Some(8), false, Handlers(4), 3),
            (None, None, Some(64), false, Handlers(4), 4),
            (None, None, Some(4), true, Handlers(2), 0),
            (Some(0), None, Some(4), false, Workers(5), 2),
            (Some(0), None, Some(2), false, Workers(5), 0),
            (Some(7), Some(0), Some(4), false, Handlers(7), 0),
            (None, Some(9), Some(2), false, Workers(5), 9),
            (None, Some(9), Some(2), true, Workers(5), 0),
            (None, Some(9), None, false, Owner, 9),
            (Some(1), None, None, false, Handlers(1), 0),
        ];
        for (handlers, revalidators, processors, hw_offload, answers, threads) in cases {
            let options = SwitchOptions {
                handler_threads: handlers,
                revalidator_threads: revalidators,
                hw_offload,
                ..SwitchOptions::default()
            };
            let wanted = SlowPath { answers, revalidators: threads };
            assert_eq!(SlowPath::wanted(&options, 5, processors), wanted, "{options:?}");
        }
    }
}
