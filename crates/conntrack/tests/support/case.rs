//! The cases of `testdata/conntrack/*.toml`, for any implementation that tracks packets.

use super::Tracked;
use base::{Instant, Zone};
use conntrack::flush::{add_labels, add_mark, add_tuple};
use conntrack::text::Detail;
use conntrack::{
    Config, Conntrack, CtFlush, Direction, Entry, Event, Filter, Stats, Timeout, TimeoutPolicy,
    ZoneLimits,
};
use flow::{CtAction, CtState, Field, Frame, Masked, TupleL4};
use packet::Checksum;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Deref;

/// An implementation that runs cases.
pub trait SlowPathPacket {
    /// Tracks a frame, and writes the result into its key. If a fragment is held, the packet becomes empty;
    /// returns the fragments of a datagram that is now complete.
    fn track(&self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame>;
    fn set_zone_limit(&self, zone: Option<Zone>, limit: u32);
    fn clear_zone_limit(&self, zone: Zone) -> bool;
    /// The timeouts of a zone, or of all zones without their own.
    fn set_timeouts(&self, zone: Option<Zone>, policy: TimeoutPolicy);
    fn set_check_tcp_windows(&self, check: bool);
    fn set_connections_max(&self, max: u32);
    fn tick(&self, now: Instant);
    /// Returns the number of flushed connections, or `None` for an error.
    fn flush(&self, now: Instant, flush: &CtFlush) -> Option<u32>;
    fn entries(&self, now: Instant, filter: &Filter) -> Vec<Entry>;
    fn stats(&self, now: Instant) -> Stats;
    fn zone_limits(&self) -> ZoneLimits;
    fn connections(&self) -> u32;
    fn count(&self, event: Event) -> u64;
}

/// A tracker behind a datapath that passes packets to it.
pub trait Device: Deref<Target = Conntrack> {
    /// As [`SlowPathPacket::track`].
    fn track(&self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame>;
}

/// Handles the output of [`Device::track`]: if it is a single frame that is the packet itself, and not a
/// fragment released by another packet, it goes back into `frame`.
pub fn put_back(mut sent: Vec<Frame>, frame: &mut Frame, before: &[u8]) -> Vec<Frame> {
    let is_itself = sent.len() == 1
        && (frame.key.nw_frag() == 0
            || sent[0].key.ct_state().contains(CtState::INV) && sent[0].packet.data() == before);
    if is_itself {
        *frame = sent.remove(0);
    }
    sent
}

impl<D: Device> SlowPathPacket for D {
    fn track(&self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame> {
        Device::track(self, now, action, frame)
    }

    fn set_zone_limit(&self, zone: Option<Zone>, limit: u32) {
        (**self).set_zone_limit(zone, limit);
    }

    fn clear_zone_limit(&self, zone: Zone) -> bool {
        (**self).clear_zone_limit(zone)
    }

    fn set_timeouts(&self, zone: Option<Zone>, policy: TimeoutPolicy) {
        match zone {
            None => self.set_default_timeouts(policy),
            Some(zone) => self.set_zone_timeouts(zone, policy),
        }
    }

    fn set_check_tcp_windows(&self, check: bool) {
        (**self).set_check_tcp_windows(check);
        assert_eq!(self.checks_tcp_windows(), check);
    }

    fn set_connections_max(&self, max: u32) {
        (**self).set_connections_max(max);
        assert_eq!(self.connections_max(), max);
    }

    fn tick(&self, now: Instant) {
        (**self).tick(now);
    }

    fn flush(&self, now: Instant, flush: &CtFlush) -> Option<u32> {
        (**self).flush(now, flush).ok()
    }

    fn entries(&self, now: Instant, filter: &Filter) -> Vec<Entry> {
        (**self).entries(now, filter).collect()
    }

    fn stats(&self, now: Instant) -> Stats {
        (**self).stats(now, &Filter::default())
    }

    fn zone_limits(&self) -> ZoneLimits {
        (**self).zone_limits(&[])
    }

    fn connections(&self) -> u32 {
        (**self).connections()
    }

    fn count(&self, event: Event) -> u64 {
        self.counters().get(event)
    }
}

impl Device for Tracked {
    fn track(&self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame> {
        self.execute_reassembling(now, action, std::slice::from_mut(frame))
    }
}

/// Runs all cases, each on a packet of its own.
pub fn run_all<S: SlowPathPacket>(make: impl Fn(Config) -> S + std::panic::RefUnwindSafe) {
    let failures = failures(make);
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// The same; returns the cases that failed.
pub fn failures<S: SlowPathPacket>(
    make: impl Fn(Config) -> S + std::panic::RefUnwindSafe,
) -> Vec<String> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/conntrack");
    let mut cases = 0;
    let mut failures = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        for case in &file.case {
            cases += 1;
            if std::panic::catch_unwind(|| run(case, &make)).is_err() {
                failures.push(format!("{}: {}", path.display(), case.name));
            }
        }
    }
    assert!(cases >= 80, "only {cases} cases found");
    failures
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The difference to Open vSwitch 3.1.0, if there is one.
    #[serde(rename = "differs")]
    _differs: Option<String>,
    #[serde(default)]
    zone: u16,
    max: Option<u32>,
    check_windows: Option<bool>,
    /// Whether early drop may take unanswered and closed connections; Open vSwitch has no early drop.
    #[serde(default)]
    early_drop: bool,
    #[serde(default)]
    limits: BTreeMap<String, u32>,
    #[serde(default)]
    timeouts: BTreeMap<String, BTreeMap<String, u32>>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at_ms: Option<u64>,
    #[serde(rename = "in")]
    packet: Option<String>,
    #[serde(default)]
    again: bool,
    save: Option<String>,
    recall: Option<String>,
    offload: Option<String>,
    part: Option<[usize; 2]>,
    parts: Option<Vec<String>>,
    zone: Option<u16>,
    #[serde(default)]
    commit: bool,
    #[serde(default)]
    force: bool,
    mark: Option<String>,
    label: Option<String>,
    nat: Option<String>,
    helper: Option<String>,

    flush: Option<FlushStep>,
    #[serde(default)]
    tick: bool,
    check_windows: Option<bool>,
    max: Option<u32>,
    limit: Option<BTreeMap<String, u32>>,
    clear_limit: Option<u16>,

    ct: Option<String>,
    out: Option<String>,
    is_mark: Option<u32>,
    is_label: Option<String>,
    tuple: Option<String>,
    dump: Option<Vec<String>>,
    dump_all: Option<Vec<String>>,
    /// For each filter, the source ports or identifiers of the connections that it selects.
    chosen: Option<BTreeMap<String, Vec<u16>>>,
    stats: Option<String>,
    limits: Option<String>,
    count: Option<BTreeMap<String, u64>>,
    connections: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlushStep {
    zone: Option<u16>,
    #[serde(default)]
    original: String,
    #[serde(default)]
    reply: String,
    mark: Option<String>,
    labels: Option<String>,
    /// Returns the number of flushed connections, or `None` for an error.
    gone: Option<u32>,
}

fn run<S: SlowPathPacket>(case: &Case, make: impl Fn(Config) -> S) {
    let config = Config {
        connections_max: case.max.unwrap_or(3_000_000),
        check_tcp_windows: case.check_windows.unwrap_or(true),
        early_drop: case.early_drop,
        ..Config::default()
    };
    let tracker = make(config);
    set_limits(&tracker, &case.limits);
    for (zone, values) in &case.timeouts {
        let mut policy = TimeoutPolicy::new();
        for (name, &seconds) in values {
            policy.set(Timeout::from_name(name).unwrap(), seconds);
        }
        match zone.as_str() {
            "default" => tracker.set_timeouts(None, policy),
            zone => tracker.set_timeouts(Some(Zone(zone.parse().unwrap())), policy),
        }
    }
    let mut now_ms = 1_000_000;
    let mut last: Option<Frame> = None;
    let mut saved: BTreeMap<String, Frame> = BTreeMap::new();
    for (number, step) in case.steps.iter().enumerate() {
        now_ms = step.at_ms.map_or(now_ms + 1, |at| 1_000_000 + at);
        let now = Instant::from_millis(now_ms);
        let at = format!("{}, step {}", case.name, number + 1);
        order(&tracker, step, now, &at);
        if let Some(text) = &step.packet {
            last = Some(match step.part {
                Some([start, end]) => super::fragment(text, start, end, 7),
                None => super::frame(text),
            });
        }
        if let Some(name) = &step.recall {
            last = saved.remove(name);
        }
        if step.packet.is_some() || step.recall.is_some() || step.again {
            let mut frame = last.take().expect("a packet before");
            send(&tracker, case, step, now, &mut frame, &at);
            last = Some(frame);
        }
        if let Some(name) = &step.save {
            saved.extend(last.take().map(|frame| (name.clone(), frame)));
        }
        expect(&tracker, step, now, &at);
    }
}

fn set_limits(tracker: &impl SlowPathPacket, limits: &BTreeMap<String, u32>) {
    for (zone, &limit) in limits {
        let zone = (zone != "default").then(|| Zone(zone.parse().unwrap()));
        tracker.set_zone_limit(zone, limit);
    }
}

fn order(tracker: &impl SlowPathPacket, step: &Step, now: Instant, at: &str) {
    if let Some(check) = step.check_windows {
        tracker.set_check_tcp_windows(check);
    }
    if let Some(max) = step.max {
        tracker.set_connections_max(max);
    }
    if let Some(limits) = &step.limit {
        set_limits(tracker, limits);
    }
    if let Some(zone) = step.clear_limit {
        assert!(tracker.clear_zone_limit(Zone(zone)), "{at}: zone {zone} has no limit");
    }
    if step.tick {
        tracker.tick(now);
    }
    if let Some(FlushStep { zone, original, reply, mark, labels, gone }) = &step.flush {
        let mut flush = CtFlush { zone: zone.map(Zone), ..CtFlush::default() };
        mark.iter().for_each(|text| add_mark(&mut flush, text).unwrap());
        labels.iter().for_each(|text| add_labels(&mut flush, text).unwrap());
        add_tuple(&mut flush, Direction::Original, original).unwrap();
        add_tuple(&mut flush, Direction::Reply, reply).unwrap();
        assert_eq!(tracker.flush(now, &flush), *gone, "{at}: flushed");
    }
}

fn send(
    packet: &impl SlowPathPacket,
    case: &Case,
    step: &Step,
    now: Instant,
    frame: &mut Frame,
    at: &str,
) {
    let before = frame.packet.data().to_vec();
    match step.offload.as_deref() {
        None => {}
        Some("good") => frame.packet.offload.checksum = Checksum::Good,
        Some("partial") => {
            frame.packet.offload.checksum = Checksum::Partial;
        }
        Some(other) => panic!("{at}: unknown offload {other}"),
    }
    let mark = step.mark.as_deref().map(super::masked);
    let action = CtAction {
        commit: step.commit || step.force,
        force: step.force,
        zone: Zone(step.zone.unwrap_or(case.zone)),
        mark: mark.map(|it| Masked { value: it.value as u32, mask: it.mask as u32 }),
        label: step.label.as_deref().map(super::masked),
        nat: step.nat.as_deref().map(super::nat),
        helper: match step.helper.as_deref() {
            None => None,
            Some("ftp") => Some("ftp"),
            Some("tftp") => Some("tftp"),
            Some(other) => panic!("{at}: unknown helper {other}"),
        },
        timeout_policy: None,
    };
    let released = packet.track(now, &action, frame);
    if let Some(parts) = &step.parts {
        let found: Vec<String> = released.iter().map(part_text).collect();
        assert_eq!(found, *parts, "{at}: fragments that came out");
        assert!(frame.packet.is_empty(), "{at}: the fragment came out unchanged too");
        if released.iter().any(|frame| !frame.key.ct_state().contains(CtState::INV)) {
            super::check_fragments(&released);
        }
        return;
    }
    assert!(released.is_empty(), "{at}: fragments came out");
    let key = &frame.key;
    assert_eq!(key.ct_zone(), action.zone, "{at}: zone");
    let expected = step.ct.as_deref().unwrap_or_else(|| panic!("{at}: what is expected?"));
    assert_eq!(key.ct_state().to_string(), expected, "{at}: state");
    if let Some(mark) = step.is_mark {
        assert_eq!(key.ct_mark(), mark, "{at}: mark");
    }
    if let Some(label) = &step.is_label {
        assert_eq!(key.ct_label(), super::masked(label).value, "{at}: label");
    }
    if let Some(tuple) = &step.tuple {
        assert_eq!(tuple_text(frame), *tuple, "{at}: original tuple");
    }
    match &step.out {
        Some(out) => {
            let bytes = frame.packet.data();
            let expected = wire::text::parse(out).unwrap_or_else(|error| panic!("{at}: {error}"));
            // The Ethernet addresses of the text come from the IP addresses; NAT keeps them.
            let bytes = bytes_with_ethernet_of(&expected, bytes);
            let describe = |bytes: &[u8]| wire::text::describe(bytes).expect("whole headers");
            assert_eq!(describe(&bytes), describe(&expected), "{at}: packet");
            assert_eq!(bytes, expected, "{at}: packet");
        }
        None if action.nat.is_none() => assert_eq!(frame.packet.data(), before, "{at}: bytes"),
        None => {}
    }
    if !expected.contains("inv") && step.offload.is_none() {
        super::check_frame(frame);
    }
}

/// `new|trk: 10.0.0.1:1000>10.0.0.2:53 udp len=1472 frag=first`, without Ethernet addresses.
fn part_text(frame: &Frame) -> String {
    let text = wire::text::describe(frame.packet.data()).expect("whole headers");
    let words: Vec<&str> = text.split(' ').filter(|word| !word.starts_with("eth=")).collect();
    format!("{}: {}", frame.key.ct_state(), words.join(" "))
}

fn bytes_with_ethernet_of(ethernet: &[u8], rest: &[u8]) -> Vec<u8> {
    [&ethernet[..12], &rest[12..]].concat()
}

/// `proto=6,10.0.0.1:1000>10.0.0.2:80`, or `none`.
fn tuple_text(frame: &Frame) -> String {
    let key = &frame.key;
    let (src, dst, protocol) = (key.ct_tp_src(), key.ct_tp_dst(), key.ct_nw_proto());
    if protocol == 0 {
        return "none".to_owned();
    }
    if key.eth_type() == 0x0800 {
        let ip = |field| std::net::Ipv4Addr::from_bits(key.get(field) as u32);
        let (a, b) = (ip(Field::CtNwSrc), ip(Field::CtNwDst));
        return format!("proto={protocol},{a}:{src}>{b}:{dst}");
    }
    let ip = |field| std::net::Ipv6Addr::from_bits(key.get(field));
    let (a, b) = (ip(Field::CtIpv6Src), ip(Field::CtIpv6Dst));
    format!("proto={protocol},[{a}]:{src}>[{b}]:{dst}")
}

fn expect(tracker: &impl SlowPathPacket, step: &Step, now: Instant, at: &str) {
    if let Some(lines) = &step.dump {
        let entries = dump(tracker, now);
        let dump: Vec<String> = entries.iter().map(ToString::to_string).collect();
        assert_eq!(dump, *lines, "{at}: dump");
    }
    if let Some(lines) = &step.dump_all {
        let detail = Detail { more: true, statistics: true };
        let entries = dump(tracker, now);
        let dump: Vec<String> = entries.iter().map(|it| it.display(detail).to_string()).collect();
        assert_eq!(dump, *lines, "{at}: dump -m -s");
    }
    for (words, ports) in step.chosen.iter().flatten() {
        let mut filter = Filter::default();
        words.split(' ').for_each(|word| filter.add(word).unwrap());
        let entries =
            tracker.entries(now, &filter).into_iter().map(|entry| match entry.original.l4 {
                TupleL4::Ports { src, .. } => src,
                TupleL4::Icmp { id, .. } => id,
                TupleL4::None => 0,
            });
        let mut found: Vec<u16> = entries.collect();
        found.sort_unstable();
        assert_eq!(found, *ports, "{at}: chosen by {words}");
    }
    if let Some(text) = &step.stats {
        let stats = tracker.stats(now);
        assert_eq!(stats.display(true).to_string(), *text, "{at}: ct-stats-show -m");
    }
    if let Some(text) = &step.limits {
        assert_eq!(tracker.zone_limits().to_string(), *text, "{at}: ct-get-limits");
    }
    if let Some(connections) = step.connections {
        assert_eq!(tracker.connections(), connections, "{at}: connections");
    }
    for (name, &count) in step.count.iter().flatten() {
        let event = Event::ALL.iter().find(|event| event.name() == name);
        let event = *event.unwrap_or_else(|| panic!("{at}: there is no counter {name}"));
        assert_eq!(tracker.count(event), count, "{at}: {name}");
    }
}

/// All entries, sorted by their lines.
fn dump(tracker: &impl SlowPathPacket, now: Instant) -> Vec<Entry> {
    let mut entries = tracker.entries(now, &Filter::default());
    entries.sort_by_cached_key(ToString::to_string);
    entries
}
