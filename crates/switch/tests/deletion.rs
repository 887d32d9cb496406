//! All installed flows are deleted in steps. What a step allocates and frees is bounded, however many flows there are:
//! to free an array of all flows, or to move them into a smaller one, would keep packets waiting.

use base::{Instant, MacAddr, OfPort, PortNo, WorkerId};
use conntrack::Conntrack;
use datapath::{UpcallQueue, Worker, WorkerConfig};
use flow::Upcall;
use ofproto::{BridgeConfig, FailMode, Features, Ofproto, PortDevice, PortSpec};
use openflow::message::FlowModCommand;
use packet::{Batch, Packet};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

/// Counts the bytes that a thread allocates and frees, and the largest piece of them.
struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn count(layout: Layout) {
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
}

// SAFETY: all work is done by the system allocator; counting only touches a plain thread-local number, which
// needs no memory of its own and no destructor.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as for the system allocator, to which the caller's guarantees are passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as for the system allocator, to which the caller's guarantees are passed on.
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(layout);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Most that a step may allocate and free: a few pieces of tables, the parts of some that shrink, and blocks of keys
/// that are merged.
const MOST: usize = 2 << 20;
/// The largest piece of it.
const PIECE: usize = 256 << 10;
const NOW: Instant = Instant::from_millis(1000);

/// A worker and the control side, on one thread.
struct Switch {
    core: Ofproto,
    worker: Worker,
    upcalls: Arc<UpcallQueue>,
    orders: ofproto::Outbox,
    out: datapath::Outbox,
}

impl Switch {
    /// A switch in which each packet needs its own flow.
    fn new(flow_limit: usize) -> Switch {
        let config = ofproto::Config { flow_limit, ..ofproto::Config::default() };
        let mut core = Ofproto::new(config);
        core.set_flow_limit(flow_limit);
        let mut bridge = BridgeConfig::new("br0", MacAddr([2, 0, 0, 0, 0, 9]));
        bridge.fail_mode = FailMode::Secure;
        let id = core.add_bridge(bridge, NOW);
        for number in 1..=2u8 {
            let device = PortDevice::Datapath(PortNo(number.into()));
            let mac = MacAddr([2, 0, 0, 0, 1, number]);
            core.add_port(id, PortSpec::new(format!("p{number}"), mac, device), NOW).unwrap();
        }
        let ports = |_: &str| -> Option<OfPort> { None };
        let rule = "ip,in_port=1,actions=output:2";
        let rule = openflow::text::parse_flow(rule, FlowModCommand::Add, &ports).unwrap();
        core.flow_mod(id, &rule, NOW).unwrap();
        let mut orders = ofproto::Outbox::default();
        let features = Features { wildcards: false, ..core.features() };
        core.set_features(features, NOW, &mut orders);
        let conntrack = Arc::new(Conntrack::new(1, conntrack::Config::default()));
        let upcalls = Arc::new(UpcallQueue::new());
        let (tracker, config) = (conntrack.tracker().unwrap(), WorkerConfig::default());
        let worker = Worker::new(WorkerId(0), tracker, Arc::clone(&upcalls), config, 7);
        Switch { core, worker, upcalls, orders, out: datapath::Outbox::new() }
    }

    /// Receives packets of new flows, and answers their misses.
    fn receive(&mut self, flows: std::ops::Range<u32>) {
        let mut batch = Batch::new();
        for flow in flows {
            let [a, b, c, d] = flow.to_be_bytes();
            let text = format!("{}.{b}.{c}.{d}:1>10.0.0.2:2 udp", a + 11);
            let bytes = wire::text::parse(&text).unwrap();
            batch.push(self.worker.pool().copy(&Packet::from_bytes(&bytes)));
        }
        self.worker.receive(NOW, PortNo(1), &mut batch, &mut self.out);
        let mut misses: Vec<Upcall> = Vec::new();
        self.upcalls.pop(64, &mut misses);
        for miss in misses {
            self.core.upcall(NOW, miss, &mut self.orders);
        }
        self.carry_out();
        for (_, batch) in self.out.batches_mut() {
            batch.drain(..).for_each(|packet| self.worker.pool().give(packet));
        }
    }

    /// The worker executes its commands, and tells of flows that are gone.
    fn carry_out(&mut self) {
        for (_, command) in std::mem::take(&mut self.orders.commands) {
            self.worker.command(NOW, command, &mut self.out);
        }
        self.worker.continue_dump(&mut self.out);
        for dump in std::mem::take(&mut self.out.dumps) {
            self.core.dump(NOW, dump);
        }
    }
}

/// The steps in which so many flows are deleted, and the most bytes that one of them allocates and frees.
fn deleted(count: u32) -> (usize, usize) {
    let mut switch = Switch::new(2 * count as usize);
    for start in (0..count).step_by(32) {
        switch.receive(start..(start + 32).min(count));
    }
    let flows = [switch.worker.flow_count(), switch.core.megaflow_counters().current];
    assert_eq!(flows, [count as usize; 2]);
    let (mut steps, mut most) = (0, 0);
    BYTES.set(0);
    LARGEST.set(0);
    switch.core.delete_megaflows(NOW, &mut switch.orders);
    loop {
        let before = switch.worker.flow_count();
        let has_more = switch.core.go_on(NOW, &mut switch.orders);
        switch.carry_out();
        assert!(before - switch.worker.flow_count() <= 512, "a step deletes few flows");
        let (bytes, largest) = (BYTES.take(), LARGEST.take());
        assert!(largest <= PIECE, "{largest} bytes in one piece, of {before} flows");
        (steps, most) = (steps + 1, most.max(bytes));
        if !has_more && !switch.worker.is_dumping() {
            break;
        }
    }
    assert_eq!((switch.worker.flow_count(), switch.core.megaflow_counters().current), (0, 0));
    (steps, most)
}

#[test]
fn what_a_step_of_a_deletion_frees_does_not_grow_with_the_number_of_flows() {
    for count in [10_000, 200_000] {
        let (steps, most) = deleted(count);
        assert!(steps >= count as usize / 512, "{steps} steps for {count} flows");
        assert!(most > 1000 && most <= MOST, "{most} bytes in one step, of {count} flows");
    }
    // The counters work: an array of two bytes for each flow would be noticed.
    drop(std::hint::black_box(vec![0u16; 200_000]));
    assert!(BYTES.take() >= 800_000 && LARGEST.take() > PIECE);
}
