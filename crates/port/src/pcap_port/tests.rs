use super::*;
use packet::{Gso, GsoKind, Offload, Packet};
use std::cell::Cell;

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(0) };
}

fn clock() -> Duration {
    Duration::from_millis(1_000_000 + NOW_MS.get())
}

fn options(pairs: &[(&str, &str)]) -> Result<PcapOptions, String> {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    PcapOptions::parse(&pairs.collect())
}

/// Three frames, captured at 0, 10 and 30 ms.
fn capture(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("in.pcap");
    let mut file = PcapTx::create(&path, clock).unwrap();
    for (at_ms, byte) in [(0, 1), (10, 2), (30, 3)] {
        file.record(Duration::from_millis(5000 + at_ms), &[byte; 60]).unwrap();
    }
    let _ = file.send(&mut Pool::new(1), &mut Batch::new());
    path.display().to_string()
}

/// Receives once. Returns the first byte of each frame.
fn receive(rx: &mut PcapPortRx) -> Vec<u8> {
    let mut batch = Batch::new();
    rx.receive(&mut Pool::new(64), &mut batch).unwrap();
    batch.iter().map(|packet| packet.data()[0]).collect()
}

#[test]
fn options_are_read_or_refused_in_words() {
    let check = |pairs: &[(&str, &str)], expect: Result<(Play, Pace), &str>| {
        let found = options(pairs).map(|options| (options.play, options.pace));
        assert_eq!(found, expect.map_err(str::to_owned), "{pairs:?}");
    };
    check(&[], Ok((Play::Once, Pace::Full)));
    check(&[("infinite_rx", "1"), ("rx_pace", "recorded")], Ok((Play::Loop, Pace::Recorded)));
    check(&[("rx_rounds", "7"), ("infinite_rx", "false")], Ok((Play::Rounds(7), Pace::Full)));
    check(
        &[("rx_rounds", "7"), ("infinite_rx", "true")],
        Err("options:infinite_rx and options:rx_rounds exclude each other; remove one"),
    );
    check(
        &[("rx_rounds", "-1")],
        Err("options:rx_rounds is \"-1\"; it has to be a number of rounds"),
    );
    check(
        &[("rx_pace", "fast")],
        Err("options:rx_pace is \"fast\"; it has to be full, recorded or window:FRAMES"),
    );
    check(&[("rx_pace", "window:64")], Ok((Play::Once, Pace::Window(64))));
    check(
        &[("rx_pace", "window:0")],
        Err("options:rx_pace is \"window:0\"; it has to be full, recorded or window:FRAMES"),
    );
    check(
        &[("infinite_rx", "yes")],
        Err("options:infinite_rx is \"yes\"; it has to be true or false"),
    );
    check(
        &[("rx_pcapp", "x")],
        Err("options:rx_pcapp is unknown; there are rx_pcap, infinite_rx, rx_rounds, rx_pace, \
             tx_pcap"),
    );
    let files = options(&[("rx_pcap", "/a"), ("tx_pcap", "")]).unwrap();
    assert_eq!((files.played, files.recorded), (Some("/a".into()), None));
}

#[test]
fn a_file_is_played_as_often_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(&folder);
    let check = |rounds: &str, expect: &[u8]| {
        let options = options(&[("rx_pcap", &path), ("rx_rounds", rounds)]).unwrap();
        let port = PcapPort::open(options, clock).unwrap();
        let mut rx = port.rx();
        assert_eq!(receive(&mut rx), expect, "{rounds} rounds");
        assert_eq!((receive(&mut rx), rx.quiet_for()), (vec![], Duration::MAX));
        let count = expect.len() as u64;
        let counts = port.counts();
        assert_eq!((counts.rx_packets, counts.rx_bytes), (count, count * 60));
    };
    check("0", &[]);
    check("1", &[1, 2, 3]);
    check("3", &[1, 2, 3, 1, 2, 3, 1, 2, 3]);
    let endless = options(&[("rx_pcap", &path), ("infinite_rx", "true")]).unwrap();
    let mut rx = PcapPort::open(endless, clock).unwrap().rx();
    assert_eq!(receive(&mut rx).len(), 32);
    assert_eq!((receive(&mut rx).len(), rx.quiet_for()), (32, Duration::ZERO));
}

#[test]
fn frames_come_at_the_times_at_which_they_were_captured() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(&folder);
    let paced = [("rx_pcap", path.as_str()), ("rx_rounds", "2"), ("rx_pace", "recorded")];
    let port = PcapPort::open(options(&paced).unwrap(), clock).unwrap();
    let mut rx = port.rx();
    for (at_ms, expect, quiet_ms) in [
        (100, &[1][..], Some(10)),
        (105, &[], Some(5)),
        (110, &[2], Some(20)),
        (131, &[3, 1], Some(10)),
        (200, &[2, 3], None),
        (900, &[], None),
    ] {
        NOW_MS.set(at_ms);
        assert_eq!(receive(&mut rx), expect, "at {at_ms} ms");
        let quiet = quiet_ms.map_or(Duration::MAX, Duration::from_millis);
        assert_eq!(rx.quiet_for(), quiet, "after {at_ms} ms");
    }
}

#[test]
fn all_queues_record_into_one_file_and_without_one_packets_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    let recorded = options(&[("tx_pcap", path.to_str().unwrap())]).unwrap();
    for (options, written) in [(recorded, true), (options(&[]).unwrap(), false)] {
        let port = PcapPort::open(options, clock).unwrap();
        let mut pool = Pool::new(4);
        for mut tx in [port.tx(), port.tx()] {
            let mut batch = Batch::new();
            batch.push(Packet::from_bytes(&[7; 60]));
            let mut nonsense = Packet::from_bytes(&[8; 60]);
            let gso = Gso { kind: GsoKind::TcpV4, segment_bytes: 10, ecn: false };
            nonsense.offload = Offload { gso: Some(gso), ..Offload::default() };
            batch.push(nonsense);
            let sent = tx.send(&mut pool, &mut batch);
            assert_eq!((sent.packets, sent.bytes, sent.errors), (1, 60, 1));
        }
        let counts = port.counts();
        assert_eq!((counts.tx_packets, counts.tx_bytes, counts.tx_errors), (2, 120, 2));
        if written {
            assert_eq!(Capture::open(&path).unwrap().len(), 2);
        }
    }
}

#[test]
fn files_that_are_not_there_are_named() {
    let check = |pairs: &[(&str, &str)], expect: &str| {
        let error = PcapPort::open(options(pairs).unwrap(), clock).err().expect("an error");
        assert!(error.to_string().starts_with(expect), "{error}");
    };
    check(&[("rx_pcap", "/nonexistent/a")], "/nonexistent/a: could not read the pcap file");
    check(&[("tx_pcap", "/nonexistent/b")], "/nonexistent/b: could not create the pcap file");
}

#[test]
fn with_a_window_frames_are_played_as_earlier_ones_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(&folder);
    let options =
        options(&[("rx_pcap", &path), ("infinite_rx", "true"), ("rx_pace", "window:2")]).unwrap();
    let port = PcapPort::open(options, clock).unwrap();
    let (mut rx, mut tx) = (port.rx(), port.tx());
    let mut back = |frames: usize| {
        let mut batch: Batch = (0..frames).map(|_| Packet::from_bytes(&[0; 60])).collect();
        assert_eq!(tx.send(&mut Pool::new(1), &mut batch).packets, frames as u64);
    };
    assert_eq!(receive(&mut rx), [1, 2]);
    assert_eq!(receive(&mut rx), []);
    back(1);
    assert_eq!(receive(&mut rx), [3]);
    // What does not come back is waited for a while.
    NOW_MS.set(150);
    assert_eq!(receive(&mut rx), []);
    back(1);
    assert_eq!(receive(&mut rx), [1]);
    NOW_MS.set(349);
    assert_eq!(receive(&mut rx), []);
    NOW_MS.set(350);
    assert_eq!(receive(&mut rx), [2, 3]);
    assert_eq!(rx.quiet_for(), Duration::from_micros(50));
    // The two that were given up come back after all, and do not widen the window.
    back(4);
    assert_eq!(receive(&mut rx), [1, 2]);
    assert_eq!(receive(&mut rx), []);
    NOW_MS.set(0);
}
