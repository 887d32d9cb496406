//! The arguments of `ofproto/trace` (ovs: `ofproto/ofproto-dpif-trace.c`, `parse_packet_and_packet`).

use crate::Switch;
use base::{OfPort, PortNo, RecircId};
use flow::{CtState, Field, FlowKey, Frame};
use ofproto::TraceRequest;
use ofproto::text::parse_packet;
use openflow::OfError;
use packet::Packet;
use port_dummy::frame;

/// Bytes of an Ethernet header.
const HEADER: usize = 14;
/// Maximum payload of a generated packet.
const PAYLOAD_MAX: usize = 64_000;

/// Parses the arguments: options, `{[dp_name] odp_flow | bridge br_flow}` and a packet's bytes.
pub(super) fn read(switch: &Switch, words: &[String]) -> Result<TraceRequest, String> {
    let (mut ct_next, mut rest) = (Vec::new(), Vec::new());
    let (mut names, mut generate) = (false, false);
    let mut payload = frame::payload(frame::PAYLOAD_BYTES);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--names" | "-names" => names = true,
            "--no-names" => names = false,
            "-generate" | "--generate" => generate = true,
            "--l7" => payload = hex(words.next().ok_or_else(|| missing(word))?)?,
            "--l7-len" => payload = payload_of(words.next().ok_or_else(|| missing(word))?)?,
            // Actions that a controller must not use are always rejected.
            "-consistent" | "--consistent" => {}
            "--ct-next" | "-ct-next" => {
                let list = words.next().ok_or_else(|| missing(word))?;
                ct_next.push(states(list)?);
            }
            text => match text.strip_prefix("--ct-next=") {
                Some(list) => ct_next.push(states(list)?),
                None if text.starts_with('-') => return Err(format!("{text}: unknown option")),
                None => rest.push(text),
            },
        }
    }
    // The last of two arguments may be a packet or a flow, the last of three must be a packet.
    let packet = match rest.split_last() {
        Some((last, before)) if !generate && !before.is_empty() => match packet(last) {
            Ok(packet) => {
                rest.pop();
                Some(packet)
            }
            Err(error) if before.len() > 1 => return Err(error),
            Err(_) => None,
        },
        _ => None,
    };
    let mut request = match rest.as_slice() {
        [flow] => flow_of(switch, None, flow)?,
        [of, flow] => flow_of(switch, Some(of), flow)?,
        [_, _, _, ..] => return Err("too many arguments".to_owned()),
        [] => return Err("Syntax error".to_owned()),
    };
    if let Some(bytes) = packet {
        request.key = key_of(&bytes, &request.key)?;
        request.packet = Some(bytes);
    } else if generate {
        request.packet = Some(frame::compose_with(&request.key, &payload));
    }
    (request.ct_next, request.names) = (ct_next, names);
    Ok(request)
}

/// Parses a flow of a datapath or of a bridge, whose name may precede it.
fn flow_of(switch: &Switch, of: Option<&str>, text: &str) -> Result<TraceRequest, String> {
    let (text, skb_priority) = without_skb_priority(text)?;
    let device = |name: &str| switch.devices().number_of(name);
    let mut request = match (parse_packet(&text, &device), of) {
        (Ok(key), of) => {
            if of.is_some_and(|name| !is_datapath(switch, name)) {
                return Err("Cannot find the datapath".to_owned());
            }
            of_datapath(switch, key)?
        }
        (Err(_), None) => {
            return Err(format!("syntax error at {text} (or the bridge name was omitted)"));
        }
        (Err(_), Some(name)) => {
            let bridge = switch.ofproto().bridges().named(name);
            let bridge = bridge.ok_or_else(|| format!("{name}: unknown bridge"))?;
            let ports = |name: &str| bridge.port_named(name).map(|port| port.number);
            let mut matching = openflow::text::parse_match(&text, &ports)
                .map_err(|error| format!("Bad openflow flow syntax: {error}"))?;
            let wrong = |error: OfError| format!("Bad openflow flow syntax: {}", error.reason);
            bridge.place_match(&mut matching).map_err(wrong)?;
            let mut key = matching.key().clone();
            key.unmap_options(bridge.tunnel_options());
            if !matching.mask().has(Field::InPort) {
                key.set_in_port_raw(OfPort::NONE.0.into());
            }
            // A packet without an Ethernet header says its Ethernet type by its packet type.
            if key.get(Field::PacketType) != 0 {
                key.set_eth_type(key.get(Field::PacketType) as u16);
            }
            TraceRequest::new(bridge.id, key)
        }
    };
    request.skb_priority = skb_priority;
    Ok(request)
}

/// Returns whether this is the name of the switch's own datapath, with or without its type.
fn is_datapath(switch: &Switch, name: &str) -> bool {
    let own = switch.settings.dummy.datapath_name();
    let (kind, plain) = own.split_once('@').unwrap_or(("", own));
    let also_system =
        !switch.settings.dummy.is_enabled() && matches!(name, "ovs-system" | "system");
    also_system || [own, kind, plain].contains(&name) || name.ends_with("@ovs-system")
}

/// Returns the request for a datapath's packet: at its bridge's port, or where it was frozen.
fn of_datapath(switch: &Switch, mut key: FlowKey) -> Result<TraceRequest, String> {
    if key.recirc_id() != RecircId(0) && !switch.ofproto().is_frozen(key.recirc_id()) {
        return Err(format!("no recirculation data for recirc_id {:#x}", key.recirc_id().0));
    }
    let number = key.in_port();
    let (bridge, port) =
        switch.ofproto().bridges().of_packet(&key).ok_or_else(|| match key.has_tunnel() {
            true => "no OpenFlow tunnel port for this packet".to_owned(),
            false => format!("no OpenFlow port for datapath port {number}"),
        })?;
    key.set_in_port_raw(port.0.into());
    Ok(TraceRequest::new(bridge, key))
}

/// Removes `skb_priority`, a property of packets in Linux that is not used here.
fn without_skb_priority(text: &str) -> Result<(String, u32), String> {
    for (name, end) in [("skb_priority(", ')'), ("skb_priority=", ',')] {
        let Some((before, behind)) = text.split_once(name) else { continue };
        let (value, rest) = behind.split_once(end).unwrap_or((behind, ""));
        let number = value.split('/').next().unwrap_or(value);
        let number = match number.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        };
        let number = number.map_err(|_| format!("skb_priority: {value} is not a number"))?;
        let rest = rest.trim_start_matches(',');
        let before = if rest.is_empty() { before.trim_end_matches(',') } else { before };
        return Ok((format!("{before}{rest}"), number));
    }
    Ok((text.to_owned(), 0))
}

/// Returns the packet's key, with the fields of the flow that are not in its headers.
fn key_of(bytes: &[u8], flow: &FlowKey) -> Result<FlowKey, String> {
    let packet = Packet::from_bytes(bytes);
    let frame = Frame::parse(packet, PortNo(flow.in_port().0))
        .map_err(|_| "packet is too short".to_owned())?;
    let mut key = frame.key;
    for &field in Field::BASIC {
        let is_beside = field.is_pipeline()
            || field.is_ct()
            || field.is_tunnel()
            || matches!(field, Field::PktMark | Field::DpHash | Field::RecircId);
        if is_beside {
            key.set(field, flow.get(field));
        }
    }
    Ok(key)
}

fn packet(text: &str) -> Result<Vec<u8>, String> {
    let bytes = hex(text)?;
    let is_whole = bytes.len() >= HEADER;
    is_whole.then_some(bytes).ok_or("Packet data too short for Ethernet".to_owned())
}

/// Parses pairs of digits, which spaces may separate.
fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.chars().filter(|letter| !letter.is_ascii_whitespace());
    let digits: Option<Vec<u8>> =
        digits.map(|it| it.to_digit(16).map(|digit| digit as u8)).collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 => {
            Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        _ => Err("Trailing garbage in packet data".to_owned()),
    }
}

/// The payload of this length. A text that is no number counts as 0.
fn payload_of(length: &str) -> Result<Vec<u8>, String> {
    let end = length.find(|it: char| !it.is_ascii_digit() && it != '-').unwrap_or(length.len());
    let bytes = length[..end].parse::<i64>().unwrap_or(0);
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= PAYLOAD_MAX => Ok(frame::payload(bytes)),
        _ => Err(format!("{length}: too much L7 data")),
    }
}

fn missing(option: &str) -> String {
    format!("Missing argument for option {option}")
}

/// Parses `trk,new` or `trk|new`.
fn states(list: &str) -> Result<CtState, String> {
    let mut states = CtState::empty();
    for word in list.split([',', '|', ' ']).filter(|word| !word.is_empty()) {
        let known = CtState::NAMES.iter().find(|(_, name)| *name == word);
        let (state, _) =
            known.ok_or_else(|| format!("{word}: unknown connection tracking state flag"))?;
        states |= *state;
    }
    Ok(states | CtState::TRK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_packets_are_read() {
        assert_eq!(states("trk,new"), Ok(CtState::TRK | CtState::NEW));
        assert_eq!(states("est|rpl"), Ok(CtState::TRK | CtState::EST | CtState::RPL));
        let error = states("trk,nosuch").unwrap_err();
        assert_eq!(error, "nosuch: unknown connection tracking state flag");
        assert_eq!(packet("0a1B0a1B0a1B0a1B0a1B0a1B0a1B").map(|bytes| bytes.len()), Ok(14));
        for (text, what) in [("0a1", "garbage"), ("0a1b", "short"), ("xy", "garbage")] {
            assert!(packet(text).unwrap_err().contains(what), "{text}");
        }
    }

    #[test]
    fn payloads_are_read() {
        for (text, expect) in
            [("0a1b", Ok(2)), ("0a 1b", Ok(2)), ("", Ok(0)), ("0a1", Err("garbage"))]
        {
            let got = hex(text).map(|bytes| bytes.len());
            assert_eq!(got.is_ok(), expect.is_ok(), "{text}");
            assert!(
                got.map_or_else(|error| error.contains(expect.unwrap_err()), |it| Ok(it) == expect)
            );
        }
        for (text, expect) in [
            ("0", Some(0)),
            ("100", Some(100)),
            ("64000", Some(64_000)),
            ("64001", None),
            ("-1", None),
            ("7x", Some(7)),
            ("x", Some(0)),
        ] {
            assert_eq!(payload_of(text).ok().map(|bytes| bytes.len()), expect, "{text}");
        }
    }

    #[test]
    fn the_priority_that_linux_keeps_is_taken_out() {
        let cases = [
            ("in_port(1),skb_priority(1),skb_mark(2)", "in_port(1),skb_mark(2)", 1),
            ("skb_priority(0x7/0xff),in_port(1)", "in_port(1)", 7),
            ("in_port=2,skb_priority=2", "in_port=2", 2),
            ("in_port=2,skb_priority=2,pkt_mark=1", "in_port=2,pkt_mark=1", 2),
            ("in_port=2", "in_port=2", 0),
        ];
        for (text, rest, priority) in cases {
            assert_eq!(without_skb_priority(text), Ok((rest.to_owned(), priority)), "{text}");
        }
    }
}
