//! Threads that read snapshots free none of their memory, and the thread that publishes them frees a bounded amount in
//! each step, however many flows were deleted at once.

use base::{Instant, MacAddr};
use ofproto::{BridgeConfig, BridgeId, Config, FailMode, Ofproto, Outbox};
use openflow::message::{FlowModCommand, FlowStatsRequest};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that a thread takes and frees.
struct Counting;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
    static FREED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all work is done by the system allocator; counting only touches a plain thread-local number, which
// needs no memory of its own and no destructor.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as for the system allocator, to which the caller's guarantees are passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = TAKEN.try_with(|taken| taken.set(taken.get() + layout.size()));
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as for the system allocator, to which the caller's guarantees are passed on.
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        let _ = FREED.try_with(|freed| freed.set(freed.get() + layout.size()));
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const NOW: Instant = Instant::from_millis(1000);
/// Most that a reader may free when it takes the newest snapshot.
const READER: usize = 256;
/// Most that a step may free.
const STEP: usize = 4 << 20;

fn send(core: &mut Ofproto, bridge: BridgeId, command: FlowModCommand, flow: &str) {
    let flow_mod = openflow::text::parse_flow(flow, command, &|_| None).unwrap();
    core.flow_mod(bridge, &flow_mod, NOW).unwrap();
}

/// Deletes so many flows while a handler and a revalidator of other threads read them.
fn check(flows: u32, of_mask: fn(u32) -> String) {
    let (mut core, mut out) = (Ofproto::new(Config::default()), Outbox::default());
    let fail_mode = FailMode::Secure;
    let bridge = BridgeConfig { fail_mode, ..BridgeConfig::new("br0", MacAddr::ZERO) };
    let bridge = core.add_bridge(bridge, NOW);
    for n in 0..flows {
        let flow = format!("{},actions=output:{}", of_mask(n), n % 100 + 1);
        send(&mut core, bridge, FlowModCommand::Add, &flow);
    }
    while core.go_on(NOW, &mut out) {}
    let (mut handler, mut revalidator) = (core.handler(), core.revalidator());
    send(&mut core, bridge, FlowModCommand::Delete, "");
    while core.go_on(NOW, &mut out) {}
    assert!(core.flows(bridge, &FlowStatsRequest::default(), NOW).is_empty());
    FREED.set(0);
    revalidator.refresh();
    handler.refresh();
    let freed = FREED.take();
    assert!(freed <= READER, "a reader frees {freed} bytes, of {flows} flows");
    let (mut all, mut steps) = (0, 0);
    loop {
        let has_more = core.go_on(NOW, &mut out);
        let freed = FREED.take();
        assert!(freed <= STEP, "a step frees {freed} bytes, of {flows} flows");
        (all, steps) = (all + freed, steps + 1);
        if !has_more {
            break;
        }
    }
    assert!(all > flows as usize * 200, "{all} bytes are freed, of {flows} flows");
    assert!(steps > flows as usize / 4096, "{steps} steps");
}

#[test]
fn a_reader_frees_nothing_and_a_step_little_however_many_flows_are_deleted() {
    let of_addresses = |n: u32| {
        let [_, a, b, c] = n.to_be_bytes();
        format!("ip,nw_dst=10.{a}.{b}.{c},priority={}", n % 1000)
    };
    let of_ports = |n: u32| format!("table={},tcp,tp_src={},in_port=1", n / 60_000, n % 60_000);
    let of_masks = |n: u32| format!("metadata={:#x}/{:#x},table=7", n + 1, u64::from(n) + 1);
    for flows in [100, 20_000] {
        check(flows, of_addresses);
        check(flows, of_ports);
    }
    check(2_000, of_masks);
}

/// The bytes that this thread has taken and not freed.
fn held() -> usize {
    TAKEN.get() - FREED.get()
}

/// Adds so many flows, publishes them, deletes them, and checks how much memory they hold.
fn check_memory(of: fn(u32) -> String, most_per_flow: usize) {
    const FLOWS: u32 = 30_000;
    let (mut core, mut out) = (Ofproto::new(Config::default()), Outbox::default());
    let fail_mode = FailMode::Secure;
    let bridge = BridgeConfig { fail_mode, ..BridgeConfig::new("br0", MacAddr::ZERO) };
    let bridge = core.add_bridge(bridge, NOW);
    let mut revalidator = core.revalidator();
    let mut settle = |core: &mut Ofproto| {
        while core.go_on(NOW, &mut out) {}
        revalidator.refresh();
        while core.go_on(NOW, &mut out) {}
        out = Outbox::default();
    };
    settle(&mut core);
    TAKEN.set(1 << 40);
    FREED.set(0);
    let before = held();
    for n in 0..FLOWS {
        send(&mut core, bridge, FlowModCommand::Add, &of(n));
    }
    settle(&mut core);
    let per_flow = (held() - before) / FLOWS as usize;
    assert!(per_flow <= most_per_flow, "{} takes {per_flow} bytes", of(0));
    send(&mut core, bridge, FlowModCommand::Delete, "");
    settle(&mut core);
    let kept = held().saturating_sub(before);
    assert!(kept < 1 << 20, "{kept} bytes are held without flows");
}

/// Open vSwitch 3.7.1 takes about 760 bytes for a flow, those of the allocator included.
#[test]
fn a_flow_holds_little_memory_and_gives_it_back() {
    let of_addresses = |n: u32| {
        let [_, a, b, c] = n.to_be_bytes();
        format!("ip,nw_dst=10.{a}.{b}.{c},actions=output:{}", n % 100 + 1)
    };
    let of_connections = |n: u32| {
        let [_, _, a, b] = n.to_be_bytes();
        format!(
            "priority=9,tcp,in_port=1,dl_dst=02:00:00:00:{a:02x}:{b:02x},nw_src=10.0.{a}.{b},tp_dst=80,\
             idle_timeout=60,actions=load:1->NXM_NX_REG0[],resubmit(,1)"
        )
    };
    check_memory(of_addresses, 700);
    check_memory(of_connections, 850);
}
