//! The samples of one search: each starts from a clean state, is printed as a line and kept.

use super::outcome::Outcome;
use super::source::{GeneratorKind, Source, trex};
use super::{Chosen, CpsNdrArgs};
use crate::dut::{Device, profile};
use crate::error::LoadError;
use crate::generate::ceiling::Ceiling;
use crate::generate::interrupt::Interrupt;
use crate::generate::numbers::human;
use crate::generate::result::{error_lines, flows_line};
use crate::generate::{endpoints_of, lifetime, live_line};
use crate::trial::{Clock, Limits, Live, Plan, Wall, Watch};
use generator::Profile;
use generator::search::{Allowance, Next, Purpose, Sample, Search, Verdict, judge};
use std::io::IsTerminal;
use std::process::Command;
use std::thread;
use std::time::Duration;
use testbed::Screen;

/// Rate of the first look: enough to see whether a device forwards, and safe for any device.
const LOOK_RATE: f64 = 200.0;
/// Duration of the first look.
const LOOK: Duration = Duration::from_millis(500);

/// A sample and its verdict.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its number, from 1.
    pub number: u32,
    /// Why it was taken.
    pub purpose: Purpose,
    /// The bounds before it.
    pub bounds: (f64, f64),
    /// Its counters.
    pub sample: Sample,
    /// Its verdict.
    pub verdict: Verdict,
}

/// A running search.
pub struct Session<'a> {
    args: &'a CpsNdrArgs,
    screen: &'a Screen,
    interrupt: &'a Interrupt,
    plan: Plan,
    allowed: Allowance,
    source: Source,
    device: Box<dyn Device>,
    samples: Vec<Told>,
    /// Whether the device's table could be read, and was empty, before every sample.
    table_seen: bool,
    /// Profile of the device's busiest worker.
    profile: Option<profile::Profile>,
}

impl<'a> Session<'a> {
    /// Brings the device up and checks that it forwards.
    pub fn open(
        args: &'a CpsNdrArgs,
        profile: &Profile,
        screen: &'a Screen,
        interrupt: &'a Interrupt,
    ) -> Result<Session<'a>, LoadError> {
        let (source, device) = match args.generator {
            GeneratorKind::Own => own(args, profile, interrupt)?,
            GeneratorKind::Trex => trex(args, profile)?,
        };
        let sample = Duration::from_secs(args.sample_time.into());
        let lifetime = lifetime(profile);
        let plan = Plan {
            rate: None,
            ramp: Duration::from_secs(args.ramp_up.into()),
            settle_window: Duration::from_millis(500),
            lifetime,
            sample,
            limits: None,
            drain: lifetime + Duration::from_secs(3),
        };
        let allowed =
            Allowance { loss: args.error_threshold / 100.0, shortfall: Allowance::SHORTFALL };
        let (samples, table_seen) = (Vec::new(), true);
        let mut session = Session {
            args,
            screen,
            interrupt,
            plan,
            allowed,
            source,
            device,
            samples,
            table_seen,
            profile: None,
        };
        session.look()?;
        Ok(session)
    }

    /// Opens a few connections that are not counted: the device learns addresses, and a broken device is
    /// noticed at once.
    fn look(&mut self) -> Result<(), LoadError> {
        let plan = Plan {
            rate: Some(LOOK_RATE.min(self.args.min_cps)),
            ramp: Duration::ZERO,
            settle_window: Duration::ZERO,
            lifetime: Duration::ZERO,
            sample: LOOK,
            limits: None,
            drain: self.plan.drain,
        };
        let sample = self.trial(&plan)?;
        self.source.check()?;
        self.device.check()?;
        if let Some(broken) = sample.broken() {
            return Err(broken.into());
        }
        self.clean()
    }

    fn trial(&mut self, plan: &Plan) -> Result<Sample, LoadError> {
        let (screen, verbose) = (self.screen, self.args.verbose);
        let on_terminal = std::io::stderr().is_terminal();
        let mut live = |it: &Live| {
            if on_terminal {
                eprint!("\r{:<6} {}\x1b[K", it.phase.word(), live_line(it));
            } else if verbose {
                screen.write(&format!("    {:<6} {}\n", it.phase.word(), live_line(it)));
            }
        };
        let interrupted = || self.interrupt.is_set();
        let mut watch = Watch { clock: &Wall, live: &mut live, interrupted: &interrupted };
        let sample = self.source.trial(plan, &mut watch);
        if on_terminal {
            eprint!("\r\x1b[K");
        }
        sample
    }

    /// Takes samples until the search has its answer, the user interrupts, or an error occurs.
    pub fn search(&mut self, search: &mut dyn Search) -> Result<(), LoadError> {
        let mut number = 0;
        while let Next::Trial { rate, purpose } = search.next() {
            if self.interrupt.is_set() {
                break;
            }
            number += 1;
            let bounds = search.bounds();
            self.screen.write(&format!(
                "... iteration #{number}: lower={} current={} upper={}{}\n",
                human(bounds.0),
                human(rate),
                human(bounds.1),
                match purpose {
                    Purpose::Search => "",
                    Purpose::Repeat => " (again)",
                    Purpose::Confirm => " (confirming the answer)",
                }
            ));
            let table_before = self.device.table()?;
            let refused = self.device.refused();
            let limits = Limits {
                failed: self.allowed.loss,
                lost: self.allowed.loss,
                missed: self.allowed.shortfall,
                cut: table_before.is_some(),
            };
            let plan = Plan { rate: Some(rate), limits: Some(limits), ..self.plan.clone() };
            let mut sample = self.trial(&plan)?;
            self.source.check()?;
            self.device.check()?;
            if self.interrupt.is_set() {
                // The interrupted sample would count as a worse one.
                break;
            }
            sample.table_before = table_before;
            sample.table_full = self.device.refused() - refused;
            self.table_seen &= table_before == Some(0);
            let verdict = judge(&sample, &self.allowed);
            self.tell(&sample, &verdict);
            search.record(&verdict, sample.loss_ratio().max(sample.failure_ratio()));
            let broken = sample.broken();
            self.samples.push(Told { number, purpose, bounds, sample, verdict });
            if let Some(broken) = broken {
                return Err(broken.into());
            }
            self.clean()?;
        }
        Ok(())
    }

    /// Repeats the answer's rate to profile the device's workers. The sample is not used otherwise, because
    /// profiling slows the device.
    pub fn look_at_workers(&mut self, rate: f64) -> Result<(), LoadError> {
        let Some(watch) = self.device.watch() else { return Ok(()) };
        self.screen.write("... the answer once more, with a look at the device's workers\n");
        let plan = Plan { rate: Some(rate), ..self.plan.clone() };
        // The rate is constant from the start of the profile to its end.
        let (before, time) = (plan.ramp + plan.lifetime + plan.settle_window, plan.sample);
        let looking = thread::spawn(move || {
            thread::sleep(before);
            watch.look(time)
        });
        let sample = self.trial(&plan);
        // If the thread failed there is no profile.
        self.profile = looking.join().unwrap_or_default();
        sample?;
        self.device.check()?;
        self.clean()
    }

    fn tell(&self, sample: &Sample, verdict: &Verdict) {
        let sign = match verdict {
            Verdict::Pass => self.screen.paint("32", "\u{25b2}\u{25b2}\u{25b2}"),
            Verdict::Fail(_) => self.screen.paint("31", "\u{25bc}\u{25bc}\u{25bc}"),
            Verdict::Invalid(_) => self.screen.paint("33", "\u{25a0}\u{25a0}\u{25a0} INVALID"),
        };
        self.screen.write(&format!("{sign} {}\n", flows_line(sample)));
        for line in error_lines(sample, verdict) {
            self.screen.write(&format!("{line}\n"));
        }
        if self.args.verbose {
            self.screen.write(&format!(
                "    opened {}, completed {}, failed {}, unfinished {}, cut short {}; generator {:.0}% \
                 busy\n",
                sample.opened,
                sample.completed,
                sample.failed.total(),
                sample.unfinished,
                sample.cut_short,
                sample.window.busy * 100.0
            ));
        }
    }

    /// Resets the device, so that it keeps no state of the previous sample.
    fn clean(&mut self) -> Result<(), LoadError> {
        if let Some(command) = &self.args.reset_command {
            let status = Command::new("sh").args(["-c", command]).status();
            let ended = match status {
                Ok(status) if status.success() => None,
                Ok(status) => Some(status.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(ended) = ended {
                self.screen.problem(&format!("--reset-command `{command}` failed ({ended})"));
            }
        }
        match self.device.table()? {
            None => {
                // The table cannot be read, so the search waits for a fixed time, as the original script
                // does.
                let time = Duration::from_secs(self.args.ramp_up.into());
                self.wait(time, |_| Ok(false))?;
            }
            Some(_) => {
                let patience = self.device.linger() + Duration::from_secs(1);
                if !self.wait(patience, |device| Ok(device.table()? == Some(0)))? {
                    self.device.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Processes late packets until the condition holds or the time is over.
    fn wait(
        &mut self,
        time: Duration,
        mut until: impl FnMut(&mut dyn Device) -> Result<bool, LoadError>,
    ) -> Result<bool, LoadError> {
        let start = Wall.now();
        while Wall.now() - start < time && !self.interrupt.is_set() {
            if until(self.device.as_mut())? {
                return Ok(true);
            }
            let pause = Wall.now();
            while Wall.now() - pause < Duration::from_millis(50) {
                if self.source.iterate(Wall.now())? == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        }
        Ok(false)
    }

    /// Returns the result.
    pub fn outcome<'b>(
        &'b mut self,
        chosen: &'b mut Chosen,
        profile: &'b Profile,
        ceiling: &'b Ceiling,
        stopped: Option<&'b LoadError>,
    ) -> Outcome<'b> {
        Outcome {
            args: self.args,
            profile,
            ceiling,
            answer: chosen.search().answer(),
            goals: chosen.multi_loss().map(|search| search.results()),
            samples: &self.samples,
            dut: self.device.describe(),
            table_seen: self.table_seen,
            interrupted: self.interrupt.is_set(),
            stopped,
            plan: &self.plan,
            worker: self.profile.as_ref(),
        }
    }
}

/// This program's hosts and the device between their ports.
fn own(
    args: &CpsNdrArgs,
    profile: &Profile,
    interrupt: &Interrupt,
) -> Result<(Source, Box<dyn Device>), LoadError> {
    let capacity = profile.connections_at_once as usize + 1000;
    let place = args.place.open(&|| interrupt.is_set())?;
    if place.client.is_none() || place.server.is_none() {
        return Err(LoadError::Options(
            "a search counts what both ends saw: name both --client and --server".to_owned(),
        ));
    }
    let known = args.place.knows_neighbours();
    let (device, endpoints) = endpoints_of(profile, &args.hosts, capacity, known, place)?;
    Ok((Source::Hosts(Box::new(endpoints)), device))
}
