//! Two BFD sessions with a link that loses, changes and invents packets.

#![no_main]

use base::{Instant, MacAddr};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use protocols::bfd::{Bfd, Config, Control, DESTINATION_MAC, Identity, State};
use std::net::Ipv4Addr;
use std::time::Duration;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

#[derive(Arbitrary, Debug)]
enum Step {
    /// Time passes; a frame that an end sends arrives unless it is lost.
    Pass {
        ms: u16,
        loses: [bool; 2],
    },
    /// A frame of any bytes.
    Frame {
        end: bool,
        bytes: Vec<u8>,
    },
    /// A packet of any bytes in a valid frame, or of those with valid discriminators.
    Packet {
        end: bool,
        bytes: [u8; 24],
        is_known: bool,
    },
    Configure {
        end: bool,
        settings: Settings,
    },
    Count {
        end: bool,
        packets: u32,
    },
    Force {
        end: bool,
        forced: Option<bool>,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Settings {
    multiplier: u8,
    min_tx_ms: u16,
    min_rx_ms: u16,
    decay_min_rx_ms: u16,
    cpath_down: bool,
    forwarding_if_rx: bool,
}

impl Settings {
    fn config(self) -> Config {
        Config {
            multiplier: self.multiplier.max(1),
            min_tx_ms: u32::from(self.min_tx_ms).max(1),
            min_rx_ms: u32::from(self.min_rx_ms).max(1),
            decay_min_rx_ms: self.decay_min_rx_ms.into(),
            cpath_down: self.cpath_down,
            forwarding_if_rx: self.forwarding_if_rx,
            ..Config::default()
        }
    }
}

/// Runs an end as long as something is due. That ends: a machine asks for a later time.
fn run(end: &mut Bfd, now: Instant) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for _ in 0..8 {
        if end.next_timeout() > now {
            return frames;
        }
        frames.extend(end.send(now, MAC).map(|frame| frame.bytes));
        end.run(now);
    }
    panic!("{}", end.show(now));
}

fuzz_target!(|input: (Settings, Vec<Step>)| {
    let (settings, steps) = input;
    let mut now = Instant::from_millis(1000);
    let identity = |number: u32| Identity { discriminator: number, number, seed: number.into() };
    let mut ends = [1, 2].map(|n| Bfd::new(now, "p", identity(n), settings.config()));
    let ips = [Ipv4Addr::LOCALHOST; 2];
    for step in steps {
        match step {
            Step::Pass { ms, loses } => now = pass(&mut ends, now, ms, loses),
            Step::Frame { end, bytes } => {
                ends[usize::from(end)].receive(now, &bytes);
            }
            Step::Packet { end, bytes, is_known } => {
                let Ok(control) = Control::parse(&bytes) else { continue };
                assert_eq!(control.bytes(), bytes);
                let end = &mut ends[usize::from(end)];
                let other = if is_known { end.discriminator() } else { control.other };
                let control = Control { other, ..control };
                let frame = control.frame([MAC, DESTINATION_MAC], ips, 50_000);
                assert_eq!(Control::in_frame(&frame), Ok(control));
                end.receive(now, &frame);
            }
            Step::Configure { end, settings } => {
                ends[usize::from(end)].configure(now, settings.config());
            }
            Step::Count { end, packets } => ends[usize::from(end)].count(now, packets.into()),
            Step::Force { end, forced } => ends[usize::from(end)].set_forwarding(now, forced),
        }
        for end in &mut ends {
            run(end, now);
            assert!(end.take_lines().len() <= 16);
            assert_ne!(end.state(), State::AdminDown);
            assert_eq!(end.status().len(), 6);
        }
    }
});

fn pass(ends: &mut [Bfd; 2], now: Instant, ms: u16, loses: [bool; 2]) -> Instant {
    let end_of_time = now + Duration::from_millis(ms.into());
    let mut now = now;
    for _ in 0..64 {
        let next = ends[0].next_timeout().min(ends[1].next_timeout()).max(now);
        if next > end_of_time {
            break;
        }
        now = next;
        for from in [0, 1] {
            for frame in run(&mut ends[from], now) {
                if !loses[from] {
                    ends[1 - from].receive(now, &frame);
                }
            }
        }
    }
    end_of_time
}
