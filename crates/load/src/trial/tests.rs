use super::*;
use crate::endpoints::Endpoint;
use crate::link::Link;
use base::MacAddr;
use generator::search::{Allowance, Reason, judge};
use generator::{Host, HostConfig, Profile, Role};
use packet::{Batch, Pool};
use port::fault::{FaultRates, FaultyTx, Prng};
use port::memory::MemoryPort;
use port::{PortError, RxQueue};
use std::cell::Cell;
use std::os::fd::RawFd;

/// A clock that advances by a fixed step with each reading: no test waits, and none is late.
struct Steps(Cell<u64>, u64);

impl Clock for Steps {
    fn now(&self) -> Instant {
        self.0.set(self.0.get() + self.1);
        Instant::from_nanos(self.0.get())
    }
}

/// A port on which another host speaks too: each reading also returns an ARP request for an unknown address.
struct Noisy(Box<dyn RxQueue>);

impl RxQueue for Noisy {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        self.0.receive(pool, batch)?;
        if batch.remaining_capacity() > 0 && !batch.is_empty() {
            let mut packet = pool.take();
            let mut frame = [0; 60];
            frame[..6].fill(0xff);
            frame[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
            packet.receive_area()[..frame.len()].copy_from_slice(&frame);
            packet.set_received(frame.len(), packet::Offload::default());
            batch.push(packet);
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}

fn endpoints(profile: &Profile, rates: FaultRates) -> Endpoints {
    let host = |role, last| {
        let config = HostConfig {
            role,
            mac: MacAddr([2, 0, 0, 0, 0, last]),
            vlan: None,
            gateway: Some(MacAddr([2, 0, 0, 0, 0, 2])),
            profile: profile.clone(),
            seed: 7,
            capacity: 100_000,
        };
        Host::new(config, Instant::ZERO).unwrap()
    };
    let (near, far) = MemoryPort::pair(100_000);
    let link = |port: &MemoryPort, seed| Link {
        rx: Box::new(Noisy(Box::new(port.rx()))),
        tx: Box::new(FaultyTx::new(port.tx(), rates, Prng::new(seed))),
    };
    let (near, far) = (link(&near, 1), link(&far, 2));
    Endpoints::new(
        Some(Endpoint::new(host(Role::Client, 1), near)),
        Some(Endpoint::new(host(Role::Server, 2), far)),
    )
}

fn trial(rate: f64, sample: Duration, rates: FaultRates, step_ns: u64) -> Sample {
    limited(rate, sample, rates, step_ns, None, &|_| false).0
}

/// A trial with limits that may be interrupted. Also returns how long it took.
fn limited(
    rate: f64,
    sample: Duration,
    rates: FaultRates,
    step_ns: u64,
    limits: Option<Limits>,
    interrupted: &dyn Fn(Instant) -> bool,
) -> (Sample, Duration) {
    // With loss, a connection's last segments may be dropped: the wait for them is short.
    let profile = Profile {
        connections_at_once: 100_000,
        initial_rto_ms: 200,
        time_wait_ms: 500,
        ..Profile::default()
    };
    let plan = Plan {
        rate: Some(rate),
        ramp: Duration::from_secs(1),
        settle_window: Duration::from_millis(200),
        lifetime: Duration::from_millis(500),
        sample,
        limits,
        drain: Duration::from_secs(30),
    };
    let clock = Steps(Cell::new(1), step_ns);
    let mut live = |_: &Live| ();
    let interrupted = || interrupted(Instant::from_nanos(clock.0.get()));
    let mut watch = Watch { clock: &clock, live: &mut live, interrupted: &interrupted };
    let mut endpoints = endpoints(&profile, rates);
    endpoints.queue_packets = Some(100);
    let sample = Trial::start(&mut endpoints, &plan, &mut watch).run().unwrap();
    (sample, clock.now() - Instant::ZERO)
}

const STRICT: Limits = Limits { failed: 0.0, lost: 0.0, missed: Allowance::SHORTFALL, cut: true };

#[test]
fn over_a_cable_everything_adds_up() {
    let sample = trial(2000.0, Duration::from_secs(2), FaultRates::default(), 20_000);
    let verdict = judge(&sample, &Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL });
    assert!(verdict.passed(), "{:?}", verdict.reasons());
    assert_eq!((sample.completed, sample.missed), (sample.opened, 0));
    assert_eq!(sample.forth.sent + sample.back.sent, 7 * sample.opened);
    assert_eq!((sample.forth.lost(), sample.back.lost(), sample.retransmitted), (0, 0, 0));
    assert_eq!(sample.window.behind, Some(0.0), "{:?}", sample.window);
    // Packets of other hosts are counted as foreign and nowhere else.
    assert!(sample.foreign > 1000, "{}", sample.foreign);
    assert!((sample.opened_per_second() - 2000.0).abs() < 10.0, "{:?}", sample.window);
    assert!((sample.completed_per_second() - 2000.0).abs() < 20.0, "{:?}", sample.window);
    // TIME-WAIT lasts 0.5 s: 1,000 of 2,000 connections per second are in it.
    assert!((950..1100).contains(&sample.window.active), "{:?}", sample.window);
}

#[test]
fn a_device_that_drops_four_of_a_thousand_reads_so() {
    let rates = FaultRates { lose_ppm: 4000, ..FaultRates::default() };
    let sample = trial(3000.0, Duration::from_secs(6), rates, 20_000);
    let percent = 100.0 * sample.loss_ratio();
    assert!((percent - 0.4).abs() < 0.05, "{percent}% of {:?} {:?}", sample.forth, sample.back);
    let of_each = |allowed: f64| {
        judge(&sample, &Allowance { loss: allowed, shortfall: Allowance::SHORTFALL })
    };
    assert_eq!(of_each(0.0).word(), "fail", "{:?}", of_each(0.0).reasons());
    let lost = |reason: &Reason| matches!(reason, Reason::Lost { .. });
    assert_eq!(of_each(0.0).reasons().iter().filter(|r| lost(r)).count(), 2, "both directions");
    assert!(of_each(0.006).passed(), "{:?}", of_each(0.006).reasons());
}

#[test]
fn a_device_that_doubles_is_no_figure() {
    let rates = FaultRates { duplicate_ppm: 20_000, ..FaultRates::default() };
    let sample = trial(1000.0, Duration::from_secs(1), rates, 20_000);
    let verdict = judge(&sample, &Allowance { loss: 1.0, shortfall: Allowance::SHORTFALL });
    assert!(verdict.is_invalid(), "{:?}", verdict.reasons());
    let rates = FaultRates { duplicate_ppm: 1_000_000, ..FaultRates::default() };
    let sample = trial(1000.0, Duration::from_secs(1), rates, 20_000);
    assert_eq!(sample.broken(), Some(generator::search::Broken::Twice));
}

#[test]
fn a_device_that_forwards_nothing_is_said_to() {
    let rates = FaultRates { lose_ppm: 1_000_000, ..FaultRates::default() };
    let sample = trial(500.0, Duration::from_secs(1), rates, 50_000);
    assert_eq!(sample.broken(), Some(generator::search::Broken::Nothing));
    assert!(sample.window.seconds < 1.1 && sample.completed == 0);
}

#[test]
fn a_generator_that_comes_too_late_is_no_figure() {
    // The generator polls only every 40 ms.
    let sample = trial(5000.0, Duration::from_secs(2), FaultRates::default(), 40_000_000);
    let verdict = judge(&sample, &Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL });
    assert!(verdict.is_invalid() && sample.missed > 0, "{:?}", verdict.reasons());
}

#[test]
fn a_trial_that_can_only_fail_ends_at_once() {
    let rates = FaultRates { lose_ppm: 200_000, ..FaultRates::default() };
    let minute = Duration::from_secs(60);
    for cut in [true, false] {
        let limits = Some(Limits { cut, ..STRICT });
        let (sample, took) = limited(3000.0, minute, rates, 50_000, limits, &|_| false);
        assert!(sample.ended_early && took < Duration::from_secs(40), "{took:?}");
        // Each connection and packet is accounted for all the same.
        let verdict = judge(&sample, &Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL });
        let said: Vec<_> = verdict.reasons().iter().map(ToString::to_string).collect();
        assert!(verdict.word() == "fail" && said.len() >= 2, "{said:?}");
        assert!(
            !said.iter().any(|it| it.contains("add up") || it.contains("completed")),
            "{said:?}"
        );
        assert_eq!((sample.cut_short > 0, cut || took > Duration::from_secs(3)), (cut, true));
        assert!(!cut || took < Duration::from_secs(4), "{took:?}");
        assert!((sample.opened_per_second() - 3000.0).abs() < 20.0, "{:?}", sample.window);
    }
    // A trial that ends early soon after its sample began has rates of all the time at the constant rate.
    let rates = FaultRates { lose_ppm: 80_000, ..FaultRates::default() };
    let (sample, took) = limited(300.0, minute, rates, 20_000, Some(STRICT), &|_| false);
    assert!(sample.ended_early && took < Duration::from_secs(4), "{took:?}");
    assert!(sample.window.seconds > 1.5, "{:?}", sample.window);
    // So does a trial for which the generator is too late.
    let none = FaultRates::default();
    let (sample, took) = limited(5000.0, minute, none, 40_000_000, Some(STRICT), &|_| false);
    let verdict = judge(&sample, &Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL });
    assert!(sample.ended_early && verdict.is_invalid(), "{:?}", verdict.reasons());
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn a_trial_within_its_limits_goes_on() {
    let rates = FaultRates { lose_ppm: 4000, ..FaultRates::default() };
    let limits = Some(Limits { failed: 0.006, lost: 0.006, ..STRICT });
    let time = Duration::from_secs(3);
    let (sample, _) = limited(2000.0, time, rates, 20_000, limits, &|_| false);
    assert!(!sample.ended_early && sample.cut_short == 0, "{sample:?}");
    assert!((sample.window.seconds - 3.0).abs() < 0.1, "{:?}", sample.window);
}

#[test]
fn whoever_interrupts_gets_what_there_is() {
    // Nothing is returned, so no connection ends by itself.
    let rates = FaultRates { lose_ppm: 1_000_000, ..FaultRates::default() };
    let second = Duration::from_secs(1);
    let interrupted = |now: Instant| now - Instant::ZERO > second * 2;
    let (sample, took) = limited(500.0, second * 60, rates, 50_000, None, &interrupted);
    assert!(took < second * 6, "{took:?}");
    assert!(sample.cut_short > 500 && sample.unfinished == 0, "{sample:?}");
    assert_eq!(sample.opened, sample.completed + sample.failed.total() + sample.cut_short);
}

#[test]
fn a_generator_asked_for_more_than_it_can_sends_nothing_twice() {
    // Every 5 ms a side receives and sends at most 256 packets, which is 13,000 connections per second.
    let sample = trial(40_000.0, Duration::from_secs(1), FaultRates::default(), 5_000_000);
    let verdict = judge(&sample, &Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL });
    assert!(verdict.is_invalid() && sample.missed > 0, "{:?}", verdict.reasons());
    assert_eq!((sample.retransmitted, sample.duplicates), (0, 0), "{:?}", sample.window);
    assert!(sample.completed_per_second() > 8_000.0, "{:?}", sample.window);
    assert!(sample.window.behind > Some(0.3), "{:?}", sample.window);
    assert_eq!((sample.failed.total(), sample.forth.lost(), sample.back.lost()), (0, 0, 0));
}
