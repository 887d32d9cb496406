//! The same through whole switches in processes of their own, ours and Open vSwitch's: what the traffic of
//! other zones keeps of its rate while a zone fails over, and how long its packets wait.

use super::waits;
use super::{CONNECTIONS, EVERY, FAILING, FailoverArgs, longest_over_time, of_failing, of_others};
use crate::packets::TEMPLATE;
use crate::progress::Progress;
use crate::slow_path::daemon::{self, Kind, Peer, Plays, UnderTest};
use crate::slow_path::{Chart, Line, seconds};
use crate::summary::Summary;
use crate::{BenchError, Outcome};
use port::pcap::PcapTx;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;
use testbed::namespaces::FOLDER;

/// Maximum number of zones whose packets fit into the 262,144 buffers with which Open vSwitch plays them.
const ZONES_MAX: u16 = 10;
/// Time for all connections to be created.
const SETTLING: Duration = Duration::from_secs(3);

// Ports, by their OpenFlow numbers.
const FAILING_PORT: u16 = 1;
const OTHERS: u16 = 2;
const FAILING_SINK: u16 = 3;
const OTHERS_SINK: u16 = 4;
/// Records some packets of the other zones, with their times.
const RECORDER: u16 = 5;
/// The low bits of a client's port: of those whose connections have none of them set, the packets of the original
/// direction are recorded, one of 32.
const NOT_RECORDED: u16 = 0xf;

/// The results of one switch.
#[derive(Clone, Debug, Serialize)]
struct Whole {
    switch: &'static str,
    version: String,
    /// Packets per second of the other zones without flushes, and with failovers.
    rate_without: f64,
    rate: f64,
    rate_ratio: f64,
    /// Times from one recorded packet of the other zones to the next, in microseconds of a clock.
    wait_us_without: Summary,
    wait_us: Summary,
    /// How long a flush took for who asked for it, in milliseconds of a clock.
    flush_ms: Summary,
    /// Connections before a flush, and a while after the last.
    connections: [u64; 2],
    workers_processor_s: f64,
    other_processor_s: f64,
    /// Seconds since the first failover, and packets per second of the other zones.
    rate_over_time: Vec<(f64, f64)>,
    /// Seconds since the first failover, and the longest wait of each part.
    longest_wait_us_over_time: Vec<(f64, f64)>,
}

struct Files {
    failing: PathBuf,
    others: PathBuf,
    recorded: PathBuf,
    rules: PathBuf,
}

/// Measures our switch and the peer.
pub fn measure(args: &FailoverArgs) -> Result<Outcome, BenchError> {
    if args.zones > ZONES_MAX {
        let wrong = format!("with --peer there are no more than {ZONES_MAX} zones: use --zones");
        return Err(BenchError::WrongWork(wrong));
    }
    let (kinds, missing) = Peer::kinds(args.peer);
    daemon::enter("bench failover", args.json, &kinds)?;
    let files = Files::write(args.zones)?;
    let progress = Progress::start("failing over", kinds.len() as u64);
    let mut wholes = Vec::new();
    for kind in kinds {
        wholes.push(run(args, &files, kind)?);
        progress.advance(1);
    }
    drop(progress);
    let line = |it: &Whole| {
        let points = it.longest_wait_us_over_time.clone();
        Line { name: it.switch.to_owned(), points }
    };
    let lines: Vec<Line> = wholes.iter().map(line).collect();
    let title = "Longest waits of other zones' packets while a zone fails over";
    Chart { title, y_name: "microseconds", lines: &lines }.write(args.svg.as_deref())?;
    Ok(report(args, &wholes, missing))
}

fn run(args: &FailoverArgs, files: &Files, kind: Kind) -> Result<Whole, BenchError> {
    let mut switch = UnderTest::start(kind)?;
    switch.add_flows(&files.rules)?;
    for sink in [FAILING_SINK, OTHERS_SINK] {
        switch.add_port(sink, Plays::Nothing)?;
    }
    switch.add_port(RECORDER, Plays::Records(&files.recorded))?;
    switch.add_port(FAILING_PORT, Plays::Loop(&files.failing))?;
    switch.add_port(OTHERS, Plays::Loop(&files.others))?;
    sleep(SETTLING);
    let before = switch.connections()?;
    let calm_from = clock::since_epoch();
    let (rate_without, _) = rate(&mut switch, args.failovers, |_| Ok(()))?;
    let (mut flush_ms, processor) = (Vec::new(), switch.processor());
    let begun = clock::since_epoch();
    let (rate, sent) = rate(&mut switch, args.failovers, |switch| {
        let from = clock::now();
        switch.flush_zone(FAILING)?;
        flush_ms.push(1e3 * seconds(from, clock::now()));
        Ok(())
    })?;
    let ended = clock::since_epoch();
    let processor = switch.processor().since(processor);
    sleep(SETTLING);
    let after = switch.connections()?;
    let version = switch.version()?;
    switch.stop()?;
    let wanted = u64::from(CONNECTIONS) * u64::from(args.zones);
    if ![before, after].into_iter().all(|connections| is_about(connections, wanted)) {
        let wrong =
            format!("there are {before} connections before and {after} after, not {wanted}");
        return Err(BenchError::WrongWork(wrong));
    }
    let times = waits::recorded(&files.recorded)?;
    let waits_without = waits::between(&times, calm_from, begun);
    let waits = waits::between(&times, begun, ended);
    let of = |samples: &[f64]| {
        let none = || BenchError::WrongWork("nothing was flushed or recorded".into());
        Summary::of(samples).ok_or_else(none)
    };
    Ok(Whole {
        switch: kind.name(),
        version,
        rate_without,
        rate,
        rate_ratio: rate / rate_without,
        wait_us_without: of(&waits_without)?,
        wait_us: of(&waits)?,
        flush_ms: of(&flush_ms)?,
        connections: [before, after],
        workers_processor_s: processor.workers_s,
        other_processor_s: processor.others_s,
        rate_over_time: rates(&sent),
        longest_wait_us_over_time: longest_over_time(&waits),
    })
}

/// Packets per second between the times at which they were counted.
fn rates(sent: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let between = |pair: &[(f64, u64)]| {
        let (seconds, packets) = (pair[1].0 - pair[0].0, pair[1].1.saturating_sub(pair[0].1));
        (pair[1].0, packets as f64 / seconds.max(1e-9))
    };
    sent.windows(2).map(between).collect()
}

/// Whether a count is within 1% of the expected one.
fn is_about(count: u64, wanted: u64) -> bool {
    100 * count.abs_diff(wanted) <= wanted
}

/// Packets per second of the other zones while `work` is done every [`EVERY`], and their packets over time.
/// The counters are read equally often in all cases, since reading takes time in the switch.
fn rate(
    switch: &mut UnderTest,
    times: u32,
    mut work: impl FnMut(&mut UnderTest) -> Result<(), BenchError>,
) -> Result<(f64, Vec<(f64, u64)>), BenchError> {
    let (before, begun) = (switch.sent(OTHERS_SINK)?, clock::now());
    let mut sent = Vec::new();
    for number in 1..=times {
        work(switch)?;
        sent.push((seconds(begun, clock::now()), switch.sent(OTHERS_SINK)?));
        sleep((begun + EVERY * number) - clock::now());
    }
    let (after, ended) = (switch.sent(OTHERS_SINK)?, clock::now());
    if after == before {
        return Err(BenchError::WrongWork("no packet of the other zones was forwarded".into()));
    }
    Ok(((after - before) as f64 / seconds(begun, ended), sent))
}

impl Files {
    fn write(zones: u16) -> Result<Files, BenchError> {
        let folder = Path::new(FOLDER);
        let files = Files {
            failing: folder.join("failing.pcap"),
            others: folder.join("others.pcap"),
            recorded: folder.join("recorded.pcap"),
            rules: folder.join("failover.rules"),
        };
        play(&files.failing, 2 * CONNECTIONS, of_failing)?;
        play(&files.others, 2 * CONNECTIONS * u32::from(zones - 1), of_others)?;
        std::fs::write(&files.rules, rules())
            .map_err(|source| BenchError::WriteFile { file: files.rules.clone(), source })?;
        Ok(files)
    }
}

/// The last two octets of the destination select the zone; for replies, those of the source.
fn rules() -> String {
    let of = |(from, to): (u16, u16)| {
        let zone = "zone=NXM_NX_REG0[0..15]";
        let track = |address: &str| {
            format!("actions=move:{address}[0..15]->NXM_NX_REG0[0..15],ct(table=1,{zone})")
        };
        format!(
            "table=0,priority=2,in_port={from},ip,nw_dst=10.2.0.0/16,{}\n\
             table=0,priority=1,in_port={from},ip,{}\n\
             table=1,priority=2,in_port={from},ip,ct_state=+trk+new,nw_dst=10.2.0.0/16,\
             actions=ct(commit,{zone}),output:{to}\n\
             table=1,priority=1,in_port={from},ip,ct_state=+trk+est,actions=output:{to}\n",
            track("NXM_OF_IP_DST"),
            track("NXM_OF_IP_SRC"),
        )
    };
    let recorded = format!(
        "table=1,priority=3,in_port={OTHERS},udp,ct_state=+trk+est,nw_dst=10.2.0.0/16,\
         tp_src=0/{NOT_RECORDED:#x},actions=output:{OTHERS_SINK},output:{RECORDER}\n"
    );
    [(FAILING_PORT, FAILING_SINK), (OTHERS, OTHERS_SINK)].map(of).concat()
        + &recorded
        + "table=1,priority=0,actions=drop\n"
}

/// Writes these packets to a file.
fn play(path: &Path, packets: u32, of: fn(&mut [u8], u32)) -> Result<(), BenchError> {
    let failed = |source| BenchError::WriteFile { file: path.to_owned(), source };
    let mut file =
        File::create(path).and_then(|file| PcapTx::new(file, || Duration::ZERO)).map_err(failed)?;
    let mut frame = [0; 60];
    frame[..TEMPLATE.len()].copy_from_slice(&TEMPLATE);
    for number in 0..packets {
        of(&mut frame, number);
        file.record(Duration::ZERO, &frame).map_err(failed)?;
    }
    Ok(())
}

fn report(args: &FailoverArgs, wholes: &[Whole], missing: Option<String>) -> Outcome {
    let mut text = format!(
        "{} zones of {CONNECTIONS} connections, one of them flushed {} times and made again, through whole \
         switches\n{:12}{:>16}{:>16}{:>9}{:>17}{:>14}\n",
        args.zones,
        args.failovers,
        "",
        "packets/s before",
        "with failovers",
        "ratio",
        "flush ms median",
        "longest"
    );
    for it in wholes {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:12}{:>16.0}{:>16.0}{:>9.3}{:>17.2}{:>14.2}",
            it.switch, it.rate_without, it.rate, it.rate_ratio, it.flush_ms.median, it.flush_ms.max,
        );
    }
    let _ = writeln!(
        text,
        "how long packets of other zones wait, us:\n{:24}{:>10}{:>10}{:>10}{:>12}",
        "", "median", "95%", "99%", "longest"
    );
    for it in wholes {
        for (name, waits) in [("no failover", it.wait_us_without), ("failovers", it.wait_us)] {
            let name = format!("{}, {name}", it.switch);
            let Summary { median, p95, p99, max, .. } = waits;
            let _ = writeln!(text, "{name:24}{median:>10.1}{p95:>10.1}{p99:>10.1}{max:>12.1}");
        }
    }
    if let Some(why) = &missing {
        let _ = writeln!(text, "Open vSwitch is not measured: {why}");
    }
    let json = json!({
        "zones": args.zones,
        "connections_per_zone": CONNECTIONS,
        "failovers": args.failovers,
        "time": "a clock's",
        "runs": wholes,
        "not_measured": missing,
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::pcap::Capture;

    #[test]
    fn files_have_the_packets_of_their_zones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcap");
        play(&path, 50, of_others).unwrap();
        let capture = Capture::open(&path).unwrap();
        let mut frame = [0; 60];
        frame[..TEMPLATE.len()].copy_from_slice(&TEMPLATE);
        of_others(&mut frame, 49);
        assert_eq!((capture.len(), capture.frame(49).unwrap().1), (50, &frame[..]));
        assert_eq!(rules().lines().count(), 10);
    }

    #[test]
    fn rates_are_between_counts() {
        assert_eq!(rates(&[(0.0, 10), (0.5, 110), (1.5, 310)]), [(0.5, 200.0), (1.5, 200.0)]);
        assert_eq!(rates(&[(0.0, 10)]), []);
    }

    #[test]
    fn connections_are_counted_to_a_hundredth() {
        let found = [0, 98_999, 99_000, 100_000, 101_000, 101_001];
        let expect = [false, false, true, true, true, false];
        assert_eq!(found.map(|count| is_about(count, 100_000)), expect);
    }

    #[test]
    fn more_zones_than_a_peer_plays_are_refused() {
        let args =
            FailoverArgs { zones: 11, failovers: 1, peer: Some(Peer::Ovs), svg: None, json: true };
        let error = measure(&args).unwrap_err().to_string();
        assert!(error.contains("no more than 10 zones"), "{error}");
    }
}
