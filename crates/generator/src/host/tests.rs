use super::*;
use crate::frame;
use crate::frame_in::{Arrived, Content};
use proptest::prelude::*;

fn server() -> Host {
    let config = HostConfig {
        role: Role::Server,
        mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        gateway: None,
        profile: Profile {
            clients: "10.0.0.1".parse().unwrap(),
            servers: "10.0.0.2".parse().unwrap(),
            client_ports: "1-65535".parse().unwrap(),
            udp_percent: 50.0,
            ..Profile::default()
        },
        seed: 1,
        capacity: 50,
    };
    Host::new(config, Instant::ZERO).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Whatever well-formed segments arrive, in whatever order, nothing panics and every
    /// connection is accounted for.
    #[test]
    fn any_segments_are_survived(
        segments in proptest::collection::vec(
            (0u8..64, prop_oneof![0u32..60, any::<u32>()], any::<u32>(), 0u16..100, 0u16..4,
             proptest::option::of((0u16..2000, proptest::option::of(any::<u8>()))), any::<bool>()),
            1..80,
        ),
    ) {
        let mut host = server();
        let (mut pool, mut batch) = (Pool::new(8), Batch::new());
        let from = Wire { mac: MacAddr([2, 0, 0, 0, 0, 1]), vlan: None, text: None };
        let mut last_seq = 0u32;
        for (ms, (flags, seq, ack, length, window, options, believable)) in
            segments.into_iter().enumerate()
        {
            let flow = Flow {
                local: Address::v4([10, 0, 0, 1]),
                remote: Address::v4([10, 0, 0, 2]),
                local_port: 7,
                remote_port: 8080,
                protocol: PROTOCOL_TCP,
            };
            let now = Instant::from_millis(ms as u64 * 40);
            // Half acknowledge what the host really sent, so that they get past the first check.
            let ack = if believable { last_seq.wrapping_add(ack % 3) } else { ack };
            let out = SegmentOut { seq, ack, flags, window, options, offset: seq.wrapping_sub(1), length };
            let mut packet = pool.take();
            frame::tcp(&mut packet, &from, host.wire.mac, &flow, &out);
            batch.push(packet);
            host.receive(&mut pool, &mut batch, now);
            host.tick(now);
            host.transmit(&mut pool, &mut batch, now);
            for packet in batch.drain(..) {
                if let Ok(Arrived { content: Content::Tcp(segment), .. }) =
                    frame_in::read(packet.data(), None, true)
                {
                    last_seq = segment.seq;
                }
            }
            let s = host.statistics();
            prop_assert_eq!(s.accepted, s.completed + s.failed.total() + host.alive() as u64);
        }
    }
}

#[test]
fn questions_about_its_addresses_are_answered_and_others_not() {
    let mut host = server();
    let (mut pool, mut batch) = (Pool::new(8), Batch::new());
    let from = Wire { mac: MacAddr([2, 0, 0, 0, 0, 1]), vlan: None, text: None };
    for (wanted, answers) in [([10, 0, 0, 2], 1), ([10, 0, 0, 3], 0)] {
        let ask =
            Resolution::Ask { local: Address::v4([10, 0, 0, 1]), wanted: Address::v4(wanted) };
        let mut packet = pool.take();
        frame::resolution(&mut packet, &from, &ask);
        batch.push(packet);
        host.receive(&mut pool, &mut batch, Instant::ZERO);
        host.transmit(&mut pool, &mut batch, Instant::ZERO);
        assert_eq!(batch.len(), answers);
        for packet in batch.drain(..) {
            assert_eq!(packet.data()[..6], from.mac.0);
        }
    }
    assert_eq!(host.statistics().rx_foreign, 1);
}

#[test]
fn when_the_last_is_opened_nothing_is_missed_or_over_a_limit() {
    let profile = Profile { connections_at_once: 10, ..Profile::default() };
    let config = HostConfig {
        role: Role::Client,
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: None,
        gateway: Some(MacAddr([2, 0, 0, 0, 0, 2])),
        profile,
        seed: 1,
        capacity: 10,
    };
    let mut host = Host::new(config, Instant::ZERO).unwrap();
    host.open_at(1000, 0, Instant::ZERO);
    host.stop_opening_after(10);
    for ms in 1..2000 {
        host.tick(Instant::from_millis(ms * if ms > 1000 { 50 } else { 1 }));
    }
    let s = host.statistics();
    assert_eq!((s.opened, s.at_limit, host.missed_opens()), (10, 0, 0));
}
