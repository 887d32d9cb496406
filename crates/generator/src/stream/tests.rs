use super::*;
use crate::address::Address;
use std::collections::HashSet;

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

/// Two stations and a wire that the test controls.
struct Pair {
    initiator: Station,
    responder: Station,
    pool: Pool,
    now: Instant,
}

impl Pair {
    fn new(flows: u32) -> Pair {
        Pair::of(Network::V4, flows)
    }

    fn of(network: Network, flows: u32) -> Pair {
        let config = |own: usize| StationConfig {
            mac: MACS[own],
            to: MACS[1 - own],
            vlan: None,
            frame_bytes: network.frame_bytes_min(),
            network,
            seed: 5,
        };
        Pair {
            initiator: Station::initiator(config(0), flows),
            responder: Station::responder(config(1), flows),
            pool: Pool::new(64),
            now: Instant::from_nanos(1),
        }
    }

    /// Runs in steps of 100 us until all frames are sent; `wire` returns how often each frame arrives.
    fn run(&mut self, mut wire: impl FnMut(&mut Packet) -> usize) {
        for _ in 0..100_000 {
            for there in [true, false] {
                let (from, to) = match there {
                    true => (&mut self.initiator, &mut self.responder),
                    false => (&mut self.responder, &mut self.initiator),
                };
                let (mut out, mut arrives) = (Batch::new(), Batch::new());
                from.transmit(&mut self.pool, &mut out, self.now);
                for mut packet in out.drain(..) {
                    for _ in 0..wire(&mut packet) {
                        arrives.push(self.pool.copy(&packet));
                        to.receive(&mut self.pool, &mut arrives, self.now);
                    }
                }
            }
            if self.initiator.is_done() && self.responder.is_done() {
                return;
            }
            self.now = self.now + std::time::Duration::from_micros(100);
        }
        panic!("it never ends");
    }
}

#[test]
fn flows_run_between_all_addresses_of_either_version() {
    // Offset and length of the addresses in a frame.
    for (is_v6, start, length) in [(false, 26, 4), (true, 22, 16)] {
        let network = Network { is_v6, addresses: 5 };
        let mut pair = Pair::of(network, 400);
        pair.initiator.begin(1, 0);
        pair.responder.begin_learning(1, 400);
        pair.initiator.send(Order::EachOnce, Some(10_000), pair.now);
        let (mut flows, mut pairs) = (HashSet::new(), HashSet::new());
        pair.run(|packet| {
            let ends = &packet.data()[start..start + 2 * length + 4];
            flows.insert(ends.to_vec());
            pairs.insert(ends[..2 * length].to_vec());
            1
        });
        assert_eq!((flows.len(), pairs.len(), pair.responder.flows()), (400, 25, 400));
        // Replies on each flow, from the address to which it was sent.
        pair.initiator.begin(2, 400);
        pair.responder.begin(2, 0);
        pair.responder.send(Order::EachOnce, Some(10_000), pair.now);
        pair.run(|packet| {
            let ends = &packet.data()[start..start + 2 * length + 4];
            let (one, other) = ends[..2 * length].split_at(length);
            let ports = [&ends[2 * length + 2..], &ends[2 * length..2 * length + 2]];
            assert!(flows.contains(&[other, one, ports[0], ports[1]].concat()));
            1
        });
        let it = pair.initiator.statistics();
        assert_eq!((it.received, it.garbage, it.foreign), (400, 0, 0), "IPv6: {is_v6}");
    }
}

#[test]
fn phase_one_fills_the_state_table_and_phase_two_uses_it() {
    let mut pair = Pair::new(500);
    pair.initiator.begin(1, 0);
    pair.responder.begin_learning(1, 500);
    pair.initiator.send(Order::EachOnce, Some(10_000), pair.now);
    let mut flows = HashSet::new();
    pair.run(|packet| {
        flows.insert(packet.data()[26..38].to_vec());
        1
    });
    assert_eq!((flows.len(), pair.responder.flows(), pair.initiator.flows()), (500, 500, 500));
    // 500 frames at 10,000 per second.
    assert!((49..=51).contains(&(pair.now.as_nanos() / 1_000_000)), "{:?}", pair.now);
    // One reverse frame per entry.
    pair.initiator.begin(2, 500);
    pair.responder.begin(2, 0);
    pair.responder.send(Order::EachOnce, Some(10_000), pair.now);
    let mut back = HashSet::new();
    pair.run(|packet| {
        let ends = &packet.data()[26..38];
        back.insert([&ends[4..8], &ends[..4], &ends[10..12], &ends[8..10]].concat());
        1
    });
    assert_eq!(back, flows);
    // Both directions, at random.
    pair.initiator.begin(3, 2000);
    pair.responder.begin(3, 2000);
    for station in [&mut pair.initiator, &mut pair.responder] {
        station.send(Order::Random { frames: 2000 }, Some(20_000), pair.now);
    }
    let mut random = HashSet::new();
    pair.run(|packet| {
        random.insert(packet.data()[26..38].to_vec());
        1
    });
    for station in [&pair.initiator, &pair.responder] {
        let it = station.statistics();
        assert_eq!((it.sent, it.received, it.duplicates, it.stale), (2000, 2000, 0, 0));
        assert_eq!(it.latency_ns.count(), 2000);
    }
    // 2,000 draws from 500 leave out one in fifty; in both directions that makes nearly 1,000.
    assert!((900..=1000).contains(&random.len()), "{}", random.len());
    assert!(random.iter().filter(|ends| flows.contains(*ends)).count() > 450);
}

#[test]
fn what_a_wire_does_is_counted_for_what_it_is() {
    let counted = |wire: fn(u64, &mut Packet) -> usize| {
        let mut pair = Pair::new(100);
        pair.initiator.begin(1, 0);
        pair.responder.begin_learning(1, 100);
        pair.initiator.send(Order::EachOnce, Some(10_000), pair.now);
        let mut count = 0;
        pair.run(|packet| {
            count += 1;
            wire(count, packet)
        });
        (pair.responder.flows(), pair.responder.statistics().clone())
    };
    let (flows, lossy) = counted(|n, _| usize::from(n % 10 != 0));
    assert_eq!((flows, lossy.received, lossy.duplicates), (90, 90, 0));
    let (_, doubled) = counted(|_, _| 2);
    assert_eq!((doubled.received, doubled.duplicates), (100, 100));
    let (_, garbled) = counted(|_, packet| {
        packet.data_mut()[50] ^= 1;
        1
    });
    assert_eq!((garbled.received, garbled.garbage), (0, 100));
    let (_, foreign) = counted(|_, packet| {
        packet.data_mut()[12] = 0x12;
        1
    });
    assert_eq!((foreign.received, foreign.foreign), (0, 100));
}

#[test]
fn own_and_old_frames_are_told_apart_and_questions_answered() {
    let mut pair = Pair::new(10);
    pair.initiator.begin(1, 10);
    pair.initiator.send(Order::EachOnce, None, pair.now);
    let mut out = Batch::new();
    pair.initiator.transmit(&mut pair.pool, &mut out, pair.now);
    let mut copies: Vec<_> = out.iter().map(|packet| pair.pool.copy(packet)).collect();
    // Every frame is returned.
    pair.initiator.receive(&mut pair.pool, &mut out, pair.now);
    assert_eq!(pair.initiator.statistics().returned, 10);
    // Every frame arrives after the next phase has begun.
    pair.responder.begin_learning(2, 10);
    out.extend(copies.drain(..));
    pair.responder.receive(&mut pair.pool, &mut out, pair.now);
    assert_eq!((pair.responder.statistics().stale, pair.responder.flows()), (10, 0));
    // A router asks for the responder's MAC address.
    let wire = Wire { mac: MACS[0], vlan: None, text: None };
    let (local, wanted) = (Address::v4([198, 19, 0, 1]), Network::V4.responders().get(0));
    let mut packet = pair.pool.take();
    frame::resolution(&mut packet, &wire, &Resolution::Ask { local, wanted });
    out.push(packet);
    pair.responder.receive(&mut pair.pool, &mut out, pair.now);
    pair.responder.transmit(&mut pair.pool, &mut out, pair.now);
    let answer = frame_in::read(out[0].data(), None, true).unwrap();
    assert_eq!(answer.content, Content::Answer { mac: MACS[1] });
}

#[test]
fn a_late_generator_misses_frames_and_ends_in_time() {
    let mut pair = Pair::new(10);
    pair.initiator.begin(1, 0);
    pair.initiator.send(Order::Random { frames: 10_000 }, Some(10_000), pair.now);
    pair.now = pair.now + std::time::Duration::from_millis(500);
    pair.run(|_| 0);
    let (sent, missed) = (pair.initiator.statistics().sent, pair.initiator.missed());
    assert!(missed > 4000 && sent + missed == 10_000, "{sent} {missed}");
    assert!(pair.now.as_nanos() < 1_100_000_000);
}
