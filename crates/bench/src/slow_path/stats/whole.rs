//! The first phase through whole switches in separate processes, ours and Open vSwitch's.
//!
//! Ours plays a pcap file repeatedly, at its capture times. DPDK's net_pcap cannot, and keeps a buffer per
//! packet that it plays repeatedly; so Open vSwitch reads the packets from a named pipe, which a thread
//! writes at the rate. Packets that do not fit into the pipe are lost.

use super::station::set_flow;
use super::{FRAME, StatsArgs, Upkeep};
use crate::packets::TEMPLATE;
use crate::slow_path::daemon::{Kind, Plays, UnderTest};
use crate::slow_path::{due, seconds};
use crate::{BenchError, Outcome};
use port::pcap::PcapTx;
use rustix::fs::{FileType, Mode, OFlags, mknodat};
use rustix::pipe::fcntl_setpipe_size;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::Duration;
use testbed::namespaces::FOLDER;

/// Interval of counting flows.
const EVERY: Duration = Duration::from_millis(20);
/// Maximum size of an atomic write to a pipe (pipe(7), `PIPE_BUF`).
const ATOMIC: usize = 4096;
/// Capacity of the pipe, as of a network card's ring of 2,048 packets.
const PIPE: usize = 512 << 10;
/// Bytes of a packet in a pcap file.
const RECORD: usize = FRAME + 16;
/// The rule, by OpenFlow port numbers. Flows are exact, and port 2 is down.
const RULE: &str = "ip,in_port=1,nw_dst=10.0.0.0/8,idle_timeout=0,actions=output:2";

/// A whole switch.
#[derive(Clone, Debug, Serialize)]
pub struct Whole {
    #[serde(serialize_with = "kind_name")]
    pub kind: Kind,
    pub version: String,
    #[serde(serialize_with = "upkeep_name")]
    pub statistics: Upkeep,
    pub wanted: u32,
    pub flows: u64,
    pub seconds_to_limit: Option<f64>,
    pub took_s: f64,
    /// The longest time without a new flow while some were missing, with a resolution of [`EVERY`].
    pub longest_pause_ms: f64,
    pub workers_processor_s: f64,
    pub other_processor_s: f64,
    /// Seconds, and flows.
    pub installed: Vec<(f64, f64)>,
}

fn kind_name<S: serde::Serializer>(kind: &Kind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.name())
}

fn upkeep_name<S: serde::Serializer>(upkeep: &Upkeep, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(upkeep.name())
}

/// The inputs of switches.
pub struct Files {
    rules: PathBuf,
    packets: PathBuf,
    pipe: PathBuf,
}

impl Files {
    /// Writes the files.
    pub fn write(args: &StatsArgs) -> Result<Files, BenchError> {
        let folder = Path::new(FOLDER);
        let files = Files {
            rules: folder.join("stats.rules"),
            packets: folder.join("stats.pcap"),
            pipe: folder.join("stats.pipe"),
        };
        let failed = |file: &Path| {
            let file = file.to_owned();
            move |source: std::io::Error| BenchError::WriteFile { file, source }
        };
        std::fs::write(&files.rules, RULE).map_err(failed(&files.rules))?;
        let mut out = File::create(&files.packets)
            .and_then(|file| PcapTx::new(file, || Duration::ZERO))
            .map_err(failed(&files.packets))?;
        let mut frame = first_frame();
        for flow in 0..args.flows {
            set_flow(&mut frame, flow);
            let at_ns = u64::from(flow) * 1_000_000_000 / u64::from(args.rate);
            out.record(Duration::from_nanos(at_ns), &frame).map_err(failed(&files.packets))?;
        }
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(rustix::fs::CWD, &files.pipe, FileType::Fifo, mode, 0)
            .map_err(|error| failed(&files.pipe)(error.into()))?;
        Ok(files)
    }
}

/// Runs one switch until all flows exist or the time is over.
pub fn run(
    args: &StatsArgs,
    files: &Files,
    kind: Kind,
    upkeep: Upkeep,
) -> Result<Whole, BenchError> {
    let mut switch = UnderTest::start(kind)?;
    switch.set_flow_limit(2 * u64::from(args.flows))?;
    switch.set_upkeep(upkeep.interval_ms(), upkeep != Upkeep::Never, args.max_idle)?;
    switch.add_flows(&files.rules)?;
    switch.add_port(2, Plays::Nothing)?;
    switch.set_port_down(2)?;
    switch.disable_megaflows()?;
    let is_over = AtomicBool::new(false);
    let before = switch.processor();
    let installed = thread::scope(|scope| {
        let played = match kind {
            Kind::Tidegate => switch.add_port(1, Plays::Paced(&files.packets)),
            Kind::Ovs => {
                scope.spawn(|| feed(&files.pipe, args, &is_over));
                switch.add_port(1, Plays::Once(&files.pipe))
            }
        };
        let installed = played.and_then(|()| watch(args, &mut switch));
        is_over.store(true, Relaxed);
        // A feeder waits until its pipe is opened for reading.
        drop(File::options().read(true).write(true).open(&files.pipe));
        installed
    })?;
    let processor = switch.processor().since(before);
    let version = switch.version()?;
    switch.stop()?;
    let (took_s, flows) = installed.last().copied().unwrap_or_default();
    let all = flows >= f64::from(args.flows);
    Ok(Whole {
        kind,
        version,
        statistics: upkeep,
        wanted: args.flows,
        flows: flows as u64,
        seconds_to_limit: all.then_some(took_s),
        took_s,
        longest_pause_ms: 1e3 * longest_pause_s(&installed, args.flows.into()),
        workers_processor_s: processor.workers_s,
        other_processor_s: processor.others_s,
        installed,
    })
}

/// Counts flows until all exist or the time is over.
fn watch(args: &StatsArgs, switch: &mut UnderTest) -> Result<Vec<(f64, f64)>, BenchError> {
    let begun = clock::now();
    let mut installed = vec![(0.0, 0.0)];
    loop {
        sleep(EVERY);
        let flows = switch.flows()?;
        let at = seconds(begun, clock::now());
        installed.push((at, flows as f64));
        if flows >= args.flows.into() || at >= args.seconds.into() {
            return Ok(installed);
        }
    }
}

/// The longest time between two new maxima of the count, from the first flow on. If flows are missing, the
/// time from the last maximum to the end is a pause, too.
fn longest_pause_s(installed: &[(f64, f64)], wanted: f64) -> f64 {
    let (mut longest, mut most, mut grown_at) = (0.0f64, 0.0, None);
    for &(at, flows) in installed {
        if flows > most {
            longest = longest.max(grown_at.map_or(0.0, |before| at - before));
            (most, grown_at) = (flows, Some(at));
        }
    }
    if let (Some(grown_at), Some((ended, _))) = (grown_at, installed.last())
        && most < wanted
    {
        longest = longest.max(ended - grown_at);
    }
    longest
}

/// Writes packets of all flows in turn into a pipe, at the rate, as an endless pcap file. Packets that do not
/// fit are lost.
fn feed(pipe: &Path, args: &StatsArgs, is_over: &AtomicBool) {
    // Opening blocks until the switch reads it.
    let Ok(mut file) = File::options().write(true).open(pipe) else { return };
    let mut header = Vec::new();
    if PcapTx::new(&mut header, || Duration::ZERO).is_err() || file.write_all(&header).is_err() {
        return;
    }
    let _ = fcntl_setpipe_size(&file, PIPE);
    if rustix::fs::fcntl_setfl(&file, OFlags::NONBLOCK).is_err() {
        return;
    }
    let mut frame = first_frame();
    let (begun, mut sent, mut records) = (clock::now(), 0, Vec::with_capacity(ATOMIC));
    while !is_over.load(Relaxed) {
        let due = due(clock::now(), begun, args.rate);
        while sent < due {
            records.clear();
            let count = (due - sent).min((ATOMIC / RECORD) as u64);
            for number in sent..sent + count {
                set_flow(&mut frame, (number % u64::from(args.flows)) as u32);
                records.extend(
                    [0u32, 0, FRAME as u32, FRAME as u32].map(u32::to_le_bytes).as_flattened(),
                );
                records.extend(&frame);
            }
            sent += count;
            match file.write(&records) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(_) => {}
                Err(_) => return,
            }
        }
        sleep(Duration::from_micros(500));
    }
}

/// A frame for [`set_flow`].
pub fn first_frame() -> Vec<u8> {
    let mut frame = vec![0; FRAME];
    frame[..TEMPLATE.len()].copy_from_slice(&TEMPLATE);
    frame
}

/// The results of all.
pub fn report(args: &StatsArgs, wholes: &[Whole], missing: Option<String>) -> Outcome {
    let mut text = format!(
        "{FRAME}-byte packets of {} flows in turn, {} per second, through whole switches\n\
         {:36}{:>10}{:>13}{:>10}{:>15}\n",
        args.flows, args.rate, "", "flows", "seconds", "pause ms", "processor s"
    );
    for it in wholes {
        let took = match it.seconds_to_limit {
            Some(all) => format!("{all:.2}"),
            None => format!("{:.1} (time)", it.took_s),
        };
        let processor_s = it.workers_processor_s + it.other_processor_s;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:36}{:>10}{took:>13}{:>10.0}{processor_s:>15.2}",
            it.name(),
            it.flows,
            it.longest_pause_ms,
        );
    }
    if let Some(why) = &missing {
        let _ = writeln!(text, "Open vSwitch is not measured: {why}");
    }
    let json = json!({
        "flows": args.flows,
        "rate": args.rate,
        "frame_bytes": FRAME,
        "time": "a clock's",
        "runs": wholes,
        "not_measured": missing,
    });
    Outcome { text, json }
}

impl Whole {
    /// Its name in charts and tables.
    pub fn name(&self) -> String {
        format!("{}, {}", self.kind.name(), self.statistics.name())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::args;
    use super::*;
    use port::pcap::Capture;
    use std::io::Read;

    #[test]
    fn a_pause_is_the_time_without_another_flow() {
        let counts = [(0.0, 0.0), (1.0, 0.0), (2.0, 5.0), (2.5, 5.0), (3.0, 5.0), (3.5, 9.0)];
        assert_eq!(longest_pause_s(&counts, 9.0), 1.5);
        let fewer_between = [(0.0, 0.0), (1.0, 7.0), (1.25, 3.0), (1.5, 8.0)];
        assert_eq!(longest_pause_s(&fewer_between, 9.0), 0.5);
        let at_the_end = [(0.0, 0.0), (1.0, 7.0), (1.5, 8.0), (3.5, 8.0)];
        assert_eq!([8.0, 9.0].map(|wanted| longest_pause_s(&at_the_end, wanted)), [0.5, 2.0]);
        assert_eq!(longest_pause_s(&[], 9.0), 0.0);
    }

    #[test]
    fn a_pipe_carries_the_packets_of_all_flows_in_turn() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (args, is_over) = (args(1000, 1000), AtomicBool::new(false));
        let mut bytes = vec![0; 24 + 1500 * RECORD];
        thread::scope(|scope| {
            scope.spawn(|| feed(&pipe, &args, &is_over));
            File::open(&pipe).unwrap().read_exact(&mut bytes).unwrap();
            is_over.store(true, Relaxed);
        });
        let capture = Capture::parse(bytes).unwrap();
        let mut frame = first_frame();
        for n in [0, 1, 999, 1000, 1499] {
            set_flow(&mut frame, n % 1000);
            assert_eq!(capture.frame(n as usize).unwrap().1, frame, "{n}");
        }
    }
}
