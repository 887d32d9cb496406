use super::*;
use crate::bfd;
use base::MacAddr;
use flow::Protocol;

const START: Instant = Instant::from_millis(10_000);

fn settings(name: &str, config: bfd::Config) -> Settings {
    Settings { name: name.to_owned(), mac: MacAddr([2, 0, 0, 0, 0, 1]), bfd: Some(config) }
}

fn after(ms: u64) -> Instant {
    Instant::from_millis(START.as_millis() + ms)
}

/// Runs the ports, whose frames reach the port with the other last bit, for so many milliseconds. Returns how often a
/// machine sent.
fn pass(monitors: &mut Monitors, from_ms: u64, ms: u64) -> usize {
    let mut sent = 0;
    for now in (from_ms..from_ms + ms).map(after) {
        let mut out = Vec::new();
        monitors.run(now, usize::MAX, |_| None, &mut out);
        sent += out.len();
        for (id, frame) in out {
            let to = ToProtocol { monitor: MonitorId(id.0 ^ 1), protocol: Protocol::Bfd };
            monitors.receive(now, to, &frame.bytes);
        }
    }
    sent
}

fn alive(monitors: &mut Monitors) -> Vec<(u32, bool)> {
    monitors.take_changes().into_iter().map(|(id, it)| (id.0, it.is_alive)).collect()
}

#[test]
fn ports_are_reported_when_their_state_changes() {
    let mut monitors = Monitors::new(1);
    for id in 0..2 {
        monitors.configure(START, MonitorId(id), settings(&format!("p{id}"), <_>::default()));
    }
    assert_eq!(alive(&mut monitors), [(0, false), (1, false)]);
    pass(&mut monitors, 0, 4000);
    assert_eq!(alive(&mut monitors), [(0, true), (1, true)]);
    pass(&mut monitors, 4000, 1000);
    assert!(!monitors.has_changes());
    // The same settings again change nothing.
    monitors.configure(after(5000), MonitorId(0), settings("p0", <_>::default()));
    assert!(!monitors.has_changes());
    // Its peer is removed.
    monitors.remove(MonitorId(1));
    pass(&mut monitors, 5000, 4000);
    assert_eq!(alive(&mut monitors), [(0, false)]);
    monitors.remove(MonitorId(0));
    assert_eq!(monitors.next_timeout(), None);
}

#[test]
fn a_machine_runs_when_it_asked_for_it_and_no_sooner() {
    const PORTS: u32 = 500;
    let mut monitors = Monitors::new(2);
    let config = bfd::Config { min_tx_ms: 300, min_rx_ms: 300, ..<_>::default() };
    for id in 0..PORTS {
        monitors.configure(START, MonitorId(id), settings(&format!("p{id}"), config.clone()));
    }
    pass(&mut monitors, 0, 5000);
    assert!(alive(&mut monitors).iter().all(|(_, is_alive)| *is_alive));
    let sent = pass(&mut monitors, 5000, 3000);
    // A packet each 225 to 300 ms from each of them.
    assert!((10 * 500..=14 * 500).contains(&sent), "{sent}");
}

#[test]
fn a_frame_for_a_port_that_is_gone_is_ignored() {
    let mut monitors = Monitors::new(3);
    let to = ToProtocol { monitor: MonitorId(5), protocol: Protocol::Bfd };
    monitors.receive(START, to, &[0; 66]);
    assert_eq!((monitors.next_timeout(), monitors.has_changes()), (None, false));
}

#[test]
fn a_command_chooses_a_port_by_its_name_or_all() {
    let mut monitors = Monitors::new(4);
    for id in 0..3 {
        monitors.configure(START, MonitorId(id), settings(&format!("p{id}"), <_>::default()));
    }
    alive(&mut monitors);
    assert!(monitors.force_bfd(START, Some("p1"), Some(true)));
    assert_eq!(alive(&mut monitors), [(1, true)]);
    assert!(!monitors.force_bfd(START, Some("p9"), Some(true)));
    assert!(monitors.force_bfd(START, None, None));
    assert_eq!(alive(&mut monitors), [(0, false), (1, false), (2, false)]);
}
