//! Messages and texts with which a fuzz target failed (`openflow`, `flow_syntax`).

use flow::Match;
use openflow::message::{FlowModCommand, PortConfig};
use openflow::text::{format_actions, format_match, parse_actions, parse_flow, parse_match};
use openflow::{DecodeOptions, EncodeOptions, Message, Version, decode, encode};

/// Returns a port-mod of one version that sets all bits.
fn port_mod_of_all_bits(version: Version) -> Vec<u8> {
    let (port, later): (&[u8], usize) =
        if version == Version::V10 { (&[0, 1], 0) } else { (&[0, 0, 0, 1, 0, 0, 0, 0], 2) };
    let message_type = if version == Version::V10 { 15 } else { 16 };
    let advertise = if version >= Version::V14 { 0 } else { 8 };
    let mut bytes = vec![version as u8, message_type, 0, 0, 0, 0, 0, 7];
    bytes.extend(port);
    bytes.extend([2, 0, 0, 0, 0, 1]);
    bytes.extend(vec![0; later]);
    bytes.extend([0xff; 8]);
    bytes.extend(vec![0; advertise]);
    let len = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// A bit that is undefined in later versions set OpenFlow 1.0's NO_FLOOD.
#[test]
fn a_port_mod_sets_the_bits_of_its_version_alone() {
    for version in Version::ALL {
        let bytes = port_mod_of_all_bits(version);
        let (xid, message) = decode(version, &bytes, &DecodeOptions::default()).unwrap();
        let Message::PortMod { config, mask, .. } = &message else { panic!("{message:?}") };
        assert_eq!(config, mask);
        let wanted = match version {
            Version::V10 => PortConfig::all(),
            _ => {
                PortConfig::PORT_DOWN
                    | PortConfig::NO_RECV
                    | PortConfig::NO_FWD
                    | PortConfig::NO_PACKET_IN
            }
        };
        assert_eq!(*mask, wanted, "{version:?}");
        let written = encode(version, xid, &message, &EncodeOptions::default());
        assert_eq!(decode(version, &written[0], &DecodeOptions::default()), Ok((xid, message)));
    }
}

/// TCP flags were accepted without TCP, and not printed.
#[test]
fn a_match_on_tcp_flags_needs_tcp() {
    let no_names = |_: &str| None;
    for text in ["tcp_flags=59", "tcp_flags(59)", "udp,tcp_flags=+syn", "arp,tcp_flags=1"] {
        let error = parse_match(text, &no_names).expect_err(text).to_string();
        assert!(error.contains("tcp_flags"), "{error}");
    }
    for text in ["tcp,tcp_flags=+syn", "tcp6,tcp_flags=+syn-ack"] {
        let matching = parse_match(text, &no_names).unwrap();
        assert_eq!(format_match(&matching, None), text);
    }
}

/// A port of the original direction was accepted without its protocol, and not printed.
#[test]
fn a_match_on_ct_ports_needs_their_protocol() {
    let no_names = |_: &str| None;
    for text in ["ct_tp_dst(0x0800)", "ct_state=+est+trk,tcp,ct_tp_src=5"] {
        let error = parse_match(text, &no_names).expect_err(text).to_string();
        assert!(error.contains("ct_tp_"), "{error}");
    }
    let text = "ct_state=+est+trk,ct_nw_proto=6,ct_tp_dst=5,ip";
    assert_eq!(format_match(&parse_match(text, &no_names).unwrap(), None), text);
}

/// Connection addresses were accepted without a connection, and IPv6 ones printed as IPv4.
#[test]
fn a_match_on_a_connections_tuple_needs_a_connection_of_its_family() {
    let no_names = |_: &str| None;
    for (text, hint) in [
        ("ct_ipv6_dst=fd00::2", "ct_state"),
        ("ct_nw_proto=6", "ct_state"),
        ("ct_state=+trk,ip,ct_nw_dst=10.0.0.1", "ct_state"),
        ("ct_state=+inv+trk,ip,ct_nw_proto=6", "ct_state"),
        ("ct_state=+est+trk,ct_nw_dst=10.0.0.1", "family"),
        ("ct_state=+est+trk,ip,ct_ipv6_dst=fd00::2", "family"),
        ("ct_state=+est+trk,arp,ct_nw_src=10.0.0.1", "family"),
    ] {
        let error = parse_match(text, &no_names).expect_err(text).to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
    for text in [
        "ct_state=-inv+trk,ct_nw_src=10.0.0.1,ip",
        "ct_state=+new,ct_nw_proto=6,ip",
        "ct_state=+est,ct_ipv6_dst=fd00::2,ipv6",
    ] {
        assert_eq!(format_match(&parse_match(text, &no_names).unwrap(), None), text);
    }
}

/// Parts of an ICMP code were matched under its OpenFlow 1.0 name, and not printed.
#[test]
fn icmp_types_and_codes_are_whole_bytes_under_every_name() {
    let no_names = |_: &str| None;
    for text in ["icmp6,tp_dst=32768/0x8000", "icmp,tp_src=8/0xff", "icmp,tp_src=0x108"] {
        let error = parse_match(text, &no_names).expect_err(text).to_string();
        assert!(error.contains("0 to 255"), "{text}: {error}");
    }
    let found = parse_match("icmp,tp_src=8,tp_dst=0", &no_names).unwrap();
    assert_eq!(format_match(&found, None), "icmp,icmp_type=8,icmp_code=0");
}

/// An empty `clone` was printed as an empty text, which could not be parsed.
#[test]
fn a_clone_that_does_nothing_drops() {
    let no_names = |_: &str| None;
    for text in ["clone(drop)", "clone()", "clone=", "clone"] {
        let actions = parse_actions(text, &no_names).expect(text);
        assert_eq!(format_actions(&actions, &Match::any()), "clone(drop)", "{text}");
    }
}

/// A load into the ECN bits of `nw_tos`, which it does not set, was printed as an empty text. Open vSwitch keeps it.
#[test]
fn a_load_sets_something() {
    let no_names = |_: &str| None;
    let cases = [
        ("load:1->nw_tos[1]", "load:0x1->NXM_OF_IP_TOS[1]"),
        ("load:0->NXM_OF_IP_TOS[0..1]", "load:0->NXM_OF_IP_TOS[0..1]"),
    ];
    for (text, expect) in cases {
        let actions = parse_actions(text, &no_names).expect(text);
        assert_eq!(format_actions(&actions, &Match::any()), expect);
    }
}

/// An empty list was accepted, and printed as a text that could not be parsed.
#[test]
fn dec_ttl_tells_a_controller() {
    let no_names = |_: &str| None;
    let error = parse_actions("dec_ttl(,,)", &no_names).unwrap_err().to_string();
    assert!(error.contains("controller's id"), "{error}");
    for (text, printed) in
        [("dec_ttl", "dec_ttl"), ("dec_ttl()", "dec_ttl"), ("dec_ttl(1,2)", "dec_ttl(1,2)")]
    {
        let actions = parse_actions(text, &no_names).expect(text);
        assert_eq!(format_actions(&actions, &Match::any()), printed, "{text}");
    }
}

/// A resubmit without parentheses could loop to the same table.
#[test]
fn a_resubmit_goes_somewhere_else() {
    let no_names = |_: &str| None;
    for text in ["resubmit:in_port", "resubmit(in_port,)", "resubmit(,255)"] {
        let error = parse_actions(text, &no_names).expect_err(text).to_string();
        assert!(error.contains("same table and port"), "{text}: {error}");
    }
}

/// A set-async without some message types was encoded as one that disables them.
#[test]
fn a_set_async_leaves_unsaid_what_it_did() {
    // NXT_SET_ASYNC_CONFIG2 without properties, and with one: packet-ins for a primary.
    let properties: [&[u8]; 2] = [&[], &[0, 1, 0, 8, 0, 0, 0, 7]];
    for version in [Version::V10, Version::V13] {
        for properties in properties {
            let mut bytes = vec![version as u8, 4, 0, 16 + properties.len() as u8, 0, 0, 0, 7];
            bytes.extend([0, 0, 0x23, 0x20, 0, 0, 0, 27]);
            bytes.extend(properties);
            let (xid, message) = decode(version, &bytes, &DecodeOptions::default()).unwrap();
            let Message::SetAsync(masks) = &message else { panic!("{message:?}") };
            assert_eq!(masks.port_status, [None; 2]);
            let written = encode(version, xid, &message, &EncodeOptions::default());
            assert_eq!(written, [bytes], "{version:?}");
        }
    }
}

/// The 32-bit port number was stored as bits of the 16-bit one, which has fewer.
#[test]
fn a_wide_port_number_keeps_its_name() {
    let no_names = |_: &str| None;
    // A load in OpenFlow 1.0 and 1.3: from 1.5 on it is a set-field, which OpenFlow does not permit for it.
    for (text, printed) in [
        ("push:OXM_OF_IN_PORT[]", "push:OXM_OF_IN_PORT[]"),
        ("load:0x10002->OXM_OF_IN_PORT[]", "load:0x10002->OXM_OF_IN_PORT[]"),
        ("load:0xffff->in_port_oxm[16..31]", "load:0xffff->OXM_OF_IN_PORT[16..31]"),
        ("load:LOCAL->OXM_OF_IN_PORT[]", "load:0xfffffffe->OXM_OF_IN_PORT[]"),
        ("load:2->in_port", "load:0x2->NXM_OF_IN_PORT[]"),
        ("set_field:2->in_port", "set_field:2->in_port"),
    ] {
        let actions = parse_actions(text, &no_names).expect(text);
        assert_eq!(format_actions(&actions, &Match::any()), printed, "{text}");
        let flow = parse_flow(&format!("actions={text}"), FlowModCommand::Add, &no_names).unwrap();
        for version in [Version::V10, Version::V13] {
            let message = Message::FlowMod(flow.clone());
            let bytes = encode(version, 1, &message, &EncodeOptions::default()).concat();
            let (_, back) = decode(version, &bytes, &DecodeOptions::default()).expect(text);
            let Message::FlowMod(back) = back else { panic!("{back:?}") };
            let again = format_actions(&back.actions, &Match::any());
            // OpenFlow 1.0 has no set_field.
            let again = again.replace("load:0x2->NXM_OF_IN_PORT[]", "set_field:2->in_port");
            let printed = printed.replace("load:0x2->NXM_OF_IN_PORT[]", "set_field:2->in_port");
            assert_eq!(again, printed, "{version:?} {text}");
        }
    }
}
