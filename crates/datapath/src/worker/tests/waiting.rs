//! Packets that wait for answers, and those that must not overtake them.

use super::*;

#[test]
fn copies_of_a_packet_that_went_up_are_not_translated_again_and_keep_their_order() {
    let mut bench = bench(1);
    let numbered = |n: u8| format!("10.0.0.1:1000>10.0.0.2:53 udp len={n}");
    let texts: Vec<String> = (1..=5).map(numbered).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    bench.send(1, &texts[..3]);
    let mut upcalls = bench.misses();
    assert_eq!(upcalls.len(), 1);
    bench.send(1, &texts[3..]);
    assert_eq!(bench.misses().len(), 0);
    bench.put(1, from_port(1), vec![Action::Output(PortNo(2))]);
    bench.answer(upcalls.remove(0), vec![Action::Output(PortNo(2))]);
    let sent: Vec<String> = bench.sent().into_iter().map(|(_, text)| text).collect();
    assert_eq!(sent, texts);
    // The flow carried all packets except the first, which was the upcall's.
    assert_eq!(bench.dump(), [(1, 4)]);
    assert_eq!(bench.misses().len(), 0);
}

#[test]
fn packets_behind_a_miss_that_another_worker_evicted_end_with_the_next_batch() {
    let mut bench = bench(1);
    let upcalls = Arc::clone(&bench.upcalls);
    let tracker = bench.conntrack.tracker().unwrap();
    let mut other = Worker::new(WorkerId(1), tracker, upcalls, WorkerConfig::default(), 7);
    let of = |n: usize| format!("10.0.{}.{}:1000>10.9.0.1:53 udp", n / 250, n % 250 + 1);
    let ports = (UPCALLS / UPCALLS_PER_PORT) as u32;
    for port in 1..=ports {
        (0..UPCALLS_PER_PORT).for_each(|n| bench.send(port, &[&of(n)]));
        // A second packet waits behind the newest miss of each port.
        bench.send(port, &[&of(UPCALLS_PER_PORT - 1)]);
    }
    assert_eq!(bench.worker.stats().lost, 0);
    let mut batch: Batch =
        [Packet::from_bytes(&wire::text::parse(&of(0)).unwrap())].into_iter().collect();
    other.receive(bench.now, PortNo(99), &mut batch, &mut bench.out);
    assert_eq!((other.stats().misses, other.stats().lost), (1, 1), "the evicted miss itself");
    bench.send(1, &[]);
    assert_eq!(bench.worker.stats().lost, 1, "the packet that waited behind it");
}

#[test]
fn packets_do_not_overtake_one_that_waits_for_an_answer_where_another_answer_is_there() {
    let mut bench = bench(1);
    let of = |port: u16, n: u8| format!("10.0.0.1:{port}>10.0.0.2:53 udp len={n}");
    bench.send(1, &[&of(1, 1), &of(2, 1)]);
    let mut upcalls = bench.misses();
    assert_eq!(upcalls.len(), 2);
    let (first, second) = (upcalls.remove(0), upcalls.remove(0));
    // The second is answered with a flow that also matches the first one's packets.
    bench.put(1, from_port(1), vec![Action::Output(PortNo(2))]);
    bench.answer(second, vec![Action::Output(PortNo(2))]);
    for round in 2..=3 {
        bench.send(1, &[&of(1, round), &of(2, round), &of(3, round)]);
    }
    bench.answer(first, vec![Action::Output(PortNo(2))]);
    bench.send(1, &[&of(1, 4)]);
    let sent: Vec<String> = bench.sent().into_iter().map(|(_, text)| text).collect();
    let place = |port, n| sent.iter().position(|it| *it == of(port, n));
    let places: Vec<Option<usize>> = (1..=4).map(|n| place(1, n)).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{places:?}");
    // Other packets did not wait for it.
    assert!(place(3, 2) < place(1, 1) && place(2, 2) < place(1, 1));
    assert_eq!((sent.len(), bench.misses().len()), (9, 0));
}

/// Flows that track packets of ports 1 and 2 and recirculate them; established packets without a type of
/// service go to the other port. Packets with one are tracked in another zone.
fn put_tracking_flows(bench: &mut Bench) {
    let ct = Action::Ct(Box::new(CtAction { commit: true, ..CtAction::default() }));
    let est = u128::from(CtState::EST.bits());
    for (port, other) in [(1, 2), (2, 1)] {
        let first = |tos| from_port(port).with(Field::EthType, 0x800).with(Field::NwTos, tos);
        let elsewhere = Action::Ct(Box::new(CtAction { zone: Zone(5), ..CtAction::default() }));
        bench.put(port.into(), first(0), vec![ct.clone(), Action::Recirc(RecircId(7))]);
        bench.put(20 + u64::from(port), first(32), vec![elsewhere, Action::Recirc(RecircId(7))]);
        let second = Match::any()
            .with(Field::InPort, port.into())
            .with(Field::RecircId, 7)
            .with(Field::NwTos, 0)
            .with_masked(Field::CtState, est, est);
        bench.put(10 + u64::from(port), second, vec![Action::Output(PortNo(other))]);
    }
}

#[test]
fn nothing_overtakes_a_packet_of_its_connection_that_waits_in_a_later_pass() {
    let mut bench = bench(1);
    put_tracking_flows(&mut bench);
    let there = |n: u8| format!("10.0.0.1:1000>10.0.0.2:53 udp len={n}");
    bench.send(1, &[&there(1)]);
    let mut upcalls = bench.misses();
    assert_eq!(upcalls.len(), 1, "a new connection has no flow");
    // Its reply establishes the connection and has to wait, as do later packets.
    bench.send(2, &["10.0.0.2:53>10.0.0.1:1000 udp len=2"]);
    bench.send(1, &[&there(3), &there(4)]);
    assert_eq!(bench.sent(), []);
    bench.answer(upcalls.remove(0), vec![Action::Output(PortNo(2))]);
    let lengths = |bench: &mut Bench| {
        let sent = bench.sent().into_iter();
        let lengths = sent.map(|(port, text)| (port, text.split("len=").last().map(str::to_owned)));
        lengths.collect::<Vec<_>>()
    };
    let of = |port: u32, n: u8| (port, Some(n.to_string()));
    assert_eq!(lengths(&mut bench), [of(2, 1), of(2, 3), of(2, 4), of(1, 2)]);
    assert_eq!(bench.misses().len(), 0);

    // The same if the unified cache has entries for the later packets.
    (5..=9).for_each(|n| bench.send(1, &[&there(n)]));
    let cached = bench.worker.stats().unified_hits;
    assert!(cached > 0, "{:?}", bench.worker.stats());
    bench.sent();
    bench.send(1, &[&format!("{} tos=32", there(10)), &there(11)]);
    bench.send(1, &[&there(12)]);
    assert_eq!((bench.sent(), bench.worker.stats().unified_hits), (vec![], cached));
    let asked = bench.misses().remove(0);
    assert_eq!((asked.key.get(Field::NwTos), asked.key.ct_zone()), (32, Zone(5)));
    bench.answer(asked, vec![Action::Output(PortNo(2))]);
    bench.send(1, &[&there(13)]);
    assert_eq!(bench.sent().len(), 4);
    assert!(bench.worker.stats().unified_hits > cached);
}

#[test]
fn nothing_overtakes_a_packet_of_its_connection_where_rules_stop_tracking_it() {
    let packet = |n: u8| format!("10.0.0.1:1000>10.0.0.2:53 udp len={n}");
    let forward = || vec![Action::Output(PortNo(2))];
    let ip = || from_port(1).with(Field::EthType, 0x800);
    // The first pass is changed, or it is deleted and put again, or packets find it in the unified cache.
    for way in ["changed", "deleted", "cached"] {
        let mut bench = bench(1);
        put_tracking_flows(&mut bench);
        bench.send(1, &[&packet(1)]);
        let first = bench.misses().remove(0);
        if way == "deleted" {
            bench.delete(1);
            bench.send(1, &[&packet(2)]);
            assert_eq!(bench.misses().len(), 0, "it waits behind the first, and is not sent up");
        }
        bench.put(1, ip().with(Field::NwTos, 0), forward());
        if way == "cached" {
            (1..=8)
                .for_each(|n| bench.send(1, &[&format!("10.0.0.7:1000>10.0.0.2:53 udp len={n}")]));
            assert_eq!(bench.sent().len(), 8, "another flow does not wait");
        }
        bench.send(1, &[&packet(3), &packet(4)]);
        assert_eq!(bench.sent(), [], "{way}");
        bench.answer(first, forward());
        bench.send(1, &[&packet(5)]);
        let sent: Vec<String> = bench.sent().into_iter().map(|(_, text)| text).collect();
        let expect = [1, 2, 3, 4, 5].into_iter().filter(|n| *n != 2 || way == "deleted");
        assert_eq!(sent, expect.map(packet).collect::<Vec<_>>(), "{way}");
    }
}

/// Commits with the source address 20.0.0.1.
fn source_nat() -> Action {
    let address = std::net::IpAddr::from([20, 0, 0, 1]);
    let source = NatRange {
        kind: NatKind::Src,
        addresses: Some((address, address)),
        ports: None,
        selection: PortSelection::Default,
        persistent: false,
    };
    let nat = Some(Nat::Rewrite(source));
    Action::Ct(Box::new(CtAction { commit: true, nat, ..CtAction::default() }))
}

#[test]
fn nothing_overtakes_a_packet_that_waits_rewritten_where_rules_stop_tracking_it() {
    let there = |n: u8| format!("10.0.0.1:1000>10.0.0.2:53 udp len={n}");
    let back = |n: u8| format!("10.0.0.2:53>20.0.0.1:1000 udp len={n}");
    let forward = || vec![Action::Output(PortNo(3))];
    let ip = |port| from_port(port).with(Field::EthType, 0x800);
    let later = |port: u32, id: u32| {
        Match::any().with(Field::InPort, port.into()).with(Field::RecircId, id.into())
    };
    let again = |id| Action::Recirc(RecircId(id));
    let ct = |zone| {
        Action::Ct(Box::new(CtAction { commit: true, zone: Zone(zone), ..CtAction::default() }))
    };
    let field = Field::Ipv4Dst;
    let to = Action::Set(SetField { field, value: 0x0a00_0009, mask: field.all_ones() });
    let by_nat = |port| (ip(port), vec![source_nat(), again(7)]);
    // The number of packets of port 1 before, flows, and the port and text of the packets. No flow matches them in
    // their last pass.
    type Case<'a> = (&'a str, u8, Vec<(Match, Vec<Action>)>, u32, &'a dyn Fn(u8) -> String);
    let cases: [Case<'_>; 3] = [
        ("a reply", 1, vec![by_nat(1), by_nat(2), (later(1, 7), forward())], 2, &back),
        ("two zones", 0, vec![by_nat(1), (later(1, 7), vec![ct(5), again(8)])], 1, &there),
        ("by a rule", 0, vec![(ip(1), vec![to, ct(0), again(7)])], 1, &there),
    ];
    for (what, before, flows, port, packet) in cases {
        for way in ["changed", "deleted", "cached"] {
            let mut bench = bench(1);
            (1..).zip(&flows).for_each(|(id, (matching, actions))| {
                bench.put(id, matching.clone(), actions.clone());
            });
            (0..before).for_each(|n| bench.send(1, &[&there(n)]));
            assert_eq!((bench.sent().len(), bench.misses().len()), (before.into(), 0), "{what}");
            bench.send(port, &[&packet(1)]);
            let first = bench.misses().remove(0);
            let id = u64::from(port);
            if way == "deleted" {
                bench.delete(id);
                bench.send(port, &[&packet(2)]);
                assert_eq!(bench.misses().len(), 0, "{what}: it waits behind the first");
            }
            bench.put(id, ip(port), forward());
            if way == "cached" {
                let other = |n: u8| format!("10.0.0.7:1000>10.0.0.2:53 udp len={n}");
                (1..=8).for_each(|n| bench.send(port, &[&other(n)]));
                assert_eq!(bench.sent().len(), 8, "{what}: another flow does not wait");
            }
            bench.send(port, &[&packet(3), &packet(4)]);
            assert_eq!(bench.sent(), [], "{what}, {way}");
            bench.answer(first, forward());
            bench.send(port, &[&packet(5)]);
            let length = |text: &str| text.split("len=").last()?.split(' ').next()?.parse().ok();
            let sent: Vec<u8> =
                bench.sent().iter().map(|(_, text)| length(text).expect(text)).collect();
            let expect = [1, 2, 3, 4, 5].into_iter().filter(|n| *n != 2 || way == "deleted");
            assert_eq!(sent, expect.collect::<Vec<_>>(), "{what}, {way}");
        }
    }
}

/// A packet waits after its second zone; then a rule sends its connection's packets on after the first.
#[test]
fn nothing_overtakes_a_packet_that_waits_in_another_zone() {
    let mut bench = bench(1);
    let later = |id: u32| Match::any().with(Field::InPort, 1).with(Field::RecircId, id.into());
    let track = |zone, id| {
        let ct = CtAction { zone: Zone(zone), ..CtAction::default() };
        vec![Action::Ct(Box::new(ct)), Action::Recirc(RecircId(id))]
    };
    let packet = |n: u8| format!("10.0.0.1:1000>10.0.0.2:53 udp len={n}");
    let forward = || vec![Action::Output(PortNo(2))];
    bench.put(1, from_port(1), track(4, 7));
    bench.put(2, later(7), track(5, 8));
    bench.send(1, &[&packet(1)]);
    let first = bench.misses().remove(0);
    bench.put(2, later(7), forward());
    bench.send(1, &[&packet(2), &packet(3)]);
    assert_eq!(bench.sent(), []);
    bench.answer(first, forward());
    bench.send(1, &[&packet(4)]);
    let sent: Vec<String> = bench.sent().into_iter().map(|(_, text)| text).collect();
    assert_eq!(sent, [1, 2, 3, 4].map(packet));
}

#[test]
fn packets_with_nat_leave_the_cache_only_for_a_miss_of_their_connection() {
    let mut bench = bench(1);
    put_tracking_flows(&mut bench);
    for port in [1, 2] {
        let first = from_port(port).with(Field::EthType, 0x800).with(Field::NwTos, 0);
        bench.put(port.into(), first, vec![source_nat(), Action::Recirc(RecircId(7))]);
    }
    let there = "10.0.0.1:1000>10.0.0.2:53 udp";
    let back = "10.0.0.2:53>20.0.0.1:1000 udp";
    bench.send(1, &[there]);
    let begun = bench.misses().remove(0);
    bench.answer(begun, vec![Action::Output(PortNo(2))]);
    let send_both = |bench: &mut Bench| {
        let before = bench.worker.stats().unified_hits;
        bench.sent();
        bench.send(2, &[back]);
        bench.send(1, &[there]);
        (bench.sent().len(), bench.worker.stats().unified_hits - before)
    };
    (0..4).for_each(|_| _ = send_both(&mut bench));
    // Each packet hits the flows of both passes.
    assert_eq!(send_both(&mut bench), (2, 4));
    // A miss of another connection waits, then one of theirs.
    bench.send(1, &["10.0.0.7:1000>10.0.0.2:53 udp tos=32"]);
    assert_eq!((send_both(&mut bench), bench.misses().len()), ((2, 4), 1));
    bench.send(1, &[&format!("{there} tos=32")]);
    assert_eq!((send_both(&mut bench), bench.misses().len()), ((0, 0), 1));
}

#[test]
fn packets_that_wait_behind_one_whose_port_goes_go_on_without_it() {
    let mut bench = bench(1);
    put_tracking_flows(&mut bench);
    bench.send(1, &["10.0.0.1:1000>10.0.0.2:53 udp"]);
    bench.send(2, &["10.0.0.2:53>10.0.0.1:1000 udp len=2"]);
    bench.send(1, &["10.0.0.1:1000>10.0.0.2:53 udp len=3"]);
    assert_eq!((bench.misses().len(), bench.sent()), (1, vec![]));
    bench.worker.remove_port(bench.now, PortNo(1), &mut bench.out);
    let sent = bench.sent();
    assert_eq!(sent.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1], "{sent:?}");
    assert_eq!(bench.worker.stats().lost, 1);
}

#[test]
fn packets_of_the_same_state_or_behind_invalid_ones_do_not_wait() {
    let mut bench = bench(1);
    put_tracking_flows(&mut bench);
    let established = |bench: &mut Bench| {
        bench.send(1, &["10.0.0.1:1000>10.0.0.2:53 udp"]);
        let asked = bench.misses();
        asked.into_iter().for_each(|it| bench.answer(it, vec![Action::Output(PortNo(2))]));
        bench.send(2, &["10.0.0.2:53>10.0.0.1:1000 udp"]);
        bench.sent();
    };
    established(&mut bench);
    for odd in
        ["10.0.0.1:1000>10.0.0.2:53 udp csum=bad", "10.0.0.1:1000>10.0.0.2:53 udp csum=bad ttl=3"]
    {
        bench.send(1, &[odd]);
        bench.send(1, &["10.0.0.1:1000>10.0.0.2:53 udp len=7"]);
        let sent = bench.sent();
        assert_eq!(sent.len(), 1, "{odd}: {sent:?}");
    }
}

#[test]
fn invalid_packets_do_not_take_the_places_behind_a_valid_one() {
    let mut bench = bench(1);
    put_tracking_flows(&mut bench);
    bench.send(1, &["10.0.0.1:1000>10.0.0.2:53 udp len=1"]);
    (0..300).for_each(|_| bench.send(1, &["10.0.0.1:1000>10.0.0.2:53 udp csum=bad"]));
    bench.send(2, &["10.0.0.2:53>10.0.0.1:1000 udp len=2"]);
    let mut upcalls = bench.misses();
    assert_eq!(upcalls.len(), 2, "the invalid packets miss by themselves");
    bench.answer(upcalls.remove(0), vec![Action::Output(PortNo(2))]);
    let ports: Vec<u32> = bench.sent().into_iter().map(|(port, _)| port).collect();
    assert_eq!(ports, [2, 1], "the reply waited behind the first packet");
}

#[test]
fn packets_that_wait_for_a_miss_wait_again_where_it_misses_in_the_next_pass() {
    let mut bench = bench(1);
    let of = |n: u8| format!("10.0.0.1:1000>10.0.0.2:53 udp len={n}");
    bench.send(1, &[&of(1), &of(2)]);
    let ct = Action::Ct(Box::new(CtAction { commit: true, ..CtAction::default() }));
    let first = bench.misses().remove(0);
    bench.put(1, from_port(1), vec![ct.clone(), Action::Recirc(RecircId(7))]);
    bench.answer(first, vec![ct, Action::Recirc(RecircId(7))]);
    bench.send(1, &[&of(3)]);
    let mut second = bench.misses();
    assert_eq!((second.len(), bench.sent().len()), (1, 0));
    let again = Match::any().with(Field::InPort, 1).with(Field::RecircId, 7);
    bench.put(2, again, vec![Action::Output(PortNo(2))]);
    bench.answer(second.remove(0), vec![Action::Output(PortNo(2))]);
    let texts: Vec<String> = bench.sent().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, (1..=3).map(of).collect::<Vec<_>>());
}

#[test]
fn packets_wait_a_bounded_time_and_in_bounded_number() {
    let mut bench = bench(1);
    for _ in 0..300 {
        bench.send(1, &[SYN]);
    }
    let stats = bench.worker.stats().clone();
    assert_eq!(stats.misses + stats.lost, 300);
    assert_eq!(stats.misses, 1 + base::limits::UPCALLS_PER_PORT as u64);
    assert_eq!(bench.misses().len(), 1);
    // The answer does not arrive: another packet may miss again.
    for _ in 0..5 {
        bench.worker.tick_alone();
    }
    assert_eq!(bench.worker.stats().lost, 299);
    bench.send(1, &[SYN]);
    assert_eq!(bench.misses().len(), 1);
}
