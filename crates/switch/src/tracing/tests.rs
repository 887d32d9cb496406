//! Selection and recording of packets.

use super::*;
use conntrack::{Config, Conntrack};
use datapath::{UpcallQueue, WorkerConfig};
use flow::{Action, Field, FlowCommand, FlowId, FlowPut};
use packet::Pool;
use port::{MemoryPort, RxQueue};

struct Bench {
    worker: Worker,
    upcalls: Arc<UpcallQueue>,
    tx: TxQueues,
    out: Outbox,
    told: Vec<Traced>,
}

const NOW: Instant = Instant::from_millis(1000);
const UDP: &str = "10.0.0.1:1000>10.0.0.2:53 udp";
const TCP: &str = "10.0.0.1:1000>10.0.0.2:80 S";

impl Bench {
    fn new() -> Self {
        let conntrack = Arc::new(Conntrack::new(1, Config::default()));
        let upcalls = Arc::new(UpcallQueue::new());
        let (tracker, config) = (conntrack.tracker().unwrap(), WorkerConfig::default());
        let worker = Worker::new(WorkerId(0), tracker, Arc::clone(&upcalls), config, 77);
        let (tx, out, told) = (TxQueues::default(), Outbox::new(), Vec::new());
        Bench { worker, upcalls, tx, out, told }
    }

    fn put(&mut self, matching: Match, actions: Vec<Action>) {
        let put = FlowPut { id: FlowId(1), matching, actions: actions.into() };
        self.worker.command(NOW, FlowCommand::Put(Box::new(put)), &mut self.out);
    }

    fn receive(&mut self, picker: &mut Picker, texts: &[&str]) {
        let bytes = texts.iter().map(|text| wire::text::parse(text).unwrap_or_default());
        let mut batch: Batch = bytes.map(|bytes| Packet::from_bytes(&bytes)).collect();
        let arrival = Arrival { port: PortNo(1), queue: 0, asked: clock::now() };
        let Bench { worker, tx, out, told, .. } = self;
        picker.receive(NOW, arrival, &mut batch, worker, (tx, out), |it| told.push(*it));
        assert!(batch.is_empty());
        send_all(worker, tx, out);
    }

    /// Returns the numbers and steps of the packets reported since the last call.
    fn steps(&mut self) -> Vec<(u32, Vec<Step>)> {
        let told = self.told.drain(..);
        told.map(|it| (it.id.0, it.steps.into_iter().map(|(step, _)| step).collect())).collect()
    }
}

fn picker(filter: Match, sample: u32, wanted: u32) -> Picker {
    Picker::new(Arc::new(Order::new(filter, sample, wanted)))
}

fn udp() -> Match {
    Match::any().with(Field::EthType, 0x800).with(Field::NwProto, 17)
}

#[test]
fn packets_that_fit_are_told_of_until_there_are_enough_and_all_go_their_way_in_order() {
    let mut bench = Bench::new();
    let (near, far) = MemoryPort::pair(64);
    bench.tx.insert(PortNo(2), Box::new(near.tx()));
    bench.put(Match::any().with(Field::InPort, 1), vec![Action::Output(PortNo(2))]);
    let mut picker = picker(udp(), 1, 2);
    let texts = [TCP, UDP, TCP, TCP, UDP, UDP, TCP];
    bench.receive(&mut picker, &texts);
    assert_eq!(bench.told.len(), 2);
    for (i, told) in bench.told.iter().enumerate() {
        assert_eq!((told.id.0 as usize, told.key.nw_proto(), told.sent.packets), (i + 1, 17, 1));
        let Origin::Received { port, batch, .. } = told.origin else { panic!("{told:?}") };
        assert_eq!((port, batch, told.worker), (PortNo(1), texts.len(), WorkerId(0)));
        let last = told.steps.iter().rfind(|(step, _)| matches!(step, Step::Output(_)));
        assert_eq!(last.map(|(step, _)| step), Some(&Step::Output(PortNo(2))), "{told:?}");
        assert_eq!(told.steps[0].0, Step::Parsed);
    }
    assert!(picker.order.is_done());
    bench.receive(&mut picker, &texts);
    assert_eq!(bench.told.len(), 2, "no more were wanted");
    let (mut pool, mut batch) = (Pool::new(64), Batch::new());
    far.rx().receive(&mut pool, &mut batch).unwrap();
    let arrived: Vec<_> = batch.iter().map(|packet| packet.data()[23]).collect();
    let sent = texts.map(|text| if text == TCP { 6 } else { 17 });
    assert_eq!(arrived, [sent, sent].concat());
}

#[test]
fn a_packet_that_went_up_is_told_of_again_when_it_comes_back() {
    let mut bench = Bench::new();
    let mut picker = picker(Match::any(), 1, 1);
    bench.receive(&mut picker, &[UDP, TCP]);
    let missed = |step: &Step| matches!(step, Step::Missed { is_queued: true, .. });
    let told = bench.steps();
    assert!(matches!(told.as_slice(), [(1, steps)] if steps.iter().any(missed)), "{told:?}");
    let mut upcalls = Vec::new();
    bench.upcalls.pop(9, &mut upcalls);
    // The queue serves both classes in turn; which comes first does not matter here.
    let traced: Vec<_> = (0..upcalls.len()).filter(|&at| upcalls[at].trace.is_some()).collect();
    assert_eq!((upcalls.len(), traced.len()), (2, 1));
    let flow::Upcall { packet, key, trace, .. } = upcalls.swap_remove(traced[0]);
    assert_eq!(trace, Some(TraceId(1)));
    let asked = Execute {
        packet,
        key,
        actions: Arc::new([Action::Output(PortNo(9))]),
        flow: None,
        trace: None,
        stamps: None,
    };
    let Bench { worker, tx, out, .. } = &mut bench;
    let traced = picker.execute(NOW, (TraceId(1), asked), worker, (tx, out));
    assert_eq!((traced.id, traced.origin), (TraceId(1), Origin::Answered));
    assert_eq!(traced.sent.dropped, [(DropReason::NoPort, 1)], "there is no port 9");
}

#[test]
fn runts_fit_a_filter_that_asks_for_nothing() {
    let mut bench = Bench::new();
    bench.receive(&mut picker(udp(), 1, 9), &["no packet"]);
    assert!(bench.told.is_empty());
    bench.receive(&mut picker(Match::any(), 1, 9), &["no packet"]);
    assert_eq!(bench.steps(), [(1, vec![Step::Dropped(DropReason::Malformed)])]);
}

#[test]
fn samples_are_right_on_average() {
    fastrand::seed(5);
    for sample in [1, 2, 10, 1000] {
        let looks = 20_000;
        let total: u64 = (0..looks).map(|_| u64::from(next_skip(sample))).sum();
        let mean = total as f64 / f64::from(looks);
        assert!((mean / f64::from(sample) - 1.0).abs() < 0.05, "1/{sample}: {mean}");
    }
    assert!(next_skip(u32::MAX) > 0);
}
