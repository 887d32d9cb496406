use super::*;
use flow::{Execute, FlowKey, UpcallKind};
use packet::Packet;

fn at(us: u64) -> Instant {
    Instant::from_nanos(1_000_000 + us * 1000)
}

fn upcall(eth_type: u16, received: u64, queued: u64) -> Upcall {
    let mut key = FlowKey::new();
    key.set_in_port_raw(1);
    key.set_eth_type(eth_type);
    Upcall {
        worker: WorkerId(1),
        kind: UpcallKind::Miss,
        packet: Packet::from_bytes(&[0; 14]),
        key: Box::new(key),
        received: at(received),
        queued: at(queued),
        trace: None,
    }
}

/// Records an upcall received, queued, taken, translated and installed at these times, in microseconds.
fn pass(latency: &Latency, handler: u16, eth_type: u16, way: [u64; 5]) {
    let [received, queued, done, translated_at, installed] = way;
    let upcall = upcall(eth_type, received, queued);
    let stamps = taken(&upcall, handler, at(done));
    let Upcall { packet, key, .. } = upcall;
    let execute =
        Execute { packet, key, actions: [].into(), flow: None, trace: None, stamps: None };
    let mut answers =
        vec![(WorkerId(1), FlowCommand::Collect), (WorkerId(1), FlowCommand::Execute(execute))];
    stamp(stamps, &mut answers);
    translated(&mut answers, at(translated_at));
    assert_eq!(stamps_of(&answers[0].1), None);
    let stamps = stamps_of(&answers[1].1).unwrap();
    latency.recorder(WorkerId(1)).record(&[stamps], at(installed));
}

#[test]
fn a_batch_is_recorded_as_its_upcalls_one_by_one() {
    let [alone, together] = [(); 2].map(|()| Latency::default());
    let of = |eth_type, received| taken(&upcall(eth_type, received, received + 1), 2, at(9));
    let batch = [(0x800, 0), (0x800, 0), (0x800, 0), (0x806, 0), (0x806, 3), (0x800, 0)]
        .map(|(a, b)| of(a, b));
    together.recorder(WorkerId(1)).record(&batch, at(50));
    batch.iter().for_each(|it| alone.recorder(WorkerId(1)).record(&[*it], at(50)));
    for class in UpcallClass::ALL {
        let of = |latency: &Latency| latency.read().stages(Some(class), Some(2));
        assert_eq!(of(&alone), of(&together), "{class:?}");
    }
    assert_eq!(together.read().stages(None, None).of(Stage::Total).count(), 6);
}

#[test]
fn each_stage_lies_between_two_times() {
    let latency = Latency::default();
    pass(&latency, 0, 0x800, [0, 2, 10, 40, 100]);
    let stages = latency.read().stages(Some(UpcallClass::Ipv4), Some(0));
    for (stage, us) in [
        (Stage::Total, 100.0),
        (Stage::ToHandler, 10.0),
        (Stage::FromHandler, 90.0),
        (Stage::Queueing, 2.0),
        (Stage::Waiting, 8.0),
        (Stage::Translating, 30.0),
        (Stage::Installing, 60.0),
    ] {
        let it = stages.of(stage).summary_us();
        assert_eq!((it.count, it.min, it.max, it.average), (1, us, us, us), "{stage:?}");
    }
}

#[test]
fn classes_and_handlers_are_kept_apart_and_summed() {
    let latency = Latency::default();
    for (handler, eth_type) in [(0, 0x806), (0, 0x800), (2, 0x86dd), (2, 0x88cc), (2, 0x806)] {
        pass(&latency, handler, eth_type, [0, 0, 1, 2, 3]);
    }
    let report = latency.read();
    let count = |class, handler| report.stages(class, handler).of(Stage::Total).count();
    let [arp, ipv4, ipv6, other] = UpcallClass::ALL.map(Some);
    for (class, handler, expect) in [
        (None, None, 5),
        (arp, None, 2),
        (ipv4, None, 1),
        (ipv6, None, 1),
        (other, None, 1),
        (None, Some(0), 2),
        (None, Some(1), 0),
        (None, Some(2), 3),
        (arp, Some(2), 1),
        (ipv4, Some(2), 0),
    ] {
        assert_eq!(count(class, handler), expect, "{class:?} {handler:?}");
    }
    latency.clear();
    assert_eq!(latency.read().stages(None, None).of(Stage::Total).count(), 0);
}

#[test]
fn the_report_has_the_lines_of_open_vswitch_s() {
    let latency = Latency::default();
    pass(&latency, 0, 0x806, [0, 0, 1000, 1010, 1058]);
    pass(&latency, 0, 0x806, [0, 0, 1500, 1510, 2001]);
    pass(&latency, 0, 0x800, [0, 0, 2, 3, 5]);
    latency.batch(0, 1);
    latency.batch(0, 64);
    let text = latency.read().text();
    for line in [
        "Latency of upcalls, in microseconds",
        "All packets (microseconds):",
        "ARP packets (microseconds):",
        "IPv4 packets (microseconds):",
        "Time:                 COUNT        MIN          MAX          AVERAGE      50th         90th         99th         99.9th",
        "RTT                   3            5.0          2001.0       1021.3       1081.3       2001.0       2001.0       2001.0",
        "K-2-OVS               3            2.0          1500.0       834.0        1015.8       1500.0       1500.0       1500.0",
        "OVS-2-K               2            58.0         501.0        279.5        58.4         501.0        501.0        501.0",
        "base-2 logarithmic histogram of round trip times (microseconds)",
        "value |-------------------------------------------------- count",
        " 1024 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 2",
        "    4 |@@@@@@@@@@@@@@@@@@@@@@@@@                          1",
        "0 ARP packets         2            1058.0       2001.0       1529.5       1081.3       2001.0       2001.0       2001.0",
        "base-2 logarithmic histogram of upcall batch size (upcalls taken at once)",
        "n_upcalls stats: Number of samples=2 min=1 max=64 avg=32.0",
        "   64 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1",
    ] {
        assert!(text.lines().any(|have| have == line), "{line}\nin\n{text}");
    }
    assert!(!text.contains("IPv6"), "{text}");
}

#[test]
fn programs_read_the_same_numbers() {
    let latency = Latency::default();
    pass(&latency, 1, 0x806, [0, 1, 4, 9, 20]);
    latency.batch(1, 3);
    let json = latency.read().json();
    assert_eq!(json["unit"], "microseconds");
    let arp = &json["classes"]["arp"];
    assert_eq!((&arp["rtt"]["count"], &arp["rtt"]["max"]), (&1.into(), &20.0.into()));
    assert_eq!(arp["rtt"]["log2"][5], serde_json::json!([16, 1]));
    assert_eq!(arp["queued_to_taken"]["p99.9"], 3.0);
    assert_eq!(json["classes"]["ipv4"]["rtt"]["count"], 0);
    assert_eq!(json["handlers"][1]["classes"]["all"]["from_handler"]["average"], 16.0);
    assert_eq!(json["batch_size"]["max"], 3.0);
}
