//! RFC 9693's measurements of a stateful gateway: connection establishment rate, table capacity, and
//! tear-down rate.

use super::bench::{Bench, Trial, told};
use super::frames::sample_json;
use super::outcome::Report;
use super::stations::{Phase, Stations};
use super::test::Test;
use generator::search::{
    Allowance, CapacityRules, CapacitySearch, CapacityTrial, FrameSample, judge_frames,
};
use generator::stream::FLOWS_MAX;
use load::error::LoadError;
use load::generate::numbers::human;
use serde_json::json;
use std::time::Duration;

/// Between phase 1 and what follows it (T of RFC 9693's tester).
const GAP: Duration = Duration::from_millis(500);
/// Number of tear-downs; their median is the answer (RFC 9693 section 4.8 requires at least ten).
const TEARDOWNS: usize = 10;
/// Shorter differences of times are not distinguished.
const TELLABLE: Duration = Duration::from_micros(10);
/// The precision of the first rate of the capacity search.
const FIRST_RATE: f64 = 0.1;

/// The maximum connection establishment rate.
pub fn establishment(bench: &mut Bench<'_>) -> Result<Report, LoadError> {
    let (range, precision, unit) = (bench.range(), bench.precision(), Test::Establishment.unit());
    let connections = bench.args.connections as u32;
    let found =
        bench.search(range, precision, unit, &mut |bench, rate| trial(bench, connections, rate))?;
    let text = found.text(unit, range.min);
    let none = found.answer.rate.is_none().then(|| text.clone());
    Ok(Report::of(text, found.json(), found.stopped.or(none)))
}

/// The table's capacity.
pub fn capacity(bench: &mut Bench<'_>) -> Result<Report, LoadError> {
    let unit = Test::Establishment.unit();
    let first = bench.args.connections as u32;
    let range = bench.args.rate_range();
    let found =
        bench.search(range, FIRST_RATE, unit, &mut |bench, rate| trial(bench, first, rate))?;
    let mut trials = found.trials.clone();
    let Some(rate) = found.answer.rate.filter(|_| found.stopped.is_none()) else {
        let why = format!("{first} connections: {}", found.text(unit, range.min));
        let stopped = found.stopped.clone().unwrap_or_else(|| why.clone());
        return Ok(Report::of(why, found.json(), Some(stopped)));
    };
    let most = (bench.args.max_connections as u64).min(FLOWS_MAX.into());
    let rules = CapacityRules { precision: bench.precision(), ..CapacityRules::default() };
    let mut search = CapacitySearch::new(rules, first.into(), most, rate);
    let mut stopped = None;
    while let Some(CapacityTrial { connections, rate }) = search.next() {
        let said = match trial(bench, connections as u32, rate) {
            Ok(said) => said,
            Err(error) => {
                stopped = Some(error.to_string());
                break;
            }
        };
        if (bench.interrupted)() {
            stopped = Some("interrupted".to_owned());
            break;
        }
        let (count, rate_text) = (human(connections as f64), human(rate));
        eprintln!("{count} connections at {rate_text}/s: {}", said.verdict.word());
        let mut one = told(rate, "capacity", &said);
        if let Some(one) = one.as_object_mut() {
            one.insert("connections".to_owned(), json!(connections));
        }
        trials.push(one);
        if let Some(broken) = said.broken {
            stopped = Some(broken.to_string());
            break;
        }
        search.record(said.verdict.passed());
    }
    let answer = search.answer();
    let text = match (answer.lower, answer.upper) {
        (Some(lower), Some(upper)) => format!(
            "{} connections ({lower}) fit in the table, {} do not; established at {}/s",
            human(lower as f64),
            human(upper as f64),
            human(answer.rate)
        ),
        (Some(lower), None) => format!(
            "{} connections ({lower}) fit in the table; more were not tried; established at {}/s",
            human(lower as f64),
            human(answer.rate)
        ),
        (None, _) => format!("not even {first} connections fit in the table"),
    };
    let none = answer.lower.is_none().then(|| text.clone());
    let json = json!({
        "answer": answer.lower,
        "did_not_fit": answer.upper,
        "limited_by": if answer.upper.is_some() { "dut" } else { "range" },
        "connections_per_second": answer.rate,
        "first_rate": rate,
        "rules": { "beta": rules.collapse, "gamma": rules.halving },
        "trials": trials,
    });
    Ok(Report::of(text, json, stopped.or(none)))
}

/// The tear-down rate.
pub fn teardown(bench: &mut Bench<'_>) -> Result<Report, LoadError> {
    let connections = bench.args.connections as u32;
    let mut rates = Vec::new();
    let mut runs = Vec::new();
    let (mut stopped, mut at_least) = (None, false);
    while rates.len() < TEARDOWNS {
        bench.clean()?;
        let empty = time_to_clean(bench)?;
        let mut stations = stations(bench, connections)?;
        let rate = Some(bench.args.rate);
        let filled = stations.run(bench.clock, bench.interrupted, Phase::Fill, rate);
        let arrived = stations.known();
        bench.links = Some(stations.into_links());
        let filled = filled?;
        if (bench.interrupted)() {
            stopped = Some("interrupted".to_owned());
            break;
        }
        let held = bench.device.table()?.unwrap_or(arrived).min(arrived);
        if held < u64::from(connections) {
            stopped = Some(match filled.broken() {
                Some(broken) => broken.to_string(),
                None => format!(
                    "phase 1 established {held} of {connections} connections; give it a lower \
                     --rate or fewer --connections"
                ),
            });
            break;
        }
        let full = time_to_clean(bench)?;
        let spent = full.saturating_sub(empty);
        // If the table is cleared as fast as an empty one, only a lower bound of the rate is known.
        at_least |= spent < TELLABLE;
        let spent = if spent < TELLABLE { full.max(TELLABLE) } else { spent };
        rates.push(held as f64 / spent.as_secs_f64());
        runs.push(json!({
            "connections": held,
            "full_s": full.as_secs_f64(),
            "empty_s": empty.as_secs_f64(),
            "connections_per_second": rates.last(),
        }));
    }
    rates.sort_by(f64::total_cmp);
    let answer = rates.get(rates.len() / 2).copied();
    let text = match (answer, rates.first(), rates.last()) {
        (Some(rate), Some(least), Some(most)) => format!(
            "{}{} connections/s, median of {} tables of {connections} ({} to {})",
            if at_least { "at least " } else { "" },
            human(rate),
            rates.len(),
            human(*least),
            human(*most)
        ),
        _ => "no table was torn down".to_owned(),
    };
    let json = json!({ "answer": answer, "at_least": at_least, "runs": runs });
    Ok(Report::of(text, json, stopped))
}

/// The time until the device has deleted all connections.
fn time_to_clean(bench: &mut Bench<'_>) -> Result<Duration, LoadError> {
    if bench.device.table()?.is_none() && bench.args.reset_command.is_none() {
        return Err(LoadError::Options(
            "there is no way to empty this device's table; name a command that does with \
             --reset-command"
                .to_owned(),
        ));
    }
    let start = bench.clock.now();
    bench.clean()?;
    Ok(bench.clock.now() - start)
}

fn stations(bench: &mut Bench<'_>, connections: u32) -> Result<Stations, LoadError> {
    let links = bench.links.take();
    let links = links.ok_or_else(|| LoadError::Ended("the ports are gone".to_owned()))?;
    // Only their number matters, so the smallest frames suffice.
    let frame_bytes = bench.args.network().frame_bytes_min();
    Ok(Stations::new(links, bench, connections, frame_bytes))
}

/// Phase 1 at this rate, and validation of every entry, starting with an empty table.
fn trial(bench: &mut Bench<'_>, connections: u32, rate: f64) -> Result<Trial, LoadError> {
    bench.clean()?;
    let table_before = bench.device.table()?;
    let refused = bench.device.refused();
    let mut stations = stations(bench, connections)?;
    let ran = phases(bench, &mut stations, rate);
    bench.links = Some(stations.into_links());
    let mut sample = ran?;
    sample.table_before = table_before;
    sample.table_full = bench.device.refused() - refused;
    bench.device.check()?;
    let allowed = Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL };
    Ok(Trial {
        verdict: judge_frames(&sample, &allowed),
        loss: sample.worst_loss_ratio(),
        broken: sample.broken(),
        json: sample_json(&sample),
    })
}

fn phases(
    bench: &mut Bench<'_>,
    stations: &mut Stations,
    rate: f64,
) -> Result<FrameSample, LoadError> {
    let mut sample = stations.run(bench.clock, bench.interrupted, Phase::Fill, Some(rate))?;
    if sample.forth.lost() > 0 {
        // The trial has failed already; missing entries would fail it once more.
        return Ok(sample);
    }
    let start = bench.clock.now();
    while bench.clock.now() - start < GAP && !(bench.interrupted)() {
        std::thread::yield_now();
    }
    // Forwarding does not prove an entry: only an entry lets a reverse frame through (section 4.6).
    let back = Some(rate * bench.args.validation_share);
    let validated = stations.run(bench.clock, bench.interrupted, Phase::Validate, back)?;
    sample.back = validated.back;
    sample.seconds += validated.seconds;
    sample.due_seconds += validated.due_seconds;
    sample.duplicates += validated.duplicates;
    sample.returned += validated.returned;
    sample.garbage += validated.garbage;
    sample.foreign += validated.foreign;
    sample.missed += validated.missed;
    sample.port_errors += validated.port_errors;
    sample.port_drops += validated.port_drops;
    sample.stall_ns = sample.stall_ns.max(validated.stall_ns);
    Ok(sample)
}
