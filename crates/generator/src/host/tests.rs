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

    /// Any well-formed segments in any order cause no panic, and every connection is accounted for.
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
            // Half of them acknowledge what the host really sent, so that they pass the first check.
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

/// Messages of a Linux bridge and a router on the same wire do not count as the test's.
#[test]
fn frames_of_other_stacks_are_counted_apart() {
    let mut host = server();
    let (mut pool, mut batch) = (Pool::new(8), Batch::new());
    let hex = |text: &str| -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    };
    let others = [
        // MLDv2 report, with its router alert.
        "333300000016 d6e5c7a1b2c3 86dd 6000000000240001 00000000000000000000000000000000
         ff020000000000000000000000000016 3a00050200000100 8f00 6cd3 00000001
         04000000 ff0200000000000000000001ffa1b2c3",
        // Duplicate address detection, for an address that no host here has.
        "3333ffa1b2c3 d6e5c7a1b2c3 86dd 6000000000183aff 00000000000000000000000000000000
         ff0200000000000000000001ffa1b2c3 8700 f0a5 00000000 fe80000000000000d4e5c7fffea1b2c3",
        // A bridge's spanning tree.
        "0180c2000000 d6e5c7a1b2c3 0026 424203 0000000000 8000d6e5c7a1b2c3 00000000
         8000d6e5c7a1b2c3 8001 0000 1400 0200 0f00 0000000000000000",
        // A router asks for the server's address, which is answered, and announces its own.
        "ffffffffffff d6e5c7a1b2c3 0806 0001080006040001 d6e5c7a1b2c3 0a0000fe
         000000000000 0a000002",
        "ffffffffffff d6e5c7a1b2c3 0806 0001080006040002 d6e5c7a1b2c3 0a0000fe
         d6e5c7a1b2c3 0a0000fe",
    ];
    for frame in others.map(hex) {
        let mut packet = pool.take();
        packet.receive_area()[..frame.len()].copy_from_slice(&frame);
        packet
            .set_received(frame.len(), Offload { checksum: Checksum::Good, ..Offload::default() });
        batch.push(packet);
    }
    host.receive(&mut pool, &mut batch, Instant::ZERO);
    host.transmit(&mut pool, &mut batch, Instant::ZERO);
    let s = host.statistics();
    assert_eq!((s.rx_packets, s.rx_foreign, s.received()), (5, 5, 0), "{s:?}");
    assert_eq!((batch.len(), s.tx_packets, s.sent()), (1, 1, 0), "{s:?}");
    // The host's own frames that come back are not foreign.
    let from = Wire { mac: host.wire.mac, vlan: None, text: None };
    let (local, wanted) = (Address::v4([10, 0, 0, 2]), Address::v4([10, 0, 0, 1]));
    let mut packet = pool.take();
    frame::resolution(&mut packet, &from, &Resolution::Ask { local, wanted });
    batch.clear();
    batch.push(packet);
    host.receive(&mut pool, &mut batch, Instant::ZERO);
    assert_eq!((host.statistics().rx_returned, host.statistics().received()), (1, 1));
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
