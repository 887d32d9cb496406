use super::*;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const START_MS: u64 = 10_000;

fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn config(text: &str) -> Config {
    Config::parse(&pairs(&format!("enable=true {text}")), |key, words| panic!("{key}: {words}"))
        .unwrap()
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(START_MS + ms)
}

fn session(number: u32, text: &str) -> Bfd {
    let identity = Identity { discriminator: 100 + number, number, seed: u64::from(number) };
    Bfd::new(at(0), &format!("p{number}"), identity, config(text))
}

#[test]
fn settings_have_the_defaults_of_open_vswitch_and_wrong_ones_are_told() {
    let mac = |last| MacAddr([0, 1, 2, 3, 4, last]);
    let ip = Ipv4Addr::new(10, 0, 0, 1);
    let d = Config::default;
    // The column without `enable`, what comes of it, and the keys that are told.
    let cases: &[(&str, Config, &[&str])] = &[
        ("", d(), &[]),
        ("min_tx=300", Config { min_tx_ms: 300, ..d() }, &[]),
        ("min_tx=0", Config { min_tx_ms: 1, ..d() }, &[]),
        ("min_tx=-1", d(), &["min_tx"]),
        ("min_tx=fast", d(), &["min_tx"]),
        ("min_tx=4294968", d(), &["min_tx"]),
        ("min_rx=250", Config { min_rx_ms: 250, ..d() }, &[]),
        ("min_rx=0", Config { min_rx_ms: 1, ..d() }, &[]),
        ("mult=1", Config { multiplier: 1, ..d() }, &[]),
        ("mult=255", Config { multiplier: 255, ..d() }, &[]),
        ("mult=0", d(), &[]),
        ("mult=256", d(), &[]),
        ("decay_min_rx=1000", Config { decay_min_rx_ms: 1000, ..d() }, &[]),
        ("decay_min_rx=999", d(), &["decay_min_rx"]),
        ("cpath_down=true", Config { cpath_down: true, ..d() }, &[]),
        ("cpath_down=True", Config { cpath_down: true, ..d() }, &[]),
        ("cpath_down=yes", d(), &[]),
        ("forwarding_if_rx=true", Config { forwarding_if_rx: true, ..d() }, &[]),
        ("oam=true", Config { oam: true, ..d() }, &[]),
        ("check_tnl_key=true", Config { check_tunnel_key: true, ..d() }, &[]),
        ("bfd_local_src_mac=00:01:02:03:04:05", Config { local_source: Some(mac(5)), ..d() }, &[]),
        (
            "bfd_local_dst_mac=00:01:02:03:04:06",
            Config { local_destination: Some(mac(6)), ..d() },
            &[],
        ),
        (
            "bfd_remote_dst_mac=00:01:02:03:04:07",
            Config { remote_destination: Some(mac(7)), ..d() },
            &[],
        ),
        ("bfd_remote_dst_mac=00:00:00:00:00:00", d(), &[]),
        ("bfd_remote_dst_mac=none", d(), &["bfd_remote_dst_mac"]),
        ("bfd_src_ip=10.0.0.1", Config { source: ip, ..d() }, &[]),
        ("bfd_dst_ip=10.0.0.1", Config { destination: ip, ..d() }, &[]),
        ("bfd_src_ip=host", d(), &["bfd_src_ip"]),
        ("bfd_dst_ip=10.0.0", d(), &["bfd_dst_ip"]),
    ];
    for (text, expect, told) in cases {
        let mut keys = Vec::new();
        let parsed = Config::parse(&pairs(&format!("enable=true {text}")), |key, _| keys.push(key));
        assert_eq!((parsed.as_ref(), &keys[..]), (Some(expect), *told), "{text}");
    }
    for off in ["", "enable=false", "enable=1", "min_tx=100"] {
        assert_eq!(Config::parse(&pairs(off), |_, _| {}), None, "{off}");
    }
}

/// A valid first packet of a peer.
fn first() -> Control {
    Control {
        version: 1,
        diagnostic: 0,
        state: State::Down,
        flags: 0,
        multiplier: 3,
        length: 24,
        own: 7,
        other: 0,
        min_tx_us: 1_000_000,
        min_rx_us: 300_000,
        min_echo_rx_us: 0,
    }
}

fn frame(control: &Control) -> Vec<u8> {
    control.frame([MAC, DESTINATION_MAC], [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()], 50_000)
}

#[test]
fn packets_are_discarded_as_the_rfc_says() {
    let check = |what: &str, control: Control, expect: bool| {
        let mut bfd = session(1, "");
        assert_eq!(bfd.receive(at(1), &frame(&control)), expect, "{what}");
        let state = if expect { State::Init } else { State::Down };
        assert_eq!(bfd.state(), state, "{what}");
    };
    check("valid", first(), true);
    check("version 0", Control { version: 0, ..first() }, false);
    check("version 2", Control { version: 2, ..first() }, false);
    check("authenticated", Control { flags: flag::AUTH, ..first() }, false);
    check("multipoint", Control { flags: flag::MULTIPOINT, ..first() }, false);
    check("demand", Control { flags: flag::DEMAND, ..first() }, true);
    check("control plane independent", Control { flags: flag::CTL, ..first() }, true);
    check("length 23", Control { length: 23, ..first() }, false);
    check("length 26", Control { length: 26, ..first() }, true);
    check("multiplier 0", Control { multiplier: 0, ..first() }, false);
    check("no discriminator", Control { own: 0, ..first() }, false);
    check("its own discriminator", Control { other: 101, ..first() }, true);
    check("another's discriminator", Control { other: 102, ..first() }, false);
    check("up without a discriminator", Control { state: State::Up, ..first() }, false);
    check("init without a discriminator", Control { state: State::Init, ..first() }, false);
}

#[test]
fn frames_that_are_no_packets_of_a_neighbour_change_nothing() {
    let good = frame(&first());
    let check = |what: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let mut bfd = session(1, "");
        let before = bfd.show(at(1));
        assert!(!bfd.receive(at(1), &bytes), "{what}");
        assert_eq!(bfd.show(at(1)), before, "{what}");
    };
    for len in 0..good.len() {
        check(&format!("{len} bytes"), &|bytes| bytes.truncate(len));
    }
    check("TTL 254", &|bytes| bytes[22] = 254);
    check("TCP", &|bytes| bytes[23] = 6);
    check("IPv6", &|bytes| bytes[12..14].copy_from_slice(&[0x86, 0xdd]));
    // In a frame with tags it is one.
    let mut tagged = good.clone();
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    assert!(session(1, "").receive(at(1), &tagged));
}

#[test]
fn a_packet_reads_as_it_was_written() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..1000 {
        let mut bytes = [0; LENGTH];
        random.fill(&mut bytes);
        let control = Control::parse(&bytes).unwrap();
        assert_eq!(control.bytes(), bytes);
        assert_eq!(Control::in_frame(&frame(&control)), Ok(control));
    }
}

/// Two sessions with a link between them.
struct Link {
    ends: [Bfd; 2],
    now_ms: u64,
    random: fastrand::Rng,
    /// Which direction loses frames, from the first end and from the second, in percent.
    loss: [u32; 2],
    sent: [u64; 2],
    /// Packets that each end has received, besides control packets.
    traffic: [u64; 2],
    /// Whether ports count control packets.
    received: [u64; 2],
}

impl Link {
    fn new(first: &str, second: &str) -> Link {
        Link {
            ends: [session(1, first), session(2, second)],
            now_ms: 0,
            random: fastrand::Rng::with_seed(5),
            loss: [0; 2],
            sent: [0; 2],
            traffic: [0; 2],
            received: [0; 2],
        }
    }

    /// Lets time pass, in steps of a millisecond. An end runs only when it asked for it.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            let now = at(self.now_ms);
            for end in [0, 1, 0, 1] {
                if self.ends[end].next_timeout() > now {
                    continue;
                }
                let received = self.traffic[end] + self.received[end];
                self.ends[end].count(now, received);
                let frame = self.ends[end].send(now, MAC);
                self.ends[end].run(now);
                let Some(frame) = frame else { continue };
                self.sent[end] += 1;
                if self.random.u32(0..100) >= self.loss[end] {
                    self.received[1 - end] += 1;
                    self.ends[1 - end].receive(now, &frame.bytes);
                }
            }
        }
    }

    fn states(&self) -> [State; 2] {
        [self.ends[0].state(), self.ends[1].state()]
    }

    fn status(&self, end: usize, key: &str) -> String {
        let status = self.ends[end].status();
        status.into_iter().find(|(name, _)| *name == key).unwrap().1
    }
}

#[test]
fn two_ends_come_up_and_go_down() {
    use State::{Down, Init, Up};
    // Settings of the ends, what each direction loses in percent, and the states after five seconds.
    let cases = [
        ("", "", [0, 0], [Up, Up]),
        ("min_tx=10 min_rx=10", "min_tx=500 min_rx=500", [0, 0], [Up, Up]),
        ("mult=1", "", [0, 0], [Up, Up]),
        ("", "", [100, 100], [Down, Down]),
        // One that is heard and does not hear stays down; the other one waits for it.
        ("", "", [100, 0], [Init, Down]),
        ("", "", [0, 100], [Down, Init]),
        ("", "", [30, 30], [Up, Up]),
    ];
    for (first, second, loss, expect) in cases {
        let mut link = Link::new(first, second);
        link.loss = loss;
        link.pass(5000);
        assert_eq!(link.states(), expect, "{first} | {second} | {loss:?}");
    }
    let mut link = Link::new("min_tx=100 min_rx=100", "min_tx=100 min_rx=100");
    link.pass(5000);
    assert_eq!(link.states(), [Up, Up]);
    let up = link.sent;
    link.pass(10_000);
    // A packet each 75 to 100 ms.
    for end in [0, 1] {
        assert!((100..=134).contains(&(link.sent[end] - up[end])), "{:?}", link.sent);
    }
    link.loss = [100, 100];
    link.pass(301);
    assert_eq!(link.states(), [Down, Down]);
    assert_eq!(link.status(0, "diagnostic"), "Control Detection Time Expired");
    link.loss = [0, 0];
    link.pass(3000);
    assert_eq!(link.states(), [Up, Up]);
    assert_eq!(link.status(0, "flap_count"), "3");
}

#[test]
fn a_lost_direction_is_told_to_the_peer() {
    let mut link = Link::new("min_rx=100", "min_rx=100");
    link.pass(5000);
    link.loss = [100, 0];
    link.pass(1500);
    assert_eq!(link.states(), [State::Init, State::Down]);
    assert_eq!(link.status(1, "diagnostic"), "Control Detection Time Expired");
    assert_eq!(link.status(0, "diagnostic"), "Neighbor Signaled Session Down");
    assert_eq!(link.status(0, "remote_diagnostic"), "Control Detection Time Expired");
}

#[test]
fn changed_intervals_are_negotiated() {
    // The change of the first end, and the intervals that it then has: between its packets, and between the peer's.
    let cases = [
        ("min_tx=200", (200, 100)),
        ("min_tx=50", (100, 100)),
        ("min_rx=300", (100, 300)),
        ("min_rx=50", (100, 100)),
        ("min_tx=400 min_rx=500", (400, 500)),
    ];
    for (change, (tx, rx)) in cases {
        let mut link = Link::new("min_tx=100 min_rx=100", "min_tx=100 min_rx=100");
        link.pass(5000);
        let config = config(&format!("min_tx=100 min_rx=100 {change}"));
        link.ends[0].configure(at(link.now_ms), config.clone());
        link.pass(2000);
        let end = &link.ends[0];
        assert_eq!((end.tx_interval_ms(), end.rx_interval_ms()), (tx, rx), "{change}");
        assert_eq!((end.min_tx_ms, end.min_rx_ms), (config.min_tx_ms, config.min_rx_ms));
        assert_eq!(end.flags, 0, "{change}");
        assert_eq!(link.states(), [State::Up; 2], "{change}");
        assert_eq!(link.status(0, "flap_count"), "1", "{change}");
    }
}

#[test]
fn a_concatenated_path_that_is_down_stops_forwarding_at_the_peer_alone() {
    let mut link = Link::new("", "");
    link.pass(5000);
    let forwarding = |link: &Link| link.ends.each_ref().map(Bfd::is_forwarding);
    assert_eq!(forwarding(&link), [true, true]);
    link.ends[0].configure(at(link.now_ms), config("cpath_down=true"));
    link.pass(2000);
    assert_eq!(forwarding(&link), [true, false]);
    assert_eq!(link.status(1, "remote_diagnostic"), "Concatenated Path Down");
    link.ends[0].configure(at(link.now_ms), config(""));
    link.pass(2000);
    assert_eq!((forwarding(&link), link.states()), ([true, true], [State::Up; 2]));
}

#[test]
fn a_command_overrides_the_session() {
    let mut bfd = session(1, "");
    for (forced, expect) in [(Some(true), true), (Some(false), false), (None, false)] {
        bfd.take_changed();
        bfd.set_forwarding(at(1), forced);
        assert_eq!((bfd.is_forwarding(), bfd.take_changed()), (expect, true), "{forced:?}");
    }
}

#[test]
fn the_interval_decays_without_traffic() {
    let mut link = Link::new("min_rx=300 decay_min_rx=3000", "min_tx=300");
    link.pass(5000);
    link.pass(8000);
    assert_eq!((link.ends[0].min_rx_ms, link.ends[0].is_in_decay), (3000, true));
    // The peer sends as rarely.
    assert_eq!(link.ends[1].tx_interval_ms(), 3000);
    for _ in 0..100 {
        link.traffic[0] += 10;
        link.pass(100);
    }
    assert_eq!((link.ends[0].min_rx_ms, link.ends[0].is_in_decay), (300, false));
    assert_eq!(link.ends[1].tx_interval_ms(), 300);
    assert_eq!(link.states(), [State::Up; 2]);
    assert_eq!(link.status(0, "flap_count"), "1");
}

#[test]
fn received_packets_make_the_port_forward_while_a_control_packet_came_lately() {
    let mut link = Link::new("min_rx=300 forwarding_if_rx=true", "min_tx=300");
    let traffic = |link: &mut Link, ms: u64| {
        for _ in 0..ms / 100 {
            link.traffic[0] += 1;
            link.pass(100);
        }
    };
    // Without a control packet traffic counts for nothing.
    link.loss = [100, 100];
    traffic(&mut link, 3000);
    assert!(!link.ends[0].is_forwarding());
    link.loss = [0, 0];
    link.pass(5000);
    assert!(link.ends[0].is_forwarding());
    // The session is down, and the port still forwards what comes.
    link.loss = [100, 100];
    traffic(&mut link, 5000);
    assert_eq!((link.ends[0].state(), link.ends[0].is_forwarding()), (State::Down, true));
    link.pass(2200);
    assert!(!link.ends[0].is_forwarding());
    // Control packets are required each 100 intervals.
    traffic(&mut link, 500);
    assert!(link.ends[0].is_forwarding());
    traffic(&mut link, 30_000);
    assert!(!link.ends[0].is_forwarding());
}

#[test]
fn frames_carry_the_configured_addresses() {
    let text = "bfd_local_src_mac=00:01:02:03:04:05 bfd_local_dst_mac=00:01:02:03:04:06 \
                bfd_src_ip=10.0.0.1 bfd_dst_ip=10.0.0.2 oam=true";
    let sent = session(3, text).send(at(0), MAC).unwrap();
    assert!(sent.oam);
    let bytes = &sent.bytes;
    assert_eq!(bytes[..12], [0, 1, 2, 3, 4, 6, 0, 1, 2, 3, 4, 5]);
    assert_eq!(bytes[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
    // The third session's source port, and the protocol's.
    assert_eq!(bytes[34..38], [0xc0, 3, 0x0e, 0xc8]);
    let plain = session(3, "").send(at(0), MAC).unwrap();
    let ethernet = wire::Ethernet::new_checked(&plain.bytes[..]).unwrap();
    assert_eq!((ethernet.source(), ethernet.destination()), (MAC, DESTINATION_MAC));
    assert_eq!(plain.bytes[22], TTL);
}

#[test]
fn a_flood_of_wrong_packets_says_little_in_the_log() {
    let mut bfd = session(1, "");
    for _ in 0..1000 {
        bfd.receive(at(1), &frame(&Control { version: 0, ..first() }));
    }
    assert!(bfd.take_lines().len() <= 16);
}

/// Runs a session as often as it asks for it, which must end.
fn run(bfd: &mut Bfd, now: Instant) {
    for _ in 0..8 {
        if bfd.next_timeout() > now {
            return;
        }
        bfd.send(now, MAC);
        bfd.run(now);
    }
    panic!("{}", bfd.show(now));
}

#[test]
fn whatever_comes_a_session_asks_for_a_later_time_and_keeps_its_limits() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bfd = session(1, "");
        let mut now_ms = 0;
        for _ in 0..200 {
            now_ms += random.u64(0..500);
            let now = at(now_ms);
            match random.u32(0..10) {
                0 => {
                    let ms = |random: &mut fastrand::Rng| 1 << random.u32(0..12);
                    bfd.configure(
                        now,
                        Config {
                            multiplier: random.u8(1..),
                            min_tx_ms: ms(&mut random),
                            min_rx_ms: ms(&mut random),
                            decay_min_rx_ms: random.u32(0..2) * ms(&mut random),
                            cpath_down: random.bool(),
                            forwarding_if_rx: random.bool(),
                            ..Config::default()
                        },
                    );
                }
                1 => bfd.count(now, random.u64(0..100)),
                2 => bfd.set_forwarding(now, random.bool().then(|| random.bool())),
                _ => {
                    let mut bytes = [0; LENGTH];
                    random.fill(&mut bytes);
                    let control = Control {
                        version: 1,
                        flags: random.u8(..) & (flag::POLL | flag::FINAL),
                        length: 24,
                        other: 101,
                        ..Control::parse(&bytes).unwrap()
                    };
                    bfd.receive(now, &frame(&control));
                }
            }
            run(&mut bfd, now);
            assert!(bfd.take_lines().len() <= 16);
            assert_ne!(bfd.state(), State::AdminDown);
            assert_ne!(bfd.flags & (flag::POLL | flag::FINAL), flag::POLL | flag::FINAL);
        }
    }
}
