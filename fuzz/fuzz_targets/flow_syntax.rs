//! Any text as flows, matches and actions: what can be read is printed, and reads back the same.

#![no_main]

use base::PortNo;
use flow::{FlowKey, Mask, Match};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ofproto::text::PortNames;
use openflow::message::FlowModCommand;
use openflow::text::{format_actions, format_match, parse_actions, parse_flow, parse_match};
use tidegate_fuzz::known::FLOWS;
use tidegate_fuzz::lines::mutate;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, (size, max_size, 0), seed, &FLOWS, fuzzer_mutate)
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Bad input is reported by its line: one line is what every reader is given.
    for line in text.lines().take(8) {
        flow(line);
        matching(line);
        actions(line);
        datapath_flow(line);
    }
});

fn no_names(_: &str) -> Option<base::OfPort> {
    None
}

fn flow(text: &str) {
    for command in [FlowModCommand::Delete, FlowModCommand::Add] {
        let flow = match parse_flow(text, command, &no_names) {
            Ok(flow) => flow,
            Err(error) => {
                assert!((1..=text.len() + 1).contains(&error.column), "{error}: {text}");
                continue;
            }
        };
        if command != FlowModCommand::Add {
            continue;
        }
        let print = |flow: &openflow::FlowMod| {
            let matching = format_match(&flow.matching, Some(flow.priority));
            (matching, format_actions(&flow.actions, &flow.matching))
        };
        let (matching, actions) = print(&flow);
        let printed = format!("{matching},actions={actions}");
        let back = parse_flow(&printed, command, &no_names)
            .unwrap_or_else(|error| panic!("{error}: {printed} from {text}"));
        assert_eq!(back.matching, flow.matching, "{printed} from {text}");
        assert_eq!(back.priority, flow.priority, "{printed} from {text}");
        assert_eq!(print(&back), (matching, actions), "from {text}");
    }
}

fn matching(text: &str) {
    let Ok(matching) = parse_match(text, &no_names) else { return };
    let printed = format_match(&matching, None);
    let back = parse_match(&printed, &no_names);
    let back = back.unwrap_or_else(|error| panic!("{error}: {printed} from {text}"));
    assert_eq!(back, matching, "{printed} from {text}");
}

fn actions(text: &str) {
    let Ok(actions) = parse_actions(text, &no_names) else { return };
    let printed = format_actions(&actions, &Match::any());
    let back = parse_actions(&printed, &no_names);
    let back = back.unwrap_or_else(|error| panic!("{error}: {printed} from {text}"));
    assert_eq!(format_actions(&back, &Match::any()), printed, "from {text}");
}

/// A datapath flow is printed with what its text left to be understood; after that it stays.
fn datapath_flow(text: &str) {
    let device = |name: &str| (name == "p1").then_some(PortNo(1));
    let Ok((key, mask)) = ofproto::text::parse_flow(text, &device) else { return };
    let print = |key: &FlowKey, mask: &Mask| {
        ofproto::text::format_flow(key, mask, false, PortNames::default())
    };
    let again = |printed: &str| {
        let (key, mask) = ofproto::text::parse_flow(printed, &device)
            .unwrap_or_else(|error| panic!("{error}: {printed} from {text}"));
        print(&key, &mask)
    };
    let printed = again(&print(&key, &mask));
    assert_eq!(again(&printed), printed, "from {text}");
}
