//! The generator's own ceiling: client and server joined directly, at full speed.

use super::numbers::human;
use super::{HostOptions, endpoints_of};
use crate::dut::{Device, Place};
use crate::endpoints::{self, Endpoints};
use crate::error::LoadError;
use base::Instant;
use generator::{BYTES_PER_CONNECTION, FaultRates, Profile, SelfTest};
use serde_json::{Value, json};
use std::time::Duration;

/// Warm-up before the measurement.
const WARM: Duration = Duration::from_millis(300);
/// Simulated time within which a hundred connections end.
const HOUR_NS: u64 = 3_600_000_000_000;
/// Connections at once per worker, without waits: enough to fill batches, few enough for the cache.
const AT_ONCE: u32 = 1000;
/// Connections at once per ten entries of rings between processes. A connection may have two packets under
/// way.
const AT_ONCE_IN_TEN: u64 = 4;
/// At this share of the ceiling or above, the generator counts as the limit.
pub const SHARE: f64 = 0.8;

/// The generator's ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// Connections completed per second without waits.
    pub connections_per_second: f64,
    /// Packets sent per second by both ends together.
    pub packets_per_second: f64,
    /// Packets per connection, both ways.
    pub packets_per_connection: f64,
    /// The ports of the measurement.
    pub ports: &'static str,
    /// The number of workers.
    pub workers: usize,
}

impl Ceiling {
    /// Returns whether the ceiling was measured.
    pub fn is_known(&self) -> bool {
        self.connections_per_second.is_finite()
    }

    /// Returns the ceiling and the share of it that `rate` is, as JSON.
    pub fn json(&self, rate: f64) -> Value {
        json!({
            "connections_per_second": self.connections_per_second,
            "packets_per_second": self.packets_per_second,
            "ports": self.ports,
            "generator_workers": self.workers,
            "share": self.share(rate),
        })
    }

    /// Returns this rate of connections as a share of the ceiling.
    pub fn share(&self, rate: f64) -> f64 {
        rate / self.connections_per_second.max(1.0)
    }

    /// Returns what limits a measurement that reached this rate: the device or the generator.
    pub fn limited_by(&self, rate: f64) -> &'static str {
        if self.share(rate) >= SHARE { "generator" } else { "dut" }
    }
}

/// Counters over a period.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    seconds: f64,
    completed: u64,
    packets: u64,
    bytes: u64,
    active: usize,
}

/// Measures for `time`, without the profile's waits: packets and connections cost the same, and the generator
/// is never idle.
pub fn measure(
    profile: &Profile,
    options: &HostOptions,
    place: Place,
    ports: &'static str,
    time: Duration,
) -> Result<Ceiling, LoadError> {
    let busy = Profile {
        server_wait_ms: 0,
        think_time_ms: 0,
        time_wait_ms: 0,
        connections_per_second: None,
        connections_at_once: {
            let in_rings = |packets: u64| (packets * AT_ONCE_IN_TEN / 10) as u32;
            let each = place.queue_packets.map_or(AT_ONCE, |it| in_rings(it).min(AT_ONCE));
            profile.connections_at_once.min(each * (1 + place.more.len() as u32))
        },
        ..profile.clone()
    };
    let (_device, mut endpoints) = join(&busy, options, place)?;
    let workers = endpoints.workers();
    let counted = saturate(&mut endpoints, WARM, time)?;
    if counted.packets == 0 {
        return Err(LoadError::Ended(format!(
            "the generator moved no packet between its own two ends in {time:?}"
        )));
    }
    let packets_per_connection = packets_per_connection(&busy)?;
    let packets_per_second = counted.packets as f64 / counted.seconds;
    Ok(Ceiling {
        connections_per_second: packets_per_second / packets_per_connection,
        packets_per_second,
        packets_per_connection,
        ports,
        workers,
    })
}

/// Returns the packets per connection, both ways: the mean of a hundred successive connections, in simulated
/// time because some profiles' connections live long.
fn packets_per_connection(profile: &Profile) -> Result<f64, LoadError> {
    const CONNECTIONS: u64 = 100;
    let wrong = |source| LoadError::Profile { name: profile.name.clone(), source };
    let servers = profile.servers.to_string();
    let first = servers.split('-').next().unwrap_or_default();
    let servers = first.parse().unwrap_or(profile.servers);
    let one = Profile { connections_at_once: 1, servers, ..profile.clone() };
    let (rates, mut now) = (FaultRates::default(), Instant::ZERO);
    let mut test = SelfTest::new(&one, 10, 1, rates, now).map_err(wrong)?;
    test.client.stop_opening_after(CONNECTIONS);
    while test.client.statistics().completed < CONNECTIONS {
        now = now + Duration::from_millis(1);
        test.step(now, usize::MAX);
        if test.client.statistics().failed.total() > 0 || now.as_nanos() > HOUR_NS {
            let what = "the generator's connections fail between its own two ends".to_owned();
            return Err(LoadError::Ended(what));
        }
    }
    // Subtract the ARP request for the server's address and its reply.
    let carried = (test.forth.left + test.back.left).saturating_sub(2);
    Ok(carried as f64 / CONNECTIONS as f64)
}

/// A row of the calibration table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The profile's name.
    pub profile: String,
    /// Connections per second.
    pub connections_per_second: f64,
    /// Connections alive at the client.
    pub active_flows: usize,
    /// Bits per second, both directions together.
    pub bits_per_second: f64,
    /// Packets per second, both directions together.
    pub packets_per_second: f64,
    /// The ceiling without waits.
    pub ceiling: Ceiling,
    /// Whether the rate is computed from packets, because connections live longer than the test.
    pub derived: bool,
}

/// Runs a profile unchanged, with as many connections at once as saturate the generator.
pub fn self_test(
    profile: &Profile,
    options: &HostOptions,
    place: &dyn Fn() -> Place,
    time: Duration,
) -> Result<Row, LoadError> {
    let ceiling = measure(profile, options, place(), "memory", time)?;
    let lifetime = super::lifetime(profile);
    // A tenth more than the ceiling keeps alive.
    let alive = ceiling.connections_per_second * 1.1 * lifetime.as_secs_f64();
    let at_once = (alive as u32).clamp(AT_ONCE * ceiling.workers as u32, 2_000_000);
    let full =
        Profile { connections_at_once: at_once, connections_per_second: None, ..profile.clone() };
    full.check().map_err(|source| LoadError::Profile { name: profile.name.clone(), source })?;
    let (_device, mut endpoints) = join(&full, options, place())?;
    let warm = lifetime.clamp(WARM, Duration::from_secs(3)) * 2;
    let counted = saturate(&mut endpoints, warm, time)?;
    let derived = lifetime > warm;
    let packets = counted.packets as f64 / counted.seconds;
    Ok(Row {
        profile: profile.name.clone(),
        connections_per_second: if derived {
            packets / ceiling.packets_per_connection
        } else {
            counted.completed as f64 / counted.seconds
        },
        active_flows: counted.active,
        bits_per_second: counted.bytes as f64 * 8.0 / counted.seconds,
        packets_per_second: packets,
        ceiling,
        derived,
    })
}

impl Row {
    /// Returns the row as JSON.
    pub fn json(&self) -> Value {
        json!({
            "profile": self.profile,
            "connections_per_second": self.connections_per_second,
            "rate_derived_from_packets": self.derived,
            "active_flows": self.active_flows,
            "bits_per_second": self.bits_per_second,
            "packets_per_second": self.packets_per_second,
            "generator_workers": self.ceiling.workers,
            "without_waits": {
                "connections_per_second": self.ceiling.connections_per_second,
                "packets_per_second": self.ceiling.packets_per_second,
                "packets_per_connection": self.ceiling.packets_per_connection,
            },
            "bytes_per_connection_and_side": BYTES_PER_CONNECTION,
        })
    }
}

/// Returns the published calibration table for these rows.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<12} | {:>15} | {:>12} | {:>12} | {:>14}\n",
        "Type", "Connection Rate", "Active Flows", "Bandwidth", "Packet Rate"
    );
    for row in rows {
        text.push_str(&format!(
            "{:<12} | {:>8} conn/s{} | {:>12} | {:>7} bit/s | {:>8} pkt/s\n",
            row.profile,
            human(row.connections_per_second),
            if row.derived { "*" } else { " " },
            human(row.active_flows as f64),
            human(row.bits_per_second),
            human(row.packets_per_second),
        ));
    }
    if rows.iter().any(|row| row.derived) {
        text.push_str(
            "* packets per second over packets per connection: they live longer than this\n",
        );
    }
    text.push_str(&format!("{BYTES_PER_CONNECTION} bytes per connection and side\n"));
    text
}

fn join(
    profile: &Profile,
    options: &HostOptions,
    place: Place,
) -> Result<(Box<dyn Device>, Endpoints), LoadError> {
    let capacity = profile.connections_at_once as usize + 1000;
    if place.client.is_none() || place.server.is_none() {
        return Err(LoadError::Ended("a self-test needs both ports".to_owned()));
    }
    endpoints_of(profile, options, capacity, true, place)
}

/// Runs both ends at full speed.
fn saturate(
    endpoints: &mut Endpoints,
    warm: Duration,
    time: Duration,
) -> Result<Counted, LoadError> {
    let began = turn_for(endpoints, warm)?;
    let before = endpoints.counted();
    let ended = turn_for(endpoints, time)?;
    endpoints.check()?;
    let all = endpoints.counted();
    let sent = |it: &endpoints::Counted| {
        (it.client.tx_packets + it.server.tx_packets, it.client.tx_bytes + it.server.tx_bytes)
    };
    let ((packets, bytes), (packets_before, bytes_before)) = (sent(&all), sent(&before));
    Ok(Counted {
        seconds: (ended - began).as_secs_f64(),
        completed: all.client.completed - before.client.completed,
        packets: packets - packets_before,
        bytes: bytes - bytes_before,
        active: endpoints.active(),
    })
}

/// Iterates for this long. Returns the time of the end.
fn turn_for(endpoints: &mut Endpoints, time: Duration) -> Result<Instant, LoadError> {
    let start = clock::now();
    loop {
        let now = clock::now();
        if now - start >= time {
            return Ok(now);
        }
        endpoints.iterate(now)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_as_many_packets_as_published() {
        let check = |profile: Profile, expected: f64| {
            let profile = Profile { time_wait_ms: 0, server_wait_ms: 0, ..profile };
            let packets = packets_per_connection(&profile).unwrap();
            assert!((packets - expected).abs() < 0.05, "{}: {packets}", profile.name);
        };
        check(Profile::default(), 7.0);
        check(Profile { udp_percent: 100.0, ..Profile::default() }, 2.0);
        check(Profile { udp_percent: 10.0, ..Profile::default() }, 6.5);
        let long = Profile::built_in("long-lived").unwrap().unwrap();
        let packets =
            packets_per_connection(&Profile { time_wait_ms: 0, server_wait_ms: 0, ..long });
        assert!((1000.0..1600.0).contains(&packets.unwrap()));
    }
}
