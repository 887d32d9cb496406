//! Flows and packets in words, a line each: no megaflow covers a packet that the tables would treat
//! otherwise.

#![no_main]

use base::PortNo;
use flow::CtState;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use openflow::message::FlowModCommand;
use tidegate_fuzz::known::SCENES;
use tidegate_fuzz::lines::mutate;
use tidegate_fuzz::switch::{Switch, variants};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, (size, max_size, 1), seed, &SCENES, fuzzer_mutate)
});

fuzz_target!(|data: &[u8]| {
    let Some((&seed, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut switch = Switch::new();
    let mut bridge = switch.bridges[0];
    for id in switch.bridges {
        switch.ofproto.flush_flows(id);
    }
    for (n, line) in text.lines().take(24).enumerate() {
        if line == "bridge" {
            bridge = switch.bridges[1];
        } else if let Ok(packet) = wire::text::parse(line) {
            let seed = u64::from(seed) + n as u64;
            let state = CtState::from_bits_truncate(seed as u8);
            switch.revalidate();
            switch.send(&packet, PortNo(1 + n as u32 % 4), state, &variants(&packet, seed, 6));
        } else if let Ok(flow) = openflow::text::parse_flow(line, FlowModCommand::Add, &port) {
            let _ = switch.ofproto.flow_mod(bridge, &flow, switch.now);
        }
        switch.pass(300);
    }
    switch.revalidate();
});

fn port(name: &str) -> Option<base::OfPort> {
    let number = name.strip_prefix('p')?.parse().ok()?;
    Some(base::OfPort(number))
}
