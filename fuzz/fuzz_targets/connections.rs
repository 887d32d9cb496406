//! Any bytes as what a controller says to a switch, whose flows packets then meet.

#![no_main]

use base::{PortNo, WorkerId};
use flow::{CtState, FlowCommand, FlowDump};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ofproto::connection::{Connections, Settings};
use openflow::{DecodeOptions, Framer, decode};
use std::sync::LazyLock;
use tidegate_fuzz::openflow_stream::{PREFIX_LEN, mutate, version_of};
use tidegate_fuzz::switch::{Switch, variants};

/// Packets of most kinds.
static PACKETS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let texts = [
        "10.0.0.1:1000>10.0.0.2:80 S",
        "[fd00::1]:1000>[fd00::2]:53 udp len=20 vlan=5",
        "10.0.0.2>10.0.0.1 icmp-echo id=1 seq=1 len=8",
        "10.0.0.1>10.0.0.2 arp-request",
        "10.0.0.1>10.0.0.2 ip frag=later proto=17 len=30",
        "[fe80::1]>[ff02::1] nd-solicit",
    ];
    texts.map(|text| wire::text::parse(text).expect("a packet")).to_vec()
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed, fuzzer_mutate)
});

fuzz_target!(|data: &[u8]| {
    let Some((prefix, stream)) = data.split_at_checked(PREFIX_LEN) else { return };
    let version = version_of(prefix[0]);
    let mut switch = Switch::new();
    let mut connections = Connections::new();
    let kind = if prefix[0] & 0x80 == 0 { Settings::service() } else { Settings::controller() };
    let ids = [Settings::controller(), kind]
        .map(|settings| connections.open(switch.bridges[0], settings, switch.now));
    let hello = [version as u8, 0, 0, 8, 0, 0, 0, 1];
    let step = if prefix[1] & 1 == 0 { stream.len() } else { usize::from(prefix[1]) };
    for (id, bytes) in [(ids[0], &hello[..]), (ids[1], &hello)] {
        receive(&mut connections, id, bytes, &mut switch);
    }
    for chunk in stream.chunks(step.max(1)) {
        receive(&mut connections, ids[1], chunk, &mut switch);
    }
    switch.revalidate();
    // Three of them: to send all takes longer than all else.
    let first = usize::from(prefix[1] >> 1);
    for (n, packet) in PACKETS.iter().enumerate().cycle().skip(first % PACKETS.len()).take(3) {
        let seed = u64::from(prefix[1]) + n as u64;
        let state = if n % 2 == 0 { CtState::NEW } else { CtState::EST | CtState::RPL };
        switch.send(packet, PortNo(1 + n as u32 % 4), state, &variants(packet, seed, 4));
    }
    for id in ids {
        check_output(&connections.take_output(id, &switch.ofproto));
    }
    switch.pass(100_000);
    with(&mut connections, &mut switch, |connections, switch| connections.tick(switch));
    switch.revalidate();
    for id in ids {
        check_output(&connections.take_output(id, &switch.ofproto));
        connections.close(id, &mut switch.ofproto);
    }
});

fn with<R>(
    connections: &mut Connections,
    switch: &mut Switch,
    run: impl FnOnce(&mut Connections, &mut ofproto::connection::Switch<'_>) -> R,
) -> R {
    let mut lent = ofproto::connection::Switch {
        core: &mut switch.ofproto,
        now: switch.now,
        out: &mut switch.out,
        counters: &mut |device| [Some(u64::from(device.0)); 12],
    };
    run(connections, &mut lent)
}

/// Takes bytes, and answers at once when workers are asked for statistics.
fn receive(
    connections: &mut Connections,
    id: ofproto::connection::ConnId,
    bytes: &[u8],
    switch: &mut Switch,
) {
    with(connections, switch, |connections, switch| connections.receive(id, bytes, switch));
    for _ in 0..10_000 {
        let commands = std::mem::take(&mut switch.out.commands);
        if !commands.iter().any(|(_, command)| matches!(command, FlowCommand::Collect)) {
            return;
        }
        let (worker, at) = (WorkerId(0), switch.now);
        let (flows, gone) = (Vec::new(), Vec::new());
        let dump = FlowDump { worker, at, is_last: true, marked: Vec::new(), flows, gone };
        switch.ofproto.dump(switch.now, dump);
        with(connections, switch, |connections, switch| {
            connections.dumped(WorkerId(0), switch);
        });
    }
    panic!("statistics are asked for without end");
}

/// What the switch says is OpenFlow, in whole messages.
fn check_output(bytes: &[u8]) {
    let mut framer = Framer::new();
    framer.push(bytes);
    while let Some(message) = framer.next_message().expect("our own bytes") {
        let version = version_of(message[0]);
        let options = DecodeOptions::default();
        if let Err(error) = decode(version, &message, &options) {
            panic!("{version:?} {error}: {message:02x?}");
        }
    }
    assert_eq!(framer.pending(), 0);
}
